"""Calls of models that are durable: replayed where their reply is recorded, reused from another run, or sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from holdfast.engine.model_calls.caller import ModelClosed
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.scheduling.call_tally import Flight
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.asking.trial_account import TrialAccount
from holdfast.engine.trials.asking.trial_recorder import TrialRecorder
from holdfast.engine.trials.conversation import Conversation
from holdfast.engine.trials.error_boundary import Outcome
from holdfast.engine.trials.scopes import Masking, Scope
from holdfast.engine.trials.steps import (
    Steps,
    fingerprint_in_key,
    record_reply,
    recordable_reply,
    recorded_request,
    replay_reply,
    reply_without_keys,
    request_fingerprint,
)
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import StorageFailure, UsageError
from holdfast.models.errors import ModelError, PassingError
from holdfast.models.fingerprints import MessageHash
from holdfast.models.message import Message, Reply, Request, Usage, encodable
from holdfast.models.role import ModelRole
from holdfast.run.core.records import GIVEN_UP, GIVEN_UP_WAITING, RETRIED, CallRecord, RefusedRecord, StepRecord
from holdfast.run.drift.served_names import recorded_name
from holdfast.spec import Generation
from holdfast.tasks.solver import SCHEMA, TOOLS, check_generation, split_schema
from holdfast.tasks.tools.offered_tools import with_tools

_to_builtins = msgspec.to_builtins


class AskedModel(NamedTuple):
    """A model as it is asked in one place."""

    model: OpenModel
    role: ModelRole = ModelRole.UNDER_TEST
    call_name: str = "generate"
    """The name of its calls in their keys: one for each model, so that none gets the reply of another."""
    note: Callable[[StepRecord], None] | None = None
    """Called with every step of its calls, once for each that counts."""


def _called_conversation(
    messages: tuple[Message, ...], reply: Reply, key: str, hash_: MessageHash | None
) -> Conversation:
    """The conversation that a reply with calls ends, as every server takes it back.

    Where that is not what the model said, it continues no recorded reply: the next request is recorded whole.
    """
    from holdfast.tasks.tools.called_tool import answerable_message  # noqa: PLC0415 - most runs have no tools

    said = reply.message
    sent = answerable_message(said)
    return Conversation((*messages, sent), key if sent is said else "", hash_)


class DurableCalls:
    """The calls of one attempt at a trial, or of one attempt of a score slot, whichever model they ask."""

    __slots__ = ("_account", "_asked", "_bought_before", "_environment", "_grant", "_recorder", "_steps")

    def __init__(
        self,
        environment: TrialEnvironment,
        recorder: TrialRecorder,
        account: TrialAccount,
        steps: Steps,
        grant: CapacityGrant,
        bought_before: int = 0,
    ) -> None:
        """`bought_before` is how many replies an earlier attempt got: as many calls of this one repeat them."""
        self._environment, self._recorder, self._account = environment, recorder, account
        self._steps, self._grant = steps, grant
        self._bought_before, self._asked = bought_before, 0

    async def ask(
        self,
        asked: AskedModel,
        scope: Scope,
        messages: tuple[Message, ...],
        generation: dict[str, Any],
        conversation: Conversation,
    ) -> tuple[Reply, Conversation]:
        """The reply to one request, and the conversation that it ends; `conversation` is what the request may continue.

        Raises:
            ModelError: the model gave no reply.
            ConfigurationError: a generation parameter is unknown or out of range.
        """
        self._asked += 1
        if self._environment.deterministic:
            # What the call gives comes last. It is counted either way: its number is its place in the solver.
            generation = {"seed": scope.call_seed(self._recorder.seed), **generation}
        request = self._request(asked.model, messages, generation)
        hash_ = conversation.hash_with(messages)
        key = scope.key(asked.call_name, request_fingerprint(request, hash_))
        if (recorded := self._steps.replay(scope, key)) is not None:
            if recorded.step != key:
                self._environment.sink.put(self._borrowed(recorded, key, request, conversation))
            reply = self._replay(asked, recorded)
            self._recorder.report(recorded, replayed=True)
        elif (reused := self._reused(asked, key)) is not None:
            await self._recorder.keep(self._as_asked_here(reused, request, conversation))
            self._count_reused(asked.model.name, reused.usage)
            reply = self._replay(asked, reused)
        else:
            reply = await self._ask_model(asked, request, key, conversation, self._why_again(scope, key))
        if reply.tool_calls and TOOLS in generation:
            return reply, _called_conversation(messages, reply, key, hash_)
        return reply, Conversation((*messages, reply.message), key, hash_)

    def _request(self, model: OpenModel, messages: tuple[Message, ...], given: dict[str, Any]) -> Request:
        """`given` are the parameters of the call."""
        if TOOLS in given:
            given = with_tools(given, model.spec.generation.extra_body)
        if SCHEMA not in given:
            return Request(messages, self._generation(model, given))
        check_generation(given)
        generation, schema = split_schema(given)
        return Request(messages, self._generation(model, generation), schema)

    def _generation(self, model: OpenModel, overrides: dict[str, Any]) -> Generation:
        base, epoch = model.spec.generation, self._recorder.planned.epoch
        if base.seed is not None and epoch > 1 and "seed" not in overrides:
            # Another epoch is another draw; with the same seed it would be the same one.
            overrides = {**overrides, "seed": base.seed + epoch - 1}
        if not overrides:
            return base
        check_generation(overrides)
        return msgspec.convert({**_to_builtins(base), **overrides}, Generation)

    # Recorded replies.

    def _borrowed(self, lender: StepRecord, key: str, request: Request, conversation: Conversation) -> StepRecord:
        """The record that a step borrowed the reply of another branch, which nobody asks for any more.

        Nobody waits for it: the reply is durable, and without this record it would be borrowed again.
        """
        step = msgspec.structs.replace(lender, step=key, lender=lender.step)
        return self._as_asked_here(step, request, conversation)

    def _as_asked_here(self, step: StepRecord, request: Request, conversation: Conversation) -> StepRecord:
        parent, added = conversation.added_by(request.messages)
        asked = recorded_request(request, added)
        return msgspec.structs.replace(step, parent=parent, request=asked, about=self._recorder.about())

    def _reused(self, asked: AskedModel, key: str) -> StepRecord | None:
        """The reply of another run to the same request, as a step of this trial."""
        reuse, model = self._environment.reuse, asked.model
        if model.has_effects:
            return None
        found = reuse.take(model.spec, fingerprint_in_key(key), model.weights) if reuse is not None else None
        if found is None:
            return None
        self._environment.caller.served.note_reused(model.name, recorded_name(found))
        return msgspec.structs.replace(
            found,
            trial=self._recorder.key,
            attempt=self._recorder.attempt,
            step=key,
            model=model.name,
            role=asked.role,
            tries=0,
            lender="",
        )

    def _count_reused(self, model: str, usage: Usage | None) -> None:
        planned = self._recorder.planned
        if usage is not None:
            self._environment.admission.tally.add_reused((planned.task.name, planned.model), model, usage)

    def _replay(self, asked: AskedModel, step: StepRecord) -> Reply:
        self._account.replayed += 1
        self._account.replies += 1
        self._environment.counts.replayed += 1
        self._add(asked, step)
        return replay_reply(step)

    def _add(self, asked: AskedModel, step: StepRecord) -> None:
        self._account.add(step)
        if asked.note is not None:
            asked.note(step)

    # Replies of the model.

    def _why_again(self, scope: Scope, key: str) -> str:
        """Why the call that comes now repeats another; empty if it does not."""
        return self._steps.why_again(scope, key) or (RETRIED if self._asked <= self._bought_before else "")

    async def _ask_model(
        self, asked: AskedModel, request: Request, key: str, conversation: Conversation, repeats: str
    ) -> Reply:
        environment, model, planned = self._environment, asked.model, self._recorder.planned
        if environment.record_only is not None:
            await environment.record_only.miss_call(key, request)
        at, began = environment.clock.wall(), environment.clock.monotonic()
        tokens, group = model.estimate.tokens_of(request), (planned.task.name, planned.model)
        flight = environment.admission.flight(model.name, tokens, group)
        usage: Usage | None = None
        try:
            reply, tries = await self._send_call(asked, request, key, flight, repeats)
            usage = reply.usage
            return await self._record_call(asked, request, key, conversation, reply, tries, at, began)
        finally:
            # Its reply is durable, also where the trial was cancelled meanwhile: the cancellation has waited for that.
            if not flight.has_failed:
                environment.admission.end(flight, usage)

    async def _record_call(
        self,
        asked: AskedModel,
        request: Request,
        key: str,
        conversation: Conversation,
        reply: Reply,
        tries: int,
        at: float,
        began: float,
    ) -> Reply:
        """Makes the reply to a call durable; the reply as it is recorded."""
        if reply.logprobs is not None or not reply.is_plain:
            # As they will be read back, whatever the provider made them of.
            reply = recordable_reply(reply)
        reply = reply_without_keys(reply)
        account, recorder = self._account, self._recorder
        account.calls += 1
        account.replies += 1
        account.tries += tries
        parent, added = conversation.added_by(request.messages)
        step = StepRecord(
            trial=recorder.key,
            attempt=recorder.attempt,
            step=key,
            name="generate",
            parent=parent,
            request=recorded_request(request, added),
            result=record_reply(reply),
            model=asked.model.name,
            role=asked.role,
            usage=reply.usage,
            tries=tries,
            at=at,
            seconds=self._environment.clock.monotonic() - began,
        )
        self._add(asked, step)
        return await self._keep_reply(step, reply)

    async def _send_call(
        self, asked: AskedModel, request: Request, key: str, flight: Flight, repeats: str
    ) -> tuple[Reply, int]:
        """The model's reply and how many tries it took; a failed call is recorded too."""
        environment, recorder = self._environment, self._recorder
        deadline, was_sent = environment.settings.retry_deadline(recorder.planned.task.name), False

        def on_sent() -> None:
            nonlocal was_sent
            was_sent = True
            call = CallRecord(
                trial=recorder.key,
                attempt=recorder.attempt,
                step=key,
                model=asked.model.name,
                role=asked.role,
                repeats=repeats,
                about=recorder.about(),
            )
            environment.sink.put(call)

        try:
            with Masking():
                found = await environment.caller.call(
                    asked.model, request, deadline, recorder.activity, self._grant, flight, on_sent
                )
        except (ModelError, asyncio.CancelledError) as error:
            self._record_failed_call(asked, key, error, flight if was_sent else None)
            raise
        self._account.note_answered(key)
        return found

    async def _keep_reply(self, step: StepRecord, reply: Reply) -> Reply:
        """Makes a reply durable; the reply as it is recorded."""
        try:
            await self._recorder.keep(step)
        except UsageError:
            # It contains values that JSON cannot hold. It was paid for, so everything else is kept.
            reply = recordable_reply(reply)
            request = encodable(_to_builtins(step.request))
            await self._recorder.keep(msgspec.structs.replace(step, request=request, result=record_reply(reply)))
        return reply

    def _record_failed_call(
        self, asked: AskedModel, key: str, error: ModelError | asyncio.CancelledError, flight: Flight | None
    ) -> None:
        """Records that a call which was sent is no longer in flight, unless the end of the session stops it.

        Nothing was sent if there is no flight. A call that only waits for its next try has nothing in flight either.
        """
        environment, recorder = self._environment, self._recorder
        if isinstance(error, PassingError | ModelClosed):
            self._account.note_unanswered(key, error)
        is_cut_off = isinstance(error, asyncio.CancelledError) and environment.admission.is_closed
        if flight is None or (is_cut_off and not flight.is_paused):
            return
        usage: Usage | None = getattr(error, "usage", None)
        if isinstance(error, ModelClosed) and error.other is not None:
            self._record_refused(asked, key, error.other, flight, usage)
            return
        failure = GIVEN_UP_WAITING if flight.is_paused else GIVEN_UP
        if isinstance(error, ModelError):
            failure = Outcome(error=error).failure()
        step = StepRecord(
            trial=recorder.key,
            attempt=recorder.attempt,
            step=key,
            name="generate",
            model=asked.model.name,
            role=asked.role,
            usage=usage,
            tries=flight.requests,
            error=failure,
        )
        self._add(asked, step)
        with contextlib.suppress(StorageFailure):  # whoever waits for the journal gets the error
            environment.sink.put(step)
        self._account.add_failed_call(flight, usage)

    def _record_refused(self, asked: AskedModel, key: str, name: str, flight: Flight, usage: Usage | None) -> None:
        """Records that another model answered a call; it is no step of the trial, and its usage not the trial's."""
        environment, recorder = self._environment, self._recorder
        refused = RefusedRecord(
            trial=recorder.key,
            attempt=recorder.attempt,
            step=key,
            model=asked.model.name,
            role=asked.role,
            name=name,
            usage=usage,
            tries=flight.requests,
        )
        with contextlib.suppress(StorageFailure):  # as above
            environment.sink.put(refused)
        self._account.add_failed_call(flight, usage)
