"""The index is filled while a session writes, and published when it ends."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from durable import begin_run, begin_session, finish_trials
from folds import check_fold
from holdfast.journal import Index
from holdfast.journal.index.database import has_its_sum
from holdfast.run import RunReader
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.session import index_feed
from program import until

KEYS = [f"t{number}" for number in range(12)]


def counted_calls(monkeypatch, owner, name):
    """A list that grows with every call of a method."""
    counted, real = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **more: counted.append(1) or real(*args, **more))
    return counted


@pytest.fixture
def decoded(monkeypatch):
    """How many frames a fold had to decode from the journal."""
    return counted_calls(monkeypatch, FoldWriter, "decode")


@pytest.mark.parametrize("at_a_time", [1, 7, 10_000])
def test_what_a_session_writes_is_taken_in_without_being_read_again(tmp_path, monkeypatch, decoded, at_a_time):
    """However many records are taken in at once; the published index is that of the journal, and is read in place."""
    monkeypatch.setattr(index_feed, "_RECORDS_AT_A_TIME", at_a_time)
    refreshed = counted_calls(monkeypatch, Index, "refresh")
    session = begin_run(tmp_path / "run", planned=len(KEYS), segment_bytes=2000)
    decoded.clear()
    finish_trials(session, *KEYS)
    session.close("complete")
    # The last record, the session's end, is written by another way; whenever the index is refreshed, at most one frame
    # lies in the journal and was not handed over yet.
    assert len(decoded) <= 1 + len(refreshed)
    assert at_a_time < 10_000 or len(decoded) <= 2
    assert has_its_sum(tmp_path / "run" / "index.sqlite")
    assert not (tmp_path / "run" / ".index.sqlite").exists()
    with contextlib.closing(RunReader(tmp_path / "run")) as reader:
        assert reader.index.path == tmp_path / "run" / "index.sqlite"
        assert reader.fold.counts.valid == len(KEYS)
        check_fold(reader)


def test_after_a_kill_little_is_read_again(tmp_path, monkeypatch, decoded):
    """A copy of the index was published while it grew: the next reader starts from that."""
    monkeypatch.setattr(index_feed, "_RECORDS_AT_A_TIME", 1)
    run, keys = tmp_path / "run", [f"t{number}" for number in range(1500)]
    session = begin_run(run, planned=len(keys))
    finish_trials(session, *keys)
    until(lambda: kept_in(run / "index.sqlite") >= len(keys) // 2, "half of the trials are in a copy")
    session.abandon()
    decoded.clear()
    with contextlib.closing(RunReader(run)) as reader:
        assert reader.fold.counts.valid == len(keys)
    with_the_copy = len(decoded)
    decoded.clear()
    with contextlib.closing(RunReader(run, fold=FoldWriter())):
        assert with_the_copy < 0.6 * len(decoded)


def kept_in(path):
    """How many trials an index knows; 0 unless it is believed."""
    if not has_its_sum(path):
        return 0
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT count(*) FROM trials").fetchone()[0]


def test_an_index_that_cannot_be_filled_costs_nothing(tmp_path, monkeypatch):
    """The failure is in the ledger, the end of the session has its counts, and the next reader has the same answers."""
    session = begin_run(tmp_path / "run", planned=2)
    finish_trials(session, "t1", "t2")

    def full(self):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(FoldWriter, "flush", full)
    with pytest.raises(sqlite3.OperationalError):
        RunReader(tmp_path / "run", fold=FoldWriter())
    session.close("complete")
    monkeypatch.undo()
    with contextlib.closing(RunReader(tmp_path / "run")) as reader:
        assert reader.fold.counts.valid == 2
        assert [end.how for end in reader.ends] == ["complete"]
        check_fold(reader)


def test_a_reader_keeps_its_answers_while_a_session_goes_on(tmp_path):
    """A published index is never changed: whoever reads it sees the run as it was, until it looks again."""
    session = begin_run(tmp_path / "run", planned=3)
    finish_trials(session, "t1")
    session.close("interrupted", 130)
    with contextlib.closing(RunReader(tmp_path / "run")) as reader:
        second = begin_session(tmp_path / "run", planned=3)
        finish_trials(second, "t2", "t3")
        second.close("complete")
        assert list(reader.fold.finished()) == ["t1"]
        reader.refresh()
        assert list(reader.fold.finished()) == ["t1", "t2", "t3"]
