"""Completion in a shell: commands, options, runs and files."""

from __future__ import annotations

import subprocess

import pytest

from evals import write_dataset, write_eval


def completed(holdfast, *words):
    """What a shell is given for the last of these words."""
    line = " ".join(["holdfast", *words])
    ended = holdfast(_HOLDFAST_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))
    return [tuple(item.split(",", 1)) for item in ended.out.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(holdfast, shell):
    """The line in the documentation prints what the shell has to load."""
    script = holdfast(_HOLDFAST_COMPLETE=f"{shell}_source", code=0).out
    assert "_HOLDFAST_COMPLETE" in script and "holdfast" in script


def test_bash_takes_the_script(holdfast, tmp_path):
    """What is printed is a script that registers the completion."""
    script = holdfast(_HOLDFAST_COMPLETE="bash_source", code=0).out
    found = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p holdfast"], capture_output=True, text=True, check=True
    )
    assert "_holdfast_completion" in found.stdout


def test_commands_and_options_are_completed(holdfast):
    """The commands, though each is loaded only when it is needed, and the options of one."""
    assert {("plain", "resume"), ("plain", "report")} <= set(completed(holdfast, "re"))
    assert ("plain", "--log-file") in completed(holdfast, "run", "--lo")


def test_runs_are_completed_by_name_and_evals_by_file(holdfast, tmp_path):
    """The names below runs/; where none fits, the shell completes directories."""
    write_dataset(tmp_path, 1)
    model, task = (
        {"provider": "scripted", "model": "echo"},
        {"dataset": "rows", "prompt": "{question}", "scorers": ["exact"], "target": "{answer}"},
    )
    data = {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    eval_file = write_eval(tmp_path, data)
    for name in ("first", "second"):
        holdfast("run", eval_file, "--run-dir", f"runs/{name}", code=0)
    (tmp_path / "runs" / "no-run").mkdir()
    for verb in ("resume", "status", "report", "verify"):
        assert completed(holdfast, verb, "") == [("plain", "second"), ("plain", "first")]
    assert completed(holdfast, "show", "fi") == [("plain", "first")]
    holdfast("run", eval_file, "--run-dir", "fifth", code=0)
    assert completed(holdfast, "show", "fi") == [("plain", "first"), ("plain", "fifth")]
    assert completed(holdfast, "list", "") == [("plain", "models"), ("plain", "scorers"), ("plain", "datasets")]
    assert completed(holdfast, "list", "sc") == [("plain", "scorers")]
    assert completed(holdfast, "show", "no") == [("dir", "no")]
    assert completed(holdfast, "run", "ev") == [("file", "ev")]
