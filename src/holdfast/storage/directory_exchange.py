"""Exchanging two directories in one step that a crash cannot split.

No other system call does that: a rename onto a non-empty directory is refused, and between two renames one name would
not exist. Not part of a FileSystem, because nothing but cleaning needs it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_HERE = -100
_EXCHANGE = 2
EXCHANGE_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV})
"""What a filesystem, or a system, says that cannot do it."""


def exchange_directories(one: Path, other: Path) -> None:
    """Gives each of two paths what the other has; durable once their directories are synced.

    Raises:
        OSError: it was not done; with an error of UNSUPPORTED where it cannot be done here.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(one))
    if library.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one))
