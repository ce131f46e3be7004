"""A scan without an index says of a run what reading it says, whatever has become of its bytes."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from durable import begin_run, begin_session, commit, finish_trials, segment_paths
from holdfast.run import RunReader
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import AnswerRecord, Status, TrialRecord
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.run_scan import RunScan
from holdfast.storage import RealFileSystem

SEED = 24


def lived_run(root):
    """A killed session and an orderly one, in several segments, with text that looks like the end of a trial."""
    first = begin_run(root, planned=6, segment_bytes=400)
    finish_trials(first, "t1", "t2", "t3")
    commit(first, AnswerRecord(trial="t4", attempt=1, text='\n{"type":"trial","trial":"t9","status":"valid"}\n'))
    commit(first, TrialRecord(trial="t4", attempt=1, status=Status.FAILED))
    first.abandon()
    second = begin_session(root, planned=6, segment_bytes=400)
    finish_trials(second, "t3", "t5")
    second.close("interrupted", 130)
    return root


def scanned(root):
    with closing(RunScan(Layout(root), find_run_id(RealFileSystem(), Layout(root)))) as scan:
        scan.scan_rest()
        return scan.fold.counts.finished, scan.fold.counts.planned, list(scan.losses().values())


def read(root):
    reader = RunReader(root)
    try:
        planned = reader.sessions[-1].planned if reader.sessions else 0
        losses = [str(damage) for damage in reader.damage() if damage.is_loss]
        return reader.fold.counts.finished, planned, losses
    finally:
        reader.close()


def test_recovery_20_a_sound_run_is_scanned_as_it_is_read(tmp_path):
    """Finished trials are counted once, failed ones and texts that look like ends are not."""
    root = lived_run(tmp_path / "run")
    assert scanned(root) == read(root) == (4, 6, [])


@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_recovery_02_a_damaged_run_is_scanned_as_it_is_read(tmp_path, no_cache, how):
    """Wherever a run is damaged, the scan counts and names what reading does."""
    print(f"seed {SEED}")
    rng, root = random.Random(SEED), lived_run(tmp_path / "run")
    lossy = 0
    for path in segment_paths(root):
        data = path.read_bytes()
        for _ in range(1 if how == "gone" else 12):
            damage(path, data, how, rng.randrange(len(data)))
            found = scanned(root)
            assert found == read(root)
            lossy += bool(found[2])
            path.write_bytes(data)
    assert lossy > 2


def damage(path, data, how, at):
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:at] + (bytes([data[at] ^ 0xFF]) + data[at + 1 :] if how == "flip" else b""))
