"""Durations as text: `90s`, `2m`, `1h30m`, `500ms`, `1d`. Loading turns them into seconds, so `2m` equals `120`."""

from __future__ import annotations

import re
from decimal import Decimal

_SECONDS = {"d": Decimal(86_400), "h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_PARTS = "".join(rf"(?:[0-9]+(?:\.[0-9]+)?{unit})?" for unit in _SECONDS)
DURATION_PATTERN = rf"^(?=[0-9]){_PARTS}$"
"""The largest unit first, each unit at most once. As a regular expression of JSON Schema, and of Python."""
LONGEST_DURATION = 60


def parse_duration(text: str) -> float | None:
    """The seconds that a text means; None where it is not a duration."""
    if len(text) > LONGEST_DURATION or not re.fullmatch(DURATION_PATTERN, text):
        return None
    # In decimals: 1.15m is 69 seconds, as floats it would not quite be.
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9.]+)(ms|[dhms])", text)))
