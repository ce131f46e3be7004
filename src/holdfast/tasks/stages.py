"""A solver whose work is divided into stages, each of them durable: prepare, solve, capture."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeGuard

from holdfast.errors import HoldfastError
from holdfast.tasks.answer import Answer
from holdfast.tasks.trial_interface import Trial


class Stage(NamedTuple):
    """One stage of a solver."""

    name: str
    """`prepare`, `solve` or `capture`."""
    run: Callable[[Trial, Mapping[str, Any]], Awaitable[Any]]
    """Gets the trial and the outcomes of the stages before it; returns an outcome that JSON can hold."""


class WorkLost(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """What an earlier stage has left beside the run is gone or was changed: only a new start can help."""

    kind = "task"


class StagedSolver(Protocol):
    """A solver whose work is divided into durable stages."""

    stages: tuple[Stage, ...]

    def answer(self, trial: Trial, outcomes: Mapping[str, Any]) -> Answer:
        """The answer, from the outcomes of all stages."""

    async def clean_up(self, trial: Trial, status: str) -> None:
        """After the trial has ended: keeps or removes what the stages have left, by policy. It may be called again."""


def cited_artifacts(solver: StagedSolver, outcomes: Mapping[str, Any]) -> Mapping[str, str]:
    """The files in `artifacts/<trial>` that outcomes name, with their digests; a solver need not keep any."""
    cited = getattr(solver, "cited_artifacts", None)
    return cited(outcomes) if cited is not None else {}


def is_staged(solver: object) -> TypeGuard[StagedSolver]:
    """Whether a solver is divided into stages."""
    stages = getattr(solver, "stages", None)
    return isinstance(stages, tuple) and bool(stages) and isinstance(stages[0], Stage)
