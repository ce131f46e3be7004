"""The files of a directory as they are: names, types and digests, found without following a link.

Everything is looked at through descriptors of directories, so that a directory that is replaced by a link meanwhile
leads nowhere else. Time and memory are bounded whatever is there: huge files have no digest, what lies too deep or is
too much is counted and left out, and so is what cannot be opened.
"""

from __future__ import annotations

import contextlib
import errno
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
    """How many entries were too many, too deep, or could not be looked at."""


def raise_shortage(error: OSError) -> None:
    """Raises an error that says nothing of the file: too many files are open, or the disk is full or fails."""
    if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}:
        raise error


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
    except OSError as error:
        raise_shortage(error)
        kind = "a link" if root.is_symlink() else "something else"
        raise TreeReplaced(f"the directory was replaced by {kind}") from None


def read_tree(root: Path, known: TreeState | None = None, most: int = MOST_ENTRIES) -> TreeState:
    """What the directory holds; files that have the stamp they are `known` by are not read again.

    Raises:
        TreeReplaced: it is gone, or is a link or a file.
        OSError: too many files are open.
    """
    return _Reader(known or TreeState(), most).read(open_tree(root))


class _OpenDirectory:
    """A directory on the way to the current one, and those in it that are still to be read."""

    def __init__(self, fd: int, prefix: bytes) -> None:
        self.fd, self.prefix = fd, prefix
        self.below: list[bytes] = []


class _Reader:
    def __init__(self, known: TreeState, most: int) -> None:
        self._known, self._most, self._hashed = known.entries, most, 0
        self._found = TreeState({})

    def read(self, root: int) -> TreeState:
        """Takes the descriptor over; open at a time are the directories on the way to the current one, no others."""
        stack = [_OpenDirectory(root, b"")]
        try:
            stack[0].below = self._read_directory(root, b"", 0)
            while stack:
                current = stack[-1]
                if not current.below:
                    os.close(stack.pop().fd)
                    continue
                name = current.below.pop()
                with self._counted():
                    opened = _OpenDirectory(os.open(name, _DIRECTORY, dir_fd=current.fd), current.prefix + name + b"/")
                    stack.append(opened)
                    opened.below = self._read_directory(opened.fd, opened.prefix, len(stack) - 1)
        finally:
            for left in stack:
                os.close(left.fd)
        return self._found

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """What cannot be looked at is left out, and counted."""
        try:
            yield
        except OSError as error:
            raise_shortage(error)
            self._found.left_out += 1

    def _read_directory(self, fd: int, prefix: bytes, depth: int) -> list[bytes]:
        """Takes note of its files; the names of the directories in it, the first one last."""
        below: list[bytes] = []
        with os.scandir(fd) as entries:
            names = sorted(os.fsencode(entry.name) for entry in entries)
        for name in names:
            # Of every repository, at any depth and in any spelling: git takes no patch with such a path.
            if name.lower() == _LEFT_OUT:
                continue
            with self._counted():
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    self._note(fd, name, prefix + name, found)
                elif depth >= DEEPEST:
                    self._found.left_out += 1
                else:
                    below.append(name)
        return below[::-1]

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
        try:
            for part in file_content(fd, name, LARGEST_FILE):
                digest.update(part)
        except OSError as error:
            raise_shortage(error)
            return ""
        return digest.hexdigest()


def file_content(directory: int, name: bytes, most: int) -> Iterator[bytes]:
    """The content of a regular file in a directory, at most `most` bytes of it.

    Raises:
        OSError: it cannot be read, or is something else.
    """
    fd = os.open(name, _FILE, dir_fd=directory)
    with open(fd, "rb", 0) as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
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
