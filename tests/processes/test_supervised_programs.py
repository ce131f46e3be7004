"""Programs under supervision: experiments 3, 6 and 24, and hostile programs, which are contained."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.processes.left_processes import AGENT_MARKER, end_left_processes
from holdfast.processes.program import LOST, Program, ProgramLimits, run_program
from holdfast.processes.supervisor_main import Redaction
from holdfast.storage.leases.holder import start_ticks
from program import until

LEAVE_PID = 'echo $$ > "$0.pid"; mv "$0.pid" "$0"; '


@pytest.fixture
def make(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "state").mkdir()

    def made(command, **options):
        command = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        env = {"PATH": os.environ["PATH"]}
        return Program(command=command, cwd=tmp_path / "work", env=env, state=tmp_path / "state", **options)

    return made


def ended(program):
    return asyncio.run(run_program(program))


def processes_in(work):
    """The processes that have the directory as theirs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            inside = (path / "cwd").readlink()
        except OSError:
            continue
        if inside == work and start_ticks(int(path.name)):
            found.append(int(path.name))
    return found


def test_an_exit_code_and_both_outputs_are_recorded(make):
    """Experiments 3, 24."""
    program = make("echo out; echo err >&2; exit 3")
    end = ended(program)
    assert (end.exit_code, end.signal, end.cause) == (3, 0, "")
    assert program.stdout.read_bytes() == b"out\n"
    assert program.stderr.read_bytes() == b"err\n"


def test_the_environment_holds_nothing_that_was_not_given(make, monkeypatch):
    """Experiments 3."""
    monkeypatch.setenv("NOT_FOR_THE_AGENT", "x")
    program = make(["/usr/bin/env"])
    ended(program)
    names = {line.partition("=")[0] for line in program.stdout.read_text().splitlines()}
    assert names == {"PATH", AGENT_MARKER}


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV")])
def test_a_signal_is_recorded_with_its_name(make, number, name):
    """Experiments 24."""
    end = ended(make(f"kill -{number} $$"))
    assert (end.exit_code, end.signal) == (None, number)
    assert f"{name}, cause unknown" in end.text


def test_a_command_that_does_not_exist_is_named(make):
    program = make(["no-such-agent-anywhere"])
    assert ended(program).exit_code == 127
    assert b"no-such-agent-anywhere" in program.stderr.read_bytes()


def test_nothing_that_a_program_leaves_behind_survives_it(make, tmp_path):
    """Experiments 6: daemons with sessions of their own, double forks."""
    end = ended(make("(setsid sleep 300 &) ; (setsid sh -c 'setsid sleep 301 & sleep 302' &) ; sleep 0.3; exit 0"))
    assert end.exit_code == 0
    assert processes_in(tmp_path / "work") == []


def test_standard_input_is_empty(make):
    program = make("cat; echo end")
    ended(program)
    assert program.stdout.read_bytes() == b"end\n"


def test_endless_output_is_cut_and_the_program_does_not_block(make):
    """Hostile: endless output."""
    program = make("head -c 30000000 /dev/zero | tr '\\0' y; echo; echo the end", limits=ProgramLimits(output=10_000))
    end = ended(program)
    kept = program.stdout.read_bytes()
    assert (end.cut, end.bytes["stdout"]) == (["stdout"], 30_000_009)
    assert len(kept) < 10_200
    assert kept.startswith(b"yyy")
    assert kept.endswith(b"the end\n")


def test_a_secret_is_replaced_also_where_reads_cut_it(make):
    secret = "sk-0123456789abcdef"
    script = f"import sys,time\nfor c in 'a {secret} b '*3: sys.stdout.write(c); sys.stdout.flush(); time.sleep(0.002)"
    program = make([sys.executable, "-c", script], needles=[(secret, "[KEY]")])
    ended(program)
    assert program.stdout.read_text() == "a [KEY] b " * 3


def test_a_fork_bomb_is_ended(make, tmp_path):
    """Hostile: fork bomb."""
    bomb = "import os,time\nfor n in range(9):\n  os.fork()\ntime.sleep(300)"
    end = ended(make([sys.executable, "-c", bomb], limits=ProgramLimits(processes=40)))
    assert end.cause == "limit processes"
    assert end.left == 0
    assert processes_in(tmp_path / "work") == []


def test_memory_beyond_the_limit_ends_it(make):
    """Experiments 24."""
    program = make(
        [sys.executable, "-c", "x = bytearray(400 << 20); x[::4096] = x[::4096]; import time; time.sleep(60)"]
    )
    end = ended(
        Program(
            **{
                **{name: getattr(program, name) for name in program.__struct_fields__},
                "limits": ProgramLimits(memory=100 << 20),
            }
        )
    )
    assert end.cause == "limit memory"
    assert "memory" in end.text


def test_processor_time_beyond_the_limit_ends_it(make):
    end = ended(make([sys.executable, "-c", "while True: pass"], limits=ProgramLimits(cpu=1)))
    assert end.cause == "limit cpu"


def test_files_beyond_the_limit_cannot_be_written(make, tmp_path):
    """Hostile: huge files."""
    ended(make("head -c 5000000 /dev/zero > big", limits=ProgramLimits(file_size=100_000)))
    assert (tmp_path / "work" / "big").stat().st_size <= 100_000


def test_a_program_that_ignores_sigterm_is_killed_when_it_is_cancelled(make, tmp_path):
    """Hostile: ignoring SIGTERM."""
    program = make("trap '' TERM INT HUP; touch ready; while :; do sleep 0.05; done", grace=0.2)

    async def cancelled():
        task = asyncio.ensure_future(run_program(program))
        await asyncio.to_thread(until, (tmp_path / "work" / "ready").exists, "it is ready")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert processes_in(tmp_path / "work") == []


def test_a_program_may_end_in_order_when_it_is_cancelled(make, tmp_path):
    program = make("trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.02; done", grace=20)

    async def cancelled():
        task = asyncio.ensure_future(run_program(program))
        await asyncio.to_thread(until, (tmp_path / "work" / "ready").exists, "it is ready")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert program.stdout.read_bytes() == b"bye\n"
    assert json.loads((program.state / "ended.json").read_text())["cause"] == "ended"


@pytest.mark.parametrize(
    "hostile",
    [
        "kill -9 $PPID; sleep 300",
        "(setsid sh -c 'sleep 301' &) ; sleep 0.4; kill -9 $PPID; sleep 300",
        "env -i sleep 302 & sleep 0.6; kill -9 $PPID; sleep 303",
    ],
    ids=["at once", "with a daemon", "without the marker"],
)
def test_a_program_that_kills_its_supervisor_is_ended(make, tmp_path, hostile):
    """Hostile: killing its parent."""
    assert ended(make(hostile)).cause == LOST
    assert processes_in(tmp_path / "work") == []


def test_a_program_that_kills_its_own_group_is_only_ended(make, tmp_path):
    """Hostile: killing its process group."""
    end = ended(make("kill -9 0; sleep 300"))
    assert end.signal == signal.SIGKILL
    assert processes_in(tmp_path / "work") == []


def test_a_program_that_closes_its_outputs_still_ends(make):
    """Hostile: closed descriptors."""
    assert ended(make("exec >&- 2>&-; sleep 0.2; exit 5")).exit_code == 5


RUNNER = """
import asyncio, sys
from pathlib import Path
from holdfast.processes.program import Program, run_program
work, state = Path(sys.argv[1]), Path(sys.argv[2])
command = ["/bin/sh", "-c", "(setsid sleep 300 &) ; sh -c 'trap \\"\\" TERM; touch ready; sleep 301'"]
asyncio.run(run_program(Program(command=command, cwd=work, env={"PATH": sys.argv[3]}, state=state)))
"""


def start_runner(tmp_path):
    for name in ("work", "state"):
        (tmp_path / name).mkdir()
    arguments = [sys.executable, "-c", RUNNER, str(tmp_path / "work"), str(tmp_path / "state"), os.environ["PATH"]]
    runner = subprocess.Popen(arguments, start_new_session=True)
    until(lambda: (tmp_path / "work" / "ready").exists() and len(processes_in(tmp_path / "work")) >= 3, "it works")
    return runner


def test_a_program_dies_with_a_runner_that_is_killed(tmp_path):
    """Experiments 6."""
    runner = start_runner(tmp_path)
    runner.kill()
    runner.wait()
    until(lambda: not processes_in(tmp_path / "work"), "the program and its daemon have ended")
    end = until(lambda: list((tmp_path / "state").glob("ended.json")), "its end is noted")[0]
    assert json.loads(end.read_text())["cause"] == "runner"


def test_what_a_killed_runner_and_supervisor_leave_is_found_and_ended(tmp_path):
    """Experiments 6: both are killed, and the next session ends what is left; other processes are spared."""
    runner = start_runner(tmp_path)
    until(lambda: len(json.loads((tmp_path / "state" / "processes.json").read_text())) >= 3, "all are noted")
    bystander = subprocess.Popen(["sleep", "300"], cwd=tmp_path / "work")
    supervisors = [int(name) for name in Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()]
    # Both stand still first: neither can act on the end of the other.
    for pid in (*supervisors, runner.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in (*supervisors, runner.pid):
        os.kill(pid, signal.SIGKILL)
    runner.wait()
    until(lambda: all(not start_ticks(pid) for pid in supervisors), "the supervisor is gone")
    try:
        assert end_left_processes(tmp_path / "state") >= 1
        assert processes_in(tmp_path / "work") == [bystander.pid]
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("size", range(1, 8))
def test_a_secret_that_begins_as_another_one_leaves_no_end(size):
    """Whatever is read at a time."""
    text = b"a key-one-two b key-one c key-one-twokey-onekey-one-tw"
    redaction = Redaction([["key-one-two", "[LONG]"], ["key-one", "[SHORT]"], ["wokey", "[OTHER]"]])
    parts = [redaction.feed(text[place : place + size]) for place in range(0, len(text), size)]
    found = b"".join([*parts, redaction.rest()])
    assert found.startswith(b"a [LONG] b [SHORT] c [LONG]")
    assert b"key" not in found
    assert found.endswith(b"[SHORT]-tw")


def test_what_is_noted_of_a_program_has_none_of_its_arguments(make, tmp_path):
    ended(make(f"cp {tmp_path / 'state' / 'invocation.json'} seen; : a-secret-of-the-prompt"))
    assert "a-secret" not in (tmp_path / "work" / "seen").read_text()


def test_a_second_cancellation_waits_for_the_end_as_well(make, tmp_path):
    work = tmp_path / "work"

    async def cancelled_twice():
        running = asyncio.create_task(run_program(make("trap '' TERM; touch ready; sleep 300", grace=0.5)))
        while not (work / "ready").exists():  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.02)
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0.1)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled_twice())
    assert processes_in(work) == []
