"""The status of a run: its progress, what it cost, and what every session did.

`state` is `complete` when nothing of the plan remains, else `running` while a session holds the run, else
`paused` if its newest session was to stop after a stage and did, else `incomplete`. The ledger names every call that
repeats another, and for every session how many calls it may have sent whose replies it did not live to record. That
number is never too low: what a killed session did last may not be on record, so the bound is its admission mark.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.analysis.ledger import Ledger, RepeatedCalls, SavedCalls, ledgers, saved_calls, whole_ledger
from holdfast.analysis.money import money_text
from holdfast.analysis.sampling_report import SamplingCounts, sampling_counts
from holdfast.analysis.session_endings import session_endings
from holdfast.analysis.spending import run_spending
from holdfast.journal import Damage
from holdfast.models.message import Usage
from holdfast.run.core.axes.choices import AxisChoice
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import spool_root
from holdfast.run.core.records import FAILURE, FAILURES, Change
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import KEPT, REPLY, REQUEST, UNANSWERED
from holdfast.run.fold.rows.trial_row import PAUSED
from holdfast.run.fold.states import StateCounts
from holdfast.run.import_origin import import_origin
from holdfast.run.remote.upload_lag import UploadLag, read_lag
from holdfast.storage.leases.holder import LeaseHolder
from holdfast.storage.leases.remote import PublishedLease
from holdfast.storage.tolerated_failures import ToleratedFailure


class SessionStatus(msgspec.Struct, frozen=True):
    """One session: when, how it ended, and its calls."""

    number: int
    started_at: str
    ended_at: str | None = None
    ended_as: str = ""
    exit_code: int | None = None
    """By how the session ended; a score below `--fail-under` is judged after that, by the command."""
    calls: int = 0
    replies: int = 0
    """Calls whose reply is on record."""
    unanswered: int = 0
    """Calls of which it is on record why there is no reply: refused, given up, or not answered in time."""
    repeated: RepeatedCalls = RepeatedCalls()
    refused_model: int = 0
    """Those of its calls that another model answered than those on record."""
    in_flight_at_kill: int = 0
    """An upper bound of the calls whose replies it did not live to record."""
    finished: int = 0
    """Trials that it finished."""
    changes: list[Change] = []
    """What it changed of the configuration."""
    failures: list[ToleratedFailure] = []
    """What could not be written beside the journal, and stopped nothing; counted once the session has ended."""


class CallTotals(msgspec.Struct, frozen=True):
    """The calls of all sessions."""

    made: int
    answered: int
    unanswered: int
    replayed: int
    in_flight_at_kill: int
    """As of a session."""
    repeated: RepeatedCalls
    """Those of them that repeat others."""
    refused_model: int
    """Those of them that another model answered than those on record: they are among the unanswered."""
    given_up: int
    """Those of the unanswered that were in flight when a limit or the task's own code ended them."""
    unused: int
    """Recorded replies that nobody asked for again."""
    saved: SavedCalls


class RequestTotals(msgspec.Struct, frozen=True):
    """The HTTP requests behind the calls: one that fails and is sent again counts each time."""

    sent: int
    answered: int
    failed: int


class RemoteStatus(msgspec.Struct, frozen=True):
    """What is known of a run's place in an object store."""

    url: str
    lag: UploadLag
    """How far the store was behind when the process that executes the run here last looked."""
    published: PublishedLease | None = None
    """What the holder of the run last published with its heartbeat."""


class RunStatus(msgspec.Struct, frozen=True):
    """The status of a run."""

    run: str
    name: str
    format: int
    """Of its records on disk: an older one can be read and forked, and not resumed."""
    state: str
    counts: StateCounts
    started_at: str | None
    last_updated_at: str | None
    sessions: list[SessionStatus]
    calls: CallTotals
    requests: RequestTotals
    ledger: list[str]
    """What calls were made again, not used or saved, in sentences."""
    samplings: SamplingCounts | None
    """Of the attempts that count; None where there are none. Their calls are among the others."""
    usage: Usage
    cost: float | None
    """By the newest prices on record; None where a model that was used has none."""
    currency: str
    held_by: str | None
    transcripts_lost: int
    damage: list[Damage]
    notes: list[str]
    remote: RemoteStatus | None = None
    cost_is_lower_bound: bool = False
    """Whether calls may have been billed of which no reply is on record: their cost is unknown."""
    usage_is_partial: bool = False
    """Whether some replies have no usage on record."""
    choices: list[AxisChoice] = []
    """The axis values that were chosen for others which depend on them."""


def run_status(reader: RunReader) -> RunStatus:
    """The status of a run in any state, at this moment."""
    holder, counts, last = reader.holder, reader.fold.counts, reader.fold.session
    found = ledgers(reader)
    sessions, ledger = _session_statuses(reader, holder, found), whole_ledger(found)
    saved = saved_calls(reader.fold, ledger.saved)
    spending = run_spending(reader.fold)
    return RunStatus(
        run=reader.place,
        name=last.name if last else "",
        format=reader.format,
        state=_run_state(holder, counts, reader),
        counts=counts,
        started_at=reader.sessions[0].at if last else None,
        last_updated_at=reader.last_written_at() or None,
        sessions=sessions,
        calls=_call_totals(reader, sessions, ledger, saved),
        requests=_request_totals(reader, sessions),
        ledger=_ledger_lines(reader, ledger, saved),
        samplings=sampling_counts(reader.fold),
        usage=spending.usage,
        cost=spending.cost,
        currency=reader.fold.prices.currency,
        held_by=str(holder) if holder else None,
        transcripts_lost=reader.transcripts_lost(),
        damage=[item for item in reader.damage() if item.is_loss],
        notes=_status_notes(reader, spending.warning),
        remote=_remote_status(reader),
        cost_is_lower_bound=bool(spending.given_up or any(one.in_flight_at_kill for one in sessions)),
        usage_is_partial=spending.is_partial,
        choices=list(reader.fold.choices.values()),
    )


def _status_notes(reader: RunReader, warning: str) -> list[str]:
    found = [*_origin_notes(reader), *reader.count_notes, *describe_inconsistencies(reader)]
    return [*found, warning] if warning else found


def _origin_notes(reader: RunReader) -> list[str]:
    origin = import_origin(reader)
    return [] if origin is None else [origin.text()]


def _remote_status(reader: RunReader) -> RemoteStatus | None:
    """The state of the run in its store."""
    if not reader.url:
        return None
    return RemoteStatus(reader.url, read_lag(spool_root(reader.url)) or UploadLag(), reader.published)


def _run_state(holder: LeaseHolder | None, counts: StateCounts, reader: RunReader) -> str:
    if counts.is_complete:
        return "complete"
    if holder:
        return "running"
    is_paused = bool(reader.sessions) and any(
        end.number == reader.sessions[-1].number and end.how == PAUSED for end in reader.ends
    )
    return PAUSED if is_paused else "incomplete"


def _session_statuses(
    reader: RunReader, holder: LeaseHolder | None, named: Mapping[int, Ledger]
) -> list[SessionStatus]:
    calls, replies, unanswered, finished = (reader.fold.written(kind) for kind in ("call", REPLY, UNANSWERED, KEPT))
    failures, endings = _failures_by_session(reader), session_endings(reader, holder)
    found = []
    for session in reader.sessions:
        number = session.number
        ending = endings[number]
        found.append(
            SessionStatus(
                number=number,
                started_at=session.at,
                ended_at=ending.ended_at,
                ended_as=ending.ended_as,
                exit_code=ending.exit_code,
                calls=calls.get(number, 0),
                replies=replies.get(number, 0),
                unanswered=unanswered.get(number, 0),
                repeated=named[number].repeated if number in named else RepeatedCalls(),
                refused_model=named[number].refused_model if number in named else 0,
                finished=finished.get(number, 0),
                changes=session.changes,
                failures=failures.get(number, []),
                in_flight_at_kill=ending.in_flight,
            )
        )
    return found


def _failures_by_session(reader: RunReader) -> dict[int, list[ToleratedFailure]]:
    """As each session counted them at its end; of one that was killed, as each was noted when it first happened."""
    found: dict[int, list[ToleratedFailure]] = {}
    for session, note in reader.notes():
        if note.kind == FAILURE:
            found.setdefault(session, []).extend(_decoded_failures([note.data]))
    for end in reader.ends:
        if counted := _decoded_failures(end.ledger.get(FAILURES)):
            found[end.number] = counted
    return found


def _decoded_failures(data: Any) -> list[ToleratedFailure]:
    try:
        return msgspec.convert(data, list[ToleratedFailure])
    except msgspec.ValidationError:
        # A later version may record more, in another form.
        return []


def _call_totals(reader: RunReader, sessions: list[SessionStatus], ledger: Ledger, saved: SavedCalls) -> CallTotals:
    return CallTotals(
        made=sum(session.calls for session in sessions),
        answered=sum(session.replies for session in sessions),
        unanswered=sum(session.unanswered for session in sessions),
        replayed=sum(int(end.ledger.get("replayed", 0)) for end in reader.ends),
        in_flight_at_kill=sum(session.in_flight_at_kill for session in sessions),
        repeated=ledger.repeated,
        refused_model=ledger.refused_model,
        given_up=ledger.given_up,
        unused=ledger.unused,
        saved=saved,
    )


def _ledger_lines(reader: RunReader, ledger: Ledger, saved: SavedCalls) -> list[str]:
    cost = "" if saved.cost is None else f", {money_text(saved.cost, reader.fold.prices.currency)}"
    return list(ledger.lines(shell_word(reader.place), f" ({saved.tokens:,} tokens{cost})"))


def _request_totals(reader: RunReader, sessions: list[SessionStatus]) -> RequestTotals:
    """A call that has no end on record has sent one request at the least."""
    recorded, answered = sum(reader.fold.written(REQUEST).values()), sum(one.replies for one in sessions)
    still_open = sum(max(one.calls - one.replies - one.unanswered, 0) for one in sessions)
    return RequestTotals(recorded + still_open, answered, max(recorded - answered, 0))
