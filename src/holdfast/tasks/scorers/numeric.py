"""The number in the answer equals the number in a target, within a tolerance.

The values are compared exactly unless a tolerance is given; how numbers are read is said in `number`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, ClassVar

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.scorers.comparable_text import target_texts
from holdfast.tasks.scorers.number_parser import Decimal, Number, last_number

_DIGIT = re.compile(r"\d")
_IN_DIGITS = "Write it in digits, or use another scorer for this task."

Tolerance = Annotated[float, msgspec.Meta(ge=0, le=1e300)]


class Numeric(BuiltIn, frozen=True, kw_only=True):
    r"""True if the last number of the answer, or of its last `\boxed{}`, equals one of the sample's targets.

    `1,234.5`, `3/4`, `5 km` and `45%` are read as numbers; `1.2.3` and `2 million` are not.
    """

    kind: ClassVar[str] = "numeric"
    revision: ClassVar[int] = 2

    name: str = "numeric"
    absolute: Tolerance = 0.0
    """The largest difference from the target that still counts as equal. Example: `0.01`"""

    relative: Tolerance = 0.0
    """The same as a share of the target: 0.05 is 5 %. The wider of the two tolerances counts. Example: `0.05`"""

    decimal: Decimal = "."
    """The decimal separator, in answers and targets. Example: `','`"""

    def judge(self, text: str, sample: Sample) -> Score:
        found = last_number(text, self.decimal)
        if found is None:
            return Score(False, explanation="There is no number that can be read without guessing.")
        wanted = (self._target(target, "the sample") for target in target_texts(sample, self.name))
        return Score(any(self._equal(found, target) for target in wanted), answer=spelled_number(found))

    def check_target(self, sample: Sample, place: str) -> None:
        for target in target_texts(sample, self.name, place):
            self._target(target, place)

    def _target(self, text: str, place: str) -> Number:
        found = last_number(text, self.decimal)
        if found is None:
            raise ConfigurationError(
                f"The scorer {self.name!r} needs a number, and the target of {place} is {text[:60]!r}.",
                hint=f"Write it with {self.decimal!r} before its decimals." if _DIGIT.search(text) else _IN_DIGITS,
            )
        return found

    def _equal(self, found: Number, target: Number) -> bool:
        if found.percent == target.percent:
            return self._near(found.value, target.value)
        return any(self._near(mine, theirs) for mine in found.readings() for theirs in target.readings())

    def _near(self, found: Fraction, target: Fraction) -> bool:
        allowed = max(Fraction(self.absolute), Fraction(self.relative) * abs(target))
        return abs(found - target) <= allowed


def numeric(*, absolute: float = 0.0, relative: float = 0.0, decimal: Decimal = ".", name: str = "numeric") -> Numeric:
    """Compare the last number of the answer with the target."""
    arguments = {"absolute": absolute, "relative": relative, "decimal": decimal, "name": name}
    return Numeric.build(arguments, "numeric()")


def spelled_number(number: Number) -> str:
    """A short spelling; a whole number that a float can carry exactly is written as such."""
    value = number.value
    text = str(value.numerator) if value.denominator == 1 else repr(_as_float(value))
    return f"{text[:60]}%" if number.percent else text[:60]


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
