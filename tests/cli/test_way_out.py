"""Mistakes that people make: each gets a sentence with the thing, its state and the way out, and writes nothing."""

from __future__ import annotations

import json

import pytest

from evals import write_dataset

TASK = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
EVAL = {
    "models": {"m": {"provider": "scripted", "model": "echo"}},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"t": TASK},
}
PYTHON = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    return await trial.generate("{asked}")

@task
def t(n: int = 1):
    return Task(samples=[Sample("x", target="x", id="s1")] * n, solver=solve, scorers=exact())
"""


@pytest.fixture
def place(holdfast, tmp_path):
    """A directory with an eval, its dataset and a task in Python."""
    write_dataset(tmp_path, 3)
    (tmp_path / "eval.yaml").write_text(json.dumps(EVAL))
    (tmp_path / "task.py").write_text(PYTHON.format(asked="x"))
    (tmp_path / "empty").mkdir()
    return holdfast


def changed(directory, **dataset):
    """The eval with another dataset."""
    path = directory / "other.yaml"
    path.write_text(json.dumps({**EVAL, "datasets": {"rows": {"path": "rows.jsonl", **dataset}}}))
    return path


MISTAKES = {
    "a directory for an eval": (("run", "empty"), "empty is a directory.", "Name the eval file in it."),
    "no model": (("run", "task.py"), "No model is named.", "Give --model provider/name"),
    "an argument twice": (
        ("run", "task.py", "--model", "scripted/echo", "-T", "n=1", "-T", "n=2"),
        '"n" is given twice.',
        "Leave one of them out.",
    ),
    "a setting twice": (
        ("run", "eval.yaml", "--set", "seed=1", "--set", "seed=2"), '"seed" is given twice.', "Leave one of them out."
    ),
    "a URL of another kind": (
        ("run", "eval.yaml", "--run-dir", "http://x/y"), "http://x/y is not a URL of a supported", "Supported: s3://"
    ),
    "a sample that is not there": (
        ("run", "eval.yaml", "--sample-id", "zzz"), "has no sample with the id 'zzz'.", "There are s1, s2, s3."
    ),
    "a file for a run": (("resume", "task.py"), "task.py is not a run: it is a file.", "Give the directory of a run."),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_way_out(place, tmp_path, name):
    """Exit code 2, one sentence or two, and nothing written."""
    words, thing, way_out = MISTAKES[name]
    before = sorted(path.name for path in tmp_path.glob("[!.]*"))
    ended = place(*words, code=2)
    assert thing in ended.err and way_out in ended.err, ended.err
    assert "Traceback" not in ended.err and ended.out == ""
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == before


DATASETS = {
    "a directory": ({"path": "empty"}, "empty is a directory.", "Name a file in it."),
    "a file that is not there": ({"path": "nothing-like-it.csv"}, "does not exist.", "Relative paths start at"),
    "a filter on a field that no row has": (
        {"operations": [{"filter": {"field": "questoin", "equals": "q1"}}]},
        "names the field 'questoin', which no row has; the first has answer, id, question.",
        "Did you mean 'question'?",
    ),
    "a filter that nothing passes": (
        {"operations": [{"filter": {"field": "question", "equals": "zz"}}]}, "leaves none of 3 samples.", "Widen or"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_that_cannot_be_used_is_named_with_its_way_out(place, tmp_path, name):
    """What is wrong with it is told before a run is made."""
    dataset, thing, way_out = DATASETS[name]
    ended = place("run", changed(tmp_path, **dataset), "--run-dir", "r", code=2)
    assert thing in ended.err and way_out in ended.err, ended.err
    assert not (tmp_path / "r").exists()


def test_a_null_field_is_named_with_its_way_out(place, tmp_path):
    """A prompt cannot be made from nothing."""
    with (tmp_path / "rows.jsonl").open("a") as stream:
        stream.write('{"id": "s4", "question": null, "answer": "x"}\n')
    ended = place("run", "eval.yaml", "--run-dir", "r", code=2)
    assert "which is null in rows.jsonl row 4. Give it a value," in ended.err


@pytest.mark.parametrize("words", [("diff", "r", "task.py"), ("resume", "r", "--config", "task.py")])
def test_a_python_file_is_no_eval_file(place, words):
    """Where an edited eval is asked for, a Python file is not read as YAML."""
    place("run", "task.py", "--model", "scripted/echo", "--run-dir", "r", code=0)
    ended = place(*words, code=2)
    assert "task.py is a Python file, and not an eval file." in ended.err and "--set" in ended.err


def test_a_refused_change_of_code_can_be_forked_as_it_is_told(place, tmp_path):
    """A run of a Python file has no eval file to give: `holdfast fork RUN` takes its own eval and the code of now."""
    place("run", "task.py", "--model", "scripted/echo", "--run-dir", "r", code=0)
    (tmp_path / "task.py").write_text(PYTHON.format(asked="y"))
    assert "`holdfast fork`" in place("resume", "r", code=3).err
    assert "1 trial planned, 0 kept" in place("fork", "r", "--run-dir", "f", code=0).out
    assert "Complete: 1 of 1" in place("resume", "f", code=0).out
    (step,) = place.records("f", "step")
    assert step["request"]["messages"][0]["content"] == "y"


FILES = {
    "semicolons": ("rows.csv", "id;question;answer\n1;a;b\n", "separated by semicolons.", "Save it with commas, or as"),
    "tabs": ("rows.csv", "id\tquestion\n1\ta\n", "separated by tabs.", "Save it with commas, or as jsonl."),
    "parquet": ("rows.parquet", "PAR1", "of the kind .parquet cannot be read.", "Convert it to jsonl or csv."),
    "a workbook": ("rows.xlsx", "PK", "of the kind .xlsx cannot be read.", "Convert it to jsonl or csv."),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_kind_is_named_with_its_way_out(place, tmp_path, name):
    """Nobody has to guess why no column is found."""
    file, text, thing, way_out = FILES[name]
    (tmp_path / file).write_text(text)
    ended = place("run", changed(tmp_path, path=file), "--run-dir", "r", code=2)
    assert thing in ended.err and way_out in ended.err, ended.err


def test_a_misspelled_field_lists_the_columns_of_the_row(place, tmp_path):
    """Parts of a sample that the row does not have are not listed."""
    task = {**TASK, "prompt": "{questoin}", "target": "x"}
    (tmp_path / "other.yaml").write_text(json.dumps({**EVAL, "tasks": {"t": task}}))
    ended = place("run", "other.yaml", "--run-dir", "r", code=2)
    assert "which rows.jsonl row 1 does not have; it has answer, id, question." in ended.err, ended.err
    assert "Did you mean 'question'?" in ended.err


MADE_PARTS = {
    "a target by a template": ({"target": "{a}"}, {}, "a, b, id, q"),
    "a target that is a column as well": ({"target": "{target}"}, {"target": "x"}, "a, b, id, q, target"),
    "choices by templates": ({"target": "A", "choices": ["{a}", "{b}"], "scorers": ["choice"]}, {}, "a, b, id, q"),
    "a prompt that names the input too": ({"target": "{a}", "prompt": "{input} {question}"}, {"input": "i"},
                                          "a, b, id, input, q"),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE_PARTS)
def test_only_columns_of_the_row_are_listed(place, tmp_path, name):
    """Parts of a sample that the task makes of other columns are not in the file, whatever they are made of."""
    task, more, listed = MADE_PARTS[name]
    row = {"id": "1", "q": "x", "a": "y", "b": "z", **more}
    (tmp_path / "rows.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    data = {**EVAL, "datasets": {"rows": {"path": "rows.csv"}}, "tasks": {"t": {**TASK, **task}}}
    (tmp_path / "other.yaml").write_text(json.dumps(data))
    ended = place("run", "other.yaml", "--run-dir", "r", code=2)
    assert f"names the field 'question', which rows.csv row 1 does not have; it has {listed}." in ended.err, ended.err


def test_a_position_as_text_is_explained(place, tmp_path):
    """CSV has no numbers: the text "0" is not a position."""
    (tmp_path / "rows.csv").write_text("question,answer,a,b\nq,0,x,y\n")
    task = {**TASK, "choices": ["{a}", "{b}"], "scorers": ["choice"]}
    (tmp_path / "other.yaml").write_text(
        json.dumps({**EVAL, "datasets": {"rows": {"path": "rows.csv"}}, "tasks": {"t": task}})
    )
    ended = place("run", "other.yaml", "--run-dir", "r", code=2)
    assert "a CSV file has only texts, so use letters there, or jsonl." in ended.err, ended.err


def test_a_scorer_with_one_parameter_is_refused_before_the_first_call(place, tmp_path):
    """It would fail in every trial, after the answers have been paid for."""
    code = PYTHON.format(asked="x").replace("exact()", "s1") + "\ndef s1(answer):\n    return True\n"
    (tmp_path / "task.py").write_text(code)
    ended = place("run", "task.py", "--model", "scripted/echo", "--run-dir", "r", code=2)
    assert "The scorer 's1' is called with an answer and a sample, and its parameters are (answer)." in ended.err


def test_show_without_any_run_names_one_way_out(holdfast):
    """A trial of the newest run is only offered where there is a run."""
    ended = holdfast("show", "r1", code=2)
    assert ended.err.endswith("Start one with: holdfast run EVAL\n") and "newest" not in ended.err


def test_a_missing_argument_of_a_task_names_both_ways_to_give_it(place, tmp_path):
    """On the command line and in an eval file; both work."""
    (tmp_path / "fun.py").write_text(PYTHON.format(asked="x").replace("n: int = 1", "n: int"))
    ended = place("run", "fun.py", "--model", "scripted/echo", code=2)
    way_out = "Give it with -T n=VALUE or, in an eval file, as args: {n: VALUE}."
    assert ended.err == f"holdfast: The task 't' needs the argument 'n'. {way_out}\n"
    assert "Complete" in place("run", "fun.py", "--model", "scripted/echo", "-T", "n=1", code=0).out
    tasks = "models: {m: scripted/echo}\ntasks: {t: {use: 'fun.py:t', args: {n: 1}}}\n"
    (tmp_path / "other.yaml").write_text(tasks)
    assert "Complete" in place("run", "other.yaml", code=0).out


UNKNOWN_ENTRIES = {
    "a model": ("models.mm.concurrency_limit=4", "The eval has no model 'mm'.", "Did you mean 'm'?"),
    "a dataset": ("datasets.row.format=jsonl", "The eval has no dataset 'row'.", "Did you mean 'rows'?"),
    "a task far from all": ("tasks.zzz.epochs=2", "The eval has no task 'zzz'.", "It has t."),
}


@pytest.mark.parametrize("name", UNKNOWN_ENTRIES)
@pytest.mark.parametrize("verb", ["run", "resume", "fork"])
def test_a_setting_of_what_does_not_exist_names_what_does(place, verb, name):
    """Nothing is said about a provider that is missing, and the eval file is not blamed."""
    setting, thing, way_out = UNKNOWN_ENTRIES[name]
    words = ["run", "eval.yaml", "--run-dir", "r"]
    if verb != "run":
        place(*words, code=0)
        words = [verb, "r"]
    ended = place(*words, "--set", setting, code=2)
    assert ended.err == f"holdfast: {thing} {way_out}\n"


def test_a_model_that_can_stand_alone_may_be_added_by_settings(place):
    """Only an entry that says nothing of what it is counts as a slip."""
    added = ["--set", "models.n.provider=scripted", "--set", "models.n.model=echo"]
    assert "Complete: 6 of 6" in place("run", "eval.yaml", "--run-dir", "r", *added, code=0).out


def test_a_wrong_setting_is_not_blamed_on_the_file(place, tmp_path):
    """The file is named only if the file alone has the fault."""
    ended = place("run", "eval.yaml", "--set", "tasks.t.models=[mm]", code=2)
    assert ended.err.startswith("holdfast: the command line: tasks.t.models"), ended.err
    (tmp_path / "other.yaml").write_text(json.dumps({**EVAL, "tasks": {"t": {**TASK, "models": ["mm"]}}}))
    ended = place("run", "other.yaml", "--set", "seed=2", code=2)
    assert ended.err.startswith("holdfast: other.yaml: tasks.t.models"), ended.err


@pytest.mark.parametrize("directory", ["first", "runs/first"])
@pytest.mark.parametrize("typed", ["frist", "runs/frist"])
def test_a_mistyped_run_names_the_nearest(place, directory, typed):
    """What is suggested can be typed."""
    place("run", "eval.yaml", "--run-dir", directory, code=0)
    ended = place("resume", typed, code=2)
    assert ended.err.endswith(f"Did you mean {directory}?\n"), ended.err
    place("resume", directory, code=0)
