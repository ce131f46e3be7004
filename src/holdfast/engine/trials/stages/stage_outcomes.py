"""The outcomes of stages on record: one step each, whose key has the digest of what the stage was given.

An attempt that keeps stages of an earlier one begins with one step that holds their outcomes: all of them or none are
durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.run.core.records import CLEAN_UP, KEPT_STAGES, OF_STAGE, STAGES, Coordinates, StepRecord

_encoder = msgspec.json.Encoder(order="deterministic")


def stage_key(name: str, trial: str, outcomes: Mapping[str, Any]) -> str:
    """The key of a stage's outcome: its name, and the digest of the trial and of the outcomes before it."""
    digest = blake2b(_encoder.encode([trial, outcomes]), digest_size=12).hexdigest()
    return f"{OF_STAGE}{name}:{digest}#1"


def is_of_stage(step: StepRecord) -> bool:
    """Whether a step records something about a stage, and is none that a solver asked for."""
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


def outcomes_before(steps: Iterable[StepRecord], stage: str) -> dict[str, Any]:
    """The outcomes on record of the stages before this one."""
    earlier = STAGES[: STAGES.index(stage)]
    return {name: outcome for name, outcome in outcomes_in(steps).items() if name in earlier}


def kept_step(
    trial: str, attempt: int, earlier: int, outcomes: Mapping[str, Any], about: Coordinates | None = None
) -> StepRecord:
    """The step with which an attempt keeps outcomes of an earlier one."""
    return StepRecord(
        trial=trial,
        attempt=attempt,
        step=stage_key(KEPT_STAGES, trial, outcomes),
        name=KEPT_STAGES,
        request={"attempt": earlier},
        result=dict(outcomes),
        about=about,
    )


def clean_up_step(trial: str, attempt: int) -> StepRecord:
    """The step that says that nothing of an attempt is left to be cleaned up."""
    return StepRecord(trial=trial, attempt=attempt, step=f"{OF_STAGE}{CLEAN_UP}:#1", name=CLEAN_UP)


def is_beyond(stage: str, until: str) -> bool:
    """Whether a session that stops after a stage leaves this one alone; without `until` it leaves none."""
    return bool(until) and STAGES.index(stage) > STAGES.index(until)
