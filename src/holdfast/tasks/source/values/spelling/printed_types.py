"""Types of Python whose own spelling as text is complete, and the same everywhere."""

from __future__ import annotations

import array
import datetime as dt
import pathlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holdfast.tasks.source.values.type_parts import (
    type_label,
    type_module,
)


def _pattern_text(value: re.Pattern[Any]) -> str:
    return f"{value.pattern!r} {value.flags}"


def _moment_text(value: Any) -> str:
    """A date or a time; a time zone of a person's own class is not asked anything."""
    zone = value.tzinfo
    known = type(zone) is dt.timezone or type_module(type(zone)) == "zoneinfo"
    said = "" if zone is None else str(zone) if known else type_label(type(zone))
    return f"{value.replace(tzinfo=None).isoformat()} {said} {value.fold}".strip()


PRINTED: dict[type, Callable[[Any], str]] = {
    range: str,
    **dict.fromkeys((dt.date, dt.timedelta, dt.timezone, type(...), type(NotImplemented)), repr),
    **dict.fromkeys((dt.datetime, dt.time), _moment_text),
    **dict.fromkeys((pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath), str),
    re.Pattern: _pattern_text,
    **dict.fromkeys((bytearray, msgspec.Raw), lambda value: bytes(value).decode("latin-1")),
    array.array: lambda value: f"{value.typecode} {value.tobytes().hex()}",
}
"""Types of Python whose own spelling is complete, and the same everywhere."""
PRINTED_IF_LOADED = ("decimal.Decimal", "fractions.Fraction", "uuid.UUID", "zoneinfo.ZoneInfo")
"""Such types in modules that take time to load: without the module there is no such value."""


def loaded_types(names: Iterable[str]) -> list[type]:
    """Those of the types whose modules are loaded."""
    parts = (name.rpartition(".") for name in names)
    return [getattr(sys.modules[module], name) for module, _, name in parts if module in sys.modules]
