"""The names of the benchmarks, and the module behind each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

NAMES = (
    "group_commit",
    "scan",
    "check",
    "open",
    "memory",
    "trial",
    "http",
    "latency",
    "resume",
    "recover",
    "help",
    "verbs",
    "sampling",
    "killed",
    "code",
)
_MODULES = {"open": "opening", "http": "over_http", "resume": "resuming", "help": "helping", "code": "comparing"}


def module_of(name: str) -> str:
    return f"bench.{_MODULES.get(name, name)}"


def refuse_unknown(names: Sequence[str], parser: argparse.ArgumentParser) -> None:
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(NAMES)}")
