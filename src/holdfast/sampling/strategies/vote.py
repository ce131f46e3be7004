"""A vote: every lane gives one valid answer, and the answer that most of them agree on is chosen."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import Any, ClassVar

from holdfast.sampling.candidate import Candidate
from holdfast.sampling.selection import Chosen, SelectionMode, SelectionRule, position
from holdfast.sampling.strategies.strategy import Strategy
from holdfast.tasks.scorers.comparable_text import folded_text
from holdfast.tasks.scorers.match_time_limit import PatternTooSlow
from holdfast.tasks.scorers.regex import Regex

_KEY_CHARACTERS = 200
_COMPARED_WORDS = 500
"""How much of two answers is compared: comparing takes time that grows with the product of their lengths."""


class VoteKind(enum.StrEnum):
    """What a vote goes by: equal answers, or the one that resembles the others the most."""

    MAJORITY = "majority"
    SIMILARITY = "similarity"


class Vote(Strategy):
    """Lanes draw until each has a valid answer, or none is left; invalid ones do not vote.

    It stops as soon as the majority is settled. Without a valid answer nothing is chosen, and the trial is unscored.
    """

    name: ClassVar[str] = "vote"

    def __init__(self, *, by: VoteKind | str = VoteKind.MAJORITY, extract: str | None = None, **options: Any) -> None:
        r"""`extract` is a pattern for the part of an answer that counts, as in `extract=r"answer: (\w+)"`.

        An answer without a match votes with all of its text.

        Raises:
            ValueError: there is no such vote, or an option is wrong.
            ConfigurationError: the pattern is not a valid regular expression, or a requirement cannot be understood.
            TypeError: the budget or a hook is not one.
        """
        super().__init__(**options)
        if self.selection is SelectionMode.BEST:
            raise ValueError("A vote takes no selection 'best': the votes decide.")
        if by not in list(VoteKind):
            raise ValueError(f"There is no vote by {by!r}; there are {', '.join(VoteKind)}.")
        self.by, self.extract = VoteKind(by), extract
        self._pattern = None if extract is None else Regex(name="extract", pattern=extract, compare=False)

    def start_selection(self, mode: SelectionMode, lanes: int) -> SelectionRule:
        if self.by is VoteKind.SIMILARITY:
            return _MostSimilar(self._key)
        return _Majority(self._key, lanes, waits=mode is SelectionMode.DETERMINISTIC)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "by": self.by.value, "extract": self.extract}

    def _key(self, candidate: Candidate) -> str:
        """What an answer votes for; answers that differ only in case and blanks are one."""
        text = candidate.text
        found = text if self._pattern is None else self._extracted(self._pattern, text)
        return bounded_key(folded_text(text if found is None else found, ignore_case=True))

    def _extracted(self, pattern: Regex, text: str) -> str | None:
        try:
            return pattern.extract(text)
        except PatternTooSlow:
            return None  # the candidate is valid: it votes with all that it says


class _Majority(SelectionRule):
    """The largest class of equal valid answers; of equally large ones, that with the lowest turn and lane."""

    def __init__(self, key: Callable[[Candidate], str], lanes: int, *, waits: bool) -> None:
        """`waits` for lanes that could give an earlier member of the class that has won."""
        super().__init__()
        self._key, self._open, self._waits = key, set(range(lanes)), waits
        self._classes: dict[str, list[Candidate]] = {}

    def note(self, candidate: Candidate) -> None:
        super().note(candidate)
        if candidate.is_valid:
            self._open.discard(candidate.lane)
            self._classes.setdefault(self._key(candidate), []).append(candidate)

    def note_lane_ended(self, lane: int) -> None:
        self._open.discard(lane)

    def wants(self, lane: int, turn: int) -> bool:
        if not self._is_settled():
            return True
        return self._waits and (turn, lane) < min(map(position, self._ranked()[0][1]))

    def depends_on(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - whoever has not voted
        return self._waits and lane not in {candidate.lane for candidate in self.valid}

    def _ranked(self) -> list[tuple[str, list[Candidate]]]:
        return sorted(self._classes.items(), key=lambda item: (-len(item[1]), min(map(position, item[1]))))

    def _is_settled(self) -> bool:
        """Whether no vote that is still to come can change the largest class."""
        counts = sorted(map(len, self._classes.values()), reverse=True)
        return bool(counts) and counts[0] - (counts[1] if len(counts) > 1 else 0) > len(self._open)

    def choose(self) -> Chosen:
        votes = {key: len(members) for key, members in self._ranked()}
        if not votes:
            return Chosen(None, "no valid answer to vote on", success=False, votes={})
        members = self._ranked()[0][1]
        is_tied = list(votes.values()).count(len(members)) > 1
        tied = ", tied with another: the lower turn, then the lower lane" if is_tied else ""
        reason = f"{len(members)} of {len(self.valid)} valid answers agree{tied}"
        return Chosen(min(members, key=position), reason, votes=votes)


class _MostSimilar(SelectionRule):
    """The valid answer that resembles the others the most. All lanes run."""

    def __init__(self, key: Callable[[Candidate], str]) -> None:
        super().__init__()
        self._key = key

    def wants(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - every answer counts
        return True

    def choose(self) -> Chosen:
        if not self.valid:
            return Chosen(None, "no valid answer to vote on", success=False, votes={})
        ordered = sorted(self.valid, key=position)
        sums = _similarities([one.text.split()[:_COMPARED_WORDS] for one in ordered])
        best = max(range(len(ordered)), key=lambda index: (sums[index], -index))
        votes: dict[str, int] = {}
        for one in ordered:
            votes[self._key(one)] = votes.get(self._key(one), 0) + 1
        mean = sums[best] / max(len(ordered) - 1, 1)
        return Chosen(ordered[best], f"the most similar to the other valid answers, {mean:.2f} on average", votes=votes)


def _similarities(texts: Sequence[list[str]]) -> list[float]:
    """Of each text, the sum of its similarities to the others; each from 0 to 1, by words in their order."""
    sums = [0.0] * len(texts)
    for first in range(len(texts)):
        for second in range(first + 1, len(texts)):
            ratio = SequenceMatcher(None, texts[first], texts[second], autojunk=False).ratio()
            sums[first] += ratio
            sums[second] += ratio
    return sums


def bounded_key(text: str) -> str:
    """A text as the name of a class; of a long one its beginning and a digest, so that others are not taken for it."""
    if len(text) <= _KEY_CHARACTERS:
        return text
    return f"{text[:_KEY_CHARACTERS]}… {blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"
