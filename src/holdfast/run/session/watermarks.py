"""Watermarks: the last frame of each writer of a session that a store has confirmed, and who waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Watermarks:
    """The last frame of each writer that the store has confirmed; for use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._confirmed: dict[int, int] = {}
        self._waiting: dict[int, list[tuple[int, Callable[[], None]]]] = {}

    def confirmed(self, writer: int) -> int:
        """The last frame of the writer that is in the store, with all before it; 0 if none is."""
        with self._lock:
            return self._confirmed.get(writer, 0)

    def by_writer(self) -> dict[int, int]:
        with self._lock:
            return dict(self._confirmed)

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits for a frame that is not confirmed."""
        with self._lock:
            return any(self._waiting.values())

    def when_uploaded(self, writer: int, seq: int, callback: Callable[[], None]) -> None:
        """Calls back once this frame is confirmed: now, or in the thread that confirms it."""
        with self._lock:
            if seq > self._confirmed.get(writer, 0):
                self._waiting.setdefault(writer, []).append((seq, callback))
                return
        callback()

    def confirm(self, writer: int, seq: int) -> None:
        """The store has the frames of this writer up to `seq`: calls back those who wait for one of them."""
        with self._lock:
            if seq <= self._confirmed.get(writer, 0):
                return
            self._confirmed[writer] = seq
            waiting = self._waiting.get(writer, [])
            self._waiting[writer] = [item for item in waiting if item[0] > seq]
        for awaited, callback in waiting:
            if awaited <= seq:
                callback()
