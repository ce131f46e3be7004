"""What an export needs of a run: its trials one at a time, and what is known of each task with a model."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.models.message import Usage
from holdfast.run.core.records import Failure, ScoreRecord, StepRecord


class ExportedTrial(NamedTuple):
    """One trial: what was asked, answered, scored and spent, with its steps."""

    key: str
    sample: str
    epoch: int
    state: str
    reason: str
    input: Any
    target: Any
    metadata: Mapping[str, Any]
    answer: str | None
    scores: Mapping[str, float | None]
    """By the name under which people know the scorer; None for a slot that is filled without a number."""
    judged: Mapping[str, ScoreRecord]
    """The records behind them, where there is one."""
    usage: Usage
    """Of the model under test."""
    other_usage: Mapping[str, Usage]
    """Of judges and other models, by their names in the eval."""
    seconds: float
    error: Failure | None
    steps: Iterable[StepRecord]
    """Those of the attempt that counts, in the order of the run."""


class ExportedGroup(NamedTuple):
    """The trials of one task, model and combination of axes: what one log holds."""

    task: str
    model: str
    axes: tuple[tuple[str, str], ...]


class GroupPlan(NamedTuple):
    """What is known of a task with a model, whatever its axes."""

    dataset: str
    samples: int
    """Of the task, as far as the plan says."""
    epochs: int
    served: str
    """How the model is known to others: its provider and its name there."""
    generation: Mapping[str, Any]
    scorers: tuple[str, ...]
    binary: frozenset[str]
    """Scorers whose every score is 0 or 1."""
    is_complete: bool
    solver: str


class ExportedRun(NamedTuple):
    """What is known of the run as a whole."""

    id: str
    name: str
    created: str
    version: str
    packages: Mapping[str, str]
