"""Sessions, crashes and destruction in any order: what was acknowledged and not destroyed is there once, what was
destroyed is reported, and nothing else ever appears.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path
from typing import ClassVar

import mutants
import pytest
from account import Broken, check_vouched_for, expect
from gates import GatedFileSystem
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from truth import Truth

from durable import commit
from folds import as_told, check_fold
from holdfast.errors import NotARun, StorageFailure
from holdfast.journal import Damage
from holdfast.journal.segment import parse_name
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run import (
    JoinedSession,
    RunReader,
    RunSession,
    SessionContents,
    WriterOptions,
    create_run,
    join_session,
    open_session,
    session_record,
    verify_run,
)
from holdfast.run.core.codec import decode
from holdfast.run.core.records import (
    AnswerRecord,
    Failure,
    MarkRecord,
    SamplingSummary,
    ScoreRecord,
    SessionEndRecord,
    Status,
    StepRecord,
    TrialRecord,
    UsageShare,
)
from holdfast.storage.filesystem import RealFileSystem

SMALL_SEGMENTS = WriterOptions(segment_bytes=900)
CONTENTS = SessionContents(name="m", config={})
FAILED = {"error": Failure("ValueError", "my bug")}
SLOTS = [{"value": 1.0}, {"unscored": True, "explanation": "no majority"}, FAILED, {**FAILED, "will_retry": True}]
SAMPLED = SamplingSummary(
    strategy="repair",
    success=True,
    lane=1,
    turn=1,
    turns=2,
    calls=4,
    candidates={"valid": 1, "invalid": 2, "cancelled": 1},
    wasted=(UsageShare("m", Usage(3, 2)),),
    capped="calls",
)
fractions = st.floats(0, 1, exclude_max=True)


class JournalMachine(RuleBasedStateMachine):
    """One run on a real disk, and a model of every byte that was written to it."""

    directory: ClassVar[Path]
    patch: ClassVar[pytest.MonkeyPatch]
    machines: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).machines += 1
        self.place = self.directory / str(self.machines)
        self.root = self.place / "run"
        self.patch.setenv("XDG_CACHE_HOME", str(self.place / "cache"))
        self.fs = GatedFileSystem(RealFileSystem(), self._gate)
        self.failing = False
        self.session: RunSession | None = None
        self.joined: list[JoinedSession] = []
        """The other writers of the session."""
        self.written = 0
        self.acknowledged: set[str] = set()
        self.truth = Truth(self.root / "journal")
        self.kept: dict[Path, bytes] = {}
        """Bytes of indexes, and of their sums, from earlier."""

    def _gate(self, operation: str, path: Path) -> None:
        if self.failing and operation == "sync" and parse_name(path.name):
            raise OSError(errno.EIO, "the power fails here")

    @initialize()
    def create(self) -> None:
        self.session = create_run(self.root, CONTENTS, fs=self.fs, writer=SMALL_SEGMENTS)

    def teardown(self) -> None:
        if self.session:
            self.crash()
        try:
            if self.root.exists():
                self._check(self.root)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    # Work.

    def _new(self, size: int = 0) -> TrialRecord:
        self.written += 1
        name = f"t{self.written:05}"
        self.truth.attempted.add(name)
        return TrialRecord(trial=name, attempt=1, status=Status.VALID, sample=("x" * size))

    @precondition(lambda self: self.session)
    @rule(count=st.integers(1, 4))
    def commit(self, count: int) -> None:
        """Some records that are not waited for, and one that is."""
        trials = [self._new() for _ in range(count)]
        for trial in trials[:-1]:
            self.session.sink.append(trial)
        commit(self.session, trials[-1])
        self.acknowledged.update(trial.trial for trial in trials)

    @precondition(lambda self: self.session)
    @rule(status=st.sampled_from([Status.FAILED, Status.UNFINISHED]))
    def leave_open(self, status: Status) -> None:
        """A trial that has begun, or failed, is not finished."""
        self.written += 1
        commit(self.session, StepRecord(trial=f"o{self.written:05}", attempt=1, step="solve/1"))
        commit(self.session, StepRecord(trial=f"o{self.written:05}", attempt=1, step="/~1 solve/1", lender="solve/1"))
        commit(self.session, TrialRecord(trial=f"o{self.written:05}", attempt=1, status=status))

    @precondition(lambda self: self.session)
    @rule(slots=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(SLOTS)), min_size=1, max_size=4))
    def leave_slots_open(self, slots: list[tuple[str, dict]]) -> None:
        """A trial that has its answer, and score slots that are filled, unscored, failed or about to be retried."""
        self.written += 1
        about = {"trial": f"o{self.written:05}", "attempt": 1}
        self.session.sink.put(AnswerRecord(**about, text="x"))
        for place, (scorer, slot) in enumerate(slots):
            judged = StepRecord(
                **about, step=f"/score/{scorer} judge:{place}#1", role=ModelRole.JUDGE, usage=Usage(place, 1)
            )
            commit(self.session, judged)
            score = ScoreRecord(**about, scorer=scorer, slot_attempt=place + 1, usage=Usage(place, 1), **slot)
            commit(self.session, score)
        commit(self.session, TrialRecord(**about, status=Status.FAILED, stage="score: a", usage=Usage(5, 5)))

    @precondition(lambda self: self.session)
    @rule()
    def roll(self) -> None:
        """So much that the next record begins a segment."""
        for _ in range(2):
            trial = self._new()
            noise = "".join(chr(33 + (index * index * 7919 + self.written * 104729) % 90) for index in range(1200))
            end = TrialRecord(trial=trial.trial, attempt=1, status=Status.VALID, sample=noise, samplings=(SAMPLED,))
            commit(self.session, end)
            self.acknowledged.add(trial.trial)

    @precondition(lambda self: self.session and len(self.joined) < 2)
    @rule()
    def join(self) -> None:
        """Another process of the same session, with segments of its own."""
        number = self.session.admit_writer()
        self.joined.append(join_session(self.root, self.session.number, number, self.fs, options=SMALL_SEGMENTS))

    @precondition(lambda self: self.joined)
    @rule(writer=fractions, count=st.integers(1, 3))
    def commit_elsewhere(self, writer: float, count: int) -> None:
        other = self.joined[int(writer * len(self.joined))]
        for _ in range(count):
            trial = self._new()
            commit(other, trial)
            self.acknowledged.add(trial.trial)

    @precondition(lambda self: self.joined)
    @rule(writer=fractions, orderly=st.booleans())
    def leave(self, writer: float, *, orderly: bool) -> None:
        other = self.joined.pop(int(writer * len(self.joined)))
        other.close() if orderly else other.abandon()

    def _writer(self, at: float) -> RunSession | JoinedSession:
        return [self.session, *self.joined][int(at * (1 + len(self.joined)))]

    @precondition(lambda self: self.session)
    @rule(writer=fractions)
    def mark(self, writer: float) -> None:
        """No two are the same bytes."""
        self.written += 1
        commit(self._writer(writer), MarkRecord(calls=self.written))

    @precondition(lambda self: self.session)
    @rule()
    def end(self) -> None:
        """Also while others write for the session: they are stopped."""
        self.session.reader.refresh()
        self.session.close("complete")
        self._forget_session()

    def _forget_session(self) -> None:
        for other in self.joined:
            other.abandon()
        self.joined, self.session = [], None

    # Crashes.

    @precondition(lambda self: self.session)
    @rule()
    def crash(self) -> None:
        self.session.abandon()
        self._forget_session()

    @precondition(lambda self: self.session)
    @rule(left=fractions)
    def crash_in_a_write(self, left: float) -> None:
        """The power fails before a frame is synced; any beginning of it is left."""
        before = self._fail_to_write(self.session)
        self.crash()
        self._leave_a_beginning(before, left)

    @precondition(lambda self: self.joined)
    @rule(left=fractions)
    def another_dies_in_a_write(self, left: float) -> None:
        """The same of another process; the session goes on without it."""
        other = self.joined.pop()
        before = self._fail_to_write(other)
        other.abandon()
        self._leave_a_beginning(before, left)

    def _fail_to_write(self, session: RunSession | JoinedSession) -> dict[Path, int]:
        """How long the segments were before a frame was written that could not be synced."""
        before = {path: path.stat().st_size for path in self._segments()}
        self.failing = True
        with contextlib.suppress(StorageFailure):
            commit(session, self._new())
            raise Broken("acknowledged without a sync")
        self.failing = False
        return before

    def _leave_a_beginning(self, before: dict[Path, int], left: float) -> None:
        for path in self._segments():
            unsynced = path.stat().st_size - before.get(path, 0)
            if path in before and unsynced:
                size = before[path] + round((unsynced + 1) * left)
                path.write_bytes(path.read_bytes()[:size])

    @precondition(lambda self: not self.session)
    @rule()
    def resume(self) -> None:
        self.truth.learn()

        def make(reader: RunReader, number: int, pins: list):
            return session_record(reader.run.hex(), number, pins, CONTENTS)

        try:
            self.session = open_session(self.root, make, self.fs, writer=SMALL_SEGMENTS)
        except NotARun:
            expect(not self.truth.holds_anything(), "a run that holds records cannot be opened")
        else:
            self.truth.begin(self.session.number)

    # Destruction.

    def _segments(self) -> list[Path]:
        return sorted(path for path in (self.root / "journal").iterdir() if parse_name(path.name))

    def _choose(self, at: float) -> Path | None:
        self.truth.learn()
        paths = self._segments()
        return paths[int(at * len(paths))] if paths else None

    @precondition(lambda self: not self.session)
    @rule(segment=fractions, at=fractions, mask=st.integers(1, 255))
    def flip_a_byte(self, segment: float, at: float, mask: int) -> None:
        path = self._choose(segment)
        if path is None or not path.stat().st_size:
            return
        data = bytearray(path.read_bytes())
        offset = int(at * len(data))
        data[offset] ^= mask
        if self.truth.flipped(path, offset):
            path.write_bytes(data)

    @precondition(lambda self: not self.session)
    @rule(segment=fractions)
    def lose_a_segment(self, segment: float) -> None:
        path = self._choose(segment)
        if path is not None:
            path.unlink()
            self.truth.lost(path)

    def _indexes(self) -> list[Path]:
        return [
            path for path in (self.root / "index.sqlite", *self.place.glob("cache/holdfast/*.sqlite")) if path.exists()
        ]

    @precondition(lambda self: not self.session)
    @rule(how=st.sampled_from(["delete", "cut", "garbage", "page", "byte"]), at=fractions, vouched=st.booleans())
    def spoil_the_index(self, how: str, at: float, *, vouched: bool) -> None:
        """Also one that nothing vouches for, as a kill may leave it."""
        for path in self._indexes():
            data = path.read_bytes()
            page, place = int(at * (len(data) // 4096)) * 4096, int(at * len(data))
            spoilt = {
                "delete": None,
                "cut": data[:place],
                "garbage": b"no database at all" * 100,
                "page": data[:page] + bytes(4096) + data[page + 4096 :],
                "byte": data[:place] + bytes(byte ^ 1 for byte in data[place : place + 1]) + data[place + 1 :],
            }[how]
            path.unlink() if spoilt is None else path.write_bytes(spoilt)
            if not vouched:
                path.with_name(f"{path.name}.sum").unlink(missing_ok=True)

    @rule()
    def keep_the_indexes(self) -> None:
        """What an index is now may come back later, when the journal has moved on."""
        for path in self._indexes():
            for kept in (path, path.with_name(f"{path.name}.sum")):
                if kept.exists():
                    self.kept[kept] = kept.read_bytes()

    @precondition(lambda self: not self.session)
    @rule(crossed=st.booleans())
    def bring_indexes_back(self, *, crossed: bool) -> None:
        """Each to its own place, or the session's to the reader's and the other way round."""
        for path, data in self.kept.items():
            places = [other for other in self.kept if other != path and other.suffix == path.suffix]
            (places[0] if crossed and places else path).write_bytes(data)

    # Reading.

    @rule()
    def read(self) -> None:
        self._check(self.root)

    @precondition(lambda self: not self.session)
    @rule()
    def read_a_copy(self) -> None:
        """A copy that no index knows gives the same."""
        copy = self.place / "copy"
        shutil.copytree(self.root, copy)
        (copy / "index.sqlite").unlink(missing_ok=True)
        self._check(copy)
        shutil.rmtree(copy)

    def _check(self, root: Path) -> None:
        self.truth.learn()
        lost = self.acknowledged - self.truth.written()
        expect(not lost, f"acknowledged and never written: {lost}")
        try:
            reader = RunReader(root)
        except NotARun:
            expect(not self.truth.holds_anything(), "a run that holds records is said to hold none")
            return
        try:
            self._compare(reader)
            if not self.session:
                self._compare_with_a_new_index(reader)
        finally:
            reader.close()

    def _compare_with_a_new_index(self, reader: RunReader) -> None:
        anew = RunReader(reader.layout.root, index=self.place / "anew.sqlite")
        try:
            said, expected = _said(reader), _said(anew)
            expect(said == expected, f"the index says {said}, a new one {expected}")
        finally:
            anew.close()
            for path in self.place.glob("anew.sqlite*"):
                path.unlink()

    def _compare(self, reader: RunReader) -> None:
        streamed: list[Damage] = []
        records = list(reader.stream(streamed))
        idents = [ident for ident, _ in records]
        expect(len(set(idents)) == len(idents), f"given twice: {idents}")
        lines = [line for _, line in records]
        for ident, line in records:
            if isinstance(record := decode(line), SessionEndRecord):
                check_vouched_for(reader, ident, record)
        expected = self.truth.intact_lines()
        expect(sorted(lines) == sorted(expected), f"given: {set(lines) - expected}, not given: {expected - set(lines)}")
        keys = sorted(self.truth.names(expected))
        expect(list(reader.fold.finished()) == keys, f"finished {list(reader.fold.finished())}, expected {keys}")
        check_fold(reader)
        losses = [item for item in reader.damage() if item.is_loss]
        self.truth.check_reported(losses)
        verified = verify_run(reader)
        agrees = verified.ok == (not losses) or (not losses and self.truth.has_lost_unseen())
        expect(agrees, f"verify: {verified.damage}; reader: {losses}")
        self.truth.check_reported([item for item in verified.damage if item.is_loss])


def _said(reader: RunReader) -> tuple:
    """Everything that an index answers but damage, of which an older one may have seen more."""
    index = reader.index
    lines = [reader.lines_of(trial) for trial in reader.fold.trials()]
    doubtful = [(item.frame.offset, item.keys) for item in index.doubtful()]
    return as_told(reader), lines, index.states(), doubtful


LIVELY = settings(
    max_examples=80,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def machine(memory_path, monkeypatch):
    JournalMachine.directory, JournalMachine.patch = memory_path, monkeypatch
    return JournalMachine


def test_sessions_crashes_and_destruction_in_any_order_keep_what_was_acknowledged(machine):
    """The run agrees with the model of its bytes after any sequence of work, crashes and destruction."""
    run_state_machine_as_test(machine, settings=LIVELY)


@pytest.mark.soak
def test_soak_sessions_crashes_and_destruction_in_any_order(machine):
    """As above, thousands of longer sequences; a failing one prints what repeats it."""
    soak = settings(LIVELY, max_examples=3000, stateful_step_count=60, derandomize=False, print_blob=True)
    run_state_machine_as_test(machine, settings=soak)


@pytest.mark.parametrize(
    "name",
    [
        "trusting_reader",
        "silent_reader",
        "repeating_reader",
        "unpinned",
        "no_sync",
        pytest.param("halting_reader", marks=pytest.mark.soak),
    ],
)
def test_the_machine_betrays(machine, monkeypatch, name):
    """A reader or writer that breaks a promise is found out by some sequence."""
    mutants.ALL[name](monkeypatch)
    hasty = settings(LIVELY, max_examples=400, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises((Broken, FlakyFailure)) as told:
        run_state_machine_as_test(machine, settings=hasty)
    # The bytes of a run are never the same twice, so what one flip betrays, the same one may not betray again.
    assert isinstance(told.value, Broken) or told.value.subgroup(Broken)
    print(told.value)
