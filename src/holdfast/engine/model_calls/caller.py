"""Calling a model until it answers: concurrency limits, rate limits, retries, and admission.

A rate limit (429) is waited out and never counts as a failure. A temporary failure is retried with growing, jittered
pauses, until the deadline: once a model has answered no call for that long, each further call tries it only once. A
permanent error ends the call at once. A model that refuses the key or does not exist is disabled for this session.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from holdfast.engine.events import CallRetried, Events
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.model_calls.rate_limit import Reservation
from holdfast.engine.model_calls.reply_warnings import CUT_OFF, ReplyWarnings, is_empty
from holdfast.engine.model_calls.served_model import ServedModels, UnexpectedModel
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.call_tally import Flight
from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.clock import Clock
from holdfast.models.errors import (
    THIS_MODEL,
    Exchanged,
    ModelError,
    PassingError,
    RateLimited,
    Rejected,
    Unavailable,
    excerpt,
)
from holdfast.models.finish_reasons import USUAL_REASONS, finish_error
from holdfast.models.message import MOST_TOKENS, UNKNOWN_USAGE, Reply, Request, Usage
from holdfast.run.drift.served_names import NamesOnRecord
from holdfast.spec.loading.error_messages import key_path

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_LONGEST_REQUESTED_PAUSE = 3600.0
_UNREMARKABLE = USUAL_REASONS - {CUT_OFF}
_OF_ACCOUNT = {401, 402}
"""A refused key and no credit concern every call."""
_HOPELESS = {*_OF_ACCOUNT, 403, 404}
_GIVE_A_REPLY = "It must return a Reply with its text; see `holdfast.Reply`."


@dataclass
class CallCounts:
    """What was started and sent in this session."""

    trials: int = 0
    """Trials that were started."""
    active: int = 0
    """Of them, those that are running now."""
    made: int = 0
    replayed: int = 0
    retries: int = 0
    rate_limited: int = 0


_NOT_ON_RECORD = "The server reports a model that is not on record."


class ModelClosed(Rejected):
    """The model refused the key, does not exist or could not be opened, and is disabled for this session."""

    kind = "closed"

    def __init__(self, model: OpenModel, usage: Usage | None = None, other: str | None = None) -> None:
        """`usage` is what a reply took that could not be used, `other` the model that gave it, if that is why."""
        # Trials record this, and the address of another model is not to be in the run.
        why = f"{_NOT_ON_RECORD} Its reply was kept out." if model.is_other_model else model.refusal
        super().__init__(f"{model.name} is disabled for this session. {why}")
        self.usage, self.other, self.setting = usage, other, model.setting


class ReplyChecks(NamedTuple):
    """What is looked at in every reply."""

    warnings: ReplyWarnings
    """What is odd about it."""
    served: ServedModels
    """Which model gave it."""


class Tries:
    """The tries of one call, and how long it may keep failing from its first failure on; rate limits do not count."""

    def __init__(self, seconds: float) -> None:
        self.deadline, self._left, self._has_failed = seconds, seconds, False
        self.made, self._began = 0, 0.0

    def begin(self, now: float) -> None:
        """One more is made."""
        self.made, self._began = self.made + 1, now

    def allow(self, pause: float, now: float) -> bool:
        """Whether there is time for a pause and another try, after one has failed."""
        self._left -= (now - self._began if self._has_failed else 0.0) + pause
        self._has_failed = True
        return self._left >= 0


class Caller:
    """Makes the calls of all trials of a session."""

    def __init__(
        self,
        clock: Clock,
        admission: Admission,
        counts: CallCounts,
        rng: random.Random,
        capacity: CapacityPool,
        events: Events,
        on_refused: Callable[[OpenModel], None],
        checks: ReplyChecks | None = None,
    ) -> None:
        """`on_refused` is called when a model is disabled for this session; `checks` are made of all its replies."""
        self._clock, self._admission, self._counts, self._rng = clock, admission, counts, rng
        self._capacity, self._events, self._on_refused = capacity, events, on_refused
        self._warnings, self.served = checks or ReplyChecks(
            ReplyWarnings(events), ServedModels(NamesOnRecord(), events)
        )

    def note_cut_answer(self, model: OpenModel, text: str) -> None:
        """Takes note of an answer that is not whole."""
        self._warnings.note_cut_answer(model, text)

    async def call(
        self,
        model: OpenModel,
        request: Request,
        deadline_seconds: float,
        activity: TrialActivity,
        grant: CapacityGrant,
        flight: Flight,
        on_sent: Callable[[], None],
    ) -> tuple[Reply, int]:
        """The model's reply and how many tries it took; `on_sent` is called right before the first request goes out.

        From then on `flight` counts as in flight; the caller ends it once the end of the call is durable.

        Raises:
            ModelError: the model gave no reply.
        """
        tries = Tries(deadline_seconds)
        while True:
            try:
                reservation = await self._admit(model, request, activity, grant, flight)
                flight.end_pause()
                tries.begin(self._clock.monotonic())
                flight.requests = tries.made
                try:
                    first = on_sent if tries.made == 1 else None
                    return await self._send(model, request, reservation, activity, first), tries.made
                except ModelError as error:
                    pause = self.pause_after(error, model, tries)
                    flight.note_retry()
                finally:
                    self._release_capacity(model)
            finally:
                # Whatever became of it, those who wait for its reply continue, or the next of them goes alone.
                if flight.is_alone:
                    self._admission.end_alone(flight, model.name)
            if model.wait_until <= self._clock.wall():
                with activity.waiting():
                    await self._clock.sleep(pause)

    def pause_after(self, error: ModelError, model: OpenModel, tries: Tries) -> float:
        """How long to wait before the call is tried once more, after a try has failed.

        Raises:
            ModelError: waiting cannot cure it, or has not for long enough; or the model is disabled from now on.
        """
        name = key_path("models", model.name)
        error.hint, error.setting = error.hint.replace(THIS_MODEL, name), error.setting.replace(THIS_MODEL, name)
        if isinstance(error, RateLimited):
            model.failing_since = None
            self._counts.rate_limited += 1
            # One that names a time is waited for where the next call is admitted, which concerns all calls.
            left = model.wait_until - self._clock.wall()
            pause = self._pause(error, tries.made) if left <= 0 else left
        elif isinstance(error, PassingError):
            now, pause = self._clock.monotonic(), self._pause(error, tries.made)
            is_dead = now + pause - model.note_failure(now) > tries.deadline
            model.outages += is_dead
            if is_dead or not tries.allow(pause, now):
                raise error
        else:
            self._close_if_hopeless(error, model)
            raise error
        self._counts.retries += 1
        model.last_error = error
        deadline = 0.0 if model.has_replied or isinstance(error, RateLimited) else tries.deadline
        self._events.emit(CallRetried(model.name, error.kind, error.message, pause, tries.made, deadline, error.hint))
        return pause

    def _close_if_hopeless(self, error: ModelError, model: OpenModel) -> None:
        """Disables a model that refuses the key, has no credit, does not exist, or is another one.

        Raises:
            ModelClosed: it was disabled.
        """
        status = error.status if isinstance(error, Rejected) else None
        # Once the model has replied to other calls, a 403 or 404 concerns only this request.
        is_hopeless = status in _HOPELESS and (not model.has_replied or status in _OF_ACCOUNT)
        if isinstance(error, Rejected) and (is_hopeless or isinstance(error, UnexpectedModel | Exchanged)):
            self._close(model, error)
            other = error.name if isinstance(error, UnexpectedModel) else None
            raise ModelClosed(model, getattr(error, "usage", None), other) from None

    async def _admit(
        self, model: OpenModel, request: Request, activity: TrialActivity, grant: CapacityGrant, flight: Flight
    ) -> Reservation | None:
        """Returns with the model's capacity held and the call in flight, when one more request may be sent.

        As long as nobody knows who replies in this session, that is one at a time.

        Raises:
            Unavailable: the model was given up while this call waited for the one that went ahead.
        """
        if model.wait_until > self._clock.wall():
            await self._wait_for_reset(model, activity)
        is_usual = model.rate_limiter.is_unlimited and not model.awaits_reply
        if is_usual and self._admission.begin_nowait(flight, model.name, model.limit, grant):
            return None
        with activity.waiting():
            while True:
                outages = model.outages
                await self._admission.wait_until_open(activity, model.name)
                if model.awaits_reply and model.outages > outages:
                    # It has not replied for longer than a call may take: this one would only wait for the same.
                    raise Unavailable(f"{model.name} has not replied to the call that went ahead, and was given up.")
                if not grant.hand_over(model.limit):
                    await self._capacity.acquire((model.limit,))
                is_admitted, reservation = False, None
                try:
                    if not model.rate_limiter.is_unlimited:
                        reservation = await model.rate_limiter.reserve(request)
                    if is_admitted := await self._admission.begin(flight, model.name, model.limit):
                        if model.awaits_reply:
                            self._admission.go_alone(flight, model.name)
                        return reservation
                finally:
                    # Held or abandoned meanwhile: its place in the rate limit is too old to be used later.
                    if not is_admitted:
                        model.rate_limiter.settle(reservation, None)
                        self._release_capacity(model)

    async def _wait_for_reset(self, model: OpenModel, activity: TrialActivity) -> None:
        """Waits until the time that a provider has named; in steps, because a machine may sleep meanwhile."""
        with activity.waiting():
            while (left := model.wait_until - self._clock.wall()) > 0:
                await self._clock.sleep(min(left, _LONGEST_PAUSE))

    def _release_capacity(self, model: OpenModel) -> None:
        self._capacity.release((model.limit,))

    async def _send(
        self,
        model: OpenModel,
        request: Request,
        reservation: Reservation | None,
        activity: TrialActivity,
        on_sent: Callable[[], None] | None,
    ) -> Reply:
        if model.refusal:
            raise ModelClosed(model)
        if on_sent is not None:
            on_sent()
        self._counts.made += 1
        reply: Reply | None = None
        try:
            with activity.in_flight():
                reply = checked_reply(model, await model.provider.send(request))
        finally:
            if reply is None or reply.usage is not None:
                model.rate_limiter.settle(reservation, reply.usage if reply else None)
        if reply.usage is not None:
            model.estimate.learn(request, reply.usage)
        if reply.model != model.last_name:
            self.served.check(model, reply)
        is_usual = reply.finish in _UNREMARKABLE and reply.usage is not None and not reply.warnings
        if not is_usual or not reply.content or is_empty(reply):
            self._check_oddities(model, reply)
        self.note_unsent_schema(model, request)
        if reply.model != model.last_name:
            self.served.accept(model, reply)
        model.failing_since, model.has_replied = None, True
        return reply

    def note_unsent_schema(self, model: OpenModel, request: Request) -> None:
        """Takes note of a reply that was to fit a schema which its provider does not send."""
        if request.response_schema is not None and not model.takes_schema:
            self._warnings.note_schema(model)

    def _check_oddities(self, model: OpenModel, reply: Reply) -> None:
        """Takes note of what is odd about a reply.

        Raises:
            ModelError: its finish reason says that it is not an answer.
        """
        failure = finish_error(model.name, reply)
        if failure is not None:
            raise failure
        self._warnings.note(model, reply)

    def _close(self, model: OpenModel, error: Rejected) -> None:
        if not model.refusal:
            model.refusal, model.setting = str(error), error.setting
            self._on_refused(model)

    def _pause(self, error: PassingError, tries: int) -> float:
        """What the server asks for, or a pause that doubles; jittered, so that many do not come back at once."""
        if error.retry_after is not None and error.retry_after > 0:
            return min(error.retry_after, _LONGEST_REQUESTED_PAUSE) * self._rng.uniform(1.0, 1.1)
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10)) * self._rng.uniform(0.5, 1.0)


def checked_reply(model: OpenModel, reply: object) -> Reply:
    """What a provider returned, which may be anybody's code: refused unless it is a reply."""
    if not isinstance(reply, Reply):
        raise Rejected(f"The provider of {model.name} returned {type(reply).__name__}.", hint=_GIVE_A_REPLY)
    texts = (reply.content, reply.finish, reply.model, reply.id, reply.reasoning)
    is_text = set(map(type, texts)) == {str} or all(isinstance(text, str) for text in texts)
    if isinstance(reply.usage, Usage) and not _is_countable(reply.usage):
        reply = _without_usage(reply)
    if is_text and reply.is_plain and (reply.usage is None or isinstance(reply.usage, Usage)):
        return reply
    try:
        return msgspec.convert(msgspec.to_builtins(reply, str_keys=True), Reply)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Rejected(
            f"The provider of {model.name} returned a reply with a field of a wrong type: {error}.", hint=_GIVE_A_REPLY
        ) from None


def _is_countable(usage: Usage) -> bool:
    """Whether all of its counts are numbers of tokens that a reply can have."""
    counts = usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens
    return set(map(type, counts)) == {int} and min(counts) >= 0 and max(counts) <= MOST_TOKENS


def _without_usage(reply: Reply) -> Reply:
    """A reply whose usage no reply can have: it is kept, and its usage is unknown."""
    text = f"The usage of the reply cannot be read, so its tokens are unknown: {excerpt(repr(reply.usage), 200)}"
    return msgspec.structs.replace(reply, usage=None, warnings={**reply.warnings, UNKNOWN_USAGE: text})
