"""How each session of a run ended, and how many calls were in flight then: for the status and for the report alike.

An end need not be in the journal: the next session has recorded it, or it is in the lease file; a session that lost a
run in a store has left a file of its own. A session without any of these was killed, unless it holds the run.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.run.core.records import SessionEndRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import REPLY, UNANSWERED
from holdfast.storage.leases.holder import LeaseHolder, UnrecordedEnd
from holdfast.storage.leases.local import read_unrecorded_end
from holdfast.storage.leases.remote import read_lost_ends

KILLED, RUNNING = "killed", "running"


class SessionEnding(NamedTuple):
    """How one session ended."""

    ended_as: str
    """`running` while it holds the run."""
    ended_at: str | None = None
    exit_code: int | None = None
    in_flight: int = 0
    """At most this many calls were in flight, and may have been billed."""
    record: SessionEndRecord | None = None
    """Its own record, if it could write one."""


def session_endings(reader: RunReader, holder: LeaseHolder | None) -> dict[int, SessionEnding]:
    """The ends of all sessions, by number; `holder` is the process that uses the run now."""
    calls, ended = reader.fold.written("call"), [reader.fold.written(kind) for kind in (REPLY, UNANSWERED)]
    marks, records = reader.marks(), {end.number: end for end in reader.ends}
    unrecorded = _unrecorded_ends(reader, holder)
    found = {}
    for session in reader.sessions:
        number = session.number
        record = records.get(number)
        ending = _ending(record or unrecorded.get(number))
        if ending.ended_as == KILLED and holder is not None and session is reader.sessions[-1]:
            ending = SessionEnding(RUNNING)
        still_open = max(calls.get(number, 0) - sum(kind.get(number, 0) for kind in ended), 0)
        mark = 0 if record is not None else marks.get(number, 0)
        found[number] = ending._replace(in_flight=_in_flight(ending.ended_as, still_open, mark))
    return found


def _ending(end: SessionEndRecord | UnrecordedEnd | None) -> SessionEnding:
    if end is None:
        return SessionEnding(KILLED)
    if isinstance(end, UnrecordedEnd):
        return SessionEnding(end.ended_as, end.ended_at, end.exit_code)
    return SessionEnding(end.how, end.at, end.exit_code, record=end)


def _in_flight(how: str, open_calls: int, mark: int) -> int:
    """At most this many calls were in flight when a session ended; `open_calls` have no reply on record."""
    if how == RUNNING or how.endswith("completed"):
        return 0
    # Everything that a session did is on record only if it has an end. Earlier versions wrote no marks.
    return max(mark, open_calls)


def _unrecorded_ends(reader: RunReader, holder: LeaseHolder | None) -> dict[int, UnrecordedEnd]:
    noted = [session.unrecorded_end for session in reader.sessions]
    noted += read_lost_ends(reader.layout.root)
    if holder is None:
        noted.append(read_unrecorded_end(reader.layout.root))
    return {end.session: end for end in noted if end is not None}
