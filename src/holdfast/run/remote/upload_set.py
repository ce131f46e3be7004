"""Which files of a spool are in the store, and the upload of those that are not.

The files that a segment refers to (blobs, inputs, artifacts) are uploaded before it, so that everything in the store
can be read. A name alone proves nothing: if the store holds a segment with other bytes than the spool, that is a
conflict. Neither is changed, the other segments are uploaded, and both are reported; once the object has been moved
away, the segment is uploaded too.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from holdfast.errors import SegmentConflict
from holdfast.journal.frame import HEADER_SIZE, decode_header
from holdfast.journal.segment import SegmentId, parse_name, segment_location
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import Layout
from holdfast.run.core.run_id import find_run_id
from holdfast.run.remote.artifact_files import ArtifactFiles
from holdfast.run.remote.healing import is_intact_file, is_intact_object
from holdfast.run.remote.upload_lag import UploadLag
from holdfast.run.remote.upload_watermark import ConfirmedSegments, confirmed_segments
from holdfast.storage.filesystem import RealFileSystem
from holdfast.storage.object_comparison import ObjectComparison
from holdfast.storage.object_store import ObjectStore, StoredObject

_TAIL_BYTES = 4096
"""Of a sealed segment that is its footer, which vouches for everything before it."""


def segment_key(ident: SegmentId, *, sealed: bool) -> str:
    """The object of a segment."""
    return f"journal/{ident.filename(sealed=sealed)}"


def _upload_order(ident: SegmentId) -> tuple[int, int, int]:
    """The first writer of a session comes last: its end vouches for the segments of the others."""
    return ident.session, -ident.writer, ident.number


class UploadSet:
    """The files of a spool and the objects of its store. Not for use from two threads at once."""

    def __init__(self, store: ObjectStore, layout: Layout) -> None:
        """Looks at what is in the store already.

        Raises:
            StorageFailure: it cannot be reached.
        """
        self.store, self.layout = store, layout
        self.lag = UploadLag()
        self.segments_uploaded = 0
        """By this process."""
        self._conflicts: dict[str, SegmentConflict] = {}
        self._others: dict[int, tuple[int, int]] = {}
        """By other writers of the session, the last segment and the last frame that are in the store."""
        self._compared = ObjectComparison(store, layout.root)
        self._uploaded = {entry.key for entry in store.list() if self._is_same_file(entry)}
        self._compared.save()
        self._artifacts = ArtifactFiles(layout)
        self._artifacts.take_as_uploaded(self._uploaded)

    def _is_same_file(self, entry: StoredObject) -> bool:
        """Whether an object is what the spool has under its name, if it has anything."""
        path = self.layout.root / entry.key
        return (
            not entry.key.startswith("journal/")
            or not path.is_file()
            or self._compared.is_same(entry, path, _TAIL_BYTES)
        )

    def is_uploaded(self, key: str) -> bool:
        return key in self._uploaded

    @property
    def conflict(self) -> SegmentConflict | None:
        """One of the segments that the store holds with other bytes, if it holds any so."""
        return next(iter(self._conflicts.values()), None)

    def confirmed(self) -> ConfirmedSegments:
        """Of each writer in the spool, the last segment that is in the store with all before it."""
        return confirmed_segments(self.layout.journal, lambda path: self.is_uploaded(f"journal/{path.name}"))

    def only_conflicts_remain(self, *, everything: bool) -> bool:
        """Whether everything that `missing` lists is uploaded, except conflicts that only a person can resolve."""
        return {f"journal/{path.name}" for path in self.missing(everything=everything)} <= self._conflicts.keys()

    def missing(self, *, everything: bool = False) -> list[Path]:
        """The sealed segments that are not uploaded; with `everything`, also those that never were sealed."""
        found = []
        for path in self.layout.journal.iterdir():
            parsed = parse_name(path.name)
            if parsed and (parsed[1] or everything) and f"journal/{path.name}" not in self._uploaded:
                found.append((_upload_order(parsed[0]), path))
        return [path for _, path in sorted(found)]

    def upload(self, *, everything: bool = False) -> None:
        """Uploads every sealed segment that the store has room for and does not have, and before each what it cites.

        With `everything`, also unsealed segments of sessions that have ended: nobody will write to them again.

        Raises:
            StorageFailure: the store did not take something; what was uploaded stays.
        """
        missing = self.missing(everything=everything)
        self.lag.segments, self.lag.bytes = len(missing), sum(path.stat().st_size for path in missing)
        if missing:
            self._upload_cited()
        for path in missing:
            self._upload_segment(f"journal/{path.name}", path)
        if missing or everything:
            self._upload_config()

    def uploaded_by_others(self, session: int, own: int) -> dict[int, int]:
        """By writer of the session, without `own`, the last frame that is in the store with all before it.

        A segment of another process is looked at once, when it is there; its writer is the only one who knew before.
        """
        found = sorted(
            (parsed[0], path)
            for path in self.layout.journal.iterdir()
            if (parsed := parse_name(path.name)) and parsed[0].session == session and parsed[0].writer != own
        )
        for ident, path in found:
            number, _ = self._others.get(ident.writer, (0, 0))
            if ident.number == number + 1 and f"journal/{path.name}" in self._uploaded:
                self._others[ident.writer] = (ident.number, self._last_seq(ident, path))
        return {writer: seq for writer, (_, seq) in self._others.items()}

    def _last_seq(self, ident: SegmentId, path: Path) -> int:
        """The last frame of a segment, or the last one before it if it has none."""
        file = RealFileSystem().open(path)
        try:
            header = decode_header(file.read_at(0, HEADER_SIZE))
            scan = SegmentScan(file, header.run if header is not None else b"", ident, segment_location(path))
            deque(scan.frames(), maxlen=0)
            return max(scan.last_seq, self._others.get(ident.writer, (0, 0))[1])
        finally:
            file.close()

    def _upload_segment(self, key: str, path: Path) -> None:
        if key in self._conflicts and self.store.head(key, 1):
            return
        try:
            self.store.put_segment(key, path)
        except SegmentConflict as conflict:
            self._conflicts[key] = self._explain_conflict(key, path, conflict)
            return
        self._conflicts.pop(key, None)
        self._uploaded.add(key)
        self.segments_uploaded += 1
        self.lag.segments -= 1
        self.lag.bytes -= path.stat().st_size

    def _explain_conflict(self, key: str, path: Path, conflict: SegmentConflict) -> SegmentConflict:
        """As it is, unless the object is damaged and the segment here is not: then there is nothing to choose."""
        run = find_run_id(RealFileSystem(), self.layout)
        found = next((entry for entry in self.store.list(key.rpartition("/")[0]) if entry.key == key), None)
        if found is None or is_intact_object(self.store, found, run) or not is_intact_file(path, run):
            return conflict
        url = self.store.url
        return SegmentConflict(
            f"{url}/{key} is damaged; {path} is intact. Neither was changed.",
            hint=f"Write it again from the copy here with: holdfast repair {shell_word(url)}",
        )

    def _upload_cited(self) -> None:
        for directory in (self.layout.inputs, self.layout.blobs):
            for path in sorted(directory.rglob("*")) if directory.is_dir() else []:
                key = str(path.relative_to(self.layout.root))
                if path.is_file() and not path.name.startswith(".") and key not in self._uploaded:
                    self.store.put_file(key, path)
                    self._uploaded.add(key)
        self._artifacts.upload_changed(self.store)

    def _upload_config(self) -> None:
        for name in ("config.yaml", "serving.yaml"):
            path = self.layout.root / name
            if path.is_file():
                self.store.put_file(name, path)
