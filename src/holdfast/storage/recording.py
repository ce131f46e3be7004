"""A FileSystem that remembers what was done, and tells every state a power loss may leave behind.

The model is the weakest filesystem that POSIX allows: bytes survive for certain only once they are synced, names only
once their directory is. Of what is not synced, any subset may survive; of each surviving write any beginning, or its
full length with zeros in place of the data. `crash_states` gives each such state once, for one moment of the history.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.storage.filesystem import AppendFile, FileSystem, ReadFile

Tree = dict[str, bytes | None]
"""A state of the disk: relative path → content, None for a directory."""


class FileNode:
    """One file: what is on stable storage, and the writes that are not yet."""

    def __init__(self) -> None:
        self.durable = b""
        self.pending: list[bytes] = []

    def sync(self) -> None:
        self.durable += b"".join(self.pending)
        self.pending = []


class DirectoryNode:
    """One directory: its entries on stable storage, and the changes of names that are not yet."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[dict[str, Node | None]] = []

    def change(self, change: dict[str, Node | None]) -> None:
        self.pending.append(change)
        _apply(self.entries, change)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending = []


Node = FileNode | DirectoryNode


def _apply(entries: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _look_away() -> None:
    pass


class RecordingFileSystem:
    """Passes everything to another FileSystem below `root`, and keeps the model of it up to date.

    `watch` is called after every operation, with the file system's lock held: the moment to look at crash states.
    """

    def __init__(self, inner: FileSystem, root: Path) -> None:
        self._inner = inner
        self._root = root
        self._lock = threading.RLock()
        self.tree = DirectoryNode()
        self.operations = 0
        self.watch: Callable[[], None] = _look_away

    def _node(self, path: Path) -> Node:
        node: Node = self.tree
        for part in path.relative_to(self._root).parts:
            if not isinstance(node, DirectoryNode):
                raise NotADirectoryError(str(path))
            node = node.entries[part]
        return node

    def _directory(self, path: Path) -> DirectoryNode:
        node = self._node(path)
        if not isinstance(node, DirectoryNode):
            raise NotADirectoryError(str(path))
        return node

    def did(self) -> None:
        """Counts one operation and lets the watcher look."""
        self.operations += 1
        self.watch()

    def create(self, path: Path) -> AppendFile:
        with self._lock:
            inner = self._inner.create(path)
            node = FileNode()
            self._directory(path.parent).change({path.name: node})
            self.did()
            return _RecordingAppendFile(self, self._lock, node, inner)

    def open(self, path: Path) -> ReadFile:
        return self._inner.open(path)

    def rename(self, old: Path, new: Path) -> None:
        with self._lock:
            self._inner.rename(old, new)
            node = self._node(old)
            if old.parent != new.parent:
                raise ValueError(f"a rename across directories is not atomic everywhere: {old} to {new}")
            self._directory(old.parent).change({old.name: None, new.name: node})
            self.did()

    def remove(self, path: Path) -> None:
        with self._lock:
            self._inner.remove(path)
            self._directory(path.parent).change({path.name: None})
            self.did()

    def remove_tree(self, path: Path) -> None:
        with self._lock:
            self._inner.remove_tree(path)
            self._directory(path.parent).change({path.name: None})
            self.did()

    def make_directory(self, path: Path) -> None:
        with self._lock:
            self._inner.make_directory(path)
            node = self.tree
            for part in path.relative_to(self._root).parts:
                if part not in node.entries:
                    node.change({part: DirectoryNode()})
                below = node.entries[part]
                if not isinstance(below, DirectoryNode):
                    raise NotADirectoryError(str(path))
                node = below
            self.did()

    def sync_directory(self, path: Path) -> None:
        with self._lock:
            self._inner.sync_directory(path)
            self._directory(path).sync()
            self.did()

    def list(self, path: Path) -> list[str]:
        return self._inner.list(path)

    def lock(self, path: Path) -> int | None:
        return self._inner.lock(path)


class _RecordingAppendFile:
    def __init__(self, fs: RecordingFileSystem, lock: threading.RLock, node: FileNode, inner: AppendFile) -> None:
        self._fs, self._lock, self._node, self._inner = fs, lock, node, inner

    def write(self, data: bytes) -> None:
        with self._lock:
            self._inner.write(data)
            self._node.pending.append(bytes(data))
            self._fs.did()

    def sync(self) -> None:
        with self._lock:
            self._inner.sync()
            self._node.sync()
            self._fs.did()

    def close(self) -> None:
        self._inner.close()


def torn_forms(data: bytes) -> list[bytes | None]:
    """What may be left of one unsynced write: nothing, a beginning, its length in zeros, or all of it."""
    cuts = sorted({1, len(data) // 3, len(data) // 2, len(data) - 1} & set(range(1, len(data))))
    return [None, *(data[:cut] for cut in cuts), bytes(len(data)), data]


def file_states(node: FileNode) -> list[bytes]:
    """Every content a file may have after a power loss; a later write may survive an earlier one, over zeros."""
    states: dict[bytes, None] = {}
    for forms in itertools.product(*(torn_forms(write) for write in node.pending)):
        content = node.durable
        gap = 0
        for write, form in zip(node.pending, forms, strict=True):
            if form is not None:
                content += bytes(gap) + form
                gap = len(write) - len(form)
            else:
                gap += len(write)
        states[content] = None
    return list(states)


def _entry_states(node: DirectoryNode) -> Iterator[dict[str, Node]]:
    for survivors in itertools.product((False, True), repeat=len(node.pending)):
        entries = dict(node.durable)
        for change, survives in zip(node.pending, survivors, strict=True):
            if survives:
                _apply(entries, change)
        yield entries


def crash_states(node: Node, at: str = "") -> Iterator[Tree]:
    """Every state of the disk below `node` that a power loss at this moment may leave."""
    if isinstance(node, FileNode):
        for content in file_states(node):
            yield {at: content}
        return
    for entries in _entry_states(node):
        below = [list(crash_states(child, f"{at}/{name}".lstrip("/"))) for name, child in entries.items()]
        for combination in itertools.product(*below):
            tree: Tree = {at: None} if at else {}
            for part in combination:
                tree.update(part)
            yield tree
