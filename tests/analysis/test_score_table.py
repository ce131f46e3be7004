"""The table of scores: every figure in 80 columns, whatever things are called."""

from __future__ import annotations

import pytest

from holdfast.analysis.metrics import Metric
from holdfast.analysis.money import money_text
from holdfast.analysis.report import GroupReport
from holdfast.analysis.score_table import axis_table, score_table, score_text
from holdfast.analysis.text_table import plain_name
from holdfast.models.message import Usage
from holdfast.run.fold.states import StateCounts
from holdfast.terminal.width import columns_of, cut

METRIC = Metric(0.75, 0.1, (0.5312, 0.8881), 20, 20)
DONE = StateCounts(planned=20, finished=20, valid=20)


def group(metrics=None, coverage=DONE, cost=None, axes=None) -> GroupReport:
    named = {"exact": {"accuracy": METRIC}} if metrics is None else metrics
    return GroupReport(named, coverage, Usage(), cost, axes or {})


def test_a_row_has_every_figure():
    """The cost and the failed trials are of the task and model, and printed once."""
    other = {"exact": {"accuracy": METRIC}, "judge": {"mean": Metric(3.5, None, None, 1, 1)}}
    coverage = StateCounts(planned=23, finished=20, valid=20, failed=1, not_started=2, remaining=3)
    assert score_table({"cities": {"mini": group(other, coverage, 0.00021)}}, "USD") == [
        "task    model  scorer          score          95% CI   n      cost  failed  left",
        "cities  mini   exact accuracy  0.750  [0.531, 0.888]  20  $0.00021       1     2",
        "cities  mini   judge mean      3.500               -   1",
    ]


def test_what_is_not_known_is_left_out_or_a_dash():
    """Without any price there is no column of costs; without a score there is a dash, never a 0."""
    tasks = {"t": {"m": group({}), "priced": group(cost=0.0)}}
    assert score_table(tasks, "USD") == [
        "task  model   scorer          score          95% CI   n   cost  failed",
        "t     m       -                   -               -   -      -       0",
        "t     priced  exact accuracy  0.750  [0.531, 0.888]  20  $0.00       0",
    ]
    assert "cost" not in score_table({"t": {"m": group()}}, "USD")[0]
    assert score_table({}, "USD") == axis_table({"t": {"m": group()}}) == []


def test_versions_of_a_scorer_side_by_side_are_explained():
    """One line says which is the newest; without versions there is none."""
    scores = {
        "exact": {"accuracy": METRIC},
        "exact@597e8093": {"accuracy": METRIC},
        "graded/j@e0db2a02": {"mean": METRIC},
    }
    lines = score_table({"t": {"m": group(scores)}, "u": {"m": group(scores)}}, "USD")
    assert lines[-1] == "exact, graded/j are the newest versions; names with @ are earlier versions."
    assert len(lines) == 8 and "newest" not in "".join(score_table({"t": {"m": group()}}, "USD"))


HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "a\nb\tc",
    "\u202eevil",
    "日本語の名前" * 9,
    "x" * 5000,
    "ünï" * 40,
    "\0",
    "e\u0301" * 60,
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_name_breaks_the_table(name, width):
    """Long ones are shortened, wide characters take two columns, and nothing that acts on a terminal is printed."""
    coverage = StateCounts(planned=300_000, finished=254_157, failed=12, unfinished=7, not_started=45_000)
    tasks = {name: {name: group({name: {"accuracy": METRIC}}, coverage, 123.4)}, "t": {"m": group()}}
    lines = score_table(tasks, "USD", width)
    assert len(lines) == 3 and all(columns_of(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)
    ends = [columns_of(line) for line in lines]
    assert ends[0] >= ends[1] and "[0.531, 0.888]" in lines[1]
    assert columns_of(lines[0].partition("  score  ")[0]) == columns_of(lines[2].partition("  0.750  ")[0])


def test_names_of_metrics_are_the_first_to_go():
    """Where the table is too wide, what distinguishes rows is kept as long as possible."""
    tasks = {"capitals of the world": {"a model with a long name": group(cost=1.5)}}
    assert score_table(tasks, "USD", 120)[1].split("  ")[2] == "exact accuracy"
    assert score_table(tasks, "USD", 80)[1].startswith("capital… world  a model…g name  exact   0.750")


def test_axes_have_a_table_of_their_own():
    tasks = {"t": {"m": group(axes={"tone": {"kind": {"exact": {"accuracy": METRIC}}, "rude": {}}})}}
    assert axis_table(tasks) == [
        "task  model  axis       scorer          score          95% CI   n",
        "t     m      tone=kind  exact accuracy  0.750  [0.531, 0.888]  20",
        "t     m      tone=rude  -                   -               -   -",
    ]


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "$0.00"), (12.3, "$12.30"), (1234.5, "$1,234.50"), (0.198367, "$0.20"), (0.05, "$0.050"),
        (0.000021, "$0.000021"), (0.0000011, "$0.0000011"), (1e-9, "<$0.000001"), (0.0999999, "$0.100"),
    ],
)  # fmt: skip
def test_an_amount_is_never_shown_as_nothing(amount, text):
    assert money_text(amount, "USD") == text


def test_a_currency_has_its_sign_or_its_name():
    assert money_text(2.5, "EUR") == "€2.50" and money_text(2.5, "CHF") == "CHF 2.50"
    assert money_text(2.5, "a" * 200) == f"{'a' * 12} 2.50"


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.500"), (-1.25, "-1.250"), (12345.6, "1.23e+04"), (2e-5, "2e-05")])
def test_a_score_takes_few_characters(value, text):
    assert score_text(value) == text


def test_text_is_cut_at_columns():
    assert (cut("abcdef", 4), cut("日本語", 4), cut("ab", 4)) == ("abc…", "日…", "ab")
    assert plain_name("a\x1b[1m\u202eb  c") == "ab c"


def test_a_narrow_table_leaves_columns_out():
    """The cost first, then the interval; a line says so, and no name is cut as long as there is room."""
    tasks = {"cities": {"mini": group(cost=0.00021)}}
    assert score_table(tasks, "USD", 60)[-1] == "(cost left out)"
    narrow = score_table(tasks, "USD", 40)
    assert narrow == [
        "task    model  scorer  score   n  failed",
        "cities  mini   exact   0.750  20       0",
        "(cost, 95% CI left out)",
    ]
    assert max(map(len, narrow)) == 40
    assert score_table(tasks, "USD", 10)[0].split() == ["task", "mo…l", "sc…r", "score", "n"]
