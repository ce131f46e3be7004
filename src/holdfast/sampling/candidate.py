"""A candidate: one draw of a sampling, its verdicts, and its usage."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.models.content import joined_text
from holdfast.models.message import Message, Reply, Usage
from holdfast.run.core.records import Failure
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.verdict import Verdict


class CandidateStatus(enum.StrEnum):
    """How a candidate ended."""

    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"
    """There was no reply, or it could not be checked."""
    CANCELLED = "cancelled"
    """It was not needed any more."""
    BLOCKED = "blocked"
    """A content policy refused it."""

    @property
    def is_valid(self) -> bool:
        return self is CandidateStatus.VALID

    @property
    def is_checked(self) -> bool:
        """Whether the requirements have decided about it."""
        return self in {CandidateStatus.VALID, CandidateStatus.INVALID}


class CandidateRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A candidate as it is recorded; its reply is a step of its own, beside it."""

    lane: int
    turn: int
    iteration: int
    status: CandidateStatus
    verdicts: tuple[Verdict, ...] = ()
    usage: Usage | None = None
    """Tokens of its reply."""
    judging: Usage | None = None
    """Tokens of the judges' replies about it."""
    model: str = ""
    seed: int = 0
    at: float = 0.0
    seconds: float = 0.0
    score: float | None = None
    error: Failure | None = None
    judge_calls: int = 0
    """Calls of judges about it."""


@dataclass(slots=True)
class Candidate:
    """A candidate as a strategy sees it; while it is drawn and checked, what is known of it so far."""

    place: Place
    model: str = ""
    at: float = 0.0
    began: float = 0.0
    """By the clock that measures durations."""
    status: CandidateStatus = CandidateStatus.CANCELLED
    """Its status until it has ended."""
    messages: tuple[Message, ...] = ()
    """What was asked."""
    reply: Reply | None = None
    verdicts: Sequence[Verdict] = ()
    judging: Usage | None = None
    judge_calls: int = 0
    score: float | None = None
    """By the strategy's scorer or, without one, the mean of the verdicts' scores."""
    error: BaseException | None = None
    failure: Failure | None = None
    """The error as it is recorded."""
    seconds: float = 0.0
    arrival: int = -1
    """Which of the sampling's candidates it was to end, from 0."""

    @property
    def lane(self) -> int:
        return self.place.lane

    @property
    def turn(self) -> int:
        return self.place.turn

    @property
    def iteration(self) -> int:
        return self.place.iteration

    @property
    def text(self) -> str:
        """What the model said; empty where there is no reply, or none with a text."""
        if self.reply is None:
            return ""
        return joined_text(self.reply.content) or self.reply.refusal

    @property
    def usage(self) -> Usage | None:
        return None if self.reply is None else self.reply.usage

    @property
    def is_valid(self) -> bool:
        return self.status is CandidateStatus.VALID

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The verdicts on the requirements that it does not meet."""
        return tuple(verdict for verdict in self.verdicts if not verdict.is_passed)

    @property
    def share_passed(self) -> float:
        """The share of its requirements that it meets; 0 where it was not checked."""
        if not self.verdicts:
            return float(self.is_valid)
        return sum(verdict.is_passed for verdict in self.verdicts) / len(self.verdicts)

    def record(self) -> CandidateRecord:
        """What is written of it."""
        place = self.place
        return CandidateRecord(
            place.lane,
            place.turn,
            place.iteration,
            self.status,
            tuple(self.verdicts),
            self.usage,
            self.judging,
            self.model,
            place.seed,
            self.at,
            self.seconds,
            self.score,
            self.failure,
            self.judge_calls,
        )
