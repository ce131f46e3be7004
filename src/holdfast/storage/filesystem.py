"""The file system: the only way to the disk for durable bytes.

Every byte of a run that must survive goes through a FileSystem: a test replaces it with a recording or a failing one
and sees exactly what was written, synced and renamed, in which order. The derived index is the one exception: SQLite
keeps its own file, and losing that costs time, never data.

Contract, the same for every implementation:
- `create` makes a file that did not exist, or raises FileExistsError; nothing is ever opened to be changed.
- `write` writes all bytes or raises OSError; a part of them may then be in the file.
- `sync` returns once the bytes are on stable storage, or raises; a failed sync is never retried.
- A name made by `create`, `rename` or `make_directory` survives a power loss only after `sync_directory` of its parent.
"""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.storage.operating_system import sync_directory, sync_file

_NOT_OURS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.EOPNOTSUPP}
"""Errors of a directory that somebody else made and keeps: this process could not have changed it either."""


class FileIdentity(NamedTuple):
    """Which file it is, whatever its name."""

    device: int
    inode: int


def open_identity(fd: int) -> FileIdentity:
    """Which file a descriptor is open on."""
    found = os.fstat(fd)
    return FileIdentity(found.st_dev, found.st_ino)


def is_file_at(path: Path | str, identity: FileIdentity) -> bool:
    """Whether this very file is at `path`; a path that leads nowhere has none.

    Raises:
        OSError: it cannot be said, as where a permission is missing.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - asked for every frame: a Path would cost more than the call
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (found.st_dev, found.st_ino) == identity


class AppendFile(Protocol):
    """A file that this process created and only appends to."""

    def write(self, data: bytes) -> None: ...
    def sync(self) -> None: ...
    def is_at(self, path: Path) -> bool:
        """Whether `path` still leads to this very file."""

    def close(self) -> None: ...


class ReadFile(Protocol):
    """A file open for reading; others may be appending to it."""

    def size(self) -> int: ...
    def read_at(self, offset: int, size: int) -> bytes: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class FileSystem(Protocol):
    """Everything that a run does to a disk."""

    def create(self, path: Path) -> AppendFile: ...
    def open(self, path: Path) -> ReadFile: ...
    def rename(self, old: Path, new: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def remove_tree(self, path: Path) -> None: ...
    def make_directory(self, path: Path) -> None: ...
    def sync_directory(self, path: Path) -> None: ...
    def list(self, path: Path) -> list[str]: ...
    def lock(self, path: Path, *, shared: bool = False) -> int | None: ...


class _RealAppendFile:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._identity = open_identity(self._fd)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def sync(self) -> None:
        sync_file(self._fd)

    def is_at(self, path: Path) -> bool:
        return is_file_at(path, self._identity)

    def close(self) -> None:
        os.close(self._fd)


class _RealReadFile:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def sync(self) -> None:
        sync_file(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class RealFileSystem:
    """The machine's own file system."""

    def create(self, path: Path) -> AppendFile:
        return _RealAppendFile(path)

    def open(self, path: Path) -> ReadFile:
        return _RealReadFile(path)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_tree(self, path: Path) -> None:
        import shutil  # noqa: PLC0415 - readers remove nothing

        shutil.rmtree(path)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_directory(fd)
        finally:
            os.close(fd)

    def list(self, path: Path) -> list[str]:
        return sorted(item.name for item in path.iterdir())

    def lock(self, path: Path, *, shared: bool = False) -> int | None:
        """The descriptor that holds the lock on `path` while it is open, or None while another holds it.

        Any number of processes may have a `shared` lock, while nobody has the other kind.

        Raises:
            OSError: this filesystem has no locks, or the path cannot be opened.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        return fd


def write_atomically(fs: FileSystem, path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """Puts `data` at `path`: after a crash the old content is there or the new, never a mixture.

    `like` is a file whose permissions it gets, and whose owner where this process may give files away.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    if temporary.exists():
        fs.remove(temporary)
    try:
        _write_new(fs, temporary, data, like)
        fs.rename(temporary, path)
    except OSError:
        # A full disk needs the room, and nobody else would remove it.
        with contextlib.suppress(OSError):
            fs.remove(temporary)
        raise
    fs.sync_directory(path.parent)


def _write_new(fs: FileSystem, path: Path, data: bytes, like: os.stat_result | None) -> None:
    file = fs.create(path)
    try:
        if like is not None:
            _make_like(path, like)
        file.write(data)
        file.sync()
    finally:
        file.close()


def _make_like(path: Path, like: os.stat_result) -> None:
    """Before anything is in the file, so that nobody reads it meanwhile who may not."""
    path.chmod(stat.S_IMODE(like.st_mode) & 0o700)
    with contextlib.suppress(PermissionError):
        os.chown(path, like.st_uid, like.st_gid)
    path.chmod(stat.S_IMODE(like.st_mode))


def sync_name(fs: FileSystem, path: Path) -> None:
    """Makes the name of `path` durable, if this process may sync its directory."""
    try:
        fs.sync_directory(path.parent)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise


def read_bytes(fs: FileSystem, path: Path) -> bytes:
    """The whole content of a small file."""
    file = fs.open(path)
    try:
        size = file.size()
        parts: list[bytes] = []
        offset = 0
        while offset < size and (part := file.read_at(offset, min(size - offset, 1 << 24))):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)
    finally:
        file.close()
