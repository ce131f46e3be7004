"""Judges between a run and its resume: added, left out, changed; and which models are asked at all."""

from __future__ import annotations

import json

import pytest
from judged_evals import graded, judged_eval, panel, scripted

from evals import write_eval

A, B, C = scripted(graded("C"), "a"), scripted(graded("I"), "b"), scripted(graded("C"), "c")


def asked(holdfast, run="r"):
    """How many replies each model has given, by the records."""
    found = {}
    for step in holdfast.records(run, "step"):
        found[step["model"]] = found.get(step["model"], 0) + 1
    return found


def test_limits_28_a_task_without_models_asks_every_model_that_is_nobodys_judge(holdfast, tmp_path):
    """Judges of any task count, those of requirements too; an own list is taken as it is."""
    eval_file = judged_eval(tmp_path, [panel("a", "b")], a=A, b=B, other=scripted("x"), req=scripted("y"))
    data = json.loads(eval_file.read_text())
    sampling = {"strategy": "repair", "requirements": [{"judge": {"model": "req", "criterion": "Polite."}}]}
    data["tasks"]["u"] = {**data["tasks"]["t"], "scorers": ["exact"], "sampling": sampling}
    data["tasks"]["both"] = {**data["tasks"]["t"], "models": ["a", "m"]}
    plan = holdfast.json("run", write_eval(tmp_path, data), "--dry-run", code=0)
    models = {}
    for entry in plan["plan"]:
        models.setdefault(entry["task"], []).append(entry["model"])
    assert models == {"t": ["m", "other"], "u": ["m", "other"], "both": ["a", "m"]}


def test_limits_28_every_model_a_judge_is_refused(holdfast, tmp_path):
    ended = holdfast("run", judged_eval(tmp_path, [panel("m")]), code=2)
    assert "every model is a judge" in ended.err


def test_limits_28_in_python_too(tmp_path, monkeypatch):
    """`evaluate` without models for its tasks asks those that judge nothing."""
    from holdfast import Sample, Task, evaluate, generate, model_graded  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    task = Task(name="t", samples=[Sample("q")], solver=generate(), scorers=model_graded(model="j"))
    run = evaluate(task, {"m": scripted("x"), "j": scripted(graded("C"))}, run=tmp_path / "r", progress=False)
    assert [trial.model for trial in run.trials()] == ["m"]
    assert [trial.scores for trial in run.trials()] == [{"model_graded": 1.0}]


def models_asked(holdfast, run="r"):
    """The models under test of each task, by the newest plan."""
    models = {}
    for entry in holdfast.records(run, "session")[-1]["plan"]:
        models.setdefault(entry["task"], []).append(entry["model"])
    return models


def test_limits_28_judges_that_only_code_names_are_not_under_test(holdfast, tmp_path):
    """In a new run, in a resume with the same file, with a judge more or less in the code, and in a fork."""
    models = {"m": scripted("x"), "a": A, "b": B}
    data = {"name": "n", "models": models, "tasks": {"t": {"use": "task.py:t"}}}
    eval_file, code = write_eval(tmp_path, data), tmp_path / "task.py"
    code.write_text(PYTHON.format(judges=["a", "b"], criterion="Polite."))
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert asked(holdfast) == {"m": 1, "a": 1, "b": 1}
    assert models_asked(holdfast) == {"t": ["m"]}
    assert (
        "complete, 1 of 1; nothing was run" in holdfast("run", eval_file, "--run-dir", "r", "--or-resume", code=0).out
    )
    data["models"]["c"] = C
    code.write_text(PYTHON.format(judges=["a", "c"], criterion="Polite."))
    ended = holdfast("resume", "r", "--config", write_eval(tmp_path, data), code=0)
    assert "judge b → left out" in ended.err
    assert asked(holdfast) == {"m": 1, "a": 1, "b": 1, "c": 1}
    assert models_asked(holdfast) == {"t": ["m"]}
    holdfast("fork", "r", "--config", eval_file, "--run-dir", "f", code=0)
    assert models_asked(holdfast, "f") == {"t": ["b", "m"]}


def test_limits_28_judges_of_code_and_of_the_file_together(holdfast, tmp_path):
    """The judge of a Python task is no model under test of a declarative one."""
    (tmp_path / "task.py").write_text(PYTHON.format(judges=["a"], criterion="Polite."))
    data = json.loads(judged_eval(tmp_path, [panel("b")], a=A, b=B).read_text())
    data["tasks"]["u"] = {"use": "task.py:t"}
    plan = holdfast.json("run", write_eval(tmp_path, data), "--dry-run", code=0)["plan"]
    assert [(entry["task"], entry["model"]) for entry in plan] == [("t", "m"), ("u", "m")]


def test_limits_28_a_single_model_may_judge_itself_in_code(holdfast, tmp_path):
    """There is nobody else to ask: it is asked, with a warning, and resumed as it was."""
    (tmp_path / "task.py").write_text(PYTHON.format(judges=["scripted/echo"], criterion="Polite."))
    ended = holdfast("run", "task.py", "--model", "scripted/echo", "--run-dir", "r", code=0)
    assert "scripted/echo judges itself" in " ".join(ended.err.split())
    assert models_asked(holdfast) == {"t": ["scripted/echo"]}
    again = holdfast("run", "task.py", "--model", "scripted/echo", "--run-dir", "r", "--or-resume", code=0)
    assert "nothing was run" in again.out


def test_resume_17_judges_of_a_scorer_that_is_left_out_stay_judges(holdfast, tmp_path):
    """Without `models:`, an eval without its last `model_graded` asks its former judges nothing as models."""
    holdfast("run", judged_eval(tmp_path, ["exact", panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    was = asked(holdfast)
    fewer = judged_eval(tmp_path, ["exact"], a=A, b=B)
    ended = holdfast("resume", "r", "--config", fewer, code=0)
    assert "tasks.t.scorers.quality" in ended.err and "Added" not in ended.err
    assert asked(holdfast) == was
    assert models_asked(holdfast) == {"t": ["m"]}
    assert holdfast("diff", "r", fewer, code=0).out.count("tasks.t") == 1


@pytest.mark.parametrize("verb", ["resume", "rescore"])
def test_resume_17_a_judge_does_not_change_places_with_a_model_under_test(holdfast, tmp_path, verb):
    """Without `models:`, the task keeps the models that it has; only the slots of the added judge run."""
    sut = scripted(graded("C"), "under-test")
    holdfast("run", judged_eval(tmp_path, [panel("a", "b")], a=A, b=B, m=sut), "--run-dir", "r", code=0)
    swapped = judged_eval(tmp_path, [panel("a", "m")], a=A, b=B, m=sut)
    holdfast(verb, "r", "--config", swapped, code=0)
    assert asked(holdfast) == {"m": 4, "a": 2, "b": 2}
    assert models_asked(holdfast) == {"t": ["m"]}
    assert "nothing was run" in holdfast("resume", "r", code=0).out


def test_a_refused_rescore_says_that_it_is_one(holdfast, tmp_path):
    holdfast("run", judged_eval(tmp_path, [panel("a")], a=A), "--run-dir", "r", code=0)
    changed = judged_eval(tmp_path, [panel("a")], a=A, task={"prompt": "Now: {question}"})
    ended = holdfast("rescore", "r", "--config", changed, code=3)
    assert "Rescoring aborted: r cannot be scored again with these changes" in " ".join(ended.err.split())


def test_resume_17_a_judge_is_not_under_test_where_the_model_under_test_is_left_out(holdfast, tmp_path):
    holdfast("run", judged_eval(tmp_path, [panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    was, path = asked(holdfast), judged_eval(tmp_path, [panel("a")], a=A, b=B)
    data = json.loads(path.read_text())
    del data["models"]["m"]
    holdfast("resume", "r", "--config", write_eval(tmp_path, data), code=0)
    assert asked(holdfast) == was and models_asked(holdfast) == {"t": ["m"]}
    # A task that is new has no models to keep.
    data["tasks"]["u"] = {**data["tasks"]["t"], "scorers": [panel("b")]}
    ended = holdfast("resume", "r", "--config", write_eval(tmp_path, data), code=2)
    assert "tasks.u.models is missing" in ended.err


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ({"scale": [5, 1]}, {}),
        ({"partial": True, "choices": {"C": 1, "I": 0}}, {}),
        ({"template": "Judge it."}, {}),
        ({"pairwise": {"run": "nowhere"}}, {}),
        ({"name": "x/y"}, {}),
        ({}, {"prompt": "{question"}),
    ],
)
def test_resume_18_what_run_refuses_is_refused_in_the_same_words(holdfast, tmp_path, arguments, task):
    """No comparison is printed before, and no way out that would be refused."""
    holdfast("run", judged_eval(tmp_path, [panel("a")], a=A), "--run-dir", "r", code=0)
    wrong = judged_eval(tmp_path, [panel("a", **arguments)], a=A, task=task)
    said = holdfast("run", wrong, "--run-dir", "new", code=2).err
    calls = [("resume", "r", "--config", wrong), ("diff", "r", wrong), ("rescore", "r", "--config", wrong)]
    for words in [*calls, ("fork", "r", "--config", wrong, "--run-dir", "fork")]:
        ended = holdfast(*words, code=2)
        assert (ended.err, ended.out) == (said, "")


def test_an_unknown_judge_is_refused_with_the_nearest_name(holdfast, tmp_path):
    ended = holdfast("run", judged_eval(tmp_path, [panel("a", "bb")], a=A, b=B), code=2)
    assert "tasks.t.scorers[0].model_graded.models[1]" in ended.err
    assert "did you mean b?" in ended.err


def test_an_unknown_judge_of_a_python_task_is_refused(holdfast, tmp_path):
    source = "from holdfast import *\n@task\ndef t():\n    return Task(samples=[Sample('q')], solver=generate(),"
    (tmp_path / "task.py").write_text(f"{source} scorers=model_graded(model='jugde'))\n")
    data = {"name": "n", "models": {"m": scripted("x"), "judge": A}, "tasks": {"t": {"use": "task.py:t"}}}
    ended = holdfast("run", write_eval(tmp_path, data), code=2)
    assert "The scorer 'model_graded' of the task 't' asks the model 'jugde'" in ended.err


@pytest.mark.parametrize("before", [panel("a", "b"), {"model_graded": {"name": "quality", "model": "a"}}])
def test_limits_29_experiments_11_resume_16_only_the_slots_of_an_added_judge_run(holdfast, tmp_path, before):
    """Nothing that was answered or judged is asked again."""
    holdfast("run", judged_eval(tmp_path, [before], a=A, b=B, c=C, task={"models": ["m"]}), "--run-dir", "r", code=0)
    was = asked(holdfast)
    grown = judged_eval(tmp_path, [panel("a", "b", "c", combine="majority")], a=A, b=B, c=C, task={"models": ["m"]})
    ended = holdfast("resume", "r", "--config", grown, code=0)
    assert "tasks.t.scorers.quality: unset → judge c" in ended.err
    assert asked(holdfast) == {**was, "b": 2, "c": 2}
    metrics = holdfast.json("report", "r")["tasks"]["t"]["m"]["metrics"]
    assert metrics["quality"]["accuracy"]["value"] == 1.0
    assert list(metrics) == ["quality", "quality/a", "quality/b", "quality/c"]


def test_resume_16_a_scorer_with_a_judge_may_be_added(holdfast, tmp_path):
    models = {"a": A, "task": {"models": ["m"]}}
    holdfast("run", judged_eval(tmp_path, ["exact"], **models), "--run-dir", "r", code=0)
    holdfast("resume", "r", "--config", judged_eval(tmp_path, ["exact", panel("a")], **models), code=0)
    assert asked(holdfast) == {"m": 2, "a": 2}


def test_resume_17_a_judge_that_is_left_out_stands(holdfast, tmp_path):
    """The difference is printed, and the exit code unaffected."""
    holdfast("run", judged_eval(tmp_path, [panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    before = holdfast.json("report", "r")
    fewer = judged_eval(tmp_path, [panel("a")], a=A, b=B, task={"models": ["m"]})
    said = holdfast("resume", "r", "--config", fewer, code=0).err
    assert "judge b → left out; it stays in the run and scores new trials too" in said
    after = holdfast.json("report", "r")
    assert {**before, "lineage": 0, "timing": 0} == {**after, "lineage": 0, "timing": 0}


def test_resume_17_what_is_left_out_scores_new_trials_as_the_sentence_says(holdfast, tmp_path):
    """A run has one set of scorers for all of its trials: a scorer and a judge that are left out judge those too."""
    holdfast("run", judged_eval(tmp_path, ["exact", "includes", panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    fewer = judged_eval(tmp_path, ["exact", panel("a")], count=3, a=A, b=B)
    said = holdfast("resume", "r", "--config", fewer, code=0).err
    assert "tasks.t.scorers.includes: given → left out; it stays in the run and scores new trials too" in said
    assert "tasks.t.scorers.quality: judge b → left out; it stays in the run and scores new trials too" in said
    assert asked(holdfast) == {"m": 3, "a": 3, "b": 3}
    (row,) = [row for row in holdfast.json("show", "r")["trials"] if row["sample"] == "s3"]
    assert set(row["scores"]) == {"exact", "includes", "quality", "quality/a", "quality/b"}


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ({"model": "a"}, {"models": ["a"]}),
        ({"model": "a"}, {"model": "a", "choices": {"C": 1, "I": 0}, "partial": False}),
        ({"models": ["a", "b"]}, {"models": ["b", "a"], "combine": "majority"}),
        ({"models": ["a", "b"], "criterion": "Polite."}, {"model": "b", "criterion": "Polite."}),
    ],
)
def test_resume_68_a_renamed_panel_is_recognised_in_any_spelling(holdfast, tmp_path, given, spelled):
    """Its judges would be asked again for what they have judged: it is refused, and nobody is asked."""
    under_test = {"models": ["m"]}
    first = [{"model_graded": {"name": "old", **given}}]
    holdfast("run", judged_eval(tmp_path, first, a=A, b=B, task=under_test), "--run-dir", "r", code=0)
    renamed = judged_eval(tmp_path, [{"model_graded": {"name": "new", **spelled}}], a=A, b=B, task=under_test)
    said = holdfast("resume", "r", "--config", renamed, code=3).err
    assert "tasks.t.scorers.old (scoring): old → new" in said
    assert "the same scorer under another name" in said
    other = {"model_graded": {"name": "new", **spelled, "criterion": "Short."}}
    holdfast("resume", "r", "--config", judged_eval(tmp_path, [other], a=A, b=B, task=under_test), code=0)


PYTHON = """
from holdfast import Sample, Task, generate, model_graded, task

@task
def t():
    judged = model_graded(models={judges}, name="quality", criterion={criterion!r})
    return Task(samples=[Sample("q")], solver=generate(), scorers=judged)
"""


def test_resume_16_17_18_judges_of_a_python_task(holdfast, tmp_path):
    """Added, left out and changed, as those in an eval file."""
    data = {"name": "n", "models": {"m": scripted("x"), "a": A, "b": B}, "tasks": {"t": {"use": "task.py:t"}}}
    data["tasks"]["t"]["models"] = ["m"]
    eval_file, code = write_eval(tmp_path, data), tmp_path / "task.py"
    code.write_text(PYTHON.format(judges=["a"], criterion="Polite."))
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    code.write_text(PYTHON.format(judges=["a", "b"], criterion="Polite."))
    holdfast("resume", "r", code=0)
    assert asked(holdfast) == {"m": 1, "a": 1, "b": 1}
    code.write_text(PYTHON.format(judges=["b"], criterion="Polite."))
    assert "judge a → left out" in holdfast("resume", "r", code=0).err
    assert asked(holdfast) == {"m": 1, "a": 1, "b": 1}
    code.write_text(PYTHON.format(judges=["a", "b"], criterion="Rude."))
    assert "tasks.t.scorers.quality/a (scoring)" in holdfast("resume", "r", code=3).err


@pytest.mark.parametrize(
    "changed",
    [
        {"criterion": "Polite."},
        {"partial": True},
        {"scale": [1, 5]},
        {"rubric": {"tone": "Polite."}},
        {"template": "{answer}"},
        {"instructions": "Be strict."},
        {"pairwise": True},
    ],
)
def test_resume_18_a_changed_way_of_judging_is_refused_as_scoring(holdfast, tmp_path, changed):
    """Nothing is written, and the scorer is named."""
    holdfast("run", judged_eval(tmp_path, [panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    ended = holdfast("resume", "r", "--config", judged_eval(tmp_path, [panel("a", "b", **changed)], a=A, b=B), code=3)
    assert "tasks.t.scorers.quality (scoring)" in ended.err
    assert len(holdfast.records("r", "session")) == 1


def test_resume_18_other_settings_of_a_judge_are_refused_as_scoring(holdfast, tmp_path):
    """Those of a model that answers too are part of what is asked."""
    holdfast("run", judged_eval(tmp_path, [panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    warmer = {**B, "generation": {"temperature": 0.3}}
    ended = holdfast("resume", "r", "--config", judged_eval(tmp_path, [panel("a", "b")], a=A, b=warmer), code=3)
    assert "models.b.generation.temperature (scoring)" in ended.err


@pytest.mark.parametrize(
    "spelled",
    [
        {"pass_at": 0.5},
        {"choices": {"C": 1, "I": 0}},
        {"partial": False},
        {"combine": "mean", "pairwise": False, "template": None},
    ],
)
def test_resume_13_explicit_defaults_of_a_judge_are_no_change(holdfast, tmp_path, spelled):
    """Not even where another judge is added: only that one is recorded."""
    holdfast("run", judged_eval(tmp_path, [panel("a")], a=A, b=B, task={"models": ["m"]}), "--run-dir", "r", code=0)
    config = (tmp_path / "r" / "config.yaml").read_bytes()
    same = judged_eval(tmp_path, [panel("a", **spelled)], a=A, b=B, task={"models": ["m"]})
    holdfast("resume", "r", "--config", same, code=0)
    assert (tmp_path / "r" / "config.yaml").read_bytes() == config
    grown = judged_eval(tmp_path, [panel("a", "b", **spelled)], a=A, b=B, task={"models": ["m"]})
    holdfast("resume", "r", "--config", grown, code=0)
    assert [change["path"] for change in holdfast.records("r", "session")[-1]["changes"]] == ["tasks.t.scorers.quality"]


def test_how_judges_are_combined_may_change_and_asks_nobody(holdfast, tmp_path):
    """It decides how the scores on record are read, as a price decides what they cost."""
    holdfast("run", judged_eval(tmp_path, [panel("a", "b", "c")], a=A, b=B, c=C), "--run-dir", "r", code=0)
    was = asked(holdfast)
    changed = judged_eval(tmp_path, [panel("a", "b", "c", combine="majority", pass_at=1)], a=A, b=B, c=C)
    ended = holdfast("resume", "r", "--config", changed, code=0)
    assert "tasks.t.scorers.quality.combine: unset → majority" in ended.err
    assert asked(holdfast) == was
    assert holdfast.json("report", "r")["tasks"]["t"]["m"]["metrics"]["quality"]["accuracy"]["value"] == 1.0


def test_a_fork_keeps_the_replies_of_judges_that_would_judge_the_same(holdfast, tmp_path):
    """The judge whose settings have changed is asked; so is none of the others."""
    holdfast("run", judged_eval(tmp_path, [panel("a", "b")], a=A, b=B), "--run-dir", "r", code=0)
    warmer = {**B, "generation": {"temperature": 0.3}}
    changed = judged_eval(tmp_path, [panel("a", "b")], a=A, b=warmer)
    holdfast("fork", "r", "--config", changed, "--run-dir", "f", code=0)
    steps = [(step["model"], bool(step.get("source"))) for step in holdfast.records("f", "step")]
    assert sorted(set(steps)) == [("a", True), ("m", True)]
    holdfast("resume", "f", code=0)
    new = [step["model"] for step in holdfast.records("f", "step") if not step.get("source")]
    assert new == ["b", "b"]


@pytest.mark.parametrize(
    ("judge", "model", "is_warned"),
    [
        ("gpt-4o", "gpt-4o-mini", True),
        ("openai/gpt-4o", "openai/o3", True),
        ("meta-llama/Llama-3.1-8B", "llama-2-7b", True),
        ("claude-3-5-sonnet", "gpt-4o", False),
        ("qwen2.5-7b", "mistral-7b", False),
        ("o3", "o1", False),
    ],
)
def test_experiments_25_judge_and_model_of_one_family_are_warned_of_once(
    holdfast, tmp_path, server, judge, model, is_warned
):
    """One warning before the start, recorded as a note; a resume says nothing new."""
    server.behave(reply=json.dumps(graded("C")))
    models = {
        name: {"provider": "openai", "base_url": server.base_url, "model": called}
        for name, called in (("m", model), ("j", judge))
    }
    eval_file = judged_eval(tmp_path, [{"model_graded": {"model": "j"}}], count=1, **models)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert ended.err.count("warning: Judge and model under test are of one family") == int(is_warned)
    notes = [note["text"] for note in holdfast.records("r", "note") if note["kind"] == "judge_family"]
    assert len(notes) == int(is_warned)
    grown = judged_eval(tmp_path, [{"model_graded": {"model": "j"}}], count=2, **models)
    again = holdfast("resume", "r", "--config", grown, code=0)
    assert "of one family" not in again.err
    assert len([note for note in holdfast.records("r", "note") if note["kind"] == "judge_family"]) == int(is_warned)
