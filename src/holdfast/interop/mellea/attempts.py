"""The attempts of a lane, in Mellea's terms: what was asked over which context, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mellea.core import ComputedModelOutputThunk, Context, Requirement, SampleActionType, ValidationResult

Validations = list[tuple[Requirement, ValidationResult]]


@dataclass(slots=True)
class MelleaAttempt:
    """One candidate."""

    action: SampleActionType
    context: Context
    """Without the action."""
    output: ComputedModelOutputThunk
    output_context: Context
    """With the action and the output."""
    validations: Validations | None = None
    """None until it has been checked."""

    @property
    def is_valid(self) -> bool:
        return self.validations is not None and all(verdict for _, verdict in self.validations)


@dataclass(slots=True)
class MelleaLane:
    """What a lane asks next, and its attempts so far."""

    action: SampleActionType
    context: Context
    attempts: list[MelleaAttempt] = field(default_factory=list)

    @property
    def last(self) -> MelleaAttempt:
        return self.attempts[-1]

    @property
    def history(self) -> tuple[list[SampleActionType], list[ComputedModelOutputThunk], list[Validations]]:
        """The attempts as `repair` and `select_from_failure` take them."""
        return as_lists(self.attempts)


def as_lists(
    attempts: list[MelleaAttempt],
) -> tuple[list[SampleActionType], list[ComputedModelOutputThunk], list[Validations]]:
    """Actions, outputs and validations, side by side."""
    return (
        [attempt.action for attempt in attempts],
        [attempt.output for attempt in attempts],
        [attempt.validations or [] for attempt in attempts],
    )
