"""Stages: each outcome is durable before the next stage starts, and none is run twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing

import pytest

from engine.rig import Actor, Rig, said, simple_task
from holdfast import Answer
from holdfast.engine.opening.fork import fork_run
from holdfast.engine.opening.resume import SelectionFinished
from holdfast.engine.trials.history import TrialHistory
from holdfast.engine.trials.stages.cleaning import has_left_trials
from holdfast.errors import UsageError
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import AnswerRecord, NoteRecord, StepRecord
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.remote.recover_without_steps import copy_without_steps
from holdfast.storage import RealFileSystem
from holdfast.tasks.stages import Stage, WorkLost

SECONDS = 10.0


class Staged:
    """A solver with three stages, each of which takes ten seconds and asks or does something durable."""

    def __init__(self, **fails) -> None:
        self.runs: Counter[str] = Counter()
        self.cleaned: list[tuple[str, str]] = []
        self.fails = fails
        self.stages = tuple(Stage(name, getattr(self, f"_{name}")) for name in ("prepare", "solve", "capture"))

    async def _prepare(self, trial, outcomes):
        await self._work("prepare", outcomes, [])
        return {"workspace": f"w-{trial.key}", "draw": await trial.random()}

    async def _solve(self, trial, outcomes):
        reply = await trial.generate(trial.sample.input)
        await self._work("solve", outcomes, ["prepare"])
        return {"text": reply.text, "draw": outcomes["prepare"]["draw"]}

    async def _capture(self, trial, outcomes):
        await self._work("capture", outcomes, ["prepare", "solve"])
        files = await trial.step("list files", lambda: ["a", "b"])
        return {"diff": outcomes["solve"]["text"], "files": files}

    async def _work(self, name, outcomes, before):
        assert list(outcomes) == before
        self.runs[name] += 1
        await asyncio.sleep(SECONDS)
        if self.fails.get(name, 0) >= self.runs[name]:
            raise ValueError(f"{name} is broken")

    def answer(self, _trial, outcomes):
        return Answer(outcomes["capture"]["diff"], value=outcomes["prepare"]["draw"])

    async def clean_up(self, trial, status):
        await asyncio.sleep(SECONDS)
        if self.fails.get("clean_up"):
            raise ValueError("it cannot be removed")
        self.cleaned.append((trial.sample.id, status))


class Judging:
    """A scorer that asks a judge, and fails to be asked twice the same."""

    name = "judge"

    async def __call__(self, answer, sample, scope):  # noqa: ARG002 - the interface of a scorer
        reply = await scope.generate(f"Grade {answer.text} {answer.value}", model="j")
        await asyncio.sleep(SECONDS)
        return float(reply.text == "GOOD")


async def good(_request, _times):
    return said("GOOD")


def staged_rig(tmp_path, solver, samples=2, **options) -> Rig:
    actors = {"m": Actor(), "j": Actor(good)}
    settings = {"tasks": {"t": {"models": ["m"], "fail_fast": False}}, **options.pop("settings", {})}
    return Rig(tmp_path / "r", simple_task(samples, solver, score=Judging()), actors, settings=settings, **options)


def stage_steps(rig: Rig) -> list[str]:
    return [step.name for step in rig.records(StepRecord) if step.step.startswith("stage/")]


@pytest.mark.parametrize("moment", [5.0, 10.5, 15.0, 20.5, 25.0, 30.5, 35.0])
def test_experiments_5_killed_in_or_between_stages_the_agent_is_paid_once(tmp_path, moment):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.killed_session(moment)
    before = Counter(solver.runs)
    ended = rig.session().ended
    assert ended.exit_code == 0, ended
    assert rig.actors["m"].calls == 2
    # A stage whose outcome was durable is not run again.
    for number, name in enumerate(("prepare", "solve", "capture")):
        assert solver.runs[name] == 2 + (before[name] if moment < SECONDS * (number + 1) else 0)
    assert [(end.status.value, end.unused) for end in rig.ends() if end.status.value != "unfinished"] == [
        ("valid", 0)
    ] * 2
    assert rig.ledger() == []
    assert rig.is_sound()


def test_experiments_4_stages_are_on_record_one_by_one_with_digests_of_their_inputs(tmp_path):
    rig = staged_rig(tmp_path, Staged())
    assert rig.session().ended.exit_code == 0
    steps = [step for step in rig.records(StepRecord) if step.step.startswith("stage/")]
    assert Counter(step.name for step in steps) == {"prepare": 2, "solve": 2, "capture": 2, "clean_up": 2}
    assert len({step.step for step in steps if step.name != "clean_up"}) == 6
    assert all(step.seconds == SECONDS for step in steps if step.name != "clean_up")


def test_experiments_4_a_resumed_judge_sees_the_same_prompt(tmp_path):
    rig = staged_rig(tmp_path, Staged())
    rig.killed_session(35.0)
    first = sorted(request.messages[-1].content for request in rig.actors["j"].requests)
    # Nothing of the judges' replies was lost: they are not asked again.
    rig.session()
    assert sorted(request.messages[-1].content for request in rig.actors["j"].requests) == first


def test_clean_up_comes_once_after_the_end_and_again_after_a_kill(tmp_path):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    assert sorted(solver.cleaned) == [("s0", "valid"), ("s1", "valid")]
    rig.session()
    assert len(solver.cleaned) == 2


def test_clean_up_is_left_to_the_next_session_by_a_kill_and_by_a_failure(tmp_path):
    solver = Staged(clean_up=1)
    rig = staged_rig(tmp_path, solver)
    # The ends are durable, and clean-up has started.
    rig.killed_session(45.0)
    assert [end.status.value for end in rig.ends()] == ["valid", "valid"]
    again = rig.session()
    assert again.ended.exit_code == 0
    # Once for the session, however many trials it concerns.
    assert sum("could not be cleaned up after the trial" in text for text in again.messages) == 1
    assert solver.cleaned == []
    assert [note.kind for note in rig.records(NoteRecord) if note.trial] == ["clean_up", "clean_up"]
    solver.fails.clear()
    rig.session()
    assert sorted(solver.cleaned) == [("s0", "valid"), ("s1", "valid")]
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 2}
    rig.session()
    assert len(solver.cleaned) == 2
    assert rig.is_sound()


@pytest.mark.parametrize("option", ["redo", "from"])
def test_a_trial_that_is_attempted_once_more_is_cleaned_up_after_that_alone(tmp_path, option):
    """What an earlier session left of it is what the new attempt works with."""
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.killed_session(45.0)
    assert solver.cleaned == []
    if option == "redo":
        rig.redo = "sample=s0"
    else:
        rig.where, rig.start_from = "sample=s0", "capture"
    assert rig.session().ended.exit_code == 0
    assert solver.cleaned == [("s1", "valid"), ("s0", "valid")]
    assert rig.is_sound()


def test_a_retry_after_capture_failed_keeps_what_solving_came_to(tmp_path):
    solver = Staged(capture=2)
    rig = staged_rig(tmp_path, solver)
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 2
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 4}
    assert [answer.attempt for answer in rig.records(AnswerRecord)] == [2, 2]
    assert rig.ledger() == []
    assert rig.is_sound()


def test_a_retry_after_capture_failed_that_has_not_started_keeps_it_too(tmp_path):
    """The end of the failed attempt is durable, and nothing of the next one: as after a kill between the two."""
    solver = Staged(capture=2)
    rig = staged_rig(tmp_path, solver)
    rig.at[29.5] = lambda execution: setattr(execution._runner._watch, "attempt_ended", lambda *_, **__: True)
    rig.session()
    assert [end.will_retry for end in rig.ends()] == [True, True]
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 2
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 4}
    assert [answer.attempt for answer in rig.records(AnswerRecord)] == [2, 2]
    assert rig.ledger() == []
    assert rig.is_sound()


class Losing(Staged):
    """The work of the first attempts is lost before it is captured; then capturing fails as `fails` says."""

    def __init__(self, lost: int = 1, **fails) -> None:
        super().__init__(**fails)
        self.lost = lost

    async def _capture(self, trial, outcomes):
        if trial.attempt <= self.lost:
            raise WorkLost("The workspace is gone.")
        return await super()._capture(trial, outcomes)


def test_lost_work_takes_no_retry_away(tmp_path):
    """Attempt 1 is lost, attempt 2 fails by itself, and one retry is allowed."""
    rig = staged_rig(tmp_path, Losing(capture=2), settings={"max_retries": 1})
    assert rig.session().ended.exit_code == 0
    ends = [(end.attempt, end.status.value) for end in rig.ends()]
    assert sorted(ends) == [(1, "failed")] * 2 + [(2, "failed")] * 2 + [(3, "valid")] * 2


def test_work_that_is_lost_every_time_is_not_tried_for_ever(tmp_path):
    rig = staged_rig(tmp_path, Losing(lost=99), settings={"max_retries": 0})
    assert rig.session().ended.exit_code == 1
    assert [end.will_retry for end in rig.ends() if end.attempt == 3] == [False] * 2
    assert max(end.attempt for end in rig.ends()) == 3


@pytest.mark.parametrize("is_killed", [False, True])
def test_lost_work_leaves_no_trial_waiting_for_what_others_come_to(tmp_path, is_killed):
    """`fail_fast` counts the first attempt that has not lost its work: the session ends as without the loss."""
    found = []
    for name, solver in (("whole", Staged(capture=9)), ("lost", Losing(capture=9))):
        settings = {"max_retries": 2, "tasks": {"t": {"models": ["m"], "fail_fast": True}}}
        rig = staged_rig(tmp_path / name, solver, samples=1, settings=settings)
        if is_killed:
            rig.killed_session(20.5)
        ended = rig.session().ended
        found.append((ended.how, ended.counts))
        assert rig.is_sound()
    assert found[0] == found[1] and found[1][1].unfinished == 0


def test_what_was_lost_is_not_kept_by_a_retry_after_a_kill(tmp_path):
    """The end of the lost attempt is durable, and nothing of the next one: as after a kill between the two."""
    solver = Losing()
    rig = staged_rig(tmp_path, solver)
    rig.at[19.5] = lambda execution: setattr(execution._runner, "_next_after", lambda *_, **__: None)
    rig.session()
    assert [end.will_retry for end in rig.ends()] == [True, True]
    assert rig.session().ended.exit_code == 0
    assert solver.runs == {"prepare": 4, "solve": 4, "capture": 2}
    assert rig.actors["m"].calls == 4


def test_the_next_stage_gets_an_outcome_without_keys_as_after_a_kill(tmp_path, monkeypatch):
    """What is on record is what the stages were given: after a kill none of them is run again."""
    secret = "sk-held-by-the-environment-0123456789"
    monkeypatch.setenv("STAGE_API_KEY", secret)
    seen = []

    class Leaking(Staged):
        async def _prepare(self, trial, outcomes):
            return {**await super()._prepare(trial, outcomes), "said": f"with {secret}"}

        async def _solve(self, trial, outcomes):
            seen.append(outcomes["prepare"]["said"])
            return await super()._solve(trial, outcomes)

    solver = Leaking()
    rig = staged_rig(tmp_path, solver)
    rig.killed_session(25.0)
    assert rig.session().ended.exit_code == 0
    assert set(seen) == {"with [STAGE_API_KEY]"}
    assert solver.runs["solve"] == rig.actors["m"].calls == 2
    assert rig.is_sound()


def test_a_retry_after_solving_failed_starts_from_nothing(tmp_path):
    solver = Staged(solve=2)
    rig = staged_rig(tmp_path, solver)
    assert rig.session().ended.exit_code == 0
    assert solver.runs == {"prepare": 4, "solve": 4, "capture": 2}
    assert [entry[2:4] for entry in rig.ledger()] == [("retried", 2)]
    assert rig.is_sound()


# Until.


@pytest.mark.parametrize(("until", "ran"), [("prepare", (2, 0, 0)), ("solve", (2, 2, 0)), ("capture", (2, 2, 2))])
def test_experiments_14_trials_are_left_after_a_stage_and_continue_from_there(tmp_path, until, ran):
    solver = Staged()
    rig = staged_rig(tmp_path, solver, until=until)
    ended = rig.session().ended
    assert (ended.how, ended.exit_code) == ("paused", 75)
    assert ended.counts.remaining_by_reason == {f"paused after {until}": 2}
    assert (ended.counts.failed, ended.counts.unfinished) == (0, 2)
    assert tuple(solver.runs[name] for name in ("prepare", "solve", "capture")) == ran
    assert rig.actors["j"].calls == 0
    assert rig.status().state == "paused"
    rig.until = ""
    assert rig.session().ended.exit_code == 0
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 2}
    assert rig.actors["m"].calls == 2
    assert rig.actors["j"].calls == 2
    assert rig.status().state == "complete"
    assert rig.ledger() == []
    assert rig.is_sound()


def test_experiments_14_the_same_stage_again_leaves_nothing_to_do(tmp_path):
    solver = Staged()
    rig = staged_rig(tmp_path, solver, until="solve")
    rig.session()
    for stage in ("solve", "prepare"):
        rig.until = stage
        with pytest.raises(SelectionFinished) as found:
            rig.begin()
        assert len(found.value.selection.passed) == 2
    rig.until = "capture"
    assert rig.session().ended.counts.remaining_by_reason == {"paused after capture": 2}
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 2}


def test_experiments_14_an_earlier_stage_than_was_reached_is_not_named(tmp_path):
    """A killed session has gone further than this one is to: what is on record says how far."""
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.killed_session(25.0)
    rig.until = "prepare"
    assert rig.session().ended.counts.remaining_by_reason == {"paused after solve": 2}
    assert (solver.runs["solve"], solver.runs["capture"]) == (2, 2)


def test_experiments_14_a_plain_task_is_left_with_its_answer(tmp_path):
    rig = Rig(tmp_path / "r", simple_task(3), until="solve")
    ended = rig.session().ended
    assert (ended.exit_code, ended.counts.remaining_by_reason) == (75, {"paused after solve": 3})
    rig.until = "score"
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 3
    assert rig.is_sound()


def test_a_session_that_stops_after_a_stage_does_not_hide_a_failure(tmp_path):
    rig = staged_rig(tmp_path, Staged(prepare=99), until="solve")
    ended = rig.session().ended
    assert (ended.how, ended.exit_code) == ("finished with failures", 1)


def test_no_task_has_the_stage(tmp_path):
    with pytest.raises(UsageError, match="no task of the eval has this stage; the stages are solve, score"):
        Rig(tmp_path / "r", simple_task(1), until="capture").begin()
    assert not (tmp_path / "r").exists()


# From.


@pytest.mark.parametrize(
    ("stage", "ran", "asked"), [("prepare", (3, 3, 3), 3), ("solve", (2, 3, 3), 3), ("capture", (2, 2, 3), 2)]
)
def test_experiments_15_an_attempt_enters_at_a_stage_and_keeps_what_came_before(tmp_path, stage, ran, asked):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    rig.where, rig.start_from = "sample=s1", stage
    assert rig.session().ended.exit_code == 0
    assert tuple(solver.runs[name] for name in ("prepare", "solve", "capture")) == ran
    assert rig.actors["m"].calls == asked
    assert rig.actors["j"].calls == 3
    assert [(end.sample, end.attempt, end.status.value) for end in rig.ends()][2:] == [("s1", 2, "valid")]
    again = {entry[2]: entry[3] for entry in rig.ledger()}
    # The judge is asked again in any case, the model under test only from `solve` on.
    assert again == {"retried": 1 + (asked == 3)}
    assert rig.status().state == "complete"
    assert rig.is_sound()


def test_experiments_15_from_score_makes_no_call_of_the_agent(tmp_path):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    rig.start_from = "score"
    assert rig.session().ended.exit_code == 0
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 2}
    assert (rig.actors["m"].calls, rig.actors["j"].calls) == (2, 4)
    prompts = [request.messages[-1].content for request in rig.actors["j"].requests]
    assert sorted(prompts[:2]) == sorted(prompts[2:])
    assert [entry[2:4] for entry in rig.ledger()] == [("retried", 2)]
    assert rig.report().tasks["t"]["m"].coverage.valid == 2
    assert rig.is_sound()


def test_experiments_15_earlier_results_count_until_the_new_attempt_is_finished(tmp_path):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    rig.start_from = "capture"
    solver.fails = {"capture": 99}
    ended = rig.session().ended
    assert (ended.exit_code, ended.counts.valid) == (1, 2)
    assert rig.actors["m"].calls == 2
    assert rig.is_sound()


@pytest.mark.parametrize(("stage", "moment"), [("capture", 5.0), ("capture", 15.0), ("score", 5.0), ("solve", 15.0)])
def test_experiments_15_a_killed_attempt_continues_from_its_own_records(tmp_path, stage, moment):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    rig.start_from = stage
    rig.killed_session(moment)
    asked = rig.actors["m"].calls, rig.actors["j"].calls
    runs = Counter(solver.runs)
    assert rig.status().state == "complete"
    assert rig.session().ended.exit_code == 0
    assert {end.attempt for end in rig.ends()} == {1, 2}
    assert rig.actors["m"].calls == asked[0]
    # What was durable by then is not done again.
    assert solver.runs["solve"] == runs["solve"]
    assert rig.is_sound()


@pytest.mark.parametrize("moment", [5.0, 15.0])
def test_experiments_15_from_on_a_paused_trial_continues_without_it(tmp_path, moment):
    """A trial without a result that is entered at a stage, and killed there, is resumed without paying again."""
    solver = Staged()
    rig = staged_rig(tmp_path, solver, until="capture")
    rig.session()
    rig.until, rig.start_from = "", "score" if moment == 5.0 else "capture"
    rig.killed_session(moment)
    rig.start_from = ""
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 2
    assert solver.runs["solve"] == 2
    assert rig.is_sound()


def test_experiments_15_from_solve_runs_a_plain_task_again(tmp_path):
    rig = Rig(tmp_path / "r", simple_task(3))
    rig.session()
    rig.where, rig.start_from = "sample=s2", "solve"
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 4
    assert [entry[2:4] for entry in rig.ledger()] == [("retried", 1)]
    rig.where, rig.start_from = None, "score"
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 4
    assert {end.attempt for end in rig.ends()} == {1, 2, 3}
    assert rig.is_sound()


@pytest.mark.parametrize(("start_from", "until"), [("capture", "prepare"), ("score", "solve"), ("solve", "prepare")])
def test_experiments_15_a_stage_to_stop_after_cannot_come_before_the_one_to_start_from(tmp_path, start_from, until):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    rig.start_from, rig.until = start_from, until
    with pytest.raises(UsageError, match=f"{until} comes before {start_from}"):
        rig.session()
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 2}


def test_experiments_15_trials_that_have_not_come_so_far_are_left_alone(tmp_path):
    rig = staged_rig(tmp_path, Staged(), until="prepare")
    rig.session()
    rig.until, rig.start_from = "", "capture"
    with pytest.raises(UsageError, match="no selected trial has come as far as that"):
        rig.begin()


def test_recovery_10_a_copy_without_steps_keeps_the_outcomes_of_stages(tmp_path):
    """Also those that an attempt keeps of an earlier one, by which it has its answer."""
    rig = staged_rig(tmp_path, Staged())
    rig.session()
    rig.start_from = "score"
    rig.session()
    layout = Layout(rig.root)
    with closing(RunScan(layout, find_run_id(RealFileSystem(), layout))) as scan:
        scan.scan_rest()
        copy_without_steps(scan, tmp_path / "slim")
    kept = stage_steps(rig)
    rig.root = tmp_path / "slim"
    assert stage_steps(rig) == kept
    assert kept.count("kept") == 2
    with closing(RunReader(rig.root)) as reader:
        history = TrialHistory(reader)
        assert all(history.answer_and_scores(trial.key).answer is not None for trial in reader.fold.trials())


# Forks.


@pytest.mark.parametrize("moment", [25.0, 100.0])
def test_a_fork_keeps_trials_with_their_answers_and_starts_others_from_the_beginning(tmp_path, moment):
    """What stages left beside the old run is not beside the new one; after kept trials nothing is cleaned up."""
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.killed_session(moment)
    runs, cleaned = Counter(solver.runs), len(solver.cleaned)
    made = {task.name: task for task in rig.tasks}
    started, summary = fork_run(rig.root, rig.spec(), tmp_path / "f", tasks=made)
    started.session.close("forked")
    rig.root = tmp_path / "f"
    kept = 2 if moment == 100.0 else 0
    assert (summary.taken, summary.remaining_by_reason) == (kept, {} if kept else {"unfinished in the run": 2})
    assert Counter(stage_steps(rig))["solve"] == kept
    with closing(RunReader(rig.root)) as reader:
        assert not has_left_trials(reader.fold, made)
    if not kept:
        assert rig.session().ended.exit_code == 0
        assert solver.runs["prepare"] == runs["prepare"] + 2
    assert len(solver.cleaned) == cleaned + 2 - kept
    assert rig.is_sound()
