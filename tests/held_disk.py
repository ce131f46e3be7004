"""A disk whose syncs wait until a test lets them through, and which writes down what was done to it in which order."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

from holdfast.journal import Journal
from holdfast.storage import RealFileSystem

RUN = bytes(range(16))
PATIENCE_SECONDS = 20


class HeldDisk(RealFileSystem):
    """While `hold` is on, every sync of a segment waits for `let_through`; it then fails if `broken` is set."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, str]] = []
        self.broken = False
        self.waiting = threading.Semaphore(0)
        self._gate = threading.Event()
        self._gate.set()

    def hold(self) -> None:
        self._gate.clear()

    def let_through(self) -> None:
        self._gate.set()

    def wait_for_sync(self) -> None:
        """Returns once a sync has begun that is being held up."""
        assert self.waiting.acquire(timeout=PATIENCE_SECONDS)

    def pass_gate(self) -> None:
        if not self._gate.is_set():
            self.waiting.release()
            assert self._gate.wait(PATIENCE_SECONDS)

    def create(self, path: Path):
        self.operations.append(("create", path.name))
        return _HeldFile(self, path, super().create(path))

    def rename(self, old: Path, new: Path) -> None:
        self.operations.append(("rename", new.name))
        super().rename(old, new)

    def sync_directory(self, path: Path) -> None:
        self.operations.append(("sync_directory", path.name))
        super().sync_directory(path)


class _HeldFile:
    def __init__(self, disk: HeldDisk, path: Path, inner) -> None:
        self._disk, self._path, self._inner = disk, path, inner

    def write(self, data: bytes) -> None:
        self._disk.operations.append(("write", self._path.name))
        self._inner.write(data)

    def sync(self) -> None:
        if self._path.name.endswith(".zst"):
            self._disk.pass_gate()
        if self._disk.broken:
            raise OSError(errno.EIO, "Input/output error", str(self._path))
        self._inner.sync()
        self._disk.operations.append(("sync", self._path.name))

    def is_at(self, path: Path) -> bool:
        return self._inner.is_at(path)

    def close(self) -> None:
        self._inner.close()


def frames_in(directory: Path) -> list[list[bytes]]:
    """The lines of every frame of a journal, in order."""
    journal = Journal(RealFileSystem(), directory, RUN)
    found: list[list[bytes]] = []
    for segment in journal.segments():
        with journal.scan(segment) as scan:
            found += [scan.lines(frame) for frame in scan.frames()]
    return found


def lines_in(directory: Path) -> list[bytes]:
    """Every line of a journal, in order."""
    return [line for lines in frames_in(directory) for line in lines]
