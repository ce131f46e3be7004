"""What differs between operating systems: everything else in the program asks here.

Linux has `fdatasync`, `/proc`, process descriptors and `renameat2`. macOS has `F_FULLFSYNC` (its `fsync` leaves the
bytes in the cache of the disk, so a power loss would take them), `sysctlbyname`, `ps`, `F_GETPATH` and `renamex_np`.
Each function takes what exists, and says what it gives where nothing does. Nothing is ever guessed about a process:
where the system does not say whether it lives, that is unknown.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = "/proc"
_NOT_HERE = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.ENODEV}
"""How a filesystem, such as a network share, says that it knows no F_FULLFSYNC."""
_UNOPENED = {errno.ENOENT, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO, errno.EOPNOTSUPP}
"""What opening a file gives that was deleted meanwhile, is a link or a socket, or is not for this user."""
_DELETED = " (deleted)"
"""What Linux appends to the path of an open directory that has no name any more."""
_PATH_BYTES = 1024
"""The buffer that F_GETPATH fills."""
_PS_SECONDS = 10.0
_MMAP_THRESHOLD, _LARGE_BUFFER_BYTES = -3, 256 << 10
"""The number of an option of glibc, and its value."""
_FIELDS_BEFORE_START = 19
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# Memory.


def return_large_buffers() -> None:
    """From now on memory of large buffers goes back to the system as soon as they are freed.

    The allocator of Linux (glibc) has a pool for each thread, and keeps there what the thread has freed once it has
    met large buffers: a process in which several threads work with some megabytes each grows to a multiple of what it
    uses. A fixed threshold ends that; other allocators have no such setting, and none is needed.
    """
    import ctypes  # noqa: PLC0415 - few processes need it

    if (set_option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        set_option(_MMAP_THRESHOLD, _LARGE_BUFFER_BYTES)


# Durable bytes.


def sync_file(fd: int) -> None:
    """Returns once the bytes of a file are on stable storage.

    Raises:
        OSError: they may not be; a failed sync is never retried.
    """
    if (command := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
        _full_sync(fd, command)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_directory(fd: int) -> None:
    """The same of the names in an open directory, or of a file with all that is known of it.

    Raises:
        OSError: as above.
    """
    if (command := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
        _full_sync(fd, command)
    else:
        os.fsync(fd)


def sync_filesystem(place: Path) -> None:
    """Everything that was written below a directory is on disk when this returns.

    Linux syncs its whole file system at once. Elsewhere `sync` only schedules that, so that each file and directory is
    synced by itself, except those that this user may not open.

    Raises:
        OSError: it could not be written.
    """
    import ctypes  # noqa: PLC0415 - for workspaces only

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):
        _sync_tree(place)
        return
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if library.syncfs(fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(place))
    finally:
        os.close(fd)


def _sync_tree(place: Path) -> None:
    for directory, _, names in os.walk(place, topdown=False):
        for name in names:
            _sync_opened(Path(directory, name), sync_file)
        _sync_opened(Path(directory), sync_directory)


def _sync_opened(path: Path, sync: Callable[[int], None]) -> None:
    try:
        # Nothing waits for the other end of a pipe, and a link leads out of the tree.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _UNOPENED:
            return
        raise
    try:
        if stat.S_ISREG(mode := os.fstat(fd).st_mode) or stat.S_ISDIR(mode):
            sync(fd)
    finally:
        os.close(fd)


def _full_sync(fd: int, command: int) -> None:
    try:
        fcntl.fcntl(fd, command)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        # There is nothing stronger on such a filesystem.
        os.fsync(fd)


# Exchanging two directories.

_AT_WORKING_DIRECTORY = -100
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS."""
EXCHANGE_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV})
"""What a filesystem, or a system, says that cannot do it."""


def exchange_directories(one: Path, other: Path) -> None:
    """Gives each of two paths what the other has, in one step that a crash cannot split.

    No other call does that: a rename onto a non-empty directory is refused, and between two renames one name would not
    exist. It is durable once their directories are synced.

    Raises:
        OSError: it was not done; with an error of EXCHANGE_UNSUPPORTED where it cannot be done here.
    """
    import ctypes  # noqa: PLC0415 - for this and for the boot of a machine without /proc only

    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(library, "renameat2"):
        here = _AT_WORKING_DIRECTORY
        failed = library.renameat2(here, names[0], here, names[1], _EXCHANGE) != 0
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(*names, _EXCHANGE) != 0
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(one))
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one))


# Processes.


class ProcessFacts(NamedTuple):
    """What the system says of a process."""

    started: int
    """When it was started, in units of the system: only compared, and 0 where there is no such process."""
    parent: int
    """0 where that is not known."""


_NO_PROCESS = ProcessFacts(0, 0)


def names_processes() -> bool:
    """Whether a process can say cheaply who it is, also in the moment after it was forked."""
    return Path(_PROC, "self", "stat").exists()


def process_facts(pid: int) -> ProcessFacts:
    """What is known of the process with this id; one that has ended, and that nobody has waited for, is gone."""
    fields = _read_kernel_file(f"{_PROC}/{pid}/stat").rpartition(")")[2].split()
    if len(fields) > _FIELDS_BEFORE_START:
        return ProcessFacts(0 if fields[0] == "Z" else int(fields[_FIELDS_BEFORE_START]), int(fields[1]))
    return _NO_PROCESS if names_processes() else _facts_by_ps(pid)


def _facts_by_ps(pid: int) -> ProcessFacts:
    """The same for systems without /proc."""
    found = _ps("-o", "ppid=", "-o", "stat=", "-o", "lstart=", "-p", str(pid)).split()
    try:
        parent, state, *moment = found
        return ProcessFacts(0 if state.startswith("Z") else _seconds_of(moment), int(parent))
    except ValueError:
        return _NO_PROCESS


def _ps(*arguments: str) -> str:
    """What the program `ps` prints; nothing where it cannot be asked."""
    import subprocess  # noqa: PLC0415 - for systems without /proc only

    environment = {"PATH": "/bin:/usr/bin", "LC_ALL": "C", "TZ": "UTC"}
    try:
        return subprocess.run(
            ["/bin/ps", *arguments], capture_output=True, text=True, env=environment, timeout=_PS_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _seconds_of(moment: list[str]) -> int:
    """The seconds since the epoch of what `ps` prints in the locale C: Tue Nov 17 21:07:41 2026."""
    import calendar  # noqa: PLC0415 - as above

    _, month, day, clock, year = moment
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return calendar.timegm((int(year), _MONTHS.index(month) + 1, int(day), hours, minutes, seconds))


def boot_id() -> str:
    """Which start of which machine this is; empty where the system does not say."""
    return _read_kernel_file(f"{_PROC}/sys/kernel/random/boot_id") or _sysctl("kern.bootsessionuuid")


def _sysctl(name: str) -> str:
    import ctypes  # noqa: PLC0415 - for systems without /proc only

    library = ctypes.CDLL(None)
    if not hasattr(library, "sysctlbyname"):
        return ""
    data, size = ctypes.create_string_buffer(128), ctypes.c_size_t(128)
    failed = library.sysctlbyname(name.encode(), data, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else data.value.decode(errors="replace")


def process_namespace() -> str:
    """Within which processes have ids of their own, as in a container; empty where there is no such thing."""
    with contextlib.suppress(OSError):
        return str(Path(_PROC, "self", "ns", "pid").readlink())
    return ""


def all_processes() -> list[int]:
    """The ids of all processes that this one can see; none where only a program could list them."""
    return sorted(int(path.name) for path in Path(_PROC).glob("[0-9]*"))


def child_processes() -> set[int]:
    """The processes that any thread of this one has started, and that have not been waited for."""
    if not names_processes():
        lines = (line.split() for line in _ps("-A", "-o", "pid=", "-o", "ppid=").splitlines())
        return {int(pid) for pid, parent in lines if int(parent) == os.getpid()}
    found: set[int] = set()
    for thread in Path(_PROC, "self", "task").glob("*/children"):
        # A thread may have ended since it was listed.
        with contextlib.suppress(OSError):
            found.update(int(child) for child in thread.read_text().split())
    return found


def command_name(pid: int) -> str:
    """The name of the program that a process executes; `?` where it is not known."""
    return _read_kernel_file(f"{_PROC}/{pid}/comm") or "?"


def process_environment(pid: int) -> list[bytes]:
    """The environment that a process was started with, as far as this user may see it."""
    with contextlib.suppress(OSError):
        return Path(_PROC, str(pid), "environ").read_bytes().split(b"\0")
    return []


def open_files(pid: int) -> Iterator[str]:
    """Paths that lead to the files which a process has open; none where this user or this system cannot see them."""
    with contextlib.suppress(OSError):
        directory = f"{_PROC}/{pid}/fd"
        for descriptor in os.listdir(directory):  # noqa: PTH208 - names only, as many as a process has open
            yield f"{directory}/{descriptor}"


def started_after(pid: int, moment: float) -> bool:
    """Whether a process is known to have been started after a moment, in seconds since the epoch."""
    try:
        return Path(_PROC, str(pid)).stat().st_ctime > moment
    except OSError:
        return not names_processes() and process_facts(pid).started > moment


# Open directories.


def path_of_descriptor(fd: int) -> Path | None:
    """A path that leads to an open directory whatever its name is by now; None where this system has no such path."""
    path = Path(_PROC, "self", "fd", str(fd))
    return path if path.exists() else None


def name_of_directory(fd: int) -> Path | None:
    """Where an open directory is now; None where it has no name or this system does not say."""
    with contextlib.suppress(OSError):
        found = Path(_PROC, "self", "fd", str(fd)).readlink()
        return None if found.name.endswith(_DELETED) else found
    with contextlib.suppress(OSError):
        # Of a directory that was deleted it may give the old name: callers compare what is there.
        if (command := getattr(fcntl, "F_GETPATH", None)) is not None:
            return Path(os.fsdecode(fcntl.fcntl(fd, command, bytes(_PATH_BYTES)).rstrip(b"\0")))
    return None


def is_deleted(fd: int) -> bool:
    """Whether an open directory has no name any more, as far as that can be known."""
    with contextlib.suppress(OSError):
        return Path(_PROC, "self", "fd", str(fd)).readlink().name.endswith(_DELETED)
    return os.fstat(fd).st_nlink == 0


def _read_kernel_file(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return ""
