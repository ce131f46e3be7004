"""Sampling 26 and 31: the report says how samplings went, and what was spent on candidates that lost."""

from __future__ import annotations

import random

import msgspec
import pytest

from durable import change_index, verified
from folds import check_fold
from holdfast.analysis.report import Report, make_report
from holdfast.analysis.status import run_status
from holdfast.models.message import Usage
from holdfast.run.core.records import Status, UsageShare
from holdfast.run.fold.reader import RunReader
from sampled_runs import begin_sampled_run, finish, resume_sampled_run, summary


def report_of(root) -> Report:
    reader = RunReader(root)
    try:
        check_fold(reader)
        return make_report(reader)
    finally:
        reader.close()


def sampling_of(root):
    return report_of(root).tasks["t"]["m"].sampling


def test_sampling_31_the_report_has_every_figure(tmp_path):
    """Success rate by turn, turns used, candidates, calls, and what losers took."""
    session = begin_sampled_run(tmp_path / "run", 4)
    finish(session, "a", summary(0), tokens=2)
    finish(session, "b", summary(2, lost=3, capped="tokens"), tokens=6)
    finish(session, "c", summary(-1, lost=4, capped="calls"), tokens=6)
    finish(session, "d", summary(0, lost=1), summary(0, lost=1, strategy="vote"), tokens=6)
    session.close("completed")
    found = sampling_of(tmp_path / "run")
    assert (found.samplings, found.successes, found.success_rate) == (5, 4, 0.8)
    assert found.success_by_turn == [0.6, 0.6, 0.8]
    assert (found.mean_turns, found.calls) == (9 / 5, 18)
    assert found.candidates == {"valid": 4, "invalid": 14}
    assert found.capped == {"calls": 1, "tokens": 1}
    assert found.strategies == {"repair": 4, "vote": 1}
    assert found.losers.usage == Usage(90, 45)
    assert (found.losers.share, found.losers.cost) == (9 / 20, 135.0)
    text = str(report_of(tmp_path / "run"))
    assert "sampling (repair, vote): 4 of 5 succeeded" in text
    assert "success by turn: 0: 60%, 1: 60%, 2: 80%" in text
    assert "turns used: 1.80 (mean); calls: 18; candidates: 14 invalid, 4 valid" in text
    assert "losers: 90 tokens in, 45 out (45% of all tokens); cost $135.00" in text
    assert "capped: 1 by calls, 1 by tokens" in text


def test_sampling_26_without_a_price_the_cost_of_losers_is_not_known(tmp_path):
    """It is null, and not 0; where no tokens are known, neither is the share."""
    session = begin_sampled_run(tmp_path / "run", config={"models": {}})
    finish(session, "a", summary(0, lost=1))
    session.close("completed")
    losers = sampling_of(tmp_path / "run").losers
    assert (losers.cost, losers.share) == (None, None)


def test_sampling_26_what_another_run_has_paid_for_costs_nothing(tmp_path):
    """Replies of other runs, and trials that a fork has kept, are wasted tokens without a cost."""
    session = begin_sampled_run(tmp_path / "run", 2)
    finish(session, "a", summary(0, wasted=(UsageShare("m", Usage(10, 5), reused=True),)), tokens=2)
    finish(session, "b", summary(0, wasted=(UsageShare("", Usage(10, 5)),)), tokens=2, source="another run")
    session.close("completed")
    losers = sampling_of(tmp_path / "run").losers
    assert (losers.usage, losers.cost, losers.share) == (Usage(20, 10), 0.0, 0.5)


def test_sampling_26_judges_and_larger_models_have_their_own_price(tmp_path):
    """The cost of losers is that of every model by itself."""
    prices = {name: {"price": {"input": price, "output": 0.0}} for name, price in (("m", 1e6), ("judge", 1e7))}
    session = begin_sampled_run(tmp_path / "run", config={"models": prices})
    wasted = (UsageShare("m", Usage(3, 1)), UsageShare("judge", Usage(2, 1)))
    finish(session, "a", summary(1, wasted=wasted), tokens=1)
    session.close("completed")
    assert sampling_of(tmp_path / "run").losers.cost == 23.0


def test_a_run_without_samplings_has_no_such_section(tmp_path):
    """Nothing is said of samplings where there are none."""
    session = begin_sampled_run(tmp_path / "run")
    finish(session, "a", tokens=1)
    session.close("completed")
    assert sampling_of(tmp_path / "run") is None
    assert "sampling" not in str(report_of(tmp_path / "run"))
    reader = RunReader(tmp_path / "run")
    try:
        assert run_status(reader).samplings is None
    finally:
        reader.close()


def test_only_the_attempt_that_counts_is_counted(tmp_path):
    """What a failed attempt has sampled is in what was spent, and nowhere else."""
    session = begin_sampled_run(tmp_path / "run", 2)
    finish(session, "a", summary(-1, lost=5), tokens=5, status=Status.FAILED, stage="solve", will_retry=True)
    finish(session, "a", summary(0, lost=1), tokens=2, attempt=2)
    finish(session, "b", summary(-1), tokens=5, status=Status.FAILED, stage="solve")
    session.close("completed")
    found = report_of(tmp_path / "run")
    assert found.tasks["t"]["m"].sampling.samplings == 1
    assert found.tasks["t"]["m"].sampling.losers.share == pytest.approx(1 / 12)
    assert found.usage == Usage(120, 60)


def test_a_later_session_that_ends_a_trial_anew_takes_the_place_of_its_samplings(tmp_path):
    """Every trial counts once, whichever of its ends is met first."""
    session = begin_sampled_run(tmp_path / "run", 1)
    finish(session, "a", summary(-1, lost=5), tokens=5)
    session.close("interrupted", 130)
    again = resume_sampled_run(tmp_path / "run")
    finish(again, "a", summary(1, lost=1), tokens=2, attempt=2)
    again.close("completed")
    found = sampling_of(tmp_path / "run")
    assert (found.samplings, found.successes, found.losers.usage) == (1, 1, Usage(10, 5))


def test_the_order_and_the_sessions_of_trials_change_no_byte(tmp_path):
    """A report over samplings is the same however the run came to its records."""
    seed = 20261117
    print(f"seed {seed}")
    noise = random.Random(seed)
    ends = [(f"k{number}", [summary(number % 4 - 1, lost=number)] * (1 + number % 2)) for number in range(12)]
    told = set()
    for place in range(3):
        noise.shuffle(ends)
        root = tmp_path / str(place)
        session = begin_sampled_run(root, 12)
        for number, (key, samplings) in enumerate(ends):
            if place and number % 4 == 3:
                session.abandon()
                session = resume_sampled_run(root, 12)
            finish(session, key, *samplings, tokens=20)
        session.close("completed")
        plain = msgspec.to_builtins(report_of(root))
        told.add(
            msgspec.json.encode({name: value for name, value in plain.items() if name not in {"timing", "lineage"}})
        )
    assert len(told) == 1


def test_figures_that_no_sampling_has_do_no_harm(tmp_path):
    """A record with absurd numbers is counted as far as it can be."""
    session = begin_sampled_run(tmp_path / "run", 2)
    absurd = {"turns": -5, "calls": 1 << 63, "candidates": {"valid": -3, "invalid": 1 << 60}}
    finish(session, "a", summary(1 << 60, **absurd, wasted=(UsageShare("m", Usage(-5, 1 << 62)),)))
    finish(session, "b", summary(0))
    session.close("completed")
    reader = RunReader(tmp_path / "run")
    try:
        found = make_report(reader).tasks["t"]["m"].sampling
    finally:
        reader.close()
    assert (found.samplings, found.success_rate, found.success_by_turn[0]) == (2, 1.0, 0.5)
    assert min(found.candidates.values()) >= 0 and found.losers.usage.input_tokens == 0


def test_sampling_31_status_counts_samplings(tmp_path):
    """How many there are, how many succeeded, and how many a cap has stopped."""
    session = begin_sampled_run(tmp_path / "run", 3)
    finish(session, "a", summary(0), summary(1, capped="time"))
    finish(session, "b", summary(-1))
    session.abandon()
    reader = RunReader(tmp_path / "run")
    try:
        found = run_status(reader).samplings
    finally:
        reader.close()
    assert (found.count, found.successes, found.capped) == (3, 2, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sampled SET figure = figure + 1 WHERE kind = 'successes'",
        "DELETE FROM sampled WHERE kind = 'candidate'",
        "INSERT INTO sampled VALUES (1, 'capped', 'time', 2)",
    ],
)
def test_verify_compares_the_samplings_of_an_index(tmp_path, statement):
    """An index that says otherwise than the frames is found out."""
    session = begin_sampled_run(tmp_path / "run")
    finish(session, "a", summary(1, lost=1), tokens=4)
    session.close("completed")
    assert not verified(tmp_path / "run").damage
    change_index(tmp_path / "run" / "index.sqlite", statement)
    assert "totals in the index" in str(verified(tmp_path / "run").damage)
