"""The frame: the smallest unit that is whole or lost.

A frame is a header and a payload. The header is a zstd *skippable* frame, which every zstd tool skips; the payload of
a data frame is an ordinary zstd frame of JSON lines. So a segment is at once our format and plain zstd:

    skippable magic, size │ "HDFT", format, kind │ run │ session, writer, segment │ records, seq │ lengths │ digest │
    origin │ CRC
    zstd frame: one JSON object per line

The payload of a footer lies inside the skippable frame, so that tools do not see it. The digest covers the stored
bytes of the payload, so a frame can be checked without being decompressed; the CRC covers the header. A header with a
wrong CRC, or of another run or segment, does not count.
"""

import struct
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

import zstandard

FORMAT = 2
"""The format that new runs are written in; a run keeps the one that it was started in."""
DATA, COPY, FOOTER = 1, 2, 3
DIGEST_SIZE = 16
RAW_LIMIT = 64 << 20
"""No frame is larger than this before compression: whatever its header says, reading it takes bounded memory."""
FRAME_BYTES = 8 << 20
"""A writer starts another frame at this size; a larger one holds a single record."""

_LAYOUT = struct.Struct("<II4sHBB16sIIIIQII16sIIQI")
HEADER_SIZE = _LAYOUT.size
_SKIPPABLE = 0x184D2A58
_TAG = b"HDFT"
_HEAD_BYTES = 1 << 16
"""Where a mark of a record is looked for."""
MAGIC = struct.pack("<I", _SKIPPABLE)
_INSIDE = HEADER_SIZE - 8


class RecordId(NamedTuple):
    """Where a record was first written; its permanent identity, and its place in the order of a run."""

    session: int
    writer: int
    seq: int
    place: int


class Origin(NamedTuple):
    """The frame that a copy repeats."""

    session: int
    writer: int
    seq: int


class Header(NamedTuple):
    """A decoded header that checked out."""

    format: int
    kind: int
    run: bytes
    session: int
    writer: int
    segment: int
    records: int
    seq: int
    stored: int
    raw: int
    digest: bytes
    origin: Origin

    @property
    def size(self) -> int:
        """Bytes of the whole frame in the file."""
        return HEADER_SIZE + self.stored


NO_ORIGIN = Origin(0, 0, 0)


def payload_digest(payload: bytes | memoryview) -> bytes:
    """The digest that a header holds of its payload."""
    return blake2b(payload, digest_size=DIGEST_SIZE).digest()


def encode_header(header: Header) -> bytes:
    """The header's bytes, with its CRC."""
    inside = _INSIDE + (header.stored if header.kind == FOOTER else 0)
    fields = (_SKIPPABLE, inside, _TAG, header.format, header.kind, 0, *header[2:11], *header.origin)
    body = _LAYOUT.pack(*fields, 0)[:-4]
    return body + struct.pack("<I", crc32(body))


def decode_header(data: bytes, offset: int = 0) -> Header | None:
    """The header at `offset`, or None if there is no intact header."""
    if len(data) - offset < HEADER_SIZE or not data.startswith(MAGIC, offset):
        return None
    fields = _LAYOUT.unpack_from(data, offset)
    if fields[2] != _TAG or crc32(data[offset : offset + HEADER_SIZE - 4]) != fields[-1]:
        return None
    return Header._make((*fields[3:5], *fields[6:15], Origin._make(fields[15:18])))


def may_begin_header(data: bytes) -> bool:
    """Whether these few bytes are the beginning of a header that was cut off."""
    return MAGIC.startswith(data[:4]) and len(data) < HEADER_SIZE and _TAG.startswith(data[8:12])


class RecordLine(NamedTuple):
    """A record as written in its frame."""

    place: int
    data: bytes


class Frame(NamedTuple):
    """A whole frame, as it is stored."""

    header: Header
    offset: int
    payload: bytes

    @property
    def origin(self) -> Origin:
        """The frame whose record ids these records carry: itself, unless it is a copy."""
        header = self.header
        return header.origin if header.kind == COPY else Origin(header.session, header.writer, header.seq)

    def expand(self, decompressor: zstandard.ZstdDecompressor) -> bytes | None:
        """The payload as it was before compression, in no more memory than a writer may have used."""
        size = self.header.raw
        try:
            # The decompressor trusts the size in the payload, if there is one, so that is checked first.
            if size > RAW_LIMIT or zstandard.frame_content_size(self.payload) not in {size, -1}:
                return None
            raw = decompressor.decompress(self.payload, max_output_size=size)
        except zstandard.ZstdError:
            return None
        return raw if len(raw) == size else None

    def lines(self, decompressor: zstandard.ZstdDecompressor) -> list[bytes] | None:
        """The records, one line each; None if the payload is not what the header says."""
        raw = self.expand(decompressor)
        lines = raw.split(b"\n") if raw is not None else []
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        return lines if len(lines) == self.header.records else None

    def picked(
        self, decompressor: zstandard.ZstdDecompressor, heads: tuple[bytes, ...], mark: bytes = b""
    ) -> list[RecordLine] | None:
        """Of the records, those that begin with one of `heads`; None if the payload is not what the header says.

        With `mark`, also those whose first bytes contain it.
        """
        raw = self.expand(decompressor)
        is_marked = bool(mark) and raw is not None and mark in raw
        found: list[RecordLine] = []
        place = begin = 0
        while raw and begin < len(raw):
            end = raw.find(b"\n", begin)
            end = end if end >= 0 else len(raw)
            if raw.startswith(heads, begin) or (
                is_marked and raw.find(mark, begin, min(end, begin + _HEAD_BYTES)) >= 0
            ):
                found.append(RecordLine(place, raw[begin:end]))
            place, begin = place + 1, end + 1
        return found if place == self.header.records else None

    def record_id(self, place: int) -> RecordId:
        return RecordId(*self.origin, place)
