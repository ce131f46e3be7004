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

from holdfast.engine.boundary import LimitReached, Outcome, guard, guard_thread
from holdfast.engine.calls import Activity, CallCounts, Caller, Model
from holdfast.engine.clock import Clock
from holdfast.engine.history import Past
from holdfast.engine.plan import Cell
from holdfast.engine.reuse import Reuse, fingerprint_in
from holdfast.engine.steps import Steps, digest, encode_arguments, record_reply, replay_reply, returned, total
from holdfast.errors import StorageFailure, UsageError
from holdfast.models.errors import ModelError, PassingError
from holdfast.models.message import Message, Reply, Request, Usage, encodable, fingerprint
from holdfast.run.records import Call, Failure, Step
from holdfast.run.session import RunSession
from holdfast.spec import Generation
from holdfast.tasks.conversation import conversation
from holdfast.tasks.sample import Sample
from holdfast.tasks.trial import Prompt

_to_builtins = msgspec.to_builtins


class Talk(msgspec.Struct, frozen=True):
    """A conversation so far, and the step whose reply ended it."""

    messages: tuple[Message, ...] = ()
    parent: str = ""


_SILENCE = Talk()


class TrialEnvironment:
    """What all trials of a session share."""

    __slots__ = ("caller", "clock", "counts", "on_idle", "reuse", "session")

    def __init__(
        self, session: RunSession, caller: Caller, counts: CallCounts, clock: Clock, on_idle: Callable[[], None]
    ) -> None:
        self.session, self.caller, self.counts, self.clock, self.on_idle = session, caller, counts, clock, on_idle
        self.reuse: Reuse | None = None


class RunningTrial:
    """One attempt at one trial, under way."""

    def __init__(
        self, environment: TrialEnvironment, cell: Cell, past: Past, sample: Sample, model: Model, seed: int
    ) -> None:
        self._environment, self._cell, self._model = environment, cell, model
        self._steps = Steps(past.steps)
        self.key, self.attempt, self.sample, self.seed = cell.key, past.attempt, sample, seed
        self.activity = Activity(environment.on_idle)
        self._talk: ContextVar[Talk] = ContextVar("talk")
        self.usage: Usage | None = None
        self._costs: list[float] = []
        self._missing: dict[str, ModelError] = {}
        """The requests that the infrastructure has failed to answer so far, and why."""
        self.calls = self.replayed = self.tries = 0

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
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, as this branch of the solver sees it."""
        return self._talk.get(_SILENCE).messages

    async def generate(self, prompt: Prompt, **generation: Any) -> Reply:
        """One call of the model under test; replayed where its reply is on record.

        Raises:
            ModelError: no reply could be had.
            LimitReached: the trial has used up its tokens or its cost.
            UsageError: a generation parameter is unknown or out of range.
        """
        talk = self._talk.get(_SILENCE)
        continues = isinstance(prompt, str | Message) and bool(talk.messages)
        added = conversation(prompt, None if continues else self._cell.task.task.system)
        request = Request((*talk.messages, *added) if continues else added, self._generation(generation))
        key = self._steps.key("", "generate", digest(fingerprint(request)))
        if (recorded := self._steps.recorded(key)) is not None:
            reply = self._replay(recorded)
        elif (reused := self._reused(key)) is not None:
            await self._commit(msgspec.structs.replace(reused, parent=talk.parent if continues else ""))
            reply = self._replay(reused)
        else:
            reply = await self._ask(request, key, talk.parent if continues else "", added)
        self._talk.set(Talk((*request.messages, Message("assistant", reply.text)), key))
        self._check_limits()
        return reply

    def _generation(self, overrides: dict[str, Any]) -> Generation:
        base = self._model.spec.generation
        if base.seed is not None and self.epoch > 1 and "seed" not in overrides:
            # Another epoch is another draw; with the same seed it would be the same one.
            overrides = {**overrides, "seed": base.seed + self.epoch - 1}
        if not overrides:
            return base
        try:
            return msgspec.convert({**_to_builtins(base), **overrides}, Generation)
        except msgspec.ValidationError as error:
            raise UsageError(f"A generation parameter is wrong: {error}.") from None

    def _reused(self, key: str) -> Step | None:
        """The reply of another run to the same request, as a step of this trial."""
        reuse = self._environment.reuse
        found = reuse.take(self._model.spec, fingerprint_in(key)) if reuse is not None else None
        if found is None:
            return None
        return msgspec.structs.replace(
            found, trial=self.key, attempt=self.attempt, step=key, model=self._model.name, cost=0.0, tries=0
        )

    def _replay(self, step: Step) -> Reply:
        self.replayed += 1
        self._environment.counts.replayed += 1
        self._account(step.usage, step.cost)
        return replay_reply(step)

    async def _ask(self, request: Request, key: str, parent: str, added: tuple[Message, ...]) -> Reply:
        environment, model = self._environment, self._model
        call = Call(trial=self.key, attempt=self.attempt, step=key, model=model.name)
        at, began = environment.clock.wall(), environment.clock.monotonic()
        sent = False

        def send() -> None:
            nonlocal sent
            sent = True
            environment.session.append(call)

        try:
            reply, tries = await environment.caller.call(model, request, self._cell.task.deadline, self.activity, send)
        except (ModelError, asyncio.CancelledError) as error:
            self._came_to_nothing(call, error, sent=sent)
            raise
        self._missing.pop(_asked(key), None)
        self.calls += 1
        self.tries += tries
        cost = model.cost(reply.usage.input_tokens, reply.usage.output_tokens) if reply.usage else 0.0
        step = Step(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name="generate",
            parent=parent,
            request=_recorded_request(request, added),
            result=_to_builtins(record_reply(reply)),
            model=model.name,
            usage=reply.usage,
            cost=cost,
            tries=tries,
            at=at,
            seconds=environment.clock.monotonic() - began,
        )
        await self._commit(step)
        self._account(reply.usage, cost)
        return reply

    def _came_to_nothing(self, call: Call, error: ModelError | asyncio.CancelledError, *, sent: bool) -> None:
        """Puts on record that a call which was sent is no longer in flight, unless the end of the session stops it."""
        if isinstance(error, PassingError) or error is self._model.refusal:
            self._missing[_asked(call.step)] = error
        if not sent or (isinstance(error, asyncio.CancelledError) and self._environment.caller.is_ending):
            return
        usage: Usage | None = getattr(error, "usage", None)
        cost = self._model.cost(usage.input_tokens, usage.output_tokens) if usage else 0.0
        failure = Outcome(error=error).failure() if isinstance(error, ModelError) else Failure("cancelled", "given up")
        self._account(usage, cost)
        step = Step(
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
            self._environment.session.append(step)

    def check_answered(self) -> None:
        """Raises the error that a solver has swallowed, if a request of its never got an answer.

        Raises:
            ModelError: the infrastructure failed, and what the solver made of that must not be scored.
        """
        for error in self._missing.values():
            raise error

    async def _commit(self, step: Step) -> None:
        """Makes a step durable. The record is handed in before anything can be cancelled, and stays handed in."""
        with self.activity.working():
            await self._environment.session.commit_async(step)

    def _account(self, usage: Usage | None, cost: float) -> None:
        self.usage = total([self.usage, usage])
        self._costs.append(cost)

    def account_for(self, steps: list[Step]) -> None:
        """Takes in what steps on record have cost, without replaying them."""
        for step in steps:
            self._account(step.usage, step.cost)
            self.replayed += step.error is None

    @property
    def cost(self) -> float:
        """What the trial has cost; the sum does not depend on which of several branches was faster."""
        return math.fsum(self._costs)

    def _check_limits(self) -> None:
        limits, usage = self._cell.task.limits, self.usage
        tokens = usage.input_tokens + usage.output_tokens if usage else 0
        if limits.tokens is not None and tokens > limits.tokens:
            raise LimitReached("tokens")
        if limits.cost is not None and self.cost > limits.cost:
            raise LimitReached("cost")

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """One durable action: a function, its arguments, and its result, which is recorded once it has returned.

        A plain function runs in a thread of its own. Arguments and result must be msgspec-encodable.

        Raises:
            UsageError: an argument or the result cannot be recorded.
        """
        key = self._steps.key("", f"step/{name}", digest(encode_arguments(name, args)))
        recorded = self._steps.recorded(key)
        if recorded is None:
            recorded = await self._act(key, name, function, args)
        else:
            self.replayed += 1
        return returned(recorded.result, function)

    async def _act(self, key: str, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Step:
        clock = self._environment.clock
        at, began = clock.wall(), clock.monotonic()
        caller = self._environment.caller
        await caller.pass_gate(self.activity)
        with self.activity.foreign():
            plain = not inspect.iscoroutinefunction(function)
            outcome = await (guard_thread(function, *args) if plain else guard(function(*args)))
        await caller.stay_if_disturbed(self.activity)
        step = Step(
            trial=self.key,
            attempt=self.attempt,
            step=key,
            name=name,
            request=_recordable(name, list(args)),
            result=_recordable(name, outcome.result()),
            at=at,
            seconds=clock.monotonic() - began,
        )
        await self._commit(step)
        return step


def _asked(key: str) -> str:
    """The request of a step's key, whichever time it is asked."""
    return key.rpartition("#")[0]


def _recorded_request(request: Request, added: Sequence[Message]) -> dict[str, Any]:
    """What is new in a request, and how the reply was to be drawn."""
    recorded: dict[str, Any] = {"messages": encodable(_to_builtins(added))}
    generation = {name: value for name, value in _to_builtins(request.generation).items() if value not in (None, {})}
    return {**recorded, "generation": generation} if generation else recorded


def _recordable(name: str, value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"The result of the step {name!r} cannot be recorded: {error}.",
            hint="Return texts, numbers, lists, maps or msgspec structs.",
        ) from error
