"""The floor: the least that anybody must do who writes records durably with group commit.

An asyncio loop encodes the records; one thread joins the lines that wait, compresses them, writes, syncs, and resolves
the futures with one call into the loop a batch. Nothing is checked, counted, bounded or ever closed properly: what
holdfast costs beyond this is the price of its promises.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import zstandard

_Waiting = list[tuple[bytes, asyncio.Future[None] | None]]


class FloorWriter:
    """Writes lines to one file. For use from one event loop."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._compress = zstandard.ZstdCompressor(level=1).compress
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._pending: _Waiting = []
        self._open = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def commit(self, line: bytes) -> None:
        future = self._loop.create_future()
        with self._wake:
            self._pending.append((line, future))
            self._wake.notify()
        await future

    def append(self, line: bytes) -> None:
        """Queues a line that nobody waits for."""
        with self._wake:
            self._pending.append((line, None))

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._pending and self._open:
                    self._wake.wait()
                batch, self._pending = self._pending, []
            if not batch:
                return
            os.write(self._fd, self._compress(b"\n".join([line for line, _ in batch]) + b"\n"))
            os.fdatasync(self._fd)
            self._loop.call_soon_threadsafe(_resolve, batch)

    def close(self) -> None:
        with self._wake:
            self._open = False
            self._wake.notify()
        self._thread.join()
        os.close(self._fd)


def _resolve(batch: _Waiting) -> None:
    for _, future in batch:
        if future is not None:
            future.set_result(None)


async def write_floor(path: Path, records: list[Any], producers: int) -> None:
    """Commits the records from `producers` coroutines."""
    writer, encode = FloorWriter(path), msgspec.json.Encoder().encode
    rest = iter(records)

    async def produce() -> None:
        for record in rest:
            await writer.commit(encode(record))

    await asyncio.gather(*(produce() for _ in range(producers)))
    writer.close()
