"""Admission as a state machine: calls and stages come, wait, are cancelled, end; limits, holds, lease and mark change.

Time is virtual, and the test decides when a model replies, when a reply is durable and when a mark is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.rig import said
from engine.virtual import VirtualClock, VirtualLoop
from holdfast.engine.events import Events
from holdfast.engine.model_calls.caller import CallCounts, Caller
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.model_calls.rate_limit import RateLimiter
from holdfast.engine.model_calls.token_estimate import TokenEstimate
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.admission_mark import AdmissionMark
from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.concurrency_limits import EvalLimits
from holdfast.engine.scheduling.holds import Holds
from holdfast.models.errors import RateLimited
from holdfast.models.message import Message, Request
from holdfast.spec import resolve, typed_eval
from holdfast.spec.code_reference import IN_MEMORY

MODELS, TASKS, STAGES = ("a", "b"), ("t", "u"), ("solve", "score")
REASONS = ("pause", "budget", "breaker")
FIRST_MARK = 2
PAUSE_SECONDS = 1.0
REQUEST = Request((Message("user", "x"),))


def small_eval():
    models = {name: {"provider": "scripted", "model": "echo", "concurrency_limit": 2} for name in MODELS}
    tasks = {name: {"use": IN_MEMORY + name, "concurrency_limits": {"score": 1}} for name in TASKS}
    data = {"name": "machine", "concurrency_limit": 3, "models": models, "tasks": tasks}
    return resolve(typed_eval(data, "the machine"), "the machine")


class Call:
    """A call of a model: it waits, is sent, pauses before it is sent again, is answered, and ends."""

    def __init__(self, number: int, model: str) -> None:
        self.number, self.model, self.state = number, model, "waiting"
        self.was_sent = self.was_held = False
        self.answer: asyncio.Future | None = None
        self.durable: asyncio.Future | None = None
        self.task: asyncio.Task | None = None


class Stay:
    """A trial in a stage: it waits for its slots, then stays until it is told to leave."""

    def __init__(self, number: int, kind: tuple, grant: CapacityGrant) -> None:
        self.number, self.kind, self.grant, self.state = number, kind, grant, "waiting"
        self.leave: asyncio.Future | None = None
        self.task: asyncio.Task | None = None


async def new_events() -> Events:
    return Events()


class AdmissionMachine(RuleBasedStateMachine):
    """Admission beside the test's own count of who is where."""

    @initialize()
    def begin(self) -> None:
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.clock = VirtualClock(self.loop)
        self.limits = EvalLimits(small_eval())
        self.capacity, self.held_by = CapacityPool(lambda: None), Holds(self.clock)
        self.durable_mark, self.mark_writes = FIRST_MARK, []
        self.has_lease = True
        self.mark = AdmissionMark(FIRST_MARK, self.write_mark, self.limits.run)
        self.admission = Admission(self.limits, self.capacity, self.held_by, self.mark, lambda: self.has_lease)
        events = self.loop.run_until_complete(new_events())
        self.caller = Caller(
            self.clock, self.admission, CallCounts(), random.Random(1), self.capacity, events, lambda _: None
        )
        self.models = {name: self.open_model(name) for name in MODELS}
        self.calls: list[Call] = []
        self.stays: list[Stay] = []
        self.count = 0
        self.admitted: dict[tuple, list[int]] = {}

    def open_model(self, name: str) -> OpenModel:
        estimate = TokenEstimate()
        limiter, limit = RateLimiter(None, self.clock, estimate), self.limits.add_model(name, 2)
        return OpenModel(name, None, self, limiter, limit, estimate)

    async def write_mark(self, calls: int) -> None:
        written = asyncio.get_running_loop().create_future()
        self.mark_writes.append(written)
        # As the journal does it: a cancellation waits until the record is durable.
        try:
            await asyncio.shield(written)
        except asyncio.CancelledError:
            self.durable_mark = calls
            raise
        self.durable_mark = calls

    # What goes on by itself.

    async def run_call(self, call: Call) -> None:
        model = self.models[call.model]
        flight = self.admission.flight(call.model, 10.0)
        activity, grant = TrialActivity(lambda _: None), CapacityGrant(self.capacity, ())
        provider = CallProvider(self, call)
        model = OpenModel(call.model, None, provider, model.rate_limiter, model.limit, model.estimate)
        try:
            await self.caller.call(model, REQUEST, 1e9, activity, grant, flight, lambda: None)
            call.state = "answered"
            call.durable = asyncio.get_running_loop().create_future()
            with contextlib.suppress(asyncio.CancelledError):
                await call.durable
        finally:
            call.state = "over"
            self.admission.end(flight)

    async def run_stay(self, stay: Stay, limits: tuple) -> None:
        try:
            held = stay.grant.limits
            await stay.grant.change(limits)
            # A slot that it had before it keeps, also under a limit that was lowered since.
            new = [limit for limit in limits if limit.maximum and limit not in held]
            assert all(limit.in_use <= limit.maximum for limit in new), "let in beyond a limit"
            stay.state = "in"
            self.admitted.setdefault(stay.kind, []).append(stay.number)
            stay.leave = asyncio.get_running_loop().create_future()
            await stay.leave
        finally:
            stay.state = "over"
            stay.grant.release()

    def settle(self, seconds: float = 0.0) -> None:
        async def turns() -> None:
            if seconds:
                await asyncio.sleep(seconds)
            for _ in range(30):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())
        for item in (*self.calls, *self.stays):
            if item.task.done() and not item.task.cancelled() and (error := item.task.exception()):
                raise error
        self.calls = [call for call in self.calls if not call.task.done()]
        self.stays = [stay for stay in self.stays if not stay.task.done()]

    def next_number(self) -> int:
        self.count += 1
        return self.count

    # Rules.

    @rule(model=st.sampled_from(MODELS))
    def a_call_comes(self, model: str) -> None:
        call = Call(self.next_number(), model)
        call.was_held = bool(self.admission.holds())
        call.task = self.loop.create_task(self.run_call(call))
        self.calls.append(call)
        self.settle()

    @rule(task=st.sampled_from(TASKS), stage=st.sampled_from(STAGES))
    def a_trial_comes(self, task: str, stage: str) -> None:
        limits = self.limits._of_stage(task, stage)
        stay = Stay(self.next_number(), limits, CapacityGrant(self.capacity, ()))
        stay.task = self.loop.create_task(self.run_stay(stay, limits))
        self.stays.append(stay)
        self.settle()

    def pick(self, data, items: list):
        return items[data.draw(st.integers(0, len(items) - 1))]

    def in_state(self, state: str) -> list:
        return [item for item in (*self.calls, *self.stays) if item.state == state]

    @precondition(lambda self: self.in_state("sent"))
    @rule(data=st.data(), limited=st.booleans())
    def a_model_replies(self, data, limited) -> None:
        call = self.pick(data, self.in_state("sent"))
        if limited:
            call.state = "pausing"
            call.answer.set_exception(RateLimited("slow down", retry_after=PAUSE_SECONDS))
        else:
            call.answer.set_result(said("X"))
        self.settle()

    @precondition(lambda self: self.in_state("pausing"))
    @rule()
    def pauses_end(self) -> None:
        for call in self.in_state("pausing"):
            call.state = "waiting"
        self.settle(2 * PAUSE_SECONDS)

    @precondition(lambda self: self.in_state("answered"))
    @rule(data=st.data())
    def a_reply_is_durable(self, data) -> None:
        self.pick(data, self.in_state("answered")).durable.set_result(None)
        self.settle()

    @precondition(lambda self: self.in_state("in"))
    @rule(data=st.data())
    def a_trial_leaves(self, data) -> None:
        self.pick(data, self.in_state("in")).leave.set_result(None)
        self.settle()

    @precondition(lambda self: self.in_state("in"))
    @rule(data=st.data())
    def a_trial_changes_its_stage(self, data) -> None:
        """It keeps what both stages need, or gives everything back and waits: here, the slots go to a new stay."""
        old = self.pick(data, self.in_state("in"))
        task = self.pick(data, list(TASKS))
        limits = self.limits._of_stage(task, self.pick(data, list(STAGES)))
        grant = CapacityGrant(self.capacity, old.grant.limits)
        old.grant.limits = ()
        stay = Stay(self.next_number(), limits, grant)
        old.leave.set_result(None)
        stay.task = self.loop.create_task(self.run_stay(stay, limits))
        self.stays.append(stay)
        self.settle()

    @precondition(lambda self: self.calls or self.stays)
    @rule(data=st.data())
    def one_is_cancelled(self, data) -> None:
        self.pick(data, [*self.calls, *self.stays]).task.cancel()
        # The cancellation of whoever has a mark written waits for it.
        self.let_marks_be_durable()
        self.settle()

    @precondition(lambda self: self.in_state("in") and self.in_state("waiting"))
    @rule(data=st.data(), turns=st.integers(0, 3))
    def one_is_cancelled_when_its_turn_comes(self, data, turns: int) -> None:
        """Between the moment in which the slots were given to it and the one in which it goes on."""
        item = self.pick(data, self.in_state("waiting"))
        for stay in self.in_state("in"):
            stay.leave.set_result(None)

        async def cancel() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            item.task.cancel()

        self.loop.run_until_complete(cancel())
        self.let_marks_be_durable()
        self.settle()

    def let_marks_be_durable(self) -> None:
        for write in self.mark_writes:
            write.done() or write.set_result(None)

    @rule(data=st.data(), maximum=st.sampled_from([None, 1, 2, 3, 5]))
    def a_limit_is_set(self, data, maximum: int | None) -> None:
        name = self.pick(data, sorted(self.limits._by_name))
        self.admission.set_limit(name, maximum)
        self.settle()

    @rule(reason=st.sampled_from(REASONS), model=st.sampled_from(("", *MODELS)))
    def a_hold_begins(self, reason: str, model: str) -> None:
        self.admission.hold(reason, model)
        for call in self.calls:
            call.was_held = True
        self.settle()

    @precondition(lambda self: self.admission.holds())
    @rule(data=st.data())
    def a_hold_ends(self, data) -> None:
        held = self.pick(data, self.admission.holds())
        if held.reason != "lease":
            self.admission.release(held.reason, held.model)
        self.settle()

    @rule(has_lease=st.booleans())
    def the_lease_changes(self, has_lease) -> None:
        self.has_lease = has_lease
        for call in self.calls:
            call.was_held = True
        self.settle(0.5)
        # Those in a pause may have gone on meanwhile.
        self.settle(2 * PAUSE_SECONDS)
        for call in self.in_state("pausing"):
            call.state = "waiting"

    @precondition(lambda self: any(not write.done() for write in self.mark_writes))
    @rule()
    def a_mark_is_durable(self) -> None:
        self.let_marks_be_durable()
        self.settle()

    # What always holds.

    def holds_up(self, model: str) -> bool:
        return not self.has_lease or any(held.model in ("", model) for held in self.admission.holds())

    @invariant()
    def every_slot_is_counted_once(self) -> None:
        expected = dict.fromkeys(self.limits._by_name.values(), 0)
        for call in self.in_state("sent"):
            expected[self.models[call.model].limit] += 1
        for stay in self.in_state("in"):
            for limit in stay.grant.limits:
                expected[limit] += 1
        for limit, count in expected.items():
            if limit in (model.limit for model in self.models.values()):
                # A call that waits for the mark has its model's slot.
                assert count <= limit.in_use <= count + len(self.in_state("waiting")), limit.name
            else:
                assert limit.in_use == count, limit.name
            assert limit.in_use >= 0

    @invariant()
    def in_flight_is_what_was_sent_and_is_not_durable(self) -> None:
        sent = [call for call in self.calls if call.was_sent]
        assert self.mark.in_flight == self.admission.tally.in_flight == len(sent) <= self.durable_mark
        assert self.admission.tally.reserved == pytest.approx(10.0 * len(sent))

    @invariant()
    def nobody_waits_where_there_is_room(self) -> None:
        is_raising = any(not write.done() for write in self.mark_writes)
        for item in self.in_state("waiting"):
            if isinstance(item, Stay):
                assert any(limit.is_full for limit in item.kind), f"{item.kind} has room"
            elif not self.holds_up(item.model):
                is_full = self.models[item.model].limit.is_full
                assert is_full or (not item.was_sent and is_raising), f"call {item.number} has room"

    @invariant()
    def first_come_first_served(self) -> None:
        for numbers in self.admitted.values():
            assert numbers == sorted(numbers)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.let_everybody_finish()
        finally:
            for item in (*self.calls, *self.stays):
                item.task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
            asyncio.set_event_loop(None)

    def let_everybody_finish(self) -> None:
        self.has_lease = True
        for held in self.admission.holds():
            self.admission.release(held.reason, held.model)
        for name in self.limits._by_name:
            self.admission.set_limit(name, None)
        for _ in range(200):
            self.let_marks_be_durable()
            for item in (*self.calls, *self.stays):
                future = getattr(
                    item, {"sent": "answer", "answered": "durable", "in": "leave"}.get(item.state, "state")
                )
                if not isinstance(future, str) and not future.done():
                    future.set_result(said("X"))
            self.settle(1.0)
            if not self.calls and not self.stays:
                break
        assert [item.state for item in (*self.calls, *self.stays)] == []
        assert {name: limit.in_use for name, limit in self.limits._by_name.items() if limit.in_use} == {}
        assert (self.mark.in_flight, self.capacity._waiting) == (0, {})


class CallProvider:
    """The model as one call sees it."""

    def __init__(self, machine: AdmissionMachine, call: Call) -> None:
        self._machine, self._call = machine, call

    async def send(self, _request):
        machine, call = self._machine, self._call
        assert not machine.holds_up(call.model), "sent while it was held"
        limit = machine.models[call.model].limit
        assert not limit.maximum or limit.in_use <= limit.maximum, "sent beyond its limit"
        call.state, call.was_sent = "sent", True
        in_flight = [other for other in machine.calls if other.was_sent and other.state != "over"]
        assert len(in_flight) <= machine.durable_mark, "sent beyond the mark"
        call.answer = asyncio.get_running_loop().create_future()
        return await call.answer


LIVELY = settings(
    deadline=None,
    max_examples=150,
    stateful_step_count=40,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_admission_never_lets_in_too_many_and_never_forgets_anybody():
    """Whatever comes, waits, is cancelled, held, limited anew and let go."""
    run_state_machine_as_test(AdmissionMachine, settings=LIVELY)


def test_a_limit_that_is_lowered_holds_for_calls_that_wait_for_the_mark():
    """They have a slot of their model and were not sent: they give it back, and are sent one at a time."""
    machine = AdmissionMachine()
    machine.begin()
    limit = machine.models["a"].limit.name
    machine.admission.set_limit(limit, None)
    for _ in range(FIRST_MARK + 4):
        machine.a_call_comes("a")
    assert len(machine.in_state("sent")) == FIRST_MARK
    machine.admission.set_limit(limit, 1)
    machine.a_mark_is_durable()
    assert len(machine.in_state("sent")) == FIRST_MARK
    machine.every_slot_is_counted_once()
    machine.nobody_waits_where_there_is_room()
    machine.teardown()


@pytest.mark.soak
def test_soak_admission_never_lets_in_too_many_and_never_forgets_anybody():
    """As above, many more and longer lives, different each time."""
    examples = int(os.environ.get("HOLDFAST_EXAMPLES", "2000"))
    soak = settings(LIVELY, max_examples=examples, stateful_step_count=80, derandomize=False, print_blob=True)
    run_state_machine_as_test(AdmissionMachine, settings=soak)
