"""Reading a segment, damaged or not.

A scan gives every frame that is whole, in order, and a Damage for everything that is not. It never raises on bad
bytes and never gives a record that was not written: a frame counts only if its header's CRC, run and segment check
out and the digest of its payload does. Where something does not check out, reading continues at the next intact header.

The bytes that a scan considers are fixed when it starts; a writer may append more after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TypeVar

import msgspec
import zstandard

from holdfast.journal.damage import Damage, DamageKind
from holdfast.journal.frame import (
    COPY,
    DATA,
    DIGEST_SIZE,
    FOOTER,
    FORMAT,
    HEADER_SIZE,
    MAGIC,
    Frame,
    Header,
    RecordLine,
    decode_header,
    may_begin_header,
    payload_digest,
)
from holdfast.journal.read_buffer import BUFFER_BYTES, ReadBuffer
from holdfast.journal.segment import Footer, SegmentId
from holdfast.storage.filesystem import ReadFile

_T = TypeVar("_T")
_footer_decoder = msgspec.json.Decoder(Footer)


class SegmentScan:
    """One pass over one segment; complete once `frames` is exhausted."""

    def __init__(
        self,
        file: ReadFile,
        run: bytes,
        ident: SegmentId,
        where: str,
        *,
        start: int = 0,
        next_seq: int = 0,
        size: int | None = None,
    ) -> None:
        self.file = file
        self._buffer = ReadBuffer(file, file.size() if size is None else size)
        self._run, self._ident, self._where = run, ident, where
        self._next_seq = next_seq
        self.end = start
        """Just behind the last whole frame."""
        self.first_seq = self.last_seq = 0
        self.frame_count = self.record_count = 0
        self.last_digest = b""
        self.last_frame: Frame | None = None
        self.footer: Footer | None = None
        self.newer_format = 0
        self.damage: list[Damage] = []
        self._decompressor = zstandard.ZstdDecompressor()
        self._chain = blake2b(digest_size=DIGEST_SIZE)
        self._whole = start == 0
        self.footer_offset = 0

    @property
    def sealed(self) -> bool:
        return self.footer is not None

    @property
    def size(self) -> int:
        """How many bytes of the file this scan considers."""
        return self._buffer.size

    def frames(self) -> Iterator[Frame]:
        """Every whole data frame from the start; finds damage on the way and cross-checks the footer at the end."""
        buffer, offset = self._buffer, self.end
        while offset < buffer.size:
            header = decode_header(buffer.at(offset, HEADER_SIZE))
            frame = self._sound_frame(header, offset) if header is not None else None
            if frame is None:
                offset = self._resynchronise(offset, header)
            elif frame.header.kind == FOOTER and _is_known(frame.header):
                self.footer_offset = offset
                self._take_footer(frame)
                offset = self.end = offset + frame.header.size
                self._check_nothing_follows(offset)
                break
            else:
                offset += frame.header.size
                if self._accept(frame, offset):
                    yield frame
        self._check_footer()

    def find_newer_format(self) -> int:
        """The newest format that this version cannot read, going by headers alone; 0 where none is found.

        An early look: it finds nothing that reading the frames would not, and may miss some where bytes are missing.
        """
        buffer, offset, newest = self._buffer, self.end, 0
        while offset < buffer.size:
            header = decode_header(buffer.at(offset, HEADER_SIZE))
            if header is None or not self._is_of_segment(header):
                offset = self._find_header(offset + 1)
            elif header.kind == FOOTER and _is_known(header):
                break
            elif header.format <= FORMAT:
                offset += header.size
            else:
                # As for any frame, what a header says counts only with its payload.
                newest = max(newest, header.format if self._sound_frame(header, offset) else 0)
                offset = self._find_header(offset + HEADER_SIZE)
        return newest

    def lines(self, frame: Frame) -> list[bytes]:
        """The records of a frame that was just given; one that cannot be decoded is lost, and reported."""
        return self._or_lost(frame, frame.lines(self._decompressor))

    def picked(self, frame: Frame, heads: tuple[bytes, ...], mark: bytes = b"") -> list[RecordLine]:
        """As `lines`, but only records that begin with one of `heads` or have the mark; the others are not copied."""
        return self._or_lost(frame, frame.picked(self._decompressor, heads, mark))

    def _or_lost(self, frame: Frame, records: list[_T] | None) -> list[_T]:
        if records is None:
            header = frame.header
            detail = f"frame {header.seq} does not match its header"
            lost = (header.seq, header.seq)
            self.damage.append(Damage(DamageKind.UNREADABLE, self._where, detail, frame.offset, header.size, lost))
        return records or []

    def _sound_frame(self, header: Header, offset: int) -> Frame | None:
        """The frame if it is intact and ours."""
        if header.run != self._run or header[3:6] != self._ident or offset + header.size > self._buffer.size:
            return None
        payload = self._buffer.at(offset + HEADER_SIZE, header.stored)
        if len(payload) != header.stored or payload_digest(payload) != header.digest:
            return None
        return Frame(header, offset, payload)

    def _accept(self, frame: Frame, end: int) -> bool:
        """Counts an intact frame; False for one that may not be read."""
        header = frame.header
        if not _is_known(header):
            is_newer = header.format > FORMAT
            self.newer_format = max(self.newer_format, header.format if is_newer else 0)
            detail = f"written in format {header.format}, " + (
                f"newer than {FORMAT}" if is_newer else "which does not exist"
            )
            self._add_damage(DamageKind.UNREADABLE, frame.offset, header.size, detail)
            return False
        if header.kind not in {DATA, COPY}:
            self._add_damage(
                DamageKind.UNREADABLE, frame.offset, header.size, f"a frame of unknown kind ({header.kind})"
            )
            return False
        if self._next_seq and header.seq < self._next_seq:
            self._add_damage(DamageKind.REPEATED, frame.offset, header.size, f"frame {header.seq} is repeated here")
            return False
        if self._next_seq and header.seq > self._next_seq:
            self._lose(self._next_seq, header.seq - 1, frame.offset)
        self._count_frame(frame, end)
        return True

    def _count_frame(self, frame: Frame, end: int) -> None:
        header = frame.header
        self.first_seq = self.first_seq or header.seq
        self.last_seq, self._next_seq = header.seq, header.seq + 1
        self.frame_count += 1
        self.record_count += header.records
        self.last_digest, self.last_frame, self.end = header.digest, frame, end
        self._chain.update(header.digest)

    def _take_footer(self, frame: Frame) -> None:
        try:
            self.footer = _footer_decoder.decode(frame.expand(self._decompressor) or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._add_damage(DamageKind.UNREADABLE, frame.offset, frame.header.size, "the footer cannot be decoded")

    def _resynchronise(self, offset: int, header: Header | None) -> int:
        """Reports the bytes from `offset` that are no frame of ours; the place of the next intact header."""
        # Only the header is skipped: bytes may be missing from the payload, and the next frame begin early.
        found = self._find_header(offset + (HEADER_SIZE if header and self._is_of_segment(header) else 1))
        length = found - offset
        if header is not None and not self._is_of_segment(header):
            self._add_damage(DamageKind.FOREIGN, offset, length, f"frames of {_origin_text(header, self._run)}")
        elif found == self._buffer.size and self._is_cut_off(header, offset):
            self._add_damage(DamageKind.TORN, offset, length, f"{length} bytes of a frame that was never acknowledged")
        else:
            self._add_damage(DamageKind.UNREADABLE, offset, length, f"{length} bytes differ from what was written")
        return found

    def _is_of_segment(self, header: Header) -> bool:
        return header.run == self._run and header[3:6] == self._ident

    def _is_cut_off(self, header: Header | None, offset: int) -> bool:
        if header is not None:
            return offset + header.size > self._buffer.size
        return may_begin_header(self._buffer.at(offset, HEADER_SIZE))

    def _find_header(self, offset: int) -> int:
        """The place of the next intact header of this segment, or the end."""
        buffer = self._buffer
        while offset < buffer.size:
            data = buffer.at(offset, BUFFER_BYTES)
            hit = data.find(MAGIC)
            while hit >= 0:
                whole = hit + HEADER_SIZE <= len(data)
                header = decode_header(data, hit) if whole else decode_header(buffer.at(offset + hit, HEADER_SIZE))
                if header is not None and self._is_of_segment(header):
                    return offset + hit
                hit = data.find(MAGIC, hit + 1)
            # A magic may straddle two reads.
            offset += max(len(data) - len(MAGIC) + 1, 1)
        return buffer.size

    def _check_nothing_follows(self, offset: int) -> None:
        if extra := self._buffer.size - offset:
            self._add_damage(DamageKind.UNREADABLE, offset, extra, f"{extra} bytes follow the footer")

    def _lose(self, first: int, last: int, offset: int) -> None:
        """Frames are missing before `offset`: unreadable bytes that end there were they, else there is a gap."""
        previous = self.damage[-1] if self.damage else None
        if previous and previous.kind is DamageKind.UNREADABLE and previous.offset + previous.length == offset:
            self.damage[-1] = msgspec.structs.replace(previous, lost=(first, last))
        else:
            self.damage.append(
                Damage(DamageKind.GAP, self._where, _missing_frames_text(first, last), offset, lost=(first, last))
            )

    def _check_footer(self) -> None:
        """Compares what was read with what the footer says, and names whom the lost frames concerned."""
        footer = self.footer
        if footer is None or footer.frames == self.frame_count == 0:
            return
        last = footer.first_seq + footer.frames - 1
        if self.last_seq < last and self._next_seq <= last:
            self._lose(max(self._next_seq, footer.first_seq), last, self.footer_offset)
        if self._whole:
            self._check_beginning(footer)
        self.damage = [_with_keys(damage, footer) for damage in self.damage]

    def _check_beginning(self, footer: Footer) -> None:
        if self.first_seq > footer.first_seq:
            lost = (footer.first_seq, self.first_seq - 1)
            first = self.damage[0] if self.damage else None
            if first and first.kind is DamageKind.UNREADABLE and first.offset == 0:
                self.damage[0] = msgspec.structs.replace(first, lost=lost)
            else:
                self.damage.insert(0, Damage(DamageKind.GAP, self._where, _missing_frames_text(*lost), lost=lost))
        if not self.damage and (self.frame_count, self._chain.hexdigest()) != (footer.frames, footer.chain):
            self._add_damage(
                DamageKind.COUNT,
                self.end,
                0,
                f"its frames are not those that the footer counts ({footer.frames}; {self.frame_count} are there)",
            )

    def _add_damage(self, kind: DamageKind, offset: int, length: int, detail: str) -> None:
        self.damage.append(Damage(kind, self._where, detail, offset, length))


def _is_known(header: Header) -> bool:
    """Whether this version reads the format of a frame."""
    return 0 < header.format <= FORMAT


def _missing_frames_text(first: int, last: int) -> str:
    return f"frame {first} is missing" if first == last else f"frames {first} to {last} are missing"


def _with_keys(damage: Damage, footer: Footer) -> Damage:
    if not damage.lost[0]:
        return damage
    places = range(damage.lost[0] - footer.first_seq, damage.lost[1] - footer.first_seq + 1)
    keys = tuple(sorted(key for key, frames in footer.keys.items() if any(frame in places for frame in frames)))
    return msgspec.structs.replace(damage, keys=keys)


def _origin_text(header: Header, run: bytes) -> str:
    segment = SegmentId(header.session, header.writer, header.segment)
    return f"segment {segment}" if header.run == run else f"another run ({header.run.hex()})"
