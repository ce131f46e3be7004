"""Costs as people read them: with their currency, and never as 0 where they are not."""

from __future__ import annotations

import math

_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
_SMALLEST = 1e-6
_LONGEST_NAME = 12


def money_text(amount: float, currency: str) -> str:
    """An amount: "$12.30", "$0.00021", "CHF 0.25"; a tiny one keeps two digits, down to a millionth."""
    mark = _SYMBOLS.get(currency, f"{currency[:_LONGEST_NAME]} ")
    if 0 < amount < _SMALLEST:
        return f"<{mark}0.000001"
    return f"{mark}{amount:,.{_decimals(amount)}f}"


def _decimals(amount: float) -> int:
    """Two, and below 0.1 as many as two digits need."""
    if amount <= 0 or amount >= 0.1:
        return 2
    return 1 - math.floor(math.log10(amount))


def cost_text(cost: float | None, currency: str, *, is_lower_bound: bool = False) -> str:
    """The cost, as the end of a line; nothing where it is not known."""
    least = "at least " if is_lower_bound else ""
    return f"; cost {least}{money_text(cost, currency)}" if cost is not None else ""
