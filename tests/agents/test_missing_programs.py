"""The program of an agent is missing when a run is resumed: experiments 5."""

from __future__ import annotations

import shutil
import sys

import pytest

from agents.agent_evals import agent_eval, make_template, processes_below
from program import until

WORKS = """
Path({started!r}).touch()
while not Path({go!r}).exists(): time.sleep(0.02)
print("done")
"""
MISSING = "agent.command"


@pytest.fixture
def program(tmp_path):
    """The program of the agents, which can be removed."""
    place = tmp_path / "bin" / "worker"
    place.parent.mkdir()
    place.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    place.chmod(0o755)
    return place


@pytest.fixture
def eval_(tmp_path, program):
    make_template(tmp_path)
    script = WORKS.format(started=str(tmp_path / "started"), go=str(tmp_path / "go"))
    command = [str(program), str(tmp_path / "agent.py"), "{prompt_file}"]
    return agent_eval(tmp_path, script, agent={"command": command})


def test_experiments_5_a_killed_agent_whose_program_is_gone_is_refused_and_not_failed(
    holdfast, tmp_path, program, eval_
):
    """No trial is new, and one starts its agent again: without the program it would fail for good."""
    started = holdfast.start("run", eval_, "--run-dir", "r")
    until((tmp_path / "started").exists, "the agent works")
    started.kill()
    until(lambda: not processes_below(tmp_path), "the agent has ended")
    shutil.move(program, tmp_path / "away")
    refused = holdfast("resume", "r")
    assert refused.code != 0
    assert MISSING in refused.err
    assert holdfast.json("status", "r")["failed"] == 0
    shutil.move(tmp_path / "away", program)
    (tmp_path / "go").touch()
    holdfast("resume", "r", code=0)


def test_experiments_5_what_starts_no_agent_needs_no_program(holdfast, tmp_path, program, eval_):
    """After the work of the agent, its program is not asked for: neither to capture nor to score again."""
    (tmp_path / "go").touch()
    holdfast("run", eval_, "--run-dir", "r", "--until", "solve")
    program.unlink()
    holdfast("resume", "r", code=0)
    holdfast("resume", "r", "--from", "score", code=0)
    refused = holdfast("resume", "r", "--redo", "status == 'valid'")
    assert refused.code != 0
    assert MISSING in refused.err


def test_experiments_5_a_selection_that_starts_no_agent_needs_no_program(holdfast, tmp_path, program, eval_):
    """One trial is not started; to score the other one again, no program is needed."""
    (tmp_path / "go").touch()
    holdfast("run", eval_, "--run-dir", "r", code=0)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(rows.read_text() + '{"id": "s1", "word": "w1", "target": "done"}\n')
    holdfast("resume", "r", "--config", eval_, "--where", "sample == 's0'", "--redo", "sample == 's0'", code=0)
    program.unlink()
    holdfast("resume", "r", "--from", "score", "--where", "sample == 's0'", code=0)
    assert MISSING in holdfast("resume", "r").err
