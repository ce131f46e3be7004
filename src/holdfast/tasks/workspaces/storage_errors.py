"""Errors of the disk below a workspace: they are the machine's, and never those of a task.

A disk that is full, that takes no more of a user's files, that may only be read or that fails makes everything fail
that is written to it: the session stops, as it does where the journal cannot be written, and the trial stays
unfinished. Nothing is scored that only failed for want of room.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import StorageFailure

_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_TEST_BYTES = 64 << 10
_TEST_FILE = ".free-space"


def storage_failure(place: Path, reason: str) -> StorageFailure:
    """The error of a session that cannot write there."""
    return StorageFailure(
        f"{place} could not be written: {reason}. All results on record are intact.",
        hint="Free some space or fix the storage, then resume the run.",
    )


@contextlib.contextmanager
def storage_errors(place: Path) -> Iterator[None]:
    """Raises StorageFailure where something below `place` fails because the disk does."""
    try:
        yield
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise storage_failure(place, os.strerror(error.errno)) from error
        raise


def check_disk(place: Path, said: str = "") -> None:
    """To be called after a program has failed that works below `place`; `said` is what it printed.

    Raises:
        StorageFailure: the disk has failed, and the program with it.
    """
    for reason in map(os.strerror, _OF_THE_MACHINE):
        # Git is run in a language that is known. Programs of a task may say anything, so they are not asked.
        if reason in said:
            raise storage_failure(place, reason)
    test = place / _TEST_FILE
    try:
        with storage_errors(place):
            test.write_bytes(bytes(_TEST_BYTES))
    except OSError:
        # A directory that is gone or closed says nothing of the disk.
        return
    finally:
        with contextlib.suppress(OSError):
            test.unlink()
