"""The segment: one file of the journal, written by one process from beginning to end.

A segment is appended to only by the writer that created it, one frame at a time, each synced before the next is
written. While it is open its name says so; sealing writes a footer, syncs it and renames the file:

    000001-0000-000001.open.jsonl.zst   →   000001-0000-000001.jsonl.zst

So a file with the sealed name and without a footer at its end has lost bytes. The footer counts the
frames and records, chains their digests, lists the frames of every key, and says whether the writer had already
created a successor, so the absence of that successor is a loss too.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from holdfast.journal.frame import (
    COPY,
    DATA,
    DIGEST_SIZE,
    FOOTER,
    FORMAT,
    HEADER_SIZE,
    NO_ORIGIN,
    Header,
    Origin,
    encode_header,
    payload_digest,
)
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem

_NAME = re.compile(r"([0-9]{6,10})-([0-9]{4,10})-([0-9]{6,10})(\.open)?\.jsonl\.zst")


class SegmentId(NamedTuple):
    """Which segment: the session that wrote it, the writer within it, and its number there, from 1."""

    session: int
    writer: int
    number: int

    def __str__(self) -> str:
        return f"{self.session:06}-{self.writer:04}-{self.number:06}"

    @property
    def next(self) -> "SegmentId":
        """The one that its writer begins after it."""
        return self._replace(number=self.number + 1)

    def filename(self, *, sealed: bool) -> str:
        return f"{self}.jsonl.zst" if sealed else f"{self}.open.jsonl.zst"


class SegmentPin(NamedTuple):
    """How long a segment was when it was last looked at: what must still be there later."""

    session: int
    writer: int
    number: int
    frames: int
    last_digest: str
    sealed: bool


def segment_location(path: Path) -> str:
    """How a segment's file is named in messages: relative to its run."""
    return f"{path.parent.name}/{path.name}"


def parse_name(name: str) -> tuple[SegmentId, bool] | None:
    """The segment that a file name stands for and whether the name says sealed; None for any other name."""
    if not (match := _NAME.fullmatch(name)):
        return None
    ident, sealed = SegmentId(int(match[1]), int(match[2]), int(match[3])), match[4] is None
    # A segment has one name only: another spelling of its numbers is somebody else's file.
    return (ident, sealed) if ident.filename(sealed=sealed) == name else None


class Footer(msgspec.Struct, frozen=True):
    """What a sealed segment says of itself."""

    frames: int
    records: int
    first_seq: int
    chain: str
    """blake2b-128, in hex, over the digests of all frames in order."""
    successor: bool
    offsets: list[int]
    keys: dict[str, list[int]]
    """The frames, by their place in `offsets`, that hold records of a key."""


def encode_payload(lines: Sequence[bytes], compressor: zstandard.ZstdCompressor) -> tuple[bytes, int]:
    """The stored bytes of a frame's payload, and their number before compression."""
    raw = b"\n".join(lines) + b"\n"
    return compressor.compress(raw), len(raw)


class FrameCopy(NamedTuple):
    """A frame of another segment that is to be rewritten, and whose records they are."""

    header: Header
    payload: bytes
    keys: list[str]


class SegmentWriter:
    """One open segment. Every method returns only after its bytes are synced."""

    def __init__(
        self, fs: FileSystem, directory: Path, run: bytes, ident: SegmentId, first_seq: int, format_: int = FORMAT
    ) -> None:
        self._fs, self._directory, self._run, self.ident, self._format = fs, directory, run, ident, format_
        self._first_seq = self.next_seq = first_seq
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._chain = blake2b(digest_size=DIGEST_SIZE)
        self._offsets: list[int] = []
        self._keys: dict[str, list[int]] = {}
        self._records = 0
        self.bytes = 0
        self.last_digest = b""
        self._path = directory / ident.filename(sealed=False)
        self._file = fs.create(self._path)
        self._closed = self._is_sealed = False
        crashpoints.reach("segment.created")
        try:
            fs.sync_directory(directory)
        except OSError:
            self.close()
            raise

    @property
    def frames(self) -> int:
        return len(self._offsets)

    def pin(self) -> SegmentPin:
        """Of the whole segment, once it is sealed."""
        return SegmentPin(*self.ident, self.frames, self.last_digest.hex(), sealed=True)

    def append(self, lines: Sequence[bytes], keys: Sequence[str]) -> int:
        """Writes one frame of records and syncs it; its sequence number."""
        payload, raw = encode_payload(lines, self._compressor)
        return self._append(DATA, payload, raw, len(lines), NO_ORIGIN, keys)

    def append_copy(self, header: Header, payload: bytes, keys: Sequence[str]) -> int:
        """Writes another segment's frame again, as it was, under its own record ids."""
        origin = header.origin if header.kind == COPY else Origin(header.session, header.writer, header.seq)
        return self._append(COPY, payload, header.raw, header.records, origin, keys)

    def _append(self, kind: int, payload: bytes, raw: int, records: int, origin: Origin, keys: Sequence[str]) -> int:
        seq, digest = self.next_seq, payload_digest(payload)
        self._write_synced(self._encoded_header(kind, records, len(payload), raw, digest, origin) + payload)
        for key in dict.fromkeys(keys):
            self._keys.setdefault(key, []).append(len(self._offsets))
        self._offsets.append(self.bytes)
        self.bytes += HEADER_SIZE + len(payload)
        self._chain.update(digest)
        self._records += records
        self.next_seq, self.last_digest = seq + 1, digest
        return seq

    def _encoded_header(self, kind: int, records: int, stored: int, raw: int, digest: bytes, origin: Origin) -> bytes:
        return encode_header(
            Header(self._format, kind, self._run, *self.ident, records, self.next_seq, stored, raw, digest, origin)
        )

    def _write_synced(self, frame: bytes) -> None:
        crashpoints.reach("frame.before-write")
        if crashpoints.is_armed("frame.half-written"):
            half = len(frame) // 2
            self._file.write(frame[:half])
            crashpoints.reach("frame.half-written")
            frame = frame[half:]
        self._file.write(frame)
        crashpoints.reach("frame.written")
        self._file.sync()
        crashpoints.reach("frame.synced")

    def is_in_place(self) -> bool:
        """Whether its name still leads to the file that is being written; once it is sealed, it has another."""
        return self._is_sealed or self._file.is_at(self._path)

    def seal(self, *, successor: bool) -> None:
        """Writes the footer, syncs it, and gives the file its sealed name; the writer is then closed."""
        footer = Footer(
            self.frames,
            self._records,
            self._first_seq,
            self._chain.hexdigest(),
            successor,
            self._offsets,
            self._keys,
        )
        raw = msgspec.json.encode(footer)
        payload = self._compressor.compress(raw)
        head = self._encoded_header(FOOTER, self._records, len(payload), len(raw), payload_digest(payload), NO_ORIGIN)
        self._file.write(head + payload)
        self._file.sync()
        crashpoints.reach("segment.footer-synced")
        self.close()
        self._is_sealed = True
        self._fs.rename(self._path, self._directory / self.ident.filename(sealed=True))
        crashpoints.reach("segment.renamed")
        self._fs.sync_directory(self._directory)

    def moved_to(self, directory: Path) -> None:
        """The directory has been renamed, and this segment with it."""
        self._directory, self._path = directory, directory / self._path.name

    def close(self) -> None:
        """Closes the file as it is, once; an unsealed segment is what a crash leaves, and reads as such."""
        if not self._closed:
            self._closed = True
            self._file.close()
