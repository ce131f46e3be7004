"""Processes that write one run together, and what is expected of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from account import expect
from programs import HERE, read, read_lines

from holdfast.run import SessionContents, create_run
from program import stop_process


class Scribe:
    """One writing process; what it has told lies in a file, whatever becomes of it."""

    def __init__(self, root: Path, number: int, session: int = 0, *options: str) -> None:
        self.told_at = root.parent / f"told-{number}-{session}-{time.monotonic_ns()}"
        self.errors_at = self.told_at.with_suffix(".errors")
        command = [sys.executable, str(HERE / "scribe.py"), str(root), str(number), str(session), *options]
        with self.told_at.open("wb") as out, self.errors_at.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)

    def lines(self) -> list[tuple[str, ...]]:
        return read_lines(self.told_at.read_text())

    def names(self) -> set[str]:
        return {name for word, *names in self.lines() if word == "trial" for name in names}

    def wait_for(self, word: str, count: int = 1) -> tuple[str, ...]:
        """The n-th line that begins with this word."""
        deadline = time.monotonic() + 60
        while len(found := [line for line in self.lines() if line[0] == word]) < count:
            assert self.process.poll() is None, self.errors_at.read_text()
            assert time.monotonic() < deadline, f"no line {word} in {self.lines()[-3:]}"
            time.sleep(0.005)
        return found[count - 1]

    def end(self, *, may_be_over: bool = False) -> None:
        """Lets it end in an orderly way; unless it was one of a session that is over, it does."""
        self.process.communicate(timeout=60)
        told = self.errors_at.read_text()
        assert self.process.returncode == 0 or (may_be_over and "the process that held it is gone" in told), told

    def stop(self) -> None:
        """It stands still, and can notice nothing."""
        stop_process(self.process.pid)

    def let_go(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


def new_run(directory: Path) -> Path:
    root = directory / "run"
    create_run(root, SessionContents(name="w", config={})).abandon()
    return root


def check(root: Path, expected: set[str]) -> None:
    """Every record that was told is there once, and nothing is lost."""
    held = read(root)
    expect(not held.losses, f"damaged: {held.losses}")
    expect(expected <= set(held.trials), f"told and lost: {sorted(expected - set(held.trials))}")
    expect(set(held.trials.values()) <= {1}, f"more than once: {Counter(held.trials).most_common(3)}")
