"""The answers of another run, which a judge compares with those of this one.

They are copied into the run before anything is judged: whatever becomes of the other run, a judge that is resumed sees
the same pair. What counts is the copy's content, and not where the other run was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from holdfast.digests import canonical_json, json_digest
from holdfast.errors import ConfigurationError, NotARun
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import AnswerRecord
from holdfast.suggestions import listing
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.judges.panels import judge_slots
from holdfast.tasks.scorers.base import Scorer

if TYPE_CHECKING:
    from holdfast.run.fold.reader import RunReader
    from holdfast.run.fold.run_fold import FoldedTrial

_DIGITS = 8
InputDigests = Callable[[str, str], list[str]]
"""Of a task and the key of a sample: digests of what is asked, as its row and as its text; empty if it is unknown."""


class OtherRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which answers a judge compares with."""

    run: str
    """The directory of the run, relative to the eval file. Example: `runs/baseline`"""

    model: str | None = None
    """The model that gave the answers; needed if the task of that run has several. Example: `small`"""


class OtherAnswers:
    """The answers of another run, by sample, axis values and epoch."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._places: dict[str, dict[bytes, list[int]]] = {}
        self._axes: set[bytes] = set()
        """All that the other run has."""
        self._inputs: dict[str, list[str]] = {}
        self._asked_otherwise: set[str] = set()
        self.damage = rows.damage
        """Where to look if the other run was damaged when its answers were copied just now."""
        for place, row in enumerate(rows):
            self._inputs[row["sample"]] = row.get("input", [])
            axes = canonical_json(row["axes"])
            self._axes.add(axes)
            self._places.setdefault(row["sample"], {}).setdefault(axes, []).append(place)

    @property
    def digest(self) -> str:
        return self._rows.digest

    def has(self, sample: str) -> bool:
        return sample in self._places

    def compare_input(self, sample: str, digests: Sequence[str]) -> None:
        """Notes whether the other run was asked something else: neither the row nor the text is the same."""
        known = self._inputs.get(sample, [])
        if known and digests and not set(known) & set(digests):
            self._asked_otherwise.add(sample)

    def is_asked_otherwise(self, sample: str) -> bool:
        """Whether the sample of this id is another one in the other run, as far as they have been compared."""
        return sample in self._asked_otherwise

    def find(self, sample: str, epoch: int, axes: Mapping[str, str]) -> str | None:
        """The answer to the same sample with the same axis values, or with the only ones that the other run has.

        It is that of the same epoch; if the other run has none, its answers are taken in turn.
        """
        by_axes = self._places.get(sample, {})
        places = by_axes.get(canonical_json(dict(axes)), [])
        if not places and len(self._axes) == 1:
            places = next(iter(by_axes.values()), [])
        rows = [self._rows[place] for place in places]
        same = [row for row in rows if row["epoch"] == epoch] or rows
        return str(same[(epoch - 1) % len(same)]["answer"]) if same else None


def answers_input(task: str, scorer: str, other: OtherRun) -> str:
    """The name of the copy among the inputs of a run."""
    return f"answers/{task}/{scorer}/{json_digest([other.run, other.model])[:_DIGITS]}"


def scorers_with_answers(
    scorers: Sequence[Scorer], open_rows: Callable[[str, OtherRun], Rows]
) -> tuple[Scorer, ...] | None:
    """The scorers with the answers that their judges compare with; None if none of them needs any.

    `open_rows` gives those of a scorer, by its name.
    """
    found = {
        slot.name: slot
        for slot in judge_slots(scorers)
        if isinstance(slot.of.pairwise, OtherRun) and slot.other is None
    }
    if not found:
        return None
    answers = {
        slot.of.name: OtherAnswers(open_rows(slot.of.name, slot.of.pairwise))
        for slot in found.values()
        if isinstance(slot.of.pairwise, OtherRun)
    }
    bound = {name: msgspec.structs.replace(slot, other=answers[slot.of.name]) for name, slot in found.items()}
    return tuple(bound.get(scorer.name, scorer) for scorer in scorers)


def missing_answers(scorers: Sequence[Scorer], samples: Sequence[str]) -> dict[str, list[str]]:
    """By scorer, the samples to which the run that it compares with has no answer."""
    others = {slot.of.name: slot.other for slot in judge_slots(scorers) if slot.other is not None}
    missing = {name: [key for key in samples if not other.has(key)] for name, other in others.items()}
    return {name: keys for name, keys in missing.items() if keys}


def compare_inputs(scorers: Sequence[Scorer], samples: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """By scorer, the samples that are others in the run that it compares with; `samples` are keys with digests."""
    others = {slot.of.name: slot.other for slot in judge_slots(scorers) if slot.other is not None}
    keys = []
    for key, digests in samples:
        keys.append(key)
        for other in others.values():
            other.compare_input(key, digests)
    found = {name: [key for key in keys if other.is_asked_otherwise(key)] for name, other in others.items()}
    return {name: different for name, different in found.items() if different}


def write_answers(
    root: Path, other: OtherRun, task: str, read_inputs: Callable[[RunReader], InputDigests], stream: BinaryIO
) -> str:
    """Writes the answers of a run to one task, a row each, in an order that depends on nothing else.

    Returns where to look if the run is damaged.

    Raises:
        ConfigurationError: there is no such run, or it does not have one answer for a sample.
    """
    # Few judges compare with a run.
    from holdfast.run.fold.reader import RunReader  # noqa: PLC0415

    try:
        reader = RunReader(root)
    except NotARun as error:
        raise ConfigurationError(f"pairwise of a judge of {task}: {error.message}", hint=error.hint) from None
    try:
        inputs = read_inputs(reader)
        stream.writelines(canonical_json(row) + b"\n" for row in _answer_rows(reader, other, task, inputs))
        return _damage_text(reader)
    finally:
        reader.close()


def _damage_text(reader: RunReader) -> str:
    """The way to what is lost of a damaged run; empty if nothing is."""
    return (
        f"The run is damaged: holdfast verify {shell_word(reader.place)} lists what is lost."
        if reader.has_losses()
        else ""
    )


def _answer_rows(reader: RunReader, other: OtherRun, task: str, inputs: InputDigests) -> Iterator[dict[str, Any]]:
    of = _other_task(reader, task)
    trials = list(_answered_trials(reader, of))
    model = _other_model({trial.standing.group.model for trial in trials}, other, reader)
    chosen = [trial for trial in trials if trial.standing.group.model == model]
    for trial in sorted(chosen, key=_order):
        if (text := _answer_text(reader, trial)) is not None:
            axes = dict(trial.standing.group.axes)
            asked = inputs(of, trial.row.sample)
            row = {"sample": trial.row.sample, "axes": axes, "epoch": trial.row.epoch, "answer": text}
            yield {**row, **({"input": asked} if asked else {})}


def _answered_trials(reader: RunReader, task: str) -> Iterator[FoldedTrial]:
    """Those that have an answer, whatever became of its scores."""
    trials = (trial for trial in reader.fold.trials_of(task) if trial.row.sample)
    return (trial for trial in trials if trial.state.is_finished or trial.row.answered)


def _order(trial: FoldedTrial) -> tuple[str, bytes, int]:
    return trial.row.sample, canonical_json(dict(trial.standing.group.axes)), trial.row.epoch


def _answer_text(reader: RunReader, trial: FoldedTrial) -> str | None:
    attempt = trial.row.answer_of or trial.row.counted
    found = [reader.read(placed.line) for placed in reader.lines_of(trial, "answer")]
    answers = [record for record in found if isinstance(record, AnswerRecord) and record.attempt == attempt]
    return None if not answers or answers[-1].unscored else answers[-1].text


def _other_task(reader: RunReader, task: str) -> str:
    """The task of that name, or the only one that the other run has."""
    tasks = list(dict.fromkeys(entry.task for entry in reader.fold.plan))
    if task not in tasks and len(tasks) != 1:
        raise ConfigurationError(
            f"pairwise of a judge of {task}: {reader.place} has no task of this name; it has {listing(tasks)}.",
            hint=_damage_text(reader),
        )
    return task if task in tasks else tasks[0]


def _other_model(models: set[str], other: OtherRun, reader: RunReader) -> str:
    if not models:
        raise ConfigurationError(
            f"pairwise of a judge: {reader.place} has no answer to compare with.", hint=_damage_text(reader)
        )
    if other.model is None and len(models) > 1:
        raise ConfigurationError(
            f"pairwise of a judge: {reader.place} has answers of {listing(sorted(models))}.",
            hint=f"Name one: pairwise: {{run: {other.run}, model: {min(models)}}}.",
        )
    if other.model is not None and other.model not in models:
        raise ConfigurationError(
            f"pairwise of a judge: {reader.place} has no answer of {other.model!r}; it has those of"
            f" {listing(sorted(models))}."
        )
    return other.model or next(iter(models))
