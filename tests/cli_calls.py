"""Calling the command line: in this process where that is enough, as a program where it must be."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import pytest

from holdfast.cli import main


class Told(NamedTuple):
    """What a verb said, and its exit code."""

    code: int
    out: str
    err: str


def call(capfdbinary, *words) -> Told:
    """Runs the command line in this process."""
    capfdbinary.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capfdbinary.readouterr()
    return Told(ended.value.code, out.decode(), err.decode())


def program(*words, **options) -> Told:
    """Runs the command line as a process of its own."""
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)
    return Told(done.returncode, done.stdout, done.stderr)
