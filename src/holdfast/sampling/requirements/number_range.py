"""`numeric`: the last number of a text can be read without guessing, and lies between two bounds."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Unpack

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming, bounds_text
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict
from holdfast.tasks.scorers.base import LONGEST_TEXT
from holdfast.tasks.scorers.number_parser import Decimal, last_number
from holdfast.tasks.scorers.numeric import spelled_number

Bound = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]


class NumericRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the answer's last number lies within the bounds; `45%` counts as 45 and as 0.45."""

    kind: ClassVar[str] = "numeric"

    min: Bound | None = None
    """The smallest allowed number. Example: `0`"""

    max: Bound | None = None
    """The largest allowed number. Example: `100`"""

    whole: bool = False
    """Whether the number must be an integer. Example: `true`"""

    decimal: Decimal = "."
    """The decimal separator. Example: `','`"""

    def prepare(self) -> None:
        least, most = _exact(self.min), _exact(self.max)
        if least is not None and most is not None and least > most:
            raise ConfigurationError(f"The requirement numeric has a min of {self.min} above its max of {self.max}.")
        self.__dict__["bounds"] = least, most

    def check(self, draft: Draft) -> Verdict:
        found = last_number(draft.text[-LONGEST_TEXT:], self.decimal)
        if found is None:
            return self.failed("The answer has no number, or its last one cannot be read without guessing.")
        if any(self._is_allowed(value) for value in found.readings()):
            return self.passed()
        return self.failed(f"The last number of the answer is {spelled_number(found)}; it must be {self._wanted()}.")

    def derived_description(self) -> str:
        return f"The last number of the answer must be {self._wanted()}."

    def _is_allowed(self, value: Fraction) -> bool:
        least, most = self.__dict__["bounds"]
        is_within = (least is None or value >= least) and (most is None or value <= most)
        return is_within and (not self.whole or value.denominator == 1)

    def _wanted(self) -> str:
        kind = "a whole number" if self.whole else "a plain number"
        bounds = bounds_text(self.min, self.max)
        return f"{kind}, {bounds}" if bounds else kind


def numeric(
    *,
    min: float | None = None,  # noqa: A002 - the name of the field
    max: float | None = None,  # noqa: A002 - as above
    whole: bool = False,
    decimal: Decimal = ".",
    **naming: Unpack[Naming],
) -> NumericRequirement:
    """The answer's last number is at least `min` and at most `max`; with `whole`, an integer.

    Raises:
        ConfigurationError: the bounds contradict each other, or an argument has the wrong type.
    """
    return NumericRequirement.build({"min": min, "max": max, "whole": whole, "decimal": decimal, **naming}, "numeric()")


def _exact(bound: float | None) -> Fraction | None:
    """The bound as it is written: 0.1 is a tenth, not the binary number next to it."""
    return None if bound is None else Fraction(str(bound))
