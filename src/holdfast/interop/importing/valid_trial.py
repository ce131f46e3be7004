"""A trial as a run can have it: with valid names, a sample that can be asked, and numbers that are numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.interop.importing.foreign_eval import ForeignSample, ForeignScore, ForeignTrial
from holdfast.interop.importing.foreign_values import kept_value, plain_number, plain_text
from holdfast.interop.importing.names import judge_name, sample_id, scorer_name, valid_name
from holdfast.models.message import EarlierMessage
from holdfast.tasks.choices import checked_choices

MOST_EPOCHS = 1_000_000
_MOST_MODELS = 10_000
"""Of one trial: the end of a trial names them all, and has to fit into a frame of the journal."""
_LONGEST_PLACE = 4000
_NO_NUMBER = "what was recorded is not a number"


def why_not_valid(trial: ForeignTrial) -> str:
    """Why a trial cannot be imported; empty if it can."""
    if not 1 <= trial.epoch <= MOST_EPOCHS:
        return f"its number is {trial.epoch}; it has to be between 1 and {MOST_EPOCHS}"
    if len(trial.usage_by_model) > _MOST_MODELS:
        return f"it names {len(trial.usage_by_model):,} models; at most {_MOST_MODELS:,} are recorded for a trial"
    return ""


def valid_trial(trial: ForeignTrial) -> ForeignTrial:
    """The trial with everything that can be recorded, and nothing else."""
    return msgspec.structs.replace(
        trial,
        task=valid_name(trial.task),
        model=valid_name(trial.model),
        axes={valid_name(axis): valid_name(value) for axis, value in trial.axes.items()},
        sample=_valid_sample(trial.sample),
        answer=None if trial.answer is None else plain_text(trial.answer),
        calls=tuple(_recordable(call) for call in trial.calls),
        scores=tuple(map(_valid_score, trial.scores)),
        usage_by_model={valid_name(model): usage for model, usage in trial.usage_by_model.items()},
        place=plain_text(trial.place)[:_LONGEST_PLACE],
        limit=plain_text(trial.limit)[:_LONGEST_PLACE],
        cost=kept_cost(trial.cost),
        seconds=kept_value(trial.seconds),
        error=None if trial.error is None else _recordable(trial.error),
        fields=kept_value(trial.fields),
        unknown=tuple(valid_name(name) for name in trial.unknown),
        unusable=tuple(dict.fromkeys(map(valid_name, [*trial.unusable, *_unusable_scores(trial.scores)]))),
    )


def kept_cost(cost: Any) -> Any:
    """A cost as it was, where that is a number or a short text; a longer value is no cost."""
    kept = kept_value(cost)
    return kept if not isinstance(kept, str | list | dict) or len(str(kept)) <= _LONGEST_PLACE else None


def _recordable(value: Any) -> Any:
    """A struct whose parts can be recorded."""
    return msgspec.convert(kept_value(msgspec.to_builtins(value)), type(value))


def _unusable_scores(scores: Iterable[ForeignScore]) -> Iterator[str]:
    return (score.scorer for score in scores if score.value is not None and _is_unusable(score))


def _is_unusable(score: ForeignScore) -> bool:
    return score.is_number and plain_number(score.value) is None


def _valid_score(score: ForeignScore) -> ForeignScore:
    is_kept = score.value is not None and _is_unusable(score)
    metadata = {**score.metadata, "value": score.value} if is_kept else score.metadata
    explanation = plain_text(score.explanation)
    return msgspec.structs.replace(
        score,
        scorer=scorer_name(score.scorer),
        judge=judge_name(score.judge) if score.judge else "",
        value=None if is_kept else kept_value(score.value),
        answer=None if score.answer is None else plain_text(score.answer),
        explanation=explanation or (_NO_NUMBER if is_kept else ""),
        metadata=kept_value(metadata),
    )


def _valid_sample(sample: ForeignSample) -> ForeignSample:
    metadata = kept_value(sample.metadata)
    choices = _valid_choices(sample.choices)
    if sample.choices and choices is None:
        metadata = {**metadata, "choices": kept_value(sample.choices)}
    return ForeignSample(
        id=sample_id(sample.id),
        input=_valid_input(sample.input),
        target=kept_value(sample.target),
        choices=choices,
        metadata=metadata,
    )


def _valid_choices(choices: Any) -> list[str] | None:
    try:
        return None if not choices else checked_choices(kept_value(choices), "the sample")
    except ConfigurationError:
        return None


def _valid_input(value: Any) -> Any:
    """A text, or messages; what is neither is the text of its JSON."""
    if isinstance(value, str):
        return plain_text(value)
    try:
        messages = msgspec.convert(kept_value(value), list[EarlierMessage])
    except msgspec.ValidationError:
        return plain_text(value)
    return msgspec.to_builtins(messages) if messages else ""


def sample_row(sample: ForeignSample) -> dict[str, object]:
    """The sample as a row of a dataset."""
    row: dict[str, object] = msgspec.to_builtins(sample)
    row.setdefault("input", "")
    return {name: value for name, value in row.items() if value is not None and value != {}}
