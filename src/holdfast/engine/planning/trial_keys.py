"""The key of a trial: a digest of its task, axis values, model, sample and epoch, and of nothing else.

So it is the same in every session, whatever else has changed.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from operator import gt

import msgspec

KEY_BYTES = 10
_DIGITS = re.compile("[0-9a-f]*")
_PAIR = struct.Struct(">QH")
_PAGE_KEYS = 4096


def group_hash(task: str, model: str, axes: Mapping[str, str]) -> blake2b:
    """The hash that the digests of all trials of a task, a model and axis values begin with."""
    return blake2b(msgspec.json.encode([task, model, sorted(axes.items())]), digest_size=KEY_BYTES)


def trial_digest(group: blake2b, sample: str, epoch: int) -> bytes:
    """The key of a trial of the group, as bytes."""
    hash_ = group.copy()
    hash_.update(b"\n%d %b" % (epoch, sample.encode("utf-8", "surrogatepass")))
    return hash_.digest()


def trial_key(task: str, model: str, axes: Mapping[str, str], sample: str, epoch: int) -> str:
    """The key of one trial."""
    return trial_digest(group_hash(task, model, axes), sample, epoch).hex()


def trial_seed(seed: int, key: str) -> int:
    """The seed of a trial, the same in every session."""
    return int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=8).digest(), "big") >> 1


class KeySet:
    """Many keys in little memory: sorted, ten bytes each."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._heads, self._tails = array("Q"), array("H")
        rest = iter(keys)
        while page := list(islice(rest, _PAGE_KEYS)):
            packed = _packed_keys(page)
            numbers = struct.unpack(">" + "QH" * (len(packed) // KEY_BYTES), packed)
            self._heads.extend(numbers[0::2])
            self._tails.extend(numbers[1::2])
        # Keys come sorted from an index, and are then never held as objects.
        if any(map(gt, self._heads, islice(self._heads, 1, None))):
            pairs = sorted(zip(self._heads, self._tails, strict=True))
            self._heads, self._tails = array("Q", [pair[0] for pair in pairs]), array("H", [pair[1] for pair in pairs])

    def __len__(self) -> int:
        return len(self._heads)

    def __iter__(self) -> Iterator[str]:
        return (f"{head:016x}{tail:04x}" for head, tail in zip(self._heads, self._tails, strict=True))

    def __contains__(self, digest: bytes) -> bool:
        if not self._heads:
            return False
        heads, head, tail = self._heads, int.from_bytes(digest[:8]), int.from_bytes(digest[8:])
        place = bisect_left(heads, head)
        while place < len(heads) and heads[place] == head:
            if self._tails[place] == tail:
                return True
            place += 1
        return False

    def places_of_others(self, packed: bytes) -> Iterator[int]:
        """The places, in a row of packed digests, of those that are not in the set."""
        heads, last = self._heads, len(self._heads)
        for place, (head, tail) in enumerate(_PAIR.iter_unpack(packed)):
            found = bisect_left(heads, head)
            if found == last or heads[found] != head or self._tails[found] != tail:
                at = place * KEY_BYTES
                # Two keys may begin alike.
                if packed[at : at + KEY_BYTES] not in self:
                    yield place


def _packed_keys(keys: list[str]) -> bytes:
    """Keys as digests, one behind the other; a text that is not a key is left out."""
    joined = "".join(keys)
    if set(map(len, keys)) != {2 * KEY_BYTES} or not _DIGITS.fullmatch(joined):
        joined = "".join([key for key in keys if len(key) == 2 * KEY_BYTES and _DIGITS.fullmatch(key)])
    return bytes.fromhex(joined)
