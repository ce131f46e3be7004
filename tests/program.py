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
from typing import Any, NamedTuple

PATIENCE_SECONDS = 20.0


class Ended(NamedTuple):
    """How a process of the program ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Started:
    """A process of the program, leader of a process group of its own."""

    def __init__(self, arguments: tuple[object, ...], cwd: Path, environment: dict[str, str]) -> None:
        self._logs = [cwd / f".{name}-{time.monotonic_ns()}" for name in ("out", "err")]
        with self._logs[0].open("wb") as out, self._logs[1].open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *map(str, arguments)],
                cwd=cwd,
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
        """Sends a signal to this process alone; one that has ended does not mind."""
        self._process.send_signal(number)

    def send_group(self, number: signal.Signals) -> None:
        """Sends a signal to the whole process group, as a terminal does."""
        os.killpg(self._process.pid, number)

    def told(self) -> str:
        """What it has said so far on standard error."""
        return self._read()[1]

    def group_is_alive(self) -> bool:
        """Whether any process of its group is still there."""
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self, *, traceback: bool = False) -> Ended:
        """Waits for the end. No traceback may have reached the user."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it never ended: {self._read()}") from None
        ended = Ended(code, *self._read())
        assert traceback or "Traceback" not in ended.err, ended.err
        return ended

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> list[str]:
        return [path.read_bytes().decode("utf-8", "replace") for path in self._logs]


class Program:
    """The program, started in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: list[Started] = []

    def start(self, *arguments: object, **environment: str) -> Started:
        started = Started(arguments, self.directory, environment)
        self._started.append(started)
        return started

    def __call__(self, *arguments: object, code: int | None = None, **environment: str) -> Ended:
        """Runs the program to its end; `code` is the exit code that it has to have."""
        ended = self.start(*arguments, **environment).wait()
        assert code is None or ended.code == code, ended
        return ended

    def json(self, *arguments: object, code: int | None = None, **environment: str) -> Any:
        """The one JSON document that the program prints."""
        return self(*arguments, "--json", code=code, **environment).json

    def records(self, run: object, type_: str | None = None) -> list[dict[str, Any]]:
        """The records of a run as the program prints them."""
        records = [json.loads(line) for line in self("cat", run).out.splitlines()]
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
