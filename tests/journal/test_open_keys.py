"""How trials stand, as the index says it: what follows from the records that are there."""

from __future__ import annotations

import contextlib
import random

import pytest

from durable import begin_run, begin_session, commit, finish_trials, finished_run, segment_paths
from folds import check_fold
from holdfast.journal.index.database import remove_index
from holdfast.run import RunReader
from holdfast.run.core.records import CallRecord, Status, StepRecord, TrialRecord

SEED = 20261116
ENDS = [Status.VALID, Status.FAILED, Status.UNFINISHED, Status.LIMITED, Status.BLOCKED]


def check(root) -> None:
    """The reader's own index, which grows with the run, and one that is built anew say the same, by definition."""
    for index in (None, root / "built-anew"):
        with contextlib.closing(RunReader(root, index=index)) as reader:
            check_fold(reader)
    remove_index(root / "built-anew")


def write(session, noise) -> None:
    """One record of some trial."""
    key = f"t{noise.randrange(12)}"
    if noise.random() < 0.3:
        commit(session, TrialRecord(trial=key, attempt=1, status=noise.choice(ENDS)))
    elif noise.random() < 0.5:
        commit(session, StepRecord(trial=key, attempt=1, step="solve/1"))
    else:
        session.sink.append(CallRecord(trial=key, attempt=1, step="solve/1", model="small"))


def test_the_fold_is_what_the_records_mean(tmp_path, monkeypatch):
    """Over many sessions, killed or ended in order, and however many records are taken in at once."""
    print(f"seed {SEED}")
    noise, root = random.Random(SEED), tmp_path / "run"
    session = begin_run(root)
    for _ in range(12):
        for _ in range(noise.randrange(15)):
            write(session, noise)
        monkeypatch.setattr("holdfast.run.fold.fold_writer._BATCH_RECORDS", noise.choice([1, 3, 20_000]))
        if noise.random() < 0.5:
            session.close("interrupted")
        else:
            session.abandon()
        check(root)
        session = begin_session(root)
        check_fold(session.reader)
    session.abandon()


@pytest.mark.parametrize("loss", ["cut", "gone", "changed"])
def test_a_trial_whose_end_is_lost_is_open_again(tmp_path, loss):
    """What an index knew of records that are there no more does not count."""
    root = finished_run(tmp_path / "run", "t1", "t2", segment_bytes=600)
    check(root)
    paths = segment_paths(root)
    for path in paths[1:-1]:
        data = path.read_bytes()
        if loss == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif loss == "changed":
            path.write_bytes(data[:150] + bytes([data[150] ^ 1]) + data[151:])
        else:
            path.unlink()
        check(root)
        if loss == "gone":
            path.write_bytes(data)
            check(root)


def test_finished_keys_come_sorted_whatever_they_are(tmp_path):
    """Every key once, also one of several lines, and one that only looks like a digest."""
    session = begin_run(tmp_path / "run")
    keys = ["b", "a\nb", "a", "c\n", "\n", "aa", "\u00e4", "0" * 20, "ab" * 10, "AB" * 10]
    finish_trials(session, *keys)
    session.reader.refresh()
    assert sorted(session.reader.fold.finished()) == sorted(keys)
    assert [session.reader.fold.find(key).key for key in keys] == keys
    session.abandon()


def test_bytes_that_were_looked_at_before_are_looked_at_again_by_default(tmp_path):
    """Only a session that has just read a segment under its lease may pass over it."""
    root = finished_run(tmp_path / "run", "t1")
    # In an index of its own, as a session has one: the run's own is used only while it is as the journal is.
    reader = RunReader(root, index=tmp_path / "own.sqlite")
    reader.refresh()
    path = segment_paths(root)[0]
    data = path.read_bytes()
    path.write_bytes(data[:150] + bytes([data[150] ^ 1]) + data[151:])
    reader.refresh(again=False)
    assert not [item for item in reader.damage() if item.is_loss]
    reader.refresh()
    assert [item for item in reader.damage() if item.is_loss]
    reader.close()
