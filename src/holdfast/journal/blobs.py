"""Blobs: payloads too large for a record, each in a file named by the digest of its content.

A blob is durable before the record that cites it is handed to the journal; the same content is stored once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.digests import content_digest, file_parts, new_content_digest
from holdfast.journal.damage import Damage, DamageKind
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem

BLOB_BYTES = 8 << 20
"""A record larger than this is stored as a blob and cited."""
_CHUNK = 1 << 20


class BlobStore:
    """The directory `blobs` (or `inputs`) of a run."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs, self._directory = fs, directory

    def path(self, digest: str) -> Path:
        return self._directory / digest

    def put(self, data: bytes) -> str:
        """Stores `data` durably; its digest.

        Raises:
            OSError: it could not be stored.
        """
        digest = content_digest(data)
        if self.check(digest, len(data)) is not None:
            self._store([data], digest)
        # Also where it was there already: whoever put it there may have died before its name was durable.
        self._fs.sync_directory(self._directory)
        return digest

    def put_file(self, path: Path) -> tuple[str, int]:
        """Stores a copy of a file durably, a piece at a time; its digest and size.

        Raises:
            OSError: it could not be read or stored.
        """
        digest, size = new_content_digest(), 0
        for part in file_parts(path):
            digest.update(part)
            size += len(part)
        if self.check(digest.hexdigest(), size) is not None:
            self._store(file_parts(path), digest.hexdigest())
        self._fs.sync_directory(self._directory)
        return digest.hexdigest(), size

    def _store(self, parts: Iterable[bytes], digest: str) -> None:
        temporary = self._directory / f".{digest}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        file = self._fs.create(temporary)
        try:
            for part in parts:
                file.write(part)
            file.sync()
        finally:
            file.close()
        crashpoints.reach("blob.written")
        self._fs.rename(temporary, self.path(digest))
        crashpoints.reach("blob.renamed")

    def check(self, digest: str, size: int) -> Damage | None:
        """What is wrong with a blob that a record cites, if anything is."""
        where = f"{self._directory.name}/{digest}"
        try:
            file = self._fs.open(self.path(digest))
        except OSError:
            return Damage(DamageKind.MISSING, where, "a record refers to it, but it does not exist")
        try:
            found = new_content_digest()
            offset = 0
            while part := file.read_at(offset, _CHUNK):
                found.update(part)
                offset += len(part)
        except OSError as error:
            return Damage(DamageKind.UNREADABLE, where, f"it cannot be read: {error.strerror}")
        finally:
            file.close()
        if offset != size or found.hexdigest() != digest:
            return Damage(DamageKind.CHANGED, where, f"its content is not what was stored ({offset} of {size} bytes)")
        return None
