"""Writers and readers that break one promise each: a check that does not catch them is worth nothing.

Each mutant changes the real classes in one place, through a `patch` that can set an attribute.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from gates import GatedAppendFile, GatedFileSystem

from holdfast.journal import BlobStore, Index, JournalWriter, RecordId
from holdfast.journal import reader as directory_module
from holdfast.journal.frame import HEADER_SIZE, Frame, Origin, decode_header
from holdfast.journal.segment import SegmentWriter, parse_name
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.session import create as create_module
from holdfast.run.session import open as opening_module
from holdfast.run.session import writer_options
from holdfast.run.session.session import RunSession
from holdfast.storage.filesystem import AppendFile, FileSystem, RealFileSystem, is_file_at, open_identity
from holdfast.testing import FileNode, RecordingFileSystem
from holdfast.testing.recording_filesystem import _RecordingAppendFile


class Patch(Protocol):
    """What applies a mutant: pytest's monkeypatch, or a process that is to be killed anyway."""

    def setattr(self, target: Any, name: str, value: Any) -> None: ...


Mutant = Callable[[Patch], None]


def _do_nothing(*_arguments: object, **_options: object) -> None:
    pass


class _Without:
    """A FileSystem that leaves an operation out, on every path or on one."""

    def __init__(self, inner: FileSystem, operation: str, path: Path | None = None) -> None:
        self.inner, self._operation, self._path = inner, operation, path

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.inner, name)
        if name != self._operation:
            return real
        return lambda path: None if self._path in {None, path} else real(path)


# Frames.


def no_sync(patch: Patch) -> None:
    """Frames are written and acknowledged, and never synced."""
    patch.setattr(SegmentWriter, "_write_synced", lambda self, frame: self._file.write(frame))


def early_acknowledgement(patch: Patch) -> None:
    """Producers are woken before their frame is on disk."""

    def write(self: JournalWriter, batch: list[Any]) -> None:
        if self._segment.bytes >= self._segment_bytes:
            self._roll_segment()
        self.queue.acknowledge(batch, Origin(self.session, self.writer, self._segment.next_seq))
        self._segment.append([item.line for item in batch], [item.key for item in batch if item.key])

    patch.setattr(JournalWriter, "_write_batch", write)


def forgiven_sync(patch: Patch) -> None:
    """A sync that fails is taken for one that worked."""

    def write(self: SegmentWriter, frame: bytes) -> None:
        self._file.write(frame)
        with contextlib.suppress(OSError):
            self._file.sync()

    patch.setattr(SegmentWriter, "_write_synced", write)


def buffered(patch: Patch) -> None:
    """Frames after the first gather in the process, and reach the file when the segment is sealed."""
    seal, write_through = SegmentWriter.seal, SegmentWriter._write_synced

    def write(self: SegmentWriter, frame: bytes) -> None:
        if self.frames:
            self.__dict__.setdefault("held", []).append(frame)
        else:
            write_through(self, frame)

    def write_and_seal(self: SegmentWriter, *, successor: bool) -> None:
        self._file.write(b"".join(self.__dict__.pop("held", [])))
        seal(self, successor=successor)

    patch.setattr(SegmentWriter, "_write_synced", write)
    patch.setattr(SegmentWriter, "seal", write_and_seal)


# Segments.


def old_segment(patch: Patch) -> None:
    """A session goes on in the newest unsealed segment instead of opening one of its own."""
    open_first = JournalWriter._open_first

    def reopen_newest(self: JournalWriter) -> SegmentWriter:
        old = sorted(self._directory.glob("*.open.jsonl.zst"))
        if not old:
            return open_first(self)
        ident, _ = parse_name(old[-1].name) or (None, False)
        return SegmentWriter(_Reopening(self._fs, "create"), self._directory, self._run, ident, _next_seq(old[-1]))

    patch.setattr(JournalWriter, "_open_first", reopen_newest)


def _next_seq(path: Path) -> int:
    data, offset, seq = path.read_bytes(), 0, 0
    while (header := decode_header(data, offset)) is not None:
        seq, offset = header.seq, offset + HEADER_SIZE + header.stored
    return seq + 1


class _Reopening(_Without):
    def create(self, path: Path) -> AppendFile:
        """An existing file, open to be appended to; on a recorded disk, recorded."""
        if isinstance(self.inner, RealFileSystem):
            return _Appended(path)
        gated = self.inner
        recording = gated.inner
        while not isinstance(recording, RecordingFileSystem):
            recording = recording.inner
        node = recording._node_at(path)
        assert isinstance(gated, GatedFileSystem) and isinstance(node, FileNode)
        return GatedAppendFile(_RecordingAppendFile(recording, recording._lock, node, _Appended(path)), gated, path)


class _Appended:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, data: bytes) -> None:
        os.write(self._fd, data)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def is_at(self, path: Path) -> bool:
        return is_file_at(path, open_identity(self._fd))

    def close(self) -> None:
        os.close(self._fd)


def unsynced_name(patch: Patch) -> None:
    """A new segment's name is not synced before its frames are acknowledged."""
    begin = SegmentWriter.__init__

    def begin_without(self: SegmentWriter, fs: FileSystem, *arguments: Any) -> None:
        begin(self, _Without(fs, "sync_directory"), *arguments)
        self._fs = fs

    patch.setattr(SegmentWriter, "__init__", begin_without)


def vouching_early(patch: Patch) -> None:
    """A segment's footer vouches for a successor that is only created afterwards."""

    def roll(self: JournalWriter) -> None:
        old = self._segment
        old.seal(successor=True)
        following = old.ident._replace(number=old.ident.number + 1)
        self._segment = SegmentWriter(self._fs, self._directory, self._run, following, old.next_seq)

    patch.setattr(JournalWriter, "_roll_segment", roll)


def unsynced_footer(patch: Patch) -> None:
    """A segment gets its sealed name before its footer is synced."""
    seal = SegmentWriter.seal

    def seal_unsynced(self: SegmentWriter, *, successor: bool) -> None:
        self._file.sync = _do_nothing
        seal(self, successor=successor)

    patch.setattr(SegmentWriter, "seal", seal_unsynced)


# Sessions and runs.


def no_rejournaling(patch: Patch) -> None:
    """A session counts the frame in doubt without writing it again."""
    patch.setattr(Index, "doubtful", lambda _: [])


def late_session_record(patch: Patch) -> None:
    """A session's first work is recorded before the session is."""

    def open_late(*arguments: Any, **options: Any) -> JournalWriter:
        writer = JournalWriter(*arguments, **options)
        commit, held = writer.queue.commit, []

        def commit_late(line: bytes, key: str = "") -> RecordId:
            if b'"type":"session",' in line and b'"number":1,' not in line:
                held.append(line)
                return RecordId(0, 0, 0, 0)
            ident = commit(line, key)
            while held:
                commit(held.pop())
            return ident

        writer.queue.commit = commit_late
        return writer

    patch.setattr(writer_options, "JournalWriter", open_late)


def unsettled_name(patch: Patch) -> None:
    """A session works in a run whose name the killed creator has not synced."""
    patch.setattr(opening_module, "_sync_run_name", _do_nothing)


def unsynced_run(patch: Patch) -> None:
    """A run is opened before its name in the parent directory is synced."""
    create = create_module._create

    def create_unsynced(fs: FileSystem, root: Path, *arguments: Any) -> Any:
        return create(_Without(fs, "sync_directory", root.parent), root, *arguments)

    patch.setattr(create_module, "_create", create_unsynced)


def unsynced_parents(patch: Patch) -> None:
    """A run is put into directories that a killed process made and did not sync."""

    def make(fs: FileSystem, path: Path) -> None:
        if not path.exists():
            fs.make_directory(path)
            fs.sync_directory(path.parent)

    patch.setattr(create_module, "make_directories", make)


def shared_number(patch: Patch) -> None:
    """A writer's number may be used again once its first segment is sealed."""
    patch.setattr(JournalWriter, "_is_alone", lambda _: True)


def own_pins_only(patch: Patch) -> None:
    """The end of a session vouches for the segments of its holder only."""
    end_writers = RunSession._end_writers
    patch.setattr(RunSession, "_end_writers", lambda self: end_writers(self)._replace(pins=[]))


def uncopied_writers(patch: Patch) -> None:
    """The end of a session counts the frames in doubt of other writers without writing them again."""
    end_writers = RunSession._end_writers
    patch.setattr(RunSession, "_end_writers", lambda self: end_writers(self)._replace(doubtful=[]))


# Blobs.


def trusted_blob(patch: Patch) -> None:
    """A blob that is there already is cited without its name being synced."""
    put = BlobStore.put

    def put_unless_there(self: BlobStore, data: bytes) -> str:
        digest = blake2b(data, digest_size=16).hexdigest()
        return put(self, data) if self.check(digest, len(data)) is not None else digest

    patch.setattr(BlobStore, "put", put_unless_there)


def unsynced_blob(patch: Patch) -> None:
    """A blob gets its name before its bytes are synced."""
    begin = BlobStore.__init__
    patch.setattr(BlobStore, "__init__", lambda self, fs, directory: begin(self, _UnsyncedFiles(fs, ""), directory))


class _UnsyncedFiles(_Without):
    def create(self, path: Path) -> AppendFile:
        file = self.inner.create(path)
        file.sync = _do_nothing
        return file


# Readers.


def trusting_reader(patch: Patch) -> None:
    """A frame counts if its header checks out, whatever its payload is."""

    def checked(self: SegmentScan, header: Any, offset: int) -> Frame | None:
        if header.run != self._run or header[3:6] != self._ident or offset + header.size > self._buffer.size:
            return None
        return Frame(header, offset, self._buffer.at(offset + HEADER_SIZE, header.stored))

    patch.setattr(SegmentScan, "_sound_frame", checked)


def silent_reader(patch: Patch) -> None:
    """Bytes that are no frame are passed over without a word."""
    patch.setattr(SegmentScan, "_add_damage", _do_nothing)


def halting_reader(patch: Patch) -> None:
    """Reading ends at the first bytes that are no frame."""
    patch.setattr(SegmentScan, "_find_header", lambda self, _: self._buffer.size)


def repeating_reader(patch: Patch) -> None:
    """A frame that was written again is given twice."""
    patch.setattr(directory_module.SeenFrames, "add", lambda *_: True)


def unpinned(patch: Patch) -> None:
    """Nobody misses a segment that is gone."""
    patch.setattr(Index, "damage", lambda *given: [item for item in _damage(*given) if item.kind != "missing"])


_damage = Index.damage
ALL: dict[str, Mutant] = {
    name: value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__annotations__", {}).get("patch") == "Patch"
}
