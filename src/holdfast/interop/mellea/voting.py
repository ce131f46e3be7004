"""Voting: several draws, each a sampling of its own, and the one that is nearest to all the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mellea.core import Backend, Context, MelleaLogger, Requirement, SampleActionType, SamplingResult
from mellea.plugins import PluginViolationError
from mellea.stdlib.sampling import majority_voting

from holdfast.interop.mellea.closing import end
from holdfast.interop.mellea.strategies import RejectionSamplingStrategy, WholeNumber
from holdfast.sampling.lanes.outcome import add_note


class BaseMBRDSampling(RejectionSamplingStrategy, majority_voting.BaseMBRDSampling):
    """To be subclassed as Mellea's, with `compare_strings`."""

    number_of_samples: Any = WholeNumber()

    async def sample(
        self,
        action: SampleActionType,
        context: Context,
        backend: Backend,
        requirements: list[Requirement] | None,
        *,
        format: type | None = None,  # noqa: A002, ARG002 - Mellea's name, and it ignores it too
        **settings: Any,
    ) -> SamplingResult:
        """The result of the draw that the vote has chosen. Draws that are not valid vote only where none is.

        Raises:
            Exception: every draw has ended with an error: the first one's, with the others as notes.
            PluginViolationError: a hook blocked, in whatever draw.
        """
        draw = super().sample
        tasks = [
            asyncio.ensure_future(draw(action, context, backend, requirements, **settings))
            for _ in range(self.number_of_samples)
        ]
        drawn = await _results_of(tasks)
        return self._most_alike([result for result in drawn if result.success] or drawn)

    def _most_alike(self, results: list[SamplingResult]) -> SamplingResult:
        import numpy as np  # noqa: PLC0415 - comes with Mellea, whose absence has its own message

        texts = [str(result.result) for result in results]
        votes = self.maybe_apply_weighted(np.asarray(self._likeness(texts)).sum(axis=0))
        return results[int(votes.argmax())]

    def _likeness(self, texts: list[str]) -> list[list[float]]:
        """How much each is like each other; where that is the same both ways, it is compared once."""
        likeness = [[1.0] * len(texts) for _ in texts]
        for one, text in enumerate(texts):
            for other in range(one + 1, len(texts)):
                likeness[one][other] = float(self.compare_strings(texts[other], text))
                is_same = self.symmetric
                likeness[other][one] = (
                    likeness[one][other] if is_same else float(self.compare_strings(text, texts[other]))
                )
        return likeness


class MajorityVotingStrategyForMath(BaseMBRDSampling, majority_voting.MajorityVotingStrategyForMath):
    """Expressions that are equal vote together."""


class MBRDRougeLStrategy(BaseMBRDSampling, majority_voting.MBRDRougeLStrategy):
    """Texts vote for each other by how much of their wording is the same."""


async def _results_of(tasks: Sequence[asyncio.Future[SamplingResult]]) -> list[SamplingResult]:
    """What was drawn; draws that failed are left out with a warning, unless all did."""
    try:
        pending: set[asyncio.Future[SamplingResult]] = set(tasks)
        while pending and not any(isinstance(error, PluginViolationError) for error in _errors_of(tasks)):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(tasks)
    errors = _errors_of(tasks)
    blocked = [error for error in errors if isinstance(error, PluginViolationError)]
    if blocked or len(errors) == len(tasks):
        raise _with_notes(blocked or errors)
    for error in errors:
        MelleaLogger.get_logger().warning("A draw of the vote failed: %s: %s", type(error).__name__, error)
    return [task.result() for task in tasks if task.exception() is None]


def _errors_of(tasks: Sequence[asyncio.Future[SamplingResult]]) -> list[BaseException]:
    ended = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    return [error for error in ended if error is not None]


def _with_notes(errors: list[BaseException]) -> BaseException:
    first, *others = errors
    for other in others:
        if other is not first:
            add_note(first, f"Another draw failed: {type(other).__name__}: {other}")
    return first
