"""Loses power before every operation of a workload, in every way the filesystem allows, and opens what is left."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from account import Account, Broken, examine, expect
from gates import GatedFileSystem
from scenarios import resume

from holdfast.errors import NotARun
from holdfast.journal import SegmentId
from holdfast.journal.frame import HEADER_SIZE, decode_header
from holdfast.journal.segment import parse_name
from holdfast.storage.filesystem import FileSystem, RealFileSystem
from holdfast.testing import (
    CrashState,
    DirectoryNode,
    FileNode,
    RecordingFileSystem,
    crash_states,
    random_crash_state,
)

RUN = Path("runs/capitals")


class PowerLoss:
    """Watches a workload on a recorded disk; `check` opens every state that is new, up to a bound.

    At each moment at most `per_moment` states are examined: all of them where there are no more, otherwise the one
    in which all that is unsynced is lost, and a sample. `rate` is the share of the moments that is looked at.
    """

    def __init__(
        self, directory: Path, *, seed: int, per_moment: int = 64, rate: float = 1.0, patience: float = 0.0
    ) -> None:
        self.account = Account()
        self.disk = directory / "disk"
        self._states = directory / "states"
        self.disk.mkdir(parents=True)
        self.recording = RecordingFileSystem(RealFileSystem(), self.disk)
        self.fs: FileSystem = GatedFileSystem(self.recording, self.look)
        self.root = self.disk / RUN
        self._chance = random.Random(seed)
        self._per_moment, self._rate, self._patience = per_moment, rate, patience
        self._seen: set[tuple[bytes, int]] = set()
        self.examined = self.moments = 0
        self.operations: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self.broken: Exception | None = None
        self.watching = True
        self.missed = False
        print(f"seed {seed}")

    def over(self, inner: Callable[[FileSystem], FileSystem]) -> FileSystem:
        """The watched disk with something between it and the real one."""
        self.recording._inner = inner(self.recording._inner)
        return self.fs

    def look(self, operation: str, path: Path) -> None:
        """The moment before an operation; what it finds broken is kept and raised by `check`."""
        # A writer that acknowledges too early needs a moment to be caught at it.
        time.sleep(self._patience)
        with self._lock:
            self.operations.append((operation, path.name))
            if not self.broken and self.watching and self._chance.random() < self._rate:
                self.moments += 1
                self._look(operation, path)

    def _look(self, operation: str, path: Path) -> None:
        try:
            self._examine_states()
        except Broken as error:
            self.broken = Broken(f"before {operation} {path.name} ({self.moments}. moment): {error}")
        except OSError as error:
            # The writer would take it for its own and end in an orderly way.
            self.broken = error

    def check(self) -> None:
        """Looks a last time, and raises what any look found."""
        self._rate = 1.0
        self.look("end", self.root)
        if self.broken:
            raise self.broken

    def _examine_states(self) -> None:
        account = self.account.copy()
        with self.recording._lock:
            durable, trees = _synced_lengths(self.recording.tree), self._choose()
        account.attempted = self.account.attempted.copy()
        for tree in trees:
            key = (_digest(tree), account.size)
            if key not in self._seen:
                self._seen.add(key)
                self.examined += 1
                self._examine(tree, account, durable)

    def _choose(self) -> list[CrashState]:
        few = list(islice(crash_states(self.recording.tree), self._per_moment + 1))
        if len(few) <= self._per_moment:
            return few
        drawn = [random_crash_state(self.recording.tree, self._chance) for _ in range(self._per_moment - 1)]
        return [few[0], *drawn]

    def _examine(self, tree: CrashState, account: Account, durable: dict[SegmentId, int]) -> None:
        place = self._states / f"{self.examined:06}"
        try:
            materialise(tree, place)
            self._add_derived_files(place / RUN)
            examine_state(place / RUN, account, durable, missed=self.missed)
        except Broken as error:
            names = {path: None if content is None else len(content) for path, content in tree.items()}
            raise Broken(f"{error}\nstate: {names}") from error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _add_derived_files(self, root: Path) -> None:
        """The index and the lease are not synced with the journal: any age and any beginning of them may be there."""
        if not root.is_dir():
            return
        index = self.root / "index.sqlite"
        if index.exists() and (part := self._chance.choice([0, 1, 2, 4])):
            data = index.read_bytes()
            (root / "index.sqlite").write_bytes(data[: len(data) // part])
        if self._chance.random() < 0.5:
            (root / "lease").write_bytes(b'{"host": "gone", "pi'[: self._chance.randrange(20)])


def examine_state(root: Path, account: Account, durable: dict[SegmentId, int], *, missed: bool = False) -> None:
    """Opens what a power loss left: to read; to execute; and again after the frames in doubt have vanished.

    Raises:
        Broken: at one of these, something acknowledged or counted is not there once.
    """
    before = examine(root, account, durable, missed=missed)
    doubtful = {path: _tail(path) for path in root.glob("journal/*.open.jsonl.zst")}
    later = account.copy()
    later.acknowledged = Counter(before.lines)
    try:
        session = resume(RealFileSystem(), root, later)
    except NotARun:
        expect(not account.size, "acknowledged, and it cannot be opened")
        return
    session.abandon()
    examine(root, later, durable, missed=missed)
    for path, (start, end) in doubtful.items():
        data = path.read_bytes()
        path.write_bytes(data[:start] + data[end:])
    # Its session pinned them, so they are missed, but nothing that stood in them is.
    examine(root, later, missed=True)


def _tail(path: Path) -> tuple[int, int]:
    """Where the last whole frame begins, and the end of the file."""
    data, offset, last = path.read_bytes(), 0, 0
    while (header := decode_header(data, offset)) is not None and offset + header.size <= len(data):
        last, offset = offset, offset + HEADER_SIZE + header.stored
    return last, len(data)


def materialise(tree: CrashState, place: Path) -> None:
    place.mkdir(parents=True)
    for name, content in sorted(tree.items()):
        if content is None:
            (place / name).mkdir(exist_ok=True)
        else:
            (place / name).write_bytes(content)


def _digest(tree: CrashState) -> bytes:
    found = blake2b(digest_size=16)
    for name, content in sorted(tree.items()):
        found.update(f"{name}\0{'dir' if content is None else len(content)}\0".encode())
        found.update(content or b"")
    return found.digest()


def _synced_lengths(tree: DirectoryNode) -> dict[SegmentId, int]:
    lengths: dict[SegmentId, int] = {}
    for name, node in _files(tree):
        if parsed := parse_name(name):
            lengths[parsed[0]] = min(lengths.get(parsed[0], len(node.durable)), len(node.durable))
    return lengths


def _files(node: DirectoryNode) -> Iterator[tuple[str, FileNode]]:
    for name, child in node.entries.items():
        if isinstance(child, FileNode):
            yield name, child
        else:
            yield from _files(child)
