"""Hooks and events, and what happens when a budget is wrong, changed or used up."""

import asyncio
import subprocess
import sys
import threading
from types import SimpleNamespace

import msgspec
import pytest

from holdfast.api.model_set import ModelSet
from holdfast.api.sample import sample
from holdfast.errors import ConfigurationError, UsageError
from holdfast.models.errors import RateLimited, Rejected
from holdfast.sampling.budget import SamplingBudget
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.events import CandidateEnded, LaneRepaired, SamplingEnded, SamplingStarted
from holdfast.sampling.hooks import Changes, SamplingHook
from holdfast.sampling.place import current_place
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.result import result_of
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.vote import Vote
from sampling.drawing import YES, Asks, Drawing, Says, run_sample

WRONG = [0, -1, 1.5, True, None, "2"]


@pytest.mark.parametrize("kind", [Rejection, Repair, MultiTurn, Vote, BestOfN])
@pytest.mark.parametrize("name", ["loop_budget", "concurrency_budget"])
@pytest.mark.parametrize("value", WRONG)
def test_a_wrong_budget_is_refused_where_it_is_set(kind, name, value):
    """Row 14: constructors."""
    with pytest.raises(ValueError, match=rf"^{name} is {value!r}; it must be a whole number, at least 1\.$"):
        kind(**{name: value})


@pytest.mark.parametrize("name", ["calls", "tokens", "cost", "time"])
@pytest.mark.parametrize("value", [0, -1, True, float("nan"), float("inf"), "x"])
def test_a_wrong_cap_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"^budget.{name} is "):
        SamplingBudget(**{name: value})


def test_other_wrong_options_are_refused():
    with pytest.raises(ValueError, match="There is no selection 'last'; there are first, deterministic, best"):
        Rejection(selection="last")
    with pytest.raises(ValueError, match="There is no vote by 'arms'"):
        Vote(by="arms")
    with pytest.raises(ValueError, match="Escalate needs the names"):
        Escalate(to="large")
    with pytest.raises(ValueError, match="Two requirements have the id 'yes'"):
        Rejection(requirements=[YES, YES])
    with pytest.raises(ValueError, match="Two requirements have the id 'yes'"):
        run_sample(Drawing(), requirements=[YES], strategy=Rejection(requirements=[YES]))


class Sets(SamplingHook):
    def __init__(self, **changes):
        self.changes = changes

    def start(self, _event):
        return Changes(**self.changes)


@pytest.mark.parametrize("name", ["loop_budget", "concurrency_budget"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_wrong_budget_of_a_hook_is_named(name, value):
    """Row 14; a start hook that returns a budget of 0."""
    model = Drawing()
    with pytest.raises(ValueError, match=rf"^{name}, set by the hook Sets, is {value!r}"):
        run_sample(model, strategy=Rejection(hooks=[Sets(**{name: value})]))
    assert model.order == []


def test_it_is_the_same_without_assertions():
    """Row 14: under python -O."""
    program = """
import asyncio, sys
from holdfast.sampling.strategies.repair import Rejection
from holdfast.sampling.hooks import Changes, SamplingHook
from holdfast.api.sample import sample
assert False, "not under -O"
class Sets(SamplingHook):
    def start(self, event):
        return Changes(loop_budget=0)
try:
    asyncio.run(sample("scripted/echo", "x", strategy=Rejection(hooks=[Sets()])))
except ValueError as error:
    print(error)
try:
    Rejection(loop_budget=True)
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "loop_budget, set by the hook Sets, is 0; it must be a whole number, at least 1.",
        "loop_budget is True; it must be a whole number, at least 1.",
    ]


def test_a_hook_may_set_budgets_up_to_the_ceiling():
    """Row 14: 10^6 is cut, and that is noted."""
    model = Drawing()
    result = run_sample(model, strategy=Rejection(loop_budget=2, hooks=[Sets(loop_budget=10**6)]))
    assert len(model.order) == 2
    assert result.notes == ["The hook Sets set loop_budget to 1000000; the ceiling of 2 applies."]
    model = Drawing()
    ceiling = Rejection(budget_ceiling=(3, 2), hooks=[Sets(loop_budget=3, concurrency_budget=2)])
    assert len(run_sample(model, strategy=ceiling).candidates) == 6
    model = Drawing()
    fewer = Rejection(loop_budget=5, concurrency_budget=5, hooks=[Sets(loop_budget=1, concurrency_budget=2)])
    assert run_sample(model, strategy=fewer).notes == []
    assert sorted(model.order) == [(0, 0), (1, 0)]


def test_a_hook_may_add_and_replace_requirements():
    """Row 17: they are enforced, and verdicts are paired by id."""
    hook = Sets(requirements=[Says(id="yes", word="no"), Says(id="more", word="!")])
    result = run_sample(Drawing({(0, 1): "no!"}), strategy=Rejection(loop_budget=3, hooks=[hook]))
    assert result.success and result.chosen.turn == 1
    assert [verdict.requirement for verdict in result.chosen.verdicts] == ["yes", "more"]
    first = result.candidates[0].verdicts
    assert [(one.requirement, one.is_passed) for one in first] == [("yes", True), ("more", False)]


def test_what_a_start_hook_returns_is_checked():
    class Odd(SamplingHook):
        def start(self, _event):
            return {"loop_budget": 2}

    with pytest.raises(TypeError, match="The start of the hook Odd returned dict, not Changes or None"):
        run_sample(Drawing(), strategy=Rejection(hooks=[Odd()]))


class Remembers(SamplingHook):
    def __init__(self):
        self.seen = []

    async def start(self, event):
        await asyncio.sleep(0)
        self.seen.append((event, current_place()))

    def candidate(self, event, candidate):
        assert event.candidate.lane == candidate.lane
        self.seen.append((event, current_place()))

    async def repair(self, event, messages):
        await asyncio.sleep(0)
        assert "Say 'yes'" in messages[-1].text
        self.seen.append((event, current_place()))

    def end(self, event, _result):
        self.seen.append((event, current_place()))

    def of(self, kind):
        return [event for event, _ in self.seen if isinstance(event, kind)]


def test_hooks_see_their_own_lane_and_turn():
    """Row 13; the iteration seen by a hook in lane A while lane B is elsewhere."""
    hook = Remembers()
    model = Drawing(rounds=lambda lane, _turn: 1 if lane else 9)
    run_sample(model, strategy=Repair(loop_budget=4, concurrency_budget=2, hooks=[hook]))
    for event, place in hook.seen:
        if isinstance(event, CandidateEnded):
            one = event.candidate
            assert (one.lane, one.turn, one.iteration) == (place.lane, place.turn, place.iteration)
            assert one.iteration == one.lane * 4 + one.turn
        elif isinstance(event, LaneRepaired):
            assert (event.lane, event.turn, event.iteration) == (place.lane, place.turn, place.iteration)
            assert event.failed == ("yes",)
    numbers = [event.sequence for event, _ in hook.seen]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    for lane in range(2):
        turns = [event.candidate.turn for event in hook.of(CandidateEnded) if event.candidate.lane == lane]
        assert turns == [0, 1, 2, 3]
    assert len(hook.of(LaneRepaired)) == 6


def test_the_start_event_has_the_worst_case():
    """Row 15: judges included, and the cap on cost."""

    class Judged(Says, frozen=True):
        calls = 2

    hook = Remembers()
    strategy = Repair(loop_budget=3, concurrency_budget=4, hooks=[hook], budget=SamplingBudget(cost=0.5))
    priced = {"provider": "scripted", "model": "x", "args": {"default": "yes"}, "price": {"input": 1, "output": 1}}
    run_sample(priced, requirements=[YES, Judged(id="judged")], strategy=strategy)
    (event,) = hook.of(SamplingStarted)
    assert (event.loop_budget, event.concurrency_budget, event.most_calls, event.most_cost) == (3, 4, 36, 0.5)
    hook = Remembers()
    capped = Repair(loop_budget=3, concurrency_budget=4, hooks=[hook], budget=SamplingBudget(calls=7))
    run_sample(Drawing(default="yes"), strategy=capped)
    assert hook.of(SamplingStarted)[0].most_calls == 7


def ended(hook):
    (event,) = hook.of(SamplingEnded)
    return event.started, event.completed, event.cancelled, event.errored, event.deepest_turn, event.success


def test_the_end_event_has_real_counts():
    """Row 16: after success, failure, error and cancellation. Row 29: there is exactly one of each, on every path."""
    hook = Remembers()
    model = Drawing({(1, 1): "yes"}, rounds={(0, 1): 50})
    run_sample(model, strategy=Repair(loop_budget=3, concurrency_budget=2, hooks=[hook]))
    assert ended(hook) == (4, 3, 1, 0, 1, True) and hook.of(SamplingEnded)[0].error is None

    hook = Remembers()
    run_sample(Drawing(), strategy=Repair(loop_budget=3, concurrency_budget=2, hooks=[hook]))
    assert ended(hook) == (6, 6, 0, 0, 2, False)

    hook = Remembers()
    with pytest.raises(Rejected):
        run_sample(Drawing(raised={(0, 1): Rejected("no")}), strategy=Repair(loop_budget=3, hooks=[hook]))
    assert ended(hook) == (2, 1, 0, 1, 1, False)
    assert hook.of(SamplingEnded)[0].error.message.startswith("no")

    hook = Remembers()
    strategy = Repair(loop_budget=3, concurrency_budget=2, hooks=[hook], budget=SamplingBudget(time=0.05))
    result = run_sample(Drawing(rounds=lambda _lane, turn: 10**9 if turn else 1), strategy=strategy)
    assert ended(hook) == (4, 2, 2, 0, 1, False) and result.capped == "time"


def test_the_end_event_after_a_cancellation():
    """Row 16."""
    hook = Remembers()

    async def limited():
        async with asyncio.timeout(0.05):
            await sample(Drawing(rounds=10**9), "x", strategy=Rejection(concurrency_budget=3, hooks=[hook]))

    with pytest.raises(TimeoutError):
        asyncio.run(limited())
    assert ended(hook) == (3, 0, 3, 0, 0, False)
    assert hook.of(SamplingEnded)[0].error.kind == "CancelledError"


def test_an_error_that_the_caller_is_handling_is_none_of_the_sampling():
    """Row 16."""
    hook = Remembers()

    async def handling():
        try:
            {}["of the caller"]
        except KeyError:
            return await sample(Drawing(default="yes"), "x", strategy=Rejection(hooks=[hook]))

    assert asyncio.run(handling()).success and hook.of(SamplingEnded)[0].error is None


def test_a_hook_that_raises_ends_the_sampling():
    class Breaks(SamplingHook):
        def candidate(self, event, _candidate):
            if event.candidate.lane == 0:
                raise KeyError("hook")

    model = Drawing({(1, 0): "yes"}, rounds={(1, 0): 50})
    with pytest.raises(KeyError, match="hook"):
        run_sample(model, strategy=Rejection(concurrency_budget=2, hooks=[Breaks()]))


def test_observers_get_the_events_and_cannot_harm():
    """Row 13 and 16: what observers see, in the order of each lane."""
    seen = []

    def breaks(_event):
        raise ValueError("observer")

    run_sample(Drawing(), strategy=Repair(loop_budget=2, concurrency_budget=2), observers=[seen.append, breaks])
    kinds = [type(event) for event in seen if type(event).__module__.startswith("holdfast.sampling")]
    assert kinds[0] is SamplingStarted and kinds[-1] is SamplingEnded
    assert kinds.count(CandidateEnded) == 4 and kinds.count(LaneRepaired) == 2


@pytest.mark.parametrize(
    ("budget", "calls", "cap"),
    [({"calls": 5}, 5, "calls"), ({"tokens": 61}, 6, "tokens"), ({"calls": 100, "tokens": 15}, 2, "tokens")],
)
def test_a_cap_ends_admission_and_says_so(budget, calls, cap):
    """Row 20: calls and tokens; calls that are running end by themselves."""
    model = Drawing(rounds=2)
    strategy = Rejection(loop_budget=9, concurrency_budget=2, budget=SamplingBudget(**budget))
    result = run_sample(model, strategy=strategy)
    assert len(model.order) == calls and result.capped == cap
    assert result.chosen is not None and not result.success
    assert result.stop_reason == f"capped: the budget of {cap} was reached; none of {calls} candidates is valid"
    assert result.counts == {CandidateStatus.INVALID: calls}


def test_a_cap_on_cost_counts_by_the_price():
    """Row 20: 10 tokens in and 5 out at 1 and 2 for a million."""
    model = {"provider": "scripted", "model": "echo", "price": {"input": 1.0, "output": 2.0}}
    strategy = Rejection(loop_budget=9, budget=SamplingBudget(cost=1e-5))
    result = run_sample(model, strategy=strategy)
    assert result.capped == "cost" and 1 < result.calls < 9


def test_a_cap_that_could_never_be_reached_is_refused_or_noted():
    """Row 20: cost without a price; tokens of replies that come without usage."""
    with pytest.raises(
        ConfigurationError, match=r"budget.cost needs a price for every model that is called, and model has"
    ):
        run_sample(Drawing(), strategy=Rejection(budget=SamplingBudget(cost=1.0)))

    class Silent(Drawing):
        async def send(self, request):
            return msgspec.structs.replace(await super().send(request), usage=None)

    result = run_sample(Silent(), strategy=Rejection(loop_budget=3, budget=SamplingBudget(tokens=1)))
    assert result.capped == "" and ["no usage data" in note for note in result.notes] == [True]


def test_a_judge_counts_in_the_cap():
    """Row 20 and 15: its calls are calls, and a candidate that could not be judged is no candidate."""

    class Judge(Says, frozen=True):
        is_quick = False
        calls = 1

        async def check_later(self, draft, checking):
            await checking.ask("model", draft.messages, {})
            return self.check(draft)

    strategy = Rejection(loop_budget=9, budget=SamplingBudget(calls=5))
    result = run_sample(Drawing(), requirements=[Judge(id="judge")], strategy=strategy)
    assert result.calls == 5 and result.capped == "calls"
    assert result.counts == {CandidateStatus.INVALID: 2, CandidateStatus.CANCELLED: 1}
    assert result.candidates[0].judging.input_tokens == 10


def test_a_rate_limit_does_not_use_up_a_turn():
    """Row 19, without a server: the call waits, and its turn goes on."""

    class Busy(Drawing):
        tries = 0

        async def send(self, request):
            Busy.tries += 1
            if Busy.tries <= 2:
                raise RateLimited("slow down", retry_after=0.01)
            return await super().send(request)

    result = run_sample(Busy({(0, 0): "yes"}), strategy=Rejection(loop_budget=1))
    assert result.success and Busy.tries == 3 and len(result.candidates) == 1


def test_requirements_are_checked_in_their_order_judges_last():
    """Row 23: the strategy's before the call's; both are applied."""
    checked = []

    def noting(name, passed):
        def check(_draft):
            checked.append(name)
            return Verdict(name, VerdictKind.PASSED if passed else VerdictKind.FAILED)

        return check

    class Judged(Asks, frozen=True):
        calls = 1

    own = [Judged(id="judge", function=noting("judge", True)), Asks(id="own", function=noting("own", False))]
    given = [Asks(id="given", function=noting("given", True))]
    result = run_sample(Drawing(), requirements=given, strategy=Rejection(requirements=own))
    assert checked == ["own", "given", "judge"]
    assert [verdict.requirement for verdict in result.chosen.verdicts] == checked
    checked.clear()
    run_sample(Drawing(), requirements=given, strategy=Rejection(requirements=own, short_circuit=True))
    assert checked == ["own"]


def test_plain_validators_do_not_hold_up_other_lanes():
    """Row 24: eight lanes are in the validator at once; were they serialised, the barrier would break."""
    barrier = threading.Barrier(8, timeout=30)

    def check(_draft):
        barrier.wait()
        return Verdict("b", VerdictKind.PASSED)

    result = run_sample(
        Drawing(),
        requirements=[Asks(id="b", function=check)],
        strategy=Rejection(concurrency_budget=8, selection="best"),
    )
    assert result.counts == {CandidateStatus.VALID: 8}


def test_what_is_only_checked_is_not_told_to_the_model():
    """`check_only`."""
    hidden = Says(id="hidden", word="secret", check_only=True)
    model = Drawing()
    run_sample(model, requirements=[YES, hidden], strategy=Repair(loop_budget=2))
    asked = model.requests[0, 1].messages[-1].text
    assert "Say 'yes'" in asked and "secret" not in asked
    model = Drawing(default="yes")
    run_sample(model, requirements=[hidden], strategy=Repair(loop_budget=2))
    assert model.requests[0, 1].messages == model.requests[0, 0].messages


def test_a_repair_that_returns_something_else_is_named():
    class Odd(Rejection):
        def repair(self, _messages, _candidates):
            return "again"

    with pytest.raises(TypeError, match=r"Odd.repair returned str, not a list of messages\."):
        run_sample(Drawing(), strategy=Odd(loop_budget=2))


class FailsAtStart(SamplingHook):
    def start(self, _event):
        raise KeyError("start")


def test_whoever_was_told_of_the_start_is_told_of_the_end():
    """Row 16: a later hook fails, or a model does not exist; observers hear of neither start nor end."""
    first, seen = Remembers(), []
    with pytest.raises(KeyError):
        run_sample(Drawing(), strategy=Rejection(hooks=[first, FailsAtStart()]), observers=[seen.append])
    assert [type(event) for event, _ in first.seen] == [SamplingStarted, SamplingEnded] and seen == []
    first = Remembers()
    with pytest.raises(UsageError, match="There is no model 'large'"):
        run_sample(Drawing(), strategy=Escalate(to=["large"], loop_budget=3, hooks=[first]), observers=[seen.append])
    assert [type(event) for event, _ in first.seen] == [SamplingStarted, SamplingEnded] and seen == []


def test_a_second_cancellation_leaves_the_counts_as_they_are():
    """Row 16 and 3: five calls were sent and ended, however often it was cancelled."""
    seen, model = [], Drawing(rounds=10**9)

    async def cancelled_twice():
        work = sample(model, "x", strategy=Rejection(concurrency_budget=5), observers=[seen.append])
        task = asyncio.create_task(work)
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    error = asyncio.run(cancelled_twice())
    end = seen[-1]
    assert (end.started, end.cancelled, end.deepest_turn, end.stop_reason) == (5, 5, 0, "cancelled")
    assert sum(isinstance(event, CandidateEnded) for event in seen) == 5
    assert result_of(error).counts == {CandidateStatus.CANCELLED: 5}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"strategy": "repair"}, TypeError, "The strategy is 'repair'; give a strategy"),
        ({"strategy": Repair}, TypeError, "The strategy is the class Repair"),
        ({"seed": "x"}, ValueError, "seed is 'x'"),
        ({"models": {"model": "scripted/echo"}}, UsageError, "No other model can be called 'model'"),
        ({"observers": [3]}, TypeError, "3 is not an observer"),
    ],
)
def test_wrong_arguments_are_named(options, error, text):
    with pytest.raises(error, match=text):
        run_sample(Drawing(), **options)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"budget": {"calls": 2}}, TypeError, "The budget is {'calls': 2}; give a budget"),
        ({"hooks": [3]}, TypeError, "3 is not a hook"),
        ({"budget_ceiling": (4,)}, ValueError, r"budget_ceiling is \(4,\)"),
        ({"budget_ceiling": 5}, ValueError, "budget_ceiling is 5"),
        ({"budget_ceiling": (0, 1)}, ValueError, "budget_ceiling is 0"),
    ],
)
def test_wrong_options_of_a_strategy_are_named(options, error, text):
    with pytest.raises(error, match=text):
        Rejection(**options)


def test_a_plain_function_is_a_requirement_wherever_one_is_taken():
    def is_short(text):
        return len(text) < 3

    assert run_sample(Drawing(), requirements=[], strategy=BestOfN(scorer=is_short)).chosen.score == 1.0
    result = run_sample(Drawing(), requirements=[], strategy=Rejection(hooks=[Sets(requirements=[is_short])]))
    assert [verdict.requirement for verdict in result.chosen.verdicts] == ["is_short"]


def test_an_empty_set_of_models_is_refused():
    async def empty():
        ModelSet({})

    with pytest.raises(UsageError, match="at least one"):
        asyncio.run(empty())


def test_a_set_of_models_brings_its_own():
    """What is given beside it would be ignored."""

    async def both():
        async with ModelSet({"one": Drawing()}) as models:
            await sample(models, "x", models={"other": Drawing()})

    with pytest.raises(UsageError, match="brings its own models and observers"):
        asyncio.run(both())


def test_models_that_were_opened_are_closed_if_another_cannot_be(monkeypatch):
    closed = []
    opened = SimpleNamespace(send=None, close=None)

    async def close():
        closed.append(True)

    opened.close = close

    def open_some(spec):
        if spec.model == "broken":
            raise ConfigurationError("It cannot be opened.")
        return opened

    monkeypatch.setattr("holdfast.api.model_set.open_provider", open_some)

    async def both():
        async with ModelSet({"one": "scripted/echo", "two": "scripted/broken"}):
            pass

    with pytest.raises(ConfigurationError, match="cannot be opened"):
        asyncio.run(both())
    assert closed == [True]
