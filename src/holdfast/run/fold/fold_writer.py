"""The fold: what follows from the records of a run, kept as rows of the index while its segments are read.

One row a trial, one a score slot, and totals: how many trials of a task and model stand how. What a state is called
depends on the plan as well, so the totals keep what the records say and `RunFold` gives it a name. Every figure is a
whole number, so that the order in which segments are read changes nothing.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import add
from typing import TYPE_CHECKING

import msgspec

from holdfast.journal import RecordPlace
from holdfast.journal.frame import Origin
from holdfast.journal.reader import SeenFrames
from holdfast.run.core.codec import head_of
from holdfast.run.core.records import (
    KEPT_STATUSES,
    CallRecord,
    Coordinates,
    ScoreRecord,
    TrialRecord,
)
from holdfast.run.fold.cut import Cut
from holdfast.run.fold.entries import (
    AnswerEntry,
    CallEntry,
    FoldedRecord,
    ScoreEntry,
    StepEntry,
    TrialEntry,
    entry_of_line,
    entry_of_record,
)
from holdfast.run.fold.spent import slot_spent
from holdfast.run.fold.trial_row import TrialRow

if TYPE_CHECKING:
    # Whoever only reads a run needs no queue, nor what that needs.
    from holdfast.journal.commit_queue import QueuedRecord

SCHEMA = """
CREATE TABLE groups (id INTEGER PRIMARY KEY, task TEXT, model TEXT, axes TEXT, UNIQUE (task, model, axes));
CREATE TABLE scorers (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE standings (id INTEGER PRIMARY KEY, group_ INTEGER, status TEXT, reason TEXT, scorers TEXT, failed TEXT,
  hollow INTEGER, trials INTEGER DEFAULT 0, UNIQUE (group_, status, reason, scorers, failed, hollow));
CREATE TABLE trials (key PRIMARY KEY, standing INTEGER, counted INTEGER, answer INTEGER, moment INTEGER, row BLOB,
  places BLOB)
  WITHOUT ROWID;
CREATE TABLE slots (key, scorer INTEGER, attempt INTEGER, value REAL, cached INTEGER,
  session INTEGER, writer INTEGER, seq INTEGER, place INTEGER, state INTEGER, slot_attempt INTEGER,
  PRIMARY KEY (key, scorer, attempt)) WITHOUT ROWID;
CREATE TABLE spent (group_ INTEGER, model TEXT, reused INTEGER, figures TEXT, PRIMARY KEY (group_, model, reused))
  WITHOUT ROWID;
CREATE TABLE sampled (group_ INTEGER, kind TEXT, name TEXT, figure INTEGER, PRIMARY KEY (group_, kind, name))
  WITHOUT ROWID;
CREATE TABLE written (session INTEGER, kind TEXT, records INTEGER, PRIMARY KEY (session, kind)) WITHOUT ROWID;
CREATE TABLE landmarks (kind TEXT, session INTEGER, writer INTEGER, seq INTEGER, place INTEGER,
  segment INTEGER, offset INTEGER, PRIMARY KEY (kind, session, writer, seq, place)) WITHOUT ROWID;
"""
"""`counted` is the attempt whose end counts, below zero if it ended without all of its scores, `answer` the one whose
answer it has, `moment` orders trials as they were written, `places` are where their records lie: for every frame the
number of its segment and its offset. `cached` marks a score that only the end of a trial gives, `state` is one of a
slot. `scorers` have filled their slots, `failed` have used up the attempts of theirs. `figures` are `SpentFigures`,
whole numbers of any size. `sampled` adds up `SamplingFigures`. `written` counts records by session, and of steps and
ends those that are replies and kept.
"""
TABLES = ("groups", "scorers", "standings", "trials", "slots", "spent", "sampled", "written", "landmarks")
REPLY, KEPT = "reply", "kept"
_BATCH_TRIALS = 8192
_ROWS_AT_A_TIME = 64
_KEYS_AT_A_TIME = 1000
_row_encoder = msgspec.msgpack.Encoder()
_row_decoder = msgspec.msgpack.Decoder(TrialRow)
_NO_AXES = "{}"
_PLACE = struct.Struct(">Q")
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
"""A place is the number of a segment and an offset: 16 million segments, each of a terabyte."""
_KEY_DIGITS = 20


def pack_key(key: str) -> bytes | str:
    """A trial's key as it is stored: as ten bytes, if it is the digest that it usually is."""
    if len(key) != _KEY_DIGITS:
        return key
    try:
        packed = bytes.fromhex(key)
    except ValueError:
        return key
    return packed if packed.hex() == key else key


def unpack_key(stored: bytes | str) -> str:
    return stored.hex() if isinstance(stored, bytes) else stored


def unpack_row(data: bytes) -> TrialRow:
    """The row of a trial, as it is stored."""
    return _row_decoder.decode(data)


def pack_place(segment: int, offset: int) -> bytes:
    """Where a frame lies, as it is stored."""
    return _PLACE.pack(segment << _OFFSET_BITS | offset)


def unpack_places(data: bytes) -> list[tuple[int, int]]:
    """Where the records of a trial lie, as it is stored."""
    return [(number >> _OFFSET_BITS, number & _OFFSET_MASK) for (number,) in _PLACE.iter_unpack(data)]


FILLED, UNSCORED, FAILED, RETRIED = range(4)
"""The states of a slot: a score; none, for a reason; no attempt is left; one failed, and another was to follow."""


class Slot(msgspec.Struct, gc=False):
    """What a scorer gave in one attempt of the trial, or how its own last attempt has failed."""

    scorer: str
    attempt: int
    value: float | None
    cached: bool
    session: int
    writer: int
    seq: int
    place: int
    state: int = FILLED
    slot_attempt: int = 1

    @property
    def is_filled(self) -> bool:
        return self.state <= UNSCORED

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    @property
    def columns(self) -> tuple[object, ...]:
        """As it is stored, behind its trial and scorer."""
        where = self.session, self.writer, self.seq, self.place
        return self.attempt, self.value, self.cached, *where, self.state, self.slot_attempt

    @property
    def _doubt(self) -> tuple[bool, bool]:
        return self.value is None and self.state == FILLED, self.cached

    def gives_way_to(self, other: Slot) -> bool:
        """The first filled record of the newest session counts; a score that only the end of a trial gives, if none
        does. A failure never replaces a filled one, and of several the last attempt counts.

        Of a score that is stored as a blob, an earlier version kept only that it was given: any other counts before it.
        """
        if not self.is_filled or not other.is_filled:
            if self.is_filled or other.is_filled:
                return other.is_filled
            mine, others = (
                (self.slot_attempt, self.session, self.order),
                (other.slot_attempt, other.session, other.order),
            )
            return others > mine
        if self._doubt != other._doubt:
            return self._doubt > other._doubt
        return (other.session, self.order) > (self.session, other.order)


class _OpenTrial(msgspec.Struct, gc=False):
    """A trial whose row is being changed. Thousands are open at once: none is anything a collector has to look at."""

    key: bytes | str
    row: TrialRow
    group: int = 0
    standing: int = 0
    here: bytes = b""
    """Where the frame lies that was taken in last."""
    places: bytes = b""
    slots: tuple[Slot, ...] = ()

    def arrive(self, here: bytes, frame: Origin) -> None:
        """A frame that lies here has records of it."""
        self.here = here
        self.places += here
        self.row.touch(frame.session, frame.seq)

    def find_slot(self, scorer: str, attempt: int) -> Slot | None:
        for slot in self.slots:
            if slot.scorer == scorer and slot.attempt == attempt:
                return slot
        return None

    def add_slot(self, slot: Slot, known: Slot | None) -> None:
        """A score; `known` is the one of the same attempt that was there."""
        if known is None:
            self.slots += (slot,)
        elif known.gives_way_to(slot):
            self.slots = tuple(slot if one is known else one for one in self.slots)

    def scorers(self, first: int, last: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who has filled, and who has failed for good, the slots of the attempts from the first to the last."""
        if len(self.slots) == 1 and self.slots[0].state <= UNSCORED:
            slot = self.slots[0]
            return ((slot.scorer,) if first <= slot.attempt <= last else ()), ()
        slots = [slot for slot in self.slots if first <= slot.attempt <= last]
        filled = {slot.scorer for slot in slots if slot.is_filled}
        failed = {slot.scorer for slot in slots if slot.state == FAILED} - filled
        return tuple(sorted(filled)), tuple(sorted(failed))


_StandingNames = tuple[int, str, str, tuple[str, ...], tuple[str, ...], bool]
"""Group, status, reason, scorers, those that have failed, and whether records are missing."""


class FoldWriter:
    """Takes in records, and writes the rows."""

    schema = SCHEMA

    def __init__(self, cut: Cut | None = None) -> None:
        self._cut = cut
        self._db: sqlite3.Connection
        self._prepared: dict[tuple[int, ...], Sequence[FoldedRecord | None]] = {}
        self._handlers: dict[type, Callable[..., None]] = {
            CallEntry: self._add_call,
            CallRecord: self._add_call,
            StepEntry: self._add_step,
            AnswerEntry: self._add_answer,
            ScoreEntry: self._add_score,
            ScoreRecord: self._add_score,
            TrialEntry: self._add_trial,
            TrialRecord: self._add_trial,
        }

    def begin(self, db: sqlite3.Connection) -> None:
        """From now on the tables are those of this connection; what was not flushed is forgotten."""
        self._db = db
        self._is_empty = db.execute("SELECT 1 FROM trials LIMIT 1").fetchone() is None
        """Whether no row was written yet, so that none has to be looked for."""
        self._trials: dict[str, _OpenTrial] = {}
        self._groups: dict[tuple[str, str, str], int] = {}
        self._models: dict[int, str] = {0: ""}
        """The model of a group; of trials that do not say where they belong it is not known."""
        self._scorers: dict[str, int] = {}
        self._standings: dict[_StandingNames, int] = {}
        self._moved: Counter[int] = Counter()
        self._spent: dict[tuple[int, str, bool], list[int]] = {}
        self._sampled: Counter[tuple[int, str, str]] = Counter()
        self._written: Counter[tuple[int, str]] = Counter()
        self._landmarks: list[tuple[object, ...]] = []

    # Frames.

    def prepare(self, frame: Origin, records: Sequence[QueuedRecord]) -> None:
        """The records of a frame that has just been written, with their lines; from any thread."""
        # Exact tuples: what holds no other objects is nothing that a collector has to look at.
        self._prepared[tuple(frame)] = tuple([entry_of_record(item.record, item.line) for item in records])

    def prepared(self, frame: Origin) -> Sequence[FoldedRecord | None] | None:
        return self._prepared.pop(frame, None)

    def forget_prepared(self, seen: SeenFrames) -> None:
        """Lets go of prepared frames that were taken in already."""
        for frame in [frame for frame in list(self._prepared) if frame in seen]:
            self._prepared.pop(frame, None)

    def decode(self, lines: list[bytes]) -> Sequence[FoldedRecord | None]:
        return [entry_of_line(line) for line in lines]

    def keys(self, lines: list[bytes]) -> list[str]:
        """The keys that records belong to, without taking them in."""
        return [key for line in lines if (key := head_of(line)[1])]

    def add(self, frame: Origin, segment: int, offset: int, records: Sequence[FoldedRecord | None]) -> None:
        """Takes in the records of a frame; each frame once."""
        if self._cut is not None:
            records = [entry if entry is not None and self._cut.admits(frame, entry) else None for entry in records]
        self._open_all(records)
        handlers, trials = self._handlers, self._trials
        here = pack_place(segment, offset)
        for place, entry in enumerate(records):
            if entry is None:
                continue
            if not entry.trial:
                self._landmarks.append((type(entry).__struct_config__.tag, *frame, place, segment, offset))
            elif (handler := handlers.get(type(entry))) is not None:
                trial = trials[entry.trial]
                if trial.here is not here:
                    trial.arrive(here, frame)
                if entry.attempt > trial.row.attempt:  # type: ignore[union-attr]
                    trial.row.begin_attempt(entry.attempt)  # type: ignore[union-attr]
                handler(trial, entry, frame, place)
        self._count_records(frame.session, records)
        if len(trials) >= _BATCH_TRIALS:
            self.flush()

    def _count_records(self, session: int, records: Sequence[FoldedRecord | None]) -> None:
        for type_, count in Counter(map(type, records)).items():
            if issubclass(type_, msgspec.Struct):
                self._written[session, str(type_.__struct_config__.tag)] += count

    def _open_all(self, records: Sequence[FoldedRecord | None]) -> None:
        """Has the rows of all trials of a frame at hand: as they are, or new ones."""
        trials, handlers = self._trials, self._handlers
        new = {entry.trial for entry in records if type(entry) in handlers and entry.trial not in trials}  # type: ignore[union-attr]
        new.discard("")
        for key in new:
            trials[key] = _OpenTrial(pack_key(key), TrialRow())
        if not self._is_empty and new:
            self._load_rows({trial.key: trial for trial in map(trials.__getitem__, new)})

    def _load_rows(self, opened: dict[bytes | str, _OpenTrial]) -> None:
        wanted = list(opened)
        for first in range(0, len(wanted), _KEYS_AT_A_TIME):
            keys = wanted[first : first + _KEYS_AT_A_TIME]
            query = f"SELECT key, standing, row, places FROM trials WHERE key IN ({','.join('?' * len(keys))})"  # noqa: S608
            for key, standing, row, places in self._db.execute(query, keys).fetchall():
                trial = opened[key]
                trial.standing, trial.row, trial.places = standing, unpack_row(row), places
                trial.group, trial.slots = self._group_of(standing), self._slots_of(key)
                # What it has taken so far is taken back, and all that it has taken is added when it is written.
                self._add_spent(trial, -1)

    def _group_of(self, standing: int) -> int:
        found = self._db.execute("SELECT group_ FROM standings WHERE id = ?", (standing,)).fetchone()
        return int(found[0])

    def _slots_of(self, key: bytes | str) -> tuple[Slot, ...]:
        query = (
            "SELECT name, attempt, value, cached, session, writer, seq, place, state, slot_attempt"
            " FROM slots JOIN scorers ON scorers.id = slots.scorer WHERE key = ?"
        )
        return tuple(Slot(*row) for row in self._db.execute(query, (key,)))

    # Records.

    def _add_call(self, trial: _OpenTrial, entry: CallEntry | CallRecord, _frame: Origin, _place: int) -> None:
        if entry.about is not None and not trial.group:
            self._locate(trial, entry.about)

    def _add_step(self, trial: _OpenTrial, entry: StepEntry, frame: Origin, _place: int) -> None:
        # A reply that was taken over from another branch is on record as that branch's, and counts once.
        if not entry.lender:
            self._add_outcome(trial.row, entry, frame)
        if entry.about is not None and not trial.group:
            self._locate(trial, entry.about)

    def _add_outcome(self, row: TrialRow, entry: StepEntry, frame: Origin) -> None:
        is_judge = entry.is_of_slot
        if entry.error is None and entry.attempt == row.attempt and not is_judge:
            row.steps += 1
        if entry.model and not entry.source:
            self._written[frame.session, REPLY] += 1
        if entry.usage is not None:
            add_reply = row.add_judge_reply if is_judge else row.add_reply
            add_reply(entry.attempt, entry.model, entry.usage, reused=bool(entry.source) and entry.is_reused)

    def _add_answer(self, trial: _OpenTrial, entry: AnswerEntry, _frame: Origin, _place: int) -> None:
        trial.row.add_answer(entry.attempt)
        if entry.about is not None and not trial.group:
            self._locate(trial, entry.about)

    def _add_score(self, trial: _OpenTrial, entry: ScoreEntry | ScoreRecord, frame: Origin, place: int) -> None:
        if entry.usage is not None:
            trial.row.add_slot(slot_spent(entry, entry.usage, frame, place))
        state = FILLED
        if entry.error is not None:
            state = RETRIED if entry.will_retry else FAILED
        elif entry.unscored:
            state = UNSCORED
        elif entry.value is None and not getattr(entry, "blob", None):
            return
        slot = Slot(entry.scorer, entry.attempt, entry.value, False, *frame, place, state, entry.slot_attempt)
        trial.add_slot(slot, trial.find_slot(entry.scorer, entry.attempt))

    def _add_trial(self, trial: _OpenTrial, entry: TrialEntry | TrialRecord, frame: Origin, place: int) -> None:
        if not trial.group:
            self._locate(trial, entry)
        trial.row.add_end(entry, frame, place)
        trial.row.add_spent(entry, frame, place)
        if entry.status in KEPT_STATUSES:
            self._written[frame.session, KEPT] += 1
            for scorer, value in entry.scores.items():
                known = trial.find_slot(scorer, entry.attempt)
                if known is None or known.cached or known.value is None:
                    state = UNSCORED if value is None else FILLED
                    trial.add_slot(Slot(scorer, entry.attempt, value, True, *frame, place, state), known)

    def _locate(self, trial: _OpenTrial, about: Coordinates | TrialEntry | TrialRecord) -> None:
        """A record says which trial it is; all that say it say the same."""
        axes = msgspec.json.encode(about.axes, order="sorted").decode() if about.axes else _NO_AXES
        trial.group = self._group(about.task, about.model, axes)
        trial.row.sample, trial.row.epoch = about.sample, about.epoch

    def _add_spent(self, trial: _OpenTrial, sign: int) -> None:
        """Adds what a trial has taken to the sums, or takes it back."""
        own = self._models.get(trial.group)
        own = self._model_of(trial.group) if own is None else own
        for share, figures in trial.row.total_spent(own).items():
            key = (trial.group, *share)
            total = self._spent.get(key)
            if total is None:
                total = self._spent[key] = [0] * len(figures)
            for place, figure in enumerate(figures):
                if figure:
                    total[place] += sign * figure
        end = trial.row.end
        if end is not None and end.samplings:
            for kind, name, figure in chain.from_iterable(one.figures(own) for one in end.samplings):
                self._sampled[trial.group, kind, name] += sign * figure

    # Numbers of what has a name.

    def _group(self, *names: str) -> int:
        if names not in self._groups:
            values = "(task, model, axes) VALUES (?, ?, ?)"
            self._db.execute(f"INSERT OR IGNORE INTO groups {values}", names)
            query = "SELECT id FROM groups WHERE (task, model, axes) = (?, ?, ?)"
            self._groups[names] = self._db.execute(query, names).fetchone()[0]  # type: ignore[index]
        return self._groups[names]  # type: ignore[index]

    def _model_of(self, group: int) -> str:
        found = self._db.execute("SELECT model FROM groups WHERE id = ?", (group,)).fetchone()
        return self._models.setdefault(group, found[0])

    def _scorer(self, name: str) -> int:
        if name not in self._scorers:
            self._db.execute("INSERT OR IGNORE INTO scorers (name) VALUES (?)", (name,))
            query = "SELECT id FROM scorers WHERE name = ?"
            self._scorers[name] = self._db.execute(query, (name,)).fetchone()[0]
        return self._scorers[name]

    def _standing(self, trial: _OpenTrial, first: int, last: int) -> int:
        row = trial.row
        names = (trial.group, *row.fact(), *trial.scorers(first, last), row.is_hollow)
        number = self._standings.get(names)
        if number is None:
            number = self._standings[names] = self._number_standing(names)
        return number

    def _number_standing(self, names: _StandingNames) -> int:
        group, status, reason, scorers, failed, hollow = names
        encode = msgspec.json.encode
        values = (group, status, reason, encode(scorers).decode(), encode(failed).decode(), hollow)
        columns = "(group_, status, reason, scorers, failed, hollow)"
        self._db.execute(f"INSERT OR IGNORE INTO standings {columns} VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608
        query = f"SELECT id FROM standings WHERE {columns} = (?, ?, ?, ?, ?, ?)"  # noqa: S608
        return int(self._db.execute(query, values).fetchone()[0])

    # Rows.

    def flush(self) -> None:
        """Writes what was taken in to the tables."""
        # In the table's own order each of its pages is touched once a batch, not once a row.
        trials = sorted(self._trials.values(), key=_sort_key)
        # The same object: whoever adds a frame goes on with it.
        self._trials.clear()
        self._is_empty = self._is_empty and not trials
        self._write_trials(trials)
        self._write_slots(trials)
        self._write_sums()

    def _write_trials(self, trials: list[_OpenTrial]) -> None:
        rows: list[tuple[object, ...]] = []
        for trial in trials:
            row = trial.row
            counted, answer_of = row.counted, row.answer_of
            scored = counted or row.scored
            counted = counted or -scored
            standing = self._standing(trial, answer_of, scored)
            if standing != trial.standing:
                self._moved[trial.standing] -= 1
                self._moved[standing] += 1
            if row.spent or row.replies or row.judge_replies or row.slots:
                self._add_spent(trial, 1)
            encoded = _row_encoder.encode(row)
            rows.append((trial.key, standing, counted, answer_of, row.moment, encoded, trial.places))
        _insert_rows(self._db, "trials", rows)

    def _write_slots(self, trials: list[_OpenTrial]) -> None:
        rows = [(trial.key, self._scorer(slot.scorer), *slot.columns) for trial in trials for slot in trial.slots]
        _insert_rows(self._db, "slots", rows)

    def _write_sums(self) -> None:
        moved, self._moved = self._moved, Counter()
        spent, self._spent = self._spent, {}
        sampled, self._sampled = self._sampled, Counter()
        written, self._written = self._written, Counter()
        landmarks, self._landmarks = self._landmarks, []
        changes = [(change, standing) for standing, change in moved.items() if standing and change]
        self._db.executemany("UPDATE standings SET trials = trials + ? WHERE id = ?", changes)
        for key, figures in spent.items():
            self._write_spent(key, figures)
        self._db.executemany(_ADD_SAMPLED, [(*names, count) for names, count in sampled.items()])
        self._db.executemany(_ADD_WRITTEN, [(*names, count) for names, count in written.items()])
        self._db.executemany("INSERT OR REPLACE INTO landmarks VALUES (?,?,?,?,?,?,?)", landmarks)

    def _write_spent(self, key: tuple[int, str, bool], more: list[int]) -> None:
        found = self._db.execute(f"SELECT figures FROM spent WHERE {_SPENT_KEY}", key).fetchone()  # noqa: S608
        total = list(map(add, map(int, found[0].split()), more)) if found else more
        # The same rows, whatever was met first: a trial that is moved to its group leaves nothing behind.
        self._db.execute(f"DELETE FROM spent WHERE {_SPENT_KEY}", key)  # noqa: S608
        if any(total):
            self._db.execute("INSERT INTO spent VALUES (?, ?, ?, ?)", (*key, " ".join(map(str, total))))

    def clear(self) -> None:
        """Empties the tables."""
        for table in TABLES:
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - no value is put into the text
        self.begin(self._db)

    def remember_places(self) -> None:
        """Keeps where every record was read from, until `missed_places` is asked; not in memory."""
        self._db.execute("CREATE TEMP TABLE places_before AS SELECT key, places FROM trials")

    def missed_places(self) -> Iterator[RecordPlace]:
        """Where records were read from then, and are not any more."""
        query = "SELECT key, b.places, t.places FROM places_before b LEFT JOIN trials t USING (key)"
        for key, before, now in self._db.execute(query):
            for segment, offset in set(unpack_places(before)).difference(unpack_places(now or b"")):
                yield RecordPlace(segment, unpack_key(key), offset)
        self._db.execute("DROP TABLE places_before")


def _insert_rows(db: sqlite3.Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    """Writes rows of one length, a good number with each statement.

    After every statement another thread may have its turn: with one a row the threads of a session would do little
    else than take turns.
    """
    if not rows:
        return
    row = f"({','.join('?' * len(rows[0]))})"
    whole = len(rows) // _ROWS_AT_A_TIME * _ROWS_AT_A_TIME
    groups = (rows[first : first + _ROWS_AT_A_TIME] for first in range(0, whole, _ROWS_AT_A_TIME))
    statement = f"INSERT OR REPLACE INTO {table} VALUES "  # noqa: S608 - no value is put into the text
    db.executemany(statement + ",".join([row] * _ROWS_AT_A_TIME), (list(chain(*group)) for group in groups))
    db.executemany(statement + row, rows[whole:])


def _sort_key(trial: _OpenTrial) -> tuple[bool, bytes]:
    key = trial.key
    return (True, key) if isinstance(key, bytes) else (False, key.encode())


_SPENT_KEY = "(group_, model, reused) = (?, ?, ?)"
_ADD_WRITTEN = "INSERT INTO written VALUES (?,?,?) ON CONFLICT DO UPDATE SET records = records + excluded.records"
_ADD_SAMPLED = "INSERT INTO sampled VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET figure = figure + excluded.figure"
