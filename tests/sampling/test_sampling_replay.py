"""Samplings that are cut short and go on: row 22, and what row 26 and 28 say of it."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from engine.rig import Rig
from holdfast.models.errors import Unavailable
from holdfast.models.message import Message, Usage
from holdfast.run.core.records import Status, StepRecord
from holdfast.sampling.budget import SamplingBudget
from holdfast.sampling.events import CandidateEnded
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from sampling.drawing import YES, Says
from sampling.lanes import Judge, LaneModel, candidates, choice, end, quick_disk, sampling_rig, steps_named, unretried
from sampling.test_sampling_in_trials import Judged, folded

__all__ = ["quick_disk"]
LANES, TURNS = 3, 4


def draw(request) -> str:
    """A reply that follows from the request's seed."""
    return f"no {random.Random(request.generation.seed).randrange(10**6)}"


class SeededModel(LaneModel):
    """Draws by the request's seed, and takes a time that depends on the seed and on the session."""

    def __init__(self, replies=None, session: int = 0) -> None:
        super().__init__(replies, default=draw)
        self.session = session
        self.by_seed: dict[int, int] = {}

    async def send(self, request):
        seed = request.generation.seed
        self.by_seed[seed] = self.by_seed.get(seed, 0) + 1
        await asyncio.sleep(random.Random(f"{seed}/{self.session}").uniform(0.0, 2.0))
        return await super().send(request)


def outcome(rig: Rig) -> bytes:
    """The last end of the trial, without what tells of sessions and of time."""
    last = msgspec.structs.replace(end(rig), at=0.0, seconds=0.0, calls=0, replayed=0, tries=0)
    return msgspec.json.encode(last)


def grid_rig(root, model, strategy=None, **fields) -> Rig:
    return sampling_rig(root, model, strategy or Rejection(loop_budget=TURNS, concurrency_budget=LANES), **fields)


def kill_moments(root, make) -> list[float]:
    """Just after each candidate of an undisturbed run has ended, and just before."""
    rig = make(root)
    moments: list[float] = []
    loops = []

    def note(event) -> None:
        if isinstance(event, CandidateEnded):
            moments.append(asyncio.get_running_loop().time())

    rig.at = {0.0: lambda _: loops.append(asyncio.get_running_loop().time())}
    rig.observers = [note]
    rig.session()
    return sorted({moment - loops[0] + delta for moment in moments for delta in (-0.001, 0.001)})


@pytest.mark.parametrize("kind", [Rejection, Repair, MultiTurn])
def test_sampling_22_killed_at_every_candidate_boundary(tmp_path, kind):
    """3 x 4 candidates, none of them valid: the end is the same after every kill, and no reply is paid for twice."""

    def make(root, session=0):
        strategy = kind(loop_budget=TURNS, concurrency_budget=LANES, selection="deterministic")
        return grid_rig(root, SeededModel(session=session), strategy)

    clean = make(tmp_path / "clean")
    clean.session()
    assert sum(end(clean).samplings[0].candidates.values()) == LANES * TURNS
    moments = kill_moments(tmp_path / "timed", make)
    assert len(moments) >= LANES * TURNS
    for number, moment in enumerate(moments):
        rig = make(tmp_path / f"r{number}")
        rig.killed_session(moment)
        first = rig.actors["m"]
        second = SeededModel(session=1)
        rig.actors["m"] = second
        assert rig.session().ended.exit_code == 0
        assert outcome(rig) == outcome(clean), moment
        repeated = set(first.by_seed) & set(second.by_seed)
        assert len(repeated) <= LANES, "only those that were in flight"
        assert set(first.by_seed.values()) | set(second.by_seed.values()) <= {1}
        assert len({*first.by_seed, *second.by_seed}) == LANES * TURNS
        assert {kind: calls for _, _, kind, calls, _ in rig.ledger()} == (
            {"interrupted": len(repeated)} if repeated else {}
        )
    folded(rig)


def test_sampling_22_a_deterministic_choice_does_not_depend_on_kills_or_timing(tmp_path):
    """Whatever was killed and however long replies took, the same candidate is chosen."""
    valid = {(2, 1): "yes", (0, 2): "yes", (1, 2): "yes"}

    def make(root, session=0):
        strategy = Rejection(loop_budget=TURNS, concurrency_budget=LANES, selection="deterministic")
        return grid_rig(root, SeededModel(valid, session), strategy)

    clean = make(tmp_path / "clean")
    clean.session()
    wanted = choice(clean)
    assert (wanted["lane"], wanted["turn"]) == (2, 1)
    for number in range(12):
        rig = make(tmp_path / f"r{number}", session=number)
        rig.killed_session(0.7 * number)
        rig.actors["m"] = SeededModel(valid, number + 100)
        rig.session()
        assert choice(rig) == wanted
        folded(rig)


def test_sampling_22_under_first_a_choice_on_record_is_kept(tmp_path):
    """The sampling has ended and its trial has not: whoever would be faster now, the choice stands."""

    async def solve(trial):
        found = await trial.generate("q", strategy=Rejection(concurrency_budget=3), requirements=[YES])
        await asyncio.sleep(10.0)
        return found

    model = LaneModel({(2, 0): "yes", (0, 0): "yes"}, {(0, 0): 2.0, (1, 0): 3.0, (2, 0): 1.0})
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve)
    rig.killed_session(5.0)
    before = choice(rig)
    assert (before["lane"], end_count(rig)) == (2, 0)
    rig.actors["m"] = other = LaneModel(default="yes", seconds=0.1)
    assert rig.session().ended.exit_code == 0
    assert other.calls == 0
    assert choice(rig) == before
    assert end(rig).samplings[0].candidates == {"cancelled": 2, "valid": 1}
    folded(rig)


def end_count(rig: Rig) -> int:
    return len(rig.ends())


def test_sampling_22_replayed_arrivals_follow_the_order_of_the_records(tmp_path):
    """Of two that were valid when the process died, the one that was recorded first is the first."""
    model = LaneModel({(0, 0): "no", (1, 0): "yes"}, {(0, 0): 1.0, (1, 0): 2.0, (0, 1): 9.0})
    strategy = Rejection(loop_budget=2, concurrency_budget=2, selection="best")
    rig = sampling_rig(tmp_path / "r", model, strategy)
    rig.killed_session(2.5)
    assert candidates(rig) == [(0, 0, "invalid", ""), (1, 0, "valid", "")]
    session = rig.session()
    told = [(event.candidate.lane, event.candidate.turn, event.replayed) for event in session.of(CandidateEnded)]
    assert told == [(0, 0, True), (1, 0, True), (0, 1, False)]


def test_sampling_26_what_losers_took_counts_once_however_often_it_is_killed(tmp_path):
    """Judges and lanes of all sessions: each reply on record is in the trial's usage once, and in the fold."""
    judge = Judge()

    def make(root):
        model = SeededModel()
        return sampling_rig(
            root,
            model,
            Rejection(loop_budget=TURNS, concurrency_budget=LANES),
            requirements=[Judged(id="j")],
            others={"judge": judge},
        )

    clean = make(tmp_path / "clean")
    clean.session()
    rig = make(tmp_path / "torn")
    for _ in range(8):
        rig.killed_session(2.2)
    assert rig.session().ended.exit_code == 0
    replies = [step for step in steps_named(rig, "generate") if step.error is None]
    assert len({step.step for step in replies}) == len(replies) == 2 * LANES * TURNS
    assert end(rig).usage == end(clean).usage
    assert end(rig).shares == end(clean).shares
    assert end(rig).samplings == end(clean).samplings
    folded(rig)


def test_sampling_28_each_lane_gets_its_own_replies_in_another_order(tmp_path):
    """Lanes that ask the identical request but for their seeds: what each goes on from is what it drew."""
    slow = {(lane, 1): 9.0 for lane in range(3)}
    model = LaneModel(default=draw, seconds={(0, 0): 3.0, (1, 0): 2.0, (2, 0): 1.0, **slow})
    rig = grid_rig(tmp_path / "r", model, MultiTurn(loop_budget=2, concurrency_budget=3))
    rig.killed_session(3.5)
    rig.actors["m"] = LaneModel(default=draw, seconds={(0, 1): 1.0, (1, 1): 2.0, (2, 1): 3.0})
    rig.session()
    calls = {step.step.partition(" ")[0]: step for step in steps_named(rig, "generate")}
    for lane in range(3):
        first, second = (calls[f"/sampling~1/lane-{lane}/turn-{turn}"] for turn in (0, 1))
        assert second.parent == first.step
        assert first.result["text"] == draw(with_seed(first.request["generation"]["seed"]))
    assert sum(rig.actors["m"].asked.values()) == 3
    folded(rig)


def with_seed(seed: int):
    """A request of which only the seed matters."""

    class Asked:
        class generation:  # noqa: N801 - as an attribute
            pass

    Asked.generation.seed = seed
    return Asked


def test_sampling_28_replies_of_another_run_are_taken_lane_by_lane(tmp_path):
    """With --reuse every lane gets the reply to its own request, and nothing is asked."""
    make = lambda root: grid_rig(root, SeededModel())  # noqa: E731
    first = make(tmp_path / "first")
    first.session()
    again = make(tmp_path / "again")
    again.reuse = [first.root]
    assert again.session().ended.exit_code == 0
    assert again.actors["m"].calls == 0
    texts = lambda rig: {step.step: step.result["text"] for step in steps_named(rig, "generate")}  # noqa: E731
    assert texts(again) == texts(first)
    assert [(share.reused, share.usage.input_tokens) for share in end(again).shares] == [(True, 120)]
    assert [(one.reused, one.usage.input_tokens) for one in end(again).samplings[0].wasted] == [(True, 110)]
    folded(again)


def test_another_request_does_not_take_what_was_found_out_about_the_first(tmp_path):
    """The first sampling of the scope asks for something else now: nothing on record of it is believed."""
    asked = ["one"]

    async def solve(trial):
        found = await trial.generate(asked[0], strategy=Rejection(concurrency_budget=2), requirements=[YES])
        await asyncio.sleep(5.0)
        return found

    model = LaneModel(default="yes")
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve)
    rig.killed_session(3.0)
    asked[0] = "two"
    rig.session()
    assert model.by_prompt["two"] == 2
    assert end(rig).status is Status.VALID
    assert (end(rig).unused, rig.ledger()) == (2, [(2, "t", "diverged", 2, "m"), (2, "t", "unused", 2, "m")])
    assert end(rig).usage == Usage(40, 20)
    assert (end(rig).samplings[0].calls, end(rig).samplings[0].wasted[0].usage) == (2, Usage(10, 5))
    folded(rig)


def test_a_trial_that_is_only_scored_again_knows_its_samplings(tmp_path):
    """Killed between the answer and the end: the solver is not asked, and the end says how its sampling went."""
    waits = [5.0]

    class Slow(Says, frozen=True):
        pass

    async def judged(answer, sample):
        await asyncio.sleep(waits[0])
        return True

    from holdfast import scorer  # noqa: PLC0415 - beside what it is for

    model = LaneModel({(0, 1): "yes"})
    rig = sampling_rig(tmp_path / "r", model, Repair(loop_budget=3), score=[scorer(name="own")(judged)])
    clean = sampling_rig(
        tmp_path / "c", LaneModel({(0, 1): "yes"}), Repair(loop_budget=3), score=[scorer(name="own")(judged)]
    )
    clean.session()
    rig.killed_session(4.0)
    assert rig.ends() == [] and choice(rig)["success"]
    assert rig.session().ended.exit_code == 0
    assert model.calls == 2
    assert end(rig).samplings == end(clean).samplings
    assert end(rig).samplings[0].strategy == "repair"
    folded(rig)


def test_a_lane_that_failed_goes_on_and_the_others_are_replayed(tmp_path):
    """Session after session, the lane that the infrastructure keeps failing is all that is asked for."""
    model = LaneModel({(1, 0): Unavailable("down")})
    rig = unretried(grid_rig(tmp_path / "r", model, Rejection(loop_budget=1, concurrency_budget=3)))
    for _ in range(3):
        rig.session()
        assert end(rig).status is Status.UNFINISHED
    assert dict(model.asked) == {(0, 0): 1, (1, 0): 3, (2, 0): 1}
    model.replies = {(1, 0): "yes"}
    assert rig.session().ended.exit_code == 0
    assert (choice(rig)["lane"], end(rig).samplings[0].candidates) == (1, {"invalid": 2, "valid": 1})
    assert len([step for step in rig.records(StepRecord) if step.name == "candidate"]) == 6
    folded(rig)


@pytest.mark.parametrize("budget", [{"tokens": 15}, {"calls": 3}])
@pytest.mark.parametrize("moment", [1.5, 4.0])
def test_sampling_20_a_cap_that_was_reached_costs_nothing_more_on_resume(tmp_path, budget, moment):
    """Killed before the choice or after it: what was admitted together is replayed one by one, and none is refused."""

    async def solve(trial):
        strategy = Rejection(loop_budget=3, concurrency_budget=3, budget=SamplingBudget(**budget))
        found = await trial.generate("q", strategy=strategy, requirements=[YES])
        await asyncio.sleep(5.0)
        return found

    model = LaneModel()
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve)
    rig.killed_session(moment)
    assert model.calls == 3
    assert rig.session().ended.exit_code == 0
    assert model.calls == 3 and end(rig).attempt == 1
    assert choice(rig)["capped"] == next(iter(budget))
    folded(rig)


def test_a_verdict_stays_with_the_reply_that_it_was_given_on(tmp_path):
    """A repair asks something else after the kill: the new reply is checked, and the choice on record falls."""
    told = ["kindly"]

    class Telling(Rejection):
        def repair(self, messages, _candidates):
            return (*messages, Message("user", told[0]))

    async def solve(trial):
        found = await trial.generate("q", strategy=Telling(loop_budget=3), requirements=[YES])
        await asyncio.sleep(5.0)
        return found

    model = LaneModel({(0, 1): lambda request: "yes" if request.messages[-1].text == "kindly" else "never"})
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve)
    rig.killed_session(4.0)
    assert choice(rig)["success"]
    told[0] = "rudely"
    rig.session()
    assert not end(rig).samplings[0].success
    texts = [
        step.result["text"]
        for step in steps_named(rig, "generate")
        if step.step.startswith("/sampling~1/lane-0/turn-1")
    ]
    assert texts == ["yes", "never"]


def test_a_replayed_result_is_the_one_that_was_live(tmp_path):
    """Counts, calls and notes: a solver that looks at them does not ask otherwise on resume."""
    seen = []

    async def solve(trial):
        found = await trial.generate("q", strategy=Rejection(concurrency_budget=3), requirements=[YES])
        seen.append((found.calls, found.counts, found.stop_reason, [(one.lane, one.turn) for one in found.candidates]))
        await asyncio.sleep(5.0)
        return found

    model = LaneModel({(1, 0): "yes"}, {(0, 0): 3.0, (1, 0): 1.0, (2, 0): 3.0})
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve)
    rig.killed_session(4.0)
    rig.session()
    assert len(seen) == 2 and seen[0] == seen[1]
    assert seen[0][0] == 3 and end(rig).replayed == 1


@pytest.mark.parametrize("selection", ["first", "deterministic"])
def test_an_outage_that_could_change_a_deterministic_choice_leaves_the_trial_unfinished(tmp_path, selection):
    """Lane 0 gets no reply and lane 1 is valid: under `first` that is a success, otherwise lane 0 is asked again."""
    model = LaneModel({(0, 0): Unavailable("down"), (1, 0): "yes"})
    strategy = Rejection(loop_budget=1, concurrency_budget=2, selection=selection)
    rig = unretried(sampling_rig(tmp_path / "r", model, strategy))
    rig.session()
    assert end(rig).status is (Status.VALID if selection == "first" else Status.UNFINISHED)
    model.replies[0, 0] = "yes indeed"
    rig.session()
    assert end(rig).status is Status.VALID
    assert choice(rig)["lane"] == (1 if selection == "first" else 0)
    assert dict(model.asked) == {(0, 0): 1 + (selection != "first"), (1, 0): 1}
    folded(rig)


def test_judges_count_in_a_cap_after_a_resume(tmp_path):
    """Row 20: each candidate took two calls, on record or not."""
    strategy = Rejection(loop_budget=9, budget=SamplingBudget(calls=6))
    model = LaneModel()
    rig = sampling_rig(tmp_path / "r", model, strategy, requirements=[Judged(id="j")], others={"judge": Judge()})
    rig.killed_session(2.5)
    rig.session()
    assert sorted(model.asked) == [(0, 0), (0, 1), (0, 2)] and rig.actors["judge"].calls == 3
    assert end(rig).samplings[0].calls == 6
