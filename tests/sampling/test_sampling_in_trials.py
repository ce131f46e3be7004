"""Samplings inside a trial: what is on record of them, in which place, and what it counts for."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from engine.rig import Actor, Rig, Solver, interrupt, simple_task
from folds import check_fold
from holdfast import Answer, Blocked, Score, TrialLimits, exact, scorer
from holdfast.engine.planning.trial_keys import trial_seed
from holdfast.engine.trials.scopes import AttemptScopes
from holdfast.errors import StorageFailure
from holdfast.models.errors import RateLimited, Rejected, Unavailable
from holdfast.models.role import ModelRole
from holdfast.run.core.records import AnswerRecord, ScoreRecord, Status, StepRecord
from holdfast.run.fold.reader import RunReader
from holdfast.sampling.events import CandidateEnded, LaneRepaired, SamplingEnded, SamplingStarted
from holdfast.sampling.place import current_place, derive_seed
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.vote import Vote
from sampling.drawing import YES, Asks
from sampling.lanes import (
    Judge,
    LaneModel,
    candidates,
    choice,
    end,
    quick_disk,
    sampling_rig,
    steps_named,
    unretried,
)

__all__ = ["quick_disk"]


class Judged(Requirement, frozen=True):
    """Met if another model says so."""

    calls = 1
    model: str = "judge"

    async def check_later(self, draft, checking):
        from holdfast import Message  # noqa: PLC0415 - as a requirement in a file of its own

        reply = await checking.ask(self.model, (Message("user", f"Is it good? {draft.text}"),), {})
        kind = VerdictKind.PASSED if reply.text == "good" else VerdictKind.FAILED
        return Verdict(self.id, kind, reply.text)

    def identity(self):
        return {"judged": self.model}


def by_lane(lane: int) -> float:
    """A lane is slower than the one before it."""
    return 1.0 + 0.1 * lane


def folded(rig: Rig) -> None:
    """The fold is the one that the words define, and everything in the run agrees."""
    with closing(RunReader(rig.root)) as reader:
        check_fold(reader)
    assert rig.is_sound()


# On record.


def test_sampling_is_on_record_in_scopes_of_its_own(tmp_path):
    """Every turn has a scope with its call and its candidate, and the choice lies above them."""
    model = LaneModel({(1, 1): "yes"}, by_lane)
    rig = sampling_rig(tmp_path / "r", model, Repair(loop_budget=2, concurrency_budget=2))
    assert rig.session().ended.exit_code == 0
    keys = [step.step.partition(":")[0] for step in rig.records(StepRecord) if step.error is None]
    turns = [f"/sampling~1/lane-{lane}/turn-{turn}" for turn in (0, 1) for lane in (0, 1)]
    wanted = [f"{turn} {name}" for turn in turns for name in ("generate", "candidate")]
    assert sorted(keys) == sorted([*wanted, "/sampling~1 choice"])
    assert candidates(rig) == [(0, 0, "invalid", ""), (1, 0, "invalid", ""), (0, 1, "invalid", ""), (1, 1, "valid", "")]
    assert choice(rig)["lane"] == choice(rig)["turn"] == 1
    assert {step.request["strategy"] for step in steps_named(rig, "candidate")} == {"repair"}
    assert rig.records(AnswerRecord)[0].text == "yes"
    folded(rig)


def test_sampling_25_every_place_has_its_own_derived_and_recorded_seed(tmp_path):
    """The seed of a place is in its request and in its record, and follows from the trial's."""
    rig = sampling_rig(tmp_path / "r", LaneModel(), Rejection(loop_budget=3, concurrency_budget=2))
    rig.session()
    trial = trial_seed(0, end(rig).trial)
    wanted = {(lane, turn): derive_seed(trial, 1, lane, turn) for lane in range(2) for turn in range(3)}
    assert len(set(wanted.values())) == 6
    recorded = {
        (step.result["lane"], step.result["turn"]): step.result["seed"] for step in steps_named(rig, "candidate")
    }
    assert recorded == wanted
    asked = [step.request["generation"]["seed"] for step in steps_named(rig, "generate")]
    assert sorted(asked) == sorted(wanted.values())


def test_sampling_25_samplings_in_other_scopes_draw_otherwise(tmp_path):
    """Branches and named scopes that sample the same have seeds of their own."""

    async def solve(trial):
        strategy = Rejection(loop_budget=1)
        await trial.generate("q", strategy=strategy)
        await asyncio.gather(*(trial.generate("q", strategy=strategy) for _ in range(2)))
        return await trial.scope("a").generate("q", strategy=strategy)

    rig = sampling_rig(tmp_path / "r", LaneModel(), None, solve=solve)
    rig.session()
    calls = steps_named(rig, "generate")
    assert [step.step.partition(" ")[0] for step in calls] == [
        f"{scope}/sampling~1/lane-0/turn-0" for scope in ("", "/~1", "/~2", "/a")
    ]
    assert len({step.request["generation"]["seed"] for step in calls}) == 4
    assert len(end(rig).samplings) == 4


def test_a_scope_of_the_solvers_is_never_a_sampling():
    """Whatever a solver calls a scope, it lies elsewhere."""
    scopes = AttemptScopes()
    _, sampling = scopes.root.start_sampling()
    for name in ("sampling~1", "a/sampling~1", "sampling~1/lane-0/turn-0", "sampling~"):
        named = scopes.named(scopes.root, name)
        assert not any(part.startswith("sampling~") for part in named.path.split("/"))
    assert scopes.named(scopes.root, "sampling~1") is not sampling
    assert scopes.named(scopes.root, "sampling").path == "sampling"


def test_the_conversation_goes_on_from_the_chosen_candidate(tmp_path):
    """With the request that it answered, repaired or not, and its reply."""
    seen = []

    async def solve(trial):
        await trial.generate("first")
        found = await trial.generate("second", strategy=MultiTurn(loop_budget=2), requirements=[YES])
        seen.append([message.content for message in trial.messages])
        assert found.success and found.text == found.reply.text == "yes" and found.chosen.turn == 1
        await trial.generate("third")
        seen.append([message.content for message in trial.messages])
        return found

    rig = sampling_rig(tmp_path / "r", LaneModel({(0, 1): "yes"}), None, solve=solve)
    assert rig.session().ended.exit_code == 0
    assert seen[0][:4] == ["first", "no", "second", "no"] and seen[0][-1] == "yes" and len(seen[0]) == 6
    assert seen[1] == [*seen[0], "third", "no"]
    # A turn cites the one before it, and holds only what was added.
    by_turn = {step.step.partition(" ")[0]: step for step in steps_named(rig, "generate")}
    second = by_turn["/sampling~1/lane-0/turn-1"]
    assert second.parent == by_turn["/sampling~1/lane-0/turn-0"].step
    assert len(second.request["messages"]) == 1
    assert rig.is_sound()


def test_requirements_without_a_strategy_draw_one_candidate(tmp_path):
    """And validators get the sample where no other context is given."""
    contexts = []

    def check(draft):
        contexts.append(draft.context)
        return Verdict("own", VerdictKind.PASSED)

    async def solve(trial):
        await trial.generate("a", requirements=[Asks(id="own", function=check)])
        return await trial.generate("b", requirements=[Asks(id="own", function=check)], validation_context=5)

    rig = sampling_rig(tmp_path / "r", LaneModel(), None, solve=solve)
    assert rig.session().ended.exit_code == 0
    assert contexts[0].id == "s0" and contexts[1] == 5
    assert [one.calls for one in end(rig).samplings] == [1, 1]


def test_without_either_it_is_one_call(tmp_path):
    """An empty list of requirements is none."""

    async def solve(trial):
        return await trial.generate("a", requirements=[])

    rig = sampling_rig(tmp_path / "r", LaneModel(), None, solve=solve)
    rig.session()
    assert len(rig.records(StepRecord)) == 1 and end(rig).samplings == ()


def test_sampling_24_validators_run_in_threads_that_know_their_place(tmp_path):
    """A plain function sees the lane and the turn that it checks for."""
    places = []

    def check(draft):
        places.append((current_place().lane, current_place().turn))
        return Verdict("own", VerdictKind.FAILED, "no")

    strategy = Rejection(loop_budget=2, concurrency_budget=2)
    rig = sampling_rig(tmp_path / "r", LaneModel(), strategy, requirements=[Asks(id="own", function=check)])
    rig.session()
    assert sorted(places) == [(0, 0), (0, 1), (1, 0), (1, 1)]


# Losers.


def test_sampling_2_after_the_first_success_nothing_is_asked(tmp_path):
    """Siblings are stopped, and recorded as cancelled."""
    model = LaneModel({(1, 0): "yes"}, {(0, 0): 5.0, (1, 0): 1.0, (2, 0): 5.0})
    rig = sampling_rig(tmp_path / "r", model, Rejection(loop_budget=4, concurrency_budget=3))
    session = rig.session()
    assert session.ended.exit_code == 0
    assert session.seconds == pytest.approx(1.0)
    assert (model.calls, model.cancelled, model.active) == (3, 2, 0)
    lost = [(0, 0, "cancelled", "cancelled"), (2, 0, "cancelled", "cancelled")]
    assert candidates(rig) == [(1, 0, "valid", ""), *lost]
    assert [(step.step.split("/")[2], step.error.kind) for step in steps_named(rig, "generate") if step.error] == [
        ("lane-0", "cancelled"),
        ("lane-2", "cancelled"),
    ]
    assert session.execution.admission.tally.in_flight == 0
    (summary,) = end(rig).samplings
    assert summary.candidates == {"cancelled": 2, "valid": 1}
    assert (summary.success, summary.lane, summary.turn, summary.turns, summary.calls) == (True, 1, 0, 1, 3)
    folded(rig)


def test_sampling_26_losers_count_and_the_waste_is_known(tmp_path):
    """All candidates are in the trial's usage; what was not chosen is in the summary, by model."""
    model, judge = LaneModel({(1, 1): "yes"}, by_lane), Judge()
    strategy = Rejection(loop_budget=2, concurrency_budget=2)
    rig = sampling_rig(tmp_path / "r", model, strategy, requirements=[Judged(id="j")], others={"judge": judge})
    assert rig.session().ended.exit_code == 0
    last = end(rig)
    assert (last.usage.input_tokens, last.usage.output_tokens) == (4 * 10 + 4 * 3, 4 * 5 + 4 * 2)
    assert [(share.model, share.usage.input_tokens) for share in last.shares] == [("judge", 12)]
    (summary,) = last.samplings
    assert [(one.model, one.usage.input_tokens) for one in summary.wasted] == [("judge", 9), ("m", 30)]
    assert (summary.calls, last.calls) == (8, 8)
    judged = [step for step in steps_named(rig, "generate") if step.role is ModelRole.JUDGE]
    assert [step.step.partition(":")[0].split(" ")[1] for step in judged] == ["generate@judge"] * 4
    folded(rig)


def test_the_limits_of_a_trial_count_lanes_and_judges(tmp_path):
    """Once they are reached, no lane asks for anything more."""
    model, judge = LaneModel(seconds=by_lane), Judge()
    strategy = Rejection(loop_budget=9, concurrency_budget=2)
    rig = sampling_rig(
        tmp_path / "r",
        model,
        strategy,
        requirements=[Judged(id="j")],
        others={"judge": judge},
        limits=TrialLimits(tokens=50),
    )
    rig.session()
    assert (end(rig).status, end(rig).limit) == (Status.LIMITED, "tokens")
    # 15 and 5 a turn: the third turn's reply is the one that goes beyond, and the other lane's is given up.
    assert sum(model.asked.values()) == 4
    assert choice(rig) is None
    folded(rig)


# Errors.


def test_sampling_5_an_error_of_the_infrastructure_leaves_the_lane_to_be_continued(tmp_path):
    """Turn 0 is invalid, turn 1 fails: the error is raised, and a resume asks for turn 1 alone."""
    model = LaneModel({(0, 1): Unavailable("down")})
    rig = sampling_rig(tmp_path / "r", model, Repair(loop_budget=3), solve=None)
    unretried(rig)
    rig.session()
    assert (end(rig).status, end(rig).error.message) == (Status.UNFINISHED, "down")
    assert candidates(rig) == [(0, 0, "invalid", ""), (0, 1, "error", "unavailable")]
    assert choice(rig) is None
    model.replies, model.asked = {(0, 1): "yes"}, type(model.asked)()
    assert rig.session().ended.exit_code == 0
    assert dict(model.asked) == {(0, 1): 1}
    assert (end(rig).status, choice(rig)["turn"]) == (Status.VALID, 1)
    folded(rig)


def test_sampling_6_an_error_beside_a_success_is_forgiven(tmp_path):
    """The trial is valid; the error is a candidate on record."""
    model = LaneModel({(0, 0): Unavailable("down"), (1, 1): "yes"})
    rig = sampling_rig(tmp_path / "r", model, Rejection(loop_budget=2, concurrency_budget=2))
    unretried(rig)
    assert rig.session().ended.exit_code == 0
    assert end(rig).status is Status.VALID
    assert (0, 0, "error", "unavailable") in candidates(rig)
    assert any("down" in note for note in choice(rig)["notes"])
    assert end(rig).samplings[0].candidates == {"error": 1, "invalid": 1, "valid": 1}
    folded(rig)


@pytest.mark.parametrize("swallows", [False, True])
def test_sampling_7_a_failure_with_such_an_error_is_no_outcome(tmp_path, swallows):
    """A lane fails and the other is invalid: the trial is unfinished, whatever the solver makes of the result."""

    async def solve(trial):
        found = await trial.generate(
            "q", strategy=Rejection(loop_budget=1, concurrency_budget=2), requirements=[YES], max_tokens=9
        )
        assert not found.success
        return "something else" if swallows else found

    model = LaneModel({(0, 0): Unavailable("down")})
    rig = sampling_rig(tmp_path / "r", model, None, solve=solve)
    unretried(rig)
    rig.session()
    assert (end(rig).status, choice(rig)) == (Status.UNFINISHED, None)
    model.replies, model.asked = {}, type(model.asked)()
    rig.session()
    assert dict(model.asked) == {(0, 0): 1}
    assert end(rig).status is Status.VALID
    assert choice(rig)["success"] is False
    folded(rig)


class Forgiving(Judged, frozen=True):
    """Passes what its judge could not be asked about."""

    async def check_later(self, draft, checking):
        try:
            return await Judged.check_later(self, draft, checking)
        except Unavailable:
            return Verdict(self.id, VerdictKind.PASSED)


def test_a_verdict_without_its_judge_is_none(tmp_path):
    """A requirement swallows that its judge is down, and passes: the trial is unfinished, and the judge asked again."""

    async def down(request, _count):
        raise Unavailable("down")

    model = LaneModel()
    others = {"judge": Actor(down)}
    rig = unretried(sampling_rig(tmp_path / "r", model, Rejection(), requirements=[Forgiving(id="j")], others=others))
    rig.session()
    assert (end(rig).status, choice(rig)) == (Status.UNFINISHED, None)
    rig.actors["judge"] = Judge(word="never")
    assert rig.session().ended.exit_code == 0
    assert (model.calls, rig.actors["judge"].calls) == (1, 1)
    assert choice(rig)["success"] is False
    folded(rig)


def test_a_hostile_verdict_is_recorded_as_far_as_it_can_be(tmp_path):
    """What JSON cannot hold is replaced; neither the candidate nor the trial is lost for it."""

    def check(draft):
        return Verdict("own", VerdictKind.FAILED, "\ud800\x00\x1b[31m", score=float("nan"))

    strategy = Rejection(loop_budget=2)
    rig = sampling_rig(tmp_path / "r", LaneModel(), strategy, requirements=[Asks(id="own", function=check)])
    assert rig.session().ended.exit_code == 0
    verdicts = [verdict for step in steps_named(rig, "candidate") for verdict in step.result["verdicts"]]
    assert len(verdicts) == 2
    assert all("score" not in verdict and "\ud800" not in verdict["reason"] for verdict in verdicts)
    folded(rig)


def test_an_error_that_no_retry_cures_is_a_failed_lane_and_an_outcome(tmp_path):
    """A request that is rejected is not asked again in the next session: the choice stands."""
    model = LaneModel({(0, 0): Rejected("too long", status=400)})
    rig = sampling_rig(tmp_path / "r", model, Rejection(concurrency_budget=2))
    rig.session()
    assert end(rig).status is Status.VALID
    assert choice(rig)["success"] is False and choice(rig)["lane"] == 1


def test_sampling_8_a_policy_block_in_one_lane_blocks_the_trial(tmp_path):
    """As it does outside a sampling."""
    model = LaneModel({(1, 0): Blocked("no"), (0, 0): "yes"}, {(0, 0): 5.0, (1, 0): 1.0})
    rig = sampling_rig(tmp_path / "r", model, Rejection(concurrency_budget=2))
    rig.session()
    assert end(rig).status is Status.BLOCKED
    assert choice(rig) is None
    assert (1, 0, "blocked", "blocked") in candidates(rig)
    folded(rig)


def test_sampling_9_a_validator_that_raises_fails_the_attempt_and_is_told_apart(tmp_path):
    """With one lane its error is that of the trial, and the record says which requirement it was."""

    def check(draft):
        raise ValueError("my bug")

    rig = sampling_rig(tmp_path / "r", LaneModel(), Rejection(), requirements=[Asks(id="own", function=check)])
    rig.session()
    assert (end(rig).status, end(rig).error.kind) == (Status.FAILED, "ValueError")
    step = steps_named(rig, "candidate")[0]
    (verdict,) = step.result["verdicts"]
    assert (verdict["requirement"], verdict["kind"], step.error.kind) == ("own", "error", "ValueError")
    first = step.error.traceback.split("File ")[1]
    assert "tests/sampling/drawing.py" in first, "it begins in the requirement, not in the engine"


def test_sampling_19_a_rate_limit_in_a_lane_is_waited_out(tmp_path):
    """The turn is not used up, and no lane has failed."""
    told = iter([RateLimited("later", retry_after=3.0)])
    model = LaneModel({(0, 0): lambda _: next(told, "yes")}, {(0, 0): 0.5, (1, 0): 20.0})
    rig = sampling_rig(tmp_path / "r", model, Rejection(loop_budget=1, concurrency_budget=2))
    session = rig.session()
    assert session.ended.exit_code == 0
    assert session.seconds >= 4.0
    assert candidates(rig)[0] == (0, 0, "valid", "")
    assert end(rig).tries == 2


def test_a_storage_failure_ends_every_lane(tmp_path):
    """Nothing goes on that cannot be recorded."""
    model = LaneModel()
    rig = sampling_rig(tmp_path / "r", model, Rejection(loop_budget=3, concurrency_budget=3))

    def fail(execution):
        def broken(record):
            raise StorageFailure("the disk is full")

        execution._session.sink.put = broken

    rig.at = {1.5: fail}
    session = rig.session()
    assert session.ended.exit_code == 5
    assert model.active == 0


# Interrupts.


def test_a_signal_during_a_validator_makes_its_verdict_not_count(tmp_path):
    """The same candidate is checked again in the next session, and its reply is not asked for again."""
    checked = []
    rigs = []

    async def check(draft):
        checked.append(draft.text)
        if len(checked) == 1:
            interrupt(rigs[0])
            await asyncio.sleep(0.5)
        return Verdict("own", VerdictKind.PASSED)

    model = LaneModel()
    rig = sampling_rig(tmp_path / "r", model, Rejection(), requirements=[Asks(id="own", function=check)])
    rig.at = {0.0: rigs.append}
    assert rig.session().ended.how == "interrupted"
    assert candidates(rig) == [] and choice(rig) is None
    assert rig.session().ended.exit_code == 0
    assert (model.calls, checked) == (1, ["no", "no"])


def test_what_the_end_of_a_session_stops_is_not_recorded_as_cancelled(tmp_path):
    """Lanes that wait when the session drains are asked for again."""
    model = LaneModel({(1, 1): "yes"}, {(0, 0): 1.0, (1, 0): 1.0, (0, 1): 1.0, (1, 1): 1.0})
    rig = sampling_rig(tmp_path / "r", model, Rejection(loop_budget=2, concurrency_budget=2))
    rig.at = {0.5: interrupt}
    assert rig.session().ended.how == "interrupted"
    assert candidates(rig) == [(0, 0, "invalid", ""), (1, 0, "invalid", "")]
    assert rig.session().ended.exit_code == 0
    assert sum(model.asked.values()) == 4
    folded(rig)


# Events.


def ended_events(session) -> list[SamplingEnded]:
    started, ended = session.of(SamplingStarted), session.of(SamplingEnded)
    assert len(started) == len(ended)
    return ended


def test_sampling_29_every_sampling_that_starts_is_told_to_have_ended(tmp_path):
    """After a success, a failure, an error and an interrupt."""
    success = sampling_rig(tmp_path / "a", LaneModel(default="yes"), Rejection(concurrency_budget=2)).session()
    failure = sampling_rig(tmp_path / "b", LaneModel(), Repair(loop_budget=2)).session()
    broken = sampling_rig(tmp_path / "c", LaneModel(default=Rejected("no", status=400)), Rejection()).session()
    rig = sampling_rig(tmp_path / "d", LaneModel(seconds=50.0), Rejection(concurrency_budget=2))
    rig.at = {1.0: interrupt, 2.0: lambda execution: execution._interrupt.arrive(2)}
    cancelled = rig.session()
    assert [one.success for session in (success, failure, broken, cancelled) for one in ended_events(session)] == [
        True,
        False,
        False,
        False,
    ]
    assert [one.failed for one in failure.of(LaneRepaired)] == [("yes",)]
    assert ended_events(broken)[0].error.message == "no"
    assert ended_events(cancelled)[0].cancelled == 2
    trials = {event.trial for event in [*success.of(CandidateEnded), *success.of(SamplingStarted)]}
    assert len(trials) == 1 and "" not in trials


# Answers that there is nothing to judge in.


def test_a_vote_without_a_valid_answer_is_unscored_and_asks_no_scorer(tmp_path):
    """Every slot is filled for the reason that the answer gives."""
    asked = []

    @scorer(name="own")
    async def own(answer, sample):
        asked.append(answer)
        return True

    rig = sampling_rig(tmp_path / "r", LaneModel(), Vote(concurrency_budget=3), score=[exact(), own])
    assert rig.session().ended.exit_code == 0
    assert asked == []
    assert end(rig).status is Status.VALID and end(rig).scores == {"exact": None, "own": None}
    answer = rig.records(AnswerRecord)[0]
    assert "none of 3 candidates is valid" in answer.unscored
    assert [(one.scorer, one.unscored, one.explanation) for one in rig.records(ScoreRecord)] == [
        ("exact", True, answer.unscored),
        ("own", True, answer.unscored),
    ]
    folded(rig)


def test_an_unscored_answer_is_so_for_scorers_that_are_added_later(tmp_path):
    """As it is after a resume."""
    asked = []

    @scorer(name="later")
    def later(answer, sample):
        asked.append(answer)
        return True

    async def solve(trial):
        return Answer("", unscored="no majority")

    rig = Rig(tmp_path / "r", simple_task(1, Solver(solve)))
    rig.session()
    rig.tasks = [simple_task(1, Solver(solve), [exact(), later])]
    assert rig.session().ended.exit_code == 0
    assert asked == []
    assert [(one.scorer, one.explanation) for one in rig.records(ScoreRecord)] == [
        ("exact", "no majority"),
        ("later", "no majority"),
    ]
    folded(rig)


# Other models, and slots.


def test_escalation_asks_the_other_model_under_test(tmp_path):
    """Its usage is a share, its key has its name, and its role is that of the model under test."""
    strong = LaneModel(default="yes")
    strategy = Escalate(to=["strong"], loop_budget=4)
    rig = sampling_rig(tmp_path / "r", LaneModel(), strategy, others={"strong": strong})
    assert rig.session().ended.exit_code == 0
    calls = [
        (step.model, step.role.value, step.step.split(" ")[1].partition(":")[0])
        for step in steps_named(rig, "generate")
    ]
    assert calls == [("m", "under test", "generate")] * 2 + [("strong", "under test", "generate@strong")]
    assert [(share.model, share.usage.input_tokens) for share in end(rig).shares] == [("strong", 10)]
    folded(rig)


def test_a_scorer_may_sample_in_its_scope(tmp_path):
    """Its steps are those of the slot, and so is what it takes."""

    async def judged(answer, sample, scope):
        found = await scope.generate("good?", strategy=Repair(loop_budget=2), requirements=[YES])
        return Score(float(found.success))

    async def solve(trial):
        return "x"

    model = LaneModel({(0, 1): "yes"})
    rig = Rig(tmp_path / "r", simple_task(1, Solver(solve), [scorer(name="own")(judged)]), {"m": model})
    assert rig.session().ended.exit_code == 0
    assert end(rig).scores == {"own": 1.0} and end(rig).usage is None
    assert {step.role for step in rig.records(StepRecord)} == {ModelRole.JUDGE}
    assert all(step.step.startswith("/score/own/sampling~1") for step in rig.records(StepRecord))
    assert rig.records(ScoreRecord)[0].usage.input_tokens == 20
    folded(rig)
