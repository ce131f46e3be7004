"""`includes`: certain texts occur somewhere in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming, quoted
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict
from holdfast.tasks.scorers.comparable_text import folded_text

_NAMED = 5
_NAMED_CHARACTERS = 80


class IncludesRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the answer contains the text, or every one of several; white space around each does not count."""

    kind: ClassVar[str] = "includes"
    short_argument: ClassVar[str] = "text"

    text: str | tuple[str, ...]
    """The text that the answer must contain; with a list, every text of it. Example: `[premise, conclusion]`"""

    ignore_case: bool = False
    """Whether upper and lower case are equal. Example: `true`"""

    def prepare(self) -> None:
        wanted = (self.text,) if isinstance(self.text, str) else self.text
        folded = [(text, self._folded(text)) for text in wanted]
        if not folded or not all(plain for _, plain in folded):
            raise ConfigurationError("The requirement includes has an empty text, which every answer includes.")
        self.__dict__["wanted"] = folded

    def check(self, draft: Draft) -> Verdict:
        whole = self._folded(draft.text)
        missing = [text for text, plain in self.__dict__["wanted"] if plain not in whole]
        return self.failed(f"The answer does not contain {_named(missing)}.") if missing else self.passed()

    def derived_description(self) -> str:
        case = ", in upper or lower case" if self.ignore_case else ""
        return f"The answer must contain {_named([text for text, _ in self.__dict__['wanted']])}{case}."

    def _folded(self, text: str) -> str:
        return folded_text(text, ignore_case=self.ignore_case)


def includes(text: str | Sequence[str], *, ignore_case: bool = False, **naming: Unpack[Naming]) -> IncludesRequirement:
    """The answer contains the text, or all of several.

    Raises:
        ConfigurationError: a text is empty, or an argument has the wrong type.
    """
    given = text if isinstance(text, str) or not isinstance(text, Sequence) else list(text)
    return IncludesRequirement.build({"text": given, "ignore_case": ignore_case, **naming}, "includes()")


def _named(texts: Sequence[str]) -> str:
    shown = " and ".join(quoted(text, _NAMED_CHARACTERS) for text in texts[:_NAMED])
    return shown if len(texts) <= _NAMED else f"{shown} and {len(texts) - _NAMED} more"
