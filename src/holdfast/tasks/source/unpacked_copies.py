"""Copies of code that are unpacked from a run, so that they can be imported: where they are, and what they stand for.

Code that is loaded from a copy may import its neighbours as long as the process lives. Its directory is deleted when
the process ends; who ends the process without Python's own clean-up calls `remove_directories` before.
"""

from __future__ import annotations

import os
from pathlib import Path

_DIRECTORIES: list[Path] = []
_ORIGINALS: dict[Path, Path] = {}
"""By the copy of a file, where that file was."""


def new_directory() -> Path:
    """An empty directory for copies."""
    # Loaded for a run whose files are gone, which is rare.
    import atexit  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    directory = Path(tempfile.mkdtemp(prefix="holdfast-code-")).resolve()
    if not _DIRECTORIES:
        atexit.register(remove_directories)
    _DIRECTORIES.append(directory)
    return directory


def remove_directories() -> None:
    """Deletes every directory of copies; nothing can be loaded from them any more."""
    import shutil  # noqa: PLC0415 - see above

    for directory in _DIRECTORIES:
        shutil.rmtree(directory, ignore_errors=True)


def directory_of(path: Path) -> Path | None:
    """The directory of copies that a file was loaded from, if it was."""
    return next((directory for directory in _DIRECTORIES if path.is_relative_to(directory)), None)


def remember_original(copy: Path, original: Path) -> None:
    """From now on, `copy` and its neighbours stand for `original` and the files around that."""
    _ORIGINALS[copy] = original


def original_path(path: Path) -> Path:
    """Where a file was before it was loaded from a copy; a file that is not a copy is itself."""
    directory = directory_of(path)
    if directory is None:
        return path
    if path in _ORIGINALS:
        return _ORIGINALS[path]
    known = next((copy for copy in _ORIGINALS if copy.is_relative_to(directory)), None)
    if known is None:
        return path
    return Path(os.path.normpath(_ORIGINALS[known].parent / os.path.relpath(path, known.parent)))
