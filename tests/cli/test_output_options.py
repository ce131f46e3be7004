"""-v, -q and --log-file: how much a session prints, and what it appends to a file."""

from __future__ import annotations

import re

import pytest

from evals import http_eval, write_dataset, write_eval

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def failing_eval(directory, count=12, **keys):
    """Seven trials get no reply, all for the same reason; one request has to be sent three times."""
    write_dataset(directory, count)
    rejected = [{"contains": f"q{number}", "rejected": {}} for number in range(3, 10)]
    errors = [{"contains": "q2", "unavailable": {"times": 2, "retry_after": 0.01}}, *rejected]
    model = {"provider": "scripted", "model": "echo", "args": {"errors": errors}}
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    data = {
        "name": "failing",
        "models": {"m": model},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": task},
    }
    return write_eval(directory, {**data, **keys})


def failed(text):
    return re.findall(r"^t/m/s\d+#1: unfinished: ", text, re.MULTILINE)


def test_equal_errors_are_listed_once(holdfast, tmp_path):
    """After that they are counted, and the count is printed at the end."""
    ended = holdfast("run", failing_eval(tmp_path), "--run-dir", "r", code=1)
    assert len(failed(ended.err)) == 1
    assert ended.err.count("t: 6 more with the same error: ") == 1
    assert "7 unfinished" in ended.err and "try 1 failed" not in ended.err
    assert ended.err.count("m: retrying: ") == 1


def test_verbose_lists_every_retry_and_every_failed_trial(holdfast, tmp_path):
    """Nothing is left out."""
    ended = holdfast("run", failing_eval(tmp_path), "--run-dir", "r", "-v", code=1)
    assert len(failed(ended.err)) == 7
    assert re.search(r"m: try 1 failed, retrying in 0\.\ds: ", ended.err) and "m: try 2 failed" in ended.err


def test_quiet_prints_only_the_result(holdfast, tmp_path):
    """Nothing goes to stderr, neither when a run starts nor when it is resumed."""
    loud = holdfast("run", failing_eval(tmp_path), "--run-dir", "loud", code=1)
    quiet = holdfast("run", failing_eval(tmp_path), "--run-dir", "r", "--quiet", code=1)
    assert quiet.err == "" and quiet.out.replace(" --quiet", "") == re.sub(r"\bloud\b", "r", loud.out)
    resumed = holdfast("resume", "r", "-q", code=1)
    assert resumed.err == "" and "scores over 5 of 12 trials" in resumed.out


def test_quiet_prints_errors(holdfast, server, tmp_path):
    """A model that refuses the key is an error, and so is a wrong option."""
    server.behave(refuse_status=401, refuse_times=10**9)
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 3), "--run-dir", "r", "-q", code=1)
    assert "m: disabled for this session." in ended.err and len(ended.err.splitlines()) == 1
    assert "holdfast: " in holdfast("run", "nothing.yaml", "-q", code=2).err


def test_verbose_and_quiet_exclude_each_other(holdfast, tmp_path):
    """Both are refused before anything is started."""
    ended = holdfast("run", failing_eval(tmp_path), "--run-dir", "r", "-q", "-v", code=2)
    assert "-v and -q" in ended.err and not (tmp_path / "r").exists()


def test_the_log_file_has_every_message_and_the_progress_with_times(holdfast, tmp_path):
    """Also what -q leaves out; the next session appends to it."""
    eval_file = failing_eval(tmp_path, log_interval=0.05, models=slow_model())
    holdfast("run", eval_file, "--run-dir", "r", "-q", "--log-file", "log.txt", code=1)
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert all(re.match(rf"{STAMP} \S", line) for line in lines)
    texts = [line.partition(" ")[2] for line in lines]
    assert texts[0].startswith("Run r (id ")
    assert any(text.startswith("t/m/s3#1: unfinished: ") for text in texts)
    assert any(re.match(r"\d+/12 trials .* running", text) for text in texts)
    assert texts[-2].startswith("11/12 trials (91%) · took ")
    assert texts[-1] == "Session ended: incomplete. 11 of 12 trials finished, 1 remaining: 1 refused."
    holdfast("resume", "r", "--log-file", "log.txt", code=1)
    again = (tmp_path / "log.txt").read_text().splitlines()
    assert again[: len(lines)] == lines and "Resuming r (id " in again[len(lines)]


def slow_model():
    args = {"latency": 0.1, "errors": [{"contains": "q3", "rejected": {}}]}
    return {"m": {"provider": "scripted", "model": "echo", "concurrency_limit": 2, "args": args}}


def test_an_error_that_ends_the_command_is_in_the_log(holdfast, tmp_path):
    """Whoever only has the log knows why nothing ran."""
    holdfast("run", "nothing.yaml", "--log-file", "log.txt", code=2)
    assert re.search(rf"^{STAMP} holdfast: .*nothing\.yaml", (tmp_path / "log.txt").read_text())


def test_a_full_disk_costs_the_log_and_nothing_else(holdfast, tmp_path):
    """It is said once, and the run is as it would have been."""
    ended = holdfast("run", failing_eval(tmp_path), "--run-dir", "r", "--log-file", "/dev/full", "-v", code=1)
    assert ended.err.count("warning: the log file /dev/full cannot be written: No space left on device.") == 1
    assert len(failed(ended.err)) == 7


@pytest.mark.parametrize("place", ["no/such/log.txt", "."])
def test_a_log_file_that_cannot_be_opened_is_refused(holdfast, tmp_path, place):
    """Before anything is started."""
    ended = holdfast("run", failing_eval(tmp_path), "--run-dir", "r", "--log-file", place, code=2)
    assert "cannot be opened" in ended.err and not (tmp_path / "r").exists()


def test_no_key_is_in_the_log(holdfast, server, tmp_path):
    """A server that repeats the key in its error does not get it into the log."""
    key = "sk-0123456789abcdefghij"
    server.behave(refuse_status=401, refuse_times=10**9, said=f"wrong key {key}")
    eval_file = http_eval(tmp_path, server.base_url, 1, model={"api_key_env": "SOME_KEY"})
    holdfast("run", eval_file, "--run-dir", "r", "--log-file", "log.txt", "-v", code=1, SOME_KEY=key)
    log = (tmp_path / "log.txt").read_text()
    assert "wrong key [SOME_KEY]" in log and key not in log


def test_hostile_text_is_harmless_in_the_log(holdfast, tmp_path):
    """An error message with escapes is one line of plain text."""
    (tmp_path / "task.py").write_text(HOSTILE)
    arguments = ["--model", "scripted/echo", "--set", "max_retries=0", "--run-dir", "r", "--log-file", "log.txt"]
    ended = holdfast("run", "task.py:t", *arguments, code=1)
    log = (tmp_path / "log.txt").read_text()
    assert "\x1b" not in log and "\x00" not in log and "\x1b" not in ended.err
    assert re.search(
        rf"^{STAMP} t/scripted/echo/s#1: failed: ValueError: red  ?\(task\.py:\d+\)$", log, re.MULTILINE
    ), log


HOSTILE = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    raise ValueError("\\x1b[31mred\\x1b[0m \\x00\\x1b]0;title\\x07")

@task
def t():
    return Task(samples=[Sample("q", target="x", id="s")], solver=solve, scorers=[exact()])
"""


def test_quiet_says_nothing_about_calls_that_were_made_again(holdfast, tmp_path):
    """Neither those of trials that are run again, nor that no reply of another run was of use; the log has both."""
    eval_file = failing_eval(tmp_path)
    holdfast("run", eval_file, "--run-dir", "r", "-q", code=1)
    loud = holdfast("resume", "r", "--redo", "sample=s1", code=1)
    assert "made again" in loud.err
    quiet = holdfast("resume", "r", "--redo", "sample=s1", "-q", "--log-file", "log.txt", code=1)
    assert quiet.err == "" and "made again" in (tmp_path / "log.txt").read_text()
    other = holdfast("run", eval_file, "--run-dir", "o", "--set", "seed=2", "--reuse", "r", "-q", code=1)
    assert other.err == ""
