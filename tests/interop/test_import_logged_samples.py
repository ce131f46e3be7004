"""`holdfast import` of real files: samples that lm-evaluation-harness logged, and what promptfoo wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from scylla_trees import result, write_result, write_tree

from cli_calls import call
from holdfast import Run
from holdfast.errors import HoldfastError, UsageError
from holdfast.interop.importing.import_run import import_run
from holdfast.interop.importing.kinds import find_reader

DATA = Path(__file__).parent.parent / "data" / "foreign"
LM_EVAL, PROMPTFOO = DATA / "lm_eval", DATA / "promptfoo"
(RESULTS,) = LM_EVAL.glob("results_*.json")
(CAPS,) = LM_EVAL.glob("samples_caps_*.jsonl")


def imported(path, place):
    return import_run(find_reader(path).read(path), place), Run(place)


@pytest.mark.parametrize("path", [LM_EVAL, RESULTS])
def test_every_task_of_lm_eval_has_the_means_that_it_reports(tmp_path, path):
    """Our means are those in its own results, metric by metric and filter by filter."""
    summary, run = imported(path, tmp_path / "run")
    assert (summary.imported, summary.found, run.counts.valid) == (6, 6, 6)
    theirs = json.loads(RESULTS.read_text())["results"]
    ours = run.report().tasks
    for task, metrics in theirs.items():
        for name, value in metrics.items():
            metric, _, under = name.partition(",")
            if isinstance(value, float) and "stderr" not in name:
                found = ours[task]["dummy"].metrics[metric if under == "none" else name]
                assert next(iter(found.values())).value == pytest.approx(value), name


def test_a_file_of_samples_has_prompts_targets_and_answers(tmp_path):
    summary, run = imported(CAPS, tmp_path / "run")
    rows = {row["sample"]: row for row in run.to_dicts()}
    assert summary.imported == 3 and rows["0"]["input"] == "What is the capital of France?"
    assert rows["0"]["target"] == "Paris" and rows["0"]["metadata"]["country"] == "France"
    assert rows["0"]["answer"] == "lol" and rows["0"]["scores"] == {"exact_match,strict": 0, "exact_match,flexible": 0}


def test_rescore_scores_the_answers_of_another_tool(tmp_path, capfdbinary):
    """New scores stand beside those on record, and no model is asked; what other tools scored stays."""
    imported(CAPS, tmp_path / "run")
    told = call(capfdbinary, "rescore", tmp_path / "run", "--set", 'tasks.caps.scorers=[{"includes": {}}]')
    assert told.code == 0, told
    run = Run(tmp_path / "run")
    assert run.report().tasks["caps"]["dummy"].metrics["includes"]["accuracy"].value == 0
    assert {"exact_match,strict", "includes"} <= run.names.scorers
    assert call(capfdbinary, "verify", "--deep", tmp_path / "run").code == 0
    assert call(capfdbinary, "resume", tmp_path / "run").code == 3


def test_broken_lines_are_named_and_the_others_count(tmp_path):
    lines = CAPS.read_bytes().splitlines(keepends=True)
    path = tmp_path / "samples_caps_2026-01-01T00-00-00.jsonl"
    odd = [b"{", b"[]\n", b'{"doc": 1}\n', lines[0], b"\xff\n", lines[1].replace(b"0.0}", b"NaN}"), b"\n"]
    path.write_bytes(b"".join([*lines[:2], b"{\n", *odd[1:], *lines[2:]]))
    summary, run = imported(path, tmp_path / "run")
    assert summary.imported == 3 and run.counts.valid == 3
    reasons = [item.reason for item in summary.skipped]
    assert len(reasons) == 6 and sum("same sample" in reason for reason in reasons) == 2, reasons


def test_samples_of_several_evaluations_are_told_apart(tmp_path):
    for time in ("2026-01-01T00-00-00", "2026-01-02T00-00-00"):
        shutil.copy(CAPS, tmp_path / f"samples_caps_{time}.jsonl")
    with pytest.raises(UsageError, match="2 evaluations"):
        imported(tmp_path, tmp_path / "run")


@pytest.mark.parametrize("name", ["out.json", "out.jsonl"])
def test_a_result_file_of_promptfoo_has_its_own_counts(tmp_path, name):
    """Passes, failures and errors are those of its statistics; an error is not a score."""
    summary, run = imported(PROMPTFOO / name, tmp_path / "run")
    stats = json.loads((PROMPTFOO / "out.json").read_text())["results"]["stats"]
    rows = run.to_dicts()
    assert sum(row["scores"].get("pass") == 1 for row in rows) == stats["successes"]
    assert sum(row["scores"].get("pass") == 0 for row in rows) == stats["failures"]
    assert run.counts.failed == stats["errors"] == sum(bool(row["error"]) for row in rows)
    assert run.report().usage.input_tokens == stats["tokenUsage"]["prompt"]
    assert summary.recorded_cost == pytest.approx(0.004)
    assert {row["model"] for row in rows} == {"echo-a", "file:prov"} and len({row["task"] for row in rows}) == 2


def test_repeated_tests_of_promptfoo_are_epochs(tmp_path):
    content = json.loads((PROMPTFOO / "out.json").read_text())
    content["results"]["results"] += content["results"]["results"]
    (tmp_path / "twice.json").write_text(json.dumps(content))
    summary, run = imported(tmp_path / "twice.json", tmp_path / "run")
    assert summary.imported == 24 and {row["epoch"] for row in run.to_dicts()} == {1, 2}


ODD = [None, True, 7, 1e308, "x", [], {}, [None], {"id": None}, "\ud800", 10**400]


def test_hostile_results_of_promptfoo_lose_no_others(tmp_path):
    content = json.loads((PROMPTFOO / "out.json").read_text())
    sound = content["results"]["results"][0]
    odd = [{**sound, field: value} for field in sound for value in ODD] + ODD
    content["results"]["results"] += odd
    (tmp_path / "odd.json").write_text(json.dumps(content))
    summary, run = imported(tmp_path / "odd.json", tmp_path / "run")
    assert summary.found == 12 + len(odd) and run.counts.planned == summary.imported
    assert summary.skipped_count == len(ODD) + len([value for value in ODD if not isinstance(value, dict)])


@pytest.mark.parametrize("content", [b"{", b'{"evalId": 1, "results": 7}', b'{"evalId": 1, "results": {"results": 5}}'])
def test_a_document_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "out.json").write_bytes(content)
    with pytest.raises(HoldfastError):
        imported(tmp_path / "out.json", tmp_path / "run")
    assert not (tmp_path / "run").exists()


SECRETS = {
    **dict.fromkeys(("OPENAI_API_KEY", "HF_TOKEN", "password", "Authorization", "token", "key"), "plainsecretvalue99"),
    **dict.fromkeys(("clientSecret", "db_password", "x-api-key", "AWS_SECRET_ACCESS_KEY"), "plainsecretvalue98"),
    "nested": [{"deep": {"apiKey": "plainsecretvalue97", "credentials": {"user": "plainsecretvalue96"}}}],
    "address": "https://me:plainsecretvalue95@example.org/v1",
    "pin": {"passwd": 987654321012},
    "words": ["Bearer plainsecretvalue94"],
}
KEPT = {"answer_key": "Blue", "token": "tokenization", "max_tokens": 77, "tokens": "a lot", "secretary": "Ms Keptname"}


def everything(capfdbinary, run) -> str:
    """All that a run has on disk, as text: the journal is compressed, so a search of its bytes proves nothing."""
    texts = [call(capfdbinary, "cat", run).out]
    return "\n".join([*texts, *(path.read_text(errors="replace") for path in run.rglob("*") if path.is_file())])


@pytest.mark.parametrize("tool", ["promptfoo", "promptfoo lines", "lm_eval", "scylla"])
def test_no_secret_of_another_tools_file_is_written(tmp_path, capfdbinary, tool):
    """By its form or by the name of its field, in every kind of file; what only sounds like one stays."""
    odd = {"env": SECRETS, "plain": KEPT}
    if tool == "promptfoo":
        content = json.loads((PROMPTFOO / "out.json").read_text())
        content["config"]["env"] = content["metadata"]["more"] = odd
        content["results"]["results"][0].update(vars=odd, mystery=odd, metadata=odd)
        content["results"]["results"][1]["response"].update(odd, output=SECRETS)
        path = tmp_path / "out.json"
        path.write_text(json.dumps(content))
    elif tool == "promptfoo lines":
        path = tmp_path / "out.jsonl"
        line = json.loads((PROMPTFOO / "out.jsonl").read_text().splitlines()[0])
        path.write_text(json.dumps({**line, "mystery": odd, "gradingResult": odd}) + "\n")
    elif tool == "lm_eval":
        path = tmp_path / CAPS.name
        line = json.loads(CAPS.read_text().splitlines()[0])
        path.write_text(json.dumps({**line, "doc": odd, "mystery": odd, "target": odd}) + "\n")
        (tmp_path / RESULTS.name).write_text(
            json.dumps({"config": {"model_args": "pretrained=m,api_key=plainsecretvalue93", "more": SECRETS}})
        )
    else:
        path = write_tree(tmp_path / "exp", {"T0": 1})
        write_result(
            path, "T0", "00", 1, result(1, mystery=odd, judge_reasoning=odd, judges=[{"model": "j", **SECRETS}])
        )
        (path / "config" / "experiment.json").write_text(json.dumps(odd))
    imported(path, tmp_path / "run")
    found = everything(capfdbinary, tmp_path / "run")
    assert "plainsecret" not in found and "987654321012" not in found
    assert all(str(value) in found for value in KEPT.values())


def lm_eval_copy(place, *, lines=range(6), change=lambda _: None):
    """A copy of an evaluation, with some of the lines of its first task and changed results."""
    shutil.copytree(LM_EVAL, place)
    (place / CAPS.name).write_bytes(b"".join(CAPS.read_bytes().splitlines(keepends=True)[line] for line in lines))
    results = json.loads(RESULTS.read_text())
    change(results)
    (place / RESULTS.name).write_text(json.dumps(results))
    return place


def test_a_cut_file_of_samples_is_not_complete(tmp_path, capfdbinary):
    """The results count 3 samples and the file has 2: the third is planned and not started, and the exit code is 1."""
    place = lm_eval_copy(tmp_path / "logs", lines=[0, 1, 3, 4])
    told = call(capfdbinary, "import", place, "--run-dir", tmp_path / "run")
    assert told.code == 1 and f"caps: the results count 3 samples, and {CAPS.name} has 2" in told.out
    run = Run(tmp_path / "run")
    assert (run.counts.planned, run.counts.valid, run.counts.is_complete) == (6, 5, False)
    assert call(capfdbinary, "verify", "--deep", tmp_path / "run").code == 0


def test_a_file_that_is_cut_within_its_second_filter_is_not_complete(tmp_path):
    """Lines are written filter by filter: all samples are there, and two of them are judged by one filter only."""
    summary, run = imported(lm_eval_copy(tmp_path / "logs", lines=range(4)), tmp_path / "run")
    assert summary.faults == ["caps: 2 of 3 samples have no line under the filter flexible"]
    assert (run.counts.valid, run.counts.unfinished) == (4, 2)


def test_another_mean_than_the_reported_one_is_said(tmp_path):
    def change(results):
        results["results"]["caps"]["exact_match,strict"] = 0.4
        results["results"]["capsmc"]["acc,none"] = 0.1
        results["configs"]["capsmc"]["metric_list"][0]["aggregation"] = "perplexity"

    summary, run = imported(lm_eval_copy(tmp_path / "logs", change=change), tmp_path / "run")
    assert summary.faults == ["caps: exact_match,strict is 0.4 in the results, and 0 over the samples here"]
    assert not summary.ok and run.counts.is_complete


@pytest.mark.parametrize("content", [None, b"", b"{\n", b"[]"])
def test_a_file_of_samples_that_cannot_be_read_is_named(tmp_path, content):
    """The other files of the evaluation do not hide it, and its samples are planned."""
    place = lm_eval_copy(tmp_path / "logs")
    (place / CAPS.name).unlink()
    if content is not None:
        (place / CAPS.name).write_bytes(content)
    summary, run = imported(place, tmp_path / "run")
    assert [item.where for item in summary.skipped] == ([] if content is None else [CAPS.name])
    assert "caps: the results count 3 samples, and no file has them" in summary.faults
    assert (run.counts.planned, run.counts.valid) == (6, 3)


@pytest.mark.parametrize("odd", [-1, True, 1.5, "3", 10**30, None, []])
def test_a_count_of_samples_that_is_none_plans_nothing(tmp_path, odd):
    place = lm_eval_copy(tmp_path / "logs", change=lambda results: results["n-samples"]["caps"].update(effective=odd))
    summary, run = imported(place, tmp_path / "run")
    assert summary.ok and run.counts.planned == 6


@pytest.mark.parametrize("odd", ["null", "NaN"])
def test_a_sample_without_any_metric_is_unfinished(tmp_path, odd):
    path = tmp_path / CAPS.name
    line = json.loads(CAPS.read_text().splitlines()[0])
    path.write_text(json.dumps({**line, "exact_match": float("nan") if odd == "NaN" else None}) + "\n")
    _, run = imported(path, tmp_path / "run")
    assert (run.counts.valid, run.counts.unfinished) == (0, 1)


def one_result(place, **changes):
    """The first result of a file of promptfoo, with changes, as a file of its own."""
    line = json.loads((PROMPTFOO / "out.jsonl").read_text().splitlines()[0])
    place.write_text(json.dumps({**line, **changes}) + "\n")
    return place


def end_of(run):
    (trial,) = run.select("epoch>0")
    (end,) = [record for record in run.transcript(trial.key) if hasattr(record, "status")]
    return end


@pytest.mark.parametrize("success", [None, "true", 1])
def test_a_test_without_a_verdict_is_unfinished(tmp_path, success):
    _, run = imported(one_result(tmp_path / "out.jsonl", success=success), tmp_path / "run")
    assert (run.counts.valid, run.counts.unfinished) == (0, 1)


@pytest.mark.parametrize("reason", [0, 1, 2, None])
def test_an_error_of_the_provider_is_a_failure_as_promptfoo_counts_it(tmp_path, reason):
    """`response.error` counts among the errors of its statistics, whatever the reason in the file."""
    path = one_result(tmp_path / "out.jsonl", response={"error": "boom"}, success=False, failureReason=reason)
    _, run = imported(path, tmp_path / "run")
    assert (run.counts.failed, run.counts.valid) == (1, 0) and end_of(run).error.message == "boom"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"score": "0.9"}, "score"),
        ({"score": True}, "score"),
        ({"score": float("nan")}, "score"),
        ({"namedScores": {"a": True}}, "a"),
        ({"namedScores": [1]}, "namedScores"),
        ({"latencyMs": -5}, "latencyMs"),
        ({"cost": "dear"}, "cost"),
        ({"tokenUsage": {"prompt": "10", "completion": 3}}, "tokenUsage.prompt"),
    ],
)
def test_a_value_of_a_wrong_type_is_kept_named_and_no_number(tmp_path, changes, named):
    summary, run = imported(one_result(tmp_path / "out.jsonl", **changes), tmp_path / "run")
    assert summary.unusable_fields == {named: 1} and not summary.ok
    (row,) = run.to_dicts()
    assert row["scores"].get("a") is None and (named != "score" or row["scores"].get("score") is None)
    (field, value), kept = next(iter(changes.items())), end_of(run).imported
    scores = [score.metadata for score in run.scores_of(row["trial"]) if score.metadata]
    assert field in kept["fields"] or {"value": True} in scores or kept["cost"] == value, (kept, scores)


def test_tokens_that_nobody_recorded_are_unknown(tmp_path, capfdbinary):
    """lm-eval records none: `report` and `status` say unknown, and no zero; so they do of durations."""
    imported(CAPS, tmp_path / "run")
    for command in ("report", "status"):
        told = call(capfdbinary, command, tmp_path / "run").out
        assert "unknown (the replies have no usage)" in told and "0 in, 0 out" not in told, told
        assert "the duration of 3 trials is unknown" in told, told
    one, run = imported(one_result(tmp_path / "out.jsonl", tokenUsage={"prompt": 7}), tmp_path / "other")
    assert one.ok and end_of(run).usage is None


def test_replies_that_promptfoo_had_cached_are_no_part_of_the_prompt(tmp_path):
    used = {"prompt": 10, "completion": 3, "cached": 50, "total": 63}
    _, run = imported(one_result(tmp_path / "out.jsonl", tokenUsage=used), tmp_path / "run")
    found = end_of(run).usage
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens) == (10, 3, 0)
