"""Score slots through the command line: real kills, real signals, and a server that counts."""

from __future__ import annotations

import json
import re
import signal
import time

import pytest

from evals import python_eval
from program import until

JUDGES = """
from holdfast import Sample, ScoreScope, Task, exact, generate, scorer, task

def judge(name, *prompts):
    @scorer(name=name)
    async def judged(answer, sample, scope: ScoreScope):
        texts = [(await scope.generate([*as_messages(prompt)], model="m")).text for prompt in prompts]
        return texts[-1] == prompts[-1].upper()
    return judged

def as_messages(prompt):
    from holdfast import Message
    return [Message("user", prompt)]

@task
def t():
    judges = [judge("one", "one"), judge("two", "two"), judge("three", "three")]
    return Task(samples=[Sample("a", target="A")], solver=generate(), scorers=[exact(), *judges])
"""


def test_limits_23_killed_in_judge_2_of_3_makes_one_call_again(holdfast, server, tmp_path):
    """Two verdicts are on record and one call is in flight: a resume makes that call, and no other."""
    eval_file = python_eval(tmp_path, server.base_url, JUDGES, concurrency_limits={"score": 1})
    # One slot at a time: the answer and the first judge pass, the second is kept waiting.
    server.behave(hold=True, **{"pass": 2})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=2, in_flight=1)
    until(lambda: len(holdfast.records("r", "score")) == 2, "the first verdicts are on record")
    started.send(signal.SIGKILL)
    started.wait()
    counts = holdfast.json("status", "r")
    assert counts["remaining_by_reason"] == {"not scored": 1}
    server.behave()
    holdfast("resume", "r", code=0)
    assert server.worked_on() == {"a": 1, "one": 1, "two": 2, "three": 1}
    (end,) = holdfast.records("r", "trial")
    assert end["scores"] == {"exact": 1.0, "one": 1.0, "two": 1.0, "three": 1.0}
    # The replies that are on record, each once: the call in flight at the kill left none.
    report, status = holdfast.json("report", "r"), holdfast.json("status", "r")
    assert report["usage"]["input_tokens"] == status["usage"]["input_tokens"] == 4
    assert holdfast.json("verify", "r", "--deep", code=0)["ok"]


def test_limits_23_killed_with_all_judges_in_flight_replays_none_of_the_solver(holdfast, server, tmp_path):
    """Three judges side by side, one verdict on record: two calls are made again."""
    eval_file = python_eval(tmp_path, server.base_url, JUDGES)
    server.behave(hold=True, **{"pass": 2})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=2, in_flight=2)
    until(lambda: len(holdfast.records("r", "score")) == 2, "the plain scorer and a judge are on record")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    holdfast("resume", "r", code=0)
    worked_on = server.worked_on()
    assert worked_on["a"] == 1 and sorted(worked_on[name] for name in ("one", "two", "three")) == [1, 2, 2]


SLOW = """
import time
from holdfast import Sample, Task, scorer, task
import asyncio

def slow(name):
    @scorer(name=name)
    async def judged(answer, sample):
        open(f"{name}.began", "w").close()
        while not all(__import__("os").path.exists(f"{other}.began") for other in "abc"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        return True
    return judged

async def solve(trial):
    return "x"

@task
def t():
    return Task(samples=[Sample("a")], solver=solve, scorers=[slow(name) for name in "abc"])
"""


def test_limits_27_three_judges_of_half_a_second_meet(holdfast, tmp_path):
    """Each waits until all have begun: one after another none would ever end."""
    holdfast("run", python_eval(tmp_path, "http://127.0.0.1:9/v1", SLOW), "--run-dir", "r", code=0)
    (end,) = holdfast.records("r", "trial")
    assert 0.5 <= end["seconds"] < 30.0


BROKEN = """
import asyncio, os
from holdfast import Sample, Task, generate, scorer, task

def asked(name):
    with open(f"{name}.asked", "a") as file:
        file.write("x")

@scorer
def good(answer, sample):
    asked("good")
    return True

@scorer
async def broken(answer, sample):
    asked("broken")
    if os.path.exists("hang"):
        await asyncio.sleep(3600)
    if not os.path.exists("well"):
        raise ValueError("my bug")
    return 0.5

@task
def t():
    return Task(samples=[Sample("a")], solver=generate(), scorers=[broken, good])
"""


def times(tmp_path, name):
    return (tmp_path / f"{name}.asked").stat().st_size


def test_a_failed_slot_is_told_and_only_a_redo_asks_it_again(holdfast, server, tmp_path):
    """`failed (score: NAME)` everywhere; a resume leaves it and prints the way out; the redo asks one scorer."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN, max_retries=1)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "1 remaining: 1 failed (score: broken).\n" in ended.out
    way_out = "holdfast resume r --redo 'status=failed'"
    assert way_out in ended.out and "Resume with" not in ended.out
    # The sample has no id: people read the first digits of its digest.
    assert re.search(r"\bt/m/[0-9a-f]{8}#1: failed \(score: broken\): ValueError: my bug", ended.err)
    assert (times(tmp_path, "good"), times(tmp_path, "broken")) == (1, 2)
    shown = holdfast("show", "r", code=0).out
    header, row, error = shown.splitlines()[:3]
    assert header.split()[:3] == ["trial", "state", "good"] and "failed (score: broken)     1" in row
    assert error.startswith("  ValueError: my bug")
    assert "failed (score: broken)" in holdfast("report", "r").out
    said = holdfast("status", "r").out
    assert "Retry with unchanged code: holdfast resume r --redo 'status=failed'" in said and "Resume with:" not in said
    assert "After fixing the scorer: holdfast rescore r  (no model under test is called)" in said
    status = holdfast.json("status", "r")
    assert (status["failed"], status["remaining_by_reason"]) == (1, {"score: broken": 1})
    row = holdfast.json("show", "r", "--where", 'reason="score: broken"', code=0)["trials"][0]
    assert (row["scores"], row["attempts"], row["answer"]) == ({"good": 1.0}, 1, "A")
    transcript = holdfast("show", "r", row["trial"], code=0).out
    assert "── score broken failed (attempt 2)" in transcript and "task.py" in transcript
    assert transcript.count("Traceback") == 1 and "(the traceback is above)" in transcript
    resumed = holdfast("resume", "r", code=1)
    assert "holdfast resume r --redo 'status=failed'" in resumed.out
    assert (times(tmp_path, "good"), times(tmp_path, "broken")) == (1, 2)
    (tmp_path / "well").touch()
    holdfast("resume", "r", "--redo", "status=failed", code=0)
    assert (times(tmp_path, "good"), times(tmp_path, "broken")) == (1, 3)
    assert server.worked_on() == {"a": 1}
    assert holdfast.json("report", "r")["usage"]["output_tokens"] == 1
    assert holdfast.json("verify", "r", "--deep", code=0)["ok"]
    assert holdfast("show", "r", row["trial"], code=0).out.count("── score broken") == 3


def test_exhausted_attempts_of_a_slot_stay_so_over_a_kill(holdfast, server, tmp_path):
    """Killed in the last attempt that it had: a resume makes that one again, and no more."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN.replace('os.path.exists("hang")', HANGING), max_retries=1)
    (tmp_path / "hang").touch()
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: (tmp_path / "broken.asked").exists() and times(tmp_path, "broken") == 2, "the last attempt has begun")
    started.send(signal.SIGKILL)
    started.wait()
    (tmp_path / "hang").unlink()
    assert "failed (score: broken)" in holdfast("resume", "r", code=1).out
    assert times(tmp_path, "broken") == 3
    holdfast("resume", "r", code=1)
    assert times(tmp_path, "broken") == 3
    found = [(one["slot_attempt"], one.get("will_retry", False)) for one in failed_slots(holdfast)]
    assert found == [(1, True), (2, False)]


HANGING = 'os.path.exists("hang") and os.path.getsize("broken.asked") == 2'


def failed_slots(holdfast):
    return [{"slot_attempt": 1, **one} for one in holdfast.records("r", "score") if "error" in one]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_hanging_scorer_is_stopped_by_a_signal_and_asked_again(holdfast, server, tmp_path, number):
    """The slot remains; what was filled is kept, and the solver is not asked again."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN)
    (tmp_path / "hang").touch()
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until((tmp_path / "broken.asked").exists, "the scorer hangs")
    began = time.monotonic()
    started.send(number)
    assert started.wait().code == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert time.monotonic() - began < 60.0
    (tmp_path / "hang").unlink()
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=0)
    assert (times(tmp_path, "good"), times(tmp_path, "broken"), server.worked_on()) == (1, 2, {"a": 1})


def test_limits_27_a_judge_that_is_down_leaves_its_slot_to_be_asked_alone(holdfast, server, tmp_path):
    """503 from one judge: the others are filled; a resume asks that one."""
    eval_file = python_eval(tmp_path, server.base_url, JUDGES, retry_deadline=0.01)
    server.behave(refuse_status=503, refuse_times=1, refuse_only=["two"])
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "1 remaining: 1 no reply (score: two).\n" in ended.out and "Resume with" in ended.out
    assert {one["scorer"] for one in holdfast.records("r", "score")} == {"exact", "one", "three"}
    server.behave()
    holdfast("resume", "r", code=0)
    assert server.worked_on() == {"a": 1, "one": 1, "two": 1, "three": 1}


SECOND_OPINION = """
from holdfast import Message, Sample, Task, exact, generate, scorer, task

@scorer
async def judge(answer, sample, scope):
    return (await scope.generate([Message("user", f"judge {sample.input}")], model="j")).text.startswith("JUDGE")

@scorer
async def careless(answer, sample, scope):
    try:
        await scope.generate([Message("user", f"care {sample.input}")], model="j")
    except Exception:
        return False
    return True

@task
def t():
    scorers = [exact(), judge, careless]
    return Task(samples=[Sample(name, target=name.upper()) for name in "abc"], solver=generate(), scorers=scorers)
"""


def test_a_judge_that_cannot_be_opened_uses_up_no_attempts(holdfast, server, tmp_path):
    """Without its key it is disabled, which is said once; a resume with the key asks the judges alone."""
    served = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    models = {"m": served, "j": {**served, "api_key_env": "JUDGE_KEY"}}
    eval_file = python_eval(tmp_path, server.base_url, SECOND_OPINION, models=models, max_retries=0)
    data = json.loads(eval_file.read_text())
    data["tasks"]["t"]["models"] = ["m"]
    eval_file.write_text(json.dumps(data))
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "3 remaining: 3 model disabled (score: judge).\n" in ended.out and "Resume with" in ended.out
    assert ended.err.count("j: disabled for this session.") == 1 and "JUDGE_KEY" in ended.err
    assert {one["scorer"] for one in holdfast.records("r", "score")} == {"exact"}
    holdfast("resume", "r", code=1)
    assert server.worked_on() == {"a": 1, "b": 1, "c": 1}
    holdfast("resume", "r", code=0, JUDGE_KEY="k")
    assert server.worked_on() == {f"{what}{name}": 1 for what in ("", "judge ", "care ") for name in "abc"}
    assert {value for end in holdfast.records("r", "trial") for value in end.get("scores", {}).values()} == {1.0}
    assert holdfast.json("verify", "r", "--deep", code=0)["ok"]


def test_a_scorer_that_was_fixed_scores_the_answers_in_a_fork(holdfast, server, tmp_path):
    """The second way out: the code has changed, so that only a new run takes it; no model is asked again."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN, max_retries=0)
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    task = tmp_path / "task.py"
    task.write_text(task.read_text().replace('raise ValueError("my bug")', "return True"))
    assert "ValueError" not in task.read_text()
    holdfast("resume", "r", "--redo", "status=failed", code=3)
    holdfast("fork", "r", "--run-dir", "new", code=0)
    holdfast("resume", "new", code=0)
    assert server.worked_on() == {"a": 1}


ONE_FAILS = """
from holdfast import Sample, Task, exact, generate, task

def picky(answer, sample) -> bool:
    if answer.text == "B":
        raise KeyError("x")
    return True

@task
def t():
    samples = [Sample(text, target=text.upper(), id=text) for text in ("a", "b", "c")]
    return Task(samples=samples, solver=generate(), scorers=[exact(), picky])
"""


def test_a_failed_scorer_leaves_the_run_incomplete_in_every_text(holdfast, server, tmp_path):
    """Another scorer has scored every trial: `run` and `resume` say INCOMPLETE all the same, as `report` does."""
    ended = holdfast("run", python_eval(tmp_path, server.base_url, ONE_FAILS), "--run-dir", "r", code=1)
    coverage = "2 of 3 trials valid, 1 remaining: 1 failed (score: picky)"
    assert ended.out.startswith(f"INCOMPLETE: {coverage}\n")
    assert f": INCOMPLETE, {coverage}\n" in holdfast("report", "r", code=0).out
    assert f"INCOMPLETE: {coverage}\n" in holdfast("resume", "r", code=1).out
