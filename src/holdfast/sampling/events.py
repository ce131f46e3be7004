"""The events of a sampling.

They carry a sequence number. Their order is that in which things happened within one lane; between lanes it is the
order of arrival, which may differ from execution to execution.
"""

from __future__ import annotations

from holdfast.event_type import Event
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import CandidateRecord


class SamplingStarted(Event, frozen=True):
    """A sampling is about to ask for its first candidates, with these budgets unless a hook changes them."""

    trial: str
    """The key of its trial; empty outside a run."""
    sampling: int
    strategy: str
    loop_budget: int
    concurrency_budget: int
    most_calls: int
    """Calls at most, those of judges included."""
    most_cost: float | None
    """The cap on its cost, if it has one."""
    sequence: int = 0


class CandidateEnded(Event, frozen=True):
    """A candidate has ended, in whatever way; `replayed` if it was recorded."""

    trial: str
    sampling: int
    candidate: CandidateRecord
    replayed: bool
    sequence: int


class LaneRepaired(Event, frozen=True):
    """A lane is about to ask once more, for the requirements that its last candidate did not meet."""

    trial: str
    sampling: int
    lane: int
    turn: int
    """The one that begins."""
    iteration: int
    failed: tuple[str, ...]
    """The ids of those requirements."""
    sequence: int


class SamplingEnded(Event, frozen=True):
    """A sampling has ended, and nothing of it is in flight."""

    trial: str
    sampling: int
    success: bool
    stop_reason: str
    started: int
    """Candidates that were started."""
    completed: int
    """Of them, those that were checked."""
    cancelled: int
    errored: int
    deepest_turn: int
    """-1 if none was started."""
    error: Failure | None = None
    """What the sampling has raised, if it did."""
    sequence: int = 0
