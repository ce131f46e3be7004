"""Which steps on record a sampling answers for, and which stay unused: what was paid for something else is told of."""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest

from engine.rig import Rig
from holdfast import scorer
from holdfast.engine.trials.asking.recorded_sampling import RecordedSampling
from holdfast.engine.trials.asking.sampling_host import TrialSampling
from holdfast.engine.trials.asking.sampling_tally import summaries
from holdfast.engine.trials.steps import Steps
from holdfast.models.message import Message, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import ScoreRecord, Status, StepRecord, TrialRecord
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.strategies.repair import Rejection, Repair
from sampled_runs import candidate, choice, reply
from sampling.drawing import YES
from sampling.lanes import Judge, LaneModel, candidates, end, quick_disk, sampling_rig, steps_named
from sampling.test_sampling_in_trials import Judged, folded

__all__ = ["quick_disk"]
OWN, PATH = "cd", "sampling~1"
VALID, INVALID, CANCELLED = CandidateStatus.VALID, CandidateStatus.INVALID, CandidateStatus.CANCELLED


def unused_notes(rig: Rig) -> list[str]:
    """How many recorded replies were not asked for again, by the end of each attempt."""
    return [str(record.unused) for record in rig.records((TrialRecord, ScoreRecord)) if record.unused]


def judged(lane: int, turn: int) -> StepRecord:
    return reply("k", lane, turn, "good", name="generate@judge", role=ModelRole.JUDGE)


def other_candidate(lane: int, turn: int) -> StepRecord:
    """The candidate of a sampling that asked for something else in the same place."""
    step = candidate("k", lane, turn, INVALID)
    return msgspec.structs.replace(step, step=step.step.replace(f":{OWN}#", ":other#"))


def left(records: list[StepRecord], asked=(), missed=(), ended=()) -> list[str]:
    """The keys that stay unused, after the given steps were asked for and the given turns asked for something else."""
    steps = Steps(records)
    for step in asked:
        steps.replay(steps.scopes.at(step.step[1:].partition(" ")[0]), step.step)
    for lane, turn in missed:
        steps.replay(
            steps.scopes.at(f"{PATH}/lane-{lane}/turn-{turn}"), f"/{PATH}/lane-{lane}/turn-{turn} generate:x#1"
        )
    RecordedSampling(steps, PATH, OWN).take_settled(set(ended))
    return [step.step for step in steps.unused()]


# What a faithful replay leaves out.


def test_calls_of_judges_whose_verdict_was_taken_over_are_settled():
    """The reply was asked for again, its judge was not."""
    first = reply("k", 0, 0, "x")
    assert left([first, judged(0, 0), candidate("k", 0, 0, VALID)], asked=[first], ended=[(0, 0)]) == []


@pytest.mark.parametrize("cut", [2, 3])
def test_a_lane_that_nobody_needs_any_more_is_settled(cut):
    """Whether its candidate is on record as cancelled, or a kill came before that."""
    won, lost = reply("k", 0, 0, "x"), reply("k", 1, 0, "y")
    records = [lost, won, candidate("k", 1, 0, CANCELLED)][:cut]
    assert left([*records, candidate("k", 0, 0, VALID)], asked=[won], ended=[(0, 0)]) == []


def test_a_choice_and_candidates_are_no_steps_that_could_be_asked_for():
    """Not even those of another sampling."""
    made = choice("k", SamplingChoice(success=False, stop_reason="x"))
    assert left([candidate("k", 0, 0, INVALID), other_candidate(1, 0), made]) == []


# What was paid for something else.


def test_what_another_request_has_come_to_stays_unused():
    """By its candidate it is another sampling's, even where this one goes on from its own record in the same turn."""
    other, own = reply("k", 0, 0, "x", name="generate@a"), reply("k", 0, 0, "y")
    records = [other, other_candidate(0, 0), own, candidate("k", 0, 0, VALID)]
    assert left(records, asked=[own], ended=[(0, 0)]) == [other.step]


def test_a_lane_that_asks_for_something_else_leaves_all_it_has_from_there_on():
    """What came before was used; another lane is not touched."""
    records = [step for turn in range(3) for step in (reply("k", 0, turn, "x"), candidate("k", 0, turn, INVALID))]
    given_up = [reply("k", 1, 0, "z"), candidate("k", 1, 0, CANCELLED)]
    stays = left([*records, *given_up], asked=records[:1], missed=[(0, 1)], ended=[(0, 0), (0, 1)])
    assert stays == [records[2].step, records[4].step]


def test_without_a_candidate_a_reply_is_unused_if_any_lane_asks_for_something_else():
    """The other lane has not come to its first turn."""
    records = [reply("k", 0, 0, "x"), reply("k", 1, 0, "y")]
    assert left(records, missed=[(0, 0)]) == [step.step for step in records]


def test_a_call_that_a_checked_candidate_has_not_made_is_unused():
    """Its turn has come to its end without it."""
    first = reply("k", 0, 0, "x")
    assert left([first, judged(0, 0)], asked=[first], ended=[(0, 0)]) == [judged(0, 0).step]


# Whole trials.


def killed_then(root, solve, model, first: float = 3.0, **others) -> Rig:
    rig = sampling_rig(root, model, None, solve=solve, others=others)
    rig.killed_session(first)
    return rig


def test_a_changed_prompt_is_told_of_once_however_often_the_trial_is_killed(tmp_path):
    """What the first request took is paid, and in the trial's figures, and not in those of the sampling."""
    asked = ["one"]

    async def solve(trial):
        found = await trial.generate(asked[0], strategy=Rejection(concurrency_budget=2), requirements=[YES])
        await asyncio.sleep(5.0)
        return found

    model = LaneModel(default="yes", seconds={(0, 0): 1.0, (1, 0): 1.5})
    rig = killed_then(tmp_path / "r", solve, model)
    asked[0] = "two"
    rig.killed_session(3.0)
    assert unused_notes(rig) == []
    rig.session()
    assert (model.by_prompt["one"], model.by_prompt["two"]) == (2, 2)
    paid = [step for step in steps_named(rig, "generate") if step.error is None]
    assert ["one" in str(step.request) for step in paid] == [True, False]
    assert unused_notes(rig) == ["1"]
    assert end(rig).usage == Usage(20, 10)
    assert end(rig).samplings[0].candidates == {"cancelled": 1, "valid": 1}
    folded(rig)


def test_a_changed_repair_is_told_of(tmp_path):
    """The same sampling by its fingerprint; its second turn asks for something else."""
    word = ["first"]

    class Own(Repair):
        def repair(self, messages, candidates):
            return (*messages, Message("user", f"{word[0]} {len(candidates)}"))

    async def solve(trial):
        return await trial.generate("q", strategy=Own(loop_budget=3), requirements=[YES])

    rig = killed_then(tmp_path / "r", solve, LaneModel({(0, 2): "yes"}), first=2.5)
    word[0] = "second"
    rig.session()
    assert rig.actors["m"].asked[0, 1] == 2
    assert unused_notes(rig) == ["1"]
    folded(rig)


def test_nothing_is_told_of_a_sampling_that_goes_on_as_it_was(tmp_path):
    """With lanes that were given up after they had replies, and with judges: killed after the choice."""

    async def solve(trial):
        strategy = Rejection(loop_budget=2, concurrency_budget=3)
        found = await trial.generate("q", strategy=strategy, requirements=[Judged(id="j")])
        await asyncio.sleep(9.0)
        return found

    model = LaneModel({(0, 1): "yes"}, {(1, 1): 3.0, (2, 1): 3.0})
    rig = killed_then(tmp_path / "r", solve, model, first=6.0, judge=Judge())
    assert {status for *_, status, _ in candidates(rig)} == {"valid", "invalid", "cancelled"}
    calls = model.calls
    rig.session()
    assert model.calls == calls
    assert unused_notes(rig) == []
    folded(rig)


def test_a_sampling_that_is_not_asked_for_again_is_told_of_by_its_replies(tmp_path):
    """Its candidate and its choice were not asked for in the first place."""
    is_drawn = [True]

    async def solve(trial):
        if is_drawn[0]:
            await trial.generate("q", requirements=[YES])
        await asyncio.sleep(5.0)
        return "yes"

    rig = killed_then(tmp_path / "r", solve, LaneModel(default="yes"))
    is_drawn[0] = False
    rig.session()
    assert unused_notes(rig) == ["1"]
    folded(rig)


@pytest.mark.parametrize(("then", "told"), [("one", []), ("two", ["1"])])
def test_a_sampling_of_a_scorer_is_told_of_as_well(tmp_path, monkeypatch, then, told):
    """In a score slot everybody is asked as a judge: what a judge said there is settled, another request is not.

    What it asks comes from outside of its code, where the gate does not see it change; its judge is asked the same.
    """
    monkeypatch.setenv("ASKED", "one")

    async def solve(trial):
        return "yes"

    async def scored(answer, sample, scope):
        strategy = Rejection(loop_budget=2, requirements=[Judged(id="j")])
        found = await scope.generate(os.environ["ASKED"], strategy=strategy)
        await asyncio.sleep(5.0)
        return found.success

    others = {"judge": Judge()}
    model = LaneModel(default="yes")
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve, others=others, score=[scorer(name="own")(scored)])
    rig.killed_session(3.0)
    monkeypatch.setenv("ASKED", then)
    rig.session()
    assert model.calls == len({"one", then})
    assert unused_notes(rig) == told
    folded(rig)


def test_many_samplings_are_not_gone_through_for_each_of_them(monkeypatch):
    """A solver with thousands of them: each looks up its own."""
    records = [reply("k", 0, 0, "x", scope=f"sampling~{number}") for number in range(50)]
    steps = Steps(records)
    steps.of_sampling("sampling~0")

    class Unscanned(dict):
        def __iter__(self):
            raise AssertionError("all steps were gone through")

        items = values = keys = __iter__

    monkeypatch.setattr(steps, "_waiting", Unscanned(steps._waiting))
    monkeypatch.setattr(steps, "_failed", Unscanned(steps._failed))
    taken = [RecordedSampling(steps, f"sampling~{number}", OWN).take_settled(set()) for number in range(50)]
    assert [step for one in taken for step in one] == records


# Records that are damaged, or of another form.

FOREIGN = {
    "none": None,
    "a text": "x",
    "an empty map": {},
    "another status": {"lane": 0, "turn": 0, "iteration": 0, "status": "perfect"},
    "another lane": {"lane": -1, "turn": 0, "iteration": 0, "status": "valid"},
    "a lane too many": {"lane": 7, "turn": 0, "iteration": 0, "status": "valid"},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_record_that_cannot_be_read_is_passed_over(name):
    """Neither a candidate nor a choice of such a form is believed, and none raises."""
    first = reply("k", 0, 0, "x")
    wrong = msgspec.structs.replace(candidate("k", 0, 0, VALID), result=FOREIGN[name])
    chosen = msgspec.structs.replace(choice("k", SamplingChoice(success=True, stop_reason="x")), result=FOREIGN[name])
    found = RecordedSampling(Steps([first, wrong, chosen]), PATH, OWN)
    assert (found.candidates, found.choice) == ([], None)
    (summary,) = summaries([first, wrong, chosen])
    assert (summary.strategy, summary.success, summary.calls, summary.candidates) == ("repair", False, 1, {})


@pytest.mark.parametrize("name", FOREIGN)
def test_a_trial_goes_on_past_a_record_that_cannot_be_read(tmp_path, monkeypatch, name):
    """The candidate is checked again, by the reply that is on record."""
    written = TrialSampling._step

    def damaged(self, scope, kind, result, error=None):
        return msgspec.structs.replace(written(self, scope, kind, result, error), result=FOREIGN[name])

    async def solve(trial):
        found = await trial.generate("q", requirements=[YES])
        await asyncio.sleep(5.0)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(TrialSampling, "_step", damaged)
        rig = killed_then(tmp_path / "r", solve, LaneModel(default="yes"))
    assert rig.session().ended.exit_code == 0
    assert (rig.actors["m"].calls, end(rig).status) == (1, Status.VALID)
    assert end(rig).samplings[0].candidates == {"valid": 1}
    assert unused_notes(rig) == []
