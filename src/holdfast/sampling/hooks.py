"""Hooks: user code that observes a sampling, and may change it within bounds before it starts."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.models.message import Message
from holdfast.sampling.candidate import Candidate
from holdfast.sampling.events import CandidateEnded, LaneRepaired, SamplingEnded, SamplingStarted
from holdfast.sampling.requirements.registry import Given

if TYPE_CHECKING:
    from holdfast.sampling.result import SamplingResult


class Changes(msgspec.Struct, frozen=True):
    """The changes that a hook wants; None changes nothing."""

    loop_budget: int | None = None
    """Above the strategy's ceiling, the ceiling is what counts."""
    concurrency_budget: int | None = None
    requirements: Sequence[Given] = ()
    """Added to those there are; one with the id of another takes its place."""


class SamplingHook:
    """Observes a sampling. Each method may be plain or async; it is called in the loop, so a plain one must be quick.

    Called in the lane that it is about: `current_place()` says which. An exception ends the sampling.
    """

    def start(self, event: SamplingStarted) -> Changes | Awaitable[Changes | None] | None:
        """Before anything is asked; what it returns is applied."""

    def candidate(self, event: CandidateEnded, candidate: Candidate) -> Awaitable[None] | None:
        """A candidate has ended."""

    def repair(self, event: LaneRepaired, messages: tuple[Message, ...]) -> Awaitable[None] | None:
        """A lane asks once more, with these messages."""

    def end(self, event: SamplingEnded, result: SamplingResult | None) -> Awaitable[None] | None:
        """The sampling has ended; there is no result if it has raised."""
