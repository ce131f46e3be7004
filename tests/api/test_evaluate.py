"""evaluate() and evaluate_async(): from a script, a notebook or a coroutine; twice, interrupted, and refused."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from durable import commit, snapshot
from engine.rig import Solver
from holdfast import (
    Answer,
    ConfigurationError,
    NotARun,
    ResumeAborted,
    Run,
    RunHeld,
    Sample,
    StorageFailure,
    Task,
    UsageError,
    evaluate,
    evaluate_async,
    exact,
    generate,
    task,
)
from holdfast.analysis.status import run_status
from holdfast.run import SessionContents, create_run
from holdfast.run.core.records import StepRecord
from holdfast.run.fold.reader import RunReader

ECHO = ["scripted/echo"]


def status_of(path: Path):
    reader = RunReader(path)
    try:
        return run_status(reader)
    finally:
        reader.close()


def questions(count: int = 4) -> list[Sample]:
    return [Sample(f"q{number}", target=f"q{number}" if number % 2 else "other") for number in range(count)]


@task
def capitals(count: int = 4) -> Task:
    return Task(samples=questions(count), solver=generate(), scorers=exact())


def test_a_task_is_carried_out_and_reported(tmp_path):
    """The run that comes back has ended, is complete, and says what was measured."""
    run = evaluate(capitals(), models=ECHO, run=tmp_path / "r")
    assert (run.ended.how, run.ended.exit_code, run.ended.counts.remaining) == ("completed", 0, 0)
    assert (run.planned, run.finished, run.is_complete) == (4, 4, True)
    assert run.report().tasks["capitals"]["scripted/echo"].metrics["exact"]["accuracy"].value == 0.5
    assert run.path == tmp_path / "r"


@pytest.mark.parametrize(
    "given", [capitals, capitals(), [capitals], (capitals(2),)], ids=["made", "task", "list", "tuple"]
)
def test_tasks_may_be_given_in_several_ways(tmp_path, given):
    """A task, what makes one, or several."""
    run = evaluate(given, "scripted/echo", run=str(tmp_path / "r"))
    assert run.is_complete


def test_models_may_be_entries_of_an_eval_file(tmp_path):
    """A map gives a model its own name and everything else that an eval file can say of it."""
    models = {"parrot": {"provider": "scripted", "model": "x", "args": {"default": "other"}}}
    run = evaluate(capitals(), models, run=tmp_path / "r", seed=3)
    assert run.report().tasks["capitals"]["parrot"].metrics["exact"]["accuracy"].value == 0.5
    assert run.sessions[0].config["seed"] == 3


def test_the_second_time_nothing_is_asked(tmp_path):
    """The same call finds the run complete: nothing is begun again, and nothing is written."""
    evaluate(capitals(), ECHO, run=tmp_path / "r")
    again = evaluate(capitals(), ECHO, run=tmp_path / "r")
    assert again.is_complete and again.ended.counts.finished == 4
    assert [session.calls for session in again.lineage] == [4]


def test_a_run_may_grow(tmp_path):
    """More samples are additive: only they are asked."""
    evaluate(capitals(2), ECHO, run=tmp_path / "r")
    run = evaluate(
        Task(name="capitals", samples=questions(2), solver=generate(), scorers=exact(), epochs=2),
        ECHO,
        run=tmp_path / "s",
    )
    assert run.ended.counts.planned == 4
    more = evaluate(
        Task(name="capitals", samples=questions(3), solver=generate(), scorers=exact(), epochs=2),
        ECHO,
        run=tmp_path / "s",
    )
    assert [session.calls for session in more.lineage] == [4, 2]


def test_what_may_not_change_is_refused_and_nothing_is_written(tmp_path):
    """Another seed or another model parameter would be another run."""
    evaluate(capitals(), ECHO, run=tmp_path / "r")
    before = snapshot(tmp_path / "r")
    with pytest.raises(ResumeAborted, match="seed"):
        evaluate(capitals(), ECHO, run=tmp_path / "r", seed=5)
    with pytest.raises(RuntimeError, match="cannot resume"):
        evaluate(
            capitals(),
            {"scripted/echo": {"provider": "scripted", "model": "echo", "generation": {"temperature": 1.0}}},
            run=tmp_path / "r",
        )
    assert snapshot(tmp_path / "r") == before


def test_without_a_directory_the_run_is_made_below_runs(tmp_path, monkeypatch):
    """Each call makes a run of its own."""
    monkeypatch.chdir(tmp_path)
    first, second = evaluate(capitals(1), ECHO), evaluate(capitals(1), ECHO, name="mine")
    assert first.path.parent == second.path.parent == tmp_path / "runs"
    assert "capitals" in first.path.name and "mine" in second.path.name
    assert Run.open(first.path.name).is_complete


def test_a_running_loop_is_no_obstacle(tmp_path):
    """As in a notebook: evaluate() is called from a coroutine, and the loop's own thread waits."""

    async def cell():
        return evaluate(capitals(), ECHO, run=tmp_path / "r")

    assert asyncio.run(cell()).is_complete


def test_an_error_inside_a_running_loop_arrives(tmp_path):
    """The thread in between hides nothing."""

    async def cell():
        return evaluate([], ECHO, run=tmp_path / "r")

    with pytest.raises(UsageError, match="at least one task"):
        asyncio.run(cell())


def test_coroutines_carry_out_several_runs_at_once(tmp_path):
    """evaluate_async() shares its loop."""

    async def both():
        return await asyncio.gather(*(evaluate_async(capitals(), ECHO, run=tmp_path / name) for name in "ab"))

    assert [run.is_complete for run in asyncio.run(both())] == [True, True]


def test_one_run_is_executed_by_one_session_at_a_time(tmp_path):
    """The second is told who holds it, and harms nothing."""
    errors = []

    async def solve(trial):
        try:
            await evaluate_async(held, ECHO, run=tmp_path / "r")
        except RunHeld as error:
            errors.append(error)
        return "q"

    held = Task(name="capitals", samples=questions(1), solver=Solver(solve), scorers=exact())
    assert evaluate(held, ECHO, run=tmp_path / "r").ended.counts.finished == 1
    assert [error.exit_code for error in errors] == [4]
    assert str(os.getpid()) in errors[0].message


BAD = {
    "nothing": ([], ECHO, {}, "at least one task"),
    "no task": (5, ECHO, {}, "int is not a task"),
    "not tasks": ([object()], ECHO, {}, "object is not a task"),
    "one name twice": ([capitals(), capitals(2)], ECHO, {}, "Two tasks are called 'capitals'"),
    "no model": (capitals(), [], {}, "models is missing"),
    "unknown provider": (capitals(), ["nonesuch/x"], {}, "nonesuch"),
    "no provider": (capitals(), ["gpt-4o"], {}, "gpt-4o"),
    "unknown setting": (capitals(), ECHO, {"concurency_limit": 4}, "concurrency_limit"),
    "setting out of range": (capitals(), ECHO, {"concurrency_limit": 0}, "concurrency_limit"),
    "no sample": (Task(name="t", samples=[], solver=generate(), scorers=exact()), ECHO, {}, "at least one sample"),
    "no target": (Task(name="t", samples=[Sample("x")], solver=generate(), scorers=exact()), ECHO, {}, "target"),
}


@pytest.mark.parametrize(("tasks", "models", "settings", "told"), BAD.values(), ids=BAD)
def test_what_cannot_be_carried_out_is_told_before_anything_is_written(
    tmp_path, monkeypatch, tasks, models, settings, told
):
    """One clear sentence, and no directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, ConfigurationError), match=told):
        evaluate(tasks, models, **settings)
    assert list(tmp_path.iterdir()) == []


def test_failed_trials_are_told_and_not_raised(tmp_path):
    """The other trials are finished, and the run says what remains."""

    async def solve(trial):
        if trial.sample.input == "q1":
            raise ValueError("broken")
        return trial.sample.input

    run = evaluate(
        Task(name="t", samples=questions(), solver=solve, scorers=exact()), ECHO, run=tmp_path / "r", max_retries=0
    )
    assert (run.ended.exit_code, run.ended.counts.failed, run.ended.counts.remaining) == (1, 1, 1)
    assert not run.is_complete
    assert [trial.error.message for trial in run.trials() if trial.error] == ["broken"]


def interrupting():
    """A solver that sends Ctrl-C to this process once, in the middle of the run."""
    sent = []

    async def solve(trial):
        if trial.sample.input == "q2" and not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60.0)
        return Answer(trial.sample.input)

    return Solver(solve)


def interrupted_then_resumed(root: Path, call) -> None:
    """The interrupt arrives, the run is let go with its end on record, and the same call goes on."""
    made = Task(name="t", samples=questions(6), solver=interrupting(), scorers=exact())
    with pytest.raises(KeyboardInterrupt):
        call(made, ECHO, run=root, concurrency_limit=1)
    status = status_of(root)
    assert (status.state, status.counts.finished, status.sessions[-1].ended_as) == ("incomplete", 2, "interrupted")
    assert evaluate(made, ECHO, run=root, concurrency_limit=1).is_complete
    assert len(list(Run.open(root).trials())) == 6


def test_ctrl_c_stops_a_script_and_the_same_call_goes_on(tmp_path):
    """KeyboardInterrupt reaches the caller once the session's end is on record."""
    interrupted_then_resumed(tmp_path / "r", evaluate)


def test_ctrl_c_stops_a_notebook_cell(tmp_path):
    """Also where the run has a thread of its own, which would otherwise go on to the end."""

    def in_a_loop(*args, **kwargs):
        async def cell():
            return evaluate(*args, **kwargs)

        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(cell())
        finally:
            loop.close()

    interrupted_then_resumed(tmp_path / "r", in_a_loop)


def test_a_cancelled_coroutine_lets_the_run_go(tmp_path):
    """What is under way is stopped and remains to be done; the run can go on at once, in the same process."""

    async def cancelled():
        reached = asyncio.Event()

        async def solve(trial):
            if trial.sample.input == "q3" and not reached.is_set():
                reached.set()
                await asyncio.sleep(60.0)
            return trial.sample.input

        made = Task(name="t", samples=questions(5), solver=Solver(solve), scorers=exact())
        running = asyncio.ensure_future(evaluate_async(made, ECHO, run=tmp_path / "r", concurrency_limit=1))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        status = status_of(tmp_path / "r")
        assert (status.state, status.counts.finished, status.sessions[-1].ended_as) == ("incomplete", 3, "interrupted")
        return await evaluate_async(made, ECHO, run=tmp_path / "r", concurrency_limit=1)

    assert asyncio.run(cancelled()).is_complete


def test_a_failing_disk_is_raised_and_the_run_goes_on_when_it_is_well(tmp_path, monkeypatch):
    """StorageFailure reaches the caller; what was acknowledged is there, and nothing else is counted."""
    syncs, real = [], os.fdatasync

    def full(descriptor):
        # How many files a new run consists of does not matter here.
        syncs.extend([descriptor] if (tmp_path / "r").exists() else [])
        if len(syncs) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(StorageFailure, match="No space left"):
        evaluate(capitals(50), ECHO, run=tmp_path / "r", concurrency_limit=1)
    monkeypatch.setattr(os, "fdatasync", real)
    finished = status_of(tmp_path / "r").counts.finished
    assert 0 < finished < 50
    run = evaluate(capitals(50), ECHO, run=tmp_path / "r", concurrency_limit=1)
    assert run.is_complete
    assert run.ended.counts.finished == 50


REPL = """
import os
from holdfast import Sample, Task, evaluate, exact

async def solve(trial):
    if trial.sample.input == "b" and not os.path.exists("well"):
        os.kill(os.getpid(), 9)
    return await trial.generate(trial.sample.input)

made = Task(name="t", samples=[Sample("a", target="a"), Sample("b", target="b")], solver=solve, scorers=exact())
print(evaluate(made, ["scripted/echo"], run="r", concurrency_limit=1).finished)
"""


def python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


def test_a_task_of_a_repl_goes_on_from_python_and_the_command_line_says_so(tmp_path):
    """`holdfast resume` cannot make it again: exit 2, evaluate(tasks, models, run=PATH) named, and nothing written."""
    assert python(REPL, tmp_path).returncode == -signal.SIGKILL
    before = snapshot(tmp_path / "r")
    resumed = subprocess.run(
        [sys.executable, "-m", "holdfast", "resume", "r"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 2
    assert "evaluate(tasks, models, run=PATH)" in resumed.stderr
    assert {**snapshot(tmp_path / "r"), "lease": None} == {**before, "lease": None}
    assert python(REPL.replace("os.kill", "print"), tmp_path).returncode != 0
    assert python(f"import os\nopen('well', 'w').close()\n{REPL}", tmp_path).stdout == "2\n"


def test_a_task_of_a_file_goes_on_from_the_command_line(tmp_path):
    """What evaluate() began from a file, `holdfast resume` can finish."""
    (tmp_path / "code.py").write_text(
        "import os\n"
        "from holdfast import Sample, Task, evaluate, exact, task\n\n"
        "async def solve(trial):\n"
        "    if trial.sample.input == 'b' and not os.path.exists('well'):\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return await trial.generate(trial.sample.input)\n\n"
        "@task\n"
        "def letters(more: str = 'b'):\n"
        "    return Task(samples=[Sample(x, target=x) for x in ('a', more)], solver=solve, scorers=exact())\n\n"
        "if __name__ == '__main__':\n"
        "    evaluate(letters(more='b'), ['scripted/echo'], run='r', concurrency_limit=1)\n"
    )
    killed = subprocess.run([sys.executable, "code.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    (tmp_path / "well").touch()
    resumed = subprocess.run(
        [sys.executable, "-m", "holdfast", "resume", "r"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stderr
    assert Run.open(tmp_path / "r").is_complete


def test_opening_what_is_no_run_is_told(tmp_path):
    """A mistyped path is not an empty run."""
    with pytest.raises(NotARun, match="no run"):
        Run.open(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotARun, match="not a run"):
        Run.open(tmp_path / "empty")


def test_going_through_a_large_run_takes_little_memory(tmp_path):
    """Thirty megabytes of steps are read one at a time."""
    session = create_run(tmp_path / "r", SessionContents(name="large", config={}))
    for number in range(3000):
        step = StepRecord(
            trial=f"{number:020x}", attempt=1, step="generate:x#1", model="m", result={"text": os.urandom(5000).hex()}
        )
        if number % 50:
            session.sink.append(step)
        else:
            commit(session, step)
    session.close("completed")
    with Run.open(tmp_path / "r") as run:
        tracemalloc.start()
        try:
            count = sum(1 for _ in run.steps())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert count == 3000
    assert peak < 8_000_000
