"""What judges come to together: the mean of valid scores, or a strict majority of all of them."""

from __future__ import annotations

import pytest

from holdfast.run.core.records import PanelEntry, PlanEntry
from holdfast.run.fold.panels import panel_result, with_panels

SLOTS = ["q/a", "q/b", "q/c"]


def result(combine, *values, slots=SLOTS, pass_at=0.5):
    scores = dict(zip(slots, values, strict=False))
    return panel_result(PanelEntry(slots, combine, pass_at), scores)


@pytest.mark.parametrize(
    ("combine", "values", "expected"),
    [
        ("mean", (1.0, 0.0, 0.5), (0.5, "")),
        ("mean", (1.0, None, 0.5), (0.75, "")),
        ("mean", (None, None, None), (None, "no valid verdict")),
        ("mean", (1e308, 1e308, 1e308), (1e308, "")),
        ("majority", (1.0, 1.0, 0.0), (1.0, "")),
        ("majority", (0.0, 0.4, 1.0), (0.0, "")),
        ("majority", (0.5, 1.0, None), (1.0, "")),
        ("majority", (1.0, 0.0, None), (None, "no majority")),
        ("majority", (1.0, None, None), (None, "no majority")),
        ("majority", (None, None, None), (None, "no valid verdict")),
    ],
)
def test_experiments_10_judges_that_disagree(combine, values, expected):
    """An invalid judge stays in the denominator of a majority, and no order breaks a tie."""
    assert tuple(result(combine, *values)) == expected
    assert tuple(result(combine, *reversed(values))) == expected


def test_experiments_10_two_against_two_is_no_majority():
    slots = ["q/a", "q/b", "q/c", "q/d"]
    assert tuple(result("majority", 1.0, 1.0, 0.0, 0.0, slots=slots)) == (None, "no majority")


def test_a_panel_waits_for_all_of_its_judges():
    """One whose slot is not filled may still decide."""
    assert result("majority", 1.0, 1.0) is None


def test_people_see_a_panel_before_its_judges_and_a_single_judge_as_the_scorer():
    panels = {"q": PanelEntry(["q/a", "q/b"]), "r": PanelEntry(["r/a"])}
    scores = {"exact": 1.0, "q/a": 1.0, "r/a": 0.5, "q/b": 0.0}
    assert {name: found.value for name, found in with_panels(scores, panels).items()} == {
        "exact": 1.0,
        "q": 0.5,
        "q/a": 1.0,
        "q/b": 0.0,
        "r": 0.5,
    }
    assert PlanEntry("t", "m", 1, list(scores), panels=panels).shown_scorers == ["exact", "q", "q/a", "q/b", "r"]
