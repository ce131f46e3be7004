"""The fold: the state of a run, computed from its records and kept as rows of the index.

There is one row for each trial, one for each score slot, and totals: how many trials of a task and model are in which
standing. The name of a state also depends on the plan, so the totals keep only what the records say, and `RunFold`
names it. Every figure is a whole number, so that the order in which segments are read changes nothing.

Records are held by trial, some ten thousand at a time, and merged into the rows when those are written: by then most
trials have all their records in memory.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import add
from typing import TYPE_CHECKING

import msgspec

from holdfast.journal import RecordPlace
from holdfast.journal.frame import Origin
from holdfast.journal.reader import SeenFrames
from holdfast.run.core.codec import head_of
from holdfast.run.core.records import Coordinates, TrialRecord
from holdfast.run.fold.cut import Cut
from holdfast.run.fold.entries import FoldedRecord, TrialEntry, entry_of_line, entry_of_record
from holdfast.run.fold.rows.fold_tables import (
    KEPT,
    REPLY,
    REQUEST,
    SCHEMA,
    TABLES,
    insert_rows,
    pack_key,
    pack_place,
    pack_row,
    unpack_key,
    unpack_places,
    unpack_row,
)
from holdfast.run.fold.rows.open_trial import OF_TRIALS, FoundRecord, FrameAt, OpenTrial
from holdfast.run.fold.rows.score_slot import Slot
from holdfast.run.fold.rows.spent import SpentFigures
from holdfast.run.fold.rows.trial_row import TrialRow
from holdfast.run.fold.rows.usual_trial import UsualKind, UsualTrials

if TYPE_CHECKING:
    # A process that only reads a run needs neither the queue nor its imports.
    from holdfast.journal.commit_queue import QueuedRecord

_BATCH_RECORDS = 40_000
_KEYS_AT_A_TIME = 1000
_NO_AXES = "{}"
_VALID = ("valid", "")
_StandingNames = tuple[int, str, str, tuple[str, ...], tuple[str, ...], bool]
"""Group, status, reason, scorers, those that have failed, and whether records are missing."""


class FoldWriter:
    """Takes in records, and writes the rows."""

    schema = SCHEMA

    def __init__(self, cut: Cut | None = None) -> None:
        self._cut = cut
        self._db: sqlite3.Connection
        self._prepared: dict[tuple[int, ...], Sequence[FoldedRecord | None]] = {}

    def begin(self, db: sqlite3.Connection) -> None:
        """From now on the tables are those of this connection; what was not flushed is forgotten."""
        self._db = db
        self._is_empty = db.execute("SELECT 1 FROM trials LIMIT 1").fetchone() is None
        """Whether no row was written yet, so that none has to be looked for."""
        self._found: defaultdict[str, list[FoundRecord]] = defaultdict(list)
        """By key, the records that are not in a row yet."""
        self._waiting = 0
        """How many records were taken in since rows were written."""
        self._groups: dict[tuple[str, str, str], int] = {}
        self._models: dict[int, str] = {0: ""}
        """The model of a group; of trials that do not say where they belong it is unknown."""
        self._scorers: dict[str, int] = {}
        self._standings: dict[_StandingNames, int] = {}
        self._moved: Counter[int] = Counter()
        self._spent: dict[tuple[int, str, bool], list[int]] = {}
        self._sampled: Counter[tuple[int, str, str]] = Counter()
        self._written: Counter[tuple[int, str]] = Counter()
        self._ledger: Counter[tuple[int, int, str]] = Counter()
        self._landmarks: list[tuple[object, ...]] = []
        self._usual = UsualTrials(self._usual_kind)
        self._rows, self._slot_rows = self._usual.rows, self._usual.slot_rows
        """Of all trials that are to be written."""

    # Frames.

    def prepare(self, frame: Origin, records: Sequence[QueuedRecord]) -> None:
        """The records of a frame that has just been written, with their lines; from any thread."""
        # Exact tuples of plain values: the garbage collector stops tracking them, which saves time here.
        self._prepared[tuple(frame)] = tuple([entry_of_record(item.record, item.line) for item in records])

    def prepared(self, frame: Origin) -> Sequence[FoldedRecord | None] | None:
        return self._prepared.pop(frame, None)

    def forget_prepared(self, seen: SeenFrames) -> None:
        """Drops prepared frames that were taken in already."""
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
            records = [entry and self._cut.apply(frame, entry) for entry in records]
        found, at = self._found, FrameAt(frame, pack_place(segment, offset))
        for place, entry in enumerate(records):
            if entry is None:
                continue
            if not entry.trial:
                self._landmarks.append((type(entry).__struct_config__.tag, *frame, place, segment, offset))
            elif type(entry) in OF_TRIALS:
                found[entry.trial].append(FoundRecord(entry, at, place))
        self._count_records(frame.session, records)
        self._waiting += len(records)
        if self._waiting >= _BATCH_RECORDS:
            self.flush()

    def _count_records(self, session: int, records: Sequence[FoldedRecord | None]) -> None:
        for type_, count in Counter(map(type, records)).items():
            if issubclass(type_, msgspec.Struct):
                self._written[session, str(type_.__struct_config__.tag)] += count

    # Trials.

    def flush(self) -> None:
        """Writes what was taken in to the tables."""
        found, self._found, self._waiting = self._found, defaultdict(list), 0
        # In the order of the table, each of its pages is written once per batch, not once per row.
        keys = {key: pack_key(key) for key in sorted(found)}
        # A first fold has no rows yet, so there is nothing to look up.
        known = {} if self._is_empty else self._load_trials(list(keys.values()))
        self._is_empty = self._is_empty and not found
        for key, packed in keys.items():
            records, trial = found[key], known.get(packed)
            if trial is not None or not self._usual.add(packed, records):
                self._write_merged(trial or OpenTrial(packed, TrialRow()), records)
        for kind in self._usual.take_kinds():
            self._add_usual(kind)
        self._write_rows()
        self._write_sums()

    def _load_trials(self, keys: list[bytes | str]) -> dict[bytes | str, OpenTrial]:
        """The trials that have a row already."""
        loaded: dict[bytes | str, OpenTrial] = {}
        for first in range(0, len(keys), _KEYS_AT_A_TIME):
            some = keys[first : first + _KEYS_AT_A_TIME]
            query = f"SELECT key, standing, row, places FROM trials WHERE key IN ({','.join('?' * len(some))})"  # noqa: S608
            for key, standing, row, places in self._db.execute(query, some).fetchall():
                group, slots = self._group_of(standing), self._slots_of(key)
                trial = loaded[key] = OpenTrial(key, unpack_row(row), group, standing, places, slots)
                # Its usage so far is subtracted here; the new total is added when it is written.
                self._add_spent(trial, -1)
        return loaded

    def _group_of(self, standing: int) -> int:
        found = self._db.execute("SELECT group_ FROM standings WHERE id = ?", (standing,)).fetchone()
        return int(found[0])

    def _slots_of(self, key: bytes | str) -> tuple[Slot, ...]:
        query = (
            "SELECT name, attempt, value, cached, session, writer, seq, place, state, slot_attempt"
            " FROM slots JOIN scorers ON scorers.id = slots.scorer WHERE key = ?"
        )
        return tuple(Slot(*row) for row in self._db.execute(query, (key,)))

    def _write_merged(self, trial: OpenTrial, records: Iterable[FoundRecord]) -> None:
        trial.take_in(records, self._written)
        if trial.about is not None:
            trial.group = self._group(trial.about)
        row = trial.row
        scored = row.counted or row.scored
        names = (trial.group, *row.fact(), *trial.scorers(row.answer_of, scored), row.is_hollow)
        standing = self._standing(names)
        if standing != trial.standing:
            self._moved[trial.standing] -= 1
            self._moved[standing] += 1
        self._add_spent(trial, 1)
        counted = row.counted or -scored
        self._rows.append((trial.key, standing, counted, row.answer_of, row.moment, pack_row(row), trial.places))
        self._slot_rows += [(trial.key, self._scorer(slot.scorer), *slot.columns) for slot in trial.slots]

    def _add_spent(self, trial: OpenTrial, sign: int) -> None:
        """Adds what a trial has taken to the sums, and what the ledger names of it, or takes it back."""
        own, end = self._model_of(trial.group), trial.row.end
        for share, figures in trial.row.total_spent(own).items():
            self._add_figures((trial.group, *share), figures, sign)
        for session, kind, calls in trial.row.ledger:
            self._ledger[session, trial.group, kind] += sign * calls
        if end is not None and end.samplings:
            for kind, name, figure in chain.from_iterable(one.figures(own) for one in end.samplings):
                self._sampled[trial.group, kind, name] += sign * figure

    def _add_figures(self, key: tuple[int, str, bool], figures: Iterable[int], sign: int = 1) -> None:
        total = self._spent.get(key)
        if total is None:
            total = self._spent[key] = [0] * len(SpentFigures._fields)
        for place, figure in enumerate(figures):
            if figure:
                total[place] += sign * figure

    def _usual_kind(self, session: int, about: Coordinates, scorers: list[str]) -> UsualKind:
        group = self._group(about)
        standing = self._standing((group, *_VALID, tuple(sorted(scorers)), (), False))
        return UsualKind(session, group, about.model, standing, tuple(map(self._scorer, scorers)))

    def _add_usual(self, kind: UsualKind) -> None:
        """Adds usual trials to the sums: each has one reply and one end that is kept."""
        self._moved[kind.standing] += kind.trials
        self._add_figures((kind.group, kind.model, False), kind.figures)
        self._written[kind.session, REPLY] += kind.trials
        self._written[kind.session, REQUEST] += kind.requests
        self._written[kind.session, KEPT] += kind.trials

    # Numbers of what has a name.

    def _group(self, about: Coordinates | TrialEntry | TrialRecord) -> int:
        axes = msgspec.json.encode(about.axes, order="sorted").decode() if about.axes else _NO_AXES
        names = (about.task, about.model, axes)
        if names not in self._groups:
            values = "(task, model, axes) VALUES (?, ?, ?)"
            self._db.execute(f"INSERT OR IGNORE INTO groups {values}", names)
            query = "SELECT id FROM groups WHERE (task, model, axes) = (?, ?, ?)"
            self._groups[names] = self._db.execute(query, names).fetchone()[0]
        return self._groups[names]

    def _model_of(self, group: int) -> str:
        if group not in self._models:
            found = self._db.execute("SELECT model FROM groups WHERE id = ?", (group,)).fetchone()
            self._models[group] = found[0]
        return self._models[group]

    def _scorer(self, name: str) -> int:
        if name not in self._scorers:
            self._db.execute("INSERT OR IGNORE INTO scorers (name) VALUES (?)", (name,))
            query = "SELECT id FROM scorers WHERE name = ?"
            self._scorers[name] = self._db.execute(query, (name,)).fetchone()[0]
        return self._scorers[name]

    def _standing(self, names: _StandingNames) -> int:
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

    def _write_rows(self) -> None:
        for table, rows in (("trials", self._rows), ("slots", self._slot_rows)):
            insert_rows(self._db, table, rows)
            rows.clear()

    def _write_sums(self) -> None:
        moved, self._moved = self._moved, Counter()
        spent, self._spent = self._spent, {}
        sampled, self._sampled = self._sampled, Counter()
        written, self._written = self._written, Counter()
        ledger, self._ledger = self._ledger, Counter()
        landmarks, self._landmarks = self._landmarks, []
        changes = [(change, standing) for standing, change in moved.items() if standing and change]
        self._db.executemany("UPDATE standings SET trials = trials + ? WHERE id = ?", changes)
        for key, figures in spent.items():
            self._write_spent(key, figures)
        self._db.executemany(_ADD_SAMPLED, [(*names, count) for names, count in sampled.items()])
        self._db.executemany(_ADD_WRITTEN, [(*names, count) for names, count in written.items()])
        self._db.executemany(_ADD_LEDGER, [(*names, calls) for names, calls in ledger.items() if calls])
        self._db.execute("DELETE FROM ledger WHERE calls = 0")
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


_SPENT_KEY = "(group_, model, reused) = (?, ?, ?)"
_ADD_WRITTEN = "INSERT INTO written VALUES (?,?,?) ON CONFLICT DO UPDATE SET records = records + excluded.records"
_ADD_LEDGER = "INSERT INTO ledger VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls"
_ADD_SAMPLED = "INSERT INTO sampled VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET figure = figure + excluded.figure"
