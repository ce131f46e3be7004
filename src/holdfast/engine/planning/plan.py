"""The plan: every trial of a run, named without being listed.

A trial is one (task, axis values, model, sample, epoch). Its key is a digest of just that, so it is the same in every
session, whatever else changed. Trials are made one at a time when there is room for them; a plan of a million trials
takes no more memory than its datasets do.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice, product
from operator import gt
from typing import NamedTuple

import msgspec

from holdfast.spec import TrialLimits
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.derived_cache import DerivedCache, shelf_name
from holdfast.tasks.task import Task

KEY_BYTES = 10
_DIGITS = re.compile("[0-9a-f]*")
_PAIR = struct.Struct(">QH")
_PAGE_KEYS = 4096
_SHELVED_FROM = 2000
"""The keys of fewer trials are worked out again as quickly."""
_REVISION = 1
"""Raised whenever trials get other keys than before."""


class PlannedTask(NamedTuple):
    """A task with everything that its trials need."""

    name: str
    task: Task
    dataset: Dataset
    models: tuple[str, ...]
    axes: tuple[Mapping[str, str], ...]
    epochs: int
    limits: TrialLimits
    max_retries: int
    retry_deadline: float
    source: str = ""
    """The name of the input that its rows come from."""

    @property
    def planned(self) -> int:
        return self.planned_by_model * len(self.models)

    @property
    def planned_by_model(self) -> int:
        return len(self.dataset) * len(self.axes) * self.epochs


class PlannedTrial(NamedTuple):
    """One trial of the plan."""

    key: str
    task: PlannedTask
    model: str
    position: int
    epoch: int
    axes: Mapping[str, str]
    sample: str
    """The key of its sample."""
    late: bool = False
    """It has ended; only scores are missing that were asked for later."""


class KeySet:
    """Many keys in little memory: sorted, ten bytes each."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._heads, self._tails = array("Q"), array("H")
        rest = iter(keys)
        while page := list(islice(rest, _PAGE_KEYS)):
            packed = _packed(page)
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

    def others(self, packed: bytes) -> Iterator[int]:
        """The places in a row of digests where one stands that is not in the set."""
        heads, last = self._heads, len(self._heads)
        for place, (head, tail) in enumerate(_PAIR.iter_unpack(packed)):
            found = bisect_left(heads, head)
            if found == last or heads[found] != head or self._tails[found] != tail:
                at = place * KEY_BYTES
                # Two keys may begin alike.
                if packed[at : at + KEY_BYTES] not in self:
                    yield place


def _packed(keys: list[str]) -> bytes:
    """Keys as digests, one behind the other; what is no key is left out."""
    joined = "".join(keys)
    if set(map(len, keys)) != {2 * KEY_BYTES} or not _DIGITS.fullmatch(joined):
        joined = "".join([key for key in keys if len(key) == 2 * KEY_BYTES and _DIGITS.fullmatch(key)])
    return bytes.fromhex(joined)


def axis_values(axes: Mapping[str, list[str]]) -> tuple[Mapping[str, str], ...]:
    """Every combination of the values on the axes; one empty combination where there are none."""
    names = sorted(axes)
    return tuple(dict(zip(names, values, strict=True)) for values in product(*(axes[name] for name in names)))


class TrialSequence:
    """The trials of one task and model, in order, without those that are finished."""

    def __init__(
        self, task: PlannedTask, model: str, finished: KeySet, lacking: KeySet, shelf: DerivedCache | None = None
    ) -> None:
        """On the shelf, the digests of all trials are kept for another session, where there are many."""
        self.task, self.model = task, model
        is_worthwhile = task.planned_by_model // task.epochs >= _SHELVED_FROM
        self._shelf = shelf if is_worthwhile else None
        self._finished, self._lacking = finished, lacking
        self.passed = 0
        """Trials that were passed over so far, because they are finished."""

    def cells(self) -> Iterator[PlannedTrial]:
        """Epoch after epoch, so that every sample has been asked once before any is asked twice."""
        for epoch in range(1, self.task.epochs + 1):
            yield from self._cells(epoch) if self._shelf is None else self._shelved_cells(epoch, self._shelf)

    def _shelved_cells(self, epoch: int, shelf: DerivedCache) -> Iterator[PlannedTrial]:
        lane = msgspec.json.encode([_REVISION, self.task.name, self.model, self.task.axes, epoch], order="sorted")
        name = shelf_name("trials", lane, self.task.dataset.digest())
        # Those that lack scores are looked for one by one.
        kept = shelf.find(name) if len(self._finished) and not len(self._lacking) else None
        if kept is not None:
            yield from self._cells_among(epoch, kept)
        else:
            digests = bytearray()
            yield from self._cells(epoch, digests)
            shelf.put(name, bytes(digests))

    def _cells(self, epoch: int, digests: bytearray | None = None) -> Iterator[PlannedTrial]:
        """The cells of an epoch; the digests of all its trials are added to `digests`."""
        task, finished, lacking = self.task, self._finished, self._lacking
        bases = [(axes, _base(task.name, self.model, axes)) for axes in task.axes]
        for position in range(len(task.dataset)):
            sample = task.dataset.key(position)
            for axes, base in bases:
                digest = _digest(base, sample, epoch)
                if digests is not None:
                    digests += digest
                if digest not in finished:
                    yield PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample)
                elif len(lacking) and digest in lacking:
                    yield PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample, late=True)
                else:
                    self.passed += 1

    def _cells_among(self, epoch: int, digests: bytes) -> Iterator[PlannedTrial]:
        """The cells of an epoch, the digests of whose trials are known from an earlier session."""
        task, following = self.task, 0
        for place in self._finished.others(digests):
            self.passed += place - following
            following = place + 1
            position, axis = divmod(place, len(task.axes))
            key = digests[place * KEY_BYTES : following * KEY_BYTES].hex()
            sample = task.dataset.key(position)
            yield PlannedTrial(key, task, self.model, position, epoch, task.axes[axis], sample)
        self.passed += len(digests) // KEY_BYTES - following


def _base(task: str, model: str, axes: Mapping[str, str]) -> blake2b:
    return blake2b(msgspec.json.encode([task, model, sorted(axes.items())]), digest_size=KEY_BYTES)


def _digest(base: blake2b, sample: str, epoch: int) -> bytes:
    hash_ = base.copy()
    hash_.update(b"\n%d %b" % (epoch, sample.encode("utf-8", "surrogatepass")))
    return hash_.digest()


def trial_key(task: str, model: str, axes: Mapping[str, str], sample: str, epoch: int) -> str:
    """The key of one trial."""
    return _digest(_base(task, model, axes), sample, epoch).hex()


def trial_seed(seed: int, key: str) -> int:
    """A seed of a trial's own, the same in every session."""
    return int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=8).digest(), "big") >> 1
