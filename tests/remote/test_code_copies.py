"""A run in a store brings the code of its scorers and its solver along."""

from __future__ import annotations

import signal

from evals import http_eval
from program import until

CODE = """
from beside import same


def strict(answer, sample):
    return same(answer.text, sample.target)


async def solve(trial):
    return await trial.generate(trial.sample.input)
"""


def test_a_lost_machine_takes_no_code_with_it(holdfast, place, server, tmp_path):
    """Killed, its disk and the eval's files gone: another machine resumes the run with the code that is in it."""
    (tmp_path / "my.py").write_text(CODE)
    (tmp_path / "beside.py").write_text("def same(one, other):\n    return one == other\n")
    task = {"scorers": ["my.py:strict"], "solver": "my.py:solve"}
    eval_file = http_eval(tmp_path, server.base_url, 8, task=task, runner={"upload_interval": 0.2})
    server.behave(hold=True, **{"pass": 5})
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--set", "lease=1.5")
    until(lambda: place.published() == 5, "the count is published")
    until(place.is_up_to_date, "five are up")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    place.lose_machine()
    for name in ("my.py", "beside.py", "eval.yaml", "rows.jsonl"):
        (tmp_path / name).unlink()
    told = holdfast("resume", place.url, code=0)
    assert "tasks.t.solver: my.py → no longer exists" in told.err
    report = holdfast.json("report", place.url, code=0)
    assert report["complete"] and report["tasks"]["t"]["m"]["metrics"]["strict"]["mean"]["n_trials"] == 8
