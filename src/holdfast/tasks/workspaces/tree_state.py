"""The files of a directory as they are: names, types and digests, found without following a link.

Everything is looked at through descriptors of directories, so that a directory that is replaced by a link meanwhile
leads nowhere else. Time and memory are bounded whatever is there: huge files have no digest, what lies too deep or is
too much is counted and left out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.digests import content_digest, new_content_digest

FILE, LINK, SPECIAL = "file", "link", "special"
MOST_ENTRIES = 500_000
DEEPEST = 128
LARGEST_FILE = 256 << 20
_MOST_HASHED = 8 << 30
_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LEFT_OUT = b".git"
"""Of the topmost directory: what an agent commits is in the files as well, or is not part of its work."""


class TreeEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One file, link, or something else."""

    kind: str
    mode: int = 0
    """Its permissions, as far as git would record them."""
    size: int = 0
    digest: str = ""
    """Of a file its content, of a link its target; empty where that was not read."""
    stamp: tuple[int, int, int] = (0, 0, 0)
    """Inode, and the times of its last changes: where they are the same, it is not read again."""

    def is_same(self, other: TreeEntry) -> bool:
        """Whether both have the same content."""
        if (self.kind, self.mode, self.size) != (other.kind, other.mode, other.size):
            return False
        return self.stamp == other.stamp if not (self.digest and other.digest) else self.digest == other.digest


class TreeState(msgspec.Struct):
    """What a directory holds, by path."""

    entries: dict[bytes, TreeEntry] = {}
    left_out: int = 0
    """How many entries were too many or too deep."""


class TreeReplaced(Exception):  # noqa: N818 - reads as a sentence where it is raised
    """In place of the directory is something else, or nothing."""


def open_tree(root: Path) -> int:
    """A descriptor of the directory itself.

    Raises:
        TreeReplaced: it is gone, or is a link or a file.
    """
    try:
        return os.open(root, _DIRECTORY)
    except FileNotFoundError:
        raise TreeReplaced("the directory was deleted") from None
    except OSError:
        kind = "a link" if root.is_symlink() else "something else"
        raise TreeReplaced(f"the directory was replaced by {kind}") from None


def read_tree(root: Path, known: TreeState | None = None, most: int = MOST_ENTRIES) -> TreeState:
    """What the directory holds; files that have the stamp they are `known` by are not read again.

    Raises:
        TreeReplaced: it is gone, or is a link or a file.
    """
    return _Reader(known or TreeState(), most).read(open_tree(root))


class _Reader:
    def __init__(self, known: TreeState, most: int) -> None:
        self._known, self._most, self._hashed = known.entries, most, 0
        self._found = TreeState({})

    def read(self, root: int) -> TreeState:
        """Takes the descriptor over."""
        stack: list[tuple[int, bytes, int]] = [(root, b"", 0)]
        try:
            while stack:
                fd, prefix, depth = stack.pop()
                try:
                    stack += self._read_directory(fd, prefix, depth)
                finally:
                    os.close(fd)
        finally:
            for fd, _, _ in stack:
                os.close(fd)
        return self._found

    def _read_directory(self, fd: int, prefix: bytes, depth: int) -> list[tuple[int, bytes, int]]:
        below: list[tuple[int, bytes, int]] = []
        names = sorted(os.fsencode(entry.name) for entry in os.scandir(fd))
        for name in names:
            if not prefix and name == _LEFT_OUT:
                continue
            path = prefix + name
            with contextlib.suppress(OSError):
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    self._note(fd, name, path, found)
                elif depth >= DEEPEST or len(below) >= 256:
                    # Beyond that many open directories at once, they are read one after another.
                    self._read_later(fd, name, path, depth)
                else:
                    below.append((os.open(name, _DIRECTORY, dir_fd=fd), path + b"/", depth + 1))
        return below

    def _read_later(self, fd: int, name: bytes, path: bytes, depth: int) -> None:
        if depth >= DEEPEST:
            self._found.left_out += 1
            return
        opened = os.open(name, _DIRECTORY, dir_fd=fd)
        stack = [(opened, path + b"/", depth + 1)]
        while stack:
            child, prefix, level = stack.pop()
            try:
                stack += self._read_directory(child, prefix, level)
            finally:
                os.close(child)

    def _note(self, fd: int, name: bytes, path: bytes, found: os.stat_result) -> None:
        if len(self._found.entries) >= self._most:
            self._found.left_out += 1
            return
        self._found.entries[path] = self._entry(fd, name, path, found)

    def _entry(self, fd: int, name: bytes, path: bytes, found: os.stat_result) -> TreeEntry:
        stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(name, dir_fd=fd)
            return TreeEntry(LINK, 0, len(target), content_digest(target), stamp)
        if not stat.S_ISREG(found.st_mode):
            return TreeEntry(SPECIAL, stat.S_IFMT(found.st_mode), 0, "", stamp)
        mode = 0o755 if found.st_mode & 0o100 else 0o644
        known = self._known.get(path)
        if known is not None and known.stamp == stamp and known.size == found.st_size and known.digest:
            return TreeEntry(FILE, mode, found.st_size, known.digest, stamp)
        return TreeEntry(FILE, mode, found.st_size, self._digest(fd, name, found.st_size), stamp)

    def _digest(self, fd: int, name: bytes, size: int) -> str:
        self._hashed += size
        if size > LARGEST_FILE or self._hashed > _MOST_HASHED:
            return ""
        digest = new_content_digest()
        for part in file_content(fd, name, LARGEST_FILE):
            digest.update(part)
        return digest.hexdigest()


def file_content(directory: int, name: bytes, most: int) -> Iterator[bytes]:
    """The content of a regular file in a directory, at most `most` bytes of it; nothing if it is something else."""
    try:
        fd = os.open(name, _FILE, dir_fd=directory)
    except OSError:
        return
    with open(fd, "rb", 0) as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        while most > 0 and (part := file.read(min(_CHUNK, most))):
            most -= len(part)
            yield part


def open_parent(root: int, path: bytes) -> tuple[int, bytes]:
    """A descriptor of the directory that a file of the tree is in, and its name there; no link is followed.

    Raises:
        OSError: a directory on the way does not exist, or is a link.
    """
    fd = os.dup(root)
    *parents, name = path.split(b"/")
    for parent in parents:
        try:
            below = os.open(parent, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd, name


def shown_path(path: bytes) -> str:
    """A path as it is recorded: bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")
