"""Cost is worked out when reading: recorded usage by the newest price, for every model by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from folds import check_fold
from holdfast.analysis.report import Report, make_report
from holdfast.analysis.status import run_status
from holdfast.api.trial_results import TrialResults
from holdfast.models.message import Usage
from holdfast.run import RunReader, SessionContents, create_run, open_session, session_record
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import ARTIFACT, Coordinates, PlanEntry, Status, StepRecord, TrialRecord, UsageShare

M, JUDGE = {"input": 1e6, "output": 10e6}, {"input": 100e6, "output": 1000e6}
"""So that a token of input costs 1 and 100, and one of output 10 and 1000."""


def models(**prices) -> dict:
    return {"models": {name: {"price": price} for name, price in prices.items()}}


def written(root: Path, *records, config: dict) -> Path:
    """A run with these records; one trial is planned."""
    contents = SessionContents(name="made", config=config, planned=1, plan=[PlanEntry("t", "m", 1, [])])
    session = create_run(root, contents)
    for record in records:
        session.sink.append(record)
    session.close("interrupted")
    return root


def end(usage: Usage | None = None, *shares: UsageShare, **fields) -> TrialRecord:
    known = {"trial": "t1", "attempt": 1, "status": Status.VALID, "task": "t", "model": "m", "sample": "s"}
    return TrialRecord(**known | {"usage": usage, "shares": shares} | fields)


def reply(usage: Usage, model: str = "m", **fields) -> StepRecord:
    about = Coordinates("t", "m", "s")
    known = {"trial": "t1", "attempt": 1, "step": "generate:a#1", "model": model, "usage": usage, "about": about}
    return StepRecord(**known | fields)


def read(root: Path) -> tuple[Report, float | None]:
    """The report, and what the one trial cost; everybody says the same, in any order of reading."""
    reader = RunReader(root)
    check_fold(reader)
    report, status = make_report(reader), run_status(reader)
    assert (report.usage, report.cost) == (status.usage, status.cost)
    assert report.notes == [note for note in status.notes if "cost" in note]
    (trial,) = reader.fold.trials()
    row = TrialResults(reader).row(trial, with_sample=False)
    reader.close()
    assert row.usage == report.usage and row.cost == report.cost == report.tasks["t"]["m"].cost
    return report, row.cost


def test_usage_costs_what_the_price_says(tmp_path):
    """Whether an end or only replies are on record."""
    ended = written(tmp_path / "a", reply(Usage(3, 2)), end(Usage(3, 2)), config=models(m=M))
    assert read(ended)[1] == 23.0
    cut_short = written(tmp_path / "b", reply(Usage(3, 2)), config=models(m=M))
    assert read(cut_short)[1] == 23.0


def test_cached_and_reasoning_tokens_are_parts_of_the_others(tmp_path):
    """A price has two kinds: what is cached costs as input, what is thought as output."""
    root = written(tmp_path / "r", end(Usage(3, 2, 3, 2)), config=models(m=M))
    assert read(root)[1] == 23.0


@pytest.mark.parametrize("with_steps", [True, False], ids=["with its steps", "without them"])
def test_each_model_has_its_own_price(tmp_path, with_steps):
    """A judge beside the model under test: what it took is its own, though the trial is not."""
    steps = [reply(Usage(3, 2)), reply(Usage(1, 1), "judge", step="/score/x generate:b#1")] if with_steps else []
    root = written(
        tmp_path / "r", *steps, end(Usage(4, 3), UsageShare("judge", Usage(1, 1))), config=models(m=M, judge=JUDGE)
    )
    report, cost = read(root)
    assert (cost, report.usage) == (23.0 + 1100.0, Usage(4, 3))


def test_a_judge_that_is_asked_after_the_end_counts_too(tmp_path):
    """Its replies are beside what the end speaks of."""
    late = reply(Usage(1, 1), "judge", step="/score/x generate:b#1")
    root = written(tmp_path / "r", end(Usage(3, 2)), late, config=models(m=M, judge=JUDGE))
    assert read(root)[0].usage == Usage(4, 3)
    assert read(root)[1] == 23.0 + 1100.0


def test_replies_of_other_runs_cost_nothing(tmp_path):
    """Those of a trial, those of its judge, and those of a trial that was kept whole; their tokens are counted."""
    config, source = models(m=M, judge=JUDGE), {"source": "another run"}
    some = end(Usage(5, 3), UsageShare("m", Usage(2, 1), reused=True))
    report, cost = read(written(tmp_path / "a", some, config=config))
    assert (cost, report.usage) == (23.0, Usage(5, 3))
    steps = [reply(Usage(3, 2)), reply(Usage(2, 1), step="generate:b#1", **source)]
    assert read(written(tmp_path / "b", *steps, some, config=config))[1] == 23.0
    assert read(written(tmp_path / "c", *steps, config=config))[1] == 23.0
    judged = end(Usage(4, 3), UsageShare("judge", Usage(1, 1), reused=True))
    assert read(written(tmp_path / "d", judged, config=config))[1] == 23.0
    kept = end(Usage(4, 3), UsageShare("judge", Usage(1, 1)), **source)
    assert read(written(tmp_path / "e", kept, config=config))[1] == 0.0


def test_a_result_that_a_repair_found_was_paid_for(tmp_path):
    """It is of this run, though its record is from a file."""
    assert read(written(tmp_path / "r", end(Usage(3, 2), source=ARTIFACT), config=models(m=M)))[1] == 23.0


def test_without_any_price_nothing_is_said_of_cost(tmp_path):
    """It is null, and there is no warning: nobody has asked for it."""
    report, cost = read(written(tmp_path / "r", end(Usage(3, 2)), config={"models": {"m": {}}}))
    assert (cost, report.notes) == (None, [])
    assert "cost" not in str(report)


def test_where_one_of_two_models_has_no_price_the_whole_is_not_known(tmp_path):
    """It is null, never the sum of the rest, and the model is named; where that one took nothing it is known."""
    config = models(m=M, judge=None)
    report, cost = read(written(tmp_path / "a", end(Usage(4, 3), UsageShare("judge", Usage(1, 1))), config=config))
    assert cost is None
    assert report.notes == ["The cost is unknown: no price is set for models.judge."]
    assert "note: The cost is unknown: no price is set for models.judge." in str(report)
    free = end(Usage(4, 3), UsageShare("judge", Usage(1, 1), reused=True))
    assert read(written(tmp_path / "b", free, config=config))[1] == 23.0


@pytest.mark.parametrize(
    ("price", "usage", "cost", "missing"),
    [
        ({"input": 1e6}, Usage(3, 2), None, "the output tokens of models.m"),
        ({"input": 1e6}, Usage(3, 0), 3.0, ""),
        ({"output": 10e6}, Usage(3, 2), None, "the input tokens of models.m"),
        ({"input": 1e6, "output": None}, Usage(3, 2), None, "the output tokens of models.m"),
        ({"input": 1e6, "output": "much"}, Usage(3, 2), None, "the output tokens of models.m"),
        ({"input": 1e6, "output": True}, Usage(3, 2), None, "the output tokens of models.m"),
        ({"input": 1e6, "output": -1}, Usage(3, 2), None, "the output tokens of models.m"),
        ({"input": 0, "output": 0}, Usage(3, 2), 0.0, ""),
    ],
)
def test_a_kind_of_tokens_without_a_price_makes_the_cost_unknown(tmp_path, price, usage, cost, missing):
    """If tokens of that kind were used; the warning names the model and the kind."""
    report, found = read(written(tmp_path / "r", end(usage), config=models(m=price)))
    assert found == cost
    assert report.notes == ([f"The cost is unknown: no price is set for {missing}."] if missing else [])


@pytest.mark.parametrize("config", [{}, {"models": []}, {"models": {"m": 3}}, {"models": {"m": {"price": 3}}}], ids=str)
def test_a_configuration_that_says_nothing_legible_has_no_price(tmp_path, config):
    """Whatever a session record holds, reading does not fail."""
    report, cost = read(written(tmp_path / "r", end(Usage(3, 2)), config=config))
    assert (cost, report.notes) == (None, [])


def test_the_newest_price_counts_for_everything(tmp_path):
    """Also for what earlier sessions took."""
    root = written(tmp_path / "r", end(Usage(3, 2)), config=models(m=M))

    def dearer(reader, number, pins):
        contents = SessionContents.carried_over(reader.sessions[-1])
        contents.config["models"]["m"]["price"] = JUDGE
        return session_record(reader.run.hex(), number, pins, contents)

    open_session(root, dearer).close("completed")
    assert read(root)[1] == 2300.0


def test_nothing_used_costs_nothing_where_there_is_a_price():
    """And is not known where there is none."""
    assert Prices(models(m=M)).cost({}, {"m"}).amount == 0.0
    assert Prices(models(m=None)).cost({}, {"m"}).amount is None


def test_a_hostile_share_takes_nothing_off(tmp_path):
    """Shares that are larger than the whole, or negative, make no figure less than nothing."""
    shares = UsageShare("judge", Usage(50, 1)), UsageShare("judge", Usage(-9, -9))
    root = written(tmp_path / "r", end(Usage(4, 3), *shares), config=models(m=M, judge=JUDGE))
    reader = RunReader(root)
    assert make_report(reader).usage == Usage(50, 3)
    assert make_report(reader).cost == 20.0 + 6000.0
    reader.close()
