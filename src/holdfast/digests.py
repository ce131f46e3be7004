"""Digests of content: sixteen bytes of BLAKE2b, and the one JSON spelling of a value that they are taken of.

Equal content has equal digests in every session and on every machine. A blob is stored under its digest, a record
cites a file by it, and samples are identified by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

DIGEST_BYTES = 16

_CHUNK = 1 << 20
_canonical = msgspec.json.Encoder(order="sorted")


def new_content_digest(data: bytes = b"") -> blake2b:
    """The digest of some bytes, to which more can be added."""
    return blake2b(data, digest_size=DIGEST_BYTES)


def content_digest(data: bytes) -> str:
    """The digest of bytes, in hex."""
    return new_content_digest(data).hexdigest()


def packed_digest(data: bytes) -> bytes:
    """The digest of bytes, for where many are kept in memory."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


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


def json_digest(value: Any) -> str:
    """The digest of a JSON value, in hex."""
    return content_digest(canonical_json(value))


def canonical_json(value: Any) -> bytes:
    """The one spelling of a JSON value that digests are taken of: sorted keys, no white space."""
    return _canonical.encode(value)
