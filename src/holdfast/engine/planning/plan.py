"""The plan: every trial of a run, named without being listed.

A trial is one (task, axis values, model, sample, epoch). Trials are made one at a time when there is room for them; a
plan of a million trials takes no more memory than its datasets do.
"""

from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypedDict

import msgspec

from holdfast.engine.planning.trial_keys import KEY_BYTES, KeySet, group_hash, trial_digest
from holdfast.run.core.axes.choices import ChoiceKey, line_of
from holdfast.spec import TrialLimits
from holdfast.spec.grid import combinations
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.derived_cache import DerivedCache, derived_name
from holdfast.tasks.datasets.listed_trials import ListedTrials
from holdfast.tasks.grid.axis_grid import NOTHING_CHOSEN, Chosen
from holdfast.tasks.sample import Sample
from holdfast.tasks.task import Task

_CACHED_FROM = 2000
"""The keys of fewer trials are computed again as quickly."""
_REVISION = 1
"""Raised whenever trials get other keys than before."""


class ScoresThatHold(Protocol):
    """Finds scores of an earlier version of a scorer that a trial need not be given again."""

    def slot_for(self, slot: str, position: int, filled: Container[str]) -> str | None:
        """The slot, among those filled, whose score holds for the sample at a position; None if there is none."""


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
    fail_fast: bool = True
    """Whether the task is stopped if its first trials all fail with the same error."""
    result_files: bool = False
    """Whether finished trials get files of their own."""
    versions: Mapping[str, str] = {}
    """By scorer, the slots that have another name than the scorer: those of a version that came later."""
    scores_that_hold: ScoresThatHold | None = None
    """Given where targets were edited: samples that have the same ones keep their scores."""

    listed: ListedTrials | None = None
    """The trials of an imported run, of which there need not be one for every place of a grid."""
    max_iterations: int | None = None
    """How many calls a solver may make in one attempt."""
    by_model: Mapping[str, tuple[Mapping[str, str], ...]] | None = None
    """The combinations that each model is asked with, where an axis value names its model; else all of them."""
    choices: dict[ChoiceKey, str] = {}  # noqa: RUF012 - replaced for every task whose values depend on others
    """The values that were chosen so far, of this task; shared by its trials, and added to while a session runs."""

    def slot_of(self, scorer: str) -> str:
        """The name of a scorer's slot."""
        return self.versions.get(scorer, scorer)

    @property
    def slots(self) -> list[str]:
        """The names of all slots, in the order of the scorers."""
        return [self.slot_of(scorer.name) for scorer in self.task.scorers]

    @property
    def planned(self) -> int:
        return sum(map(self.planned_of, self.models))

    def planned_of(self, model: str) -> int:
        """How many trials are planned for a model."""
        if self.listed is not None:
            return len(self.listed.of(model))
        return len(self.dataset) * len(self.axes_of(model)) * self.epochs

    def axes_of(self, model: str) -> tuple[Mapping[str, str], ...]:
        """The combinations of axis values that a model is asked with."""
        return self.axes if self.by_model is None else self.by_model.get(model, ())

    def for_model(self, model: str) -> "PlannedTask":
        """The same task with nothing but the combinations of one model."""
        return self if self.by_model is None else self._replace(axes=self.axes_of(model), by_model=None)

    def planned_by_value(self, model: str) -> dict[str, dict[str, int]]:
        """By axis and value, how many trials are planned for a model; empty where there are no axes."""
        each = 1 if self.listed is not None else len(self.dataset) * self.epochs
        found: dict[str, dict[str, int]] = {axis: dict.fromkeys(names, 0) for axis, names in self._value_order()}
        for axes in self._trial_axes(model):
            for axis, value in axes.items():
                found[axis][value] = found[axis].get(value, 0) + each
        return {axis: {value: n for value, n in values.items() if n} for axis, values in found.items()}

    def _value_order(self) -> Iterator[tuple[str, list[str]]]:
        """The axes, each with its values in the order of the task."""
        for axis in dict.fromkeys(chain.from_iterable(self.axes)):
            yield axis, self.task.axes.get(axis, [])

    def _trial_axes(self, model: str) -> Iterator[Mapping[str, str]]:
        """The combinations of a model; those of an imported run once for each trial."""
        if self.listed is None:
            yield from self.axes_of(model)
            return
        listed = self.listed.of(model)
        for place in range(len(listed)):
            yield self.axes[listed[place][2]]

    def chosen_for(self, model: str, axes: Mapping[str, str]) -> Chosen:
        """What was chosen for the values of a trial that depend on others."""
        if not self.choices:
            return NOTHING_CHOSEN
        lines = {axis: line_of(self.choices, self.name, model, axis, value) for axis, value in axes.items()}
        return {axis: line for axis, line in lines.items() if line}


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
    start_from: str = ""
    """The stage at which it is attempted once more; what came before is kept."""

    @property
    def chosen(self) -> Chosen:
        """What was chosen for its axis values that depend on others."""
        return self.task.chosen_for(self.model, self.axes)

    def read_sample(self) -> Sample:
        """Its sample, as its solver gets it."""
        task = self.task
        return task.task.sample_at(task.dataset.sample(self.position, self.row), self.axes, self.chosen)


def axis_values(axes: Mapping[str, list[str]]) -> tuple[Mapping[str, str], ...]:
    """Every combination of the values on the axes; one empty combination where there are none."""
    return combinations(axes)


class WorkLeft(TypedDict, total=False):
    """What is special about a trial that is to be run, as in `PlannedTrial`."""

    scores_only: bool
    again: bool
    was_finished: bool
    slots_again: bool


class FailedTrials(NamedTuple):
    """The trials that have failed: a session runs them again on request only."""

    keys: KeySet
    in_slots: KeySet
    """Those that have their answers, and failed in scorers."""


_NOTHING_SPECIAL = WorkLeft()
_NONE_FAILED = FailedTrials(KeySet([]), KeySet([]))


class TrialSequence:
    """The trials of one task and model, in order, without those that are finished or have failed."""

    def __init__(
        self,
        task: PlannedTask,
        model: str,
        finished: KeySet,
        missing_scores: KeySet,
        cache: DerivedCache | None = None,
        redo: KeySet | None = None,
        failed: FailedTrials = _NONE_FAILED,
    ) -> None:
        """The cache keeps the digests of all trials for another session, where there are many.

        Those to `redo` are given although they are finished, or have failed.
        """
        task = task.for_model(model)
        self.task, self.model = task, model
        is_worthwhile = task.listed is None and task.planned_of(model) // task.epochs >= _CACHED_FROM
        self._cache = cache if is_worthwhile else None
        self._finished, self._missing_scores = finished, missing_scores
        self._redo = redo if redo is not None else KeySet([])
        self._failed = failed
        self.skipped = 0
        """Trials that were skipped so far, because they are finished or have failed for good."""

    def trials(self) -> Iterator[PlannedTrial]:
        """Epoch after epoch, so that every sample has been asked once before any is asked twice."""
        if self.task.listed is not None:
            yield from self._listed(self.task.listed)
            return
        for epoch in range(1, self.task.epochs + 1):
            yield from self._computed(epoch) if self._cache is None else self._cached(epoch, self._cache)

    def _cached(self, epoch: int, cache: DerivedCache) -> Iterator[PlannedTrial]:
        group = msgspec.json.encode([_REVISION, self.task.name, self.model, self.task.axes, epoch], order="sorted")
        name = derived_name("trials", group, self.task.dataset.digest())
        # Ended trials that have something left to be done are looked for one by one.
        ended = len(self._finished) + len(self._failed.keys)
        is_plain = ended and not len(self._missing_scores) + len(self._redo)
        kept = cache.find(name) if is_plain else None
        if kept is not None:
            yield from self._from_digests(epoch, kept)
        else:
            digests = bytearray()
            yield from self._computed(epoch, digests)
            cache.put(name, bytes(digests))

    def _computed(self, epoch: int, digests: bytearray | None = None) -> Iterator[PlannedTrial]:
        """The trials of an epoch; the digests of all of them are added to `digests`."""
        task, groups = self.task, self._all_groups
        for position in range(len(task.dataset)):
            sample, row = task.dataset.keyed_row(position)
            for axes, group in groups:
                digest = trial_digest(group, sample, epoch)
                if digests is not None:
                    digests += digest
                work = self._work_left(digest)
                if work is None:
                    self.skipped += 1
                    continue
                trial = PlannedTrial(digest.hex(), task, self.model, position, epoch, axes, sample, row)
                yield trial._replace(**work) if work else trial

    def _listed(self, listed: ListedTrials) -> Iterator[PlannedTrial]:
        """The trials that a run was imported with, in their order."""
        for place in range(len(listed.of(self.model))):
            trial = self.at(place)
            if trial is None:
                self.skipped += 1
            else:
                yield trial

    @cached_property
    def _all_groups(self) -> list[tuple[Mapping[str, str], blake2b]]:
        return [(axes, group_hash(self.task.name, self.model, axes)) for axes in self.task.axes]

    def _work_left(self, digest: bytes) -> WorkLeft | None:
        """What is special about a trial that is to be run; None for one that is left as it is."""
        finished, redo, failed = self._finished, self._redo, self._failed
        if len(failed.keys) and digest in failed.keys:
            if digest not in redo:
                return None
            return {"scores_only": digest in finished, "slots_again": digest in failed.in_slots}
        if digest not in finished:
            return _NOTHING_SPECIAL
        if len(redo) and digest in redo:
            return {"again": True, "was_finished": digest not in self._missing_scores}
        is_unscored = len(self._missing_scores) and digest in self._missing_scores
        return {"scores_only": True} if is_unscored else None

    def at(self, place: int) -> PlannedTrial | None:
        """The trial at this place of the plan, counted from 0 in the order of `trials`; None if it is not run."""
        position, epoch, axis = self._coordinates(place)
        axes, group = self._all_groups[axis]
        sample, row = self.task.dataset.keyed_row(position)
        digest = trial_digest(group, sample, epoch)
        if (work := self._work_left(digest)) is None:
            return None
        trial = PlannedTrial(digest.hex(), self.task, self.model, position, epoch, axes, sample, row)
        return trial._replace(**work)

    def _coordinates(self, place: int) -> tuple[int, int, int]:
        """The position of the sample, the epoch and the place on the axes."""
        if self.task.listed is not None:
            return self.task.listed.of(self.model)[place]
        rest, axis = divmod(place, len(self.task.axes))
        epoch, position = divmod(rest, len(self.task.dataset))
        return position, epoch + 1, axis

    def _from_digests(self, epoch: int, digests: bytes) -> Iterator[PlannedTrial]:
        """The trials of an epoch whose digests are known from an earlier session."""
        task, failed, following = self.task, self._failed.keys, 0
        for place in self._finished.places_of_others(digests):
            digest = digests[place * KEY_BYTES : (place + 1) * KEY_BYTES]
            if len(failed) and digest in failed:
                continue
            self.skipped += place - following
            following = place + 1
            position, axis = divmod(place, len(task.axes))
            sample, row = task.dataset.keyed_row(position)
            yield PlannedTrial(digest.hex(), task, self.model, position, epoch, task.axes[axis], sample, row)
        self.skipped += len(digests) // KEY_BYTES - following
