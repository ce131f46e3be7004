"""Score slots: each scorer of a trial is filled, failed, unfinished or missing on its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing

import pytest

from engine.rig import Actor, Rig, State, ask, interrupt, prompt_of, said, samples
from engine.test_limits import Gauge
from folds import check_fold
from holdfast import Blocked, Score, Task, Usage, exact, scorer
from holdfast.engine.events import StepRecorded
from holdfast.errors import UsageError
from holdfast.models.errors import Unavailable
from holdfast.models.role import ModelRole
from holdfast.run.core.records import AnswerRecord, CallRecord, ScoreRecord, Status, StepRecord, UsageShare
from holdfast.run.fold.reader import RunReader


def judged_task(*scorers, count: int = 1, **fields) -> Task:
    return Task(name="t", samples=samples(count), solver=ask, scorers=list(scorers), **fields)


def filled(rig: Rig) -> list[tuple[str, float | None]]:
    """The slots that were filled, in the order they came in."""
    return [(one.scorer, one.value) for one in rig.records(ScoreRecord) if one.error is None]


def failures(rig: Rig) -> list[tuple[str, int, bool]]:
    found = [one for one in rig.records(ScoreRecord) if one.error is not None]
    return [(one.scorer, one.slot_attempt, one.will_retry) for one in found]


def reasons(rig: Rig) -> dict[str, int]:
    """What remains, by everybody who is asked; the fold is the one that the words define."""
    with closing(RunReader(rig.root)) as reader:
        check_fold(reader)
    assert rig.is_sound()
    counts = rig.status().counts
    assert rig.report().coverage == counts
    return counts.remaining_by_reason


def sleeping(name: str, gauge: Gauge, seconds: float):
    async def judged(answer, sample):
        await gauge.stay(seconds)
        return True

    return scorer(name=name)(judged)


HANG = object()


class Switch(State):
    """A scorer that does what the test says; its code is the same to every session."""

    def __init__(self, name: str, value) -> None:
        super().__init__(value)
        self.name, self.asked = name, 0

    def as_scorer(self):
        async def judged(answer, sample):
            self.asked += 1
            if self.value is HANG:
                await asyncio.sleep(1_000_000.0)
            if isinstance(self.value, BaseException):
                raise self.value
            return self.value

        return scorer(name=self.name)(judged)


# Side by side.


def test_limits_27_awaited_scorers_run_side_by_side(tmp_path):
    """Three judges of half a second take half a second, and plain scorers are asked meanwhile in the plan's order."""
    gauge, seconds = Gauge(), 0.5
    scorers = [sleeping(name, gauge, seconds) for name in "abc"]
    rig = Rig(tmp_path / "r", judged_task(exact(), *scorers))
    session = rig.session()
    assert session.ended.exit_code == 0
    assert (session.seconds, gauge.most) == (pytest.approx(seconds), 3)
    assert list(rig.ends()[0].scores) == ["exact", "a", "b", "c"]


def test_the_limit_of_scoring_counts_slots_and_a_waiting_one_holds_nothing(tmp_path):
    """With one slot at a time three judges of four trials take their turns, while the solvers go on."""
    gauge = Gauge()
    scorers = [sleeping(name, gauge, 1.0) for name in "abc"]
    actor = Actor(seconds=0.1)
    settings = {"concurrency_limit": 2, "concurrency_limits": {"score": 1}}
    rig = Rig(tmp_path / "r", judged_task(*scorers, count=4), {"m": actor}, settings=settings)
    session = rig.session()
    assert session.ended.exit_code == 0
    assert gauge.most == 1
    assert session.seconds == pytest.approx(12.1, abs=0.2)
    # Trials that wait for a slot to be scored keep none from being answered but by their number.
    assert actor.tries[1][0] == actor.tries[0][0]
    assert all(limit.in_use == 0 for limit in session.execution._limits._by_name.values())


def test_a_slot_that_fails_leaves_the_others_filled(tmp_path):
    """The trial is failed for the scorer's reason; the model and the other scorers are asked once."""
    actor, broken = Actor(), Switch("broken", ValueError("my bug"))
    good, slow = Switch("good", True), Switch("slow", 0.5)
    rig = Rig(
        tmp_path / "r",
        judged_task(exact(), good.as_scorer(), broken.as_scorer(), slow.as_scorer()),
        {"m": actor},
        settings={"max_retries": 2},
    )
    session = rig.session()
    assert session.ended.exit_code == 1
    (end,) = rig.ends()
    assert (end.status, end.stage, end.attempt, end.error.message) == (Status.FAILED, "score: broken", 1, "my bug")
    assert (actor.calls, good.asked, broken.asked, slow.asked) == (1, 1, 3, 1)
    assert sorted(filled(rig)) == [("exact", 1.0), ("good", 1.0), ("slow", 0.5)]
    assert failures(rig) == [("broken", 1, True), ("broken", 2, True), ("broken", 3, False)]
    assert reasons(rig) == {"score: broken": 1}
    assert "1 remaining: 1 failed (score: broken)" in session.ended.counts.remaining_text()


def test_the_record_of_a_plain_score_holds_nothing_of_slots(tmp_path):
    """What nearly every trial has costs no byte more than its judgement."""
    rig = Rig(tmp_path / "r", judged_task(exact()))
    rig.session()
    (score,) = rig.records(ScoreRecord)
    fields = {"type", "trial", "attempt", "scorer", "value", "answer"}
    with closing(RunReader(rig.root)) as reader:
        (line,) = [line for _, line in reader.stream([], "score")]
    assert set(json.loads(line)) == fields and score.value == 1.0


def test_the_first_of_several_failed_scorers_by_the_plan_is_the_reason(tmp_path):
    """Whichever fails first: the reason does not depend on timing."""

    async def late(answer, sample):
        await asyncio.sleep(5.0)
        raise ValueError("late")

    def soon(answer, sample):
        raise ValueError("soon")

    rig = Rig(tmp_path / "r", judged_task(scorer(late), scorer(soon)), settings={"max_retries": 0})
    rig.session()
    assert rig.ends()[0].stage == "score: late"
    assert reasons(rig) == {"score: late": 1}


# Attempts.


def test_exhausted_slots_stay_exhausted_over_a_resume_and_only_a_redo_asks_them_again(tmp_path):
    """A resume asks nobody; a redo asks the failed slots, and nothing else, with attempts of their own."""
    actor, broken, good = Actor(), Switch("broken", ValueError("my bug")), Switch("good", True)
    rig = Rig(
        tmp_path / "r", judged_task(broken.as_scorer(), good.as_scorer()), {"m": actor}, settings={"max_retries": 1}
    )
    rig.session()
    assert rig.session().ended.exit_code == 1
    assert (actor.calls, good.asked, broken.asked) == (1, 1, 2)
    rig.redo = "status=failed"
    assert rig.session().ended.exit_code == 1
    assert (actor.calls, good.asked, broken.asked) == (1, 1, 4)
    assert failures(rig) == [("broken", n, n % 2 == 1) for n in (1, 2, 3, 4)]
    broken.value = 0.25
    assert rig.session().ended.exit_code == 0
    assert (actor.calls, good.asked, broken.asked) == (1, 1, 5)
    assert rig.ends()[-1].scores == {"broken": 0.25, "good": 1.0}
    assert {end.attempt for end in rig.ends()} == {1} and len(rig.records(AnswerRecord)) == 1
    assert rig.report().usage.input_tokens == 1
    assert reasons(rig) == {}


def test_a_redo_killed_half_way_keeps_the_slots_that_it_filled(tmp_path):
    """Two slots had failed; one was filled when the session was killed: the next redo asks the other one."""
    one, two = Switch("one", ValueError("a")), Switch("two", ValueError("b"))
    rig = Rig(tmp_path / "r", judged_task(one.as_scorer(), two.as_scorer()), settings={"max_retries": 0})
    rig.session()
    assert reasons(rig) == {"score: one": 1}
    one.value, two.value, rig.redo = True, HANG, "status=failed"
    rig.killed_session(5.0)
    assert filled(rig) == [("one", 1.0)]
    assert reasons(rig) == {"score: two": 1}
    two.value = 0.5
    assert rig.session().ended.exit_code == 0
    assert (one.asked, two.asked) == (2, 3)
    assert reasons(rig) == {}


@pytest.mark.parametrize("killed_at", [0.5, 1.5, 2.5])
def test_exhausted_stays_exhausted_whenever_the_session_is_killed(tmp_path, killed_at):
    """The attempts of a slot are counted over kills: two failures on record leave one of three, and then none."""
    asked = State(0)

    async def broken(answer, sample):
        asked.value += 1
        await asyncio.sleep(1.0)
        raise ValueError("my bug")

    rig = Rig(tmp_path / "r", judged_task(scorer(broken)), settings={"max_retries": 2})
    rig.killed_session(killed_at)
    assert reasons(rig) == {"not scored": 1}
    assert rig.session().ended.exit_code == 1
    # The one that was under way when it was killed is asked once more.
    assert (asked.value, failures(rig)[-1]) == (4, ("broken", 3, False))
    assert rig.session().ended.exit_code == 1
    assert asked.value == 4
    assert reasons(rig) == {"score: broken": 1}


def test_a_slot_that_failed_for_good_is_not_asked_after_a_kill_in_another_one(tmp_path):
    """The trial has no end on record: that no attempt of the slot is left is."""
    broken, slow = Switch("broken", ValueError("my bug")), Switch("slow", HANG)
    rig = Rig(tmp_path / "r", judged_task(broken.as_scorer(), slow.as_scorer()), settings={"max_retries": 1})
    rig.killed_session(5.0)
    assert (failures(rig)[-1], rig.ends()) == (("broken", 2, False), [])
    assert reasons(rig) == {"not scored": 1}
    broken.value = slow.value = True
    assert rig.session().ended.exit_code == 1
    assert (broken.asked, slow.asked) == (2, 2)
    assert reasons(rig) == {"score: broken": 1}


def test_limits_27_an_outage_leaves_a_slot_unfinished_and_it_is_resumed_alone(tmp_path):
    """The judge that could not be reached is asked again by a resume, in the same attempt; the others are not."""
    actor, down, good = Actor(), Switch("b", Unavailable("the judge is down")), Switch("a", True)
    rig = Rig(tmp_path / "r", judged_task(good.as_scorer(), down.as_scorer()), {"m": actor})
    assert rig.session().ended.exit_code == 1
    (end,) = rig.ends()
    assert (end.status, end.stage) == (Status.UNFINISHED, "score: b")
    assert reasons(rig) == {"no reply (score: b)": 1}
    assert (filled(rig), failures(rig)) == ([("a", 1.0)], [])
    down.value = 0.5
    assert rig.session().ended.exit_code == 0
    assert (actor.calls, good.asked, down.asked) == (1, 1, 2)
    assert rig.ends()[-1].scores == {"a": 1.0, "b": 0.5}
    assert reasons(rig) == {}


def test_what_is_left_to_be_done_decides_before_what_has_failed(tmp_path):
    """One slot has failed for good, another is unfinished: a resume asks that one, and then the trial has failed."""
    broken, down = Switch("broken", ValueError("my bug")), Switch("down", Unavailable("down"))
    rig = Rig(tmp_path / "r", judged_task(broken.as_scorer(), down.as_scorer()), settings={"max_retries": 0})
    rig.session()
    assert reasons(rig) == {"no reply (score: down)": 1}
    down.value = True
    rig.session()
    assert (broken.asked, down.asked) == (1, 2)
    assert reasons(rig) == {"score: broken": 1}


def test_a_scorer_added_later_fails_alone_and_is_redone_alone(tmp_path):
    """The trial was valid: it fails for the new scorer only, a resume leaves it, and a redo asks that scorer only."""
    actor, good, late = Actor(), Switch("good", True), Switch("late", ValueError("my bug"))
    rig = Rig(tmp_path / "r", judged_task(good.as_scorer()), {"m": actor}, settings={"max_retries": 1})
    assert rig.session().ended.exit_code == 0
    rig.tasks = [judged_task(good.as_scorer(), late.as_scorer())]
    assert rig.session().ended.exit_code == 1
    assert reasons(rig) == {"score: late": 1}
    assert rig.report().tasks["t"]["m"].metrics["good"]["mean"].value == 1.0
    assert rig.session().ended.exit_code == 1
    assert (actor.calls, good.asked, late.asked) == (1, 1, 2)
    late.value, rig.redo = 0.5, "status=failed"
    assert rig.session().ended.exit_code == 0
    assert (actor.calls, good.asked, late.asked, len(rig.ends())) == (1, 1, 3, 1)
    assert reasons(rig) == {}


def test_a_scorer_added_to_a_trial_that_failed_in_another_is_asked(tmp_path):
    """A missing slot is missing on its own, whatever became of the others."""
    broken, late = Switch("broken", ValueError("my bug")), Switch("late", True)
    rig = Rig(tmp_path / "r", judged_task(broken.as_scorer()), settings={"max_retries": 0})
    rig.session()
    rig.tasks = [judged_task(broken.as_scorer(), late.as_scorer())]
    rig.session()
    assert (broken.asked, late.asked) == (1, 1)
    assert filled(rig) == [("late", 1.0)]
    assert reasons(rig) == {"score: broken": 1}


# Unscored.


def test_an_unscored_slot_is_filled_and_metrics_leave_it_out(tmp_path):
    """The trial is valid, nobody is asked again, and the reason is on record."""
    asked = State(0)

    async def panel(answer, sample):
        asked.value += 1
        return Score(None, explanation="no majority") if sample.id == "s0" else Score(0.5)

    rig = Rig(tmp_path / "r", judged_task(scorer(panel), exact(), count=3))
    assert rig.session().ended.exit_code == 0
    report = rig.report()
    metrics = report.tasks["t"]["m"].metrics
    assert (metrics["panel"]["mean"].n_trials, metrics["exact"]["accuracy"].n_trials, report.coverage.valid) == (
        2,
        3,
        3,
    )
    (unscored,) = [one for one in rig.records(ScoreRecord) if one.unscored]
    assert (unscored.value, unscored.explanation, unscored.error) == (None, "no majority", None)
    assert sorted(str(end.scores["panel"]) for end in rig.ends()) == ["0.5", "0.5", "None"]
    assert reasons(rig) == {}
    rig.session()
    assert asked.value == 3


def test_a_score_without_a_value_needs_a_reason(tmp_path):
    """Nothing is left out of the metrics without a word."""

    def silent(answer, sample):
        return Score(None)

    rig = Rig(tmp_path / "r", judged_task(scorer(silent)), settings={"max_retries": 0})
    rig.session()
    assert "needs a reason" in rig.ends()[0].error.message
    assert reasons(rig) == {"score: silent": 1}


# Interrupts.


def test_an_interrupt_lets_a_judge_in_flight_finish_and_gives_up_slots_that_wait(tmp_path):
    """What is in flight is recorded; a slot that waits for its turn remains, and only that one is asked later."""
    calls = Actor(seconds=0.1)

    async def judge(answer, sample, scope):
        return (await scope.generate([*as_prompt("verdict")], model="j")).text == "VERDICT"

    async def other(answer, sample, scope):
        return (await scope.generate([*as_prompt("other")], model="j")).text == "OTHER"

    judges = Actor(seconds=10.0)
    settings = {"concurrency_limits": {"score": 1}, "tasks": {"t": {"models": ["m"]}}}
    rig = Rig(tmp_path / "r", judged_task(scorer(judge), scorer(other)), {"m": calls, "j": judges}, settings=settings)
    rig.at = {1.0: interrupt}
    assert rig.session().ended.exit_code == 130
    assert (filled(rig), rig.ends()) == ([("judge", 1.0)], [])
    assert reasons(rig) == {"not scored": 1}
    assert rig.session().ended.exit_code == 0
    assert judges.by_prompt == {"verdict": 1, "other": 1}
    assert calls.calls == 1


def test_a_scorer_that_hangs_is_given_up_by_an_interrupt(tmp_path):
    """Code of the task that a signal may have ended counts nothing; the slots that were filled are."""
    hangs = State(True)

    async def stuck(answer, sample):
        if hangs.value:
            await asyncio.sleep(1_000_000.0)
        return True

    good = Switch("good", True)
    rig = Rig(tmp_path / "r", judged_task(good.as_scorer(), scorer(stuck)))
    rig.at = {5.0: interrupt}
    session = rig.session()
    assert session.ended.exit_code == 130 and session.seconds < 10.0
    assert filled(rig) == [("good", 1.0)]
    hangs.value = False
    assert rig.session().ended.exit_code == 0
    assert good.asked == 1


# Scopes.


def as_prompt(text: str):
    from holdfast import Message  # noqa: PLC0415

    return [Message("user", text)]


def judging(name: str, *prompts: str, fail: State | None = None):
    """A scorer that asks the judge `j` several times, and may fail after that."""

    async def judge(answer, sample, scope):
        texts = [(await scope.generate(prompt, model="j")).text for prompt in prompts]
        if fail is not None and fail.value:
            raise ValueError("my bug")
        return float(len("".join(texts)))

    return scorer(name=name)(judge)


def judge_rig(tmp_path, *scorers, judge: Actor | None = None, count: int = 1, **settings) -> Rig:
    actors = {"m": Actor(), "j": judge or Actor()}
    prices = {"m": {"price": {"input": 1.0, "output": 1.0}}, "j": {"price": {"input": 10.0, "output": 10.0}}}
    settings = {"tasks": {"t": {"models": ["m"]}}, **settings}
    return Rig(tmp_path / "r", judged_task(*scorers, count=count), actors, models=prices, settings=settings)


def test_limits_22_a_scorer_asks_a_judge_in_the_scope_of_its_slot(tmp_path):
    """Its calls are steps of the slot, with the role judge, and what they took belongs to the slot."""
    rig = judge_rig(tmp_path, judging("a", "x", "y"), judging("b", "x"))
    session = rig.session()
    assert session.ended.exit_code == 0
    steps = rig.records(StepRecord)
    assert [step.role for step in steps] == [ModelRole.UNDER_TEST, *[ModelRole.JUDGE] * 3]
    assert sorted(step.step.partition(" ")[0] for step in steps[1:]) == ["/score/a", "/score/a", "/score/b"]
    assert {step.model for step in steps[1:]} == {"j"}
    assert [call.role for call in rig.records(CallRecord)] == [ModelRole.UNDER_TEST, *[ModelRole.JUDGE] * 3]
    usages = {one.scorer: (one.usage.input_tokens, *one.shares) for one in rig.records(ScoreRecord)}
    assert usages == {"a": (2, UsageShare("j", Usage(2, 2))), "b": (1, UsageShare("j", Usage(1, 1)))}
    (end,) = rig.ends()
    assert (end.usage.input_tokens, end.calls) == (1, 1)
    report, status = rig.report(), rig.status()
    assert report.usage == status.usage and report.usage.input_tokens == 4
    assert report.cost == status.cost == pytest.approx(6.2e-5)
    assert len([event for event in session.of(StepRecorded) if event.model == "j"]) == 3
    assert reasons(rig) == {}


def test_a_named_model_is_a_conversation_of_its_own_and_the_system_text_is_not_the_judges(tmp_path):
    """No judge reads the verdict of another, or what the model under test is told to be."""

    async def panel(answer, sample, scope):
        first = await scope.generate("one", model="j")
        second = await scope.generate("two", model="j")
        third = await scope.generate("three")
        fourth = await scope.generate("four")
        return len({first.text, second.text, third.text, fourth.text}) == 4

    rig = judge_rig(tmp_path, scorer(panel))
    rig.tasks = [Task(name="t", samples=samples(1), solver=ask, scorers=[scorer(panel)], system="You are terse.")]
    assert rig.session().ended.exit_code == 0
    assert [len(request.messages) for request in rig.actors["j"].requests] == [1, 1]
    assert [len(request.messages) for request in rig.actors["m"].requests] == [2, 1, 3]


def test_a_retry_of_a_slot_asks_anew_and_other_slots_keep_their_steps(tmp_path):
    """The replies may be what it stumbled over; those of the other slot are not asked for again, nor is the solver."""
    fail = State(True)
    rig = judge_rig(tmp_path, judging("a", "x", fail=fail), judging("b", "y"), max_retries=1)
    assert rig.session().ended.exit_code == 1
    assert rig.actors["j"].by_prompt == {"x": 2, "y": 1}
    assert rig.actors["m"].calls == 1
    scopes = sorted(step.step.partition(" ")[0] for step in rig.records(StepRecord)[1:])
    assert scopes == ["/score/a", "/score/b", "/score~2/a"]
    assert rig.report().usage.input_tokens == 4
    fail.value, rig.redo = False, "status=failed"
    assert rig.session().ended.exit_code == 0
    assert rig.actors["j"].by_prompt == {"x": 3, "y": 1}
    assert (rig.report().usage.input_tokens, rig.status().usage.input_tokens) == (5, 5)
    assert reasons(rig) == {}


@pytest.mark.parametrize("killed_at", [1.5, 2.5, 3.5])
def test_limits_23_a_resume_after_a_kill_replays_what_the_slots_have_on_record(tmp_path, killed_at):
    """Of three judges with three calls each, at most the calls in flight are made again; nothing is counted twice."""
    judge = Actor(seconds=1.0)
    rig = judge_rig(tmp_path, *(judging(name, *(f"{name}{n}" for n in range(3))) for name in "abc"), judge=judge)
    rig.killed_session(killed_at)
    before = judge.by_prompt.copy()
    on_record = len([step for step in rig.records(StepRecord) if step.role is ModelRole.JUDGE])
    assert rig.session().ended.exit_code == 0
    assert judge.calls - sum(before.values()) == 9 - on_record
    assert rig.actors["m"].calls == 1
    assert (rig.report().usage.input_tokens, rig.status().usage.input_tokens) == (10, 10)
    slots = {one.scorer: one.usage.input_tokens for one in rig.records(ScoreRecord)}
    assert slots == {"a": 3, "b": 3, "c": 3}
    assert rig.ends()[-1].usage.input_tokens == 1
    assert reasons(rig) == {}


def test_steps_of_a_scorer_are_taken_once(tmp_path):
    """A command that a scorer runs as a step is not run again after a kill."""
    runs = State([])

    def execute(text):
        runs.value.append(text)
        return text.upper()

    async def judge(answer, sample, scope):
        found = await scope.step("execute", execute, answer.text)
        with scope.scope("part"):
            again = await scope.step("execute", execute, "again")
        await asyncio.sleep(10.0)
        return found == answer.text.upper() and again == "AGAIN"

    rig = Rig(tmp_path / "r", judged_task(scorer(judge)))
    rig.killed_session(5.0)
    assert rig.session().ended.exit_code == 0
    assert runs.value == ["Q0", "again"]
    assert [step.step.partition(" ")[0] for step in rig.records(StepRecord)[1:]] == [
        "/score/judge",
        "/score/judge/part",
    ]
    assert reasons(rig) == {}


def test_an_outage_that_a_scorer_swallows_is_no_score(tmp_path):
    """A judge that never answered has judged nothing."""

    async def down(request, _n):
        raise Unavailable("down")

    async def careless(answer, sample, scope):
        try:
            await scope.generate("verdict", model="j")
        except Unavailable:
            return 0
        return 1

    rig = judge_rig(tmp_path, scorer(careless), judge=Actor(down), retry_deadline=0.01)
    rig.session()
    assert reasons(rig) == {"no reply (score: careless)": 1}
    assert filled(rig) == []


def test_a_judge_that_a_policy_blocks_leaves_the_slot_unscored(tmp_path):
    """As a blocked trial, it is kept and not asked again; the trial is valid without that score."""

    async def refuse(request, _n):
        raise Blocked("not this one")

    rig = judge_rig(tmp_path, judging("a", "x"), exact(), judge=Actor(refuse))
    assert rig.session().ended.exit_code == 0
    (slot,) = [one for one in rig.records(ScoreRecord) if one.scorer == "a"]
    assert slot.unscored and "content policy" in slot.explanation and "not this one" in slot.explanation
    rig.session()
    assert rig.actors["j"].calls == 1
    assert reasons(rig) == {}


def test_a_judge_that_does_not_exist_is_named(tmp_path):
    """A wrong name is an error of the scorer, with the one that was meant."""

    async def judge(answer, sample, scope):
        return bool(await scope.generate("verdict", model="jj"))

    rig = judge_rig(tmp_path, scorer(judge), max_retries=0)
    rig.session()
    assert "'jj'" in rig.ends()[0].error.message
    assert reasons(rig) == {"score: judge": 1}


def test_a_solvers_scope_called_score_is_not_that_of_a_slot(tmp_path):
    """A name of the solver's own never takes over, or hides, what a slot has on record."""

    async def solve(trial):
        return await trial.scope("score/judge").generate(trial.sample.input)

    async def judge(answer, sample, scope):
        reply = await scope.generate(sample.input)
        await asyncio.sleep(10.0)
        return reply.text == answer.text

    actor = Actor()
    rig = Rig(tmp_path / "r", Task(name="t", samples=samples(1), solver=solve, scorers=scorer(judge)), {"m": actor})
    rig.killed_session(5.0)
    assert rig.session().ended.exit_code == 0
    keys = [step.step.partition(" ")[0] for step in rig.records(StepRecord)]
    assert keys == ["/%73core/judge", "/score/judge"]
    assert actor.calls == 2


def test_the_limits_of_a_trial_are_those_of_its_solver(tmp_path):
    """A judge that uses more tokens than the trial may does not make the trial limited."""
    from holdfast import TrialLimits  # noqa: PLC0415

    async def wordy(request, _n):
        return said("long", (1_000, 1_000))

    rig = judge_rig(tmp_path, judging("a", "x", "y"), judge=Actor(wordy))
    rig.tasks = [
        Task(name="t", samples=samples(1), solver=ask, scorers=[judging("a", "x", "y")], limits=TrialLimits(tokens=100))
    ]
    assert rig.session().ended.exit_code == 0
    assert rig.statuses() == {"s0": "valid"}
    assert rig.report().usage.input_tokens == 2_001


def test_two_models_asked_alike_in_one_slot_keep_their_own_replies(tmp_path):
    """The reply of one judge is never given to another that was asked the same."""

    async def answer_as(request, _n):
        return said(f"j says {prompt_of(request)}")

    seen = State([])

    async def panel(answer, sample, scope):
        asked = await asyncio.gather(scope.generate("verdict"), scope.generate("verdict", model="j"))
        seen.value.append([reply.text for reply in asked])
        await asyncio.sleep(10.0)
        return True

    rig = judge_rig(tmp_path, scorer(panel), judge=Actor(answer_as))
    rig.killed_session(5.0)
    assert rig.session().ended.exit_code == 0
    assert seen.value == [["VERDICT", "j says verdict"]] * 2
    assert (rig.actors["m"].calls, rig.actors["j"].calls) == (2, 1)


def test_a_judge_never_gets_the_reply_of_another_model_in_whatever_order_they_are_asked(tmp_path):
    """The model is part of what a call is found by: the same words to another model are another call."""

    async def answer_as(request, _n):
        return said(f"j says {prompt_of(request)}")

    names, seen = State(["", "j"]), State([])

    async def panel(answer, sample, scope):
        for name in names.value:
            seen.value.append((name, (await scope.generate(as_prompt("verdict"), model=name)).text))
            await asyncio.sleep(10.0)
        return True

    rig = judge_rig(tmp_path, scorer(panel), judge=Actor(answer_as))
    rig.killed_session(5.0)
    names.value = ["j", ""]
    assert rig.session().ended.exit_code == 0
    assert seen.value == [("", "VERDICT"), ("j", "j says verdict"), ("", "VERDICT")]
    assert (rig.actors["m"].calls, rig.actors["j"].calls) == (2, 1)


@pytest.mark.parametrize("name", ["~2", "score~2", "50 %"])
def test_a_slot_finds_its_replies_whatever_its_scorer_is_called(tmp_path, name):
    """Also in another branch than the one that asked: a name that looks like a number of a branch is none."""
    in_branch = State(False)

    async def judge(answer, sample, scope):
        asking = scope.generate("verdict", model="j")
        await (asyncio.create_task(asking) if in_branch.value else asking)
        await asyncio.sleep(10.0)
        return True

    rig = judge_rig(tmp_path, scorer(name=name)(judge))
    rig.killed_session(5.0)
    in_branch.value = True
    assert rig.session().ended.exit_code == 0
    assert rig.actors["j"].calls == 1
    assert reasons(rig) == {}


@pytest.mark.parametrize("model", ["", "j"])
def test_what_a_scorer_leaves_behind_asks_nobody_once_the_slot_is_over(tmp_path, model):
    """Neither the model under test nor one that it names then for the first time; the refusal names the scorer."""
    errors, left = [], []

    async def late(scope):
        await asyncio.sleep(5.0)
        try:
            await scope.generate("late", model=model)
        except UsageError as error:
            errors.append(str(error))

    async def judge(answer, sample, scope):
        left.append(asyncio.ensure_future(late(scope)))
        return True

    async def patient(answer, sample):
        await asyncio.sleep(20.0)
        return True

    rig = judge_rig(tmp_path, scorer(judge), scorer(patient))
    assert rig.session().ended.exit_code == 0
    assert (rig.actors["m"].calls, rig.actors["j"].calls) == (1, 0)
    assert errors == [
        "generate was called after the scorer had returned. Await everything that a scorer starts before it returns."
    ]
