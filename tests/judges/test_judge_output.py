"""Judges in what people read: the report, `show`, expressions, bounds, and the forecast before a start."""

from __future__ import annotations

import json
import re

import pytest
from judged_evals import graded, judged_eval, panel, scripted

A, B = scripted(graded("C", "It is fine."), "a"), scripted(graded("I", "It is not."), "b")
NOBODY = scripted("downgrade: A", "c")


@pytest.fixture
def judged(holdfast, tmp_path):
    """A run with a panel of three, of which one gives no verdict, and a single judge."""
    scorers = ["exact", panel("a", "b", "c", combine="majority"), {"model_graded": {"model": "a"}}]
    eval_file = judged_eval(tmp_path, scorers, a=A, b=B, c=NOBODY)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    return holdfast


def test_experiments_10_the_report_has_the_agreement_of_judges(judged):
    """As a block of its own beneath the task and model, and as lines."""
    group = judged.json("report", "r")["tasks"]["t"]["m"]
    assert group["panels"]["quality"] == {
        "judges": ["a", "b", "c"],
        "combine": "majority",
        "alpha": -0.5,
        "spread": 1.0,
        "effective_judges": None,
        "unscored": 2,
        "reasons": {"no majority": 2},
        "judges_unscored": {"c": {"invalid verdict": 2}},
        "position": None,
    }
    assert set(group["metrics"]) == {"exact", "model_graded", "quality/a", "quality/b"}
    text = judged("report", "r", code=0).out
    assert "quality (3 judges, majority): alpha -0.500, spread 1.000, effective judges -" in text
    assert "quality: 2 unscored (2 no majority)" in text
    assert "quality/c: 2 unscored (2 invalid verdict)" in text


def test_a_run_without_judges_has_no_such_block(holdfast, tmp_path):
    holdfast("run", judged_eval(tmp_path, ["exact"]), "--run-dir", "r", code=0)
    assert holdfast.json("report", "r")["tasks"]["t"]["m"].get("panels") is None


def test_show_prints_every_grade_and_what_the_panel_comes_to(judged):
    text = " ".join(judged("show", "r", "s1#1", code=0).out.split())
    assert "score quality = unscored: no majority" in text
    assert "score quality/a = 1 (C): It is fine." in text
    assert "score quality/b = 0 (I): It is not." in text
    assert "score quality/c = unscored: invalid verdict:" in text
    assert "score model_graded = 1 (C): It is fine." in text


def test_show_counts_the_calls_of_judges_too(judged):
    """Beside those of the solver, by judge; the invalid one was asked twice."""
    text = judged("show", "r", "s1#1", code=0).out
    assert "(attempt 1), 1 call of the solver, 0 replayed" in text
    assert "── judges: 5 calls (a 2, b 1, c 2)" in text


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("quality/a=1", 2),
        ("'quality/b'<1", 2),
        ("scores.quality/b<1", 2),
        ("quality=1", 0),
        ("model_graded=1 and exact=0", 2),
    ],
)
def test_where_selects_by_the_scores_of_panels_and_of_judges(judged, where, count):
    ended = judged("show", "r", "--where", where)
    assert (f"{count} of 2 trials on record match" in ended.out) is bool(count)
    assert ended.code == (0 if count else 2)


def test_people_do_not_see_the_slot_of_a_single_judge(judged):
    """Where there is one judge, its scores are those of the scorer."""
    assert "unknown field" in judged("show", "r", "--where", "model_graded/a=1", code=2).err
    (row, _) = judged.json("show", "r")["trials"]
    assert list(row["scores"]) == ["exact", "quality", "quality/a", "quality/b", "quality/c", "model_graded"]


def test_wrong_is_what_the_panel_says(holdfast, tmp_path):
    """One judge against two makes no answer wrong."""
    scorers = [panel("a", "b", "c", combine="majority")]
    holdfast("run", judged_eval(tmp_path, scorers, a=A, b=B, c=A), "--run-dir", "r", code=0)
    assert "0 of 2 trials on record match --wrong" in holdfast("show", "r", "--wrong", code=0).out


def test_bounds_are_of_panels_and_of_judges(judged):
    assert judged("report", "r", "--fail-under", "quality/a=0.5").code == 0
    assert judged("report", "r", "--fail-under", "t.quality/b=0.5").code != 0
    assert judged("report", "r", "--fail-under", "model_graded=0.5").code == 0
    assert judged("report", "r", "--fail-under", "quality=0.5").code != 0
    assert "did you mean" in judged("report", "r", "--fail-under", "qualty=0.5", code=2).err.lower()


def test_the_forecast_counts_judges_with_their_repairs(holdfast, tmp_path):
    """A pairwise verdict takes two calls, each with one repair; a price gives the cost."""
    price = {"price": {"input": 1, "output": 1}, "generation": {"max_tokens": 100}}
    models = {"a": {**A, **price}, "b": {**B, **price}, "m": {**scripted("x"), **price}}
    scorers = [panel("a", "b"), {"model_graded": {"name": "pair", "model": "a", "pairwise": True}}]
    eval_file = judged_eval(tmp_path, scorers, task={"max_retries": 0}, **models)
    plan = holdfast.json("run", eval_file, "--dry-run", code=0)
    (bound,), total = plan["forecast"], plan["total"]
    judges = bound["judges"]
    for name in ("calls", "cost", "most_calls", "most_cost"):
        parts = [bound[name], *(judge[name] for judge in judges.values())]
        assert total[name] == pytest.approx(sum(parts))
    assert (total["calls"], total["most_calls"]) == (2 + 8, 2 + 16)
    assert {name: judge["most_calls"] for name, judge in judges.items()} == {"a": 2 * (2 + 4), "b": 2 * 2}
    assert {name: judge["calls"] for name, judge in judges.items()} == {"a": 2 + 4, "b": 2}
    assert all(2 * judge["cost"] == judge["most_cost"] > 0 for judge in judges.values())
    text = holdfast("run", eval_file, "--dry-run", code=0).out
    assert re.search(
        r"    a, as a judge: 6 calls \(at least \$[\d.]+\), or 12 if every verdict has to be asked for twice \(at", text
    )
    assert re.search(r"all models and judges: at least \$[\d.]+, or \$[\d.]+ if attempts fail or verdicts have", text)


def test_the_cost_of_judges_stands_under_their_own_names(holdfast, tmp_path):
    """Usage by model in `status`, and the cost by their own prices."""
    priced = {**A, "price": {"input": 1_000_000, "output": 0}}
    free = {**scripted("x"), "price": {"input": 0, "output": 0}}
    holdfast("run", judged_eval(tmp_path, [panel("a")], a=priced, m=free), "--run-dir", "r", code=0)
    used = {}
    for step in holdfast.records("r", "step"):
        used[step["model"]] = used.get(step["model"], 0) + step["usage"]["input_tokens"]
    assert holdfast.json("report", "r")["cost"] == used["a"]
    assert holdfast.json("status", "r")["cost"] == used["a"]


def test_scores_in_python_have_panels(judged, tmp_path):
    from holdfast import Run  # noqa: PLC0415

    with Run.open(tmp_path / "r") as run:
        assert [trial.scores["quality"] for trial in run.trials()] == [None, None]
        (row, _) = run.to_dicts()
        assert row["scores"]["quality/a"] == 1.0 if "scores" in row else row["score.quality/a"] == 1.0
        assert run.panels["t"]["quality"].combine == "majority"


def test_list_scorers_has_it(holdfast):
    listed = {entry["name"]: entry for entry in holdfast.json("list", "scorers", code=0)["scorers"]}
    assert "rubric" in json.dumps(listed["model_graded"])
