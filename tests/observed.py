"""The program with a witness: every trial it acknowledges is written to a file before it goes on.

As a program of its own it takes the arguments of `holdfast`; `HOLDFAST_TEST_ACKS` names the file. With `--zygote` it
loads everything once and then forks a process for each order on its standard input, so that tests do not spend their
time importing. Such a process is as real as any: it has its own id, and dies of its own signals.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

ACKS = "HOLDFAST_TEST_ACKS"
SLOW_SYNC = "HOLDFAST_TEST_SLOW_SYNC"
"""How many seconds longer every sync of a file takes."""
FIRST_NUMBERS = "HOLDFAST_TEST_FIRST_NUMBERS"
"""Set where built-in scorers have their first behaviour number, as in runs that were recorded long ago."""
PATIENCE_SECONDS = 120.0


class Ended(NamedTuple):
    """How a process of the program ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def read_logs(code: int, logs: list[Path]) -> Ended:
    """What a process has printed. No traceback may ever reach a user."""
    ended = Ended(code, *(path.read_bytes().decode("utf-8", "replace") for path in logs))
    assert "Traceback" not in ended.err, ended.err
    return ended


def new_logs(directory: Path) -> list[Path]:
    """Two empty files for what a process prints."""
    name = uuid.uuid4().hex
    logs = [directory / f".{name}.{stream}" for stream in ("out", "err")]
    for log in logs:
        log.touch()
    return logs


def witness() -> None:
    """From now on every acknowledgement is written down, by one write to a file that is only appended to."""
    progress = importlib.import_module("holdfast.engine.progress").Progress
    original = progress.attempt_ended

    def attempt_ended(self, event):
        original(self, event)
        end = event.record
        if end.status.is_kept and ACKS in os.environ:
            with Path(os.environ[ACKS]).open("ab", buffering=0) as acks:
                acks.write(f"{end.trial}\n".encode())

    progress.attempt_ended = attempt_ended


def slow_down(seconds: float) -> None:
    """From now on this process has a disk whose syncs take longer."""
    for name in ("fdatasync", "fsync") if seconds else ():
        original = getattr(os, name)
        setattr(os, name, lambda fd, original=original: (time.sleep(seconds), original(fd))[1])


def acknowledged(path: Path) -> list[str]:
    """The trials that were acknowledged, in order."""
    return path.read_text().split() if path.exists() else []


class ForkedProcess:
    """A process of the program that the zygote has forked, leader of a process group of its own."""

    def __init__(self, zygote: Zygote, pid: int, logs: list[Path]) -> None:
        self._zygote, self.pid, self._logs = zygote, pid, logs

    def send(self, number: signal.Signals) -> None:
        """Nobody else can have its id: it is not waited for yet."""
        os.kill(self.pid, number)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, waited for or not."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def told(self) -> str:
        """What it has said so far on standard error."""
        return self._logs[1].read_text(errors="replace")

    def wait(self) -> Ended:
        answer = self._zygote.ask({"wait": self.pid})
        self._zygote.running.discard(self.pid)
        ended = read_logs(answer["code"], self._logs)
        assert not answer["hung"], f"it never ended: {ended}"
        return ended


def use_first_numbers() -> None:
    """Built-in scorers count as those of the first version, apart from `choice`."""
    for name in ("exact", "includes", "numeric", "regex"):
        module = importlib.import_module(f"holdfast.tasks.scorers.{name}")
        getattr(module, name.capitalize()).revision = 1


class Zygote:
    """A process that forks processes of the program."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--zygote"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, order: dict[str, Any]) -> Any:
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, arguments: tuple[object, ...], directory: Path, environment: dict[str, str]) -> ForkedProcess:
        logs = new_logs(directory)
        order = {
            "arguments": [str(argument) for argument in arguments],
            "directory": str(directory),
            "environment": {**os.environ, **environment},
            "logs": [str(log) for log in logs],
        }
        pid = self.ask(order)["pid"]
        self.running.add(pid)
        return ForkedProcess(self, pid, logs)

    def kill_all(self) -> None:
        """Kills what still runs."""
        for pid in list(self.running):
            os.kill(pid, signal.SIGKILL)
            self.ask({"wait": pid})
            self.running.discard(pid)

    def end(self) -> None:
        self.kill_all()
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Observed:
    """The program in one directory, whose acknowledgements are witnessed."""

    def __init__(self, zygote: Zygote, directory: Path) -> None:
        self._zygote, self.directory, self.acks = zygote, directory, directory / ".acks"

    def start(self, *arguments: object, **environment: str) -> ForkedProcess:
        return self._zygote.start(arguments, self.directory, {ACKS: str(self.acks), **environment})

    def __call__(self, *arguments: object, code: int | None = None) -> Ended:
        ended = self.start(*arguments).wait()
        assert code is None or ended.code == code, ended
        return ended

    def acknowledged(self) -> list[str]:
        return acknowledged(self.acks)

    def records(self, run: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("cat", run, code=0).out.splitlines()]


def _serve() -> None:
    cli = importlib.import_module("holdfast.cli")
    verbs = [
        *(f"holdfast.cli.run.{verb}" for verb in ("resume", "run")),
        *(f"holdfast.cli.look.{verb}" for verb in ("report", "show", "status")),
        *("holdfast.cli.trust.verify", "holdfast.cli.move.cat", "holdfast.cli.move.recover"),
    ]
    for name in (
        *verbs,
        "holdfast.models.openai.provider",
        "holdfast.models.scripted.provider",
        "holdfast.spec.loading.yaml_document",
    ):
        importlib.import_module(name)
    # A program that measures coverage has a handler of its own here, which must not come before the program's.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            print(json.dumps(_waited(order["wait"])), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _be(order, cli)
        print(json.dumps({"pid": pid}), flush=True)


def _waited(pid: int) -> dict[str, Any]:
    """How a forked process ended; one that does not end is killed."""
    fd = os.pidfd_open(pid)
    ready, _, _ = select.select([fd], [], [], PATIENCE_SECONDS)
    os.close(fd)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "hung": not ready}


def _be(order: dict[str, Any], cli: Any) -> None:
    """Makes this forked process one that was started for the order."""
    try:
        os.setsid()
        os.chdir(order["directory"])
        os.environ.clear()
        os.environ.update(order["environment"])
        flags = [os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND]
        for target, path in enumerate([os.devnull, *order["logs"]]):
            fd = os.open(path, flags[target])
            os.dup2(fd, target)
            os.close(fd)
        sys.argv = ["holdfast", *order["arguments"]]
        slow_down(float(os.environ.get(SLOW_SYNC, "0")))
        if FIRST_NUMBERS in os.environ:
            use_first_numbers()
        cli.main()
    except KeyboardInterrupt:  # it came before the program had begun
        sys.exit(130)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        witness()
        if sys.argv[1:] == ["--zygote"]:
            _serve()
        else:
            importlib.import_module("holdfast.cli").main()
