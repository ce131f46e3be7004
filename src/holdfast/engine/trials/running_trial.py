"""A trial as its solver sees it: every call of a model and every step goes through here and is durable.

A text or a message continues the conversation; a list of messages is a conversation of its own. The conversation
belongs to the asyncio task that holds it: branches started with gather() or a TaskGroup begin with what was said so
far and then go their own ways, so what each asks does not depend on who is faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import msgspec

from holdfast.engine.model_calls.caller import CallCounts, Caller, Model, ModelClosed
from holdfast.engine.planning.plan import PlannedTrial, trial_seed
from holdfast.engine.scheduling.admission import Activity
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.scheduler import SlotGrant
from holdfast.engine.trials.error_boundary import LimitReached, Outcome, guard, guard_thread
from holdfast.engine.trials.history import Past
from holdfast.engine.trials.reuse import Reuse, fingerprint_in
from holdfast.engine.trials.steps import (
    Steps,
    digest,
    fingerprint_of,
    record_reply,
    recordable_reply,
    recorded_part,
    replay_reply,
    returned,
    total,
)
from holdfast.errors import StorageFailure, UsageError
from holdfast.models.errors import ModelError, PassingError
from holdfast.models.message import Message, Reply, Request, Usage, encodable, fingerprint
from holdfast.run.core.records import CallRecord, Failure, StepRecord
from holdfast.run.session.session import RunSession
from holdfast.spec import Generation
from holdfast.tasks.prompt import as_messages
from holdfast.tasks.sample import Sample
from holdfast.tasks.solver import check_generation
from holdfast.tasks.trial import Prompt

_to_builtins = msgspec.to_builtins


class Conversation(msgspec.Struct, frozen=True):
    """A conversation so far, and the step whose reply ended it."""

    messages: tuple[Message, ...] = ()
    parent: str = ""


_PLAIN = Generation()
_SILENCE = Conversation()
_TALK: ContextVar[Conversation] = ContextVar("talk", default=_SILENCE)


class TrialEnvironment:
    """What all trials of a session share."""

    __slots__ = ("caller", "clock", "counts", "on_idle", "reuse", "seed", "session")

    def __init__(
        self,
        session: RunSession,
        caller: Caller,
        counts: CallCounts,
        clock: Clock,
        on_idle: Callable[[Activity], None],
        seed: int = 0,
    ) -> None:
        self.session, self.caller, self.counts, self.clock, self.on_idle = session, caller, counts, clock, on_idle
        self.seed = seed
        self.reuse: Reuse | None = None


class RunningTrial:
    """One attempt at one trial, under way."""

    def __init__(
        self,
        environment: TrialEnvironment,
        cell: PlannedTrial,
        past: Past,
        sample: Sample,
        model: Model,
        ticket: SlotGrant,
    ) -> None:
        """Begins an attempt, in the asyncio task that is to carry it out."""
        self._environment, self._cell, self._model, self._ticket = environment, cell, model, ticket
        self._steps = Steps(past.steps)
        self.key, self.attempt, self.sample = cell.key, past.attempt, sample
        self.activity = Activity(environment.on_idle)
        self.usage: Usage | None = None
        self._costs: list[float] = []
        self._missing: dict[str, ModelError] = {}
        """The requests that the infrastructure has failed to answer so far, and why."""
        self.calls = self.replayed = self.tries = 0
        self.limit = ""
        """The limit that was reached, if one was."""
        self._is_over = False
        _TALK.set(_SILENCE)

    @property
    def epoch(self) -> int:
        return self._cell.epoch

    @property
    def axes(self) -> Mapping[str, str]:
        return self._cell.axes

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
        return _TALK.get().messages

    def finish(self) -> list[StepRecord]:
        """Ends the attempt: nothing more can be asked of it. The steps on record that it did not ask for again."""
        self._is_over = True
        return self._steps.rest()

    async def generate(self, prompt: Prompt, **generation: Any) -> Reply:
        """One call of the model under test; replayed where its reply is on record.

        Raises:
            ModelError: no reply could be had.
            LimitReached: the trial has used up its tokens or its cost.
            ConfigurationError: a generation parameter is unknown or out of range.
            UsageError: the trial is over.
        """
        self._check_going_on("generate")
        talk = _TALK.get()
        continues = bool(talk.messages) and isinstance(prompt, str | Message)
        messages = as_messages(prompt, None if continues else self._cell.task.task.system)
        if continues:
            messages = (*talk.messages, *messages)
        request = Request(messages, self._generation(generation))
        key = self._steps.key("generate", digest(fingerprint(request)))
        if (recorded := self._steps.replay(key)) is not None:
            reply = self._replay(recorded)
        elif (reused := self._reused(key)) is not None:
            parent, added = _since(talk, messages)
            told = _recorded_request(request, added)
            await self._keep(msgspec.structs.replace(reused, parent=parent, request=told))
            reply = self._replay(reused)
        else:
            reply = await self._ask(request, key, talk)
        _TALK.set(Conversation((*messages, Message("assistant", reply.text)), key))
        self._check_limits()
        return reply

    def _check_going_on(self, what: str) -> None:
        if self._is_over:
            raise UsageError(
                f"{what} was called after the trial had ended.",
                hint="Await everything that a solver starts before it returns.",
            )
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
        found = reuse.take(self._model.spec, fingerprint_in(key)) if reuse is not None else None
        if found is None:
            return None
        return msgspec.structs.replace(
            found, trial=self.key, attempt=self.attempt, step=key, model=self._model.name, cost=0.0, tries=0
        )

    def _replay(self, step: StepRecord) -> Reply:
        self.replayed += 1
        self._environment.counts.replayed += 1
        self._account(step.usage, step.cost)
        return replay_reply(step)

    async def _ask(self, request: Request, key: str, talk: Conversation) -> Reply:
        environment, model = self._environment, self._model
        at, began = environment.clock.wall(), environment.clock.monotonic()
        reply, tries = await self._call(request, key)
        if reply.logprobs is not None:
            # As they will be read back, whatever the provider made them of.
            reply = recordable_reply(reply)
        self.calls += 1
        self.tries += tries
        parent, added = _since(talk, request.messages)
        step = StepRecord(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name="generate",
            parent=parent,
            request=_recorded_request(request, added),
            result=record_reply(reply),
            model=model.name,
            usage=reply.usage,
            cost=model.cost_of(reply.usage),
            tries=tries,
            at=at,
            seconds=environment.clock.monotonic() - began,
        )
        self._account(reply.usage, step.cost)
        return await self._keep_reply(step, reply)

    async def _call(self, request: Request, key: str) -> tuple[Reply, int]:
        """The model's reply and how many tries it took; a call that came to nothing is on record too."""
        caller, deadline = self._environment.caller, self._cell.task.retry_deadline
        call = CallRecord(trial=self.key, attempt=self.attempt, step=key, model=self._model.name)
        sent = False

        def send() -> None:
            nonlocal sent
            sent = True
            self._environment.session.put(call)

        try:
            found = await caller.call(self._model, request, deadline, self.activity, self._ticket, send)
        except (ModelError, asyncio.CancelledError) as error:
            self._came_to_nothing(call, error, sent=sent)
            raise
        if self._missing:
            self._missing.pop(_asked(key), None)
        return found

    async def _keep_reply(self, step: StepRecord, reply: Reply) -> Reply:
        """Makes a reply durable; the one that is on record is the one that is given."""
        try:
            await self._keep(step)
        except UsageError:
            # It holds what JSON cannot; it was paid for, so what can be kept of it is.
            reply = recordable_reply(reply)
            request = encodable(_to_builtins(step.request))
            await self._keep(msgspec.structs.replace(step, request=request, result=record_reply(reply)))
        return reply

    def _came_to_nothing(self, call: CallRecord, error: ModelError | asyncio.CancelledError, *, sent: bool) -> None:
        """Puts on record that a call which was sent is no longer in flight, unless the end of the session stops it."""
        if isinstance(error, PassingError | ModelClosed):
            self._missing[_asked(call.step)] = error
        if not sent or (isinstance(error, asyncio.CancelledError) and self._environment.caller.is_ending):
            return
        usage: Usage | None = getattr(error, "usage", None)
        cost = self._model.cost_of(usage)
        failure = Outcome(error=error).failure() if isinstance(error, ModelError) else Failure("cancelled", "given up")
        self._account(usage, cost)
        step = StepRecord(
            trial=self.key,
            attempt=self.attempt,
            step=call.step,
            name="generate",
            model=call.model,
            usage=usage,
            cost=cost,
            error=failure,
        )
        with contextlib.suppress(StorageFailure):  # whoever waits for the journal is told
            self._environment.session.put(step)

    def check_answered(self) -> None:
        """Raises the error that a solver has swallowed, if a request of its never got an answer.

        Raises:
            ModelError: the infrastructure failed, and what the solver made of that must not be scored.
        """
        for error in self._missing.values():
            raise error

    async def _keep(self, step: StepRecord) -> None:
        """Makes a step durable. The record is handed in before anything can be cancelled, and stays handed in."""
        with self.activity.working():
            await self._environment.session.keep(step)

    def _account(self, usage: Usage | None, cost: float) -> None:
        self.usage = total([self.usage, usage])
        self._costs.append(cost)

    def account_for(self, steps: list[StepRecord]) -> None:
        """Takes in what steps on record have cost, without replaying them."""
        for step in steps:
            self._account(step.usage, step.cost)
            self.replayed += step.error is None

    @property
    def cost(self) -> float:
        """What the trial has cost; the sum does not depend on which of several branches was faster."""
        return math.fsum(self._costs)

    def _check_limits(self) -> None:
        """Raises at every call from the one on that goes beyond a limit, so that nothing is paid after it."""
        limits, usage = self._cell.task.limits, self.usage
        tokens = usage.input_tokens + usage.output_tokens if usage else 0
        if limits.tokens is not None and tokens > limits.tokens:
            self.limit = "tokens"
        elif limits.cost is not None and self.cost > limits.cost:
            self.limit = "cost"
        if self.limit:
            raise LimitReached(self.limit)

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """One durable action: a function, its arguments, and its result, which is recorded once it has returned.

        A plain function runs in a thread of its own. Arguments and result must be msgspec-encodable.

        Raises:
            UsageError: an argument or the result cannot be recorded, or the trial is over.
        """
        self._check_going_on("step")
        if not isinstance(name, str) or not callable(function):
            raise UsageError("A step needs a name and a function.", hint='As in trial.step("run tests", run_tests, x).')
        asked = recorded_part(name, "arguments", list(args))
        key = self._steps.key(f"step/{name}", fingerprint_of(asked))
        recorded = self._steps.replay(key)
        if recorded is None:
            recorded = await self._act(key, name, function, args, asked)
        else:
            self.replayed += 1
        return returned(recorded.result, function)

    async def _act(
        self, key: str, name: str, function: Callable[..., Any], args: tuple[Any, ...], asked: list[Any]
    ) -> StepRecord:
        clock, caller = self._environment.clock, self._environment.caller
        at, began = clock.wall(), clock.monotonic()
        await caller.pass_gate(self.activity)
        with self.activity.foreign():
            plain = not inspect.iscoroutinefunction(function)
            outcome = await (guard_thread(function, *args) if plain else guard(function(*args)))
            if inspect.isawaitable(outcome.value):
                outcome = await guard(outcome.value)
        await caller.stay_if_disturbed(self.activity)
        step = StepRecord(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name=name,
            request=asked,
            result=recorded_part(name, "result", outcome.result()),
            at=at,
            seconds=clock.monotonic() - began,
        )
        await self._keep(step)
        return step


def _asked(key: str) -> str:
    """The request of a step's key, whichever time it is asked."""
    return key.rpartition("#")[0]


def _since(talk: Conversation, messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """The step that a request goes on from, and the messages added since; the beginning, where it does not."""
    known = len(talk.messages)
    if known and messages[:known] == talk.messages:
        return talk.parent, messages[known:]
    return "", messages


def _recorded_request(request: Request, added: Sequence[Message]) -> dict[str, Any]:
    """What is new in a request, and how the reply was to be drawn."""
    if request.generation == _PLAIN:
        return {"messages": added}
    generation = {name: value for name, value in _to_builtins(request.generation).items() if value not in (None, {})}
    return {"messages": added, "generation": generation}
