"""Makes Python look as it does on macOS, as far as this program can see; put on PYTHONPATH, it is loaded first.

There is no `fdatasync`, no `/proc`, no process descriptor and no `renameat2`; there are `F_FULLFSYNC`, `renamex_np` and
`sysctlbyname`. Every sync is counted in the file that SYNC_LOG names: `full` or `weak`.
"""

import builtins
import ctypes
import errno
import fcntl
import io
import os
import signal

FULL_SYNC = 51
_BOOT = b"9B0A1D6E-0000-4000-8000-000000000001"
_library = ctypes.CDLL(None, use_errno=True)
_fsync, _fcntl, _open = os.fsync, fcntl.fcntl, os.open


def _is_hidden(path):
    try:
        text = os.fsdecode(path)
    except TypeError:
        return False
    return text == "/proc" or text.startswith("/proc/")


def _hiding(function):
    def call(path, *args, **kwargs):
        if _is_hidden(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return function(path, *args, **kwargs)

    return call


def _note(kind):
    if log := os.environ.get("SYNC_LOG"):
        fd = _open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, kind.encode() + b"\n")
        os.close(fd)


def _weak_sync(fd):
    _note("weak")
    _fsync(fd)


def _controlled(fd, command, *args):
    if command != FULL_SYNC:
        return _fcntl(fd, command, *args)
    _note("full")
    _fsync(fd)
    return 0


class _Library:
    @staticmethod
    def renamex_np(one, other, flags):
        return _library.renameat2(-100, one, -100, other, flags)

    @staticmethod
    def sysctlbyname(name, data, _size, _new, _new_size):
        if name != b"kern.bootsessionuuid":
            return -1
        data.value = _BOOT
        return 0


class _CDLL(ctypes.CDLL):
    def __new__(cls, name=None, *_args, **_kwargs):
        return _Library() if name is None else super().__new__(cls)


for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access"):
    setattr(os, name, _hiding(getattr(os, name)))
builtins.open = io.open = _hiding(io.open)
os.fsync = _weak_sync
fcntl.F_FULLFSYNC, fcntl.fcntl = FULL_SYNC, _controlled
ctypes.CDLL = _CDLL
for module, name in ((os, "fdatasync"), (os, "pidfd_open"), (signal, "pidfd_send_signal")):
    delattr(module, name)
