"""Which candidate is chosen, and which are still worth asking for."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.sampling.candidate import Candidate


class SelectionMode(enum.StrEnum):
    """How the choice is made among valid candidates.

    `first` is the fastest: the first valid one by arrival. With a `concurrency_budget` above 1 it is not deterministic:
    which lane is faster decides. `deterministic` takes the lowest turn, then the lowest lane, whatever the timing; a
    lane is cancelled once it cannot come before it. `best` lets all lanes run, and takes the highest score.
    """

    FIRST = "first"
    DETERMINISTIC = "deterministic"
    BEST = "best"


class Chosen(NamedTuple):
    """The choice, with its reason; no candidate if none can be chosen."""

    candidate: Candidate | None
    reason: str
    success: bool = True
    votes: dict[str, int] | None = None


class SelectionRule:
    """The state of a choice while candidates arrive. This one takes the first valid one."""

    goes_on_after_valid = False
    """Whether a lane asks for its next turn although it has a valid candidate."""

    def __init__(self) -> None:
        self.valid: list[Candidate] = []

    def note(self, candidate: Candidate) -> None:
        """A candidate has arrived."""
        if candidate.is_valid:
            self.valid.append(candidate)

    def wants(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - others look at them
        """Whether a candidate there could still be chosen, or change the choice."""
        return not self.valid

    def depends_on(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - others look at them
        """Whether the choice might be another, had a lane not failed in that turn; of interest where it can resume."""
        return False

    def note_lane_ended(self, lane: int) -> None:
        """A lane asks for nothing more."""

    def choose(self) -> Chosen | None:
        """The choice among what has arrived; None if it is a failure."""
        if not self.valid:
            return None
        return Chosen(self.valid[0], "the first valid candidate to arrive")


class Deterministic(SelectionRule):
    """Takes the lowest turn, then the lowest lane."""

    def wants(self, lane: int, turn: int) -> bool:
        return not self.valid or (turn, lane) < min(map(position, self.valid))

    def depends_on(self, lane: int, turn: int) -> bool:
        return self.wants(lane, turn)

    def choose(self) -> Chosen | None:
        if not self.valid:
            return None
        return Chosen(min(self.valid, key=position), "the valid candidate with the lowest turn, then the lowest lane")


class Best(SelectionRule):
    """Lets all lanes run, and takes the highest score."""

    def wants(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - every lane runs
        return True

    def choose(self) -> Chosen | None:
        if not self.valid:
            return None
        best = max(self.valid, key=lambda candidate: (score_of(candidate), *_backwards(candidate)))
        if best.score is None:
            return Chosen(best, f"no candidate has a score: the first by turn and lane of {len(self.valid)} valid ones")
        return Chosen(best, f"the highest score of {len(self.valid)} valid candidates: {best.score:.4g}")


def position(candidate: Candidate) -> tuple[int, int]:
    """The place of a candidate: by turn, then by lane."""
    return candidate.turn, candidate.lane


def _backwards(candidate: Candidate) -> tuple[int, int]:
    return -candidate.turn, -candidate.lane


def score_of(candidate: Candidate) -> float:
    """A candidate's score; the share of requirements that it meets, where it has none."""
    return candidate.share_passed if candidate.score is None else candidate.score


def best_failed(candidates: Sequence[Candidate], *, deepest: bool = False) -> int:
    """The index of the best invalid candidate: by the share of requirements it meets, then by score.

    Of equals the deeper turn, then the lower lane; with `deepest` the turn decides first.
    """

    def rank(index: int) -> tuple[float, ...]:
        candidate = candidates[index]
        quality = candidate.share_passed, score_of(candidate)
        return (candidate.turn, *quality, -candidate.lane) if deepest else (*quality, candidate.turn, -candidate.lane)

    return max(range(len(candidates)), key=rank)


SELECTIONS: dict[SelectionMode, type[SelectionRule]] = {
    SelectionMode.FIRST: SelectionRule,
    SelectionMode.DETERMINISTIC: Deterministic,
    SelectionMode.BEST: Best,
}
