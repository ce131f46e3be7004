"""`length`: how many characters, words or lines a text may have."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Unpack

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming, bounds_text
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict

Unit = Literal["characters", "words", "lines"]
Count = Annotated[int, msgspec.Meta(ge=0)]

_CHUNK = 1 << 20


class LengthRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the text has at least `min` and at most `max` of the unit."""

    kind: ClassVar[str] = "length"

    min: Count | None = None
    """The smallest length; `min`, `max` or both must be given. Example: `2`"""

    max: Count | None = None
    """The largest length. Example: `280`"""

    unit: Unit = "characters"
    """What is counted. Example: `words`"""

    def prepare(self) -> None:
        if self.min is None and self.max is None:
            raise ConfigurationError("The requirement length has no bound.", hint="Give min, max or both.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ConfigurationError(f"The requirement length has a min of {self.min} above its max of {self.max}.")

    def check(self, draft: Draft) -> Verdict:
        found = count_units(draft.text, self.unit)
        if (self.min is None or found >= self.min) and (self.max is None or found <= self.max):
            return self.passed()
        return self.failed(
            f"The answer has {found:,} {self.unit}; it must have {bounds_text(self.min, self.max)} {self.unit}."
        )

    def derived_description(self) -> str:
        return f"The answer must have {bounds_text(self.min, self.max)} {self.unit}."


def length(
    *,
    min: int | None = None,  # noqa: A002 - the name of the field
    max: int | None = None,  # noqa: A002 - as above
    unit: Unit = "characters",
    **naming: Unpack[Naming],
) -> LengthRequirement:
    """The text has at least `min` and at most `max` characters, words or lines.

    Raises:
        ConfigurationError: there is no bound, the two contradict each other, or an argument has the wrong type.
    """
    return LengthRequirement.build({"min": min, "max": max, "unit": unit, **naming}, "length()")


def count_units(text: str, unit: Unit) -> int:
    """How many characters, words or lines a text has; a line break at its end begins no line."""
    if unit == "characters":
        return len(text)
    if unit == "lines":
        return text.count("\n") + (text[-1:] not in {"", "\n"})
    return _count_words(text)


def _count_words(text: str) -> int:
    """The words between white space; piece by piece, since the list of all would take many times the text."""
    words, is_inside = 0, False
    for start in range(0, len(text), _CHUNK):
        piece = text[start : start + _CHUNK]
        words += len(piece.split()) - (is_inside and not piece[0].isspace())
        is_inside = not piece[-1].isspace()
    return words
