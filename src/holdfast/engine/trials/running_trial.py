"""A running trial as its solver sees it: every call of a model and every step goes through here and is durable.

A text or a message continues the conversation; a list of messages is a conversation of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.engine.events import StepRecorded
from holdfast.engine.model_calls.caller import ModelClosed
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.planning.trial_keys import trial_seed
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.call_tally import Flight
from holdfast.engine.scheduling.slots import SlotGrant
from holdfast.engine.trials.conversation import CURRENT_CONVERSATION, EMPTY_CONVERSATION, Conversation
from holdfast.engine.trials.error_boundary import LimitReached, Outcome, guard
from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.named_scope import NamedScope
from holdfast.engine.trials.scopes import CURRENT_SCOPE, MASKED, Masking, Scope
from holdfast.engine.trials.steps import (
    Steps,
    arguments_fingerprint,
    as_recorded,
    fingerprint_in_key,
    record_reply,
    recordable_reply,
    recorded_request,
    replay_reply,
    request_fingerprint,
    request_in_key,
    typed_result,
)
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import StorageFailure, UsageError
from holdfast.models.errors import ModelError, PassingError
from holdfast.models.message import Message, Reply, Request, Usage, encodable
from holdfast.models.role import ModelRole
from holdfast.run.core.records import CallRecord, Coordinates, Failure, ShareKey, StepRecord, UsageShare
from holdfast.spec import Generation, TrialLimits
from holdfast.tasks.prompt import as_messages
from holdfast.tasks.sample import Sample
from holdfast.tasks.solver import check_generation
from holdfast.tasks.trial_interface import Prompt

_to_builtins = msgspec.to_builtins
_NO_LIMITS = TrialLimits()


class SlotPlace(NamedTuple):
    """Where calls and steps belong that a scorer makes: not to the solver, but to the scorer's slot."""

    steps: Steps
    activity: TrialActivity
    shares: dict[ShareKey, Usage]
    """What its replies took beside those of this run by the model under test."""
    call_name: str = "generate"
    """The name of its calls in their keys: one for each model, so that none takes over the reply of another."""


class RunningTrial:
    """What a solver holds of the attempt it is carrying out: calls, steps, and what they have used.

    A score slot has one as well, for every model that it asks.
    """

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        sample: Sample,
        model: OpenModel,
        grant: SlotGrant,
        slot: SlotPlace | None = None,
    ) -> None:
        """To be made in the asyncio task that runs the attempt, or the slot."""
        self._environment, self._planned, self._model, self._grant = environment, planned, model, grant
        self._steps = Steps(state.steps, state.in_flight) if slot is None else slot.steps
        self._role = ModelRole.UNDER_TEST if slot is None else ModelRole.JUDGE
        self._call_name = "generate" if slot is None else slot.call_name
        self._system = planned.task.task.system if slot is None else None
        self._limits = planned.task.limits if slot is None else _NO_LIMITS
        self._loop = asyncio.get_running_loop()
        self.key, self.attempt, self.sample = planned.key, state.attempt, sample
        self.activity = TrialActivity(environment.on_idle) if slot is None else slot.activity
        self.slot_activities: list[TrialActivity] = []
        """What its score slots are doing, each in a task of its own."""
        self.usage: Usage | None = None
        self._shares: dict[ShareKey, Usage] = {} if slot is None else slot.shares
        """Of that, what is not of replies of this run to the trial's own model."""
        self._costs: list[float] | None = None if self._limits.cost is None else []
        """What each reply cost, where that is limited."""
        self._unanswered: dict[str, ModelError] = {}
        """The requests that the infrastructure has failed to answer so far, and why."""
        self._failed_flights: list[tuple[Flight, Usage | None]] = []
        """Calls that have failed, which is handed in and not yet durable, and what they took."""
        self.calls = self.replayed = self.tries = 0
        self.limit = ""
        """The limit that was reached, if one was."""
        self._is_over = False
        # Whatever a slot asks, the trial's answer is on record before it.
        self._is_named = slot is not None
        if slot is None:
            CURRENT_CONVERSATION.set(EMPTY_CONVERSATION)

    @property
    def epoch(self) -> int:
        return self._planned.epoch

    @property
    def axes(self) -> Mapping[str, str]:
        return self._planned.axes

    @property
    def model(self) -> str:
        return self._model.name

    @property
    def seed(self) -> int:
        """A seed of this trial's own, the same in every session."""
        return trial_seed(self._environment.seed, self.key)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, as this branch of the solver sees it."""
        return CURRENT_CONVERSATION.get().messages

    def about(self) -> Coordinates | None:
        """Which trial it is, for the first record that this session writes about it."""
        if self._is_named:
            return None
        self._is_named = True
        planned = self._planned
        return Coordinates(planned.task.name, planned.model, planned.sample, planned.epoch, dict(planned.axes))

    def activities(self) -> list[TrialActivity]:
        """What the trial is doing, and each of its score slots."""
        return [self.activity, *self.slot_activities]

    def end_solving(self) -> None:
        """Its solver has returned: nothing more can be asked on its behalf."""
        self._is_over = True

    def finish(self) -> list[StepRecord]:
        """Ends the attempt: nothing more can be asked of it. The steps on record that it did not ask for again."""
        self._is_over = True
        self._steps.scopes.forget()
        return self._steps.unused()

    async def generate(self, prompt: Prompt, **generation: Any) -> Reply:
        """One call of the model under test; replayed where its reply is on record.

        Raises:
            ModelError: no reply could be had.
            LimitReached: the trial has used up its tokens or its cost.
            ConfigurationError: a generation parameter is unknown or out of range.
            UsageError: the trial is over.
        """
        self.check_running("generate")
        scope, conversation = self._current_scope("generate"), CURRENT_CONVERSATION.get()
        continues = bool(conversation.messages) and isinstance(prompt, (str, Message))
        messages = as_messages(prompt, None if continues else self._system)
        if continues:
            messages = (*conversation.messages, *messages)
        request = Request(messages, self._generation(generation))
        hash_ = conversation.hash_with(messages)
        key = scope.key(self._call_name, request_fingerprint(request, hash_))
        if (recorded := self._steps.replay(scope, key)) is not None:
            if recorded.step != key:
                self._environment.sink.put(self._borrowed(recorded, key, request, conversation))
            reply = self._replay(recorded)
            self._report_step(recorded, replayed=True)
        elif (reused := self._reused(key)) is not None:
            await self._keep(self._as_asked_here(reused, request, conversation))
            reply = self._replay(reused)
        else:
            reply = await self._ask_model(request, key, conversation)
        CURRENT_CONVERSATION.set(Conversation((*messages, reply.message), key, hash_))
        self._check_limits()
        return reply

    def scope(self, name: str) -> NamedScope:
        """A named place inside the trial, below the one where this is called.

        Raises:
            UsageError: the name is not one, or this is called inside a step.
        """
        return NamedScope(self, self.scope_below(name))

    def scope_below(self, name: str) -> Scope:
        """The named scope itself."""
        current = CURRENT_SCOPE.get()
        if current is MASKED:
            raise self._steps.scopes.user.inside_step("scope")
        parent = current if isinstance(current, Scope) and current.scopes is self._steps.scopes else self.root_scope
        return self._steps.scopes.named(parent, name)

    @property
    def root_scope(self) -> Scope:
        """Where a solver starts."""
        return self._steps.scopes.root

    def _current_scope(self, what: str) -> Scope:
        scope, scopes = CURRENT_SCOPE.get(), self._steps.scopes
        if scope is MASKED:
            raise scopes.user.inside_step(what)
        if not isinstance(scope, Scope) or scope.scopes is not scopes:
            raise scopes.user.unknown_branch(what)
        if asyncio.get_running_loop() is not self._loop:
            raise scopes.user.other_loop(what)
        return scope

    def _borrowed(self, lender: StepRecord, key: str, request: Request, conversation: Conversation) -> StepRecord:
        """What says that a step took over the reply of another branch, which nobody asks for any more.

        It need not be waited for: the reply is durable, and without this record it would be borrowed once more.
        """
        step = msgspec.structs.replace(lender, step=key, lender=lender.step)
        return self._as_asked_here(step, request, conversation)

    def _as_asked_here(self, step: StepRecord, request: Request, conversation: Conversation) -> StepRecord:
        parent, added = conversation.added_by(request.messages)
        asked = recorded_request(request, added)
        return msgspec.structs.replace(step, parent=parent, request=asked, about=self.about())

    def check_running(self, what: str) -> None:
        """Raises UsageError once the trial, or the slot, is over, and LimitReached once a limit is."""
        if self._is_over:
            raise self._steps.scopes.user.already_over(what)
        self._check_limits()

    def _generation(self, overrides: dict[str, Any]) -> Generation:
        base = self._model.spec.generation
        if base.seed is not None and self.epoch > 1 and "seed" not in overrides:
            # Another epoch is another draw; with the same seed it would be the same one.
            overrides = {**overrides, "seed": base.seed + self.epoch - 1}
        if not overrides:
            return base
        check_generation(overrides)
        return msgspec.convert({**_to_builtins(base), **overrides}, Generation)

    def _reused(self, key: str) -> StepRecord | None:
        """The reply of another run to the same request, as a step of this trial."""
        reuse = self._environment.reuse
        found = reuse.take(self._model.spec, fingerprint_in_key(key)) if reuse is not None else None
        if found is None:
            return None
        return msgspec.structs.replace(
            found,
            trial=self.key,
            attempt=self.attempt,
            step=key,
            model=self._model.name,
            role=self._role,
            tries=0,
            lender="",
        )

    def _replay(self, step: StepRecord) -> Reply:
        self.replayed += 1
        self._environment.counts.replayed += 1
        self._account(step)
        return replay_reply(step)

    async def _ask_model(self, request: Request, key: str, conversation: Conversation) -> Reply:
        environment, model = self._environment, self._model
        at, began = environment.clock.wall(), environment.clock.monotonic()
        flight = environment.admission.flight(model.name, model.estimate.tokens_of(request))
        usage: Usage | None = None
        try:
            reply, tries = await self._send_call(request, key, flight)
            usage = reply.usage
            return await self._record_call(request, key, conversation, reply, tries, at, began)
        finally:
            # Its reply is durable, also where the trial was cancelled meanwhile: the cancellation has waited for that.
            if not flight.has_failed:
                environment.admission.end(flight, usage)

    async def _record_call(
        self, request: Request, key: str, conversation: Conversation, reply: Reply, tries: int, at: float, began: float
    ) -> Reply:
        """Makes the reply to a call durable; the reply as it is on record."""
        model = self._model
        if reply.logprobs is not None or not reply.is_plain:
            # As they will be read back, whatever the provider made them of.
            reply = recordable_reply(reply)
        self.calls += 1
        self.tries += tries
        parent, added = conversation.added_by(request.messages)
        step = StepRecord(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name="generate",
            parent=parent,
            request=recorded_request(request, added),
            result=record_reply(reply),
            model=model.name,
            role=self._role,
            usage=reply.usage,
            tries=tries,
            at=at,
            seconds=self._environment.clock.monotonic() - began,
        )
        self._account(step)
        return await self._keep_reply(step, reply)

    async def _send_call(self, request: Request, key: str, flight: Flight) -> tuple[Reply, int]:
        """The model's reply and how many tries it took; a failed call is on record too."""
        caller, deadline = self._environment.caller, self._environment.settings.retry_deadline(self._planned.task.name)
        model, was_sent = self._model.name, False

        def on_sent() -> None:
            nonlocal was_sent
            was_sent = True
            about = self.about()
            self._environment.sink.put(
                CallRecord(trial=self.key, attempt=self.attempt, step=key, model=model, role=self._role, about=about)
            )

        try:
            with Masking():
                found = await caller.call(self._model, request, deadline, self.activity, self._grant, flight, on_sent)
        except (ModelError, asyncio.CancelledError) as error:
            self._record_failed_call(key, error, flight if was_sent else None)
            raise
        if self._unanswered:
            self._unanswered.pop(request_in_key(key), None)
        return found

    async def _keep_reply(self, step: StepRecord, reply: Reply) -> Reply:
        """Makes a reply durable; the reply as it is on record."""
        try:
            await self._keep(step)
        except UsageError:
            # It holds what JSON cannot; it was paid for, so what can be kept of it is.
            reply = recordable_reply(reply)
            request = encodable(_to_builtins(step.request))
            await self._keep(msgspec.structs.replace(step, request=request, result=record_reply(reply)))
        return reply

    def _record_failed_call(self, key: str, error: ModelError | asyncio.CancelledError, flight: Flight | None) -> None:
        """Puts on record that a call which was sent is no longer in flight, unless the end of the session stops it.

        Nothing was sent if there is no flight.
        """
        if isinstance(error, PassingError | ModelClosed):
            self._unanswered[request_in_key(key)] = error
        if flight is None or (isinstance(error, asyncio.CancelledError) and self._environment.admission.is_closed):
            return
        usage: Usage | None = getattr(error, "usage", None)
        failure = Outcome(error=error).failure() if isinstance(error, ModelError) else Failure("cancelled", "given up")
        step = StepRecord(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name="generate",
            model=self._model.name,
            role=self._role,
            usage=usage,
            error=failure,
        )
        self._account(step)
        with contextlib.suppress(StorageFailure):  # whoever waits for the journal gets the error
            self._environment.sink.put(step)
        flight.has_failed = True
        self._failed_flights.append((flight, usage))

    def end_failed_calls(self) -> None:
        """The end of the attempt is durable, and with it what became of its calls: none is in flight."""
        for flight, usage in self._failed_flights:
            self._environment.admission.end(flight, usage)
        self._failed_flights = []

    def adopt_failed_calls(self, other: RunningTrial) -> None:
        """Ends the failed calls of a score slot together with its own."""
        self._failed_flights += other._failed_flights
        other._failed_flights = []

    def check_answered(self) -> None:
        """Raises the error that a solver has swallowed, if a request of its never got an answer.

        Raises:
            ModelError: the infrastructure failed, and what the solver made of that must not be scored.
        """
        for error in self._unanswered.values():
            raise error

    async def _keep(self, step: StepRecord) -> None:
        """Makes a step durable. The record is handed in before anything can be cancelled, and stays handed in."""
        try:
            with self.activity.in_flight():
                await self._environment.sink.keep(step)
        except asyncio.CancelledError:
            # The cancellation has waited until the step was durable.
            self._report_step(step, replayed=bool(step.source))
            raise
        self._report_step(step, replayed=bool(step.source))

    def _report_step(self, step: StepRecord, *, replayed: bool) -> None:
        events = self._environment.events
        if events.is_observed(StepRecorded):
            about = (self.key, self.attempt, step.step, step.name, step.model)
            events.emit(StepRecorded(*about, replayed, step.usage, step.source))

    def _account(self, step: StepRecord) -> None:
        """Takes in what a step took; a reply of another run cost nothing here."""
        usage = step.usage
        if usage is None:
            return
        self.usage = usage if self.usage is None else self.usage + usage
        if step.source or step.model != self._planned.model:
            share = step.model, bool(step.source)
            self._shares[share] = self._shares.get(share, Usage()) + usage
        if self._costs is not None and not step.source:
            self._costs.append(self._model.cost_of(usage))

    def account_for(self, steps: list[StepRecord]) -> None:
        """Takes in what steps on record took, without replaying them."""
        for step in steps:
            self._account(step)
            self.replayed += step.error is None

    @property
    def shares(self) -> tuple[UsageShare, ...]:
        """What its replies took beside those of this run by its own model; in an order that no timing decides."""
        if not self._shares:
            return ()
        return tuple([UsageShare(model, self._shares[model, reused], reused) for model, reused in sorted(self._shares)])

    @property
    def cost(self) -> float:
        """What the trial has cost; the sum does not depend on which of several branches was faster."""
        return math.fsum(self._costs or ())

    def _check_limits(self) -> None:
        """Raises at every call from the one on that goes beyond a limit, so that nothing is paid after it."""
        limits, usage = self._limits, self.usage
        tokens = usage.input_tokens + usage.output_tokens if usage else 0
        if limits.tokens is not None and tokens > limits.tokens:
            self.limit = "tokens"
        elif limits.cost is not None and self.cost > limits.cost:
            self.limit = "cost"
        if self.limit:
            raise LimitReached(self.limit)

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """One durable action: a function, its arguments, and its result, which is recorded once it has returned.

        A plain function runs in one of the session's threads. Arguments and result must be msgspec-encodable.

        Raises:
            UsageError: an argument or the result cannot be recorded, or the trial is over.
        """
        self.check_running("step")
        if not isinstance(name, str) or not callable(function):
            raise self._steps.scopes.user.wrong_step()
        scope, asked = self._current_scope("step"), as_recorded(name, "arguments", list(args))
        key = scope.key(f"step/{name}", arguments_fingerprint(asked))
        recorded = self._steps.replay(scope, key)
        if recorded is None:
            recorded = await self._run_step(key, name, function, args, asked)
        else:
            self.replayed += 1
            if recorded.step != key:
                loan = msgspec.structs.replace(recorded, step=key, lender=recorded.step, about=self.about())
                self._environment.sink.put(loan)
            self._report_step(recorded, replayed=True)
        return typed_result(recorded.result, function)

    async def _run_step(
        self, key: str, name: str, function: Callable[..., Any], args: tuple[Any, ...], asked: list[Any]
    ) -> StepRecord:
        clock, admission = self._environment.clock, self._environment.admission
        at, began = clock.wall(), clock.monotonic()
        if inspect.iscoroutinefunction(function):
            await admission.wait_until_open(self.activity)
            with self.activity.running_code(), Masking():
                outcome = await guard(function(*args))
        else:
            outcome = await self._call_in_thread(function, args)
        await admission.block_if_interrupted(self.activity)
        step = StepRecord(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name=name,
            role=self._role,
            request=asked,
            result=as_recorded(name, "result", outcome.result()),
            at=at,
            seconds=clock.monotonic() - began,
            about=self.about(),
        )
        await self._keep(step)
        return step

    async def _call_in_thread(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
        threads = self._environment.step_threads
        async with threads.place(self.activity):
            # In this order: what has waited for a thread does not start after an interrupt.
            await self._environment.admission.wait_until_open(self.activity)
            with self.activity.running_code(), Masking():
                outcome = await threads.call(function, *args)
                return await guard(outcome.value) if inspect.isawaitable(outcome.value) else outcome
