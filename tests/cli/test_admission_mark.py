"""Steps 16: however slow the disk, the number of calls that may have been billed twice is never given too low."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import time

import pytest

from durable import pieces, segment_paths
from evals import http_eval
from observed import new_logs
from program import until

IN_FLIGHT = 128
SYNC_SECONDS = 0.4
TRIALS = 1000


@pytest.fixture(scope="module")
def slow_disk():
    """The words before a command that make every sync of it take 400 ms."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is not installed")
    delay = f"inject=fdatasync:delay_enter={int(SYNC_SECONDS * 1e6)}"
    words = [program, "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", delay]
    done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    return words


class SlowRun:
    """A run on a slow disk, killed again and again."""

    def __init__(self, holdfast, server, directory, slow_disk) -> None:
        self._holdfast, self._server, self._directory, self._slow_disk = holdfast, server, directory, slow_disk
        self._eval = http_eval(directory, server.base_url, TRIALS, concurrency_limit=IN_FLIGHT)
        self._received: set[str] = set()

    def kill(self, *, after_requests: int, seconds: float) -> int:
        """Starts a session and kills it so long after the server saw so many requests.

        Gives how many requests of it have no reply on record.
        """
        before = self._server.worked_on()
        process = self._start("run", self._eval, "--run-dir", "r", "--or-resume")
        try:
            seen = self._server.state()["received"] + after_requests
            until(lambda: self._server.state()["received"] >= seen or process.poll() is not None, "requests came")
            assert process.poll() is None, "it ended by itself"
            time.sleep(seconds)
        finally:
            # The tracer too: both are in a group of their own.
            subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=False)
            process.wait()
        self._server.wait_until_idle()
        after = self._server.worked_on()
        self._received = {prompt for prompt, count in after.items() if count > before.get(prompt, 0)}
        return self.unanswered()

    def unanswered(self) -> int:
        """How many requests of the last session have no reply on record."""
        return len(self._received - self._answered())

    def _start(self, *arguments):
        out, err = new_logs(self._directory)
        command = [*self._slow_disk, sys.executable, "-m", "holdfast", *map(str, arguments)]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            return subprocess.Popen(
                command, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                start_new_session=True,
            )  # fmt: skip

    def _answered(self) -> set[str]:
        """The prompts whose reply is on record."""
        steps = [step for step in self._holdfast.records("r", "step") if "error" not in step]
        return {step["request"]["messages"][-1]["content"] for step in steps}

    def lose_unsynced_frame(self) -> None:
        """What a power loss may do to the last frame of the segment that was being written."""
        path = segment_paths(self._directory / "r")[-1]
        data = path.read_bytes()
        path.write_bytes(data[: pieces(data)[-1].start])

    def bound(self) -> int:
        """The number that is printed for the last session, which is also the one in JSON."""
        sessions = self._holdfast.json("status", "r")["sessions"]
        printed = re.findall(r"  killed .* up to ([0-9]+)\n", self._holdfast("status", "r", "--sessions").out)
        assert [int(number) for number in printed] == [session["in_flight_at_kill"] for session in sessions]
        return sessions[-1]["in_flight_at_kill"]


@pytest.fixture
def slow_run(holdfast, server, tmp_path, slow_disk):
    return SlowRun(holdfast, server, tmp_path, slow_disk)


def test_steps_16_the_printed_number_is_never_too_low_after_a_kill(slow_run, server):
    """128 calls in flight while a sync takes 400 ms, killed at several moments: as many or more are printed."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng, total = random.Random(seed), 0
    for number in range(4):
        server.behave(latency=rng.choice([0.0, 0.05, 2.0]))
        lost = slow_run.kill(after_requests=rng.choice([1, 16, 17, IN_FLIGHT]), seconds=rng.uniform(0.0, 1.5))
        bound = slow_run.bound()
        print(f"kill {number}: {lost} without a reply on record, up to {bound} printed")
        assert lost <= bound <= IN_FLIGHT
        total += lost
    assert total > 0


def test_steps_16_nor_is_it_after_a_power_loss(slow_run, server):
    """The last frame was not synced and is gone: the mark that allowed the calls stood before it."""
    server.behave(hold=True)
    lost = slow_run.kill(after_requests=IN_FLIGHT, seconds=0.0)
    assert lost == IN_FLIGHT == slow_run.bound()
    server.behave(latency=0.3)
    lost = slow_run.kill(after_requests=IN_FLIGHT, seconds=0.7)
    slow_run.lose_unsynced_frame()
    print(f"{lost} without a reply before the loss, {slow_run.unanswered()} after it")
    assert lost <= slow_run.unanswered() <= slow_run.bound() == IN_FLIGHT


def test_calls_beyond_the_mark_wait_for_it_and_the_others_do_not(slow_run, server):
    """While the first mark above 16 is being synced, 16 calls are in flight and no more."""
    server.behave(hold=True)
    lost = slow_run.kill(after_requests=16, seconds=0.05)
    assert lost == 16
    assert slow_run.bound() in {16, 32}
