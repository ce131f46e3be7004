"""A regular expression finds the answer in the text; what it finds is compared with the target.

The pattern is searched for in the last 100,000 characters. Without `compare`, finding it is enough.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from typing import ClassVar, Literal

from holdfast.errors import ConfigurationError
from holdfast.suggestions import listing
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.scorers.comparable_text import folded_text, target_texts
from holdfast.tasks.scorers.match_time_limit import limit_match_time


class Regex(BuiltIn, frozen=True, kw_only=True):
    """True if what the pattern finds in the answer equals one of the sample's targets.

    Only the last 100,000 characters of the answer are searched.
    """

    kind: ClassVar[str] = "regex"
    revision: ClassVar[int] = 2
    checks_types_only: ClassVar[bool] = True

    pattern: str
    """The regular expression (Python's `re`) that finds the answer in the reply. Example: `'Answer: (.*)'`"""

    name: str = "regex"
    group: int | str | None = None
    """The number or the name of the group that holds the answer. Default: the first group, or the whole match where
    there is no group.
    Example: `1`
    """

    match: Literal["first", "last"] = "first"
    """Which match counts where there are several. Example: `last`"""

    ignore_case: bool = False
    """Whether upper and lower case are equal, in the pattern and in the comparison. Example: `true`"""

    compare: bool = True
    """Whether the match is compared with the target; with `false`, a match is enough. Example: `false`"""

    def __post_init__(self) -> None:
        compiled = compiled_pattern(self.pattern, self.ignore_case)
        if isinstance(self.group, str) and self.group not in compiled.groupindex:
            raise ConfigurationError(
                f"The pattern {self.pattern!r} has no group {self.group!r}; it has {listing(compiled.groupindex)}."
            )
        if isinstance(self.group, int) and not 0 <= self.group <= compiled.groups:
            raise ConfigurationError(
                f"The pattern {self.pattern!r} has no group {self.group}; it has {compiled.groups}."
            )

    def judge(self, text: str, sample: Sample) -> Score:
        found = self.extract(text)
        if found is None:
            return Score(False, explanation="The pattern was not found.")
        if not self.compare:
            return Score(True, answer=found)
        accepted = {folded_text(target, ignore_case=self.ignore_case) for target in target_texts(sample, self.name)}
        return Score(folded_text(found, ignore_case=self.ignore_case) in accepted, answer=found)

    def extract(self, text: str) -> str | None:
        """What the pattern finds in the text, or None."""
        compiled = compiled_pattern(self.pattern, self.ignore_case)
        with limit_match_time(self.pattern):
            found = compiled.search(text) if self.match == "first" else _last_match(compiled, text)
        if found is None:
            return None
        group = self.group if self.group is not None else min(compiled.groups, 1)
        return found[group]

    def check_target(self, sample: Sample, place: str) -> None:
        if self.compare:
            target_texts(sample, self.name, place)


def regex(
    pattern: str,
    *,
    group: int | str | None = None,
    match: Literal["first", "last"] = "first",
    ignore_case: bool = False,
    compare: bool = True,
    name: str = "regex",
) -> Regex:
    """Find the answer with a pattern, and compare it with the target."""
    arguments = {"pattern": pattern, "group": group, "match": match, "ignore_case": ignore_case, "compare": compare}
    return Regex.build({**arguments, "name": name}, "regex()")


@functools.lru_cache(maxsize=4096)
def compiled_pattern(pattern: str, ignore_case: bool) -> re.Pattern[str]:  # noqa: FBT001 - a key of the cache
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigurationError(
            f"The pattern {pattern[:200]!r} is not a valid regular expression: {error}.",
            hint="In YAML, single quotes keep backslashes as they are.",
        ) from None


def _last_match(compiled: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = deque(compiled.finditer(text), maxlen=1)
    return matches[0] if matches else None
