"""Recovery 5 and 27: when an index is believed, and which file and which bytes it speaks of."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from durable import (
    begin_run,
    begin_session,
    commit,
    crashed_run,
    data_pieces,
    finish_trials,
    finished_run,
    segment_paths,
)
from folds import as_told
from holdfast.errors import StorageFailure
from holdfast.journal import DamageKind
from holdfast.journal.index.builder import IndexBuilder
from holdfast.journal.index.database import copy_index, has_its_sum
from holdfast.run import RunReader
from holdfast.run.core.layout import reader_index_path
from holdfast.run.core.records import Status, TrialRecord

SEED = 20261117


def own_index(root: Path) -> Path:
    reader = RunReader(root)
    reader.close()
    return reader_index_path(root, reader.run)


def told(root: Path, index: Path | None = None) -> tuple:
    """What an index says is there."""
    with contextlib.closing(RunReader(root, index=index)) as reader:
        return (
            as_told(reader),
            reader.sessions,
            list(reader.fold.finished()),
            reader.index.states(),
            [item.frame for item in reader.index.doubtful()],
            [record for trial in reader.fold.trials() for record in reader.records_of(trial.key)],
        )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with finished trials, one that failed, and an index of its own."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    second = begin_session(root)
    finish_trials(second, "t3")
    commit(second, TrialRecord(trial="t9", attempt=1, status=Status.FAILED))
    second.reader.refresh()
    second.abandon()
    return root


def test_recovery_5_a_changed_byte_in_an_index_is_noticed_also_without_its_sum(run):
    """One byte anywhere, in an index that nothing vouches for: the answers are those of the journal."""
    print(f"seed {SEED}")
    noise, path = random.Random(SEED), own_index(run)
    expected, data = told(run), path.read_bytes()
    places = [place for place, byte in enumerate(data) if byte]
    for place in noise.sample(places, 60):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        path.with_name(f"{path.name}.sum").unlink()
        assert told(run) == expected, place


@pytest.mark.parametrize("sum_", ["missing", "old", "cut"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET standing = 1, counted = 1 WHERE key = 't9'",
        "DELETE FROM trials WHERE key = 't3'",
        "UPDATE standings SET trials = trials + 1",
        "UPDATE slots SET value = 0",
    ],
)
def test_recovery_5_an_index_that_contradicts_the_journal_is_not_believed(run, change, sum_):
    """Sound as a database, and wrong: no trial vanishes, and none is finished that is not."""
    path = own_index(run)
    expected, beside = told(run), path.with_name(f"{path.name}.sum")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(change)
    if sum_ == "missing":
        beside.unlink()
    elif sum_ == "cut":
        beside.write_bytes(beside.read_bytes()[:-1])
    assert told(run) == expected


def test_the_index_of_a_killed_session_is_believed(tmp_path):
    """What it knew when the session began is not read again."""
    root = finished_run(tmp_path / "run", "t1")
    session = begin_session(root)
    assert has_its_sum(root / ".index.sqlite")
    session.abandon()
    again = begin_session(root)
    assert again.reader.index.note == ""
    again.abandon()


KILLED_WHILE_WRITING = """
import os, signal, sys
from holdfast.journal.index.builder import IndexBuilder
def killed(self):
    # What was changed is in the file, and what undoes it beside it.
    self._db.execute("PRAGMA cache_size = 1")
    self._db.execute("PRAGMA cache_spill = 1")
    self._db.execute("CREATE TABLE spill (text TEXT)")
    for _ in range(300):
        self._db.execute("INSERT INTO spill VALUES (?)", ("x" * 2000,))
    self._db.execute("DELETE FROM trials")
    os.kill(os.getpid(), signal.SIGKILL)
IndexBuilder._save_seen = killed
from pathlib import Path
from holdfast.run.fold.reader import RunReader
RunReader(Path(sys.argv[1]), index=Path(sys.argv[1]) / ".index.sqlite")
"""


def test_recovery_5_what_would_undo_a_killed_change_is_not_applied_to_a_copy(run):
    """A session was killed while it wrote the index; the next takes over the reader's, and not the old one's pages."""
    for turn in range(3):
        session = begin_session(run)
        finish_trials(session, *(f"u{number}" for number in range(turn, 60, 3)))
        session.abandon()
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, run], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (run / ".index.sqlite-journal").stat().st_size
    expected = told(run)
    session = begin_session(run)
    assert session.reader.index.note == ""
    session.abandon()
    assert told(run, run / ".index.sqlite")[2] == expected[2]


def test_an_index_that_another_has_put_in_place_is_left_to_it(run):
    """A reader whose file was replaced goes on with one of its own; the other keeps its file, and both are right."""
    path = own_index(run)
    first = RunReader(run)
    copy_index(run / "index.sqlite", path)
    second = RunReader(run)
    file = path.stat().st_ino
    third = begin_session(run)
    finish_trials(third, "t4")
    for reader in (first, second):
        reader.refresh()
        assert list(reader.fold.finished()) == ["t1", "t2", "t3", "t4"]
    third.abandon()
    assert (path.stat().st_ino, second.index.note) == (file, "")
    first.close()
    second.close()


def test_an_index_that_another_writes_is_left_to_it(run, monkeypatch):
    """Who cannot even open it, because another is writing to it, goes on with one of its own."""
    real = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda *args, **more: real(*args, **{**more, "timeout": 0}))
    path = own_index(run)
    file = path.stat().st_ino
    with contextlib.closing(real(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert told(run)[2] == ["t1", "t2", "t3"]
        assert path.stat().st_ino == file
        writer.execute("ROLLBACK")


def test_recovery_27_bytes_that_change_during_a_session_are_noticed_at_its_end(tmp_path):
    """The session's own index vouches for nothing that is no longer there."""
    root = crashed_run(tmp_path / "run", "t1")
    session = begin_session(root)
    (path,) = [path for path in segment_paths(root) if path.name.startswith("000002")]
    data = path.read_bytes()
    place = data_pieces(data)[0].end - 5
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([data[place] ^ 1]))
    finish_trials(session, "t2")
    session.close("complete")
    anew = told(root, tmp_path / "anew")
    assert told(root, root / "index.sqlite") == anew
    with contextlib.closing(RunReader(root)) as reader:
        assert any(item.is_loss for item in reader.damage())


def test_recovery_27_frames_that_were_lost_before_the_seal_are_counted_after_it(tmp_path):
    """A segment that was read in two parts is held against its footer as one that is read in one."""
    root = tmp_path / "run"
    session = begin_run(root)
    finish_trials(session, "t1", "t2")
    (path,) = segment_paths(root)
    data = path.read_bytes()
    first = data_pieces(data)[1]
    path.write_bytes(data[first.start :])
    told(root, tmp_path / "old")
    session.close("complete")
    with contextlib.closing(RunReader(root, index=tmp_path / "old")) as old:
        kinds = {item.kind for item in old.damage()}
    with contextlib.closing(RunReader(root, index=tmp_path / "new")) as new:
        assert kinds == {item.kind for item in new.damage()}
    assert DamageKind.GAP in kinds


def test_recovery_27_a_row_gives_no_record_of_another_frame(run):
    """A segment that was replaced since it was indexed: what stands in the place of a record is not taken for it."""
    with contextlib.closing(RunReader(run)) as reader:
        trial, other = reader.fold.find("t1"), reader.fold.find("t2")
        assert reader.lines_of(trial._replace(placed=other.placed)) == []
        assert {record.trial for record in reader.records_of("t1")} == {"t1"}


def test_a_segment_that_is_exchanged_while_it_is_read_is_read_again(run, tmp_path, monkeypatch):
    """The index is bound to the file that it has read, not to the one that has taken its name meanwhile."""
    path = segment_paths(run)[0]
    data = path.read_bytes()
    real = IndexBuilder._read_frames

    def exchanging(self, number, scan):
        real(self, number, scan)
        if scan.size == len(data):
            other = tmp_path / "other"
            other.write_bytes(bytes([data[300] ^ 1]).join((data[:300], data[301:])))
            other.replace(path)

    monkeypatch.setattr(IndexBuilder, "_read_frames", exchanging)
    told(run, tmp_path / "beside")
    monkeypatch.undo()
    assert told(run, tmp_path / "beside") == told(run, tmp_path / "anew")


def test_an_index_that_breaks_between_two_questions_is_told_in_a_sentence(run):
    """The next reader builds it anew."""
    expected, path = told(run), own_index(run)
    with contextlib.closing(RunReader(run)) as reader:
        reader.index._database.connection.execute("PRAGMA cache_size = 0")
        path.write_bytes(path.read_bytes()[:8192] + b"\xff" * (path.stat().st_size - 8192))
        with pytest.raises(StorageFailure, match="failed while it was in use"):
            list(reader.fold.finished())
    assert told(run) == expected


def test_recovery_5_damage_that_sqlite_quotes_as_no_text_is_damage(run, tmp_path):
    """What SQLite says of a damaged schema may hold bytes that Python cannot decode: that is no other error."""
    before, published = told(run), run / "index.sqlite"
    data, quoted = published.read_bytes(), []
    spoilt = tmp_path / "spoilt.sqlite"
    for place in range(100, 4096):
        spoilt.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        try:
            with contextlib.closing(sqlite3.connect(spoilt)) as db:
                db.execute("SELECT value FROM about WHERE name = 'schema'").fetchone()
        except UnicodeDecodeError:
            quoted.append(place)
        except sqlite3.Error:
            continue
    assert quoted
    for place in random.Random(SEED).sample(quoted, 10):
        published.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        own = reader_index_path(run, RunReader(run).run)
        own.unlink(missing_ok=True)
        assert told(run) == before
        own.write_bytes(published.read_bytes())
        assert told(run) == before
    begin_session(run).close("complete")
    assert told(run)[0].trials == before[0].trials
