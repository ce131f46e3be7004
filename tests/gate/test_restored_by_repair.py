"""Copies of inputs that `repair` makes again, task by task: resume 71, recovery 48."""

from __future__ import annotations

import yaml

from holdfast.run.fold.reader import RunReader

CODE = """
from holdfast import Sample, Task, exact, task

@task
def made():
    return Task(samples=[Sample(input="one", target="done")], scorers=[exact()])
"""

TOOLS = """
def add(a: int, b: int) -> int:
    \"\"\"Adds.\"\"\"
    return a + b
"""
MODEL = {"m": {"provider": "scripted", "model": "echo"}}


def copies(root):
    reader = RunReader(root)
    known = {name: root / "inputs" / copy.digest for name, copy in reader.sessions[-1].inputs.items()}
    reader.close()
    return known


def test_resume_71_a_task_that_cannot_be_built_leaves_the_copies_of_others_to_be_made_again(holdfast, tmp_path):
    """The tools of one task cannot be loaded any more; the rows of another are where they were."""
    (tmp_path / "own.py").write_text(TOOLS)
    tasks = {}
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"id": "s", "word": "{name}", "target": "y"}}\n')
        tasks[name] = {"dataset": name, "prompt": "{word}", "scorers": ["exact"]}
    tasks["one"]["tools"] = ["own.py:add"]
    eval_ = {
        "name": "e",
        "models": MODEL,
        "datasets": {name: {"path": f"{name}.jsonl"} for name in tasks},
        "tasks": tasks,
    }
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump(eval_))
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    known = copies(tmp_path / "r")
    (tmp_path / "own.py").write_text("raise RuntimeError('not today')")
    known["datasets/one"].unlink()
    known["datasets/two"].unlink()
    told = holdfast("repair", "r")
    assert known["datasets/two"].exists(), told
    assert "`holdfast resume r`" in told.out + told.err and "its original is gone" not in told.out + told.err


def test_resume_71_repair_does_not_say_that_an_original_is_gone_that_it_has_not_looked_for(holdfast, tmp_path):
    """The code of a task is not loaded by `repair`: it names `resume`, which makes the copy again."""
    (tmp_path / "own.py").write_text(CODE)
    eval_ = {"name": "e", "models": MODEL, "tasks": {"t": {"use": "own.py:made"}}}
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump(eval_))
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    (rows,) = [path for name, path in copies(tmp_path / "r").items() if not name.startswith("sources/")]
    rows.unlink()
    told = holdfast("repair", "r")
    assert "its original is gone" not in told.out + told.err
    assert "`holdfast resume r`" in told.out + told.err
    holdfast("resume", "r", code=0)
    assert rows.exists()
