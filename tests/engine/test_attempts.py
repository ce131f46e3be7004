"""Attempts: what a task does wrong is tried again, what it returns wrongly is told, and each try is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from pathlib import Path

import pytest

from engine.rig import Actor, Rig, State, ask, interrupt, said, samples, simple_task
from holdfast import Answer, Score, Task, exact, scorer
from holdfast.models.errors import Unavailable
from holdfast.models.redaction import known_secrets
from holdfast.run.core.records import AnswerRecord, ScoreRecord, Status, StepRecord
from holdfast.tasks.source.failure_text import failure_line

RETRIED_AT_ONCE = {"fail_fast": False}
"""All trials of a task so small failing alike would be taken for a bug, and not be retried."""


def failing_until(attempts: int, state: State):
    """A solver that asks twice and fails in its first so many attempts."""

    async def solve(trial):
        state.value += 1
        await trial.generate(f"first {state.value}")
        reply = await trial.generate("second")
        if state.value <= attempts:
            raise ValueError(f"attempt {state.value} went wrong")
        return reply

    return solve


def test_a_failed_attempt_is_followed_by_another_that_replays_nothing_of_it(tmp_path):
    """Its replies may be what it stumbled over; both attempts stay on record side by side."""
    actor, state = Actor(), State(0)
    rig = Rig(tmp_path / "r", simple_task(1, failing_until(1, state)), {"m": actor}, settings=RETRIED_AT_ONCE)
    assert rig.session().ended.exit_code == 0
    assert actor.calls == 4
    first, second = rig.ends()
    assert (first.status, first.attempt, first.error.message) == (Status.FAILED, 1, "attempt 1 went wrong")
    assert (second.status, second.attempt, second.replayed) == (Status.VALID, 2, 0)
    assert [step.attempt for step in rig.records(StepRecord)] == [1, 1, 2, 2]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_no_more_attempts_are_made_than_allowed(tmp_path, retries):
    """After max_retries further attempts the trial has failed: not scored, exit 1, and in the report."""
    state = State(0)
    settings = {"max_retries": retries, **RETRIED_AT_ONCE}
    rig = Rig(tmp_path / "r", simple_task(1, failing_until(99, state)), settings=settings)
    session = rig.session()
    assert (session.ended.exit_code, session.ended.counts.failed) == (1, 1)
    assert [end.attempt for end in rig.ends()] == list(range(1, retries + 2))
    report = rig.report()
    assert (report.coverage.failed, report.coverage.remaining, report.complete) == (1, 1, False)
    assert report.usage.input_tokens == 2 * (retries + 1)


def test_steps_15_a_failed_trial_is_tried_again_by_a_redo_alone_with_attempts_of_its_own(tmp_path):
    """A resume leaves it as it is; a redo gives it another round."""
    state = State(0)
    settings = {"max_retries": 1, **RETRIED_AT_ONCE}
    rig = Rig(tmp_path / "r", simple_task(1, failing_until(4, state)), settings=settings)
    assert rig.session().ended.exit_code == 1
    assert rig.session().ended.exit_code == 1
    assert [end.attempt for end in rig.ends()] == [1, 2]
    rig.redo = "status=failed"
    assert rig.session().ended.exit_code == 1
    assert rig.session().ended.exit_code == 0
    assert [end.attempt for end in rig.ends()] == [1, 2, 3, 4, 5]


def test_an_interrupt_between_two_attempts_grants_no_further_ones(tmp_path):
    """Interrupted or not, as many attempts are made before the trial has failed."""

    async def solve(trial):
        await trial.generate(f"ask {trial.attempt}")
        await asyncio.sleep(10.0)
        raise ValueError("always")

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 2, **RETRIED_AT_ONCE})
    rig.killed_session(15.0)
    rig.killed_session(15.0)
    rig.session()
    assert [end.attempt for end in rig.ends()] == [1, 2, 3]


def test_an_attempt_killed_half_way_goes_on_as_the_same_attempt(tmp_path):
    """The kill was not its fault: the second attempt is still the second, and keeps its reply."""
    actor, state = Actor(), State(False)

    async def solve(trial):
        await trial.generate(f"ask {trial.attempt}")
        if trial.attempt == 1:
            raise ValueError("once")
        await asyncio.sleep(0.0 if state.value else 100.0)
        return "Q0"

    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": actor}, settings=RETRIED_AT_ONCE)
    rig.killed_session(50.0)
    state.value = True
    rig.session()
    assert actor.calls == 2
    assert [(end.attempt, end.status.value) for end in rig.ends()] == [(1, "failed"), (2, "valid")]


def test_a_scorer_that_fails_costs_no_second_answer_and_no_second_judgement(tmp_path):
    """The answer stands, the scores there are stand, and only what failed is done again."""
    actor, times = Actor(), State({"good": 0, "bad": 0})

    def good(answer, sample):
        times.value["good"] += 1
        return True

    def bad(answer, sample):
        times.value["bad"] += 1
        if times.value["bad"] < 3:
            raise RuntimeError("broken scorer")
        return 0.5

    task = Task(name="t", samples=samples(1), solver=ask, scorers=[scorer(good), scorer(bad)])
    rig = Rig(tmp_path / "r", task, {"m": actor})
    assert rig.session().ended.exit_code == 0
    assert actor.calls == 1
    assert times.value == {"good": 1, "bad": 3}
    # The attempts of a slot are its own: the trial has one.
    (end,) = rig.ends()
    assert (end.status, end.attempt, end.scores) == (Status.VALID, 1, {"good": 1.0, "bad": 0.5})
    slots = [(one.scorer, one.slot_attempt, one.value, one.will_retry) for one in rig.records(ScoreRecord)]
    assert slots == [("good", 1, 1.0, False), ("bad", 1, None, True), ("bad", 2, None, True), ("bad", 3, 0.5, False)]
    assert len(rig.records(AnswerRecord)) == 1
    assert rig.report().usage.input_tokens == 1


def test_scores_and_answer_outlive_a_kill_in_a_later_attempt(tmp_path):
    """However attempts and kills fall, the model and the scorer that worked are asked once."""
    actor, state = Actor(), State({"good": 0, "slow": 0})

    async def good(answer, sample):
        state.value["good"] += 1
        return True

    async def slow(answer, sample):
        state.value["slow"] += 1
        if state.value["slow"] == 1:
            raise RuntimeError("broken scorer")
        if state.value["slow"] == 2:
            await asyncio.sleep(1_000.0)
        return True

    task = Task(name="t", samples=samples(1), solver=ask, scorers=[scorer(good), scorer(slow)])
    rig = Rig(tmp_path / "r", task, {"m": actor})
    rig.killed_session(50.0)
    assert rig.session().ended.exit_code == 0
    assert actor.calls == 1
    assert state.value == {"good": 1, "slow": 3}


def test_an_infrastructure_failure_in_a_scorer_leaves_the_trial_unfinished_with_its_answer(tmp_path):
    """A judge that cannot be reached is no verdict."""
    actor, down = Actor(), State(True)

    async def judge(answer, sample):
        if down.value:
            raise Unavailable("the judge is down")
        return True

    rig = Rig(tmp_path / "r", Task(name="t", samples=samples(1), solver=ask, scorers=scorer(judge)), {"m": actor})
    assert rig.session().ended.exit_code == 1
    (end,) = rig.ends()
    assert (end.status, end.stage, end.scores) == (Status.UNFINISHED, "score: judge", {})
    assert rig.status().counts.remaining_by_reason == {"no reply (score: judge)": 1}
    down.value = False
    assert rig.session().ended.exit_code == 0
    assert actor.calls == 1


CYCLE: list = []
CYCLE.append(CYCLE)
ANSWERS = {
    "text is a number": (Answer(123), "whose text is int"),  # type: ignore[arg-type]
    "surrogate in an answer": (Answer("\ud800"), "not valid UTF-8"),
    "surrogate in a text": ("a\udfff", "not valid UTF-8"),
    "value is an object": (Answer("x", object()), "cannot be recorded"),
    "value is NaN": (Answer("x", math.nan), "holds NaN"),
    "value holds infinity": (Answer("x", {"a": [math.inf]}), "an infinite number in the field 'a.0'"),
    "value is a cycle": (Answer("x", CYCLE), "cannot be recorded"),
    "value holds a surrogate": (Answer("x", ["\ud800"]), "not valid UTF-8"),
    "nothing": (None, "returned NoneType"),
    "a number": (5, "returned int"),
}


@pytest.mark.parametrize(("given", "told"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_none_fails_the_attempt_with_a_clear_message(tmp_path, given, told):
    """Nothing unreadable is written, and the other trials go on."""

    async def solve(trial):
        return given

    rig = Rig(tmp_path / "r", [simple_task(1, solve), simple_task(2, name="other")], settings={"max_retries": 0})
    session = rig.session()
    assert (session.ended.counts.finished, session.ended.counts.failed) == (2, 1)
    (failed,) = [end for end in rig.ends() if end.task == "t"]
    assert failed.status is Status.FAILED
    assert told in failed.error.message
    assert rig.is_sound()


SCORES = {
    "explanation is a number": (lambda: Score(1, explanation=5), "an explanation of the type int"),  # type: ignore[arg-type]
    "answer is a list": (lambda: Score(1, answer=["x"]), "an answer of the type list"),  # type: ignore[arg-type]
    "metadata holds an object": (lambda: Score(1, metadata={"x": object()}), "cannot be recorded"),
    "metadata holds NaN": (lambda: Score(1, metadata={"x": math.nan}), "holds NaN in the field 'x'"),
    "metadata is a list": (lambda: Score(1, metadata=[1]), "metadata of the type list"),  # type: ignore[arg-type]
    "surrogate in the explanation": (lambda: Score(1, explanation="\udc00"), "not valid UTF-8"),
    "value is NaN": (lambda: math.nan, "nan"),
    "value is a text": (lambda: "good", "returned str"),
    "value is nothing": (lambda: None, "returned NoneType"),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("make", "told"), SCORES.values(), ids=SCORES)
def test_a_score_that_is_none_fails_the_attempt_with_a_clear_message(tmp_path, make, told, is_async):
    """The scorer is named, the answer is kept, and the slot is on record as failed."""

    def plain(answer, sample):
        return make()

    async def awaited(answer, sample):
        return make()

    judge = scorer(name="judge")(awaited if is_async else plain)
    task = Task(name="t", samples=samples(1), solver=ask, scorers=judge)
    rig = Rig(tmp_path / "r", task, settings={"max_retries": 0})
    assert rig.session().ended.exit_code == 1
    (end,) = rig.ends()
    assert (end.status, end.stage) == (Status.FAILED, "score: judge")
    assert "'judge'" in end.error.message and told in end.error.message
    (slot,) = rig.records(ScoreRecord)
    assert (slot.value, slot.error, slot.will_retry) == (None, end.error, False)
    assert len(rig.records(AnswerRecord)) == 1
    assert rig.is_sound()


def test_scorers_see_the_answer_as_it_is_recorded(tmp_path):
    """A tuple is a list for the first scorer as for one in a later session."""
    seen, state = State([]), State(True)

    async def solve(trial):
        return Answer("x", ("a", {"b": (1, 2)}))

    async def judge(answer, sample):
        seen.value.append(answer)
        if state.value:
            await asyncio.sleep(1_000.0)
        return True

    rig = Rig(tmp_path / "r", Task(name="t", samples=samples(1), solver=solve, scorers=scorer(judge)))
    rig.killed_session(10.0)
    state.value = False
    rig.session()
    assert seen.value == [Answer("x", ["a", {"b": [1, 2]}])] * 2


class Fatal(BaseException):
    """Not even an Exception."""


class Mute(Exception):  # noqa: N818 - what it is
    def __str__(self) -> str:
        raise ValueError("cannot be told")


ERRORS = {
    "exception": (ValueError("wrong"), "ValueError", "wrong"),
    "sys.exit": (SystemExit("bye"), "SystemExit", "bye"),
    "a generator's end": (GeneratorExit("bye"), "GeneratorExit", "bye"),
    "base exception": (Fatal("no"), "Fatal", "no"),
    "group": (ExceptionGroup("several", [KeyError("inner")]), "KeyError", "inner"),
    "cannot be told": (Mute(), "Mute", "its message cannot be read: ValueError"),
    "surrogate": (ValueError("a\ud800"), "ValueError", "a\ufffd"),
    "huge": (ValueError("x" * 10**7), "ValueError", "x" * 100),
    "cancelled by itself": (asyncio.CancelledError(), "CancelledError", "CancelledError"),
}


@pytest.mark.parametrize(("error", "kind", "message"), ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("where", ["solver", "scorer"])
def test_whatever_is_raised_is_a_failed_attempt_on_record(tmp_path, where, error, kind, message):
    """Kind, message and a traceback that begins in the task's own file; the session goes on."""

    async def solve(trial):
        if where == "solver":
            raise error
        return "x"

    def judge(answer, sample):
        raise error

    task = Task(name="t", samples=samples(1), solver=solve, scorers=scorer(judge))
    rig = Rig(tmp_path / "r", [task, simple_task(2, name="other")], settings={"max_retries": 0})
    session = rig.session()
    assert session.ended.counts.finished == 2
    (end,) = [end for end in rig.ends() if end.task == "t"]
    assert (end.status, end.error.kind) == (Status.FAILED, kind)
    assert message in end.error.message
    assert len(end.error.message) < 3000 and len(end.error.traceback) <= 8000
    if kind != "KeyError" and "x" * 100 not in message:
        first = next(line for line in end.error.traceback.splitlines() if line.startswith("  File"))
        assert "holdfast/engine" not in first
    assert session.execution.progress.active == 0
    assert rig.is_sound()


def parse(text: str) -> dict:
    return json.loads(text)


@pytest.mark.parametrize("where", ["solver", "step"])
def test_a_traceback_begins_in_the_users_own_file(tmp_path, where):
    """Nothing of the engine comes before the user's first line, and the failure names the user's last line."""

    async def solve(trial):
        return parse("{") if where == "solver" else await trial.step("parse", parse, "{")

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    first = next(line for line in end.error.traceback.splitlines() if line.startswith("  File"))
    assert first.startswith(f'  File "{__file__}", line ')
    assert failure_line(end.error).endswith(f"({Path(__file__).name}:{parse.__code__.co_firstlineno + 1})")


def test_no_secret_is_recorded_with_an_error(tmp_path):
    """A key that slipped into an exception is not in the journal."""
    known_secrets.remember("TEST_KEY", "sk-abcdefghijklmnop")

    async def solve(trial):
        raise ValueError("401 for sk-abcdefghijklmnop")

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    assert "sk-abcdefghijklmnop" not in end.error.message + end.error.traceback
    assert "[TEST_KEY]" in end.error.message


def test_a_swallowed_cancellation_does_not_keep_an_interrupted_session_alive(tmp_path):
    """A solver that catches everything once is stopped at the next thing it asks for."""

    async def stubborn(trial):
        with contextlib.suppress(BaseException):
            await trial.generate("first")
        return await trial.generate("second")

    actor = Actor(seconds=100.0)
    rig = Rig(tmp_path / "r", simple_task(3, stubborn), {"m": actor}, settings={"grace_period": 1.0})
    rig.at = {10.0: interrupt}
    session = rig.session()
    assert session.ended.exit_code == 130
    assert session.seconds == pytest.approx(11.0)
    assert actor.by_prompt["second"] == 0


def test_failures_that_a_solver_swallows_are_never_scored(tmp_path):
    """What a solver makes of an outage says nothing about the model: the trial remains to be done."""

    async def behave(request, number):
        raise Unavailable("down")

    async def solve(trial):
        try:
            return await trial.generate("x")
        except Exception:  # noqa: BLE001 - what some solvers do
            return "no idea"

    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": Actor(behave)}, settings={"retry_deadline": 10.0})
    assert rig.session().ended.exit_code == 1
    assert rig.statuses() == {"s0": "unfinished"}
    assert rig.records(ScoreRecord) == []


def test_usage_of_failed_attempts_is_counted_once_and_that_of_replays_not_twice(tmp_path):
    """Tokens and cost are those of the replies on record, however often a trial was tried, killed and resumed."""
    state = State(0)

    async def behave(request, number):
        return said("Q0", (100, 10))

    async def solve(trial):
        state.value += 1
        await trial.generate(f"a {trial.attempt}")
        await asyncio.sleep(10.0)
        await trial.generate(f"b {trial.attempt}")
        if trial.attempt == 1:
            raise ValueError("once")
        return "Q0"

    price = {"m": {"price": {"input": 1e4, "output": 1e5}}}
    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": Actor(behave)}, price, settings=RETRIED_AT_ONCE)
    rig.killed_session(5.0)
    rig.killed_session(15.0)
    rig.session()
    report = rig.report()
    assert len(rig.records(StepRecord)) == 4
    assert (report.usage.input_tokens, report.usage.output_tokens) == (400, 40)
    assert report.cost == pytest.approx(4 * (1.0 + 1.0))
    status = rig.status()
    assert (status.usage, status.cost) == (report.usage, report.cost)


def test_exact_is_asked_of_every_valid_trial_only(tmp_path):
    """The first scorer's accuracy rests on the valid trials, and says on how many."""

    async def behave(request, number):
        text = request.messages[-1].content
        return said(text.upper() if text in {"q0", "q1"} else "wrong")

    rig = Rig(tmp_path / "r", Task(name="t", samples=samples(4), solver=ask, scorers=exact()), {"m": Actor(behave)})
    rig.session()
    metric = rig.report().tasks["t"]["m"].metrics["exact"]["accuracy"]
    assert (metric.value, metric.n_trials) == (0.5, 4)
