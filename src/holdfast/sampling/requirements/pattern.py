"""`regex`: the text contains what a regular expression describes, or is that as a whole."""

from __future__ import annotations

from contextlib import nullcontext
from typing import ClassVar, Unpack

from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming, quoted
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict
from holdfast.tasks.scorers.match_time_limit import PatternTooSlow, limit_match_time
from holdfast.tasks.scorers.regex import compiled_pattern

_REPETITIONS = frozenset("*+?{")


class RegexRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the pattern is found in the text; with `full`, if the whole text matches, white space included."""

    kind: ClassVar[str] = "regex"
    short_argument: ClassVar[str] = "pattern"

    pattern: str
    """The regular expression (Python's `re`) to find in the answer. Example: `'^[A-Z]'`"""

    full: bool = False
    """Whether the whole answer must match, white space included. Example: `true`"""

    ignore_case: bool = False
    """Whether upper and lower case are equal. Example: `true`"""

    def prepare(self) -> None:
        compiled = compiled_pattern(self.pattern, self.ignore_case)
        self.__dict__["match"] = compiled.fullmatch if self.full else compiled.search
        # Setting a timer takes longer than most matches, and without a repetition nothing backtracks for long.
        self.__dict__["may_be_slow"] = not _REPETITIONS.isdisjoint(self.pattern)

    def check(self, draft: Draft) -> Verdict:
        own = self.__dict__
        try:
            with limit_match_time(self.pattern) if own["may_be_slow"] else nullcontext():
                is_found = own["match"](draft.text) is not None
        except PatternTooSlow as error:
            return self.undecided(f"The regular expression {quoted(self.pattern)} takes too long on it.", error.kind)
        return self.passed() if is_found else self.failed(self._reason())

    def derived_description(self) -> str:
        case = ", in upper or lower case" if self.ignore_case else ""
        if self.full:
            return f"The whole answer must match the regular expression {quoted(self.pattern)}{case}."
        return f"The answer must contain a match of the regular expression {quoted(self.pattern)}{case}."

    def _reason(self) -> str:
        if self.full:
            return f"The answer as a whole does not match the regular expression {quoted(self.pattern)}."
        return f"The answer contains no match of the regular expression {quoted(self.pattern)}."


def regex(pattern: str, *, full: bool = False, ignore_case: bool = False, **naming: Unpack[Naming]) -> RegexRequirement:
    """The text contains a match of the pattern or, with `full`, matches it as a whole.

    Raises:
        ConfigurationError: the pattern is not a regular expression, or an argument has the wrong type.
    """
    return RegexRequirement.build({"pattern": pattern, "full": full, "ignore_case": ignore_case, **naming}, "regex()")
