"""Files that the records of a run refer to and that are damaged or missing: made again where that is possible.

The copy of an input is made again from its original, if that still has exactly the content on record; what is replaced
is copied to the backup first. All others are named: no repair can tell what was in them.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.journal import BlobStore
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import Layout
from holdfast.run.fold.reader import RunReader
from holdfast.run.repair.backup import Backup
from holdfast.run.repair.recording_session import DamagedCopy, Planner
from holdfast.run.verify.verify import artifact_damage
from holdfast.run.verify.verifying_fold import VerifyingFold
from holdfast.storage import take_lease
from holdfast.storage.filesystem import FileSystem


class CitedFiles:
    """What is wrong with the inputs and artifacts of one run."""

    def __init__(self, layout: Layout, fs: FileSystem, backup: Backup) -> None:
        self._layout, self._fs, self._backup = layout, fs, backup
        self._copies: list[DamagedCopy] = []
        self.lost: list[str] = []
        """What cannot be made again."""

    def check(self, reader: RunReader, fold: VerifyingFold, planner: Planner) -> None:
        """Finds out what is wrong; `reader` has folded the run from its frames with `fold`."""
        found = planner.damaged_copies(reader) if reader.sessions else []
        self._copies = [copy for copy in found if copy.source is not None]
        self.lost = [_lost_text(copy, reader.place) for copy in found if copy.source is None]
        self.lost += [str(damage) for damage in artifact_damage(reader, fold)]

    def repair(self) -> Iterator[str]:
        """Makes copies again; gives what was done, one by one.

        Raises:
            RunHeld: a session is using the run.
            OSError: the disk failed.
        """
        if not self._copies:
            return
        lease = take_lease(self._fs, self._layout.root)
        try:
            for copy in self._copies:
                yield self._restore(copy)
        finally:
            lease.release()

    def _restore(self, copy: DamagedCopy) -> str:
        path = self._layout.root / copy.damage.where
        if path.is_file() and not path.is_symlink():
            self._backup.copy(path)
        if copy.source is not None:
            BlobStore(self._fs, self._layout.inputs).put_file(copy.source)
        return f"{copy.damage.where}, the run's copy of {copy.name}, was damaged or missing; it was made again."


def _lost_text(copy: DamagedCopy, place: str) -> str:
    way = "its original is gone or is not the same any more; restore either from a backup"
    if not copy.was_sought:
        resume = f"`holdfast resume {shell_word(place)}` makes it again if its original is the same"
        way = f"its task was not loaded to look for the original; {resume}"
    return f"{copy.damage} (the run's copy of {copy.name}); {way}"
