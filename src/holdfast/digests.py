"""Digests of content: sixteen bytes of BLAKE2b, and the one JSON spelling of a value that they are taken of.

Equal content has equal digests in every session and on every machine; runs on disk depend on it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

DIGEST_BYTES = 16

_canonical = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """The one spelling of a JSON value that digests are taken of: sorted keys, no white space."""
    return _canonical.encode(value)


def new_digest(content: bytes = b"") -> hashlib.blake2b:
    """A digest that more content can be added to."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES)


def content_digest(content: bytes) -> bytes:
    """The digest of bytes."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def json_digest(value: Any) -> str:
    """The digest of a JSON value, in hexadecimal."""
    return content_digest(canonical_json(value)).hex()
