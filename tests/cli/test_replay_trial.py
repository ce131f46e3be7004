"""Row 11 of the steps: `verify --replay TRIAL` runs the solver against its record, and does nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from durable import snapshot
from evals import http_eval, python_eval
from program import until

HEAD = """
import asyncio, os, signal, time
from pathlib import Path
from holdfast import Message, ModelError, Sample, Task, includes, task

def note(file, text="ran"):
    with Path(file).open("a") as stream:
        stream.write(f"{text}\\n")

def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)

def new(text):
    return [Message("user", text)]

@task
def t():
    return Task(samples=[Sample("q", target="done", id="q")], solver=solve, scorers=includes())
"""


class World:
    """A run of one trial over HTTP, and its replays."""

    def __init__(self, holdfast, server, directory) -> None:
        self._holdfast, self._server, self._directory = holdfast, server, directory

    def run(self, body: str, code: int | None = 0, **keys) -> None:
        """A code of None is a kill."""
        eval_file = python_eval(self._directory, self._server.base_url, HEAD + body, **keys)
        ended = self._holdfast("run", eval_file, "--run-dir", "r")
        assert ended.code == (-signal.SIGKILL if code is None else code), ended

    def edit(self, body: str) -> None:
        (self._directory / "task.py").write_text(HEAD + body)

    def replay(self, *options, code: int, trial: str = "q", **environment):
        """A replay makes no call, and leaves every byte of the run as it was."""
        before, received = snapshot(self._directory / "r"), self._server.state()["received"]
        found = self._holdfast.json("verify", "r", "--replay", trial, *options, code=code, **environment)
        shown = self._holdfast("verify", "r", "--replay", trial, *options, code=code, **environment)
        assert self._server.state()["received"] == received
        assert _kept(snapshot(self._directory / "r")) == _kept(before)
        return found, shown.out


def _kept(files: dict) -> dict:
    """Without the readers' own index, which is no part of the run."""
    return {name: data for name, data in files.items() if "index" not in name}


@pytest.fixture
def world(holdfast, server, tmp_path):
    return World(holdfast, server, tmp_path)


SOUND = """
async def solve(trial):
    first = await trial.generate("one")
    length = await trial.step("measure", measure, first.text, unit="characters")
    moment = await trial.now()
    return (await trial.generate(f"two {length} at {moment}")).text + " done"

def measure(text, *, unit):
    note("ran")
    return f"{len(text)} {unit}"
"""


def test_steps_11_a_sound_trial_is_ok(world, tmp_path):
    """It comes to the same end without a call, and without running a step."""
    world.run(SOUND)
    found, shown = world.replay(code=0)
    assert (found["ok"], found["verdict"], found["replayed"], found["steps"]) == (True, "same", 4, 4)
    assert "q#1, attempt 1: OK" in shown and found["difference"] is None
    assert (tmp_path / "ran").read_text() == "ran\n"


TIMED = """
async def solve(trial):
    for number in (1, 2):
        await trial.generate(f"It is {time.time()}. Question {number}?")
    if not Path("go-on").exists():
        die()
    return "done"
"""


def test_steps_11_a_solver_with_the_time_in_its_prompt_differs_in_its_first_request(world, holdfast, tmp_path):
    """Before it is resumed and afterwards; the lines that differ are shown."""
    world.run(TIMED, code=None)
    for _ in range(2):
        (tmp_path / "go-on").unlink(missing_ok=True)
        found, shown = world.replay(code=1)
        assert found["verdict"] == "differs" and found["difference"]["kind"] == "request"
        went, came = found["difference"]["diff"][2:]
        assert went.startswith("-[user] It is ") and came.startswith("+[user] It is ") and went[1:] != came[1:]
        assert "another request than the recorded one" in shown and went in shown
        (tmp_path / "go-on").touch()
        holdfast("resume", "r", code=0)


def test_steps_11_the_second_request_is_named_where_the_first_is_the_same(world):
    """The whole conversation is compared, and only what differs is shown."""
    body = 'async def solve(trial):\n    await trial.generate("long " * 200)\n    return await trial.generate("WORD")\n'
    world.run(body.replace("WORD", "x" * 400 + " before"))
    world.edit(body.replace("WORD", "x" * 400 + " after"))
    found, shown = world.replay(code=1)
    assert found["replayed"] == 1
    went, came = [line for line in found["difference"]["diff"][2:] if line[0] in "-+"]
    assert went.endswith("before") and came.endswith("after") and len(went) <= 160
    assert "have changed since" in shown


CHANGES = {
    "a generation parameter": ('return await trial.generate("a", temperature=0.5)', "request", "temperature"),
    "a step's arguments": ('await trial.step("s", str, 2); return await trial.generate("a")', "step", "2"),
    "a step's name": ('await trial.step("other", str, 1); return await trial.generate("a")', "step", "other"),
    "a new step": ('await trial.step("s", str, 1); await trial.random(); return await trial.generate("a")', "step", ""),
    "another answer": ('await trial.step("s", str, 1); await trial.generate("a"); return "mine"', "answer", "mine"),
    "an error": ('await trial.step("s", str, 1); await trial.generate("a"); raise KeyError("x")', "error", "KeyError"),
    "one call more": (
        'await trial.step("s", str, 1); await trial.generate("a"); return await trial.generate("more")',
        "request",
        "more",
    ),
    "a scope": ('await trial.step("s", str, 1); return await trial.scope("b").generate("a")', "request", "scope b"),
}


@pytest.mark.parametrize(("body", "kind", "told"), CHANGES.values(), ids=CHANGES)
def test_steps_11_what_differs_is_named(world, body, kind, told):
    """Whatever it is."""
    world.run('async def solve(trial):\n    await trial.step("s", str, 1); return await trial.generate("a")\n')
    world.edit(f"async def solve(trial):\n    {body}\n")
    found, shown = world.replay(code=1)
    assert found["difference"]["kind"] == kind and told in shown


SWALLOWS = """
async def solve(trial):
    try:
        await trial.generate(f"QUESTION")
    except BaseException:
        await asyncio.sleep(0 if Path("quick").exists() else 3600)
    return "done"
"""


def test_steps_11_a_solver_that_swallows_everything_is_left_behind(world):
    """The difference is known, and the command ends."""
    world.run(SWALLOWS.replace("QUESTION", "before"))
    world.edit(SWALLOWS.replace("QUESTION", "after"))
    found, _ = world.replay(code=1)
    assert found["difference"]["diff"][2:] == ["-[user] before", "+[user] after"]


WAITS = """
async def solve(trial):
    await trial.generate("one")
    await WAIT
    return "done"
"""


@pytest.mark.parametrize("wait", ["asyncio.Event().wait()", "asyncio.to_thread(time.sleep, 3600)"])
def test_steps_11_a_solver_that_waits_for_ever_is_not_waited_for(world, wait):
    """After the time that was given; also where it waits in a thread."""
    world.run(WAITS.replace("WAIT", "asyncio.sleep(0)"))
    world.edit(WAITS.replace("WAIT", wait))
    found, shown = world.replay("--timeout", "0.5", code=1)
    assert found["difference"]["kind"] == "waiting" and "within 0.5 seconds" in shown


BLOCKS = """
async def solve(trial):
    await trial.generate("one")
    BLOCK
    return "done"
"""


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("time.sleep(3600)", "blocked its thread for more than 0.5 seconds"),
        ("while True: pass", "blocked its thread for more than 0.5 seconds"),
        ("os._exit(0)", "ended the process itself, with exit code 0"),
        ("os.kill(os.getpid(), 9)", "ended the process itself, by the signal 9"),
    ],
)
def test_steps_11_a_solver_that_takes_the_process_with_it_gets_a_verdict(world, block, said):
    """It runs in a process of its own, which is ended."""
    world.run(BLOCKS.replace("BLOCK", "pass"))
    world.edit(BLOCKS.replace("BLOCK", block))
    found, shown = world.replay("--timeout", "0.5", code=1)
    assert (found["ok"], found["verdict"]) == (False, "differs") and said in shown


GIVES_UP = """
async def solve(trial):
    await trial.generate("one")
    try:
        async with asyncio.timeout(0.3):
            await trial.step("slow", asyncio.sleep, 3600)
    except TimeoutError:
        pass
    return (await trial.generate("two")).text
"""


def test_steps_11_a_step_that_the_solver_gave_up_is_not_a_difference(world):
    """Nothing is recorded of it; in the replay the solver gives it up again, and continues."""
    world.run(GIVES_UP)
    found, _ = world.replay(code=0)
    assert (found["verdict"], found["replayed"]) == ("same", 2)


INTERRUPTED = """
async def solve(trial):
    await trial.generate("one")
    await trial.generate("two")
    if not Path("go-on").exists():
        die()
    await trial.step("last", note, "ran")
    return "done"
"""


def test_steps_11_an_interrupted_trial_follows_its_record_to_the_end(world, tmp_path):
    """What comes next is named, and neither asked nor run."""
    world.run(INTERRUPTED, code=None)
    (tmp_path / "go-on").touch()
    found, shown = world.replay(code=0)
    assert (found["verdict"], found["replayed"]) == ("record ends", 2)
    assert "the record ends here; the solver asks next for a step (last)" in shown
    assert not (tmp_path / "ran").exists()


BRANCHES = """
async def branch(trial, number):
    await trial.generate(new(f"{number} a"))
    await asyncio.sleep(0.05 * number)
    return (await trial.generate(new(f"{number} b"))).text

async def solve(trial):
    with trial.scope("first"):
        await trial.generate("named")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch(trial, number)) for number in range(3)]
    if not Path("go-on").exists():
        die()
    return "done " + " ".join(task.result() for task in tasks)
"""


def test_steps_11_branches_and_named_scopes_are_followed(world, tmp_path):
    """Complete or killed half-way, in whatever order they come."""
    (tmp_path / "go-on").touch()
    world.run(BRANCHES)
    found, _ = world.replay(code=0)
    assert found["replayed"] == 7
    world.edit(BRANCHES.replace("{number} b", "{number} c"))
    found, shown = world.replay(code=1)
    assert "in the scope ~1" in shown and found["difference"]["diff"][2:] == ["-[user] 0 b", "+[user] 0 c"]


@pytest.mark.parametrize("frames", [4, 6, 8])
def test_steps_11_branches_killed_half_way_come_to_the_end_of_their_records(holdfast, server, tmp_path, frames):
    """No branch that still has something recorded is cut off by another that has not."""
    (tmp_path / "go-on").touch()
    eval_file = python_eval(tmp_path, server.base_url, HEAD + BRANCHES)
    crash = f"frame.acknowledged:{frames}"
    assert holdfast("run", eval_file, "--run-dir", "r", HOLDFAST_CRASH_AT=crash).code == -signal.SIGKILL
    server.wait_until_idle()
    steps = holdfast.records("r", "step")
    found = holdfast.json("verify", "r", "--replay", "q", code=0)
    assert (found["verdict"], found["replayed"], found["steps"]) == ("record ends", len(steps), len(steps))


FIRST = """
async def solve(trial):
    tasks = [asyncio.ensure_future(trial.generate(new(text))) for text in ("quick", "slow")]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return "done"
"""


def test_steps_11_a_branch_that_the_solver_gave_up_is_no_difference(world, server):
    """Its call was cancelled, or was answered and not needed."""
    server.behave(hold=True, **{"pass": 1})
    world.run(FIRST)
    found, _ = world.replay(code=0)
    assert found["verdict"] == "same"


CATCHES = """
async def solve(trial):
    try:
        await trial.generate("refused")
    except ModelError as error:
        return f"done: {type(error).__name__}"
    return "done"
"""


def test_steps_11_a_call_that_failed_fails_again(world, server):
    """A solver that lives with the refusal of a request gets it from the record."""
    server.behave(refuse_times=10, refuse_status=400, refuse_only=["refused"])
    world.run(CATCHES)
    found, _ = world.replay(code=0)
    assert found["verdict"] == "same"


def test_steps_11_a_failed_trial_is_compared_by_its_error(world):
    """The newest attempt, as it failed."""
    body = 'async def solve(trial):\n    await trial.generate("one")\n    raise ValueError("WORD")\n'
    world.run(body, code=1, runner={"max_retries": 1, "fail_fast": False})
    found, _ = world.replay(code=0)
    assert (found["attempt"], found["verdict"]) == (2, "same")
    world.edit(body.replace("WORD", "other"))
    found, _ = world.replay(code=1)
    assert found["difference"]["diff"][2:] == ["-ValueError: WORD", "+ValueError: other"]


def test_steps_11_no_key_and_no_server_is_needed(holdfast, server, tmp_path):
    """The model is never opened: its key may be gone."""
    eval_file = http_eval(tmp_path, server.base_url, 2, model={"api_key_env": "MY_EVAL_KEY"})
    holdfast("run", eval_file, "--run-dir", "r", code=0, MY_EVAL_KEY="secret-of-twelve")
    assert "s1#1, attempt 1: OK" in holdfast("verify", "r", "--replay", "s1", code=0).out


def test_steps_11_what_a_solver_prints_stays_out_of_the_json(world):
    """Standard output has one object."""
    world.run('async def solve(trial):\n    print("hello"); return "done"\n')
    found, _ = world.replay(code=0)
    assert found["steps"] == 0 and found["verdict"] == "same"


def test_steps_11_samplings_are_followed(holdfast, server, tmp_path):
    """Their candidates and verdicts come from the record."""
    sampling = {"strategy": "repair", "loop_budget": 3, "requirements": [{"regex": "^NO"}]}
    eval_file = http_eval(tmp_path, server.base_url, 1, task={"sampling": sampling})
    holdfast("run", eval_file, "--run-dir", "r")
    received = server.state()["received"]
    found = holdfast.json("verify", "r", "--replay", "s1", code=0)
    assert found["verdict"] == "same" and server.state()["received"] == received


def test_steps_11_what_cannot_be_replayed_is_said(holdfast, server, tmp_path):
    """A trial without a transcript, one that does not exist, options that do not fit: exit 2, in a sentence."""
    eval_file = http_eval(tmp_path, server.base_url, 2)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert "no trial 'nope'" in holdfast("verify", "r", "--replay", "nope", code=2).err
    assert "use one of them" in holdfast("verify", "r", "--replay", "s1", "--deep", code=2).err
    assert "--replay TRIAL" in holdfast("verify", "r", "--timeout", "3", code=2).err
    holdfast("clean", "r", "--steps", code=0)
    # The final conversation is kept, and one call is all of it.
    assert holdfast.json("verify", "r", "--replay", "s1", code=0)["verdict"] == "same"


def test_steps_11_code_that_cannot_be_loaded_is_an_error(world, holdfast, tmp_path):
    """It is not taken for a difference."""
    world.run(SOUND)
    world.edit("1 / 0")
    assert "ZeroDivisionError" in holdfast("verify", "r", "--replay", "q", code=2).err
    (tmp_path / "task.py").unlink()
    found = holdfast.json("verify", "r", "--replay", "q", code=0)
    assert any("no longer exists" in note for note in found["notes"])


def test_steps_11_a_trial_that_never_started_is_said(holdfast, tmp_path, server):
    """It has no record to follow."""
    eval_file = http_eval(tmp_path, server.base_url, 3, concurrency_limit=1)
    holdfast("run", eval_file, "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:3")
    assert "have not started" in holdfast("verify", "r", "--replay", "s3", code=2).err


def test_steps_11_a_task_that_lives_in_python_is_refused(holdfast, tmp_path):
    """With where to go."""
    script = tmp_path / "script.py"
    script.write_text(
        "from holdfast import *\n"
        "async def solve(trial): return 'x'\n"
        "evaluate(Task(name='t', samples=[Sample('q', target='x', id='q')], solver=solve, scorers=exact()),"
        " models=['scripted/echo'], run='r', show_progress=False)\n"
    )
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True)
    found = json.loads(holdfast("verify", "r", "--replay", "q", "--json", code=2).out)
    assert "Python process" in found["error"]


LIMITED = """
async def solve(trial):
    try:
        for number in range(5):
            await trial.generate(new(f"one two three {number}"))
    except Exception:
        pass
    return "done"
"""


def test_steps_11_a_trial_that_reached_its_limit_reaches_it_again(world):
    """The tokens on record count, also where the solver catches the error."""
    world.run(LIMITED, tasks={"t": {"use": "task.py:t", "limits": {"tokens": 12}}})
    found, _ = world.replay(code=0)
    assert found["verdict"] == "same" and 0 < found["replayed"] < 5


LAZY = """
def parse(text):
    import json
    return json.loads(text)

async def solve(trial):
    try:
        await trial.step("parse", parse, "{oops")
    except ValueError as error:
        return f"done {type(error).__name__}"
"""


def test_steps_11_an_exception_of_a_module_that_nobody_imports_at_the_top_is_the_same(world):
    """Live it may be imported by a provider: a replay has imported the same."""
    world.run(LAZY)
    found, _ = world.replay(code=0)
    assert found["verdict"] == "same"


def test_steps_11_a_run_that_is_in_use_can_be_looked_at(world, holdfast, server, tmp_path):
    """While another process executes it: the trial is followed as far as it is recorded."""
    server.behave(hold=True, **{"pass": 1})
    eval_file = python_eval(tmp_path, server.base_url, HEAD + INTERRUPTED)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: server.state()["received"] == 2, "the second request is held")
    found = holdfast.json("verify", "r", "--replay", "q", code=0)
    assert (found["verdict"], found["replayed"]) == ("record ends", 1)
    assert server.state()["received"] == 2
    started.kill()
