"""`fail_fast`: a bug that fails every trial is paid for twenty times and not for all of them, killed or not."""

from __future__ import annotations

import contextlib
import random
from itertools import pairwise

import pytest

from engine.rig import Actor, Rig, State, interrupt, said, samples, simple_task
from folds import check_fold
from holdfast import Task, exact
from holdfast.engine.events import TaskStopped
from holdfast.engine.scheduling.task_watch import FIRST_TRIALS, TaskWatch, WatchPhase
from holdfast.models.errors import Blocked, Rejected, Unavailable
from holdfast.run import RunReader
from holdfast.run.core.records import NoteRecord, Status
from holdfast.run.fold.states import SAME_ERROR

SEED = 20261117


class Bug(State):
    """A solver whose code fails for some samples; where it fails for one can be said."""

    def __init__(self, *good: str, others: tuple[str, ...] = ()) -> None:
        super().__init__(None)
        self.good, self.others, self.is_fixed = set(good), set(others), False
        self.attempts: list[str] = []

    async def __call__(self, trial):
        reply = await trial.generate(trial.sample.input)
        self.attempts.append(trial.sample.id)
        if trial.sample.id in self.others:
            raise KeyError("another line")
        if not self.is_fixed and trial.sample.id not in self.good:
            raise ValueError(f"my bug with {trial.sample.id}")
        return reply


def bug_rig(directory, count, bug, actor=None, **settings):
    async def solve(trial):
        return await bug(trial)

    return Rig(directory / "r", simple_task(count, solve), {"m": actor or Actor()}, settings=settings)


def agreed_counts(rig):
    """The counts, on which the fold, the definition, status and report agree."""
    with contextlib.closing(RunReader(rig.root)) as reader:
        check_fold(reader)
        counts = reader.fold.counts
    assert rig.status().counts == rig.report().coverage == counts
    assert sum(counts.states().values()) == counts.planned
    return counts


@pytest.mark.parametrize(("limit", "most"), [(1, 20), (4, 24), (256, 266)])
def test_steps_13_a_bug_is_paid_for_a_few_times(tmp_path, limit, most):
    """No trial is retried, ten others are tried one at a time, and the rest is not started for this reason."""
    actor = Actor(seconds=1.0)
    rig = bug_rig(tmp_path, 1000, Bug(), actor, concurrency_limit=limit)
    session = rig.session()
    assert session.ended.exit_code == 1 and actor.calls <= most
    # The last ten came alone.
    last = sorted(moment for moment, _ in actor.tries)[-10:]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(last))
    (stopped,) = session.of(TaskStopped)
    assert (stopped.task, stopped.failed, stopped.not_started) == ("t", actor.calls, 1000 - actor.calls)
    assert "ValueError: my bug with s0" in stopped.error and "test_fail_fast.py" in stopped.error
    counts = agreed_counts(rig)
    reasons = {"task error": actor.calls, SAME_ERROR: 1000 - actor.calls}
    assert (counts.failed, counts.not_started, counts.remaining_by_reason) == (*reasons.values(), reasons)
    progress = session.execution.progress
    assert (progress.failed, progress.retried, progress.active) == (actor.calls, 0, 0)
    assert rig.is_sound()


def test_steps_14_a_resume_starts_none_of_them_and_a_redo_does(tmp_path):
    """The stop is durable; a redo lifts it, and watches anew."""
    bug, actor = Bug(), Actor()
    rig = bug_rig(tmp_path, 60, bug, actor, concurrency_limit=1)
    rig.session()
    assert rig.session().ended.exit_code == 1 and actor.calls == 20
    rig.redo = "status=failed"
    again = rig.session()
    # Still the same bug: ten of them and ten others.
    assert (again.ended.exit_code, actor.calls) == (1, 40)
    assert agreed_counts(rig).remaining_by_reason[SAME_ERROR] > 0
    bug.is_fixed = True
    assert rig.session().ended.exit_code == 0
    assert agreed_counts(rig).valid == 60


def test_ten_bad_rows_before_good_ones_do_not_stop_the_task(tmp_path):
    """Steps 13: one of those that are drawn succeeds; then the bad ones get the retries that had to wait."""
    good = [f"s{number}" for number in range(10, 2000)]
    bug, actor = Bug(*good), Actor(seconds=1.0)
    rig = bug_rig(tmp_path, 2000, bug, actor, concurrency_limit=4, max_retries=2)
    session = rig.session()
    assert session.of(TaskStopped) == []
    counts = agreed_counts(rig)
    assert (counts.valid, counts.failed) == (1990, 10)
    assert all(bug.attempts.count(f"s{number}") == 3 for number in range(10))
    assert actor.calls == 1990 + 30 and actor.most_active == 4
    assert session.execution.progress.retried == 20


def test_no_second_attempt_starts_before_something_is_known(tmp_path):
    """Until a trial is valid or ten first attempts have ended."""
    bug = Bug("s8")
    rig = bug_rig(tmp_path, 40, bug, concurrency_limit=1)
    rig.session()
    # Then those that had to wait come first, each with all of its attempts.
    assert bug.attempts[:9] == [f"s{number}" for number in range(9)]
    assert bug.attempts[9:25] == [f"s{number}" for number in range(8) for _ in range(2)]


def test_all_trials_of_a_small_task_are_enough(tmp_path):
    """Three of three failed alike: none is retried. Where one differs, all are."""
    bug = Bug()
    rig = bug_rig(tmp_path, 3, bug, concurrency_limit=1, max_retries=2)
    (stopped,) = rig.session().of(TaskStopped)
    assert len(bug.attempts) == stopped.failed == 3 and stopped.not_started == 0
    counts = agreed_counts(rig)
    assert (counts.failed, counts.remaining_by_reason) == (3, {"task error": 3})
    other = Bug(others=("s1",))
    (tmp_path / "other").mkdir()
    rig = bug_rig(tmp_path / "other", 3, other, concurrency_limit=1, max_retries=2)
    assert rig.session().of(TaskStopped) == [] and len(other.attempts) == 9
    assert agreed_counts(rig).failed == 3


def test_a_hundred_trials_that_all_run_at_once_leave_nobody_to_draw(tmp_path):
    """All of them have failed alike: that is enough."""
    bug = Bug()
    rig = bug_rig(tmp_path, 100, bug, Actor(seconds=1.0), concurrency_limit=256)
    (stopped,) = rig.session().of(TaskStopped)
    assert (stopped.failed, len(bug.attempts), agreed_counts(rig).failed) == (100, 100, 100)


def test_switched_off_every_trial_is_retried(tmp_path):
    """Steps 12: five trials with two retries each make fifteen calls."""
    bug = Bug()
    rig = bug_rig(tmp_path, 5, bug, max_retries=2, fail_fast=False)
    assert rig.session().of(TaskStopped) == [] and len(bug.attempts) == 15


def test_infrastructure_never_counts(tmp_path):
    """A server that is down for all trials stops no task; nor does it make a bug look like an outage."""

    async def behave(request, number):
        if int(request.messages[-1].content[1:]) % 2:
            raise Unavailable("down")
        return said("x")

    rig = bug_rig(tmp_path, 40, Bug(), Actor(behave), concurrency_limit=1, retry_deadline=0.001)
    (stopped,) = rig.session().of(TaskStopped)
    # Twenty counted; those without a reply, up to as many again, did not.
    assert stopped.failed == 20
    counts = agreed_counts(rig)
    assert (counts.failed, counts.remaining) == (20, 40)
    assert counts.remaining_by_reason == {"task error": 20, SAME_ERROR: 20} and counts.unfinished >= 10

    async def down(request, number):
        raise Unavailable("down")

    (tmp_path / "down").mkdir()
    rig = bug_rig(tmp_path / "down", 40, Bug(), Actor(down), concurrency_limit=4, retry_deadline=0.001)
    assert rig.session().of(TaskStopped) == []
    assert agreed_counts(rig).remaining_by_reason == {"no reply": 40}


def test_blocked_trials_are_not_failures_alike(tmp_path):
    """One blocked trial among the first ten is enough for the others to be retried."""

    async def behave(request, number):
        if request.messages[-1].content == "q3":
            raise Blocked("policy")
        return said("x")

    bug = Bug()
    rig = bug_rig(tmp_path, 12, bug, Actor(behave), concurrency_limit=1, max_retries=1)
    assert rig.session().of(TaskStopped) == []
    counts = agreed_counts(rig)
    assert (counts.blocked, counts.failed, len(bug.attempts)) == (1, 11, 22)


def test_a_scorer_that_fails_is_no_bug_of_the_solver(tmp_path):
    """The answers are kept, so nothing is spared by stopping."""

    def broken(answer, sample):
        raise ValueError("scorer")

    rig = Rig(tmp_path / "r", simple_task(30, score=broken), settings={"max_retries": 1})
    assert rig.session().of(TaskStopped) == []
    assert agreed_counts(rig).remaining_by_reason == {"score: broken": 30}


def test_other_tasks_go_on(tmp_path):
    """And the models of one task count together, for they run the same code."""
    bug, actors = Bug(), {"m": Actor(seconds=1.0), "n": Actor(seconds=1.0)}

    async def solve(trial):
        return await bug(trial)

    tasks = [simple_task(100, solve, name="broken"), simple_task(50, name="sound")]
    rig = Rig(tmp_path / "r", tasks, actors, settings={"concurrency_limit": 4})
    (stopped,) = rig.session().of(TaskStopped)
    assert stopped.task == "broken" and len(bug.attempts) <= 24
    counts = agreed_counts(rig)
    assert (counts.planned, counts.valid, counts.failed) == (300, 100, len(bug.attempts))
    with contextlib.closing(RunReader(rig.root)) as reader:
        for (task, model), group in reader.fold.counts_by_group().items():
            assert group.remaining_by_reason.get(SAME_ERROR, 0) == (group.not_started if task == "broken" else 0)
            assert sum(group.states().values()) == group.planned == (100 if task == "broken" else 50), model


def test_a_model_for_which_the_code_works_is_a_success(tmp_path):
    """What one model says may be what the code stumbles over: the others are not kept from theirs."""

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        return reply.text if reply.text.startswith("fine") else reply.text.split("=")[1]

    async def fine(request, number):
        return said("fine")

    rig = Rig(tmp_path / "r", simple_task(40, solve), {"m": Actor(), "n": Actor(fine)}, settings={"max_retries": 1})
    assert rig.session().of(TaskStopped) == []
    counts = agreed_counts(rig)
    assert (counts.valid, counts.failed) == (40, 40)


def test_the_stop_of_a_killed_session_is_the_same_stop(tmp_path):
    """Killed again and again while it finds out: the same trials have failed, with the same number of calls."""
    noise = random.Random(SEED)
    whole = bug_rig(tmp_path, 200, Bug(), Actor(seconds=1.0), concurrency_limit=1)
    whole.session()
    expected = {end.sample for end in whole.ends()}
    for turn in range(6):
        (tmp_path / str(turn)).mkdir()
        actor = Actor(seconds=1.0)
        rig = bug_rig(tmp_path / str(turn), 200, Bug(), actor, concurrency_limit=1)
        kills = 0
        while rig.killed_session(noise.uniform(0.5, 6.0)).ended.how == "killed":
            kills += 1
            agreed_counts(rig)
        assert {end.sample for end in rig.ends()} == expected, f"seed {SEED}, turn {turn}"
        # A call in flight at a kill is made again, and nothing else.
        assert actor.calls <= 20 + kills
        assert agreed_counts(rig).remaining_by_reason == {"task error": 20, SAME_ERROR: 180}
        assert rig.session().of(TaskStopped) == [] and rig.is_sound()


@pytest.mark.parametrize("limit", [1, 3, 16])
def test_killed_while_retries_wait_they_are_made_all_the_same(tmp_path, limit):
    """Ten bad rows in front: whatever is killed, each of them gets its three attempts, and no more."""
    noise = random.Random(SEED + limit)
    good = [f"s{number}" for number in range(10, 40)]
    bug, actor = Bug(*good), Actor(seconds=1.0)
    rig = bug_rig(tmp_path, 40, bug, actor, concurrency_limit=limit, max_retries=2)
    kills = 0
    while rig.killed_session(noise.uniform(0.5, 7.0)).ended.how == "killed":
        kills += 1
        agreed_counts(rig)
    counts = agreed_counts(rig)
    assert (counts.valid, counts.failed) == (30, 10)
    ends = [end for end in rig.ends() if end.status is Status.FAILED]
    assert sorted((end.sample, end.attempt) for end in ends) == sorted(
        (f"s{number}", attempt) for number in range(10) for attempt in (1, 2, 3)
    )
    assert actor.calls <= 30 + 30 + kills * limit
    # What has failed stays failed.
    rig.session()
    assert agreed_counts(rig) == counts


def test_a_success_lifts_it_for_good(tmp_path):
    """A resumed session of a task with a valid trial is not watched: later bugs are retried as ever."""
    bug = Bug("s0")
    rig = bug_rig(tmp_path, 40, bug, Actor(seconds=1.0), concurrency_limit=1, max_retries=1)
    rig.killed_session(1.5)
    assert agreed_counts(rig).valid == 1
    assert rig.session().of(TaskStopped) == []
    counts = agreed_counts(rig)
    assert (counts.failed, len(bug.attempts)) == (39, 1 + 2 * 39)


def test_different_errors_lift_it_for_good_too(tmp_path):
    """Noted in the journal, so that a resumed session does not start the watch anew."""
    bug = Bug(others=("s3",))
    rig = bug_rig(tmp_path, 60, bug, Actor(seconds=1.0), concurrency_limit=1, max_retries=0)
    rig.killed_session(12.5)
    notes = [note.data["step"] for note in rig.records(NoteRecord) if note.kind == "fail fast"]
    assert notes == ["lifted"]
    assert rig.session().of(TaskStopped) == [] and agreed_counts(rig).failed == 60


def test_a_redo_that_is_killed_starts_a_watch_of_its_own(tmp_path):
    """The redo lifted the stop; what the killed session found out since counts, and what it redid stays redone."""
    bug, actor = Bug(), Actor(seconds=1.0)
    rig = bug_rig(tmp_path, 60, bug, actor, concurrency_limit=1)
    rig.session()
    rig.redo = "status=failed"
    rig.killed_session(4.5)
    assert agreed_counts(rig).remaining_by_reason.get(SAME_ERROR) is None
    rig.redo = None
    (stopped,) = rig.session().of(TaskStopped)
    assert stopped.failed == 20
    counts = agreed_counts(rig)
    assert counts.failed + counts.remaining_by_reason[SAME_ERROR] == 60 and counts.unfinished == 0
    bug.is_fixed, rig.redo = True, "status=failed"
    assert rig.session().ended.exit_code == 0 and agreed_counts(rig).valid == 60


def test_one_of_a_small_tasks_failures_run_again(tmp_path):
    """All that this session may run has failed alike once more."""
    bug = Bug()
    rig = bug_rig(tmp_path, 5, bug)
    rig.session()
    rig.redo = "sample=s2"
    rig.session()
    assert bug.attempts[5:] == ["s2"] and agreed_counts(rig).failed == 5
    bug.is_fixed = True
    rig.session()
    counts = agreed_counts(rig)
    # One success: the others are failures like any other, which a redo runs again.
    assert (counts.valid, counts.failed, counts.not_started) == (1, 4, 0)


def test_more_rows_of_a_stopped_task_are_not_started_either(tmp_path):
    """Growth of the plan adds to those that wait for a fix."""
    bug = Bug()

    async def solve(trial):
        return await bug(trial)

    rig = Rig(tmp_path / "r", simple_task(30, solve), settings={"concurrency_limit": 1})
    rig.session()
    rig.tasks = [Task(name="t", samples=samples(50), solver=solve, scorers=exact())]
    rig.session()
    counts = agreed_counts(rig)
    assert (counts.planned, counts.remaining_by_reason) == (50, {"task error": 20, SAME_ERROR: 30})
    assert len(bug.attempts) == 20


# The rules by themselves.


def test_what_may_start():
    """Before the first end nobody waits; after it no more are started than decide."""
    watch = TaskWatch(1000)
    watch.active = 256
    assert watch.allows(is_in_front=False)
    assert not watch.count("a")
    watch.active -= 1
    assert not watch.allows(is_in_front=False) and watch.allows(is_in_front=True)
    watch.active = 0
    assert watch.allows(is_in_front=False)
    for _ in range(FIRST_TRIALS - 1):
        assert not watch.count("a")
    assert watch.phase is WatchPhase.DRAINING and watch.is_quiet and not watch.allows(is_in_front=False)
    # One that was running when it was decided changes nothing, unless it succeeds.
    assert not watch.count("b")
    watch.phase = WatchPhase.CHECKING
    assert not watch.count("a", is_drawn=True) and watch.count("b", is_drawn=True)


@pytest.mark.parametrize("odd", range(FIRST_TRIALS))
def test_one_other_end_among_ten_is_enough(odd):
    """Whatever its place is, and whether it is another error or none."""
    for other in ("b", ""):
        watch = TaskWatch(1000)
        decided = [watch.count(other if number == odd else "a") for number in range(FIRST_TRIALS)]
        assert decided == [False] * (FIRST_TRIALS - 1) + [True]


# Other shapes.


@pytest.mark.parametrize("limit", [3, 16, 64])
def test_a_stop_that_was_killed_on_the_way_leaves_nothing_half_done(tmp_path, limit):
    """What was running when the first ten had failed alike comes to its end first: nothing stays unfinished."""
    noise = random.Random(SEED + limit)
    actor = Actor(seconds=1.0)
    rig = bug_rig(tmp_path, 300, Bug(), actor, concurrency_limit=limit)
    kills = 0
    while rig.killed_session(noise.uniform(0.3, 5.0)).ended.how == "killed":
        kills += 1
        agreed_counts(rig)
    counts = agreed_counts(rig)
    assert kills and counts.unfinished == 0
    assert counts.failed <= max(limit, 10) + 10 and counts.remaining_by_reason[SAME_ERROR] == 300 - counts.failed
    assert actor.calls <= counts.failed + kills * limit


def test_a_model_that_is_disabled_while_others_are_tried(tmp_path):
    """No more can be found out in this session, which ends; the next one goes on where it was."""
    is_refused = State(True)

    async def behave(request, number):
        if is_refused.value and actor.calls > 12:
            raise Rejected("no key", status=401)
        return said("x")

    actor = Actor(behave)
    rig = bug_rig(tmp_path, 60, Bug(), actor, concurrency_limit=1)
    session = rig.session()
    assert session.of(TaskStopped) == [] and session.ended.exit_code == 1
    counts = agreed_counts(rig)
    assert (counts.failed, counts.unfinished, actor.calls) == (0, 13, 13)
    is_refused.value = False
    (stopped,) = rig.session().of(TaskStopped)
    assert stopped.failed == 20 and agreed_counts(rig).failed == 20


def test_interrupted_while_others_are_tried(tmp_path):
    """Ctrl-C ends the session in order; the next one tries the rest of the ten."""
    rig = bug_rig(tmp_path, 60, Bug(), Actor(seconds=1.0), concurrency_limit=1)
    rig.at = {14.5: interrupt}
    assert rig.session().ended.how == "interrupted"
    counts = agreed_counts(rig)
    assert (counts.failed, counts.unfinished, counts.not_started) == (0, 15, 45)
    (stopped,) = rig.session().of(TaskStopped)
    assert stopped.failed == 20 and agreed_counts(rig).remaining_by_reason == {"task error": 20, SAME_ERROR: 40}


def test_a_wrong_type_from_every_trial_stops_the_task_too(tmp_path):
    """It is not worth a retry; but it need not be paid for by all the others either."""

    async def solve(trial):
        await trial.generate(trial.sample.input)
        return 5

    rig = Rig(tmp_path / "r", simple_task(60, solve), settings={"concurrency_limit": 1})
    (stopped,) = rig.session().of(TaskStopped)
    assert stopped.failed == 20 and agreed_counts(rig).failed == 20


def test_every_place_is_drawn_once_and_the_seed_decides_the_order(tmp_path):
    """Other seeds draw others; the same seed draws the same."""

    def drawn(number, seed):
        bug = Bug()

        async def solve(trial):
            return await bug(trial)

        settings = {"concurrency_limit": 1, "seed": seed}
        Rig(tmp_path / str(number), simple_task(100, solve), settings=settings).session()
        assert len(set(bug.attempts)) == 20
        return bug.attempts[10:]

    assert drawn(1, 5) == drawn(2, 5) != drawn(3, 6)
