"""Writing ZIP archives: members compressed with zstd, put at their place only when the archive is whole and synced.

A member is compressed before its header is written, so that every header says the size. What is compressed waits in
memory or, if it is large, in a temporary file.
"""

import contextlib
import os
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

import zstandard

from holdfast.interop.inspect.archive import zip_format as fmt
from holdfast.interop.inspect.archive.zip_format import ZipEntry
from holdfast.storage.filesystem import AppendFile, FileSystem, sync_name

_FRAME = 128 << 20
"""The most bytes in a frame: the browser's decoder cannot read larger ones than about 256 MiB."""
_IN_MEMORY = 8 << 20
_PIECE = 1 << 20
_MADE_BY = 0x032D
"""Unix, version 4.5 of the format."""
_VERSION, _VERSION_64 = 20, 45
_DATE = 0x21
"""1980-01-01: the same content gives the same bytes."""
_MODE = 0o100644 << 16


class ZipWriter:
    """An archive that is being written beside its place; leaving the block without an error puts it there."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs, self._path = fs, path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        if self._temporary.exists():
            fs.remove(self._temporary)
        self._file: AppendFile = fs.create(self._temporary)
        self._offset = 0
        self._entries: list[ZipEntry] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._write_directory()
            self._file.sync()
            self._file.close()
            self._fs.rename(self._temporary, self._path)
        except BaseException:
            self._discard()
            raise
        sync_name(self._fs, self._path)

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        if self._temporary.exists():
            self._fs.remove(self._temporary)

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Compresses `pieces` into a member."""
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
            size, crc = _compress(pieces, spool)
            packed = spool.tell()
            spool.seek(0)
            self._put(ZipEntry(name, fmt.ZSTD, crc, packed, size, self._offset), iter(lambda: spool.read(_PIECE), b""))

    def add_packed(self, entry: ZipEntry, pieces: Iterable[bytes]) -> None:
        """Copies a member of another archive as it is there."""
        self._put(entry._replace(offset=self._offset, flags=0), pieces)

    def _put(self, entry: ZipEntry, pieces: Iterable[bytes]) -> None:
        name = entry.name.encode()
        extra = _extra_64([size for size in (entry.size, entry.packed) if _is_large(entry)])
        sizes = (fmt.MAX32, fmt.MAX32) if extra else (entry.packed, entry.size)
        version = _VERSION_64 if extra else _VERSION
        header = fmt.LOCAL.pack(
            fmt.LOCAL_SIGN,
            version,
            fmt.UTF8_NAME,
            entry.method,
            0,
            _DATE,
            entry.crc,
            *sizes,
            len(name),
            len(extra),
        )
        self._write(header + name + extra)
        for piece in pieces:
            self._write(piece)
        self._entries.append(entry)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._offset += len(data)

    def _write_directory(self) -> None:
        start = self._offset
        for entry in self._entries:
            self._write(_central_header(entry))
        self._write(_end_records(len(self._entries), self._offset - start, start))


def _compress(pieces: Iterable[bytes], spool: IO[bytes]) -> tuple[int, int]:
    """Writes frames to `spool`; the size and checksum of what was compressed."""
    size = crc = in_frame = 0
    compressor = zstandard.ZstdCompressor().compressobj()
    for piece in pieces:
        size, crc = size + len(piece), zlib.crc32(piece, crc)
        for start in range(0, len(piece), _PIECE):
            part = piece[start : start + _PIECE]
            spool.write(compressor.compress(part))
            in_frame += len(part)
            if in_frame >= _FRAME:
                spool.write(compressor.flush())
                compressor, in_frame = zstandard.ZstdCompressor().compressobj(), 0
    spool.write(compressor.flush())
    return size, crc


def _is_large(entry: ZipEntry) -> bool:
    return entry.size >= fmt.MAX32 or entry.packed >= fmt.MAX32


def _extra_64(values: list[int]) -> bytes:
    if not values:
        return b""
    return b"".join(
        [
            fmt.ZIP64_EXTRA.to_bytes(2, "little"),
            (8 * len(values)).to_bytes(2, "little"),
            *(value.to_bytes(8, "little") for value in values),
        ]
    )


def _central_header(entry: ZipEntry) -> bytes:
    name, is_far = entry.name.encode(), entry.offset >= fmt.MAX32
    sizes = [entry.size, entry.packed] if _is_large(entry) else []
    extra = _extra_64([*sizes, *([entry.offset] if is_far else [])])
    header = fmt.CENTRAL.pack(
        fmt.CENTRAL_SIGN,
        _MADE_BY,
        _VERSION_64 if extra else _VERSION,
        fmt.UTF8_NAME,
        entry.method,
        0,
        _DATE,
        entry.crc,
        fmt.MAX32 if sizes else entry.packed,
        fmt.MAX32 if sizes else entry.size,
        len(name),
        len(extra),
        0,
        0,
        0,
        _MODE,
        fmt.MAX32 if is_far else entry.offset,
    )
    return header + name + extra


def _end_records(count: int, size: int, start: int) -> bytes:
    records = b""
    if count >= fmt.MAX16 or size >= fmt.MAX32 or start >= fmt.MAX32:
        records = fmt.END64.pack(
            fmt.END64_SIGN, fmt.END64.size - 12, _MADE_BY, _VERSION_64, 0, 0, count, count, size, start
        ) + fmt.LOCATOR64.pack(fmt.LOCATOR64_SIGN, 0, start + size, 1)
    few = min(count, fmt.MAX16)
    return records + fmt.END.pack(fmt.END_SIGN, 0, 0, few, few, min(size, fmt.MAX32), min(start, fmt.MAX32), 0)
