"""What a comparison accepts: the value of a trial on its left, the operator, and the text on its right.

A tester is only asked about a value that is there. Numbers are compared as numbers, text as it is; a truth value, a
list or a map has the text that it has in JSON.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import TypeGuard

Tester = Callable[[object], bool]

EQUALITIES = ("=", "!=")
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ORDERS = tuple(symbol for symbol in _COMPARED if symbol not in EQUALITIES)
_NUMBER = re.compile(r"(?P<whole>[+-]?[0-9]+)|[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NUMBER_CHARACTERS = 400
"""Longer text is not read as a number, so that reading it always takes a short time."""


def is_missing(value: object) -> bool:
    """Whether there is nothing to compare with; a number that is NaN equals nothing and differs from nothing."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_number(text: str) -> float | None:
    """The finite number that a text is, or None; whole numbers stay exact, however large."""
    match = _NUMBER.fullmatch(text) if len(text) <= _NUMBER_CHARACTERS else None
    if match is None:
        return None
    number = int(text) if match["whole"] else float(text)
    return number if isinstance(number, int) or math.isfinite(number) else None


def text_tester(symbol: str, wanted: str) -> Tester:
    """For values that are text: `=`, `!=`, and `~` for text that contains another, whatever its case."""
    if symbol == "~":
        folded = wanted.casefold()
        return lambda value: folded in _as_text(value).casefold()
    return (lambda value: _as_text(value) == wanted) if symbol == "=" else (lambda value: _as_text(value) != wanted)


def prefix_tester(symbol: str, wanted: str) -> Tester:
    """For values of which the beginning is enough; `~` as for all text."""
    if symbol == "~":
        return text_tester(symbol, wanted)
    is_equal = symbol == "="
    return lambda value: _as_text(value).startswith(wanted) is is_equal


def number_tester(symbol: str, wanted: float) -> Tester:
    """For values that are numbers; any other value fails the test."""
    compared = _COMPARED[symbol]
    return lambda value: isinstance(value, int | float) and compared(value, wanted)


def mixed_tester(symbol: str, wanted: str) -> Tester:
    """For values of any kind. Text that is a number is ordered as one, but equals only the very same text."""
    number = read_number(wanted)
    if symbol in ORDERS:
        return _order_tester(symbol, number)
    as_text = text_tester(symbol, wanted)
    if number is None or symbol == "~":
        return as_text
    as_number = number_tester(symbol, number)
    return lambda value: as_number(value) if _is_number(value) else as_text(value)


def _order_tester(symbol: str, wanted: float | None) -> Tester:
    if wanted is None:
        return lambda _: False
    compared = _COMPARED[symbol]

    def test(value: object) -> bool:
        number = read_number(value) if isinstance(value, str) else value
        return _is_number(number) and compared(number, wanted)

    return test


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    import json  # noqa: PLC0415 - few values are not text already

    return json.dumps(value, ensure_ascii=False, default=str)
