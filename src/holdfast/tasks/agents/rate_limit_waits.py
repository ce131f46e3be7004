"""Waits for rate limits: shared by all trials whose agents use the same model, and known to the next session.

The time until which an account may not be used is written to the run before anybody waits, so that a session that is
started meanwhile waits as well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import msgspec

from holdfast.digests import content_digest
from holdfast.storage.filesystem import RealFileSystem, write_atomically
from holdfast.tasks.workspaces.trial_directory import WORKSPACES

_DIRECTORY = ".waits"


class _Wait(msgspec.Struct, frozen=True):
    model: str
    until: float
    reason: str = ""


_known: dict[Path, float] = {}
_lock = threading.Lock()


def _place(run: Path, model: str) -> Path:
    return run.absolute() / WORKSPACES / _DIRECTORY / f"{content_digest(model.encode())[:16]}.json"


def wait_until(run: Path, model: str) -> float:
    """Until when agents with this model wait, in seconds since 1970; 0 if they need not."""
    place = _place(run, model)
    with _lock:
        if place not in _known:
            _known[place] = _saved_wait(place)
        until = _known[place]
    return until if until > time.time() else 0.0


def _saved_wait(place: Path) -> float:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(place.read_bytes(), type=_Wait).until
    return 0.0


def forget_waits() -> None:
    """What this process knows; the next session in it reads the run."""
    with _lock:
        _known.clear()


def set_wait(run: Path, model: str, until: float, reason: str) -> None:
    """From now on agents with this model wait until then; durable when this returns.

    Raises:
        OSError: the disk failed.
    """
    place = _place(run, model)
    with _lock:
        until = max(until, _known.get(place, 0.0))
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(RealFileSystem(), place, msgspec.json.encode(_Wait(model, until, reason)))
        _known[place] = until
