"""Recovering without the transcripts of finished trials (recovery 10)."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

import holdfast.run.remote.recover_without_steps
from evals import python_eval
from holdfast import Sample, Task, evaluate, exact
from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.engine.trials.steps import fingerprint_in_key
from holdfast.interop.inspect.eval_archive import EvalArchive
from holdfast.run import RunReader
from holdfast.run.core.codec import decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import StepRecord
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.remote.recover_without_steps import copy_without_steps
from holdfast.storage.filesystem import RealFileSystem
from program import until
from remote_runs import cut_short, tree, upload

__all__ = ["cut_short"]
CHAIN = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    for word in ("one", "two", "three", "four"):
        last = await trial.generate(f"{word} {trial.sample.input}")
    return last

@task
def t():
    return Task(samples=[Sample(name, target="x") for name in "abc"], solver=solve, scorers=exact())
"""


def test_recovery_10_scores_and_unfinished_trials_are_the_same(holdfast, cut_short, server, tmp_path):
    """Finished trials have their final conversation, unfinished ones all their steps; scores equal (recovery 10)."""
    holdfast("recover", cut_short.url, "--to", "whole", code=0)
    holdfast("recover", cut_short.url, "--to", "slim", "--no-steps", code=0)
    whole, slim = holdfast.json("report", "whole"), holdfast.json("report", "slim")
    for name in ("tasks", "coverage", "usage", "cost"):
        assert slim[name] == whole[name]
    steps = [record for record in holdfast.records("slim") if record["type"] == "step"]
    finished = {record["trial"] for record in holdfast.records("slim") if record["type"] == "trial"}
    assert len(finished) == 5 and {step["trial"] for step in steps} == finished and len(steps) == 5
    assert holdfast.json("verify", "slim", code=0)["ok"]
    before = tree(tmp_path / "slim")
    holdfast("recover", cut_short.url, "--to", "slim", "--no-steps", code=0)
    assert tree(tmp_path / "slim") == before
    holdfast("resume", "slim", code=0)
    assert holdfast.json("status", "slim")["finished"] == 8


@pytest.fixture
def half_way(holdfast, place, server, tmp_path):
    """A run of three trials of four calls each, lost with its machine in the fourth call of the second."""
    server.behave(hold=True, **{"pass": 7})
    runner = {"upload_interval": 0.1}
    eval_file = python_eval(tmp_path, server.base_url, CHAIN, concurrency_limit=1, runner=runner)
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--set", "lease=1.5")
    server.wait_for(answered=7, in_flight=1)
    until(lambda: steps_on_record(holdfast, place) == 7, "seven replies are on record")
    until(place.is_up_to_date, "they are up")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    place.lose_machine()
    return place


def steps_on_record(holdfast, place):
    """In the store, or in the spool: as long as its machine is there, a reader has both."""
    return holdfast("cat", place.url).out.count('"type":"step"') if place.segments() else 0


def test_recovery_10_every_step_of_an_unfinished_trial_is_replayed(holdfast, half_way, server):
    """Of a trial of many calls that was cut short, all come home without steps, and none is made again."""
    holdfast("recover", half_way.url, "--to", "slim", "--no-steps", code=0)
    (finished,) = [record["trial"] for record in holdfast.records("slim", "trial")]
    left = Counter(record["trial"] for record in holdfast.records("slim", "step"))
    assert left.pop(finished) == 4 and list(left.values()) == [3]
    holdfast("resume", "slim", code=0)
    received = server.worked_on()
    assert received.pop("four b") == 2
    assert len(received) == 11 and set(received.values()) == {1}
    assert holdfast.json("status", "slim")["finished"] == 3


def test_recovery_10_a_copy_is_the_same_work_under_another_id(holdfast, half_way, tmp_path):
    """Its replies were paid for by the run, and are no second draw where both are given for reuse."""
    holdfast("recover", half_way.url, "--to", "whole", code=0)
    holdfast("recover", half_way.url, "--to", "slim", "--no-steps", code=0)
    steps = holdfast.records("slim", "step")
    assert not any("source" in record for record in steps + holdfast.records("slim", "trial"))
    replies = ReusableReplies([tmp_path / "whole", tmp_path / "slim"])
    with closing(RunReader(tmp_path / "slim")) as reader:
        model = saved_eval(reader.sessions[-1]).models["m"]
    taken = [replies.take(model, fingerprint_in_key(step["step"])) for step in steps for _ in ("once", "again")]
    assert [one is not None for one in taken] == [True, False] * len(steps)


BRANCHES = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    await trial.scope("plan").generate("plan " + trial.sample.input)
    draft = await trial.generate("draft " + trial.sample.input)
    await trial.step("tests", lambda: "passed")
    answer = await trial.generate("answer " + trial.sample.input)
    await trial.scope("other").generate("afterthought " + trial.sample.input)
    return answer

@task
def t():
    return Task(samples=[Sample(name, target="x", id=name) for name in "ab"], solver=solve, scorers=exact())
"""


@pytest.mark.parametrize("how", ["recovered", "cleaned"])
def test_recovery_50_the_final_conversation_is_kept_and_shown_and_exported(holdfast, place, server, tmp_path, how):
    """Of each finished trial the conversation that led to its answer stays, with answer and scores (recovery 50)."""
    eval_file = python_eval(tmp_path, server.base_url, BRANCHES)
    if how == "recovered":
        holdfast("run", eval_file, "--run-dir", place.url, code=0)
        holdfast("recover", place.url, "--to", "whole", code=0)
        holdfast("recover", place.url, "--to", "slim", "--no-steps", code=0)
    else:
        holdfast("run", eval_file, "--run-dir", "slim", code=0)
        shutil.copytree(tmp_path / "slim", tmp_path / "whole")
        assert holdfast.json("clean", "slim", "--steps", code=0)["steps"] == 2 * 3
        assert holdfast.json("clean", "slim", "--steps", code=0)["steps"] == 0
    rows = [holdfast.json("show", run, "a")["row"] for run in ("whole", "slim")]
    assert rows[0] == rows[1] and rows[0]["answer"] == "ANSWER A"
    shown = holdfast("show", "slim", "a", code=0).out
    assert "DRAFT A" in shown and "ANSWER A" in shown
    assert not any(word in shown for word in ("PLAN A", "AFTERTHOUGHT", "passed"))
    assert holdfast.json("report", "slim")["tasks"] == holdfast.json("report", "whole")["tasks"]
    assert holdfast.json("verify", "slim", "--deep", code=0)["ok"]
    holdfast("export", "slim", "--to", "inspect", "--output", "logs", code=0)
    (log,) = (tmp_path / "logs").iterdir()
    with EvalArchive(log) as archive:
        samples = [archive.sample(name) for name in sorted(archive.sample_members())]
    assert [[message["content"] for message in sample["messages"]] for sample in samples] == [
        [f"draft {name}", f"DRAFT {name.upper()}", f"answer {name}", f"ANSWER {name.upper()}"] for name in "ab"
    ]


def test_recovery_10_steps_of_finished_trials_are_not_decoded(place, tmp_path, monkeypatch):
    """What is left out is known by its head: the transcript itself is never looked into."""
    size = upload(place, tmp_path / "made", [2**20] * 20)
    decoded = []
    monkeypatch.setattr(
        holdfast.run.remote.recover_without_steps, "decode", lambda line: decoded.append(decode(line)) or decoded[-1]
    )
    found = holdfast.recover(place.url, tmp_path / "home", steps=False)
    left = sum(path.stat().st_size for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert found.finished == 20 and left < size / 20
    assert decoded and not [record for record in decoded if isinstance(record, StepRecord)]


def test_recovery_10_a_copy_knows_the_code_of_a_task_that_was_made_in_memory(tmp_path):
    """The tree is in the record of the first session, which the copy does not have; the code is in no file."""
    names: dict[str, Any] = {}
    exec("async def solve(trial):\n    return (await trial.generate(trial.sample.input)).text\n", names)
    samples = [Sample(name, target="x", id=name) for name in "abc"]
    task = Task(name="t", samples=samples, solver=names["solve"], scorers=exact())
    for limit in (1, 2):
        evaluate(task, ["scripted/echo"], run=tmp_path / "whole", limit=limit, progress=False)
    layout = Layout(tmp_path / "whole")
    with closing(RunScan(layout, find_run_id(RealFileSystem(), layout))) as scan:
        scan.scan_rest()
        assert scan.sessions[-1].code["t"].tree is None
        assert copy_without_steps(scan, tmp_path / "slim") == []
    assert evaluate(task, ["scripted/echo"], run=tmp_path / "slim", limit=3, progress=False).finished == 3
