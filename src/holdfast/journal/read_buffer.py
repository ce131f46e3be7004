"""Random access to a file through one buffer.

Bytes that cannot be read are distinguished from bytes that do not exist: a sector that the disk has lost is returned
as zeros, which fail every check, and reading continues after it.
"""

from __future__ import annotations

from holdfast.storage.filesystem import ReadFile

BUFFER_BYTES = 1 << 20


class ReadBuffer:
    """The first `size` bytes of a file."""

    def __init__(self, file: ReadFile, size: int) -> None:
        self._file, self.size = file, size
        self._start, self._data = 0, b""

    def at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the file."""
        size = min(size, self.size - offset)
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._data):
            self._start, begin = offset, 0
            self._data = self._read_file(offset, min(max(size, BUFFER_BYTES), self.size - offset))
        return self._data[begin : begin + size]

    def _read_file(self, offset: int, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            try:
                part = self._file.read_at(offset, size)
            except OSError:
                # A sector that the disk cannot read is lost like any other bad byte.
                part = bytes(min(size, 4096))
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
