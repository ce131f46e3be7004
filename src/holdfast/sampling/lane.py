"""A lane: candidates one after another, each after what became of the last."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field

from holdfast.models.message import Message, Reply, Usage
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import Candidate, CandidateRecord, CandidateStatus
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.verdict import Verdict


class LaneStage(enum.Enum):
    """What a lane is doing, so that an error can be told apart by where it came from."""

    REPAIRING = "repair"
    ASKING = "model"
    CHECKING = "requirement"
    TELLING = "hook"


@dataclass(slots=True)
class Turn:
    """What one turn has come to so far."""

    place: Place
    model: str
    at: float
    began: float
    messages: tuple[Message, ...] = ()
    reply: Reply | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    judging: Usage | None = None
    score: float | None = None

    def ended(
        self,
        status: CandidateStatus,
        seconds: float,
        error: BaseException | None = None,
        failure: Failure | None = None,
    ) -> Candidate:
        """Its candidate."""
        return Candidate(
            self.place,
            status,
            self.model,
            self.messages,
            self.reply,
            tuple(self.verdicts),
            self.judging,
            self.score,
            error,
            failure,
            self.at,
            seconds,
        )

    def take_from(self, record: CandidateRecord) -> None:
        """What was found out about it before, and is on record."""
        self.verdicts, self.judging, self.score = list(record.verdicts), record.judging, record.score
        self.at = record.at


@dataclass(slots=True, eq=False)
class Lane:
    """One lane of a sampling."""

    number: int
    candidates: list[Candidate] = field(default_factory=list)
    """Those that were checked, one a turn."""
    turn: Turn | None = None
    """The one that is in progress."""
    stage: LaneStage = LaneStage.ASKING
    task: asyncio.Task[None] | None = None
    is_given_up: bool = False
    """Whether its task was cancelled, because it was not needed any more."""
    error: BaseException | None = None
    """What it has ended with, if it was an error."""

    def give_up(self) -> None:
        """Cancels what it is doing."""
        self.is_given_up = True
        if self.task is not None:
            self.task.cancel()

    def ended_with(self) -> BaseException | None:
        """The error that its task has ended with; None if it returned or was given up."""
        if self.task is None:
            return None
        if not self.task.cancelled():
            return self.task.exception()
        return None if self.is_given_up else RuntimeError("The code of a lane has cancelled its own task.")

    @property
    def depth(self) -> int:
        """The turn that is in progress, or comes next."""
        return len(self.candidates)

    @property
    def has_valid(self) -> bool:
        return bool(self.candidates) and self.candidates[-1].is_valid
