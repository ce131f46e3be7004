"""Steps 13, 14, 15 and 19 over HTTP: a bug is paid for a few times, told once, and never tried again by itself."""

from __future__ import annotations

import shlex
import signal

import pytest

from evals import python_eval, write_eval
from holdfast import Run
from program import until

TIMES = "\N{MULTIPLICATION SIGN}"
BUG = """
from holdfast import Sample, Task, exact, generate, task

def parse(reply, sample):
    return reply.text.split("=")[1] + sample.id

async def solve(trial):
    reply = await trial.generate(trial.sample.input)
    return {solved}

@task
def t(n: int = {count}):
    samples = [Sample(f"q{{i}}", target=f"Q{{i}}", id=f"s{{i}}") for i in range(n)]
    return Task(samples=samples, solver=solve, scorers=exact())

@task
def sound():
    return Task(samples=[Sample("a", target="A", id="a")], solver=generate(), scorers=exact())
"""
BROKEN, FIXED = "parse(reply, trial.sample)", "reply.text"
SAME = "trials failed with the same error: IndexError: list index out of range (task.py:5)"


def buggy_eval(directory, server, count, *, solved=BROKEN, **keys):
    return python_eval(directory, server.base_url, BUG.format(solved=solved, count=count), **keys)


def counts_everywhere(holdfast, run):
    """The numbers of status, on which report, verify and `Run` agree."""
    names = ("planned", "finished", "failed", "unfinished", "not_started", "remaining", "remaining_by_reason")
    told = [
        holdfast.json("status", run),
        holdfast.json("report", run)["coverage"],
        holdfast.json("verify", run, code=0),
    ]
    found = [{name: one[name] for name in names} for one in told]
    with Run.open(holdfast.directory / run) as opened:
        found.append({name: getattr(opened.counts, name) for name in names})
    assert all(one == found[0] for one in found), found
    (listed,) = holdfast.json("recover", "--list", run, code=0)["runs"]
    assert listed["states"]["failed"] == found[0]["failed"]
    assert listed["states"]["not_started"] == found[0]["not_started"]
    return found[0]


@pytest.mark.parametrize(("limit", "most"), [(4, 24), (256, 266)])
def test_steps_13_a_bug_is_paid_for_a_few_times_and_told_once(holdfast, server, tmp_path, limit, most):
    """One message with the error, the line, how many and what to type; the other task is run; exit 1."""
    server.behave(latency=0.02)
    eval_file = buggy_eval(tmp_path, server, 400, concurrency_limit=limit)
    data = {"t": {"use": "task.py:t"}, "other": {"use": "task.py:sound"}}
    model = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    write_eval(tmp_path, {"name": "bug", "models": {"m": model}, "tasks": data, "concurrency_limit": limit})
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    calls = server.state()["received"]
    assert 21 <= calls <= most + 1
    failed = calls - 1
    assert f"t: stopped; the first {failed} {SAME}\n" in ended.out
    assert (ended.out + ended.err).count("failed with the same error") == 1
    assert f"After fixing the code: holdfast run {eval_file} --reuse r\n" in ended.out
    assert f"{failed} failed (task error), {400 - failed} not run (same error).\n" in ended.out
    # The error itself is listed once; then it is counted.
    assert ended.err.count("t/m/s") == 1 and f"t: {failed - 1} more with the same error: IndexError" in ended.err
    counts = counts_everywhere(holdfast, "r")
    assert counts["remaining_by_reason"] == {"task error": failed, "same error": 400 - failed}
    assert (counts["finished"], counts["failed"], counts["not_started"]) == (1, failed, 400 - failed)


def test_steps_14_resumed_it_says_the_same_and_calls_nobody(holdfast, server, tmp_path):
    """A redo tries again; a fix is refused by the gate, with a command that pays for nothing that was answered."""
    eval_file = buggy_eval(tmp_path, server, 60, concurrency_limit=1)
    first = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert server.state()["received"] == 20
    segments = sorted((tmp_path / "r" / "journal").iterdir())
    again = holdfast("resume", "r", code=1)
    told = f"t: stopped; the first 20 {SAME}\n"
    assert told in first.out and told in again.out and "nothing to run: 0 of 60 trials finished" in again.out
    assert "holdfast resume r --redo 'status=failed'\n" in again.out
    assert told.strip() in holdfast("status", "r").out
    found = holdfast.json("resume", "r", code=1)
    assert (found["state"], found["ended_as"], found["resume"]) == (
        "incomplete", None, "holdfast resume r --redo 'status=failed'"
    )  # fmt: skip
    # Neither of them was a session.
    assert sorted((tmp_path / "r" / "journal").iterdir()) == segments and server.state()["received"] == 20
    holdfast("resume", "r", "--where", "reason='same error'", code=1)
    assert "the first 20" in holdfast("resume", "r", "--set", "concurrency_limit=2", code=1).out
    assert server.state()["received"] == 20
    holdfast("resume", "r", "--redo", "status=failed", code=1)
    assert 30 <= server.state()["received"] <= 45
    bought = server.state()["received"]
    buggy_eval(tmp_path, server, 60, solved=FIXED, concurrency_limit=1)
    refused = holdfast("resume", "r", code=3)
    (command,) = [line.partition("from this one: ")[2] for line in refused.err.splitlines() if "--reuse" in line]
    assert shlex.split(command) == ["holdfast", "run", str(eval_file), "--reuse", "r"]
    assert server.state()["received"] == bought
    answered = len(server.worked_on())
    mended = holdfast(*shlex.split(command)[1:], "--run-dir", "fixed", code=0)
    assert "Complete: 60 of 60" in mended.out and f"{answered} replies of other runs were used" in mended.err
    # Every question that was answered before is answered from the record.
    assert server.state()["received"] == bought + 60 - answered and len(server.worked_on()) == 60


def test_a_redo_after_an_outage_of_ones_own_finishes_the_task(holdfast, server, tmp_path):
    """The code is unchanged and works now: a redo lifts the stop, and runs what was not started too."""
    source = BUG.format(solved="parse(reply, trial.sample) if not Path('well').exists() else reply.text", count=40)
    eval_file = python_eval(tmp_path, server.base_url, f"from pathlib import Path\n{source}", concurrency_limit=8)
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=1)
    told = holdfast("resume", "r", "--redo", "status=failed", code=0)
    assert "Complete: 40 of 40" in told.out and counts_everywhere(holdfast, "r")["finished"] == 40
    assert "stopped" not in holdfast("status", "r").out


ONE_BAD = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    reply = await trial.generate(f"{trial.sample.input} {trial.attempt}")
    if trial.sample.id in {"s1", "s4"}:
        raise ValueError("always")
    return reply

@task
def t():
    samples = [Sample(f"q{i}", id=f"s{i}", target=f"Q{i} 1") for i in range(60)]
    return Task(samples=samples, solver=solve, scorers=exact())
"""


def test_steps_15_a_trial_that_has_used_up_its_retries_stays_failed(holdfast, server, tmp_path):
    """Killed later and resumed, twice: nothing of it is asked again, until a redo says so."""
    server.behave(latency=0.05)
    eval_file = python_eval(tmp_path, server.base_url, ONE_BAD, concurrency_limit=2, max_retries=2)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until((tmp_path / "r" / "journal").is_dir, "the run exists")
    until(lambda: holdfast.json("status", "r").get("failed") == 2, "both have failed")
    started.send(signal.SIGKILL)
    started.wait()
    resumed = holdfast("resume", "r", code=1)
    assert "Retry the 2 failed trials: holdfast resume r --redo 'status=failed'\n" in resumed.err
    again = holdfast("resume", "r", code=1)
    assert "nothing to run: 58 of 60 trials finished, 2 remaining: 2 failed (task error)." in again.out
    asked = server.worked_on()
    assert {name: count for name, count in asked.items() if name.startswith(("q1 ", "q4 "))} == {
        f"q{number} {attempt}": 1 for number in (1, 4) for attempt in (1, 2, 3)
    }
    assert counts_everywhere(holdfast, "r")["remaining_by_reason"] == {"task error": 2}
    holdfast("resume", "r", "--redo", "status=failed", code=1)
    assert {"q1 4", "q1 5", "q1 6", "q4 4", "q4 5", "q4 6"} <= set(server.worked_on())
    with Run.open(tmp_path / "r") as run:
        assert run.counts.failed == 2 and not run.is_complete


def test_a_failure_that_is_not_worth_a_retry_stays_failed_too(holdfast, server, tmp_path):
    """A wrong type would be returned again."""
    source = ONE_BAD.replace('raise ValueError("always")', "return 5")
    holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", code=1)
    assert server.state()["received"] == 60
    for _ in range(2):
        holdfast("resume", "r", code=1)
    assert server.state()["received"] == 60


def test_max_retries_cannot_change(holdfast, server, tmp_path):
    """It decides which trials count as failed, so the gate refuses it; `fail_fast` may change."""
    holdfast("run", python_eval(tmp_path, server.base_url, ONE_BAD), "--run-dir", "r", code=1)
    assert "max_retries (recorded)" in holdfast("resume", "r", "--set", "max_retries=9", code=3).err
    changed = holdfast("resume", "r", "--set", "fail_fast=false", code=1)
    assert "runner.fail_fast: true → false" in changed.err
    assert "fail_fast: false" in (tmp_path / "r" / "config.yaml").read_text()


@pytest.mark.parametrize("place", ["top", "runner", "task", "task's runner"])
def test_it_is_switched_off_wherever_a_runner_key_may_stand(holdfast, server, tmp_path, place):
    """Steps 12: five trials, two retries each, fifteen calls."""
    eval_file = buggy_eval(tmp_path, server, 5)
    off = {"fail_fast": False}
    task = {"use": "task.py:t", **(off if place == "task" else {"runner": off} if place == "task's runner" else {})}
    model = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    run = off if place == "top" else {"runner": off} if place == "runner" else {}
    write_eval(tmp_path, {"name": "off", "models": {"m": model}, "tasks": {"t": task}, **run})
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert server.state()["received"] == 15


def test_steps_19_five_hundred_equal_errors_are_printed_once(holdfast, server, tmp_path):
    """On stderr, in the log file and at the end of the session; a message that names the sample makes no difference."""
    source = ONE_BAD.replace('trial.sample.id in {"s1", "s4"}', 'trial.sample.id != "s0"')
    source = source.replace('"always"', 'f"row {trial.sample.id}"').replace("range(60)", "range(501)")
    eval_file = python_eval(tmp_path, server.base_url, source, max_retries=0)
    ended = holdfast("run", eval_file, "--run-dir", "r", "--log-file", "log.txt", code=1)
    log = (tmp_path / "log.txt").read_text()
    for text in (ended.err, log):
        assert text.count(": failed: ValueError: row s") == 1
        assert text.count("t: 499 more with the same error: ValueError: row s") == 1
        assert "500 failed (1 error)" in text
    assert ended.out.count("ValueError: row s") == 1 and f"  500 {TIMES} ValueError: row s" in ended.out
    assert holdfast("report", "r", code=0).out.count("ValueError: row s") == 1


def test_quiet_and_json_tell_of_the_stop(holdfast, server, tmp_path):
    """With -q the stop is said, for it is an error; with --json the reason is in the counts."""
    eval_file = buggy_eval(tmp_path, server, 60, concurrency_limit=1)
    quiet = holdfast("run", eval_file, "--run-dir", "q", "-q", code=1)
    assert "t: stopped, because its first 20 trials failed in the same way" in quiet.err
    found = holdfast.json("run", eval_file, "--run-dir", "j", code=1)
    assert found["remaining_by_reason"] == {"task error": 20, "same error": 40}
    assert found["resume"] == f"holdfast resume {tmp_path / 'j'} --redo 'status=failed'"
    assert holdfast.json("show", "j", "--where", "status=failed")["matching"] == 20


def test_only_what_was_selected_is_retried_and_stops_nothing(holdfast, server, tmp_path):
    """Of three selected trials all fail alike: that says nothing about the others, so they get their retries."""
    eval_file = buggy_eval(tmp_path, server, 40, max_retries=2)
    holdfast("run", eval_file, "--run-dir", "r", HOLDFAST_CRASH_AT="run.parent-synced")
    holdfast("resume", "r", "--where", "sample=s1 or sample=s2 or sample=s3", code=1)
    assert server.worked_on() == {"q1": 3, "q2": 3, "q3": 3}
    assert counts_everywhere(holdfast, "r")["remaining_by_reason"] == {"task error": 3, "not started": 37}


def test_a_stop_survives_what_becomes_of_the_run(holdfast, server, tmp_path):
    """Its index gone, its steps deleted; a fork starts anew."""
    holdfast("run", buggy_eval(tmp_path, server, 60, concurrency_limit=1), "--run-dir", "r", code=1)
    counts = counts_everywhere(holdfast, "r")
    for path in (tmp_path / "r").glob("index.sqlite*"):
        path.unlink()
    assert counts_everywhere(holdfast, "r") == counts
    holdfast("clean", "r", "--steps", code=0)
    assert counts_everywhere(holdfast, "r") == counts
    assert "the first 20 trials failed with the same error" in holdfast("resume", "r", code=1).out
    assert server.state()["received"] == 20
    holdfast("fork", "r", "--run-dir", "f", code=0)
    assert "same error" not in holdfast.json("status", "f")["remaining_by_reason"]
    holdfast("resume", "f", code=1)
    assert counts_everywhere(holdfast, "f")["remaining_by_reason"] == {"task error": 20, "same error": 40}
