"""A FileSystem that remembers what was done, so that every state a power loss may leave behind can be computed.

`crash_states(fs.tree)` gives them for the present moment. Locks and their file leave no trace in the model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.storage.filesystem import AppendFile, FileSystem, ReadFile
from holdfast.testing.power_loss import DirectoryNode, FileNode, Node


def _watch_nothing() -> None:
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
        self.watch: Callable[[], None] = _watch_nothing

    def _node_at(self, path: Path) -> Node:
        node: Node = self.tree
        for part in path.relative_to(self._root).parts:
            if not isinstance(node, DirectoryNode):
                raise NotADirectoryError(str(path))
            node = node.entries[part]
        return node

    def _find_node(self, path: Path) -> Node | None:
        """The node at `path`; None for what lies outside the model."""
        try:
            return self._node_at(path)
        except (KeyError, ValueError):
            return None

    def _directory(self, path: Path) -> DirectoryNode:
        node = self._node_at(path)
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
        with self._lock:
            inner, node = self._inner.open(path), self._find_node(path)
            return _RecordingReadFile(self, self._lock, node, inner) if isinstance(node, FileNode) else inner

    def rename(self, old: Path, new: Path) -> None:
        with self._lock:
            self._inner.rename(old, new)
            node = self._node_at(old)
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
            if isinstance(node := self._find_node(path), DirectoryNode):
                node.sync()
            self.did()

    def list(self, path: Path) -> list[str]:
        return self._inner.list(path)

    def lock(self, path: Path, *, shared: bool = False) -> int | None:
        return self._inner.lock(path, shared=shared)


class _RecordingAppendFile:
    def __init__(self, fs: RecordingFileSystem, lock: threading.RLock, node: FileNode, inner: AppendFile) -> None:
        self._fs, self._lock, self._node, self._inner = fs, lock, node, inner

    def write(self, data: bytes) -> None:
        with self._lock:
            # A write that fails may have left any beginning of its bytes, so it counts like any other.
            self._node.pending.append(bytes(data))
            self._inner.write(data)
            self._fs.did()

    def sync(self) -> None:
        with self._lock:
            _sync_node(self._inner, self._node)
            self._fs.did()

    def is_at(self, path: Path) -> bool:
        return self._inner.is_at(path)

    def close(self) -> None:
        self._inner.close()


class _RecordingReadFile:
    def __init__(self, fs: RecordingFileSystem, lock: threading.RLock, node: FileNode, inner: ReadFile) -> None:
        self._fs, self._lock, self._node, self._inner = fs, lock, node, inner

    def size(self) -> int:
        return self._inner.size()

    def read_at(self, offset: int, size: int) -> bytes:
        return self._inner.read_at(offset, size)

    def sync(self) -> None:
        with self._lock:
            _sync_node(self._inner, self._node)
            self._fs.did()

    def close(self) -> None:
        self._inner.close()


def _sync_node(file: AppendFile | ReadFile, node: FileNode) -> None:
    try:
        file.sync()
    except OSError:
        node.sync_failed()
        raise
    node.sync()
