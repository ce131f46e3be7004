"""One count answers everywhere: every verb, the listing and `Run` give the same numbers in every state of a run.

Whoever adds a state of a trial, or a way to come to one, adds it here.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals import write_dataset, write_eval
from folds import check_fold
from holdfast import Run
from holdfast.journal import JournalWriter
from holdfast.run import RunReader
from holdfast.run.core.codec import encode
from holdfast.run.core.records import Status, TrialRecord
from holdfast.storage import RealFileSystem, crashpoints
from program import stop_process, until

STATES = ("valid", "limited", "blocked", "failed", "unfinished", "not_started")
COUNTS = ("planned", "finished", *STATES, "remaining", "remaining_by_reason")
TASK_FILE = """
from pathlib import Path
from holdfast import Sample, Task, exact, task

async def solve(trial):
    if trial.sample.id == "broken" and Path("is-broken").exists():
        raise ValueError("my bug")
    return (await trial.generate(trial.sample.input)).text

@task
def own():
    names = ["a", "b", "broken", "c"]
    return Task(samples=[Sample(name, target=name, id=name) for name in names], solver=solve, scorers=exact())
"""


class World:
    """An eval of two models, two prompts and a task in Python, and its run `r`: 4 x 2 x 2 + 4 x 2 trials."""

    PLANNED = 24

    def __init__(self, holdfast: Any, directory: Path) -> None:
        self.holdfast, self.directory, self.run = holdfast, directory, directory / "r"
        (directory / "own.py").write_text(TASK_FILE)
        write_dataset(directory, 4)
        self.args: dict[str, Any] = {}
        self.task: dict[str, Any] = {
            "dataset": "rows",
            "prompt": {"plain": "{question}", "polite": "Please: {question}"},
            "target": "{question}",
            "scorers": ["exact"],
        }
        self.more: dict[str, Any] = {}

    def write(self) -> Path:
        model = {"provider": "scripted", "model": "echo", "args": self.args, "price": {"input": 1.0, "output": 2.0}}
        data = {
            "name": "same",
            "concurrency_limit": 3,
            "models": {"m": model, "n": {"provider": "scripted", "model": "echo"}},
            "datasets": {"rows": {"path": "rows.jsonl"}},
            "tasks": {"declared": self.task, "own": {"use": "own.py:own"}},
            **self.more,
        }
        return write_eval(self.directory, data)

    def start(self, **environment: str) -> Any:
        return self.holdfast("run", self.write(), "--run-dir", self.run, **environment)

    def resume(self, *words: object, **environment: str) -> Any:
        return self.holdfast("resume", self.run, *words, **environment)

    def check(self, planned: int = PLANNED) -> dict[str, Any]:
        """Asks everybody; the numbers on which all agree."""
        told = {who: {name: found[name] for name in COUNTS} for who, found in self.ask().items()}
        assert len({repr(found) for found in told.values()}) == 1, told
        counts = told["status"]
        if counts["planned"] is None:
            assert (
                planned == 0 and counts["remaining"] is counts["remaining_by_reason"] is counts["not_started"] is None
            )
            return counts
        assert sum(counts[state] for state in STATES) == counts["planned"] == planned, counts
        assert counts["finished"] == counts["valid"] + counts["limited"] + counts["blocked"]
        assert counts["remaining"] == sum(counts["remaining_by_reason"].values())
        self.check_listing(counts)
        self.check_trials(counts)
        return counts

    def ask(self) -> dict[str, Any]:
        verify = self.holdfast.json("verify", self.run)
        report = self.holdfast.json("report", self.run, code=0)
        found = {
            "status": self.holdfast.json("status", self.run, code=0),
            "report": report["coverage"],
            **({"the report's groups": _summed(report)} if report["coverage"]["planned"] is not None else {}),
            "verify": verify,
            "verify --deep": self.holdfast.json("verify", self.run, "--deep"),
            "show": self.holdfast.json("show", self.run, code=0),
        }
        assert all(answer["schema_version"] == 2 for who, answer in found.items() if "report" not in who)
        assert report["schema_version"] == 2
        assert report["complete"] == (found["status"]["state"] == "complete")
        with Run.open(self.run) as run:
            counts = run.counts
            assert (run.planned, run.finished) == (counts.planned, counts.finished)
            assert run.is_complete == report["complete"]
            of_plan = ("planned", "not_started", "remaining", "remaining_by_reason")
            known = [name for name in COUNTS if counts.planned or name not in of_plan]
            found["Run"] = {name: getattr(counts, name) if name in known else None for name in COUNTS}
        return found

    def check_listing(self, counts: dict[str, Any]) -> None:
        (listed,) = self.holdfast.json("recover", "--list", self.run, code=0)["runs"]
        assert (listed["finished"], listed["planned"]) == (counts["finished"], counts["planned"])
        assert listed["states"] == {state: counts[state] for state in STATES}

    def check_trials(self, counts: dict[str, Any]) -> None:
        """One row a trial, each in one state; the fold in the index is the one from the frames, by definition."""
        with Run.open(self.run) as run:
            rows = run.to_dicts()
        assert len({row["trial"] for row in rows}) == len(rows)
        states = Counter(row["state"] for row in rows)
        assert all(states[state] == counts[state] for state in STATES[:-1])
        reasons = Counter(row["reason"] for row in rows if row["state"] in {"failed", "unfinished"})
        begun = {name: n for name, n in counts["remaining_by_reason"].items() if name != "not started"}
        assert reasons == begun
        for row in rows:
            assert row["task"] and row["model"] and row["sample"] and row["input"], row
            if row["state"] == "valid":
                # The scripted model says what it was asked: so the row has the question of its own prompt.
                assert row["answer"] == row["input"], row
        with contextlib.closing(RunReader(self.run)) as reader:
            check_fold(reader)


def _summed(report: dict[str, Any]) -> dict[str, Any]:
    """The coverage of the report's groups, added up."""
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for models in report["tasks"].values():
        for group in models.values():
            coverage = group["coverage"]
            assert sum(coverage[state] for state in STATES) == coverage["planned"]
            total.update({name: coverage[name] for name in COUNTS[:-1]})
            reasons.update(coverage["remaining_by_reason"])
    in_order = [name for name in report["coverage"]["remaining_by_reason"] if reasons[name]]
    named = {name: reasons[name] for name in [*in_order, *sorted(set(reasons) - set(in_order))]}
    return {**{name: total[name] for name in COUNTS[:-1]}, "remaining_by_reason": named}


@pytest.fixture
def world(holdfast, tmp_path):
    return World(holdfast, tmp_path)


POINTS = [point for point in crashpoints.POINTS if not point.startswith(("repair.", "blob."))]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point_all_say_the_same(world, point):
    """In a run's first session, then in its second, then when it is complete."""
    arrival = 9 if point.startswith("frame.") else 1
    first = world.start(HOLDFAST_CRASH_AT=f"{point}:{arrival}")
    if not world.run.exists():
        assert first.code == -signal.SIGKILL
        world.start()
    elif first.code == -signal.SIGKILL:
        world.check()
        world.resume(HOLDFAST_CRASH_AT=f"{point}:{max(arrival // 2, 1)}")
        world.check()
        world.resume(code=0)
    assert world.check()["valid"] == World.PLANNED


def test_new_and_killed_before_the_first_call(world):
    """Nothing is started."""
    world.start(HOLDFAST_CRASH_AT="run.parent-synced")
    assert world.check()["remaining_by_reason"] == {"not started": World.PLANNED}


def test_a_scorer_added_and_the_session_killed(world):
    """Trials that lack the score of a new scorer remain, for that reason, everywhere."""
    world.start()
    world.task["scorers"] = ["exact", "includes"]
    killed = world.resume("--config", world.write(), HOLDFAST_CRASH_AT="frame.acknowledged:4")
    assert killed.code == -signal.SIGKILL
    counts = world.check()
    assert 0 < counts["remaining_by_reason"]["not scored"] <= 16
    assert counts["valid"] == World.PLANNED - counts["unfinished"]
    world.resume(code=0)
    assert world.check()["valid"] == World.PLANNED


def test_a_model_that_refuses_and_is_disabled(world):
    """Its trials remain: those that met the refusal, and those that were never started."""
    world.args = {"errors": [{"rejected": {}}]}
    assert world.start().code == 1
    counts = world.check()
    assert counts["valid"] == World.PLANNED // 2
    assert counts["remaining"] == World.PLANNED // 2


def test_failed_blocked_and_limited_trials(world):
    """Every state but the last at once."""
    (world.directory / "is-broken").touch()
    world.args = {"errors": [{"contains": "q1", "blocked": {}}]}
    world.task["limits"] = {"tokens": 1}
    world.task["max_retries"] = 0
    assert world.start().code == 1
    counts = world.check()
    assert counts["remaining_by_reason"] == {"task error": 2}
    assert (counts["failed"], counts["blocked"] > 0, counts["limited"] > 0, counts["valid"] > 0) == (
        2,
        True,
        True,
        True,
    )
    (world.directory / "is-broken").unlink()
    world.resume("--redo", "status=failed", code=1)
    assert world.check()["remaining"] == 0


SLOTS = """
import asyncio, os
from holdfast import Sample, Score, Task, exact, scorer, task

async def solve(trial):
    return trial.sample.input

@scorer
async def broken(answer, sample):
    if answer.text in "ab" and os.path.exists("is-broken"):
        raise ValueError("my bug")
    return Score(None, explanation="no majority") if answer.text == "c" else 0.5

@scorer
async def judge(answer, sample, scope):
    # One slot is unfinished: the server refuses its judge.
    name = "down" if answer.text == "d" and os.path.exists("is-down") else "m"
    return (await scope.generate("judge " + answer.text, model=name)).text == "judge " + answer.text

@task
def own():
    return Task(samples=[Sample(name, target=name, id=name) for name in "abcd"], solver=solve,
                scorers=[exact(), broken, judge])
"""


def test_slots_filled_unscored_failed_and_unfinished(world):
    """Every state of a score slot at once, and the same with the session killed at any moment; then redone."""
    (world.directory / "own.py").write_text(SLOTS)
    (world.directory / "is-broken").touch()
    (world.directory / "is-down").touch()
    refusing = {"provider": "scripted", "model": "echo", "args": {"errors": [{"rejected": {}}]}}
    echo = {"provider": "scripted", "model": "echo", "price": {"input": 1.0, "output": 2.0}}
    world.more = {
        "models": {"m": echo, "n": echo, "down": refusing},
        "tasks": {"own": {"use": "own.py:own", "models": ["m", "n"]}},
        "runner": {"max_retries": 1},
    }
    killed = world.start(HOLDFAST_CRASH_AT="frame.acknowledged:7")
    assert killed.code == -signal.SIGKILL
    world.check(planned=8)
    assert world.resume().code == 1
    counts = world.check(planned=8)
    assert counts["remaining_by_reason"] == {"score: broken": 4, "refused (score: judge)": 2}
    assert (counts["failed"], counts["unfinished"], counts["valid"]) == (4, 2, 2)
    before = world.holdfast.json("report", world.run)
    assert world.resume().code == 1
    assert world.check(planned=8) == counts
    spent = ("usage", "cost")
    after = world.holdfast.json("report", world.run)
    assert [before[name] for name in spent] == [after[name] for name in spent]
    (world.directory / "is-broken").unlink()
    (world.directory / "is-down").unlink()
    killed = world.resume("--redo", "status=failed", HOLDFAST_CRASH_AT="frame.acknowledged:3")
    assert killed.code == -signal.SIGKILL
    world.check(planned=8)
    world.resume(code=None)
    world.check(planned=8)
    if world.holdfast.json("status", world.run)["failed"]:
        world.resume("--redo", "status=failed", code=0)
    assert world.check(planned=8)["valid"] == 8
    calls = [step for step in world.holdfast.records(world.run, "step") if "error" not in step]
    report, status = world.holdfast.json("report", world.run), world.holdfast.json("status", world.run)
    tokens = sum(step["usage"].get("input_tokens", 0) for step in calls)
    assert report["usage"]["input_tokens"] == status["usage"]["input_tokens"] == tokens
    metrics = report["tasks"]["own"]["m"]["metrics"]
    assert [metrics[name][kind]["n_trials"] for name, kind in (("exact", "accuracy"), ("broken", "mean"))] == [4, 3]


def test_a_kill_between_two_attempts(world):
    """A failed attempt that another was to follow leaves the trial unfinished, not failed."""
    (world.directory / "is-broken").touch()
    # More attempts than there are frames: however many of them a frame holds, the trial is killed before its last one.
    world.more = {"runner": {"max_retries": 400}}
    killed = world.start(HOLDFAST_CRASH_AT="frame.acknowledged:12")
    assert killed.code == -signal.SIGKILL
    ends = [end for end in world.holdfast.records(world.run, "trial") if end["status"] == "failed"]
    assert ends and all(end["will_retry"] for end in ends)
    counts = world.check()
    assert counts["failed"] == 0 and counts["remaining_by_reason"]["interrupted"] > 0


def test_a_late_holder_adds_segments(world):
    """What it adds fills no trial that a newer session has finished, and is counted once."""
    world.start(HOLDFAST_CRASH_AT="frame.acknowledged:8")
    world.check()
    world.resume()
    ends = world.holdfast.records(world.run, "trial")
    with contextlib.closing(RunReader(world.run)) as reader:
        late = JournalWriter(RealFileSystem(), reader.layout.journal, reader.run, 1, writer=7)
    fields = {name: ends[0][name] for name in ("trial", "task", "model", "sample", "axes") if name in ends[0]}
    end = TrialRecord(**fields, attempt=1, status=Status.BLOCKED, epoch=ends[0].get("epoch", 1))
    late.queue.commit(encode(end))
    late.abandon()
    assert world.check()["valid"] == World.PLANNED


def test_after_a_redo_and_while_it_is_cut_short(world):
    """The old result counts until the new attempt has one of its own; a redo that was killed changes nothing."""
    world.start()
    before = world.holdfast.json("report", world.run)["tasks"]
    killed = world.resume("--redo", "task=declared", HOLDFAST_CRASH_AT="frame.acknowledged:4")
    assert killed.code == -signal.SIGKILL
    assert world.check()["valid"] == World.PLANNED
    world.resume("--redo", "task=declared", code=0)
    assert world.check()["valid"] == World.PLANNED
    after = world.holdfast.json("report", world.run)["tasks"]
    assert [before[t][m]["metrics"] for t in before for m in before[t]] == [
        after[t][m]["metrics"] for t in after for m in after[t]
    ]


def test_only_some_of_the_remaining_trials(world):
    """`--where` leaves the others as they are; what is selected and finished exits 0."""
    world.start(HOLDFAST_CRASH_AT="run.parent-synced")
    world.resume("--where", "model=m and task=declared", code=0)
    counts = world.check()
    assert (counts["valid"], counts["remaining_by_reason"]) == (8, {"not started": 16})
    again = world.resume("--where", "model=m and task=declared", code=0)
    assert "nothing was run: all 8 selected trials are finished" in again.out
    world.resume("--where", "model=nobody", code=2)
    assert world.check() == counts
    world.resume(code=0)
    assert world.check()["valid"] == World.PLANNED


def test_a_segment_that_is_lost(world):
    """Its trials remain; nobody counts what the frames do not hold."""
    world.start()
    largest = max((world.run / "journal").iterdir(), key=lambda path: path.stat().st_size)
    data = largest.read_bytes()
    largest.write_bytes(data[: len(data) // 2])
    counts = world.check()
    assert counts["remaining"] > 0
    largest.unlink()
    world.check(planned=world.holdfast.json("status", world.run)["planned"] or 0)


def test_while_a_session_holds_the_run(world, tmp_path):
    """Trials that it is working on are running, and nobody says that they were interrupted."""
    world.args = {"latency": {"seconds": 30}}
    world.more = {"concurrency_limit": 2}
    started = world.holdfast.start("run", world.write(), "--run-dir", world.run)
    try:

        def running():
            if not (world.run / "journal").is_dir():
                return None
            found = world.holdfast.json("status", world.run)
            return found if found.get("remaining_by_reason", {}).get("running") else None

        status = until(running, "trials are running")
        assert status["state"] == "running" and "interrupted" not in status["remaining_by_reason"]
        assert status["held_by"]
        assert world.resume("--where", "model=m", code=4)
    finally:
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
    assert "interrupted" in world.check()["remaining_by_reason"]


def test_all_say_running_while_a_session_holds_the_run(world):
    """A trial that it works on was not interrupted, whoever is asked; an expression finds it."""
    world.args = {"latency": {"seconds": 60}}
    world.more = {"concurrency_limit": 2}
    started = world.holdfast.start("run", world.write(), "--run-dir", world.run)
    try:
        until(
            lambda: (
                (world.run / "journal").is_dir()
                and world.holdfast.json("status", world.run).get("remaining_by_reason", {}).get("running") == 2
            ),
            "two trials are running",
        )
        # Stopped, so that nothing changes between two questions.
        stop_process(started.pid)
        counts = world.check()
        assert (counts["remaining_by_reason"]["running"], "interrupted" in counts["remaining_by_reason"]) == (2, False)
        found = world.holdfast.json("show", world.run, "--where", "reason=running", code=0)
        assert found["matching"] == 2
    finally:
        os.kill(started.pid, signal.SIGKILL)
        started.wait()


def test_what_replies_took_counts_before_their_trial_has_ended(world):
    """Killed after the replies and before any end: tokens and cost of what is on record, everywhere the same."""
    (world.directory / "own.py").write_text(
        TASK_FILE.replace("return (await", "text = (await").replace(
            ".text\n\n@task",
            ".text\n    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n    return text\n\n@task",
        )
    )
    world.more = {"concurrency_limit": 1, "tasks": {"own": {"use": "own.py:own"}}}
    assert world.start().code == -signal.SIGKILL
    steps = world.holdfast.records(world.run, "step")
    tokens = sum(step["usage"].get("input_tokens", 0) for step in steps)
    assert len(steps) == 1 and tokens > 0
    cost = (tokens + 2 * steps[0]["usage"]["output_tokens"]) / 1e6
    for verb in ("status", "report"):
        told = world.holdfast.json(verb, world.run, code=0)
        assert (told["usage"]["input_tokens"], told["cost"]) == (tokens, pytest.approx(cost))
