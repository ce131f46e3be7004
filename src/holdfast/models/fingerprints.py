"""The fingerprint of a request: it depends on the content only, so it is the same in every session.

It is the digest of the request in JSON. The messages come first there, so a hash over those of a conversation can be
kept while it continues, and a turn costs its own messages and not those before it. Known keys do not count, so that a
key may rotate, and so that nothing in a run depends on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.digests import new_content_digest, packed_digest
from holdfast.models.message import Message, Request, encodable
from holdfast.models.redaction import key_free_json
from holdfast.spec import Generation

_encode = msgspec.json.Encoder(order="deterministic").encode


class MessageHash:
    """A hash over the first messages of a conversation, `count` of them."""

    __slots__ = ("_hash", "count")

    def __init__(self, hash_: blake2b, count: int) -> None:
        self._hash, self.count = hash_, count

    def plus(self, messages: Sequence[Message]) -> MessageHash:
        """One over further messages as well.

        Raises:
            UnicodeEncodeError: one of them holds text that UTF-8 cannot carry.
        """
        longer = self._hash.copy()
        for place, message in enumerate(messages, self.count):
            encoded = key_free_json(_encode(message))
            longer.update(b",%b" % encoded if place else encoded)
        return MessageHash(longer, self.count + len(messages))

    def fingerprint(self, generation: Generation, response_schema: dict[str, Any] | None = None) -> bytes:
        """Of the request with these messages.

        Raises:
            UnicodeEncodeError: the rest of it holds text that UTF-8 cannot carry.
        """
        whole = self._hash.copy()
        whole.update(b'],"generation":%b' % key_free_json(_encode(generation)))
        if response_schema is not None:
            # Only then, so that a request without one has the fingerprint that it always had.
            whole.update(b',"response_schema":%b' % key_free_json(_encode(response_schema)))
        whole.update(b"}")
        return whole.digest()


NO_MESSAGES = MessageHash(new_content_digest(b'{"messages":['), 0)


def fingerprint(request: Request) -> bytes:
    """Sixteen bytes that two requests share if and only if they ask the same in the same way."""
    try:
        return NO_MESSAGES.plus(request.messages).fingerprint(request.generation, request.response_schema)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(request)
        if request.response_schema is None:
            del plain["response_schema"]
        return packed_digest(key_free_json(_encode(encodable(plain))))
