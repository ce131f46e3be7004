"""A lane: candidates one after another, each based on the last."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field

from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import Candidate

CANCELLED_ITSELF = "The code of a lane has cancelled its own task."


def is_being_cancelled() -> bool:
    """Whether somebody wants the task to end that this runs in."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class LaneStage(enum.Enum):
    """What a lane is doing, so that an error can be distinguished by where it came from."""

    REPAIRING = "repair"
    ASKING = "model"
    CHECKING = "requirement"
    TELLING = "hook"


@dataclass(slots=True, eq=False)
class Lane:
    """One lane of a sampling."""

    number: int
    candidates: list[Candidate] = field(default_factory=list)
    """Those that were checked, one a turn."""
    depth: int = 0
    """The turn that is in progress, or comes next."""
    has_valid: bool = False
    """Whether the last of them is valid."""
    current: Candidate | None = None
    """The one that is being drawn or checked."""
    stage: LaneStage = LaneStage.ASKING
    task: asyncio.Task[None] | None = None
    is_given_up: bool = False
    """Whether its task was cancelled, because it was not needed any more."""
    is_settled: bool = False
    """Whether its end was processed."""
    error: BaseException | None = None
    """What it has ended with, if it was an error."""
    failure: Failure | None = None
    """The error as it may be recorded: without a known secret, and whatever its text does when it is asked for."""

    def give_up(self) -> None:
        """Cancels what it is doing; once, so that what it does to end is not cancelled."""
        if self.task is not None and not self.is_given_up:
            self.task.cancel()
        self.is_given_up = True

    def ended_with(self) -> BaseException | None:
        """The error that it has ended with; None if it returned or was abandoned."""
        if self.task is None:
            return self.error
        if not self.task.cancelled():
            return self.task.exception()
        return None if self.is_given_up else RuntimeError(CANCELLED_ITSELF)

    def add(self, candidate: Candidate) -> None:
        """Its current candidate was checked."""
        self.current = None
        self.candidates.append(candidate)
        self.depth += 1
        self.has_valid = candidate.is_valid
