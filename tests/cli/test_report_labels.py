"""`report --labels` and `--calibration`: scorers beside people, bound to their versions (experiments 26)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evals import python_eval, write_dataset, write_eval
from holdfast.analysis.agreement import cohen_kappa
from holdfast.analysis.intervals import wilson_interval

JUDGED = """
from holdfast import Sample, Score, Task, scorer, task

RUBRIC = "be kind"

async def solve(trial):
    await trial.generate("x")
    return trial.sample.target

def judge(answer, sample):
    return Score(None, explanation="unreadable") if answer.text == "none" else Score(float(answer.text))

@task
def t():
    samples = [Sample("q", target=value, id=f"s{number}") for number, value in enumerate(VALUES)]
    return Task(samples=samples, solver=solve, scorers=[scorer(judge)], epochs=EPOCHS)
"""
VERDICTS = ["0.9"] * 12 + ["0.2"] * 8 + ["none"] * 2
"""s0 to s11 are passed by the judge, s12 to s19 are failed, s20 and s21 get no verdict."""
PEOPLE = {f"s{number}": number < 10 or 12 <= number < 14 or number == 20 for number in range(22)}
"""Of s0 to s11 they pass ten, of s12 to s19 two."""


def judged_run(holdfast, server, directory, run="r", *, values=VERDICTS, epochs=1, source=JUDGED, **keys):
    source = source.replace("VALUES", repr(values)).replace("EPOCHS", str(epochs))
    holdfast("run", python_eval(directory, server.base_url, source, **keys), "--run-dir", run, code=0)


def write_labels(directory, rows, name="human.jsonl"):
    (directory / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def people_labels(directory, people=None):
    rows = [{"trial": f"{name}#1", "label": int(passed)} for name, passed in (people or PEOPLE).items()]
    return write_labels(directory, rows)


def test_scorers_are_compared_with_people(holdfast, server, tmp_path):
    """Agreement, kappa, TPR, TNR and the corrected share; verdicts that are null count in none of them (row 26)."""
    judged_run(holdfast, server, tmp_path)
    report = holdfast.json("report", "r", "--labels", people_labels(tmp_path), code=0)
    assert report["schema_version"] and report["calibration"]["labelled"] == 22
    found = report["calibration"]["tasks"]["t"]["m"]["judge"]
    assert (found["n_trials"], found["n_samples"], found["unscored"], found["pass_at"]) == (20, 20, 2, 0.5)
    assert found["confusion"] == {"both_pass": 10, "person_only": 2, "judge_only": 2, "both_fail": 6}
    assert found["agreement"]["value"] == 0.8
    kappa = cohen_kappa({(1, 1): 10, (1, 0): 2, (0, 1): 2, (0, 0): 6})
    assert kappa is not None and kappa.interval is not None
    assert found["kappa"] == {"value": kappa.value, "stderr": kappa.stderr, "interval": list(kappa.interval)}
    assert found["tpr"] == {"value": 10 / 12, "interval": list(wilson_interval(10 / 12, 12)), "n": 12}
    assert found["tnr"] == {"value": 6 / 8, "interval": list(wilson_interval(6 / 8, 8)), "n": 8}
    assert (found["passed"]["value"], found["passed"]["n"]) == (0.6, 20)
    assert found["corrected"]["value"] == pytest.approx((0.6 + 6 / 8 - 1) / (10 / 12 + 6 / 8 - 1))
    low, high = found["corrected"]["interval"]
    assert 0 <= low < 0.6 < high <= 1 and high - low > 0.4
    assert holdfast.json("report", "r", code=0)["calibration"] is None


def test_the_text_has_the_figures_and_what_they_rest_on(holdfast, server, tmp_path):
    """They are the example of docs/metrics.md."""
    judged_run(holdfast, server, tmp_path)
    text = holdfast("report", "r", "--labels", people_labels(tmp_path), code=0).out
    block = text[text.index("\ncompared with people: ") :].replace("t · m · judge", "capitals · small · judge")
    assert "  TPR         0.833  [0.552, 0.953]  of the passes of people, n = 12\n" in block
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"$ holdfast report RUN --labels human.jsonl\n…{block}```\n" in page, block


@pytest.mark.parametrize(
    ("people", "reason"),
    [
        ({"s0": True, "s1": True}, "no labelled answer is a fail"),
        ({"s0": False, "s12": False}, "no labelled answer is a pass"),
        ({"s0": False, "s12": True}, "no better than chance"),
    ],
)
def test_what_cannot_be_corrected_says_why(holdfast, server, tmp_path, people, reason):
    judged_run(holdfast, server, tmp_path)
    labels = people_labels(tmp_path, people)
    last = holdfast("report", "r", "--labels", labels, code=0).out.splitlines()[-1]
    assert last.startswith("  cannot be corrected: ") and reason in last
    found = holdfast.json("report", "r", "--labels", labels, code=0)["calibration"]["tasks"]["t"]["m"]["judge"]
    assert found["corrected"] is None and reason in found["why_not"]


def test_a_pass_is_what_the_option_says(holdfast, server, tmp_path):
    """With a threshold above all scores the judge passes nothing; below all, everything."""
    judged_run(holdfast, server, tmp_path)
    labels = people_labels(tmp_path)
    for given, passed in (("0.95", 0.0), ("0.9", 0.6), ("0.1", 1.0)):
        report = holdfast.json("report", "r", "--labels", labels, "--pass-at", given, code=0)
        assert report["calibration"]["tasks"]["t"]["m"]["judge"]["passed"]["value"] == passed


def test_labels_take_other_spellings_columns_and_formats(holdfast, server, tmp_path):
    """Keys, references with more parts, sample and epoch as columns, words for labels, and CSV: the same figures."""
    judged_run(holdfast, server, tmp_path)
    expected = holdfast.json("report", "r", "--labels", people_labels(tmp_path), code=0)["calibration"]
    keys = {row["sample"]: row["trial"] for row in holdfast.json("show", "r", "--limit", "50", code=0)["trials"]}
    words = [(True, False), ("Pass", "fail"), ("yes", "no"), ("correct", "incorrect"), ("1", "0"), (1.0, 0.0)]
    rows = []
    for place, (name, passed) in enumerate(PEOPLE.items()):
        ways = [
            {"trial": keys[name]},
            {"trial": f"t/m/{name}#1"},
            {"task": "t", "model": "m", "sample": name, "epoch": 1},
        ]
        ways += [{"sample": name, "scorer": "judge"}]
        rows.append({**ways[place % 4], "label": words[place % 6][not passed], "note": "any"})
    rows += [{"trial": "s0", "label": None}]
    found = holdfast.json("report", "r", "--labels", write_labels(tmp_path, rows), code=0)["calibration"]
    assert found == {**expected, "unlabelled": 1}
    lines = ["sample,epoch,label", *(f"{name},1,{'pass' if passed else 'fail'}" for name, passed in PEOPLE.items())]
    (tmp_path / "human.csv").write_text("\n".join([*lines, "s0,1,", ""]))
    assert holdfast.json("report", "r", "--labels", "human.csv", code=0)["calibration"] == found


def test_epochs_of_a_sample_share_its_weight(holdfast, server, tmp_path):
    """Labels of three epochs of each sample are as many observations as samples."""
    judged_run(holdfast, server, tmp_path, epochs=3)
    rows = [{"trial": f"{name}#{epoch}", "label": passed} for name, passed in PEOPLE.items() for epoch in (1, 2, 3)]
    found = holdfast.json("report", "r", "--labels", write_labels(tmp_path, rows), code=0)
    found = found["calibration"]["tasks"]["t"]["m"]["judge"]
    assert (found["n_trials"], found["n_samples"], found["unscored"]) == (60, 20, 6)
    assert found["tpr"]["n"] == 12 and found["passed"]["n"] == 20


ERRORS = [
    ([{"trial": "nope#1", "label": 1}], "human.jsonl line 1: There is no trial 'nope#1' on record"),
    ([{"trial": "s0", "label": 1}], "human.jsonl line 1: 's0' matches 2 trials: s0#1, s0#2"),
    (
        [{"trial": "s0#1", "label": 1}, {"trial": "t/s0#1", "label": "pass"}],
        "human.jsonl line 2 labels s0#1 again, after line 1.",
    ),
    (
        [{"trial": "s0#1", "label": 1}, {"trial": "s0#1", "label": 0}],
        "human.jsonl line 2 labels s0#1 as a fail, and line 1 as a pass.",
    ),
    (
        [{"trial": "s0#1", "label": 1}, {"trial": "s0#1", "scorer": "judge", "label": 0}],
        "human.jsonl line 2 labels s0#1 as a fail, and line 1 as a pass.",
    ),
    ([{"trial": "s0#1", "lable": 1}], "human.jsonl line 1 has no label. Did you mean 'lable'?"),
    ([{"trial": "s0#1", "label": 0.7}], "human.jsonl line 1 has the label 0.7, which is neither a pass nor a fail."),
    ([{"trial": "s0#1", "label": [1]}], "human.jsonl line 1 has the label [1], which is neither a pass nor a fail."),
    ([{"label": 1}], "human.jsonl line 1 names no trial."),
    ([{"trial": 1.5, "label": 1}], "human.jsonl line 1 has 1.5 as its trial, which is not a text."),
    ([{"trial": "s0#1", "scorer": "juge", "label": 1}], "names the scorer 'juge', which the trial does not have. Did"),
    ([{"trial": "s0#1", "label": None}], "human.jsonl holds no labels."),
    ([], "human.jsonl holds no labels."),
]


@pytest.mark.parametrize(("rows", "message"), ERRORS)
def test_rows_that_are_no_labels_are_refused_by_line(holdfast, server, tmp_path, rows, message):
    """Unknown, ambiguous, repeated, contradictory and unreadable rows."""
    judged_run(holdfast, server, tmp_path, values=["1", "0"], epochs=2)
    ended = holdfast("report", "r", "--labels", write_labels(tmp_path, rows), code=2)
    assert ended.err.count("List the trials with") <= 1
    assert message in ended.err and not ended.out


def test_files_that_are_no_labels_are_refused(holdfast, server, tmp_path):
    judged_run(holdfast, server, tmp_path, values=["1"])
    (tmp_path / "torn.jsonl").write_text('{"trial": "s0#1", "label": 1}\n{"trial": ')
    (tmp_path / "labels.txt").write_text("s0 pass")
    for options, message in (
        (["--labels", "torn.jsonl"], "torn.jsonl line 2 is not JSON: it is cut off."),
        (["--labels", "labels.txt"], "--labels labels.txt: cannot infer the format from the file name."),
        (["--labels", "nowhere.jsonl"], "--labels nowhere.jsonl: No such file or directory."),
        (["--calibration", "nowhere.json"], "--calibration nowhere.json: No such file or directory."),
        (["--calibration", "torn.jsonl"], "--calibration torn.jsonl: it holds no calibration."),
        (["--labels", "torn.jsonl", "--calibration", "x.json"], "Give either --labels or --calibration."),
        (["--pass-at", "0.5"], "--pass-at needs --labels."),
        (["--labels", "torn.jsonl", "--pass-at", "nan"], "--pass-at nan is not a score."),
    ):
        assert message in holdfast("report", "r", *options, code=2).err


def test_the_figures_are_the_same_after_an_interruption(holdfast, server, tmp_path):
    """They are a function of the records, to the last byte."""
    source = JUDGED.replace("VALUES", repr(VERDICTS)).replace("EPOCHS", "1")
    eval_file = python_eval(tmp_path, server.base_url, source, runner={"concurrency_limit": 1})
    labels = people_labels(tmp_path)
    holdfast("run", eval_file, "--run-dir", "whole", code=0)
    server.behave(hold=True, **{"pass": 6})
    started = holdfast.start("run", eval_file, "--run-dir", "killed")
    server.wait_for(in_flight=1, answered=28)
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    holdfast("resume", "killed", code=0)
    whole, killed = (
        holdfast.json("report", run, "--labels", labels, code=0)["calibration"]["tasks"]["t"]["m"]["judge"]
        for run in ("whole", "killed")
    )
    assert {**whole, "version": 0} == {**killed, "version": 0}


def calibrated(holdfast, directory, run="r"):
    out = holdfast("report", run, "--labels", people_labels(directory), "--json", code=0).out
    (directory / "out.json").write_text(out)
    return json.loads(out)["calibration"]


def test_a_calibration_is_applied_to_another_run(holdfast, server, tmp_path):
    """The rates of the labelled run, and the passes of the other one."""
    judged_run(holdfast, server, tmp_path)
    measured = calibrated(holdfast, tmp_path)["tasks"]["t"]["m"]["judge"]
    same = holdfast.json("report", "r", "--calibration", "out.json", code=0)["calibration"]["tasks"]["t"]["m"]["judge"]
    assert same == measured
    judged_run(holdfast, server, tmp_path, "other")
    other = holdfast.json("report", "other", "--calibration", "out.json", code=0)["calibration"]
    assert other["tasks"]["t"]["m"]["judge"] == measured, "the same code in the same file"


def test_rates_of_other_models_are_used_and_named(holdfast, server, tmp_path):
    """Where a model's answers were not labelled, the rates over those of the labelled models are used."""
    judged_run(holdfast, server, tmp_path)
    measured = calibrated(holdfast, tmp_path)["tasks"]["t"]["m"]["judge"]
    model = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    judged_run(holdfast, server, tmp_path, "other", models={"new": model})
    found = holdfast.json("report", "other", "--calibration", "out.json", code=0)["calibration"]["tasks"]["t"]["new"]
    assert found["judge"]["measured_on"] == ["m"] and found["judge"]["tpr"] == measured["tpr"]
    assert "on answers of m," in holdfast("report", "other", "--calibration", "out.json", code=0).out


def test_a_calibration_is_stale_when_the_code_of_the_scorer_changes(holdfast, server, tmp_path):
    """Row 26: labels tell about the version that they were compared with; the refusal names what changed."""
    judged_run(holdfast, server, tmp_path)
    calibrated(holdfast, tmp_path)
    judged_run(holdfast, server, tmp_path, "other", source=JUDGED.replace("be kind", "be strict"))
    ended = holdfast("report", "other", "--calibration", "out.json", code=2)
    assert "The calibration is stale" in ended.err and "t.judge: the code (task.py) of judge" in ended.err


def test_a_calibration_is_stale_when_a_judge_changes(holdfast, server, tmp_path):
    """A model that is not under test may be asked by the scorer: its settings are part of the version."""
    model = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    judge = {**model, "generation": {"temperature": 0.0}}
    tasks = {"t": {"use": "task.py:t", "models": ["m"]}}
    judged_run(holdfast, server, tmp_path, models={"m": model, "judge": judge}, tasks=tasks)
    calibrated(holdfast, tmp_path)
    faster = {**judge, "concurrency_limit": 3, "price": {"input": 1, "output": 1}}
    judged_run(holdfast, server, tmp_path, "same", models={"m": model, "judge": faster}, tasks=tasks)
    holdfast("report", "same", "--calibration", "out.json", code=0)
    warmer = {**judge, "generation": {"temperature": 1.0}}
    judged_run(holdfast, server, tmp_path, "other", models={"m": model, "judge": warmer}, tasks=tasks)
    ended = holdfast("report", "other", "--calibration", "out.json", code=2)
    assert "t.judge: models.judge.generation." in ended.err


def test_a_calibration_is_stale_when_the_settings_of_a_scorer_change(holdfast, server, tmp_path):
    """A built-in scorer is known by its arguments."""
    write_dataset(tmp_path, 6)
    model = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}"}
    data = {"name": "e", "models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}}
    for run, scorer in (("r", {"exact": {"ignore_case": True}}), ("other", {"exact": {"ignore_case": False}})):
        eval_file = write_eval(tmp_path, {**data, "tasks": {"t": {**task, "scorers": [scorer]}}})
        holdfast("run", eval_file, "--run-dir", run, code=0)
    labels = write_labels(tmp_path, [{"trial": f"s{number}#1", "label": number % 3 > 0} for number in range(1, 7)])
    (tmp_path / "out.json").write_text(holdfast("report", "r", "--labels", labels, "--json", code=0).out)
    holdfast("report", "r", "--calibration", "out.json", code=0)
    ended = holdfast("report", "other", "--calibration", "out.json", code=2)
    assert "t.exact: the settings of exact, such as its rubric" in ended.err


def test_a_calibration_of_other_scorers_is_refused(holdfast, server, tmp_path):
    judged_run(holdfast, server, tmp_path)
    calibrated(holdfast, tmp_path)
    renamed = JUDGED.replace("judge", "critic")
    judged_run(holdfast, server, tmp_path, "other", source=renamed)
    assert "is of other scorers: t.judge." in holdfast("report", "other", "--calibration", "out.json", code=2).err


def test_a_plain_report_loads_nothing_of_it(holdfast, server, tmp_path):
    judged_run(holdfast, server, tmp_path, values=["1"])
    code = (
        "import sys; from holdfast.cli.main import main\n"
        "try:\n    main(['report', 'r'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(n for n in sys.modules if 'calibration' in n or 'agreement' in n), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stderr.strip().endswith("[]")
