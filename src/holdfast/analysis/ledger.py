"""The ledger of a run: which of its calls repeat others and why, what was recorded and not used, and what was saved."""

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import msgspec

from holdfast.analysis.money import money_text
from holdfast.run.core.records import DIVERGED, INTERRUPTED_CALL, RETRIED
from holdfast.run.fold.late_replies import calls_bought_again
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.spent import Spent
from holdfast.run.fold.rows.trial_row import GIVEN_UP_CALLS, REFUSED_MODEL, SAVED, UNUSED
from holdfast.run.fold.run_fold import LedgerEntry, RunFold
from holdfast.terminal.text import quantity

_GUIDE = "docs/solvers.md in Holdfast's repository"


class RepeatedCalls(msgspec.Struct, frozen=True):
    """Calls that were made although an earlier one asked the same or stood in the same place, by the reason."""

    retried: int = 0
    """Of attempts that started anew, after an error of the task's own code or by `--redo`: as many as an earlier
    attempt had replies.
    """
    diverged: int = 0
    """Of solvers and scorers that asked for something else than is recorded in their place."""
    interrupted: int = 0
    """Of calls that were in flight when a session ended: sent on record, and nothing more."""
    takeover: int = 0
    """Of calls whose replies another session had recorded, which had lost the run, out of sight of this one."""

    @property
    def total(self) -> int:
        return self.retried + self.diverged + self.interrupted + self.takeover


class SavedCalls(msgspec.Struct, frozen=True):
    """Replies of other runs that were used here: calls that did not have to be made."""

    calls: int = 0
    tokens: int = 0
    cost: float | None = None
    """What they would have cost, by the newest prices; None where a price is missing."""


class Ledger(NamedTuple):
    """What the ledger names, of one session or of all."""

    repeated: RepeatedCalls
    unused: int
    """Recorded replies that no solver and no scorer asked for again."""
    saved: int
    """Replies of other runs."""
    refused_model: int
    """Calls that another model answered than those on record; their replies were kept out."""
    tasks: dict[str, list[str]]
    """By kind, the tasks that they are of."""
    given_up: int = 0
    """Calls that were in flight when a limit or the task's own code ended them."""

    def lines(self, place: str, saved: str = "") -> Iterator[str]:
        """What a person should know of it, in sentences; `place` is how the run is named in a command, `saved` says
        what the replies of other runs took there.
        """
        repeated = self.repeated
        if repeated.retried:
            yield f"{_made_again(repeated.retried)}, by attempts that started anew{self._of(RETRIED)}."
        if repeated.interrupted:
            them = "it" if repeated.interrupted == 1 else "them"
            yield f"{_made_again(repeated.interrupted)}, after a session ended with {them} in flight."
        if repeated.takeover:
            reply = "its reply" if repeated.takeover == 1 else "their replies"
            yield f"{_made_again(repeated.takeover)}: a session that lost the run had {reply}."
        if self.given_up:
            yield f"{given_up_text(self.given_up)}."
        if self.refused_model:
            yield self._refusal_text()
        if repeated.diverged or self.unused:
            yield self._divergence_text(place)
        if self.saved:
            yield f"{_saved_replies(self.saved)}{saved}."

    def _refusal_text(self) -> str:
        calls, reply = self.refused_model, "its reply was" if self.refused_model == 1 else "their replies were"
        return f"{quantity(calls, 'call')} {_was(calls)} answered by a model that is not on record; {reply} kept out."

    def _divergence_text(self, place: str) -> str:
        unused, diverged = self.unused, self.repeated.diverged
        left = f"{_replies(unused, 'recorded ')} {_was(unused)} not used"
        said = " and ".join(([left] if unused else []) + ([_made_again(diverged)] if diverged else []))
        why = "the requests were not the recorded ones" if diverged else _unasked(unused)
        said = f"{said}{self._of(DIVERGED, UNUSED)}: {why}."
        return f"{said} See {_GUIDE}; holdfast verify {place} --replay TRIAL names the first difference."

    def _of(self, *kinds: str) -> str:
        tasks = sorted({task for kind in kinds for task in self.tasks.get(kind, ()) if task})
        return f" (task {', '.join(tasks)})" if tasks else ""


_EMPTY = Ledger(RepeatedCalls(), 0, 0, 0, {})


def given_up_text(calls: int) -> str:
    """That calls got no reply, because they were ended before it came."""
    they = "it" if calls == 1 else "they"
    return f"{quantity(calls, 'call')} got no reply, ended by a limit or by the task; what {they} cost is unknown"


def _saved_replies(count: int) -> str:
    return f"{_replies(count)} of other runs {_was(count)} used instead of calls"


def saved_text(saved: SavedCalls, currency: str) -> str:
    """That replies of other runs were used, and what they took there: the cost of this run does not have it."""
    cost = "" if saved.cost is None else f", {money_text(saved.cost, currency)}"
    return f"{_saved_replies(saved.calls)} ({saved.tokens:,} tokens{cost}); they were paid for there"


def _made_again(calls: int) -> str:
    return f"{quantity(calls, 'call')} {_was(calls)} made again"


def _unasked(replies: int) -> str:
    return f"nobody asked for {'it' if replies == 1 else 'them'} again"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _replies(count: int, which: str = "") -> str:
    return f"{count} {which}{'reply' if count == 1 else 'replies'}"


def ledgers(reader: RunReader) -> dict[int, Ledger]:
    """The ledger of every session that it names anything of."""
    takeovers = calls_bought_again(reader)
    entries: dict[int, list[LedgerEntry]] = {session: [] for session in takeovers}
    for entry in reader.fold.ledger():
        entries.setdefault(entry.session, []).append(entry)
    return {session: _ledger(found, takeovers[session]) for session, found in entries.items()}


def session_ledger(reader: RunReader, number: int) -> Ledger:
    """That of one session."""
    return ledgers(reader).get(number, _EMPTY)


def whole_ledger(found: dict[int, Ledger]) -> Ledger:
    """All sessions together."""
    return reduce(_together, found.values(), _EMPTY)


def _ledger(entries: list[LedgerEntry], takeover: int) -> Ledger:
    calls: Counter[str] = Counter()
    tasks: dict[str, list[str]] = {}
    for entry in entries:
        calls[entry.kind] += entry.calls
        tasks.setdefault(entry.kind, []).append(entry.task)
    repeated = RepeatedCalls(calls[RETRIED], calls[DIVERGED], calls[INTERRUPTED_CALL], takeover)
    return Ledger(repeated, calls[UNUSED], calls[SAVED], calls[REFUSED_MODEL], tasks, calls[GIVEN_UP_CALLS])


def _together(one: Ledger, other: Ledger) -> Ledger:
    repeated = RepeatedCalls(*map(sum, zip(*map(msgspec.structs.astuple, (one.repeated, other.repeated)), strict=True)))
    tasks = {kind: [*one.tasks.get(kind, ()), *other.tasks.get(kind, ())] for kind in {*one.tasks, *other.tasks}}
    refused = one.refused_model + other.refused_model
    return Ledger(
        repeated, one.unused + other.unused, one.saved + other.saved, refused, tasks, one.given_up + other.given_up
    )


def saved_in(fold: RunFold) -> SavedCalls:
    """The replies of other runs that a run has used, in any session."""
    return saved_calls(fold, sum(entry.calls for entry in fold.ledger() if entry.kind == SAVED))


def saved_calls(fold: RunFold, calls: int) -> SavedCalls:
    """What the replies of other runs took there."""
    spent = reduce(Spent.plus, fold.spent().values(), Spent())
    shares = {(model, False): usage for (model, reused), usage in spent.shares.items() if reused}
    if not shares:
        return SavedCalls(calls, 0, None)
    tokens = sum(usage.input_tokens + usage.output_tokens for usage in shares.values())
    return SavedCalls(calls, tokens, fold.prices.cost(shares, {model for model, _ in shares}).amount)
