"""The index is filled while a session writes, and published when it ends."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from durable import begin_run, begin_session, finish_trials
from folds import check_fold
from holdfast.journal.index.database import has_its_sum
from holdfast.run import RunReader
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.session import index_feed

KEYS = [f"t{number}" for number in range(12)]


@pytest.fixture
def decoded(monkeypatch):
    """How many frames a fold had to decode from the journal."""
    counted = []
    real = FoldWriter.decode
    monkeypatch.setattr(FoldWriter, "decode", lambda self, lines: counted.append(1) or real(self, lines))
    return counted


@pytest.mark.parametrize("at_a_time", [1, 7, 10_000])
def test_what_a_session_writes_is_taken_in_without_being_read_again(tmp_path, monkeypatch, decoded, at_a_time):
    """However many records are taken in at once; the published index is that of the journal, and is read in place."""
    monkeypatch.setattr(index_feed, "_RECORDS_AT_A_TIME", at_a_time)
    session = begin_run(tmp_path / "run", planned=len(KEYS), segment_bytes=2000)
    decoded.clear()
    finish_trials(session, *KEYS)
    session.close("complete")
    # The last record, the session's end, is written by another way; at most a frame is read before it is handed over.
    assert len(decoded) <= (2 if at_a_time == 10_000 else len(KEYS))
    assert has_its_sum(tmp_path / "run" / "index.sqlite")
    assert not (tmp_path / "run" / ".index.sqlite").exists()
    with contextlib.closing(RunReader(tmp_path / "run")) as reader:
        assert reader.index.path == tmp_path / "run" / "index.sqlite"
        assert reader.fold.counts.valid == len(KEYS)
        check_fold(reader)


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
