"""What is wrong with a row that does not decode, as the end of a sentence.

The strict decoder says only where it stopped. Reading the row again with a lenient one tells which field holds
the NaN, the infinity or the broken character, when that is all that is wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

LENIENT_BYTES = 1024 * 1024
# Python refuses to spell out integers of more than 4,300 digits.
MOST_BITS = 14_000


def describe_fault(line: bytes, reason: str) -> str:
    """The fault of an undecodable row; the field is named where it can be told."""
    named = _field_fault(line)
    if named:
        return named
    if "truncated" in reason:
        return "is not JSON: it is cut off"
    return f"is not JSON: {reason.removeprefix('JSON is malformed: ')}"


def value_fault(row: object) -> str:
    """The first value that JSON or UTF-8 cannot carry, with its field; empty where there is none."""
    for path, value in _leaves(row, ""):
        fault = _leaf_fault(value)
        if fault:
            return f"holds {fault} in the field {path!r}"
    return ""


def _field_fault(line: bytes) -> str:
    if len(line) > LENIENT_BYTES:
        return ""
    try:
        return value_fault(json.loads(line.decode(errors="surrogateescape")))
    except (ValueError, RecursionError):
        return ""


def _leaf_fault(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "an infinite number"
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return "an integer of too many digits"
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return "text that is not valid UTF-8"
    return ""


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every scalar and every key of a value, with its dotted path; cycles and depth are left to the encoder."""
    waiting = [(path, value)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, dict):
            yield from ((place, key) for key in item)
            waiting += [(f"{place}.{key}".lstrip("."), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list | tuple):
            waiting += [(f"{place}.{index}".lstrip("."), inner) for index, inner in reversed([*enumerate(item)])]
        else:
            yield place, item
