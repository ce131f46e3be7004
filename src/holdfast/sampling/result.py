"""The result of a sampling: the chosen candidate, all the others, and why it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from holdfast.models.message import Message, Reply, Usage
from holdfast.sampling.candidate import Candidate, CandidateStatus
from holdfast.tasks.answer import Answer


@dataclass
class SamplingResult:
    """The outcome of one sampling."""

    success: bool
    """Whether the chosen candidate meets every requirement."""
    chosen: Candidate | None
    """None where there was nothing to choose from."""
    candidates: list[Candidate]
    """All of them, by turn and then by lane."""
    stop_reason: str
    """Why it ended."""
    reason: str = ""
    """Why this candidate was chosen."""
    capped: str = ""
    """The cap of its budget that was reached, if one was."""
    votes: dict[str, int] = field(default_factory=dict)
    """Of a vote: how many lanes gave which answer."""
    notes: list[str] = field(default_factory=list)
    """What a person should know: budgets that were cut, lanes that failed beside a success."""
    calls: int = 0
    """Calls of models that it took, those of judges and those recorded included."""

    @property
    def reply(self) -> Reply:
        """The chosen reply.

        Raises:
            ValueError: no candidate was chosen.
        """
        if self.chosen is None or self.chosen.reply is None:
            raise ValueError(f"No candidate was chosen: {self.stop_reason}.")
        return self.chosen.reply

    @property
    def text(self) -> str:
        """The chosen text; raises ValueError where no candidate was chosen."""
        return self.reply.text

    @property
    def message(self) -> Message:
        """The message that continues the conversation; raises ValueError where no candidate was chosen."""
        return self.reply.message

    @property
    def counts(self) -> dict[CandidateStatus, int]:
        """How many candidates ended in which way."""
        return dict(Counter(candidate.status for candidate in self.candidates))

    @property
    def deepest_turn(self) -> int:
        """The last turn that a lane began; -1 if none was started."""
        return max((candidate.turn for candidate in self.candidates), default=-1)

    @property
    def usage(self) -> Usage | None:
        """What all candidates and their judges took, as far as it is known."""
        return _sum(self.candidates)

    @property
    def wasted(self) -> Usage | None:
        """Of that, what was spent on candidates that were not chosen."""
        return _sum([candidate for candidate in self.candidates if candidate is not self.chosen])

    def as_answer(self) -> Answer:
        """The answer of a trial: the chosen text or, without one, none, for the reason that it ended."""
        if self.chosen is None:
            return Answer("", unscored=self.stop_reason)
        return Answer(self.text)


def _sum(candidates: list[Candidate]) -> Usage | None:
    pairs = [(candidate.usage, candidate.judging) for candidate in candidates]
    known = [usage for pair in pairs for usage in pair if usage is not None]
    return sum(known[1:], known[0]) if known else None


def result_of(error: BaseException) -> SamplingResult | None:
    """The candidates that there were when a sampling raised this error; None if it did not."""
    found = getattr(error, "sampling_result", None)
    return found if isinstance(found, SamplingResult) else None
