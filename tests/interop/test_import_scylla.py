"""`holdfast import EXPERIMENT`: a tree of ProjectScylla as a run."""

from __future__ import annotations

import json
import os

import pytest
from scylla_trees import JUDGES, TIERS, result, spoil, write_result, write_tree

from cli_calls import call
from holdfast import Run
from holdfast.errors import UsageError
from holdfast.interop.importing.import_run import import_run
from holdfast.interop.importing.kinds import find_reader


def import_tree(root, place):
    return import_run(find_reader(root).read(root), place)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A run of 590 results, and what its import said."""
    place = tmp_path_factory.mktemp("large")
    return import_tree(write_tree(place / "exp"), place / "run"), Run(place / "run")


def test_experiments_27_all_590_are_a_run_to_report_on(large):
    """590 of 590 over five tiers, whatever the checkpoint says, with tiers that expressions select."""
    summary, run = large
    assert (summary.imported, summary.found, summary.states) == (590, 590, {"valid": 590})
    assert run.counts.valid == run.counts.planned == 590 and run.counts.is_complete
    assert {tier: sum(1 for _ in run.select(f"tier={tier}")) for tier in TIERS} == TIERS
    report = run.report().tasks["exp-1"]["agent-model"]
    assert report.metrics.keys() == {
        *("judge_passed", "judge_score", "judges", "criteria.functional", "criteria.code_quality"),
        *(f"judges/{judge}" for judge in JUDGES),
    }
    assert (report.usage.input_tokens, report.usage.cached_input_tokens) == (590 * 1007, 590 * 7)


def test_experiments_27_judges_criteria_costs_durations_and_every_field_are_kept(large):
    """What the records have no place for is in the end of the trial, as it was."""
    summary, run = large
    trial = next(run.select("tier=T0 and subtest=00 and epoch=2"))
    row = run.result(trial)
    assert row.seconds == 12.5 and row.scores["judges/claude-opus-4-5"] == 0.8 and row.cost is None
    judge = next(score for score in run.scores_of(trial.key) if score.scorer == "judges/claude-opus-4-5")
    assert judge.explanation == "claude-opus-4-5 says so" and judge.answer == "B"
    assert judge.metadata["criteria_scores"]["functional"]["score"] == 0.8
    (end,) = [record for record in run.transcript(trial.key) if hasattr(record, "status")]
    assert end.imported["cost"] == 0.0125 and end.imported["place"] == "T0/00/run_02/run_result.json"
    assert end.imported["fields"]["agent_duration_seconds"] == 10.0 and end.imported["fields"]["exit_code"] == 0
    assert summary.recorded_cost == pytest.approx(590 * 0.0125)


def test_experiments_27_a_file_without_a_verdict_stays_unfinished(tmp_path, capfdbinary):
    """Neither passed nor failed, and what is not whole is named; the rest is imported."""
    root = write_tree(tmp_path / "exp", {"T0": 3})
    reasons = spoil(root)
    write_result(root, "T1", "80", 1, result(1, judge_passed=None, mystery={"x": [1]}))
    told = call(capfdbinary, "import", root, "--run-dir", tmp_path / "run")
    assert told.code == 1 and "imported 5 of 14 results" in told.out
    assert [place for place in reasons if place not in told.out] == []
    assert "kept, but not known here: mystery (1)" in told.out
    run = Run(tmp_path / "run")
    assert (run.counts.valid, run.counts.unfinished) == (4, 1)
    (unfinished,) = run.select("status=unfinished")
    assert run.result(unfinished).reason == "not scored" and "judge_passed" not in run.result(unfinished).scores
    assert call(capfdbinary, "verify", "--deep", tmp_path / "run").code == 0


def test_an_imported_run_is_not_resumed_and_keeps_what_it_is(tmp_path, capfdbinary):
    root = write_tree(tmp_path / "exp", {"T0": 2})
    import_tree(root, tmp_path / "run")
    for words in (["resume"], ["rescore"], ["resume", "--redo", "status=valid"]):
        told = call(capfdbinary, words[0], tmp_path / "run", *words[1:])
        assert told.code == 3 and "imported from ProjectScylla" in told.err, told
    forked = call(capfdbinary, "fork", tmp_path / "run", "--run-dir", tmp_path / "fork")
    assert forked.code == 2 and "imported from ProjectScylla" in forked.err and not (tmp_path / "fork").exists()
    itself = call(capfdbinary, "import", tmp_path / "run", "--run-dir", tmp_path / "other")
    assert itself.code == 2 and "is a run already" in itself.err
    again = call(capfdbinary, "import", root, "--run-dir", tmp_path / "run")
    assert again.code == 2 and "already holds a run" in again.err
    told = call(capfdbinary, "status", tmp_path / "run", "--json")
    assert json.loads(told.out)["state"] == "complete"
    assert any("recorded a cost of 0.0250 USD for 2 trials" in note for note in json.loads(told.out)["notes"])


HOSTILE = [
    None,
    True,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "\ud800",
    "x" * 1000,
    [],
    [[]],
    {},
    {"a": {}},
]


def test_hostile_values_anywhere_lose_nothing(tmp_path):
    """Each field in turn has each odd value: the trial is imported or named, and the others are as they were."""
    root = write_tree(tmp_path / "exp", {"T0": 2})
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    number = 0
    for field in result(1):
        for value in [*HOSTILE, deep]:
            number += 1
            run = 1 + number % 9999
            write_result(root, "T5", f"{number:04}", run, {**result(run), field: value})
    summary = import_tree(root, tmp_path / "run")
    assert summary.found == number + 2
    run = Run(tmp_path / "run")
    assert run.counts.planned == summary.imported and run.counts.valid + run.counts.unfinished == summary.imported
    print(summary.skipped_count, run.counts)
    assert all("run" in item.reason for item in summary.skipped)


def test_a_huge_text_is_kept_whole(tmp_path):
    """A text that is too large for the end of a trial spoils nothing: it has a record of its own."""
    root = write_tree(tmp_path / "exp", {"T0": 1})
    huge, reasoning = "w " * (5 << 20), "because " * (1 << 20) + "!"
    write_result(root, "T1", "00", 1, result(1, judge_reasoning=reasoning, workspace_path=huge))
    import_tree(root, tmp_path / "run")
    run = Run(tmp_path / "run")
    (trial,) = run.select("tier=T1")
    assert run.counts.valid == 2 and trial.state == "valid"
    (score,) = [score for score in run.scores_of(trial.key) if score.scorer == "judge_passed"]
    assert score.explanation == reasoning
    (step,) = run.steps(trial.key)
    assert step.result["fields"]["workspace_path"] == huge and step.result["fields"]["exit_code"] == 0


def test_what_is_of_no_kind_is_refused_with_the_kinds(tmp_path, capfdbinary):
    (tmp_path / "x.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "x.txt", tmp_path / "missing"):
        told = call(capfdbinary, "import", path)
        assert told.code == 2
    assert "does not exist" in told.err
    told = call(capfdbinary, "import", tmp_path / "x.txt")
    assert "ProjectScylla" in told.err and "cannot be imported" in told.err


def test_a_tree_without_a_usable_result_makes_no_run(tmp_path):
    write_result(tmp_path / "exp", "T0", "00", 1, b"{")
    with pytest.raises(UsageError, match="no result that can be imported"):
        import_tree(tmp_path / "exp", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tiers_whose_names_are_no_text_stay_different(tmp_path):
    root = write_tree(tmp_path / "exp", {"T0": 1})
    for name in (b"T\xff", b"T\xfe"):
        write_result(root, os.fsdecode(name), "00", 1, result(1))
    summary = import_tree(root, tmp_path / "run")
    assert (summary.imported, summary.skipped_count) == (3, 0)


@pytest.mark.parametrize("value", ["0.9", float("nan"), float("inf"), True, [1], pytest.param(10**400, id="huge")])
def test_a_score_that_is_no_number_is_kept_and_named(tmp_path, capfdbinary, value):
    """It is under the imported fields as it was, or as text; it is no score, and the exit code is 1."""
    root = write_tree(tmp_path / "exp", {"T0": 1})
    write_result(root, "T0", "00", 1, result(1, judge_score=value, judges=[{"model": "j", "score": value}]))
    told = call(capfdbinary, "import", root, "--run-dir", tmp_path / "run")
    assert told.code == 1 and "of a wrong type and not used: judge_score (1), judges (1)" in told.out
    run = Run(tmp_path / "run")
    (trial,) = run.select("epoch>0")
    row = run.result(trial)
    assert row.state == "valid" and row.scores["judge_passed"] == 1
    assert row.scores.get("judge_score") is None and row.scores.get("judges/j") is None and not row.scores.get("judges")
    (end,) = [record for record in run.transcript(trial.key) if hasattr(record, "status")]
    kept = end.imported["fields"]["judge_score"]
    assert kept == (str(value) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({"token_stats": None, "tokens_input": "10"}, None),
        ({"token_stats": {"input_tokens": 10**30}, "tokens_input": 10, "tokens_output": 5}, (10, 5)),
        ({"token_stats": {"input_tokens": 1.5}, "tokens_input": -5}, None),
        ({"token_stats": {"input_tokens": 0, "output_tokens": 0}}, (0, 0)),
        ({"token_stats": {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 30}}, (31, 2)),
        ({"token_stats": {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": "7"}}, (1000, 50)),
        ({"token_stats": {"input_tokens": 1}}, (1000, 50)),
    ],
)
def test_tokens_are_a_count_or_unknown(tmp_path, capfdbinary, changes, tokens):
    root = write_tree(tmp_path / "exp", {"T0": 1})
    write_result(root, "T0", "00", 1, result(1, **changes))
    import_tree(root, tmp_path / "run")
    told = call(capfdbinary, "report", tmp_path / "run").out
    expected = "unknown" if tokens is None else f"{tokens[0]:,} in, {tokens[1]} out"
    assert f"tokens: {expected}" in told, told


EVAL = """\
models: {m: {provider: scripted, model: m}}
datasets: {d: {path: d.jsonl}}
tasks: {t: {dataset: d, prompt: x, target: y, scorers: [exact]}}
"""


def test_advice_about_an_imported_run_can_be_followed(tmp_path, capfdbinary):
    """Neither resume, fork nor an import into the same place recommends what would be refused next."""
    root, run = write_tree(tmp_path / "exp", {"T0": 1}), tmp_path / "run"
    import_tree(root, run)
    (tmp_path / "eval.yaml").write_text(EVAL)
    again = call(capfdbinary, "import", root, "--run-dir", run)
    assert again.code == 2 and "choose another directory" in again.err and "holdfast resume" not in again.err
    for words in (
        ["resume", run],
        ["diff", run, tmp_path / "eval.yaml"],
        ["fork", run, "--run-dir", tmp_path / "new"],
        ["rescore", run],
    ):
        told = call(capfdbinary, *words)
        assert told.code in (2, 3) and f"holdfast report {run}" in told.err and "holdfast rescore" not in told.err, told


def test_an_import_leaves_its_source_alone(tmp_path, capfdbinary, monkeypatch):
    """Without --run-dir the run would be made in the experiment itself; an empty PATH is no directory."""
    root = write_tree(tmp_path / "exp", {"T0": 1})
    monkeypatch.chdir(root)
    told = call(capfdbinary, "import", ".")
    assert told.code == 2 and "--run-dir" in told.err and not (root / "runs").exists()
    for words in (["import", ""], ["repair", ""]):
        assert call(capfdbinary, *words).code == 2
    assert not (root / "checkpoint.json.backup-1").exists()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("effective_config.yaml", "models: [\n", "effective_config.yaml"),
        ("log.json", '{"version": 2, "eval": {', "it is not valid JSON, or it is incomplete"),
        ("samples_x.jsonl", "", "it is empty"),
    ],
)
def test_a_file_that_cannot_be_recognised_is_refused_with_the_reason(tmp_path, capfdbinary, name, content, reason):
    (tmp_path / name).write_text(content)
    told = call(capfdbinary, "import", tmp_path / name)
    assert told.code == 2 and "cannot be imported: " in told.err and reason in told.err, told


def test_a_single_judge_has_its_score(tmp_path):
    root = write_tree(tmp_path / "exp", {"T0": 1})
    write_result(root, "T0", "00", 1, result(1, judges=[{"model": "j", "score": 0.5}]))
    import_tree(root, tmp_path / "run")
    run = Run(tmp_path / "run")
    (trial,) = run.select("epoch>0")
    assert run.result(trial).scores["judges"] == 0.5
