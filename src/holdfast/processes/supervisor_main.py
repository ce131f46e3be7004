"""The supervisor of one program: a process of its own, which ends the program with everything that it has started.

It is started as a script, without the packages of the environment, so it needs the standard library alone. It reads
its orders from standard input (their length in a line, then JSON) and keeps reading: `end` ends the program in order,
and the end of the input, or of the runner that has started it, ends it at once. Processes that leave their parents
(daemons) become children of this one, which is why it finds them. How the program ended is written to `ended.json`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_TICK_SECONDS = 0.05
_LOOK_SECONDS = 0.2
_PIPE_BYTES = 1 << 16
_KILL_SECONDS = 10.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
ENDED_NEW, ENDED_BYTES = "ended.json.new", 4096
"""Where the end of a program is written before the file gets its name, and how much room that has from the start."""
_PIDFD_OPEN = getattr(os, "pidfd_open", None)


# Processes.


def process_fields(pid: int) -> list[str]:
    """What the kernel says of a process from its state on; its name, before that, may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - a script that starts fast
            return file.read().decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return []


class Seen:
    """One process: its parent, when it started, and the memory that it uses."""

    __slots__ = ("parent", "pid", "resident", "started", "state")

    def __init__(self, pid: int, fields: list[str]) -> None:
        self.pid, self.state = pid, fields[0]
        self.parent, self.started, self.resident = int(fields[1]), int(fields[19]), int(fields[21]) * _PAGE


def descendants(root: int) -> list[Seen]:
    """Every process below `root` that has not ended."""
    found: dict[int, list[Seen]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        if name.isdigit() and len(fields := process_fields(int(name))) > 21:
            seen = Seen(int(name), fields)
            found.setdefault(seen.parent, []).append(seen)
    below, queue = [], [root]
    while queue:
        for seen in found.get(queue.pop(), ()):
            queue.append(seen.pid)
            if seen.state not in "ZX":
                below.append(seen)
    return below


def send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def oom_kills() -> int:
    """How often the kernel has killed for want of memory in this control group; -1 where that cannot be read."""
    for path, key in _oom_files():
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                name, _, count = line.partition(" ")
                if name == key:
                    return int(count)
    return -1


def _oom_files() -> list[tuple[str, str]]:
    found = []
    with contextlib.suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:  # noqa: PTH123
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == "memory":
                found.append((f"/sys/fs/cgroup/memory{path}/memory.oom_control", "oom_kill"))
            elif not controllers:
                found += [(f"/sys/fs/cgroup{base}{path}/memory.events", "oom_kill") for base in ("", "/unified")]
    return found


# Output.


class Redaction:
    """Replaces known secrets in a stream of bytes, also where one is cut by the border of two reads.

    Held back is as much, as it came, as could be the beginning of a secret: a short one may be that of a longer one.
    """

    def __init__(self, needles: list[list[str]]) -> None:
        self._needles = [(needle.encode(), mark.encode()) for needle, mark in needles]
        self._keep = max((len(needle) for needle, _ in self._needles), default=1) - 1
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may be written of the stream so far."""
        if not self._needles:
            return data
        data = self._held + data
        return self._take(data, max(len(data) - self._keep, 0))

    def rest(self) -> bytes:
        """The end of the stream."""
        return self._take(self._held, len(self._held))

    def _take(self, data: bytes, limit: int) -> bytes:
        """What begins before the limit, without secrets; the rest is held."""
        parts, place = [], 0
        for start, length, mark in sorted(self._found(data, limit)):
            if start >= place:
                parts += [data[place:start], mark]
            # Where two overlap, neither leaves a piece.
            place = max(place, start - length)
        cut = max(place, limit)
        parts.append(data[place:cut])
        self._held = data[cut:]
        return b"".join(parts)

    def _found(self, data: bytes, limit: int) -> list[tuple[int, int, bytes]]:
        """Where secrets begin, their lengths below zero, so that the longest is the first in order, and their marks."""
        found = []
        for needle, mark in self._needles:
            start = data.find(needle)
            while 0 <= start < limit:
                found.append((start, -len(needle), mark))
                start = data.find(needle, start + 1)
        return found


class CappedFile:
    """A stream in a file: its beginning and its end where it is longer than the cap, which bounds memory as well."""

    def __init__(self, path: str, cap: int, needles: list[list[str]]) -> None:
        # Created exclusively: the program may have put a link or a pipe in its place.
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - a script that starts fast
        self._file: BinaryIO = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb", 0
        )
        self._redaction, self._head = Redaction(needles), cap // 2
        self._tail_bytes, self._tail, self.bytes = cap - cap // 2, b"", 0
        self.is_full = False
        self.unwritten = ""

    def write(self, data: bytes) -> None:
        self.bytes += len(data)
        self._put(self._redaction.feed(data))

    def _put(self, data: bytes) -> None:
        head, rest = data[: self._head], data[self._head :]
        self._head -= len(head)
        self._append(head)
        if rest:
            self._tail += rest
            if len(self._tail) > self._tail_bytes:
                self.is_full = True
                # Cut in large pieces, not with every read.
                if len(self._tail) > 2 * self._tail_bytes + _PIPE_BYTES:
                    self._tail = self._tail[-self._tail_bytes :]

    def close(self) -> None:
        self._put(self._redaction.rest())
        if self.is_full:
            self._append(b"\n[... cut here: the output is longer than its cap ...]\n")
        self._append(self._tail[-self._tail_bytes :])
        self._file.close()

    def _append(self, data: bytes) -> None:
        # A full disk must not end the supervision.
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            self.unwritten = self.unwritten or error.strerror or str(error)


# The tree of files, after the end.


def tree_lines(root: str) -> Iterator[bytes]:
    """Names, types, sizes and times below a directory, one entry at a time; each ends with a zero byte.

    What is in a `.git` is left out: git writes there also where somebody only looks, and nobody compares it.
    """
    queue = [os.fsencode(root)]
    while queue:
        place = queue.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            yield b"? 0 0 0 %s\0" % place
            continue
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            is_directory = stat.S_ISDIR(found.st_mode)
            if entry.name == b".git":
                yield b"g 0 0 0 %s\0" % entry.path
            elif is_directory:
                queue.append(entry.path)
                yield b"d %d 0 0 %s\0" % (found.st_mode, entry.path)
            else:
                yield b"f %d %d %d %s\0" % (found.st_mode, found.st_size, found.st_mtime_ns, entry.path)


def tree_digest(root: str, most: int = 500_000, listing: BinaryIO | None = None) -> str:
    """A digest of what `tree_lines` gives, which is also written to `listing`; empty if there are too many entries."""
    digest = hashlib.blake2b(digest_size=16)
    for count, line in enumerate(tree_lines(root), 1):
        if count > most:
            return ""
        digest.update(line)
        if listing is not None:
            listing.write(line)
    return digest.hexdigest()


# The supervision.


class Supervisor:
    """Runs the program of its orders until its end, or until it has to end it."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self.orders, self.limits = orders, orders["limits"]
        self.state: str = orders["state"]
        self.cause = ""
        self.status: int | None = None
        self.end_at: float | None = None
        self._next_look = 0.0
        self._known: set[tuple[int, int]] = set()
        self._most = 0
        cap, needles = self.limits["output"], orders["needles"]
        self.streams = {name: CappedFile(orders[name], cap, needles) for name in ("stdout", "stderr")}
        self.pipes: dict[int, CappedFile] = {}
        self.oom_before = oom_kills()
        self.runner = self._open_runner()

    def _open_runner(self) -> int | None:
        """A descriptor that is readable once the runner has ended."""
        runner = self.orders["runner"]
        if _PIDFD_OPEN is None:
            return None
        try:
            opened = int(_PIDFD_OPEN(runner["pid"]))
        except OSError:
            sys.exit(0)  # it is gone already: nothing was started
        fields = process_fields(runner["pid"])
        if len(fields) > 19 and int(fields[19]) != runner["started"]:
            sys.exit(0)
        return opened

    def start(self) -> None:
        """Starts the program in a session of its own."""
        pipes = {name: os.pipe2(os.O_CLOEXEC) for name in self.streams}
        self.pid = os.fork()
        if self.pid == 0:
            _become_program(self.orders, pipes["stdout"][1], pipes["stderr"][1])
        for name, (reading, writing) in pipes.items():
            os.close(writing)
            os.set_blocking(reading, False)
            self.pipes[reading] = self.streams[name]
        self._note_processes(descendants(os.getpid()))

    def run(self) -> None:
        """Until the program has ended and everything that it started is gone."""
        while self.status is None:
            self._wait()
            self._reap()
            self._look()
            if self.end_at is not None and time.monotonic() >= self.end_at:
                self._signal_all(signal.SIGKILL)
        self._end_rest()
        for pipe in list(self.pipes):
            self._read(pipe)
        for stream in self.streams.values():
            stream.close()

    def _wait(self) -> None:
        watched: list[int] = list(self.pipes)
        if self.end_at is None or self.cause != "runner":
            watched.append(0)
        if self.runner is not None:
            watched.append(self.runner)
        try:
            ready, _, _ = select.select(watched, [], [], _TICK_SECONDS)
        except InterruptedError:
            return
        if self.runner in ready:
            self.runner = None
            self._end("runner", 0.0)
        if 0 in ready:
            self._obey(os.read(0, 4096))
        for pipe in ready:
            if pipe in self.pipes:
                self._read(pipe)

    def _obey(self, order: bytes) -> None:
        if not order:
            self._end("runner", 0.0)
        else:
            self._end("ended", float(self.orders["grace"]))

    def _end(self, cause: str, grace: float) -> None:
        """Ends the program: in order if there is time, and by force when that is over."""
        self._reap()
        if self.status is not None:
            # It has ended by itself: that is not to be taken for our doing.
            return
        self.cause = self.cause or cause
        self.end_at = min(self.end_at or float("inf"), time.monotonic() + grace)
        if self.cause == "runner":
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)
        self._signal_all(signal.SIGTERM if grace else signal.SIGKILL)

    def _read(self, pipe: int) -> None:
        # Bounded at each look: an endless output must not keep everything else from being looked at.
        for _ in range(64):
            try:
                data = os.read(pipe, _PIPE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                os.close(pipe)
                del self.pipes[pipe]
                return
            self.pipes[pipe].write(data)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.pid:
                    self.status = status

    def _look(self) -> None:
        """Compares with the limits, and takes note of every process for whoever may have to end them."""
        now = time.monotonic()
        if now < self._next_look:
            return
        below = descendants(os.getpid())
        self._next_look = time.monotonic() + max(_LOOK_SECONDS, 5 * (time.monotonic() - now))
        self._most = max(self._most, len(below))
        self._note_processes(below)
        if (most := self.limits["processes"]) and len(below) > most:
            self._overrun("processes")
        elif (memory := self.limits["memory"]) and sum(seen.resident for seen in below) > memory:
            self._overrun("memory")

    def _overrun(self, limit: str) -> None:
        self.cause = self.cause or f"limit {limit}"
        # Stopped first: what can fork between two looks would stay ahead of them.
        self._signal_all(signal.SIGSTOP)
        self._signal_all(signal.SIGKILL)
        self._next_look = 0.0

    def _signal_all(self, number: int) -> None:
        if number == signal.SIGTERM:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)
        for seen in descendants(os.getpid()):
            send_signal(seen.pid, number)

    def _end_rest(self) -> None:
        """Ends what the program has left: daemons too, which are children of this process now."""
        deadline = time.monotonic() + _KILL_SECONDS
        while (below := descendants(os.getpid())) and time.monotonic() < deadline:
            for seen in below:
                send_signal(seen.pid, signal.SIGSTOP)
            for seen in descendants(os.getpid()):
                send_signal(seen.pid, signal.SIGKILL)
            self._reap()
            for pipe in list(self.pipes):
                self._read(pipe)
            time.sleep(0.005)
        self.left = len(descendants(os.getpid()))

    def _note_processes(self, below: list[Seen]) -> None:
        known = {(seen.pid, seen.started) for seen in below}
        if known - self._known:
            replace_json(f"{self.state}/processes.json", sorted(known))
        self._known = known

    def ended(self) -> dict[str, Any]:
        """How it ended."""
        status = self.status or 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        cause = self.cause
        if number == signal.SIGKILL and not cause and oom_kills() > self.oom_before >= 0:
            cause = "oom"
        elif number == signal.SIGXCPU and not cause:
            cause = "limit cpu"
        elif number == signal.SIGXFSZ and not cause:
            cause = "limit file_size"
        return {
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": number,
            "cause": cause,
            "bytes": {name: stream.bytes for name, stream in self.streams.items()},
            "cut": [name for name, stream in self.streams.items() if stream.is_full],
            "unwritten": next((stream.unwritten for stream in self.streams.values() if stream.unwritten), ""),
            "most_processes": self._most,
            "left": self.left,
            "tree": tree_digest(self.orders["tree"]) if self.orders.get("tree") else "",
        }


def _become_program(orders: dict[str, Any], stdout: int, stderr: int) -> None:
    """Becomes the program; never returns."""
    try:
        _prepare_process(orders, stdout, stderr)
        os.execvpe(orders["command"][0], orders["command"], orders["env"])  # noqa: S606 - the command of the task
    except OSError as error:
        where = error.filename or orders["command"][0]
        os.write(2, f"holdfast: {where}: {error.strerror}\n".encode("utf-8", "replace"))
        missing = isinstance(error, FileNotFoundError)
        os._exit(127 if missing else 126)
    except BaseException as error:  # noqa: BLE001 - a forked copy of the supervisor must not go on as one
        os.write(2, f"holdfast: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(126)


def _prepare_process(orders: dict[str, Any], stdout: int, stderr: int) -> None:
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
    os.closerange(3, 256)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for name, kind in (("cpu", resource.RLIMIT_CPU), ("file_size", resource.RLIMIT_FSIZE)):
        if value := orders["limits"].get(name):
            _lower_limit(kind, int(value))
    _lower_limit(resource.RLIMIT_CORE, 0)
    os.umask(0o022)
    os.chdir(orders["cwd"])


def _lower_limit(kind: int, value: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # Processor time: a signal that names its cause comes a second before the one that kills.
        resource.setrlimit(kind, (value, value + (kind == resource.RLIMIT_CPU)))


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def replace_json(path: str, value: Any) -> None:
    """Replaces a file as a whole; a full disk leaves it as it was."""
    with contextlib.suppress(OSError):
        with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(value, file)
        os.replace(f"{path}.new", path)  # noqa: PTH105


def _write_end(state: str, ended: dict[str, Any]) -> None:
    """Writes how the program ended, into a file that has its place on the disk since before the program started."""
    path = f"{state}/{ENDED_NEW}"
    try:
        # The program may have put a link in its place.
        with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
            file.write(json.dumps(ended).encode())
            file.truncate()
        os.replace(path, f"{state}/ended.json")  # noqa: PTH105
    except OSError:
        replace_json(f"{state}/ended.json", ended)


def _read_orders() -> dict[str, Any] | None:
    """The orders, and nothing of what follows them in the pipe; None where the runner ended before they were whole."""
    length = b""
    while not length.endswith(b"\n"):
        if not (data := os.read(0, 1)):
            return None
        length += data
    text = b""
    while len(text) < int(length):
        if not (data := os.read(0, min(int(length) - len(text), 1 << 20))):
            return None
        text += data
    return dict(json.loads(text))


def main() -> None:
    """Reads the orders, runs the program, and reports its end on standard output."""
    orders = _read_orders()
    if orders is None:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    supervisor = Supervisor(orders)
    supervisor.start()
    supervisor.run()
    ended = supervisor.ended()
    _write_end(supervisor.state, ended)
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(ended).encode() + b"\n")


if __name__ == "__main__":
    main()
