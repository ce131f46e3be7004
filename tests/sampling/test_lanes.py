"""Lanes and turns: how many candidates there are, which is chosen, and what becomes of the others."""

import asyncio
import random
from itertools import product

import msgspec
import pytest

from holdfast.api.sample import sample
from holdfast.errors import ToolCallReply
from holdfast.models.content import ToolCall
from holdfast.models.errors import Blocked, Rejected
from holdfast.models.redaction import read_key
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.place import current_place
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.result import result_of
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.vote import Vote
from sampling.drawing import YES, Asks, Drawing, Says, run, run_sample

STRATEGIES = [Rejection, Repair, MultiTurn]


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize(("loops", "lanes"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_every_candidate_is_asked_for_where_none_is_valid(kind, loops, lanes):
    """Row 1."""
    model = Drawing()
    result = run_sample(model, strategy=kind(loop_budget=loops, concurrency_budget=lanes))
    assert not result.success
    assert sorted(model.order) == sorted(product(range(lanes), range(loops)))
    assert [(one.turn, one.lane) for one in result.candidates] == sorted(product(range(loops), range(lanes)))
    assert {one.status for one in result.candidates} == {CandidateStatus.INVALID}
    assert len({one.iteration for one in result.candidates}) == loops * lanes
    assert {one.iteration for one in result.candidates} == set(range(loops * lanes))
    assert model.most_in_flight == lanes
    assert result.calls == loops * lanes


def test_each_lane_is_repaired_from_its_own_last_candidate():
    """Row 1: as many repairs in a lane as it has turns but one."""
    model = Drawing(lambda lane, turn: f"{lane}.{turn}")
    run_sample(model, strategy=MultiTurn(loop_budget=3, concurrency_budget=2))
    for lane, turn in product(range(2), range(3)):
        said = [message.text for message in model.requests[lane, turn].messages if message.role == "assistant"]
        assert said == [f"{lane}.{earlier}" for earlier in range(turn)]


def test_after_the_first_success_nothing_more_is_asked():
    """Row 2."""
    model = Drawing({(2, 1): "yes"}, rounds={(2, 1): 1, (0, 1): 50, (1, 1): 50, (3, 1): 50})
    result = run_sample(model, strategy=Rejection(loop_budget=5, concurrency_budget=4))
    assert (result.chosen.lane, result.chosen.turn) == (2, 1)
    assert result.reason == "the first valid candidate to arrive"
    assert max(turn for _, turn in model.order) == 1
    assert model.cancelled == 3 and model.in_flight == 0
    assert result.counts == {CandidateStatus.INVALID: 4, CandidateStatus.VALID: 1, CandidateStatus.CANCELLED: 3}


def test_a_lane_that_waits_for_its_slot_sends_nothing_after_the_success():
    """Row 2: a limit of one call at a time keeps the others waiting when the success is known."""
    model = Drawing({(0, 0): "yes"}, rounds=3)
    model.concurrency_limit = 1
    result = run_sample(model, strategy=Rejection(loop_budget=2, concurrency_budget=6))
    assert result.success and model.order == [(0, 0)]
    assert result.counts[CandidateStatus.CANCELLED] == 5


def test_a_cancelled_sampling_leaves_nothing_behind():
    """Row 3, without a server: an outer cancellation ends every lane before it gets through."""
    model = Drawing(rounds=10**6)

    async def cancelled():
        task = asyncio.create_task(sample(model, "x", requirements=[YES], strategy=Rejection(concurrency_budget=4)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert model.in_flight == 4
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.in_flight == 0 and model.cancelled == 4

    run(cancelled())


def test_a_second_cancellation_does_not_leave_lanes_behind():
    """Row 3: whoever cancels twice waits all the same."""
    ended = []

    async def slow_to_end(_draft):
        try:
            await asyncio.sleep(3600)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append(current_place().lane)

    async def cancelled():
        work = sample(
            Drawing(),
            "x",
            requirements=[Asks(id="slow", function=slow_to_end)],
            strategy=Rejection(concurrency_budget=3),
        )
        task = asyncio.create_task(work)
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(ended) == [0, 1, 2]

    run(cancelled())


class OddError(Exception):
    """An error of nobody's."""


@pytest.mark.parametrize("lanes", [1, 3])
def test_if_all_lanes_raise_the_first_error_itself_is_raised(lanes):
    """Row 4; a backend's exception with one lane."""
    raised = {(lane, 0): OddError(f"lane {lane} is odd") for lane in range(lanes)}
    with pytest.raises(OddError) as caught:
        run_sample(Drawing(raised=raised), strategy=Rejection(loop_budget=2, concurrency_budget=lanes))
    assert caught.value is raised[0, 0] and str(caught.value) == "lane 0 is odd"
    notes = getattr(caught.value, "__notes__", [])
    assert len(notes) == lanes - 1
    assert all(f"lane {lane} is odd" in note for lane, note in zip(range(1, lanes), notes, strict=True))
    assert "budget" not in "".join(notes) and "index" not in "".join(notes)
    assert result_of(caught.value).counts == {CandidateStatus.ERROR: lanes}


def test_an_error_after_an_invalid_candidate_is_raised_with_the_candidates():
    """Row 5."""
    model = Drawing(raised={(0, 1): Rejected("too long")})
    with pytest.raises(Rejected, match="too long") as caught:
        run_sample(model, strategy=Repair(loop_budget=3))
    statuses = [one.status for one in result_of(caught.value).candidates]
    assert statuses == [CandidateStatus.INVALID, CandidateStatus.ERROR]


def test_an_error_beside_a_success_is_on_record_and_told_once(caplog):
    """Row 6; a sibling's error beside a success."""
    model = Drawing({(1, 1): "yes"}, raised={(0, 0): OddError("broken")})
    result = run_sample(model, strategy=Rejection(loop_budget=2, concurrency_budget=2))
    assert result.success and result.chosen.lane == 1
    (failed,) = [one for one in result.candidates if one.status is CandidateStatus.ERROR]
    assert failed.lane == 0 and "OddError: broken" in failed.failure.traceback
    assert [record.getMessage() for record in caplog.records] == ["lane 0 failed at turn 0: OddError: broken"]


def test_an_error_beside_invalid_candidates_is_a_failure_that_names_both():
    """Row 7."""
    result = run_sample(
        Drawing(raised={(0, 1): OddError("broken")}), strategy=Rejection(loop_budget=2, concurrency_budget=2)
    )
    assert not result.success and result.chosen.status is CandidateStatus.INVALID
    assert result.stop_reason == "none of 3 candidates is valid; lane 0 failed at turn 1: OddError: broken"


def test_a_blocked_lane_blocks_all():
    """Row 8, also where a sibling would have been valid."""
    model = Drawing({(1, 0): "yes"}, raised={(0, 0): Blocked("policy")}, rounds={(1, 0): 50})
    with pytest.raises(Blocked) as caught:
        run_sample(model, strategy=Rejection(concurrency_budget=2))
    statuses = {one.status for one in result_of(caught.value).candidates}
    assert statuses == {CandidateStatus.BLOCKED, CandidateStatus.CANCELLED} and model.in_flight == 0


def test_a_validator_that_raises_is_neither_a_model_error_nor_unmet():
    """Row 9."""

    def broken(_draft):
        raise OddError("the check is broken")

    with pytest.raises(OddError) as caught:
        run_sample(Drawing(), requirements=[YES, Asks(id="mine", function=broken)], strategy=Rejection(loop_budget=3))
    assert any("'mine' could not be checked" in note for note in caught.value.__notes__)
    (candidate,) = result_of(caught.value).candidates
    assert candidate.reply is not None and candidate.status is CandidateStatus.ERROR
    assert [(one.requirement, one.kind) for one in candidate.verdicts] == [
        ("yes", VerdictKind.FAILED),
        ("mine", VerdictKind.ERROR),
    ]


def test_an_async_validator_is_awaited_and_a_wrong_type_is_named():
    """Row 10."""

    async def agreeing(draft):
        await asyncio.sleep(0)
        return Verdict("any", VerdictKind.FAILED, f"not {draft.text}")

    result = run_sample(Drawing(), requirements=[Asks(id="async", function=agreeing)])
    assert [(one.requirement, one.reason) for one in result.chosen.verdicts] == [("async", "not no")]
    with pytest.raises(TypeError, match=r"The requirement 'wrong' returned int, not a verdict\."):
        run_sample(Drawing(), requirements=[Asks(id="wrong", function=lambda _draft: 3)])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", STRATEGIES)
def test_deterministic_selection_does_not_depend_on_timing(kind, seed):
    """Row 11: the same winner, the same order and the same prompts, whatever the jitter."""
    print("seed", seed)
    valid = {(3, 1), (1, 2), (2, 1), (0, 3)}
    jitter = random.Random(seed)
    model = Drawing(
        lambda lane, turn: f"{'yes' if (lane, turn) in valid else 'no'} {lane}.{turn}",
        rounds=lambda _lane, _turn: jitter.randrange(1, 30),
    )
    result = run_sample(model, strategy=kind(loop_budget=4, concurrency_budget=4, selection="deterministic"))
    assert (result.chosen.turn, result.chosen.lane) == (1, 2)
    asked = {at: request for at, request in model.requests.items() if (at[1], at[0]) <= (1, 2)}
    still = Drawing(lambda lane, turn: f"{'yes' if (lane, turn) in valid else 'no'} {lane}.{turn}")
    run_sample(still, strategy=kind(loop_budget=4, concurrency_budget=4, selection="deterministic"))
    assert asked == {at: request for at, request in still.requests.items() if (at[1], at[0]) <= (1, 2)}
    assert len(asked) == 7
    order = [(one.turn, one.lane) for one in result.candidates]
    assert order == sorted(order)


def test_multi_turn_takes_the_deepest_turn_and_not_the_last_to_arrive():
    """Row 12; multi-turn exhausted with several lanes: lane 1 ends first and deep, lane 0 fails late at turn 1."""
    model = Drawing(
        rounds=lambda lane, _turn: 40 if lane == 0 else 1,
        raised={(0, 2): OddError("late")},
        said=lambda lane, _turn: f"{lane}",
    )
    result = run_sample(model, strategy=MultiTurn(loop_budget=3, concurrency_budget=3))
    assert (result.chosen.turn, result.chosen.lane) == (2, 1)
    assert max(result.candidates, key=lambda one: one.arrival).lane == 0


def test_failure_takes_what_meets_most_then_the_deeper_turn_then_the_lower_lane():
    """The table: rejection and repair on failure."""
    two = [Says(id="a", word="a"), Says(id="b", word="b")]
    said = {(2, 0): "a", (1, 1): "b", (0, 1): "a"}
    result = run_sample(Drawing(said), requirements=two, strategy=Rejection(loop_budget=2, concurrency_budget=3))
    assert (result.chosen.lane, result.chosen.turn) == (0, 1)
    assert result.reason == "no candidate is valid; this one meets 1 of 2 requirements"


def test_best_lets_every_lane_run_and_takes_the_highest_score():
    """Selection `best`; a lane ends with its own valid candidate."""
    scores = {"yes 0": 0.2, "yes 1": 0.9, "yes 2": 0.5}

    def scored(draft):
        return Verdict("s", VerdictKind.PASSED, score=scores[draft.text])

    model = Drawing(lambda lane, _turn: f"yes {lane}", rounds=lambda lane, _turn: 1 if lane == 0 else 20)
    requirements = [Asks(id="s", function=scored)]
    result = run_sample(
        model, requirements=requirements, strategy=Rejection(loop_budget=2, concurrency_budget=3, selection="best")
    )
    assert result.chosen.lane == 1 and len(model.order) == 3
    assert result.reason == "the highest score of 3 valid candidates: 0.9"


def test_best_of_n_draws_all_and_takes_the_highest_score():
    """The table: best-of-n, on success and on failure."""

    def longest(draft):
        return Verdict("long", VerdictKind.PASSED, score=len(draft.text) / 100)

    scorer = Asks(id="long", function=longest)
    model = Drawing(lambda lane, turn: "x" * (10 * turn + lane + 1))
    result = run_sample(model, requirements=[], strategy=BestOfN(scorer=scorer, loop_budget=3, concurrency_budget=2))
    assert len(model.order) == 6 and (result.chosen.turn, result.chosen.lane) == (2, 1) and result.success
    result = run_sample(model, strategy=BestOfN(scorer=scorer, loop_budget=3, concurrency_budget=2))
    assert not result.success and (result.chosen.turn, result.chosen.lane) == (2, 1)


def test_votes_of_valid_answers_only_are_counted():
    """Row 21: invalid ones and an error do not vote."""
    said = {(0, 0): "yes A", (1, 0): "no", (1, 1): "yes b", (2, 0): "yes a ", (3, 0): "no", (3, 1): "no"}
    model = Drawing(said, raised={(4, 0): OddError("x")}, rounds=3)
    result = run_sample(model, strategy=Vote(loop_budget=2, concurrency_budget=5))
    assert result.votes == {"yes a": 2, "yes b": 1} and result.text == "yes A"
    assert result.reason == "2 of 3 valid answers agree"
    assert result.counts[CandidateStatus.ERROR] == 1 and result.counts[CandidateStatus.INVALID] == 3


def test_a_vote_ends_once_it_is_settled():
    """Row 21."""
    model = Drawing(default="yes", rounds=lambda lane, _turn: 1 if lane < 3 else 10**6)
    result = run_sample(model, strategy=Vote(concurrency_budget=5))
    assert result.votes == {"yes": 3} and model.cancelled == 2
    tied = Drawing(lambda lane, _turn: f"yes {lane % 2}", rounds=lambda lane, _turn: 3 - lane % 2)
    result = run_sample(tied, strategy=Vote(concurrency_budget=4))
    assert result.votes == {"yes 0": 2, "yes 1": 2} and result.chosen.lane == 0 and "tied" in result.reason


@pytest.mark.parametrize("seed", range(20))
def test_a_deterministic_vote_waits_for_the_earlier_member(seed):
    """Row 11 for votes: the class is settled, and so is who stands for it."""
    print("seed", seed)
    jitter = random.Random(seed)
    model = Drawing(
        lambda lane, _turn: "yes A" if lane in {1, 2, 4} else "yes B",
        rounds=lambda _lane, _turn: jitter.randrange(1, 40),
    )
    result = run_sample(model, strategy=Vote(concurrency_budget=5, selection="deterministic"))
    assert (result.chosen.lane, result.text) == (1, "yes A")


def test_a_vote_without_a_valid_answer_chooses_nothing():
    """The table: unscored, votes kept."""
    result = run_sample(Drawing(), strategy=Vote(loop_budget=2, concurrency_budget=2))
    assert result.chosen is None and not result.success and result.votes == {}
    assert result.as_answer().unscored == "none of 4 candidates is valid"
    with pytest.raises(ValueError, match="No candidate was chosen"):
        _ = result.text


def test_a_vote_by_similarity_takes_the_most_typical_answer():
    said = ["the cat sat on the mat", "the cat sat on a mat", "some dogs ran", "the cat sat on the mat today"]
    model = Drawing(lambda lane, _turn: said[lane])
    result = run_sample(model, requirements=[], strategy=Vote(by="similarity", concurrency_budget=4))
    assert result.text == said[0] and len(model.order) == 4


def test_a_vote_goes_by_what_is_extracted():
    said = ["I say: answer 4", "Surely: answer 5", "so answer 4!"]
    model = Drawing(lambda lane, _turn: said[lane])
    result = run_sample(model, requirements=[], strategy=Vote(extract=r"answer (\d+)", concurrency_budget=3))
    assert result.votes == {"4": 2, "5": 1} and result.chosen.lane == 0


def test_escalation_follows_two_equal_failures():
    """The table: a stronger model when the cheap one stands still."""
    asked = []

    class Named(Drawing):
        def __init__(self, name, said):
            super().__init__(said)
            self.name = name

        async def send(self, request):
            asked.append((self.name, current_place().turn))
            return await super().send(request)

    two = [Says(id="a", word="a"), Says(id="b", word="b")]
    small, large = Named("small", {(0, 1): "a", (0, 2): "a"}), Named("large", {(0, 4): "a b"})
    result = run_sample(
        small, models={"large": large}, requirements=two, strategy=Escalate(to=["large"], loop_budget=6)
    )
    # Turn 0 fails a and b, turns 1 and 2 fail b alone: from turn 3 on the other model is asked.
    assert asked == [("small", 0), ("small", 1), ("small", 2), ("large", 3), ("large", 4)]
    assert result.success and result.chosen.model == "large"


def test_each_sees_its_own_lane_and_turn():
    """Row 13: validators and model calls, while one lane is far ahead of the other."""
    seen = []

    def check(draft):
        place = current_place()
        seen.append((place.lane, place.turn, draft.place == place, draft.text))
        return Verdict("s", VerdictKind.FAILED, "no")

    model = Drawing(lambda lane, turn: f"{lane}.{turn}", rounds=lambda lane, _turn: 1 if lane else 9)
    run_sample(
        model, requirements=[Asks(id="s", function=check)], strategy=Rejection(loop_budget=8, concurrency_budget=2)
    )
    assert len(seen) == 16 and all(is_own and text == f"{lane}.{turn}" for lane, turn, is_own, text in seen)
    assert current_place() is None


def test_validators_receive_exactly_the_context():
    """Row 18."""
    context, seen = object(), []

    def check(draft):
        seen.append(draft.context)
        return Verdict("s", VerdictKind.PASSED)

    run_sample(Drawing(), requirements=[Asks(id="s", function=check)], validation_context=context)
    assert seen == [context] and seen[0] is context


def test_seeds_differ_by_place_and_are_the_same_every_time():
    """Row 25."""
    first, second, other = Drawing(), Drawing(), Drawing()
    strategy = Rejection(loop_budget=3, concurrency_budget=4)
    result = run_sample(first, strategy=strategy)
    run_sample(second, strategy=strategy)
    run_sample(other, strategy=strategy, seed=1)
    seeds = {at: request.generation.seed for at, request in first.requests.items()}
    assert len(set(seeds.values())) == 12
    assert seeds == {at: request.generation.seed for at, request in second.requests.items()}
    assert not set(seeds.values()) & {request.generation.seed for request in other.requests.values()}
    assert {(one.lane, one.turn): one.place.seed for one in result.candidates} == seeds


def test_usage_of_losers_is_counted():
    """Row 26."""
    result = run_sample(Drawing({(1, 1): "yes"}), strategy=Rejection(loop_budget=2, concurrency_budget=2))
    assert result.usage.input_tokens == 10 * sum(one.reply is not None for one in result.candidates)
    assert result.wasted.input_tokens == result.usage.input_tokens - 10


class TooFar(Rejection):
    def __init__(self, index, **options):
        super().__init__(**options)
        self.index = index

    def select_from_failure(self, _candidates):
        return self.index


@pytest.mark.parametrize("index", [2, -1, True, None, 0.5])
def test_an_index_out_of_range_is_named(index):
    """An out-of-range choice by a subclass."""
    with pytest.raises(ValueError, match=rf"TooFar.select_from_failure chose {index!r}; there are candidates 0 to 1"):
        run_sample(Drawing(), strategy=TooFar(index, loop_budget=2))


def test_the_order_of_errors_and_a_cancelled_call_of_its_own():
    """A provider whose code cancels its own task is an error, and never a lane that vanished."""

    class Cancels(Drawing):
        async def send(self, _request):
            raise asyncio.CancelledError

    for lanes in (1, 2):
        with pytest.raises(RuntimeError, match="cancelled its own task"):
            run_sample(Cancels(), strategy=Rejection(concurrency_budget=lanes))


def test_a_scorer_that_cannot_decide_gives_no_score():
    """Its verdict is kept, the candidate is not valid, and one that has a score comes first, however low."""

    def scored(draft):
        kind = VerdictKind.ERROR if draft.text == "best" else VerdictKind.PASSED
        return Verdict("s", kind, "unreadable", score=None if draft.text == "best" else 0.01)

    model = Drawing(lambda lane, _turn: "best" if lane == 0 else "worse")
    strategy = BestOfN(scorer=Asks(id="s", function=scored), concurrency_budget=2)
    result = run_sample(model, requirements=[], strategy=strategy)
    assert (result.text, result.chosen.score) == ("worse", 0.01)
    assert (result.candidates[0].score, result.candidates[0].verdicts[0].kind) == (None, VerdictKind.ERROR)
    undecided = Drawing(default="best")
    result = run_sample(undecided, requirements=[], strategy=strategy)
    assert not result.success and {one.score for one in result.candidates} == {None}


def test_without_scores_none_is_claimed():
    result = run_sample(Drawing(), requirements=[], strategy=BestOfN(concurrency_budget=2))
    assert result.reason == "no candidate has a score: the first by turn and lane of 2 valid ones"


def test_a_reply_without_a_text_is_an_error_of_the_model_and_of_no_requirement():
    """Row 9."""

    class Calling(Drawing):
        async def send(self, request):
            reply = await super().send(request)
            return msgspec.structs.replace(reply, content="", tool_calls=(ToolCall("1", "look", "{}"),))

    with pytest.raises(ToolCallReply) as caught:
        run_sample(Calling())
    (candidate,) = result_of(caught.value).candidates
    assert candidate.verdicts == () and candidate.text == "" and candidate.reply is not None
    assert not getattr(caught.value, "__notes__", [])


def test_a_scorer_that_raises_is_named():
    def broken(_draft):
        raise OddError("broken")

    with pytest.raises(OddError) as caught:
        run_sample(Drawing(), requirements=[], strategy=BestOfN(scorer=Asks(id="s", function=broken)))
    assert caught.value.__notes__ == ["In lane 0, turn 0, the scorer of the strategy failed."]


def test_multi_turn_says_nothing_where_there_is_nothing_to_tell():
    """Only what is hidden failed: the same is asked again."""
    model = Drawing()
    run_sample(model, requirements=[Says(id="s", check_only=True)], strategy=MultiTurn(loop_budget=3))
    assert {request.messages for request in model.requests.values()} == {model.requests[0, 0].messages}


def test_an_empty_repair_is_refused():
    class Empty(Rejection):
        def repair(self, _messages, _candidates):
            return []

    with pytest.raises(TypeError, match=r"Empty.repair returned no message at all\."):
        run_sample(Drawing(), strategy=Empty(loop_budget=2))


def test_escalation_needs_three_turns():
    with pytest.raises(ValueError, match="loop_budget is 2; Escalate needs 3 turns"):
        Escalate(to=["large"], loop_budget=2)


def test_calls_that_were_never_sent_are_not_counted():
    """A limit of one: when the first is valid, the others are still waiting."""
    model = Drawing({(0, 0): "yes"}, rounds=3)
    model.concurrency_limit = 1
    result = run_sample(model, strategy=Rejection(concurrency_budget=5))
    assert result.calls == len(model.order) == 1


def test_every_sampling_draws_anew_unless_it_is_given_a_seed():
    def seeds(**options):
        model = Drawing()
        run(sample(model, "x", **options))
        return model.requests[0, 0].generation.seed

    assert seeds() != seeds() and seeds(seed=5) == seeds(seed=5)


def test_a_cleanup_of_a_lane_is_not_cancelled():
    """Whoever is given up by a sibling's success is cancelled once."""
    ended = []

    async def slow_to_end(draft):
        if draft.place.lane == 0:
            for _ in range(5):
                await asyncio.sleep(0)
            return Verdict("s", VerdictKind.PASSED)
        try:
            await asyncio.sleep(3600)
        finally:
            for _ in range(9):
                await asyncio.sleep(0)
            ended.append(draft.place.lane)

    run_sample(Drawing(), requirements=[Asks(id="s", function=slow_to_end)], strategy=Rejection(concurrency_budget=4))
    assert sorted(ended) == [1, 2, 3]


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_place_is_that_of_the_lane_and_of_nothing_after_it(lanes):
    async def asked():
        await sample(Drawing(), "x", requirements=[YES], strategy=Rejection(loop_budget=2, concurrency_budget=lanes))
        return current_place()

    assert asyncio.run(asked()) is None


def test_a_cancelled_lane_that_is_alone_is_recorded():
    """Row 3 for one lane, which has no task of its own."""

    async def cancelled():
        task = asyncio.create_task(sample(Drawing(rounds=10**9), "x", strategy=Rejection(loop_budget=2)))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return result_of(caught.value)

    assert run(cancelled()).counts == {CandidateStatus.CANCELLED: 1}


class UnspeakableError(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


def test_what_is_noted_of_an_error_has_no_secret_and_never_fails(monkeypatch):
    """A key in the error of a requirement is in no note, reason or record; an error may be without a text."""
    monkeypatch.setenv("OWN_KEY", "sk-0123456789abcdef")
    assert read_key("m", "OWN_KEY") == "sk-0123456789abcdef"

    def leaking(draft):
        if draft.place.lane == 0:
            raise OddError("refused: sk-0123456789abcdef")
        return Verdict("s", VerdictKind.FAILED, "no")

    result = run_sample(
        Drawing(), requirements=[Asks(id="s", function=leaking)], strategy=Rejection(concurrency_budget=2)
    )
    told = repr((result.notes, result.stop_reason, [one.record() for one in result.candidates]))
    assert "0123456789abcdef" not in told and "refused: [OWN_KEY]" in result.stop_reason
    raised = {(0, 0): UnspeakableError(), (1, 0): UnspeakableError()}
    with pytest.raises(UnspeakableError):
        run_sample(Drawing(raised=raised), strategy=Rejection(concurrency_budget=2))
