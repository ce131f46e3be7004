"""Reading ZIP archives that nobody vouches for.

Nothing is ever unpacked to disk, and a member is read in pieces: however large it claims to be, or is, the memory that
reading takes is bounded. A member gives exactly the bytes that the archive promises, or ArchiveError: its size and its
checksum are compared, and two members never share bytes.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import zstandard

from holdfast.errors import ConfigurationError
from holdfast.interop.importing.foreign_values import open_regular_file
from holdfast.interop.inspect.archive import zip_format as fmt
from holdfast.interop.inspect.archive.zip_format import ZipEntry

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PIECE = 1 << 18
_OUTPUT_PIECE = 1 << 20
_WINDOW = 1 << 27
"""The largest window of a zstd frame that is accepted; Inspect's frames have at most 8 MiB."""
_MOST_RATIO = 2000
_SMALL = 64 << 20
"""Members up to this size may be compressed by any ratio."""


class ArchiveError(ConfigurationError):
    """The file is not an archive, or not one that can be read safely."""

    kind = "archive"


class ZipReader:
    """The members of an archive, by name. Of several members with one name the last counts, as for Inspect."""

    def __init__(self, path: Path) -> None:
        """Reads the central directory.

        Raises:
            ArchiveError: this is not a whole ZIP archive, or it contradicts itself.
            OSError: the file cannot be read.
        """
        self.path = path
        self._file = open_regular_file(path)
        try:
            self.entries = _by_name(path, self._read_directory())
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def read(self, name: str, most: int) -> bytearray:
        """The whole content of a member.

        Raises:
            ArchiveError: it has more than `most` bytes, or is damaged.
        """
        entry = self.entries[name]
        if entry.size > most:
            raise self._refused(name, f"has {entry.size:,} bytes; at most {most:,} are read")
        found = bytearray()
        for piece in self.pieces(name):
            found += piece
        return found

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of a member, a piece at a time; checked when the last one has been read.

        Raises:
            ArchiveError: its bytes are damaged, or not what the archive says of them.
        """
        entry = self.entries[name]
        size = crc = 0
        try:
            for piece in _expanded(entry.method, self.packed_pieces(entry)):
                size, crc = size + len(piece), zlib.crc32(piece, crc)
                if size > entry.size:
                    raise self._refused(name, f"has more than the {entry.size:,} bytes that the archive says")
                yield piece
        except (zlib.error, zstandard.ZstdError) as error:
            raise self._refused(name, f"cannot be decompressed ({error})") from error
        if size != entry.size:
            raise self._refused(name, f"has {size:,} bytes, and the archive says {entry.size:,}")
        if crc != entry.crc:
            raise self._refused(name, "does not match its checksum")

    def packed_pieces(self, entry: ZipEntry) -> Iterator[bytes]:
        """The bytes of a member as they are in the archive."""
        start = self._data_start(entry)
        for offset in range(start, start + entry.packed, _PIECE):
            wanted = min(_PIECE, start + entry.packed - offset)
            yield self._read_at(offset, wanted, entry.name)

    def _data_start(self, entry: ZipEntry) -> int:
        header = fmt.LOCAL.unpack(self._read_at(entry.offset, fmt.LOCAL.size, entry.name))
        if header[0] != fmt.LOCAL_SIGN or header[3] != entry.method:
            raise self._refused(entry.name, "is not where the archive says")
        return entry.offset + fmt.LOCAL.size + int(header[9]) + int(header[10])

    def _read_at(self, offset: int, size: int, name: str) -> bytes:
        self._file.seek(offset)
        found = self._file.read(size)
        if len(found) != size:
            raise self._refused(name, "reaches beyond the end of the file")
        return found

    def _read_directory(self) -> list[ZipEntry]:
        start, size, count, _ = _find_directory(self._file, self.path)
        self._file.seek(start)
        content = self._file.read(size)
        entries = list(_parse_directory(self.path, content, count))
        _check_places(self.path, entries, end=start)
        return entries

    def _refused(self, name: str, why: str) -> ArchiveError:
        return ArchiveError(f"{self.path}: the member {name!r} {why}.", hint="The file is damaged, or not a log.")


def _by_name(path: Path, entries: list[ZipEntry]) -> dict[str, ZipEntry]:
    found: dict[str, ZipEntry] = {}
    for entry in entries:
        _check_name(path, entry.name)
        _check_member(path, entry)
        # The order of the names is that of the members that count.
        found.pop(entry.name, None)
        found[entry.name] = entry
    return found


def _check_name(path: Path, name: str) -> None:
    """Members are never unpacked; but what is copied into another log must not harm whoever unpacks that."""
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or "\0" in name or ".." in parts or parts[0].endswith(":"):
        raise ArchiveError(f"{path}: the member {name!r} has a name that leads out of the archive.")


def _check_member(path: Path, entry: ZipEntry) -> None:
    why = ""
    if entry.flags & fmt.ENCRYPTED:
        why = "is encrypted"
    elif entry.method not in (fmt.STORED, fmt.DEFLATED, fmt.ZSTD):
        why = f"is compressed by the unknown method {entry.method}"
    elif entry.method == fmt.STORED and entry.packed != entry.size:
        why = "has two sizes"
    elif entry.size > _SMALL and entry.size > _MOST_RATIO * max(1, entry.packed):
        why = f"would expand from {entry.packed:,} to {entry.size:,} bytes"
    if why:
        raise ArchiveError(f"{path}: the member {entry.name!r} {why}.", hint="This is not a log of Inspect's.")


def _find_directory(file: IO[bytes], path: Path) -> tuple[int, int, int, int]:
    """Where the central directory is, how long, with how many entries, and where the end record begins."""
    file.seek(0, 2)
    length = file.tell()
    tail_start = max(0, length - fmt.END.size - fmt.MOST_COMMENT)
    file.seek(tail_start)
    tail = file.read(length - tail_start)
    place = tail.rfind(fmt.END_SIGN)
    if place < 0 or len(tail) - place < fmt.END.size:
        raise _not_an_archive(path, length)
    end = tail_start + place
    _, _, _, _, count, size, start, _ = fmt.END.unpack_from(tail, place)
    if count == fmt.MAX16 or fmt.MAX32 in (size, start):
        start, size, count, end = _find_directory_64(file, path, end)
    if start + size > end:
        raise ArchiveError(f"{path}: the list of members reaches beyond the end of the file.", hint=_TORN)
    return start, size, count, end


_TORN = "The file is damaged or was cut; use a copy that is whole."


def _not_an_archive(path: Path, length: int) -> ArchiveError:
    what = "is empty" if length == 0 else "has no list of members at its end, so it is cut or is not a ZIP archive"
    return ArchiveError(f"{path} {what}.", hint=_TORN)


def _find_directory_64(file: IO[bytes], path: Path, end: int) -> tuple[int, int, int, int]:
    wrong = ArchiveError(f"{path}: its list of members cannot be found.", hint=_TORN)
    if end < fmt.LOCATOR64.size:
        raise wrong
    file.seek(end - fmt.LOCATOR64.size)
    sign, _, place, _ = fmt.LOCATOR64.unpack(file.read(fmt.LOCATOR64.size))
    if sign != fmt.LOCATOR64_SIGN or place + fmt.END64.size > end:
        raise wrong
    file.seek(place)
    fields = fmt.END64.unpack(file.read(fmt.END64.size))
    if fields[0] != fmt.END64_SIGN:
        raise wrong
    return int(fields[9]), int(fields[8]), int(fields[7]), place


def _parse_directory(path: Path, content: bytes, count: int) -> Iterator[ZipEntry]:
    wrong = ArchiveError(f"{path}: its list of members is cut or damaged.", hint=_TORN)
    offset = found = 0
    while offset < len(content):
        if len(content) - offset < fmt.CENTRAL.size:
            raise wrong
        fields = fmt.CENTRAL.unpack_from(content, offset)
        name_start = offset + fmt.CENTRAL.size
        extra_start = name_start + fields[10]
        offset = extra_start + fields[11] + fields[12]
        if fields[0] != fmt.CENTRAL_SIGN or offset > len(content):
            raise wrong
        extra = content[extra_start : extra_start + fields[11]]
        sizes = _sizes_64([fields[9], fields[8], fields[16]], extra)
        if sizes is None:
            raise wrong
        try:
            name = content[name_start:extra_start].decode("utf-8" if fields[3] & fmt.UTF8_NAME else "cp437")
        except UnicodeDecodeError as error:
            raise wrong from error
        found += 1
        yield ZipEntry(name, fields[4], fields[7], sizes[1], sizes[0], sizes[2], fields[3])
    if found != count:
        raise wrong


def _sizes_64(sizes: list[int], extra: bytes) -> list[int] | None:
    """Size, packed size and offset, with those that are in the ZIP64 part taken from there."""
    wanted = [place for place, value in enumerate(sizes) if value == fmt.MAX32]
    if not wanted:
        return sizes
    offset = 0
    while offset + 4 <= len(extra):
        kind, length = (int.from_bytes(extra[offset + at : offset + at + 2], "little") for at in (0, 2))
        if kind == fmt.ZIP64_EXTRA and length >= 8 * len(wanted):
            for number, place in enumerate(wanted):
                start = offset + 4 + 8 * number
                sizes[place] = int.from_bytes(extra[start : start + 8], "little")
            return sizes
        offset += 4 + length
    return None


def _check_places(path: Path, entries: list[ZipEntry], end: int) -> None:
    """No two members may share bytes: that is how a small archive becomes a very large one."""
    reached = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.offset < reached:
            raise ArchiveError(f"{path}: the member {entry.name!r} overlaps another one.")
        reached = entry.offset + fmt.LOCAL.size + len(entry.name) + entry.packed
        if reached > end:
            raise ArchiveError(f"{path}: the member {entry.name!r} reaches beyond the end of the file.", hint=_TORN)


def _expanded(method: int, packed: Iterator[bytes]) -> Iterator[bytes]:
    if method == fmt.STORED:
        return packed
    return _inflated(packed) if method == fmt.DEFLATED else _from_zstd(packed)


def _inflated(packed: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in packed:
        rest = piece
        while rest and not inflater.eof:
            yield inflater.decompress(rest, _OUTPUT_PIECE)
            rest = inflater.unconsumed_tail
        if inflater.eof and (rest or inflater.unused_data):
            raise zlib.error("bytes after its end")
    while not inflater.eof:
        # What is held back needs no more input; an empty result is the end of a stream that was cut.
        piece = inflater.decompress(inflater.unconsumed_tail, _OUTPUT_PIECE)
        if not piece:
            raise zlib.error("it is cut")
        yield piece


def _from_zstd(packed: Iterator[bytes]) -> Iterator[bytes]:
    """The content of one or more frames, one after another."""
    source = io.BufferedReader(_PieceFile(packed), _PIECE)
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(
        source, read_across_frames=True, closefd=False
    )
    read: Callable[[int], bytes] = reader.read
    while piece := read(_OUTPUT_PIECE):
        yield piece


class _PieceFile(io.RawIOBase):
    """Pieces as a file that can be read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer") -> int:
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        view = memoryview(buffer)
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
