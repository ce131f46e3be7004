"""Rows 5 to 8 of the steps with real processes and real kills; a file counts how often a function ran."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evals import python_eval
from program import until

HEAD = """
import os, signal, sys, time
from pathlib import Path
from holdfast import Sample, StepError, Task, includes, task

def note(file, text="ran"):
    with Path(file).open("a") as stream:
        stream.write(f"{text}\\n")

def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)

@task
def t():
    return Task(samples=[Sample("q", target="done", id="q")], solver=solve, scorers=includes())
"""

RAISES = (
    HEAD
    + """
class Refused(Exception):
    def __init__(self, code, *, detail):
        super().__init__(f"code {code}", (code, b"raw"))
        self.code, self.detail = code, detail

def work(kind):
    note("ran")
    if kind == "lazy":
        import wsgiref.validate
        raise wsgiref.validate.WSGIWarning("late")
    if kind == "full":
        Path("/dev/full").write_text("x")
    if kind == "memory":
        bytearray(1 << 62)
    raise Refused(7, detail=kind)

async def solve(trial):
    try:
        await trial.step("work", work, kind=KIND)
    except Exception as error:
        told = type(error).__name__, error.args, getattr(error, "detail", ""), str(error)
        note("caught", repr(told))
    await trial.generate(f"after {Path('caught').read_text().splitlines()[-1]}")
    if not Path("go-on").exists():
        die()
    return "done"
"""
)


def killed_and_resumed(holdfast, server, tmp_path: Path, source: str, code: int = 0):
    eval_file = python_eval(tmp_path, server.base_url, source)
    assert holdfast("run", eval_file, "--run-dir", "r").code == -signal.SIGKILL
    (tmp_path / "go-on").touch()
    return holdfast("resume", "r", code=code)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize(("kind", "type_"), [("own", "Refused"), ("lazy", "StepError")])
def test_steps_5_a_function_that_raised_is_not_run_again(holdfast, server, tmp_path, kind, type_):
    """The solver catches the same in both processes, and asks the model for nothing that it has."""
    killed_and_resumed(holdfast, server, tmp_path, RAISES.replace("KIND", repr(kind)))
    first, second = lines(tmp_path / "caught")
    assert lines(tmp_path / "ran") == ["ran"]
    assert first == second and first.startswith(f"('{type_}', ")
    assert server.state()["received"] == 1
    (step,) = (step for step in holdfast.records("r", "step") if not step.get("model"))
    assert step["raised"]["type"].endswith(type_ if kind == "own" else "WSGIWarning") and "error" not in step
    assert "raised" in holdfast("show", "r", "q", code=0).out
    holdfast("verify", "r", "--deep", code=0)
    holdfast("verify", "r", "--replay", "q", code=0)


@pytest.mark.parametrize("kind", ["full", "memory"])
def test_steps_5_an_outage_inside_a_step_is_not_recorded(holdfast, server, tmp_path, kind):
    """The next session runs the function again."""
    killed_and_resumed(holdfast, server, tmp_path, RAISES.replace("KIND", repr(kind)))
    assert lines(tmp_path / "ran") == ["ran", "ran"]
    assert [step for step in holdfast.records("r", "step") if "raised" in step] == []
    (first, second), told = lines(tmp_path / "caught"), {"full": "No space left on device", "memory": "MemoryError"}
    assert first == second and told[kind] in first


DEPLOYS = (
    HEAD
    + """
def deploy(target):
    note("ran", target)
    if len(Path("ran").read_text().splitlines()) == 1:
        WAY
    return target

async def solve(trial):
    await trial.generate("before")
    try:
        await trial.step("deploy", deploy, "prod", on_interrupted="fail")
    except ValueError:
        pass
    return "done"
"""
)


def test_steps_7_a_function_killed_half_way_is_not_run_again(holdfast, server, tmp_path):
    """Neither by the resume, nor by its retries; the trial fails, naming the step, until a person says otherwise."""
    ended = killed_and_resumed(holdfast, server, tmp_path, DEPLOYS.replace("WAY", "die()"), code=1)
    assert lines(tmp_path / "ran") == ["prod"]
    assert "The step 'deploy' was interrupted half-way" in ended.out + ended.err
    assert "started" in holdfast("show", "r", "q", code=0).out
    assert server.state()["received"] == 1
    holdfast("resume", "r", "--redo", "status=failed", code=0)
    assert lines(tmp_path / "ran") == ["prod", "prod"]
    holdfast("verify", "r", "--deep", code=0)


def test_steps_7_a_fork_of_an_interrupted_run_does_not_run_it_again_either(holdfast, server, tmp_path):
    """The copy keeps that the function has started."""
    eval_file = python_eval(tmp_path, server.base_url, DEPLOYS.replace("WAY", "die()"))
    assert holdfast("run", eval_file, "--run-dir", "r").code == -signal.SIGKILL
    holdfast("fork", "r", "--run-dir", "f")
    ended = holdfast("resume", "f", code=1)
    assert lines(tmp_path / "ran") == ["prod"] and "'deploy'" in ended.out + ended.err


@pytest.mark.parametrize("crash", ["frame.written:3", "frame.acknowledged:3", "frame.written:4"])
def test_steps_7_a_kill_around_the_durable_start_never_leads_to_a_second_run(holdfast, server, tmp_path, crash):
    """Before the record the function has not run; from there on it runs at most once."""
    source = DEPLOYS.replace("WAY", "pass")
    killed = holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", HOLDFAST_CRASH_AT=crash)
    assert killed.code == -signal.SIGKILL
    holdfast("resume", "r")
    (state,) = (trial["state"] for trial in holdfast.json("show", "r")["trials"])
    ran = len(lines(tmp_path / "ran")) if (tmp_path / "ran").exists() else 0
    assert (state, ran) in {("valid", 1), ("failed", 0), ("failed", 1)}


def test_steps_7_ctrl_c_in_the_middle_counts_as_an_interrupt(holdfast, server, tmp_path):
    """A signal may have ended what the function was doing: it is not run again either."""
    eval_file = python_eval(tmp_path, server.base_url, DEPLOYS.replace("WAY", "time.sleep(60)"))
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until((tmp_path / "ran").exists, "the function runs")
    started.send(signal.SIGINT)
    assert started.wait().code == 130
    holdfast("resume", "r", code=1)
    assert lines(tmp_path / "ran") == ["prod"]


DRAWS = (
    HEAD
    + """
async def solve(trial):
    drawn = [await trial.now(), await trial.random(), await trial.uuid(), await trial.scope("a").now()]
    note("drawn", repr(drawn))
    await trial.generate(f"It is {drawn[0]}, and {drawn[1]} for {drawn[2]}.")
    if not Path("go-on").exists():
        die()
    return "done"
"""
)


def test_steps_8_time_and_chance_are_the_same_in_another_process(holdfast, server, tmp_path):
    """A prompt that is made of them is not asked twice."""
    killed_and_resumed(holdfast, server, tmp_path, DRAWS)
    first, second = lines(tmp_path / "drawn")
    assert first == second and "datetime.timezone.utc" in first
    assert server.state()["received"] == 1
    holdfast("verify", "r", "--replay", "q", code=0)


SCRIPT = (
    RAISES.replace("KIND", "'own'").replace("await trial.generate", "await trial.step('say', str.upper, 'x') #")
    + """
if __name__ == "__main__":
    from holdfast import evaluate
    evaluate(t(), models=["scripted/echo"], run="r", show_progress=False)
"""
)


def test_steps_5_a_class_of_a_script_is_found_when_its_file_is_resumed(holdfast, tmp_path):
    """The file is the main module of one process, and imported by the other."""
    (tmp_path / "script.py").write_text(SCRIPT)
    killed = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    (tmp_path / "go-on").touch()
    holdfast("resume", "r", code=0)
    first, second = lines(tmp_path / "caught")
    assert first == second and "Refused" in first and lines(tmp_path / "ran") == ["ran"]
