"""How people name a trial: `fr#1`, `capitals/fr#1`, `capitals/small/fr#1,prompt=plain`, or the beginning of its key.

A reference is the sample and the epoch, with the task, the model and the axes where a run has several of them. `label`
gives the one that people are shown. `find` also takes shorter ones: whatever is left out must not matter. Ids may
contain every character that a reference is made of, so nothing is parsed by itself: a text names the trials on record
of which it is a spelling. Names in full come before beginnings, and a text that names several trials is refused.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from holdfast.errors import UsageError
from holdfast.run.core.display_text import SHORT_DIGITS, digest_of, shell_word, short_sample
from holdfast.run.fold.run_fold import FoldedTrial, Group, RunFold
from holdfast.run.where.trial_spelling import FEWEST_DIGITS, axes_text, is_digest_beginning, sample_spellings

_EPOCH = re.compile(r"(.+)#([1-9][0-9]{0,8})", re.DOTALL)
_COMPARED_TRIALS = 20_000
"""In larger runs digests are not compared with one another: so many digits differ anyway."""
_ENOUGH_DIGITS = 16
_CANDIDATES = 8


class _Reading(NamedTuple):
    """One way to read a text: a sample and perhaps an epoch, among the trials of one task, model and axes."""

    group: tuple[str, str, str]
    sample: str
    epoch: int | None


class TrialReferences:
    """The references of the trials that a run has on record."""

    def __init__(self, fold: RunFold, place: str) -> None:
        self._fold, self._place = fold, place

    def label(self, trial: FoldedTrial) -> str:
        """How the trial is named to people; its key where the record does not say which sample it is about."""
        group, sample = trial.standing.group, trial.row.sample
        if not sample:
            return trial.key
        digits = self._digits if digest_of(sample) else SHORT_DIGITS
        task = f"{group.task}/" if self._has_several_tasks else ""
        model = f"{group.model}/" if self._has_several_models else ""
        name = f"{task}{model}{short_sample(sample, digits)}#{trial.row.epoch}{axes_text(group.axes)}"
        # What a terminal does not show as it is cannot be typed either.
        return name if name.isprintable() and " ".join(name.split()) == name else trial.key

    @cached_property
    def _has_several_tasks(self) -> bool:
        return len({group.task for group in self._fold.groups.values()}) > 1

    @cached_property
    def _has_several_models(self) -> bool:
        return len({group.model for group in self._fold.groups.values()}) > 1

    @cached_property
    def _digits(self) -> int:
        """How many digits of a digest tell the samples of the run apart."""
        if self._fold.on_record > _COMPARED_TRIALS:
            return _ENOUGH_DIGITS
        digests = sorted({digest_of(trial.row.sample) for trial in self._fold.trials()})
        return max([SHORT_DIGITS, *(_first_difference(*pair) + 1 for pair in pairwise(digests))])

    def find(self, text: str) -> FoldedTrial:
        """The one trial that a reference, a key or the beginning of a key names.

        Raises:
            UsageError: it names none, or several, which are listed.
        """
        if (trial := self._fold.find(text)) is not None:
            return trial
        found = self._named(text) or self._beginning_with(text)
        # What people are shown is always accepted, also where another id reads like it.
        exact = [trial for trial in found if self.label(trial) == text] if len(found) > 1 else found
        if len(exact) == 1:
            return exact[0]
        raise self._ambiguous(text, found) if found else self._unknown(text)

    def find_many(self, texts: Iterable[str]) -> dict[str, FoldedTrial]:
        """The trials of those texts that name exactly one in full: one pass over the run for any number of them.

        `find` decides about the others.
        """
        by_reading: dict[_Reading, list[str]] = {}
        found: dict[str, list[FoldedTrial]] = {}
        for text in dict.fromkeys(texts):
            if (trial := self._fold.find(text)) is not None:
                found[text] = [trial]
                continue
            for reading in self._readings(text):
                by_reading.setdefault(reading, []).append(text)
        for trial in self._fold.trials() if by_reading else ():
            for text in {text for one in _spellings(trial, trial.row.sample) for text in by_reading.get(one, ())}:
                found.setdefault(text, []).append(trial)
        return {text: trials[0] for text, trials in found.items() if len(trials) == 1}

    def _named(self, text: str) -> list[FoldedTrial]:
        """The trials of which the text is a name in full."""
        readings = set(self._readings(text))
        return [
            trial
            for trial in self._fold.trials_with_text({reading.sample for reading in readings})
            if any(reading in readings for reading in _spellings(trial, trial.row.sample))
        ]

    def _beginning_with(self, text: str) -> list[FoldedTrial]:
        """The trials whose key, or whose sample's digest, begins with the text."""
        if len(text) < FEWEST_DIGITS:
            return []
        keys = [key for key in self._fold.keys() if key.startswith(text)]  # noqa: SIM118 - not a mapping
        by_key = map(self._fold.find, keys)
        found = {trial.key: trial for trial in by_key if trial is not None}
        readings = {one for one in self._readings(text) if len(one.sample.partition("~")[0]) >= FEWEST_DIGITS}
        for trial in self._fold.trials_with_text({one.sample.partition("~")[0] for one in readings}):
            if any(_is_beginning(one, trial) for one in readings):
                found[trial.key] = trial
        return list(found.values())

    def _readings(self, text: str) -> Iterator[_Reading]:
        for group in self._fold.groups.values():
            of = _group_key(group)
            for name in sample_spellings(text, *of):
                yield _Reading(of, name, None)
                if match := _EPOCH.fullmatch(name):
                    yield _Reading(of, match[1], int(match[2]))

    # Errors.

    def _ambiguous(self, text: str, found: list[FoldedTrial]) -> UsageError:
        labels = [self.label(trial) for trial in found[:_CANDIDATES]]
        named = labels if len({*labels}) == len(labels) else [trial.key for trial in found[:_CANDIDATES]]
        more = f" and {len(found) - _CANDIDATES} more" if len(found) > _CANDIDATES else ""
        return UsageError(
            f"{text!r} matches {len(found)} trials: {', '.join(sorted(named))}{more}.", hint="Give one of these."
        )

    def _unknown(self, text: str) -> UsageError:
        waiting = self._fold.counts.not_started
        note = f" {waiting} planned trials have not started and have no record." if waiting else ""
        return UsageError(
            f"There is no trial {text!r} on record in {self._place}.{note}",
            hint=f"List {self._listing(text)}",
        )

    def _listing(self, text: str) -> str:
        """The command that lists what was probably meant: an expression, or the name of a task or a model."""
        command = f"holdfast show {shell_word(self._place)}"
        names = {"task": {entry.task for entry in self._fold.plan}, "model": {entry.model for entry in self._fold.plan}}
        named = next((f"{field}={text}" for field, known in names.items() if text in known), "")
        meant = text if re.search("[=<>]", text) else named
        return f"such trials with: {command} --where {shlex.quote(meant)}" if meant else f"the trials with: {command}"


def _first_difference(one: str, other: str) -> int:
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)


def _group_key(group: Group) -> tuple[str, str, str]:
    return group.task, group.model, axes_text(group.axes)


def _spellings(trial: FoldedTrial, sample: str) -> tuple[_Reading, _Reading]:
    of = _group_key(trial.standing.group)
    return _Reading(of, sample, None), _Reading(of, sample, trial.row.epoch)


def _is_beginning(reading: _Reading, trial: FoldedTrial) -> bool:
    """Whether it names the trial by the first digits of its sample's digest."""
    return is_digest_beginning(reading.sample, trial.row.sample) and reading in _spellings(trial, reading.sample)
