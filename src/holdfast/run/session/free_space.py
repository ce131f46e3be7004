"""A test write before a run is resumed that had to stop because its disk was full.

A model would be called, and paid, before the first reply could be found to have no room.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from holdfast.errors import StorageFailure
from holdfast.run.core.display_text import shell_word
from holdfast.run.fold.reader import RunReader
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.local import read_unrecorded_end

_TEST_BYTES = 256 << 10
"""Room for the first replies: with less, the session would soon stop again."""
_NAME = ".free-space"


def check_free_space(reader: RunReader) -> None:
    """Writes and deletes a file if the newest session had to stop because nothing more could be written.

    Raises:
        StorageFailure: the disk is still full, or still fails.
    """
    if not _has_stopped_for_storage(reader):
        return
    try:
        _test_write(reader.fs, reader.layout.root / _NAME)
    except OSError as error:
        raise StorageFailure(
            f"The last session stopped because nothing more could be written, and that is still so: {error.strerror}."
            " Nothing was called.",
            hint=f"Free some space, then: holdfast resume {shell_word(reader.place)}",
        ) from None


def _has_stopped_for_storage(reader: RunReader) -> bool:
    newest = reader.sessions[-1].number if reader.sessions else 0
    noted = read_unrecorded_end(reader.layout.root)
    codes = [end.exit_code for end in reader.ends if end.number == newest]
    codes += [noted.exit_code] if noted is not None and noted.session == newest else []
    return StorageFailure.exit_code in codes


def _test_write(fs: FileSystem, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.remove(path)
    try:
        file = fs.create(path)
        try:
            file.write(bytes(_TEST_BYTES))
            file.sync()
        finally:
            file.close()
    finally:
        with contextlib.suppress(OSError):
            fs.remove(path)
