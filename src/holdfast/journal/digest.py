"""The digest of content: a blob is stored under it, and a record cites a file by it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

_CHUNK = 1 << 20


def new_content_digest(data: bytes = b"") -> blake2b:
    """The digest of some bytes, to which more can be added."""
    return blake2b(data, digest_size=16)


def content_digest(data: bytes) -> str:
    """The digest of bytes, in hex."""
    return new_content_digest(data).hexdigest()


def file_digest(path: Path) -> str:
    """The digest of a file's content as it is now, in hex.

    Raises:
        OSError: it cannot be read.
    """
    digest = new_content_digest()
    for part in file_parts(path):
        digest.update(part)
    return digest.hexdigest()


def file_parts(path: Path) -> Iterator[bytes]:
    """The content of a file, a piece at a time."""
    with path.open("rb") as stream:
        while part := stream.read(_CHUNK):
            yield part
