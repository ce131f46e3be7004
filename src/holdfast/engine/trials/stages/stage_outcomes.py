"""The outcomes of stages on record: one step each, whose key has the digest of what the stage was given.

An attempt that keeps stages of an earlier one begins with one step that holds their outcomes: all of them or none are
durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.run.core.records import CLEAN_UP, KEPT_STAGES, OF_STAGE, SCORE_STAGE, SOLVE, STAGES, StepRecord
from holdfast.tasks.stages import is_staged

_encoder = msgspec.json.Encoder(order="deterministic")


def stage_key(name: str, trial: str, outcomes: Mapping[str, Any]) -> str:
    """The key of a stage's outcome: its name, and the digest of the trial and of the outcomes before it."""
    digest = blake2b(_encoder.encode([trial, outcomes]), digest_size=12).hexdigest()
    return f"{OF_STAGE}{name}:{digest}#1"


def is_of_stage(step: StepRecord) -> bool:
    """Whether a step records something about a stage; no solver asks for such a step."""
    return step.step.startswith(OF_STAGE)


def is_clean_up(step: StepRecord) -> bool:
    """Whether a step says that nothing of an attempt is left to be cleaned up."""
    return step.name == CLEAN_UP and is_of_stage(step)


def recorded_outcomes(steps: Iterable[StepRecord]) -> dict[str, StepRecord]:
    """The steps with outcomes of stages, by their names; `kept` is the one with those of an earlier attempt."""
    found = (step for step in steps if is_of_stage(step) and step.error is None)
    return {step.name: step for step in found if not is_clean_up(step)}


def outcomes_in(steps: Iterable[StepRecord]) -> dict[str, Any]:
    """The outcomes on record of an attempt, by stage, in their order."""
    found = recorded_outcomes(steps)
    kept = found.pop(KEPT_STAGES, None)
    outcomes = {**kept_outcomes(kept), **{name: step.result for name, step in found.items()}}
    return {name: outcomes[name] for name in STAGES if name in outcomes}


def kept_outcomes(kept: StepRecord | None) -> dict[str, Any]:
    """The outcomes of an earlier attempt that a step holds."""
    return dict(kept.result) if kept is not None and isinstance(kept.result, dict) else {}


class KeptFrom(msgspec.Struct, frozen=True):
    """What a step says of the outcomes that it keeps."""

    attempt: int
    """The earlier one, whose they are."""
    before: str
    """The stage at which the attempt begins; at `score`, the answer of the earlier one is kept as well."""


def kept_step(trial: str, attempt: int, kept_from: KeptFrom, outcomes: Mapping[str, Any]) -> StepRecord:
    """The step with which an attempt keeps outcomes of an earlier one."""
    return StepRecord(
        trial=trial,
        attempt=attempt,
        step=stage_key(KEPT_STAGES, trial, outcomes),
        name=KEPT_STAGES,
        request=msgspec.to_builtins(kept_from),
        result=dict(outcomes),
    )


def kept_from(steps: Iterable[StepRecord]) -> KeptFrom | None:
    """What an attempt keeps of an earlier one, by its recorded steps; None where it began from nothing."""
    kept = recorded_outcomes(steps).get(KEPT_STAGES)
    return msgspec.convert(kept.request, KeptFrom) if kept is not None else None


def stage_after(stages: Sequence[str], stage: str) -> str:
    """The stage that follows one of a solver's."""
    return (*stages, SCORE_STAGE)[stages.index(stage) + 1]


def stages_of(solver: object) -> tuple[str, ...]:
    """The names of a solver's stages; one that is not divided only solves."""
    return tuple(stage.name for stage in solver.stages) if is_staged(solver) else (SOLVE,)


def clean_up_step(trial: str, attempt: int) -> StepRecord:
    """The step that says that nothing of an attempt is left to be cleaned up."""
    return StepRecord(trial=trial, attempt=attempt, step=f"{OF_STAGE}{CLEAN_UP}:#1", name=CLEAN_UP)


def is_beyond(stage: str, until: str) -> bool:
    """Whether a session that stops after a stage leaves this one alone; without `until` it leaves none."""
    return bool(until) and STAGES.index(stage) > STAGES.index(until)
