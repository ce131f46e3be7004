"""The report is a pure function of the journal: how a run came to its records is not in it."""

from __future__ import annotations

import asyncio
import math
import statistics
from pathlib import Path

import msgspec
import pytest

from engine.rig import Actor, Rig, interrupt, said, samples, simple_task
from engine.virtual import seeded
from holdfast import Score, Task, scorer
from holdfast.analysis.metrics import Metric
from holdfast.analysis.report import Report, make_report
from holdfast.analysis.status import run_status
from holdfast.models.message import Usage
from holdfast.run import SessionContents, create_run
from holdfast.run.core.records import PlanEntry, Status, TrialRecord, UsageShare
from holdfast.run.fold.reader import RunReader

APART = ("timing", "lineage")


def told(report: Report) -> bytes:
    """The bytes of a report, without the sections that say how the run went."""
    plain = msgspec.to_builtins(report)
    return msgspec.json.encode({name: value for name, value in plain.items() if name not in APART})


async def draft_and_branches(trial):
    """A solver with a call, two branches and a step; what it asks depends on the sample alone."""
    draft = await trial.generate(trial.sample.input)

    async def branch(name: str):
        await trial.generate(f"{name} of {draft.text}")
        return await trial.generate(f"{name} once more")

    left, right = await asyncio.gather(branch("left"), branch("right"))
    length = await trial.step("length", measure, left.text + right.text)
    if trial.attempt == 1 and trial.sample.input.endswith("3"):
        raise ValueError("the first attempt at some samples fails")
    return f"{left.text} {length}"


async def measure(text: str) -> int:
    return len(text)


def graded(answer, sample):
    return Score((len(answer.text) % 7) / 7, explanation=answer.text)


def lengthy(answer, sample):
    return len(answer.text) % 2 == 0


async def reproducible(request, number):
    """Replies, usage and time depend on the request only."""
    text = request.messages[-1].content
    await asyncio.sleep((len(text) * 37 % 11) / 10)
    return said(text[::-1], (len(text), len(text) % 5 + 1))


def evaluation(root: Path, **settings) -> Rig:
    task = Task(
        name="t",
        samples=samples(6),
        solver=draft_and_branches,
        scorers=[scorer(graded), scorer(lengthy)],
        epochs=2,
        axes={"tone": ["kind", "rude"]},
    )
    price = {"price": {"input": 0.1, "output": 0.7}}
    actors = {"a": Actor(reproducible), "b": Actor(reproducible)}
    return Rig(root, [task, simple_task(5, name="u")], actors, {"a": price, "b": price}, settings)


@pytest.fixture(scope="module")
def clean_report(tmp_path_factory):
    """The report of a run that nothing ever happened to."""
    rig = evaluation(tmp_path_factory.mktemp("clean") / "r")
    assert rig.session().ended.exit_code == 0
    return told(rig.report())


@pytest.mark.parametrize("seed", range(3))
def test_resume_46_interrupted_at_random_or_never_the_report_is_the_same(tmp_path, clean_report, seed):
    """Kills, interrupts and widths change the order of everything, and not one byte of the report."""
    rng = seeded(seed)
    rig = evaluation(tmp_path / "r", concurrency_limit=rng.choice([3, 7, 64]), grace_period=rng.choice([0.0, 0.3]))
    ways = []
    for _ in range(20):
        seconds = rng.uniform(0.1, 4.0)
        if rng.random() < 0.5:
            ended = rig.killed_session(seconds).ended
        else:
            rig.at = {seconds: interrupt, seconds + rng.uniform(0.0, 1.0): interrupt}
            ended = rig.session().ended
        ways.append(ended.how)
        if ended.exit_code == 0:
            break
    assert ways.count("killed") + ways.count("interrupted") >= 2
    assert rig.session().ended.exit_code == 0
    assert told(rig.report()) == clean_report
    assert rig.is_sound()


def test_a_report_reads_the_journal_and_changes_nothing(tmp_path):
    """Asked twice it says the same to the last byte, lineage and timing included; the run is not touched."""
    rig = evaluation(tmp_path / "r")
    rig.session()
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    first, second = rig.report(), rig.report()
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()} == before


def written(root: Path, ends: list[TrialRecord], planned: int | None = None, config: dict | None = None) -> RunReader:
    """A run with these ends on record, in this order."""
    count = len({end.trial for end in ends}) if planned is None else planned
    plan = [PlanEntry("t", "m", count, ["exact"])]
    session = create_run(root, SessionContents(name="made", config=config or {}, planned=count, plan=plan))
    for end in ends:
        session.sink.append(end)
    session.close("completed")
    return RunReader(root)


def end_of(number: int, value: float = 1.0, status: Status = Status.VALID, attempt: int = 1, **fields) -> TrialRecord:
    scores = {"exact": value} if status is Status.VALID else {}
    key, sample = f"{number:020x}", f"s{number}"
    return TrialRecord(
        trial=key, attempt=attempt, status=status, task="t", model="m", sample=sample, scores=scores, **fields
    )


def some_shares(rng) -> tuple[UsageShare, ...]:
    return tuple(UsageShare(model, Usage(rng.randint(0, 9), 0), rng.random() < 0.5) for model in ("a", "b"))


@pytest.mark.parametrize("seed", range(5))
def test_figures_do_not_depend_on_the_order_of_records(tmp_path, seed):
    """Sums of floats are exact before they are rounded, so any order of completion gives the same bits."""
    rng = seeded(seed)
    ends = [
        end_of(number, rng.random(), usage=Usage(rng.randint(0, 99), 1), shares=some_shares(rng))
        for number in range(300)
    ]
    found = set()
    for shuffled in range(4):
        rng.shuffle(ends)
        reader = written(tmp_path / str(shuffled), ends)
        found.add(told(make_report(reader)))
        reader.close()
    assert len(found) == 1


def metrics_of(root: Path, values: list[float]):
    reader = written(root, [end_of(number, value) for number, value in enumerate(values)])
    return make_report(reader).tasks["t"]["m"].metrics["exact"]


def test_scores_of_nought_and_one_are_an_accuracy_and_others_a_mean(tmp_path):
    """The name of a metric says what it is; its error is that of the mean, and one value has none."""
    values = [1.0, 0.0, 1.0, 1.0]
    accuracy = metrics_of(tmp_path / "a", values)
    assert list(accuracy) == ["accuracy"]
    assert accuracy["accuracy"].value == 0.75
    assert accuracy["accuracy"].stderr == pytest.approx(statistics.stdev(values) / math.sqrt(4))
    mean = metrics_of(tmp_path / "b", [1.0, 0.25, 1.0, 1.0])
    assert list(mean) == ["mean"] and (mean["mean"].value, mean["mean"].n_samples) == (0.8125, 4)
    single = metrics_of(tmp_path / "c", [0.0])["accuracy"]
    assert single == Metric(0.0, None, None, 1, 1)


def test_coverage_counts_every_planned_trial_once(tmp_path):
    """In one of six states: the denominator is the plan, and only valid trials are scored."""
    ends = [
        end_of(1),
        end_of(2, status=Status.LIMITED, limit="time"),
        end_of(3, status=Status.BLOCKED),
        end_of(4, status=Status.FAILED),
        end_of(4, status=Status.FAILED, attempt=2),
        end_of(5, status=Status.UNFINISHED),
        end_of(6, status=Status.FAILED),
        end_of(6, attempt=2),
    ]
    report = make_report(written(tmp_path / "r", ends, planned=9))
    coverage = report.coverage
    assert (coverage.planned, coverage.valid, coverage.limited, coverage.blocked) == (9, 2, 1, 1)
    assert (coverage.failed, coverage.unfinished, coverage.not_started, coverage.remaining) == (1, 1, 3, 5)
    assert not report.complete
    assert report.tasks["t"]["m"].metrics["exact"]["accuracy"].n_samples == 2
    remaining = "5 remaining: 1 failed (task error), 1 no reply, 3 not started"
    assert f"2 of 9 trials valid, 1 limited, 1 blocked, {remaining}\n" in str(report)


def test_what_was_spent_includes_failed_attempts_and_no_attempt_twice(tmp_path):
    """An unfinished attempt goes on, and brings its usage with it when it ends."""
    spent = {"usage": Usage(10, 1)}
    ends = [
        end_of(1, status=Status.FAILED, **spent),
        end_of(1, attempt=2, **spent),
        end_of(2, status=Status.UNFINISHED, **spent),
        end_of(2, **spent),
    ]
    reader = written(tmp_path / "r", ends, config={"models": {"m": {"price": {"input": 9e3, "output": 1e4}}}})
    report, status = make_report(reader), run_status(reader)
    assert (report.usage, report.cost) == (Usage(30, 3), pytest.approx(0.3))
    assert (status.usage, status.cost) == (report.usage, pytest.approx(report.cost))


def test_a_trial_with_two_final_records_counts_once_by_the_lowest(tmp_path):
    """A record that a late writer added changes nothing, neither a second end nor a failure behind it."""
    ends = [
        end_of(1, 1.0, usage=Usage(1, 0)),
        end_of(1, 0.0, usage=Usage(5, 0)),
        end_of(2, 1.0),
        end_of(2, status=Status.FAILED, attempt=2),
    ]
    reader = written(tmp_path / "r", ends)
    report, status = make_report(reader), run_status(reader)
    assert report.tasks["t"]["m"].metrics["exact"]["accuracy"].value == 1.0
    assert (report.coverage.valid, report.coverage.failed, report.complete) == (2, 0, True)
    assert report.usage == Usage(1, 0)
    assert (status.counts.finished, status.counts.failed, status.state) == (2, 0, "complete")


def test_axes_are_reported_value_by_value(tmp_path):
    """For each value on an axis the trials with that value, and the whole beside them."""
    ends = [end_of(number, float(number % 2), axes={"tone": "kind" if number < 6 else "rude"}) for number in range(10)]
    report = make_report(written(tmp_path / "r", ends))
    group = report.tasks["t"]["m"]
    assert group.metrics["exact"]["accuracy"].n_samples == 10
    kind, rude = (group.axes["tone"][value]["exact"]["accuracy"] for value in ("kind", "rude"))
    assert (kind.n_samples, kind.value, rude.n_samples, rude.value) == (6, 0.5, 4, 0.5)
    assert "t     m      tone=kind  exact accuracy  0.500  [0.188, 0.812]  6" in str(report)


def test_trials_that_are_not_in_the_plan_are_not_reported(tmp_path):
    """What belongs to a task or model that the newest plan does not have is kept, and counted nowhere."""
    other = msgspec.structs.replace(end_of(9, 0.0), model="gone")
    report = make_report(written(tmp_path / "r", [end_of(1), other], planned=1))
    assert list(report.tasks["t"]) == ["m"]
    assert report.coverage.valid == 1 and report.complete


def test_a_run_in_which_nothing_ended_has_a_report(tmp_path):
    """Nothing measured is said as such; it is not an error, and not a zero."""
    report = make_report(written(tmp_path / "r", [], planned=3))
    assert (report.coverage.planned, report.coverage.remaining, report.complete) == (3, 3, False)
    assert report.tasks["t"]["m"].metrics == {}
    assert "INCOMPLETE" in str(report)


def test_the_figure_that_a_person_reads_is_the_one_that_the_replies_give(tmp_path):
    """Fifteen of twenty right answers are 0.75, with its interval and its denominator."""

    async def behave(request, number):
        text = request.messages[-1].content
        return said(text.upper() if int(text[1:]) % 4 else "wrong")

    rig = Rig(tmp_path / "r", simple_task(20), {"m": Actor(behave)})
    rig.session()
    assert "exact accuracy  0.750  [0.531, 0.888]  20" in str(rig.report())
