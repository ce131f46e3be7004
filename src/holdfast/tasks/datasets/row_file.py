"""Random access to the rows of a canonical dataset file, at eight bytes of memory a row."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import msgspec

from holdfast.digests import new_content_digest
from holdfast.errors import RunDamaged
from holdfast.tasks.datasets.derived_cache import DerivedCache

T = TypeVar("T")
_AHEAD = 24 << 10
_BLOCK = 1 << 18
_decode = msgspec.json.Decoder().decode

_Window = tuple[int, bytes]
"""The position of some bytes in the file, and the bytes."""


class Rows:
    """The rows of one file by number; safe to read from several threads, closed when it is dropped."""

    def __init__(
        self, descriptor: int, offsets: array[int], digest: str, source: str, cache: DerivedCache | None = None
    ) -> None:
        self._descriptor = descriptor
        self._offsets = offsets
        self.digest = digest
        self.source = source
        self.cache = cache
        """Where what is worked out about these rows is kept for another session, if anywhere."""
        self.damage = ""
        """Where to look if what the rows were copied from just now was damaged."""
        self._windows: tuple[_Window, ...] = ()
        self._next = 0

    @classmethod
    def open(
        cls, path: Path, *, digest: str | None = None, source: str | None = None, cache: DerivedCache | None = None
    ) -> Self:
        """Find where each row begins; with a digest, the file must have exactly that content.

        The source is the name that errors give the dataset; the file's own name by default.
        """
        with _open_copy(path) as stream:
            offsets, found = _row_offsets(stream)
            if digest is not None and digest != found:
                raise RunDamaged(
                    f"The dataset copy {path} does not have the content it was recorded with.",
                    hint="Restore the file from a backup.",
                )
            return cls(os.dup(stream.fileno()), offsets, found, source or path.name, cache)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> dict[str, Any]:
        row = self.read(number, _decode)
        if not isinstance(row, dict):
            raise self._unreadable(number)
        return row

    def read(self, number: int, decode: Callable[[bytes], T]) -> T:
        """What a decoder of JSON makes of a row."""
        if not 0 <= number < len(self._offsets) - 1:
            raise IndexError(f"{self.source} has {len(self)} rows, and none with the number {number}")
        try:
            return decode(self._read(self._offsets[number], self._offsets[number + 1]))
        except ValueError:
            raise self._unreadable(number) from None

    def _unreadable(self, number: int) -> RunDamaged:
        return RunDamaged(f"Row {number + 1} of {self.source} cannot be read any more.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(len(self)))

    def place(self, number: int) -> str:
        """How errors name a row; people count from one."""
        return f"{self.source} row {number + 1}"

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._windows = -1, ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Absent when __init__ itself was interrupted.
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()

    def _read(self, start: int, end: int) -> bytes:
        """Rows are mostly read in order, by several readers a little apart, so what follows is read along with one."""
        for at, data in self._windows:
            if at <= start and end <= at + len(data):
                return data[start - at : end - at]
        if start != self._next:
            self._next = end
            return self._read_exactly(start, end)
        data = self._read_exactly(start, max(end, min(start + _AHEAD, self._offsets[-1])))
        self._next, self._windows = start + len(data), ((start, data), *self._windows[:1])
        return data[: end - start]

    def _read_exactly(self, start: int, end: int) -> bytes:
        parts = []
        while start < end:
            part = os.pread(self._descriptor, end - start, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
        return b"".join(parts)


def _open_copy(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise RunDamaged(f"The dataset copy {path} is missing.", hint="Restore the file from a backup.") from None


def _row_offsets(stream: BinaryIO) -> tuple[array[int], str]:
    content = new_content_digest()
    offsets = array("Q", [0])
    while lines := stream.readlines(_BLOCK):
        content.update(b"".join(lines))
        offsets.extend(islice(accumulate(map(len, lines), initial=offsets[-1]), 1, None))
    return offsets, content.hexdigest()
