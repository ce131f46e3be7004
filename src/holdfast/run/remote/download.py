"""Downloading a run from an object store into a directory: its segments, and what they cite.

Nothing in the directory is lost: existing files are kept, and only with `merge` a segment with missing frames gets
them from the other copy. An object that is missing, or not a segment of the run, is skipped with a warning that names
it; of a damaged one the intact frames are downloaded, and it is named too. A few objects are downloaded at a time,
each in pieces, so memory does not grow with the run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import NotARun, StorageFailure
from holdfast.journal import SegmentFile, SegmentId
from holdfast.journal.segment import parse_name, segment_location
from holdfast.journal.segment_salvage import SegmentCopy, merge_copies
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.core.layout import Layout
from holdfast.run.core.run_id import find_run_id, first_header_in_file
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.remote.run_objects import (
    content_digest_of,
    is_downloaded,
    is_named_by_digest,
    list_run_objects,
    run_id_in_store,
)
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import RealFileSystem
from holdfast.storage.object_store import ObjectStore, StoredObject

_FETCHING = ".fetching-"
_FETCHERS, _CHECKERS = 4, 1
"""Downloads mostly wait, so there are many at once; checking takes a core and the memory of a frame."""


@dataclass
class DownloadedRun:
    """What a download did."""

    fetched: int = 0
    bytes: int = 0
    already: int = 0
    warnings: list[str] = field(default_factory=list)

    def add(self, other: DownloadedRun) -> None:
        self.fetched += other.fetched
        self.bytes += other.bytes
        self.already += other.already
        self.warnings += other.warnings


def download_run(
    store: ObjectStore,
    root: Path,
    entries: list[StoredObject] | None = None,
    *,
    merge: bool = False,
    run_scan: RunScan | None = None,
) -> DownloadedRun:
    """Downloads every object of the run that is not in `root` yet, some at a time; `run_scan` gets the segments.

    Raises:
        NotARun: there is no segment at the URL, or nothing readable in any.
        StorageFailure: the store does not answer, or the directory cannot be written.
    """
    entries = list_run_objects(store) if entries is None else entries
    layout = Layout(root)
    for directory in (root, layout.journal, layout.inputs, layout.blobs, layout.artifacts):
        directory.mkdir(parents=True, exist_ok=True)
    if not merge and all(is_downloaded(root, entry) for entry in entries):
        return DownloadedRun(already=len(entries))
    with tempfile.TemporaryDirectory(prefix=_FETCHING, dir=root) as fetching:
        downloaded = _Download(store, root, Path(fetching), entries, merge=merge, run_scan=run_scan).run(entries)
    _sync_directories(root)
    crashpoints.reach("recover.brought")
    return downloaded


def remove_partial_downloads(root: Path) -> None:
    """Removes what an earlier download to this directory left when it was killed; no other may be running."""
    for path in root.glob(f"{_FETCHING}*"):
        shutil.rmtree(path, ignore_errors=True)


def _sync_directories(root: Path) -> None:
    fs, layout = RealFileSystem(), Layout(root)
    below = (path for path in layout.artifacts.rglob("*") if path.is_dir())
    for directory in (*below, layout.journal, layout.inputs, layout.blobs, layout.artifacts, root):
        fs.sync_directory(directory)


class _Download:
    """One download: objects are downloaded by some threads, and checked and put in their places by others."""

    def __init__(
        self,
        store: ObjectStore,
        root: Path,
        fetching: Path,
        entries: list[StoredObject],
        *,
        merge: bool,
        run_scan: RunScan | None,
    ) -> None:
        self._store, self._root, self._fetching, self._merge, self._run_scan = store, root, fetching, merge, run_scan
        self._fs = RealFileSystem()
        self._run = run_scan.run if run_scan is not None else b""
        if entries and not self._run:
            self._run = self._find_run(entries)

    def _find_run(self, entries: list[StoredObject]) -> bytes:
        """Which run it is: by what is here, if anything is."""
        try:
            return find_run_id(self._fs, Layout(self._root))
        except NotARun:
            return run_id_in_store(self._store, entries)

    def run(self, entries: list[StoredObject]) -> DownloadedRun:
        """Downloads all of it; of what fails, the first in the order of the entries is raised."""
        downloaded = DownloadedRun()
        with ThreadPoolExecutor(_FETCHERS) as fetchers, ThreadPoolExecutor(_CHECKERS) as checkers:
            try:
                fetched = [fetchers.submit(self._fetch, place, entry) for place, entry in enumerate(entries)]
                placed = [checkers.submit(self._place, *part.result()) for part in fetched]
                for part in placed:
                    downloaded.add(part.result())
            except OSError as error:
                raise StorageFailure(f"{self._root} cannot be written: {error.strerror}.") from error
            finally:
                fetchers.shutdown(wait=False, cancel_futures=True)
                checkers.shutdown(wait=False, cancel_futures=True)
        return downloaded

    def _fetch(self, place: int, entry: StoredObject) -> tuple[StoredObject, Path | None, DownloadedRun]:
        """Downloads one object, unless it is here: where to, and what there is to report of it."""
        path, target, downloaded = self._fetching / str(place), self._root / entry.key, DownloadedRun()
        if is_downloaded(self._root, entry) and not (self._merge and self._may_be_better(target, entry)):
            downloaded.already += 1
            return entry, None, downloaded
        try:
            self._store.fetch(entry.key, path)
        except FileNotFoundError:
            downloaded.warnings.append(f"{entry.key} is no longer in the store and was skipped.")
            return entry, None, downloaded
        except StorageFailure as failure:
            # The store answers, and only this object failed. A store that does not answer ends the download.
            self._store.list(entry.key)
            downloaded.warnings.append(f"{entry.key} could not be downloaded and was skipped: {failure.message}")
            return entry, None, downloaded
        crashpoints.reach("recover.fetched")
        return entry, path, downloaded

    def _may_be_better(self, target: Path, entry: StoredObject) -> bool:
        """Whether the copy of a segment here has lost something that the store may have."""
        parsed = parse_name(target.name)
        if parsed is None or not entry.key.startswith("journal/") or not target.exists():
            return False
        own = SegmentCopy(self._fs, target, self._run, parsed[0])
        return bool(own.damage) or (parsed[1] and own.footer is None)

    def _place(self, entry: StoredObject, fetched: Path | None, downloaded: DownloadedRun) -> DownloadedRun:
        """Puts what was downloaded in its place, if it is worth having."""
        if fetched is None:
            return downloaded
        size, target = fetched.stat().st_size, self._root / entry.key
        if self._accept(entry, fetched, target, downloaded.warnings):
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.at:
                # So that people are shown when the run was last written, not when it was downloaded.
                os.utime(fetched, (entry.at, entry.at))
            fetched.replace(target)
            crashpoints.reach("recover.taken")
            downloaded.fetched += 1
            downloaded.bytes += size
        fetched.unlink(missing_ok=True)
        return downloaded

    def _accept(self, entry: StoredObject, fetched: Path, target: Path, warnings: list[str]) -> bool:
        if entry.key.startswith("journal/"):
            return self._accept_segment(fetched, target, warnings)
        if is_named_by_digest(entry.key) and not self._is_intact(entry, fetched):
            warnings.append(f"{entry.key} was skipped: it is damaged in the store; the run refers to it.")
            return False
        return True

    def _is_intact(self, entry: StoredObject, fetched: Path) -> bool:
        """Whether a file has the content that it is named by; one that has not is downloaded once more."""
        name = entry.key.rpartition("/")[2]
        if content_digest_of(fetched) == name:
            return True
        fetched.unlink()
        try:
            self._store.fetch(entry.key, fetched)
        except (FileNotFoundError, StorageFailure):
            fetched.touch()
        return content_digest_of(fetched) == name

    def _accept_segment(self, temporary: Path, target: Path, warnings: list[str]) -> bool:
        """Checks a downloaded segment; whether it is worth having."""
        parsed, first, where = (
            parse_name(target.name),
            first_header_in_file(self._fs, temporary),
            segment_location(target),
        )
        if parsed and not parsed[1] and first is None:
            # Left by a session that ended before the last segment had a complete header; no data is lost.
            return not target.exists()
        if parsed is None or first is None or first.run != self._run:
            why = f"it belongs to another run ({first.run.hex()})" if first else "nothing in it can be read"
            warnings.append(f"{where} was skipped: {why}.")
            return False
        if target.exists():
            return self._merge_copies(temporary, target, parsed[0])
        scan = self._check_frames(temporary, SegmentFile(*parsed, target))
        losses = [damage.without_place() for damage in scan.damage if damage.is_loss]
        if losses or (parsed[1] and not scan.sealed):
            detail = "; ".join(losses[:3]) or "its end is missing"
            warnings.append(f"{where} is damaged in the store; its intact part was recovered ({detail}).")
        return True

    def _check_frames(self, path: Path, segment: SegmentFile) -> SegmentScan:
        """Checks every frame of a segment that is about to be put in its place."""
        file = self._fs.open(path)
        try:
            scan = SegmentScan(file, self._run, segment.ident, segment.where)
            if self._run_scan is not None:
                self._run_scan.add_segment(segment, scan)
            else:
                deque(scan.frames(), maxlen=0)
        finally:
            file.close()
        return scan

    def _merge_copies(self, temporary: Path, target: Path, ident: SegmentId) -> bool:
        """Combines what is intact in both copies; whether that is more than was here."""
        here, there = (SegmentCopy(self._fs, path, self._run, ident) for path in (target, temporary))
        if not here.lacks(there):
            return False
        both = temporary.with_suffix(".both")
        merge_copies(self._fs, [here, there], both)
        both.replace(temporary)
        return True
