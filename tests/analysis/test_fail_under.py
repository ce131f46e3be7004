"""Bounds on scores: what a name matches, and that nothing passes which was not measured."""

from __future__ import annotations

import pytest

from holdfast.analysis.fail_under import ScoreBound, check_bounds, compare_bounds, parse_bounds
from holdfast.analysis.metrics import Metric
from holdfast.analysis.report import GroupReport
from holdfast.errors import UsageError
from holdfast.models.message import Usage
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.states import StateCounts

PLAN = [
    PlanEntry("capitals", "small", 4, ["exact", "judge"]),
    PlanEntry("capitals", "gpt-4.1", 4, ["exact", "judge"]),
    PlanEntry("v1.2", "small", 4, ["exact"]),
]


def measured(**scores: float) -> GroupReport:
    metrics = {name: {"mean": Metric(value, None, None, 1, 1)} for name, value in scores.items()}
    return GroupReport(metrics, StateCounts(), Usage(), None)


TASKS = {
    "capitals": {"small": measured(exact=0.75, judge=0.5), "gpt-4.1": measured(exact=1.0)},
    "v1.2": {"small": measured(exact=0.8)},
}


def names(text: str) -> list[str]:
    return [result.score for result in compare_bounds(parse_bounds([text]), PLAN, TASKS)]


def test_a_bound_applies_to_every_score_that_its_name_matches():
    """A scorer, a scorer of a task, or that of one model; without a name, all; dots in names are no matter."""
    assert names("judge=0.1") == ["capitals.small.judge", "capitals.gpt-4.1.judge"]
    assert names("capitals.exact=0.1") == ["capitals.small.exact", "capitals.gpt-4.1.exact"]
    assert names("capitals.gpt-4.1.exact=0.1") == ["capitals.gpt-4.1.exact"]
    assert names("v1.2.exact=0.1") == ["v1.2.small.exact"]
    assert len(names("0.1")) == 5


def test_a_score_passes_if_it_reaches_the_bound():
    """One that nobody has measured is below every bound, also below a negative one."""
    results = compare_bounds([ScoreBound("", 0.75)], PLAN, TASKS)
    assert [result.passed for result in results] == [True, False, True, False, True]
    assert str(results[1]) == "capitals.small.judge is 0.5, below 0.75"
    assert [result.passed for result in compare_bounds([ScoreBound("judge", -9.0)], PLAN, TASKS)] == [True, False]
    assert str(results[3]) == "capitals.gpt-4.1.judge has no value, below 0.75"
    assert not any(result.passed for result in compare_bounds([ScoreBound("", 0.0)], PLAN, {}))


@pytest.mark.parametrize("text", ["", "exact", "exact=", "=0.5", "exact=high", "exact=nan", "inf", "exact=0.5=x"])
def test_what_is_not_a_bound_is_refused(text):
    with pytest.raises(UsageError, match=r"--fail-under capitals\.exact=0\.8"):
        parse_bounds([text])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("capitls.exact=0.5", "Did you mean 'capitals.exact'?"),
        ("zzzzzz=0.5", "There are: capitals.exact, capitals.judge, v1.2.exact."),
        ("capitals=0.5", "Did you mean 'capitals."),
    ],
)
def test_a_name_that_matches_nothing_is_refused_with_a_way_out(text, hint):
    with pytest.raises(UsageError) as caught:
        check_bounds(parse_bounds([text]), PLAN)
    assert hint in str(caught.value)


def test_known_names_are_accepted():
    check_bounds(parse_bounds(["0.5", "exact=1", "capitals.small.judge=-3"]), PLAN)
    with pytest.raises(UsageError, match="has no scorer"):
        check_bounds(parse_bounds(["0.5"]), [PlanEntry("t", "m", 1)])


BINARY = [PlanEntry("capitals", "small", 4, ["exact", "judge"], ["exact"])]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("exact=80", "capitals.exact is an accuracy, between 0 and 1: no score can reach it. Did you mean 0.8?"),
        ("80", "Did you mean 0.8?"),
        ("capitals.small.exact=1.5", "Did you mean 0.015?"),
        ("exact=800", "no score can reach it."),
        ("exact=0", "no score is below it, so it can never fail."),
        ("-1", "no score is below it, so it can never fail."),
    ],
)
def test_a_bound_that_decides_before_anything_is_measured_is_refused(text, told):
    with pytest.raises(UsageError) as caught:
        check_bounds(parse_bounds([text]), BINARY)
    assert told in str(caught.value)


def test_bounds_on_other_scores_may_be_any_number():
    check_bounds(parse_bounds(["judge=80", "judge=-1", "exact=1", "exact=0.5"]), BINARY)
