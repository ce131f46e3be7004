"""Replies of other runs: their tokens are in the progress line, the report says who paid, and a fork expects them."""

from __future__ import annotations

import re

from evals import http_eval, python_eval

PRICED = {"price": {"input": 1000.0, "output": 1000.0}}
TWO_STEPS = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    first = await trial.generate(trial.sample.input)
    second = await trial.generate("again")
    return second.text  # {version}

@task
def t():
    return Task(samples=[Sample(f"q{{n}}", target="x") for n in range(4)], solver=solve, scorers=exact())
"""


def tokens_shown(text):
    """Those of the last line of progress."""
    found = re.findall(r"([\d,]+) tokens", text)
    return int(found[-1].replace(",", "")) if found else 0


def tokens_on_record(holdfast, run):
    usage = holdfast.json("status", run, code=0)["usage"]
    return usage["input_tokens"] + usage["output_tokens"]


def progress_lines(text):
    return "\n".join(line for line in text.splitlines() if " trials (" in line)


def test_the_progress_line_has_the_tokens_of_the_run(holdfast, server, tmp_path):
    """Whether all of its replies are reused, some or none; the progress file too."""
    first = http_eval(tmp_path, server.base_url, 4, model=PRICED)
    told = holdfast("run", first, "--run-dir", "r1", code=0).err
    assert tokens_shown(progress_lines(told)) == tokens_on_record(holdfast, "r1") > 0
    told = holdfast("run", first, "--reuse", "r1", "--run-dir", "all", code=0).err
    assert tokens_shown(progress_lines(told)) == tokens_on_record(holdfast, "all") == tokens_on_record(holdfast, "r1")
    assert "cost" not in progress_lines(told)
    more = http_eval(tmp_path, server.base_url, 6, model=PRICED)
    told = holdfast("run", more, "--reuse", "r1", "--run-dir", "some", "--set", "progress_file=p.json", code=0).err
    assert tokens_shown(progress_lines(told)) == tokens_on_record(holdfast, "some") > tokens_on_record(holdfast, "r1")
    assert server.state()["received"] == 6


def test_the_report_says_that_replies_were_reused_and_paid_elsewhere(holdfast, server, tmp_path):
    """In one line, with what they took there; a run without any has no such line."""
    first = http_eval(tmp_path, server.base_url, 4, model=PRICED)
    holdfast("run", first, "--run-dir", "r1", code=0)
    before = holdfast.json("report", "r1", code=0)
    assert before["saved"]["calls"] == 0 and "of other runs" not in holdfast("report", "r1", code=0).out
    holdfast("run", first, "--reuse", "r1", "--run-dir", "r2", code=0)
    holdfast("fork", "r1", "--run-dir", "f", code=0)
    for run in ("r2", "f"):
        found = holdfast.json("report", run, code=0)
        assert (found["cost"], found["saved"]["calls"]) == (0.0, 4)
        assert found["saved"]["cost"] == before["cost"]
        assert found["saved"] == holdfast.json("status", run, code=0)["calls"]["saved"]
        tokens = found["saved"]["tokens"]
        line = f"4 replies of other runs were used instead of calls ({tokens} tokens, "
        (told,) = [text for text in holdfast("report", run, code=0).out.splitlines() if "of other runs" in text]
        assert told.startswith(line) and told.endswith("; they were paid for there")


def test_a_fork_that_kept_trials_does_not_say_that_it_used_none(holdfast, server, tmp_path):
    """The sentence is about the run, not about the trials that happen to be left; where it is true it is printed."""
    holdfast("run", http_eval(tmp_path, server.base_url, 4), "--run-dir", "r1", code=0)
    more = http_eval(tmp_path, server.base_url, 6)
    holdfast("fork", "r1", "--config", more, "--run-dir", "f", code=0)
    assert "No reply of another run" not in holdfast("resume", "f", "--where", "sample=s5", code=0).err
    other = http_eval(tmp_path, server.base_url, 4, task={"prompt": "Other: {question}"})
    told = holdfast("run", other, "--reuse", "r1", "--run-dir", "r2", code=0).err
    assert "No reply of another run was used." in told


def test_the_estimate_of_a_fork_names_the_replies_that_it_will_use(holdfast, server, tmp_path):
    """After a fix in the solver every trial remains, and nothing is paid: the estimate says that it may be less."""
    file = python_eval(tmp_path, server.base_url, TWO_STEPS.format(version="first"))
    holdfast("run", file, "--run-dir", "r", "--set", "models.m.price={input: 1000, output: 1000}", code=0)
    python_eval(tmp_path, server.base_url, TWO_STEPS.replace("second.text", "second.text.strip()").format(version="2"))
    asked = server.state()["received"]
    told = holdfast("fork", "r", "--run-dir", "f", code=0).out
    assert "4 trials planned, 0 kept" in told and "or less: 8 recorded replies are used again where" in told
    assert holdfast.json("fork", "r", "--run-dir", "g", code=0)["replies"] == 8
    holdfast("resume", "f", code=0)
    assert server.state()["received"] == asked
    assert holdfast.json("report", "f", code=0)["saved"]["calls"] == 8
    # A fork of the fork has the same replies, which are another run's.
    assert holdfast.json("fork", "f", "--run-dir", "h", "--set", "seed=7", code=0)["replies"] == 8
