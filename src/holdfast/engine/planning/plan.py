"""The plan: every trial of a run, named without being listed.

A trial is one (task, axis values, model, sample, epoch). Trials are made one at a time when there is room for them; a
plan of a million trials takes no more memory than its datasets do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import msgspec

from holdfast.engine.planning.trial_keys import KEY_BYTES, KeySet, group_hash, trial_digest
from holdfast.spec import TrialLimits
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.derived_cache import DerivedCache, derived_name
from holdfast.tasks.task import Task

_CACHED_FROM = 2000
"""The keys of fewer trials are computed again as quickly."""
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
    row: Mapping[str, Any] | None = None
    """The row that its sample is made of, if it has been read."""
    scores_only: bool = False
    """It has ended; only scores are missing, of scorers that were added later."""
    again: bool = False
    """It has ended, and is attempted once more; what it has counts until then."""
    was_finished: bool = False
    """It is attempted once more, and nothing of it was missing."""
    slots_again: bool = False
    """It has its answer and failed in scorers, which are asked once more."""


def axis_values(axes: Mapping[str, list[str]]) -> tuple[Mapping[str, str], ...]:
    """Every combination of the values on the axes; one empty combination where there are none."""
    names = sorted(axes)
    return tuple(dict(zip(names, values, strict=True)) for values in product(*(axes[name] for name in names)))


class TrialSequence:
    """The trials of one task and model, in order, without those that are finished."""

    def __init__(
        self,
        task: PlannedTask,
        model: str,
        finished: KeySet,
        missing_scores: KeySet,
        cache: DerivedCache | None = None,
        redo: KeySet | None = None,
        failed_in_slots: KeySet | None = None,
    ) -> None:
        """The cache keeps the digests of all trials for another session, where there are many.

        Those to `redo` are given although they are finished, or have failed in scorers.
        """
        self.task, self.model = task, model
        is_worthwhile = task.planned_by_model // task.epochs >= _CACHED_FROM
        self._cache = cache if is_worthwhile else None
        self._finished, self._missing_scores = finished, missing_scores
        self._redo = redo if redo is not None else KeySet([])
        self._failed = failed_in_slots if failed_in_slots is not None else KeySet([])
        self.skipped = 0
        """Trials that were skipped so far, because they are finished or have failed for good."""

    def trials(self) -> Iterator[PlannedTrial]:
        """Epoch after epoch, so that every sample has been asked once before any is asked twice."""
        for epoch in range(1, self.task.epochs + 1):
            yield from self._computed(epoch) if self._cache is None else self._cached(epoch, self._cache)

    def _cached(self, epoch: int, cache: DerivedCache) -> Iterator[PlannedTrial]:
        group = msgspec.json.encode([_REVISION, self.task.name, self.model, self.task.axes, epoch], order="sorted")
        name = derived_name("trials", group, self.task.dataset.digest())
        # Finished trials that have something left to be done are looked for one by one.
        others = len(self._missing_scores) + len(self._redo) + len(self._failed)
        is_plain = len(self._finished) and not others
        kept = cache.find(name) if is_plain else None
        if kept is not None:
            yield from self._from_digests(epoch, kept)
        else:
            digests = bytearray()
            yield from self._computed(epoch, digests)
            cache.put(name, bytes(digests))

    def _computed(self, epoch: int, digests: bytearray | None = None) -> Iterator[PlannedTrial]:
        """The trials of an epoch; the digests of all of them are added to `digests`."""
        task, finished, missing_scores, redo = self.task, self._finished, self._missing_scores, self._redo
        failed, has_failed = self._failed, len(self._failed) > 0
        groups = [(axes, group_hash(task.name, self.model, axes)) for axes in task.axes]
        for position in range(len(task.dataset)):
            sample, row = task.dataset.keyed_row(position)
            for axes, group in groups:
                digest = trial_digest(group, sample, epoch)
                if digests is not None:
                    digests += digest
                if has_failed and digest in failed:
                    if digest in redo:
                        trial = PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample, row)
                        yield trial._replace(scores_only=digest in finished, slots_again=True)
                    else:
                        self.skipped += 1
                elif digest not in finished:
                    yield PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample, row)
                elif len(redo) and digest in redo:
                    trial = PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample, row)
                    yield trial._replace(again=True, was_finished=digest not in missing_scores)
                elif len(missing_scores) and digest in missing_scores:
                    trial = PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample, row)
                    yield trial._replace(scores_only=True)
                else:
                    self.skipped += 1

    def _from_digests(self, epoch: int, digests: bytes) -> Iterator[PlannedTrial]:
        """The trials of an epoch whose digests are known from an earlier session."""
        task, following = self.task, 0
        for place in self._finished.places_of_others(digests):
            self.skipped += place - following
            following = place + 1
            position, axis = divmod(place, len(task.axes))
            key = digests[place * KEY_BYTES : following * KEY_BYTES].hex()
            sample, row = task.dataset.keyed_row(position)
            yield PlannedTrial(key, task, self.model, position, epoch, task.axes[axis], sample, row)
        self.skipped += len(digests) // KEY_BYTES - following
