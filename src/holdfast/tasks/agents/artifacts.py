"""The files of a trial that are kept in the run: outputs, the patch, the script that runs the agent once more.

They are in `artifacts/<trial>`, those of a later attempt in `attempt-N` there. Each is written as a whole before a
record cites it by its digest.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.digests import content_digest
from holdfast.storage.filesystem import RealFileSystem, write_atomically

LONGEST_TEXT = 1_000_000
"""Characters of a final message, and of a patch, that an answer has at most: a record holds several copies of it."""


class TrialArtifacts:
    """Where the files of one attempt are kept."""

    def __init__(self, run: Path, key: str, attempt: int) -> None:
        self._run = run.absolute()
        self._root = self._run / "artifacts" / key
        if attempt > 1:
            self._root /= f"attempt-{attempt}"

    def path(self, name: str) -> Path:
        """Where a file of that name is kept."""
        return self._root / name

    def _make_root(self) -> None:
        """Makes its directory, which survives a power loss once each new one is known to the one above it."""
        new = [place for place in (self._root, *self._root.parents) if not place.exists()]
        self._root.mkdir(parents=True, exist_ok=True)
        for place in reversed(new):
            RealFileSystem().sync_directory(place.parent)

    def keep(self, name: str, data: bytes, *, executable: bool = False) -> dict[str, Any]:
        """Writes one file; what a record says of it.

        Raises:
            OSError: the disk failed.
        """
        self._make_root()
        write_atomically(RealFileSystem(), self._root / name, data)
        if executable:
            (self._root / name).chmod(0o755)
        place = str((self._root / name).relative_to(self._run))
        return {"path": place, "bytes": len(data), "digest": content_digest(data)}


def cited_files(*kept: object) -> dict[str, str]:
    """What records say of files that were kept, as the end of a trial cites them: paths in the trial's directory."""
    found = [one for one in kept if isinstance(one, Mapping) and {"path", "digest"} <= one.keys()]
    return {str(one["path"]).split("/", 2)[-1]: str(one["digest"]) for one in found}


def read_own_file(path: Path, most: int) -> bytes:
    """A file that an agent could have replaced: read without following a link, without waiting, and no further."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return file.read(most)
    return b""
