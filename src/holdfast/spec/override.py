"""Changing single keys of an eval from the command line: `--set runner.concurrency_limit=8`, `--epochs 4`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import UsageError
from holdfast.spec.canonical import plain
from holdfast.spec.eval import EvalSpec
from holdfast.spec.load import typed_eval


def override(spec: EvalSpec, changes: Mapping[str, Any]) -> EvalSpec:
    """The eval with each dotted path set to its value; a ConfigurationError names a path that does not exist."""
    data = plain(spec)
    for path, value in changes.items():
        _put(data, path, value)
    return typed_eval(data, "the command line")


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *blocks, key = path.split(".")
    for block in blocks:
        below = data.setdefault(block, {})
        if not isinstance(below, dict):
            raise UsageError(f"{path} cannot be set: {block} is no block.", hint="Write it as it stands in the file.")
        data = below
    data[key] = value
    # The same setting may stand one level deeper, where loading has put it.
    if isinstance(data.get("runner"), dict):
        data["runner"].pop(key, None)
