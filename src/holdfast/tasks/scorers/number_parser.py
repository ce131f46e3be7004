r"""Reading a number out of text, exactly or not at all.

With the decimal point (the default), commas may only separate thousands: `1,234.50` is a number, `1.234,5` and `1,5`
are not, and with `decimal=","` it is the other way round. Nothing is guessed: where the last number of a text is
malformed (`1.2.3`, `10^5`, `5k`, `2 million`), the text holds no number. Also read are signs, currency signs, units
(`5 km`, `5km`), per cent, `1e-3`, `3/4`, `1 3/4` and `\frac{3}{4}`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

import msgspec

Decimal = Literal[".", ","]

MOST_DIGITS = 400

_RUN = re.compile(
    r"""
    (?<![\w.,/^])
    (?P<sign>[-+\u2212]?) (?:[$€£¥]\s?)? (?P<inner>[-+\u2212]?)
    (?:(?P<whole>\d+)[ ](?=\d+\s?/\s?\d))?
    (?P<run>\d[\d.,]*|[.]\d[\d.,]*)
    (?P<exponent>[eE][-+]?\d+)?
    (?:\s?/\s?(?P<under>\d[\d.,/]*))?
    (?P<suffix>(?:\^\{[^{}]*\}|[\w^])*)
    (?P<percent>\s?\\?%|\s+per\s?cent\b)?
    (?P<scale>\s+(?:dozen|hundred|thousand|million|billion|trillion)\b)?
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_LATEX_FRACTION = re.compile(
    r"([-+\u2212]?)\s{0,4}\\[dt]?frac\{\s{0,4}([-+\u2212]?[\d.,]+)\s{0,4}\}\{\s{0,4}([\d.,]+)\s{0,4}\}"
)
_NARROW_SPACES = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
_UNIT = re.compile(r"(?![kmbt]\Z|[mb]n\Z)[a-z]*", re.IGNORECASE)
_WELL_FORMED = {
    ".": re.compile(r"(?:\d+|\d{1,3}(?:,\d{3})+)?(?:\.\d+)?", re.ASCII),
    ",": re.compile(r"(?:\d+|\d{1,3}(?:\.\d{3})+)?(?:,\d+)?", re.ASCII),
}


class Number(msgspec.Struct, frozen=True):
    """An exact value, and whether it was written in per cent (`value` is then what is before the sign)."""

    value: Fraction
    percent: bool = False

    def readings(self) -> tuple[Fraction, ...]:
        """What the number may mean: `45%` is 0.45, and is also the 45 of a question that asks for per cent."""
        return (self.value, self.value / 100) if self.percent else (self.value,)


def last_number(text: str, decimal: Decimal = ".") -> Number | None:
    r"""The last number in the last `\boxed{}`, or else in the text; None if no number can be read."""
    boxed = last_boxed(text)
    plain = _plain_text(text if boxed is None else boxed)
    found = None
    for match in _RUN.finditer(plain):
        found = match
    return None if found is None else _parse_number(found, decimal)


def last_boxed(text: str) -> str | None:
    r"""What the last `\boxed{...}` holds; None if absent or its brace stays open."""
    opening = "\\boxed{"
    start = text.rfind(opening)
    depth = 0
    for position in range(max(start, 0), len(text) if start >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0 and text[position] == "}":
            return text[start + len(opening) : position]
    return None


def _plain_text(text: str) -> str:
    plain = _LATEX_FRACTION.sub(r" \1\2/\3", text)
    for latex, meant in (("\\$", "$"), ("\\,", ""), ("\\!", ""), ("{,}", ",")):
        plain = plain.replace(latex, meant)
    return _NARROW_SPACES.sub("", plain)


def _parse_number(found: re.Match[str], decimal: Decimal) -> Number | None:
    if found["scale"] or not _UNIT.fullmatch(found["suffix"]):
        return None
    value = _magnitude(found, decimal)
    if value is None:
        return None
    negative = (found["sign"] + found["inner"]).strip("+") != ""
    return Number(-value if negative else value, percent=found["percent"] is not None)


def _magnitude(found: re.Match[str], decimal: Decimal) -> Fraction | None:
    under, exponent = found["under"], found["exponent"] or ""
    run = found["run"] if under or exponent else found["run"].rstrip(".,")
    value = _exact_value(run, exponent, decimal)
    whole = _exact_value(found["whole"] or "0", "", decimal)
    divisor = _exact_value(under.rstrip(".,"), "", decimal) if under else Fraction(1)
    if value is None or whole is None or not divisor:
        return None
    return whole + value / divisor


def _exact_value(run: str, exponent: str, decimal: Decimal) -> Fraction | None:
    if not run or len(run) > MOST_DIGITS or not _WELL_FORMED[decimal].fullmatch(run):
        return None
    if len(exponent) > 5 or abs(int(exponent[1:] or "0")) > MOST_DIGITS:
        return None
    thousands = "," if decimal == "." else "."
    return Fraction(run.replace(thousands, "").replace(",", ".") + exponent)
