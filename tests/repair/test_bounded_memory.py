"""Recovery 24, for what is local: verifying, repairing and cleaning stream; memory does not grow with transcripts."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from workspaces import begin_session_like, leave_results, planned_run, workspace_eval

from durable import commit
from holdfast.engine.opening.repair_planner import RepairPlanner
from holdfast.run import RunReader, verify_run
from holdfast.run.clean.clean_steps import clean_steps
from holdfast.run.core.records import AnswerRecord, ScoreRecord, StepRecord
from holdfast.run.repair.repair import repair_run
from holdfast.run.verify.cross_check_records import RecordCrossCheck

TRIALS = (400, 1600)
STEP_BYTES = 20_000
BYTES_A_TRIAL = 5_000
"""What may be kept of each trial: a few keys, and frames that vary in size; far less than its transcript."""


def make_run(directory, count):
    """A run of so many trials, each with a transcript; half of them are on record, all have result files."""
    root = directory / "run"
    ends = planned_run(workspace_eval(directory, {"code": count}), root)
    source = random.Random(count)

    session = begin_session_like(root)
    for place, end in enumerate(ends[: count // 2]):
        session.sink.append(
            StepRecord(trial=end.trial, attempt=1, step="a", result=source.randbytes(STEP_BYTES // 2).hex())
        )
        session.sink.append(AnswerRecord(trial=end.trial, attempt=1, text="x"))
        session.sink.append(ScoreRecord(trial=end.trial, attempt=1, scorer="exact", value=end.scores["exact"]))
        # Few trials in a frame, however slow the disk is: a reader holds one frame at a time.
        commit(session, end) if place % 4 == 0 else session.sink.append(end)
    session.close("interrupted", 130)
    leave_results(root, ends)
    return root


def verify_deep(root):
    reader = RunReader(root)
    deep = RecordCrossCheck(reader)
    try:
        assert verify_run(reader, deep).segments
    finally:
        deep.close()
        reader.close()


def repair(root):
    assert repair_run(root, RepairPlanner()).ok


def peak_of(work, root):
    """The most memory that Python held meanwhile beyond what it held before."""
    tracemalloc.start()
    try:
        work(root)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("work", [verify_deep, repair, clean_steps], ids=lambda work: work.__name__)
def test_recovery_24_memory_does_not_grow_with_transcripts(tmp_path, work):
    """Four times the trials, with four times the bytes: at most a little more for each trial."""
    peaks = []
    for count in TRIALS:
        (tmp_path / str(count)).mkdir()
        root = make_run(tmp_path / str(count), count)
        if work is clean_steps:
            repair(root)
        peaks.append(peak_of(work, root))
    print(peaks)
    assert peaks[1] - peaks[0] < (TRIALS[1] - TRIALS[0]) * BYTES_A_TRIAL
    assert peaks[1] < 24 << 20
