"""Two configurations as plain data: where they differ, however each is written down.

Unlike the gate, which asks what a difference means, this asks only whether somebody has edited a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.spec.canonical import plain_data
from holdfast.spec.compare import same_value
from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.loading.load import typed_eval
from holdfast.spec.resolved_eval import resolve


def edited_values(data: Any, config: dict[str, Any]) -> list[str]:
    """The places where data from a file says something else than a resolved configuration."""
    try:
        ours = plain_data(resolve(typed_eval(config)), explicit=True)
        theirs = plain_data(resolve(typed_eval(data)), explicit=True)
    except ConfigurationError:
        ours, theirs = config, data
    return list(_unequal_paths(ours, theirs, ""))


def _unequal_paths(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            yield from _unequal_paths(ours.get(name), theirs.get(name), key_path(path, name))
    elif not same_value(ours, theirs):
        yield path or "all of it"
