"""A fork keeps what a trial is, what it asked and what it was answered, also where its scorer has failed."""

from __future__ import annotations

from evals import write_eval

TASK = """
from pathlib import Path
from holdfast import Sample, Task, generate, task

def strict(answer, sample):
    if Path("broken").exists() and sample.id == "b":
        raise ValueError("my bug")
    return 1.0

@task
def t():
    return Task(samples=[Sample(n, target=n, id=n) for n in ("a", "b")], solver=generate(), scorers=[strict])

@task
def other():
    return Task(samples=[Sample(n, target=n, id=n) for n in ("c",)], solver=generate(), scorers=[strict])
"""


def test_a_trial_that_only_lacks_its_score_keeps_its_name_and_its_replies(holdfast, tmp_path):
    """In the fork it is not scored, belongs to its task, and has its transcript."""
    (tmp_path / "own.py").write_text(TASK)
    (tmp_path / "broken").touch()
    data = {
        "name": "fork",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "tasks": {"t": {"use": "own.py:t"}, "other": {"use": "own.py:other"}},
        "max_retries": 1,
    }
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=1)
    holdfast("fork", "r", "--run-dir", "f", code=0)
    row = next(row for row in holdfast.json("show", "f")["trials"] if row["state"] != "valid")
    assert (row["task"], row["model"], row["sample"], row["input"], row["answer"]) == ("t", "m", "b", "b", "b")
    assert (row["state"], row["reason"]) == ("unfinished", "not scored")
    report = holdfast.json("report", "f")
    assert report["tasks"]["t"]["m"]["coverage"]["remaining_by_reason"] == {"not scored": 1}
    assert [record["type"] for record in holdfast.json("show", "f", row["trial"])["records"]] == ["step", "answer"]
    (tmp_path / "broken").unlink()
    calls = holdfast.json("status", "f")["calls"]["made"]
    holdfast("resume", "f", code=0)
    assert holdfast.json("status", "f")["calls"]["made"] == calls
    assert holdfast.json("verify", "f", "--deep", code=0)["ok"]
