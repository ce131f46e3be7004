"""What was computed from large datasets, kept from one session to the next.

Nothing in the cache is the source of anything: a file may be missing, cut or changed, and is then computed anew. Each
is named after the digest of everything that its content follows from, so a stale one is never found, and ends with a
digest of its content, so a damaged one is never believed.
"""

from __future__ import annotations

import contextlib
import os
from hashlib import blake2b
from pathlib import Path

_DIGEST_BYTES = 16


def derived_name(kind: str, *parts: bytes) -> str:
    """The name of what follows from these parts, and from nothing else."""
    name = blake2b(digest_size=_DIGEST_BYTES, person=kind.encode())
    for part in parts:
        name.update(len(part).to_bytes(8, "little") + part)
    return name.hexdigest()


class DerivedCache:
    """A directory of derived files; what is put into it waits in memory until writing is allowed."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._waiting: dict[str, bytes] = {}
        self.is_writable = False
        """Whether what is put here is written at once."""

    def find(self, name: str) -> bytes | None:
        """What was put there under this name, if it is there and undamaged."""
        if self._directory is None:
            return None
        try:
            data = (self._directory / name).read_bytes()
        except OSError:
            return None
        content = data[:-_DIGEST_BYTES]
        return content if data[-_DIGEST_BYTES:] == _keyed_digest(name, content) else None

    def put(self, name: str, content: bytes) -> None:
        """Adds a file: written at once where writing is allowed, by `keep` where it is not yet."""
        self._waiting[name] = content
        if self.is_writable and self._directory is not None:
            self._write(self._directory)

    def keep(self, directory: Path) -> None:
        """Allows writing to the directory, and writes what has waited for it."""
        self._directory, self.is_writable = directory, True
        self._write(directory)

    def _write(self, directory: Path) -> None:
        """Where that fails, what is lost is computed again next time."""
        waiting, self._waiting = self._waiting, {}
        with contextlib.suppress(OSError):
            for name, content in waiting.items():
                directory.mkdir(exist_ok=True)
                temporary = directory / f"{name}.{os.getpid()}"
                temporary.write_bytes(content + _keyed_digest(name, content))
                temporary.replace(directory / name)


def _keyed_digest(name: str, content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES, key=name.encode()).digest()
