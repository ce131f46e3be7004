"""The account of an attempt: usage by model, limits, and requests that got no answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.call_tally import Flight
from holdfast.engine.trials.error_boundary import LimitReached, Outcome
from holdfast.engine.trials.scopes import is_below, is_in_sampling, scope_in_key
from holdfast.engine.trials.steps import request_in_key
from holdfast.errors import StepInterrupted, UsageError
from holdfast.models.errors import ModelError
from holdfast.models.message import Usage
from holdfast.run.core.records import CANDIDATE, CHOICE, ShareKey, StepRecord, UsageShare
from holdfast.spec import TrialLimits

NO_LIMITS = TrialLimits()


class TrialAccount:
    """The account of one attempt at a trial, or of one attempt of a score slot."""

    __slots__ = (
        "_costs",
        "_failed_flights",
        "_find_model",
        "_interrupted",
        "_iterations",
        "_limits",
        "_max_iterations",
        "_own",
        "_shares",
        "_unanswered",
        "calls",
        "limit",
        "replayed",
        "replies",
        "tries",
        "usage",
    )

    def __init__(
        self,
        own: str,
        limits: TrialLimits,
        find_model: Callable[[str], OpenModel],
        max_iterations: int | None = None,
    ) -> None:
        """`own` is the name of the trial's own model."""
        self._max_iterations, self._iterations = max_iterations, 0
        self._own, self._limits, self._find_model = own, limits, find_model
        self.usage: Usage | None = None
        self._shares: dict[ShareKey, Usage] = {}
        """Of that, what is not of replies of this run to the trial's own model."""
        self._costs: list[float] | None = None if limits.cost is None else []
        """What each reply cost, where that is limited."""
        self._unanswered: dict[str, ModelError] = {}
        """The requests that the infrastructure has failed to answer so far, and why."""
        self._interrupted: tuple[StepInterrupted, ...] = ()
        self._failed_flights: list[tuple[Flight, Usage | None]] = []
        """Calls that have failed, which is queued and not yet durable, and what they took."""
        self.calls = self.replayed = self.replies = self.tries = 0
        self.limit = ""
        """The limit that was reached, if one was."""

    # Usage.

    def add(self, step: StepRecord) -> None:
        """Takes in what a step took; a reply of another run cost nothing here."""
        usage = step.usage
        if usage is None:
            return
        self.usage = usage if self.usage is None else self.usage + usage
        if step.source or step.model != self._own:
            share = step.model, bool(step.source)
            self._shares[share] = self._shares.get(share, Usage()) + usage
        if self._costs is not None and not step.source:
            self._costs.append(self._cost_of(step.model, usage))

    def add_unused(self, steps: list[StepRecord]) -> int:
        """Takes in what recorded steps took, without replaying them; how many of them are results."""
        results = 0
        for step in steps:
            self.add(step)
            results += step.error is None and step.name not in {CANDIDATE, CHOICE}
        self.replayed += results
        return results

    def _cost_of(self, model: str, usage: Usage) -> float:
        try:
            return self._find_model(model).cost_of(usage)
        except UsageError:
            return 0.0  # the eval no longer has the model, nor a price of it

    @property
    def shares(self) -> tuple[UsageShare, ...]:
        """What its replies took beside those of this run by its own model; in an order that no timing decides."""
        return as_shares(self._shares) if self._shares else ()

    # Limits.

    def check_limits(self) -> None:
        """Raises at every call from the one on that goes beyond a limit, so that nothing is paid after it.

        Raises:
            LimitReached: the trial has used up its tokens or its cost.
        """
        limits, usage = self._limits, self.usage
        tokens = usage.input_tokens + usage.output_tokens if usage else 0
        if limits.tokens is not None and tokens > limits.tokens:
            self.limit = "tokens"
        # The sum does not depend on which of several branches was faster.
        elif limits.cost is not None and math.fsum(self._costs or ()) > limits.cost:
            self.limit = "cost"
        if self.limit:
            raise LimitReached(self.limit)

    def count_iteration(self) -> None:
        """Counts a call of the solver before it is made; a replayed one counts like any other.

        Raises:
            LimitReached: it has made as many as it may.
        """
        self._iterations += 1
        if self._max_iterations is not None and self._iterations > self._max_iterations:
            self.reach("iterations")

    def reach(self, limit: str) -> NoReturn:
        """Notes that a limit was reached; the first one counts.

        Raises:
            LimitReached: always.
        """
        self.limit = self.limit or limit
        raise LimitReached(self.limit)

    # Requests without an answer.

    def note_unanswered(self, key: str, error: ModelError) -> None:
        """The infrastructure has failed to answer the request of this key."""
        self._unanswered[_request_of(key)] = error

    def note_answered(self, key: str) -> None:
        """A request of this key was answered."""
        if self._unanswered:
            self._unanswered.pop(_request_of(key), None)

    def check_answered(self) -> None:
        """Raises the error that the task's code has caught, if one of its requests never got an answer.

        Raises:
            StepInterrupted: a step that may not run twice has no outcome.
            ModelError: the infrastructure failed, and what was made of that must not be scored.
        """
        for error in (*self._interrupted, *self._unanswered.values()):
            raise error

    def note_interrupted(self, error: StepInterrupted) -> None:
        """A step that may not run twice was killed half-way: the attempt fails, also where that is caught."""
        self._interrupted += (error,)

    def deciding(self, outcome: Outcome) -> Outcome:
        """How the attempt failed: a step that may not run twice decides, whatever the task's code made of it."""
        return Outcome(error=self._interrupted[0]) if self._interrupted else outcome

    def forgive(self, path: str, *, but: str) -> None:
        """What got no answer below a scope is not needed any more; except what lies below another one in it."""
        for key in self._unanswered_below(path):
            if not is_below(scope_in_key(key), but):
                del self._unanswered[key]

    def has_unanswered(self, path: str) -> bool:
        """Whether something below a scope got no answer."""
        return bool(self._unanswered_below(path))

    def _unanswered_below(self, path: str) -> list[str]:
        return [key for key in self._unanswered if is_below(scope_in_key(key), path)]

    # Calls that have failed.

    def add_failed_call(self, flight: Flight, usage: Usage | None) -> None:
        """A call has failed; it is in flight until that is durable."""
        flight.has_failed = True
        self._failed_flights.append((flight, usage))

    def end_failed_calls(self, admission: Admission) -> None:
        """A later record of the attempt is durable, and with it what became of its calls: none is in flight."""
        for flight, usage in self._failed_flights:
            admission.end(flight, usage)
        self._failed_flights = []

    def adopt_failed_calls(self, other: TrialAccount) -> None:
        """Ends the failed calls of a score slot together with its own."""
        self._failed_flights += other._failed_flights
        other._failed_flights = []


def as_shares(found: dict[ShareKey, Usage]) -> tuple[UsageShare, ...]:
    """Shares as they are recorded, in an order that no timing decides."""
    return tuple([UsageShare(model, found[model, reused], reused) for model, reused in sorted(found)])


def _request_of(key: str) -> str:
    """What a request is known by until it is answered: wherever a solver asks it again, or in its place in a sampling,
    whose lanes may all ask the same.
    """
    return key.rpartition("#")[0] if is_in_sampling(scope_in_key(key)) else request_in_key(key)
