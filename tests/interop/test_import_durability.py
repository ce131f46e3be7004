"""An import is whole or not there: killed at any moment, on a full disk, with any number of trials."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from holdfast import Run
from holdfast.errors import StorageFailure, UsageError
from holdfast.interop.importing.foreign_eval import (
    ForeignCall,
    ForeignEval,
    ForeignSample,
    ForeignScore,
    ForeignState,
    ForeignTrial,
    SkippedItem,
)
from holdfast.interop.importing.import_run import import_run
from holdfast.models.message import Usage
from holdfast.run.core.records import Failure
from holdfast.storage import RealFileSystem
from holdfast.testing.faulty_filesystem import FaultyFileSystem, InjectedFault


def trial(number, **more):
    """One trial, valid and scored unless something else is said."""
    given = {
        "place": f"line {number}",
        "task": "t",
        "model": "m",
        "sample": ForeignSample(str(number), f"q{number}", f"a{number}"),
        "state": ForeignState.VALID,
        "answer": f"a{number}",
        "calls": (ForeignCall([{"role": "user", "content": f"q{number}"}], f"a{number}", usage=Usage(7, 3)),),
        "scores": (ForeignScore("right", number % 2),),
        "cost": 0.1,
    }
    return ForeignTrial(**{**given, **more})


def foreign(*items):
    return ForeignEval("Other", "an eval", "/elsewhere", lambda: iter(items))


_KILLED = """
import sys
sys.path[:0] = [sys.argv[3]]
from pathlib import Path
from test_import_durability import foreign, trial
from holdfast.interop.importing.import_run import import_run
import_run(foreign(*(trial(number) for number in range(50))), Path(sys.argv[1]))
"""
POINTS = [
    *("run.directory-made", "run.inputs-written", "run.session-synced", "run.renamed", "run.parent-synced"),
    *("frame.half-written", "frame.written", "segment.footer-synced", "session.ending"),
]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_no_run_or_a_whole_one(tmp_path, point):
    """Under the run's name there is nothing, or every trial; the same command then completes, or is refused."""
    root = tmp_path / "run"
    here = Path(__file__).parent
    words = [sys.executable, "-c", _KILLED, root, "-", here]
    path = os.pathsep.join([str(here.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "HOLDFAST_CRASH_AT": point, "PYTHONPATH": path}
    done = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    again = foreign(*(trial(number) for number in range(50)))
    if root.exists():
        assert Run(root).counts.valid == 50
        with pytest.raises(UsageError, match="already holds a run"):
            import_run(again, root)
    else:
        assert import_run(again, root).imported == 50
    assert Run(root).counts.is_complete
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "make_directory", "sync_directory"])
@pytest.mark.parametrize("nth", [1, 3])
def test_a_full_disk_leaves_nothing_that_looks_like_a_run(tmp_path, operation, nth):
    root = tmp_path / "run"
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, nth, errno.ENOSPC, str(tmp_path))])
    try:
        import_run(foreign(*(trial(number) for number in range(20))), root, fs)
    except StorageFailure as failure:
        print(failure)
    if root.exists():
        assert Run(root).counts.valid == 20
    else:
        assert import_run(foreign(*(trial(number) for number in range(20))), root).imported == 20


def test_a_reader_that_fails_half_way_makes_no_run(tmp_path):
    def items():
        yield trial(1)
        raise OSError(errno.EIO, "Input/output error", "some file")

    with pytest.raises(StorageFailure, match="some file Input/output error"):
        import_run(ForeignEval("Other", "e", "/elsewhere", items), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_every_state_is_what_it_was(tmp_path):
    """An error is no score, no verdict is unfinished, and what was only planned is not started."""
    states = [
        trial(1),
        trial(2, state=ForeignState.FAILED, error=Failure("Timeout", "too slow")),
        trial(3, state=ForeignState.NO_VERDICT, scores=()),
        trial(4, state=ForeignState.INTERRUPTED, answer=None, calls=(), scores=()),
        trial(5, state=ForeignState.NOT_STARTED, answer=None, calls=(), scores=()),
        trial(6, state=ForeignState.LIMITED, limit="tokens"),
        trial(1, place="again"),
        SkippedItem("a file", "it is empty"),
    ]
    summary = import_run(foreign(*states), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert (summary.imported, summary.skipped_count, summary.skipped[0].where) == (5, 2, "again")
    assert run.counts.remaining_by_reason == {"task error": 1, "interrupted": 1, "not scored": 1, "not started": 1}
    assert (run.counts.valid, run.counts.limited) == (1, 1)
    rows = {row["sample"]: row for row in run.to_dicts()}
    assert rows["2"]["error"]["message"] == "too slow" and rows["2"]["scores"] == {}
    assert run.report().usage == Usage(7 * 4, 3 * 4) and run.report().cost is None


def test_no_key_gets_into_a_run(tmp_path):
    """Neither as a value of a field with that name nor anywhere in a text."""
    key = "sk-abcdefghijklmnopqrstuvwx"
    fields = {"config": {"apiKey": "s3cret", "headers": [f"Bearer {key}"]}, "note": f"use {key} here"}
    source = ForeignEval("Other", "e", "/x", lambda: iter([trial(1, fields=fields, answer=key)]), details=fields)
    import_run(source, tmp_path / "run")
    words = [sys.executable, "-m", "holdfast", "cat", str(tmp_path / "run")]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert key not in printed and "s3cret" not in printed and "[key]" in printed


def test_memory_does_not_grow_with_what_trials_hold(tmp_path):
    """Twenty times the text of the trials is not twenty times the memory."""
    peaks = []
    for place, size in (("small", 100), ("large", 20_000)):
        items = (trial(number, fields={"text": "x y " * size}) for number in range(300))
        tracemalloc.start()
        import_run(ForeignEval("Other", "e", "/x", lambda items=items: items), tmp_path / place)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    print(peaks)
    # 300 trials of 80 kB are 24 MB; the journal's queue holds a few megabytes of them.
    assert peaks[1] < peaks[0] + (12 << 20)


def test_slots_beyond_any_sense_are_kept_beside_the_scores(tmp_path, monkeypatch):
    """A judge of its own for every trial: the first ones have slots, the others are in the trial's end."""
    items = [trial(number, scores=(ForeignScore("j", 0.5, judge=f"judge {number}"),)) for number in range(9)]
    monkeypatch.setattr("holdfast.interop.importing.tally._MOST_SLOTS", 5)
    import_run(foreign(*items), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert run.counts.valid == 9 and len(run.panels["t"]["j"].slots) == 5
    last = next(run.select("sample=8"))
    (end,) = [record for record in run.transcript(last.key) if hasattr(record, "status")]
    assert end.imported["scores"] == [{"scorer": "j", "value": 0.5, "judge": "judge 8"}]
