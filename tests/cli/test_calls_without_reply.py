"""Calls that got no reply: how a session with them ends, what `status` claims of them, and what `show` counts."""

from __future__ import annotations

import re
import signal

import pytest

from evals import http_eval, python_eval
from program import until

TWICE = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    await trial.generate("first")
    return await trial.generate("second")

@task
def t():
    return Task(samples=[Sample("x", target="x", id="s1")], solver=solve, scorers=exact())
"""


def test_a_session_without_failed_trials_does_not_end_with_failures(holdfast, server, tmp_path):
    """It says `failed` of none, since none of them is in that state."""
    server.behave(refuse_status=503, refuse_times=9, refuse_only=["q1"], said="overloaded")
    out = holdfast("run", http_eval(tmp_path, server.base_url, 2, retry_deadline=0.01), "--run-dir", "r", code=1).out
    assert "failures" not in out
    status = holdfast.json("status", "r")
    assert [one["ended_as"] for one in status["sessions"]] == ["incomplete"] and status["failed"] == 0
    assert re.search(r"^ +1  .*  incomplete ", holdfast("status", "r").out, re.MULTILINE)


def test_a_disabled_model_alone_is_no_failure_either(holdfast, server, tmp_path):
    """The sentence has no other word for it than what remains."""
    server.behave(refuse_status=401, refuse_times=9, said="no")
    out = holdfast("run", http_eval(tmp_path, server.base_url, 2, concurrency_limit=1), "--run-dir", "r", code=1).out
    assert "Stopped: 0 of 2 trials finished, 2 remaining: 1 model disabled, 1 not started.\n" in out


@pytest.mark.parametrize("columns", ["80", "200"])
def test_how_a_session_ended_fits_its_column(holdfast, server, tmp_path, columns):
    """Nothing of the table is cut at 80 columns."""
    broken = TWICE.replace('await trial.generate("first")', 'raise ValueError("bug")')
    holdfast("run", python_eval(tmp_path, server.base_url, broken, max_retries=0), "--run-dir", "r", code=1)
    out = holdfast("status", "r", COLUMNS=columns).out
    assert "  with failures " in out and "\N{HORIZONTAL ELLIPSIS}" not in out and "started (UTC)" in out


def test_a_call_that_only_waits_for_its_next_try_is_not_in_flight(holdfast, server, tmp_path):
    """Every request of it was answered, with a refusal: nothing of it can be billed, nor billed twice."""
    server.behave(refuse_status=429, refuse_times=9, retry_after=600, said="slow down")
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 4), "--run-dir", "r")
    server.wait_for(refused=4)
    until(lambda: "retrying" in started.told(), "a retry is announced")
    server.wait_until_idle()
    started.send(signal.SIGINT)
    assert started.wait().code == 130
    status = holdfast.json("status", "r")
    assert status["calls"]["in_flight_at_kill"] == 0 and status["calls"]["unanswered"] == status["calls"]["made"] == 4
    assert "calls    4 made, 0 replayed\n" in holdfast("status", "r").out
    server.behave()
    ended = holdfast("resume", "r", code=0)
    assert "made again" not in ended.err
    assert holdfast.json("status", "r")["calls"]["repeated"]["interrupted"] == 0


def test_calls_in_flight_may_have_been_billed_twice_only_after_a_resume(holdfast, server, tmp_path):
    """Before it, the sentence says what a resume will do."""
    server.behave(hold=True)
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "r")
    server.wait_for(received=2)
    started.kill()
    before = " ".join(holdfast("status", "r").out.split())
    assert "calls in flight at the end, which a resume makes again" in before and "billed" not in before
    server.behave()
    holdfast("resume", "r", code=0)
    after = " ".join(holdfast("status", "r").out.split())
    assert "calls may have been billed twice" in after and "makes again" not in after


def test_show_counts_the_calls_that_status_counts(holdfast, server, tmp_path):
    """Also those that got no reply, in the session that made them."""
    server.behave(refuse_status=503, refuse_times=9, refuse_only=["second"], said="overloaded")
    holdfast("run", python_eval(tmp_path, server.base_url, TWICE, retry_deadline=0.01), "--run-dir", "r", code=1)
    assert holdfast.json("status", "r")["calls"]["made"] == 2
    assert "(attempt 1), 2 calls, 1 without a reply, 0 replayed" in holdfast("show", "r", "s1").out
    server.behave()
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["calls"]["made"] == 3
    assert "(attempt 1), 1 call, 1 replayed" in holdfast("show", "r", "s1").out
