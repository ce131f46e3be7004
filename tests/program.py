"""The program `holdfast` as a person starts it: real processes, real signals, whatever they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from observed import PATIENCE_SECONDS, Ended, Zygote, new_logs, read_logs


class Started:
    """A process of the program, leader of a process group of its own."""

    def __init__(self, arguments: tuple[object, ...], directory: Path, environment: dict[str, str]) -> None:
        self._logs = new_logs(directory)
        with self._logs[0].open("wb") as out, self._logs[1].open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *map(str, arguments)],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone."""
        self._process.send_signal(number)

    def send_group(self, number: signal.Signals) -> None:
        """Sends a signal to the whole process group, as a terminal does."""
        os.killpg(self._process.pid, number)

    def told(self) -> str:
        """What it has said so far on standard error."""
        return self._logs[1].read_text(errors="replace")

    def group_is_alive(self) -> bool:
        """Whether any process of its group is still there."""
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self) -> Ended:
        """Waits for the end."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it never ended: {read_logs(0, self._logs)}") from None
        return read_logs(code, self._logs)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Program:
    """The program, in one directory: `start` executes it anew, calling it runs a forked process to its end."""

    def __init__(self, directory: Path, zygote: Zygote) -> None:
        self.directory, self._zygote = directory, zygote
        self._started: list[Started] = []

    def start(self, *arguments: object, **environment: str) -> Started:
        started = Started(arguments, self.directory, environment)
        self._started.append(started)
        return started

    def __call__(self, *arguments: object, code: int | None = None, **environment: str) -> Ended:
        """Runs the program to its end; `code` is the exit code that it has to have."""
        if "HOLDFAST_CRASH_AT" in environment:  # looked at when the program is loaded
            ended = self.start(*arguments, **environment).wait()
        else:
            ended = self._zygote.start(arguments, self.directory, environment).wait()
        assert code is None or ended.code == code, ended
        return ended

    def json(self, *arguments: object, code: int | None = None, **environment: str) -> Any:
        """The one JSON document that the program prints."""
        return self(*arguments, "--json", code=code, **environment).json

    def records(self, run: object, type_: str | None = None) -> list[dict[str, Any]]:
        """The records of a run as the program prints them."""
        # Not splitlines(): a reply may hold a character that Python takes for the end of a line.
        records = [json.loads(line) for line in self("cat", run, code=0).out.rstrip("\n").split("\n")]
        return [record for record in records if type_ in (None, record["type"])]

    def end(self) -> None:
        for started in self._started:
            if started.is_running:
                started.kill()


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits until the condition holds; gives what it gave."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"it never came to this: {what}")
        time.sleep(0.01)
    return found


def stop_process(pid: int) -> None:
    """Stops a process, and waits until it stands still: a signal takes its time on a busy machine."""
    os.kill(pid, signal.SIGSTOP)
    states = Path(f"/proc/{pid}/task")
    until(
        lambda: all((task / "stat").read_text().rpartition(")")[2].split()[0] in "TZ" for task in states.iterdir()),
        "every thread of the process is stopped",
    )
