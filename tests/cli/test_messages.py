"""What a person reads: why trials remain, where code broke, and commands that work as they are printed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from evals import http_eval, python_eval

BROKEN = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    raise ValueError("not today")

@task
def t():
    return Task(samples=[Sample("x", target="x", id="s1")], solver=solve, scorers=exact())
"""


def test_status_says_why_trials_remain(holdfast, server, tmp_path):
    """Failed, interrupted and not started trials are told apart, in the words that resume uses."""
    eval_file = http_eval(tmp_path, server.base_url, 6, retry_deadline=0.01, concurrency_limit=1)
    server.behave(refuse_status=503, refuse_times=1, refuse_only=["q1"], hold=True, **{"pass": 1})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=1)
    started.kill()
    status = holdfast.json("status", "r")
    assert sum(status["remaining_by_reason"].values()) == status["remaining"] == 6 - status["finished"]
    told = ", ".join(f"{count} {words}" for words, count in status["remaining_by_reason"].items())
    assert f"{status['remaining']} remaining: {told}\n" in holdfast("status", "r", COLUMNS="200").out
    server.behave()
    assert f"{status['remaining']} remaining: {told}." in holdfast("resume", "r", code=0).err
    assert holdfast.json("status", "r")["remaining_by_reason"] == {}


def test_the_command_that_goes_on_can_be_pasted(holdfast, server, tmp_path):
    """A run in a directory with spaces and quotes: what status prints after `failed trial:` is a shell command."""
    python_eval(tmp_path, server.base_url, BROKEN)
    name = "my 'own' run; $HOME ü"
    holdfast("run", "eval.yaml", "--run-dir", name, code=1)
    lines = holdfast("status", name, code=0).out.splitlines()
    (command,) = [line.partition("failed trial: ")[2] for line in lines if "failed trial: " in line]
    assert shlex.split(command) == ["holdfast", "resume", name, "--redo", "status=failed"]
    command = command.replace("holdfast", f"{shlex.quote(sys.executable)} -m holdfast", 1)
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1 and "1 remaining: 1 failed (task error)." in done.stderr


def test_nothing_is_said_of_cost_where_no_model_has_a_price(holdfast, server, tmp_path):
    """A cost of nothing is not a cost that is known."""
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    assert "cost" not in holdfast("status", "r").out
    priced = {"price": {"input": 1e6, "output": 1e6}}
    holdfast("run", http_eval(tmp_path, server.base_url, 1, model=priced), "--run-dir", "p", code=0)
    assert "\n  cost " in holdfast("status", "p").out


@pytest.mark.parametrize(("count", "told"), [(1, ": 1 trial.\n"), (2, ": 2 trials.\n")])
def test_one_is_not_several(holdfast, server, tmp_path, count, told):
    """One trial is a trial."""
    assert told in holdfast("run", http_eval(tmp_path, server.base_url, count), "--run-dir", "r", code=0).err
    assert "1 session\n" in holdfast("verify", "r").out


def test_a_failure_names_what_was_raised_and_where(holdfast, server, tmp_path):
    """The line that ends an attempt, in progress and in show, leads to the line of the task's own code."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN, max_retries=1, fail_fast=False)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "t/m/s1#1: failed: ValueError: not today (task.py:5)\n" in ended.err
    _, row, error, _, counts, _ = holdfast("show", "r").out.splitlines()
    assert row.startswith("s1#1   failed (task error)")
    assert error == "  attempt 2: ValueError: not today (task.py:5)"
    assert counts == "r: 0 of 1 trials finished, 1 remaining: 1 failed (task error)."
    transcript = holdfast("show", "r", "s1").out
    assert "(attempt 1), 0 calls" in transcript and "(attempt 2), 0 calls" in transcript


def test_a_reply_of_any_length_leaves_the_terminal_usable(holdfast, server, tmp_path):
    """Of a text that nobody would read to its end a part is shown, and where the rest is."""
    source = BROKEN.replace('raise ValueError("not today")', 'return "a" * 1_000_000')
    holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", code=0)
    told = holdfast("show", "r", "s1").out
    assert len(told) < 30_000 and "… and 980,000 characters more; --json has all of them" in told
    (answer,) = [record for record in holdfast.json("show", "r", "s1")["records"] if record["type"] == "answer"]
    assert len(answer["text"]) == 1_000_000


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_list_of_no_trials_is_refused(holdfast, server, tmp_path, limit):
    """A limit below one is a mistake."""
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    assert "--limit" in holdfast("show", "r", "--limit", limit, code=2).err


def test_a_misspelt_generation_parameter_is_found_before_the_run(holdfast, server, tmp_path):
    """generate(temprature=1) is wrong before anything is asked or written."""
    source = BROKEN.replace("solver=solve", "solver=generate(temprature=1)").replace("exact,", "exact, generate,")
    ended = holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", code=2)
    assert "no parameter 'temprature'" in ended.err and "Did you mean 'temperature'?" in ended.err
    source = source.replace("temprature=1", "temperature='hot'")
    ended = holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", code=2)
    assert "A parameter of generate() is wrong" in ended.err and "temperature" in ended.err
    assert not (tmp_path / "r").exists()


def test_several_trials_of_a_sample_are_told_apart(holdfast, server, tmp_path):
    """A sample's id that matches several trials is refused with what each of them is."""
    eval_file = http_eval(tmp_path, server.base_url, 1, task={"epochs": 2})
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    told = holdfast("show", "r", "s1", code=2).err
    assert "'s1' matches 2 trials: s1#1, s1#2." in told


def test_a_report_of_a_damaged_run_says_so(holdfast, server, tmp_path):
    """What is lost remains to be done, and whoever reads the report is told that something was."""
    holdfast("run", http_eval(tmp_path, server.base_url, 3), "--run-dir", "r", code=0)
    assert "note" not in holdfast("report", "r", code=0).err
    path = min((tmp_path / "r" / "journal").iterdir())
    data = bytearray(path.read_bytes())
    data[-len(data) // 4] ^= 0xFF  # the first half may be the record of the session
    path.write_bytes(data)
    assert "note: The journal is damaged" in holdfast("report", "r", code=0).err
    assert json.loads(holdfast("report", "r", "--json", code=0).out)["name"] == "counted"


def test_a_run_that_has_lost_its_journal_is_not_told_to_begin_again(holdfast, server, tmp_path):
    """Where config.yaml shows that there was a run, nobody is sent to `holdfast run`."""
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    for path in (tmp_path / "r" / "journal").iterdir():
        path.unlink()
    told = holdfast("resume", "r", code=2).err
    assert "r has lost its records: its journal is empty." in told
    assert "holdfast run" not in told and "from a copy" in told


def test_a_tab_in_an_eval_file_is_named(holdfast, tmp_path):
    """The usual mistake in YAML has a sentence of its own."""
    (tmp_path / "eval.yaml").write_text("models:\n\tm: scripted/echo\n")
    assert "eval.yaml, line 2" in (told := holdfast("run", "eval.yaml", code=2).err)
    assert "indent lines with spaces, not with tabs" in told
