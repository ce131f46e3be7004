"""Which trials are open and which are finished, as the index says it: what follows from the records that are there."""

from __future__ import annotations

import random

import pytest

from durable import begin_run, begin_session, finish_trials, finished_run, segment_paths
from holdfast.run import RunReader
from holdfast.run.core.records import CallRecord, Status, StepRecord, TrialRecord

SEED = 20261116
ENDS = [Status.VALID, Status.FAILED, Status.UNFINISHED, Status.LIMITED, Status.BLOCKED]


def by_the_records(reader) -> tuple[list, list]:
    """The open and the finished keys, by definition."""
    rows = [row for kind in reader.index.counts() for row in reader.index.rows(kind) if row.key]
    finished = {row.key for row in rows if row.kind == "trial" and row.flag == 1}
    return sorted({row.key for row in rows} - finished), sorted(finished)


def check(root) -> None:
    """The reader's own index, which grows with the run, and one that is built anew say the same."""
    for index in (None, root / "built-anew"):
        reader = RunReader(root, index=index)
        assert (sorted(reader.index.open_keys()), list(reader.finished())) == by_the_records(reader)
        reader.close()
    (root / "built-anew").unlink()


def write(session, noise) -> None:
    """One record of some trial."""
    key = f"t{noise.randrange(12)}"
    if noise.random() < 0.3:
        session.commit(TrialRecord(trial=key, attempt=1, status=noise.choice(ENDS)))
    elif noise.random() < 0.5:
        session.commit(StepRecord(trial=key, attempt=1, step="solve/1"))
    else:
        session.append(CallRecord(trial=key, attempt=1, step="solve/1", model="small"))


def test_open_keys_are_those_with_records_and_no_end_that_is_kept(tmp_path, monkeypatch):
    """Over many sessions, killed or ended in order, and however many records are taken in at once."""
    print(f"seed {SEED}")
    noise, root = random.Random(SEED), tmp_path / "run"
    session = begin_run(root)
    for turn in range(12):
        for _ in range(noise.randrange(15)):
            write(session, noise)
        monkeypatch.setattr("holdfast.journal.index.builder._BATCH_ROWS", noise.choice([1, 3, 20_000]))
        if noise.random() < 0.5:
            session.close("interrupted")
        else:
            session.abandon()
        check(root)
        session = begin_session(root)
        own = session.reader
        assert (sorted(own.index.open_keys()), list(own.finished())) == by_the_records(own), turn
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


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_finished_keys_come_in_pages_of_any_size(tmp_path, monkeypatch, size):
    """Every key once and sorted, also one of several lines, and none at all."""
    monkeypatch.setattr("holdfast.journal.index.index._PAGE_KEYS", size)
    session = begin_run(tmp_path / "run")
    keys = ["b", "a\nb", "", "a", "c\n", "\n", "aa", "\u00e4"]
    finish_trials(session, *keys)
    session.reader.refresh()
    assert list(session.reader.finished()) == sorted(keys)
    assert list(session.reader.index.keys("trial", 7)) == []
    session.abandon()


def test_bytes_that_were_looked_at_before_are_looked_at_again_by_default(tmp_path):
    """Only a session that has just read a segment under its lease may pass over it."""
    root = finished_run(tmp_path / "run", "t1")
    reader = RunReader(root)
    path = segment_paths(root)[0]
    data = path.read_bytes()
    path.write_bytes(data[:150] + bytes([data[150] ^ 1]) + data[151:])
    reader.refresh(again=False)
    assert not [item for item in reader.damage() if item.is_loss]
    reader.refresh()
    assert [item for item in reader.damage() if item.is_loss]
    reader.close()
