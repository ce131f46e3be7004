"""What attempts used: tokens by model, those of this run separate from those of replies of other runs.

There is no cost here: that is computed when reading, by the newest price. Every figure is a whole number, so that
sums do not depend on the order in which records are read.
"""

from collections.abc import Iterable, Mapping
from operator import add, sub
from typing import NamedTuple

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import OWN_SOURCES, ScoreRecord, ShareKey, TrialRecord
from holdfast.run.fold.entries import ScoreEntry, TrialEntry, is_reused_end

MICRO = 10**6
MOST = 1 << 62
_LONGEST = MOST / MICRO
_NO_USAGE = Usage()
Tokens = tuple[int, int, int, int]
"""In, out, cached and for reasoning."""
_NO_TOKENS: Tokens = (0, 0, 0, 0)
Shares = dict[ShareKey, Tokens]


class Spent(NamedTuple):
    """What attempts took, added up; `attempts` counts those that have ended."""

    attempts: int = 0
    microseconds: int = 0
    shares: Mapping[ShareKey, Usage] = {}

    def plus(self, other: "Spent") -> "Spent":
        shares = dict(self.shares)
        for key, usage in other.shares.items():
            shares[key] = shares.get(key, _NO_USAGE) + usage
        return Spent(self.attempts + other.attempts, self.microseconds + other.microseconds, shares)

    @property
    def usage(self) -> Usage:
        """All tokens, whoever gave them."""
        return sum(self.shares.values(), _NO_USAGE)

    @property
    def seconds(self) -> float:
        return self.microseconds / MICRO


class SpentFigures(NamedTuple):
    """One share as it is stored; attempts and time are with the trials' own model."""

    attempts: int = 0
    microseconds: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def as_spent(self, key: ShareKey) -> Spent:
        return Spent(*self[:2], {key: Usage(*self[2:])} if any(self[2:]) else {})


class ShareTokens(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A share that the end of an attempt names."""

    model: str
    reused: bool
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int

    @property
    def tokens(self) -> Tokens:
        return self.input_tokens, self.output_tokens, self.cached_input_tokens, self.reasoning_tokens


class AttemptSpent(msgspec.Struct, array_like=True, gc=False):
    """What one attempt took, by the end that counts for it: of several the first of the newest session."""

    attempt: int
    session: int
    writer: int
    seq: int
    place: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    microseconds: int
    reused: bool
    """Whether it was kept from another run."""
    shares: tuple[ShareTokens, ...]

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    @property
    def tokens(self) -> Tokens:
        return self.input_tokens, self.output_tokens, self.cached_input_tokens, self.reasoning_tokens

    def gives_way_to(self, other: "AttemptSpent") -> bool:
        return (other.session, self.order) > (self.session, other.order)

    def by_share(self, own: str, reused: Tokens) -> Shares:
        """By share; `reused` is what the replies of other runs took that are recorded, by the trial's own model.

        In format 1 an end does not name its shares: what is not of this run has to be taken off.
        """
        named: Shares = {}
        for share in self.shares:
            _add_tokens(named, (share.model or own, share.reused or self.reused), share.tokens)
        rest = _left(self.tokens, *named.values())
        if self.reused:
            _add_tokens(named, (own, True), rest)
        else:
            _add_tokens(named, (own, False), _left(rest, _left(reused, named.get((own, True), _NO_TOKENS))))
        return named


class AttemptReplies(msgspec.Struct, array_like=True, gc=False):
    """What the replies of one model took that one attempt has recorded."""

    attempt: int
    model: str
    reused: bool
    """Whether they are from other runs."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def order(self) -> tuple[int, str, bool]:
        return self.attempt, self.model, self.reused

    @property
    def tokens(self) -> Tokens:
        return self.input_tokens, self.output_tokens, self.cached_input_tokens, self.reasoning_tokens

    def add(self, usage: Usage) -> None:
        """Another reply is recorded."""
        tokens = usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens
        if min(tokens) < 0:
            return  # no reply takes less than nothing
        self.input_tokens += tokens[0]
        self.output_tokens += tokens[1]
        self.cached_input_tokens += tokens[2]
        self.reasoning_tokens += tokens[3]

    def is_covered_by(self, end: AttemptSpent, own: str) -> bool:
        """Whether the end of the attempt speaks of all of them, and of nothing else, as it nearly always does."""
        return (
            self.attempt == end.attempt
            and self.model == own
            and not self.reused
            and self.input_tokens <= end.input_tokens
            and self.output_tokens <= end.output_tokens
            and self.cached_input_tokens <= end.cached_input_tokens
            and self.reasoning_tokens <= end.reasoning_tokens
        )


class SlotSpent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one attempt of a score slot took, by the record that counts: of several the first of the newest session."""

    attempt: int
    scorer: str
    slot_attempt: int
    session: int
    writer: int
    seq: int
    place: int
    shares: tuple[ShareTokens, ...]

    @property
    def of(self) -> tuple[int, str, int]:
        """Which attempt of which slot."""
        return self.attempt, self.scorer, self.slot_attempt

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    def gives_way_to(self, other: "SlotSpent") -> bool:
        return (other.session, self.order) > (self.session, other.order)

    def by_attempt(self) -> list[AttemptReplies]:
        """As replies of the trial's attempt."""
        return [AttemptReplies(self.attempt, share.model, share.reused, *share.tokens) for share in self.shares]


def attempt_spent(entry: TrialEntry | TrialRecord, frame: tuple[int, int, int], place: int) -> AttemptSpent:
    """What the end of an attempt says that it took."""
    usage = entry.usage or _NO_USAGE
    found = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.reasoning_tokens,
        round(min(entry.seconds, _LONGEST) * MICRO),
    )
    if min(found) < 0 or max(found) > MOST:
        # No trial takes less than nothing, or so much that it could not be stored.
        found = tuple(map(_bounded, found))  # type: ignore[assignment]
    shares: tuple[ShareTokens, ...] = ()
    if entry.shares:
        shares = tuple([ShareTokens(one.model, one.reused, *_tokens(one.usage)) for one in entry.shares])
    is_reused = bool(entry.source) and is_reused_end(entry)
    return AttemptSpent(entry.attempt, *frame, place, *found, is_reused, shares)


def spent_by_share(
    own: str, ends: Iterable[AttemptSpent], replies: Iterable[AttemptReplies]
) -> dict[ShareKey, SpentFigures]:
    """What all attempts of a trial took; `own` is its model.

    Of an attempt, the larger of two figures counts: its end speaks of all its replies, of which some may be deleted
    since; and after an end that left it unfinished there may be more of them.
    """
    recorded = _by_attempt(own, replies)
    ended = {end.attempt: end for end in ends}
    total: Shares = {}
    for attempt in ended.keys() | recorded.keys():
        found = recorded.get(attempt, {})
        if (end := ended.get(attempt)) is not None:
            _take_larger(found, end.by_share(own, found.get((own, True), _NO_TOKENS)))
        for key, tokens in found.items():
            _add_tokens(total, key, tokens)
    figures = {key: SpentFigures(0, 0, *tokens) for key, tokens in total.items()}
    if ended:
        tokens = total.get((own, False), _NO_TOKENS)
        figures[own, False] = SpentFigures(len(ended), sum(end.microseconds for end in ended.values()), *tokens)
    return figures


def with_reply(
    replies: tuple[AttemptReplies, ...], attempt: int, share: ShareKey, usage: Usage
) -> tuple[AttemptReplies, ...]:
    """The same with another reply of an attempt; in an order that does not depend on which was met first."""
    for known in replies:
        if known.attempt == attempt and (known.model, known.reused) == share:
            known.add(usage)
            return replies
    known = AttemptReplies(attempt, *share)
    known.add(usage)
    return (known,) if not replies else tuple(sorted((*replies, known), key=_reply_order))


def slot_spent(entry: ScoreEntry | ScoreRecord, usage: Usage, frame: tuple[int, int, int], place: int) -> SlotSpent:
    """What the record of a slot's attempt says that it took; the share of the trial's own model has no name."""
    is_kept = entry.source not in OWN_SOURCES
    found: Shares = {}
    for share in entry.shares:
        _add_tokens(found, (share.model, share.reused or is_kept), _tokens(share.usage))
    _add_tokens(found, ("", is_kept), _left(_tokens(usage), *found.values()))
    shares = tuple([ShareTokens(*key, *tokens) for key, tokens in sorted(found.items()) if any(tokens)])
    return SlotSpent(entry.attempt, entry.scorer, entry.slot_attempt, *frame, place, shares)


def with_slots(
    figures: dict[ShareKey, SpentFigures], own: str, slots: Iterable[SlotSpent], replies: Iterable[AttemptReplies]
) -> dict[ShareKey, SpentFigures]:
    """The same with what score slots took: of two figures, their records' and their replies', the larger one."""
    taken, recorded = (
        _by_attempt(own, [each for slot in slots for each in slot.by_attempt()]),
        _by_attempt(own, replies),
    )
    for attempt in taken.keys() | recorded.keys():
        found = taken.get(attempt, {})
        _take_larger(found, recorded.get(attempt, {}))
        for key, tokens in found.items():
            known = figures.get(key, SpentFigures())
            figures[key] = SpentFigures(*known[:2], *map(add, known[2:], tokens))
    return figures


def _by_attempt(own: str, replies: Iterable[AttemptReplies]) -> dict[int, Shares]:
    found: dict[int, Shares] = {}
    for one in replies:
        _add_tokens(found.setdefault(one.attempt, {}), (one.model or own, one.reused), one.tokens)
    return found


def _reply_order(replies: AttemptReplies) -> tuple[int, str, bool]:
    return replies.order


def _take_larger(found: Shares, others: Shares) -> None:
    for key, tokens in others.items():
        found[key] = tuple(map(max, found.get(key, _NO_TOKENS), tokens))  # type: ignore[assignment]


def _add_tokens(shares: Shares, key: ShareKey, tokens: Tokens) -> None:
    shares[key] = tuple(map(add, shares.get(key, _NO_TOKENS), tokens))


def _left(tokens: Tokens, *others: Tokens) -> Tokens:
    """Without the others; nothing takes less than nothing."""
    for other in others:
        tokens = tuple([max(left, 0) for left in map(sub, tokens, other)])
    return tokens


def _tokens(usage: Usage) -> Tokens:
    found = usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens
    return tuple(map(_bounded, found))  # type: ignore[return-value]


def _bounded(figure: int) -> int:
    return min(max(figure, 0), MOST)
