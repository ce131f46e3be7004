"""What a workload handed to a run, what was acknowledged to it, and whether a run still holds exactly that."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from pathlib import Path

import msgspec

from holdfast.errors import NotARun
from holdfast.journal import Damage, DamageKind, RecordId, SegmentId
from holdfast.journal.commit_queue import QueuedRecord
from holdfast.journal.segment import parse_name
from holdfast.run import JoinedSession, RunReader, RunSession, verify_run
from holdfast.run.core.codec import decode, encode
from holdfast.run.core.records import (
    AnswerRecord,
    CallRecord,
    Failure,
    MarkRecord,
    Record,
    ScoreRecord,
    SessionEndRecord,
    SessionRecord,
    Status,
    StepRecord,
    TrialRecord,
)


class Broken(AssertionError):  # noqa: N818 - reads as a sentence where it is raised
    """A promise of the journal does not hold."""


class Account:
    """The records of a workload: those handed in, and those whose commit has returned."""

    def __init__(self) -> None:
        self.attempted: Counter[bytes] = Counter()
        self.acknowledged: Counter[bytes] = Counter()
        self.sessions: set[int] = set()
        self.ends: set[int] = set()

    @property
    def size(self) -> int:
        """How much has been acknowledged so far."""
        return self.acknowledged.total() + len(self.sessions) + len(self.ends)

    def copy(self) -> Account:
        """The account as it is now."""
        copy = Account()
        copy.acknowledged, copy.attempted = self.acknowledged.copy(), self.attempted.copy()
        copy.sessions, copy.ends = set(self.sessions), set(self.ends)
        return copy

    def began(self, session: RunSession) -> RunSession:
        self.sessions.add(session.number)
        return session

    def commit(self, session: RunSession | JoinedSession, *records: Record) -> None:
        """Commits records in one frame, always in one: what happens then is the same each time."""
        lines = [encode(record) for record in records]
        self.attempted.update(lines)
        queue, waiter = session.sink.journal.queue, Future()
        items = [QueuedRecord(*session.sink._encode(record)[:2], waiter) for record in records]
        with queue._lock:
            for item in items[:-1]:
                item.waiter = None
                queue._add(item)
            queue._add(items[-1])
        waiter.result()
        self.acknowledged.update(lines)

    def carry_out(self, session: RunSession | JoinedSession, key: str, *, long: str = "") -> None:
        """One trial, with every kind of record that a trial has, a reply that another branch took over, and a mark.

        The step of a long one is the same, byte for byte, whenever it is carried out.
        """
        attempt = session.number
        self.commit(session, MarkRecord(calls=16), CallRecord(trial=key, attempt=attempt, step="solve/1"))
        step = StepRecord(trial=key, attempt=1 if long else attempt, step="solve/1", result=f"reply {key}{long}")
        self.commit(session, step)
        self.commit(
            session,
            StepRecord(trial=key, attempt=attempt, step="/~1 solve/1", lender="solve/1"),
            AnswerRecord(trial=key, attempt=attempt, text=f"answer {key}"),
            ScoreRecord(trial=key, attempt=attempt, scorer="exact", error=Failure("E", "once"), will_retry=True),
            ScoreRecord(trial=key, attempt=attempt, scorer="exact", value=1.0, slot_attempt=2),
            TrialRecord(trial=key, attempt=attempt, status=Status.VALID),
        )

    def close(self, session: RunSession) -> None:
        session.reader.refresh()
        session.close("complete")
        self.ends.add(session.number)


class Found(msgspec.Struct):
    """What a reader gives of a run."""

    lines: dict[bytes, int]
    keys: set[str]
    damage: list[Damage]


def examine(
    root: Path, account: Account, durable: dict[SegmentId, int] | None = None, *, missed: bool = False
) -> Found:
    """Reads a run and holds it against the account.

    `durable` gives the length up to which each segment was synced; damage may be told only of bytes behind that.
    With `missed`, an unsealed segment may also be called shorter than a later session saw it.

    Raises:
        Broken: something acknowledged is missing or twice there, something else is there, or a loss is told of bytes
            that were synced.
    """
    try:
        reader = RunReader(root)
    except NotARun as error:
        expect(not account.size, f"acknowledged, and there is no run: {error}")
        return Found({}, set(), [])
    try:
        return _examine(reader, account, durable or {}, missed=missed)
    finally:
        reader.close()


def expect(condition: object, message: str) -> None:
    if not condition:
        raise Broken(message)


def _examine(reader: RunReader, account: Account, durable: dict[SegmentId, int], *, missed: bool) -> Found:
    streamed: list[Damage] = []
    records = list(reader.stream(streamed))
    idents = [ident for ident, _ in records]
    expect(len(set(idents)) == len(idents), f"a record id is given twice: {idents}")
    decoded = [(ident, line, decode(line)) for ident, line in records]
    lines = Counter(line for _, line, record in decoded if not isinstance(record, SessionRecord | SessionEndRecord))
    _compare(lines, account)
    begun = [(record.number, ident) for ident, _, record in decoded if isinstance(record, SessionRecord)]
    sessions = dict(begun)
    expect(len(sessions) == len(begun), f"a session has two records: {begun}")
    ends = Counter(record.number for _, _, record in decoded if isinstance(record, SessionEndRecord))
    expect(account.sessions <= set(sessions), f"sessions {account.sessions} were opened, there are {set(sessions)}")
    expect(account.ends <= set(ends) and all(count == 1 for count in ends.values()), f"ends: {ends}")
    for ident in idents:
        expect(ident.session in sessions, f"{ident} has no session record")
        expect(sessions[ident.session] <= ident, f"{ident} precedes the record of its session")
    for _, _, record in decoded:
        for item in record.inputs.values() if isinstance(record, SessionRecord) else ():
            expect(reader.inputs.check(item.digest, item.size) is None, f"an input is lost: {item}")
    for ident, _, record in decoded:
        if isinstance(record, SessionEndRecord):
            check_vouched_for(reader, ident, record)
            known = {one.trial for at, _, one in decoded if at.session <= record.number and _is_kept_end(one)}
            expect(record.finished <= len(known), f"the end counts {record.finished} trials, there are {sorted(known)}")
    keys = {record.trial for _, _, record in decoded if _is_kept_end(record)}
    expect(
        list(reader.fold.finished()) == sorted(keys),
        f"the index has {list(reader.fold.finished())}, the journal {keys}",
    )
    expect(
        reader.fold.record_counts() == Counter(str(r.__struct_config__.tag) for *_, r in decoded), "the index differs"
    )
    damage = [*reader.damage(), *(item for item in streamed if item.where.startswith("blobs"))]
    _check_damage(reader, damage, durable, missed=missed)
    return Found(lines, keys, damage)


def _is_kept_end(record: object) -> bool:
    return isinstance(record, TrialRecord) and record.status.is_kept


def check_vouched_for(reader: RunReader, ident: RecordId, end: SessionEndRecord) -> None:
    """The end of a session pins every segment of all its writers, but its own."""
    there = {state.ident for state in reader.index.states() if state.ident.session == end.number}
    last = max((one for one in there if one.writer == ident.writer), default=None)
    unpinned = there - {SegmentId(*pin[:3]) for pin in end.pins} - {last}
    expect(not unpinned, f"the end of session {end.number} vouches for none of {sorted(unpinned)}")


def _compare(lines: Counter[bytes], account: Account) -> None:
    missing = account.acknowledged - lines
    expect(not missing, f"acknowledged and lost: {missing}")
    foreign = lines - account.attempted
    expect(not foreign, f"given more often than it was handed in: {foreign}")


def _check_damage(reader: RunReader, damage: list[Damage], durable: dict[SegmentId, int], *, missed: bool) -> None:
    losses = [item for item in damage if item.is_loss]
    for item in losses:
        parsed = parse_name(Path(item.where).name)
        expect(parsed and not parsed[1], f"a loss is told of a file that was synced: {item}")
        if not (missed and item.kind is DamageKind.TRUNCATED):
            unsynced = item.kind is DamageKind.UNREADABLE and parsed[0] in durable and item.offset >= durable[parsed[0]]
            expect(unsynced, f"a loss is told of bytes that were synced: {item}")
    result = verify_run(reader)
    expect(result.ok == (not losses), f"verify says {result.ok} with {losses}: {result.damage}")
