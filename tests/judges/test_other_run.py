"""Limits 26: a judge compares the answers of a run with those of another one."""

from __future__ import annotations

import json
import shutil

import pytest
from judged_evals import judged_eval, scripted

from evals import write_eval
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.judges.other_run import OtherAnswers

FIRST = scripted({"explanation": "so", "winner": "A"}, "always-first")
PAIR = {"model_graded": {"name": "pair", "model": "j", "pairwise": {"run": "base"}}}


def pair(**arguments):
    return {"model_graded": {**PAIR["model_graded"], **arguments}}


@pytest.fixture
def base(holdfast, tmp_path):
    """A run whose answers are compared with."""
    holdfast("run", judged_eval(tmp_path, ["exact"], m=scripted("old answer", "m")), "--run-dir", "base", code=0)
    return tmp_path / "base"


def requests(holdfast, run="r"):
    """What the judge was asked, in order."""
    steps = [step for step in holdfast.records(run, "step") if step["model"] == "j"]
    return [step["request"]["messages"][0]["content"] for step in steps]


def test_limits_26_pairwise_with_the_answers_of_another_run(holdfast, tmp_path, base):
    """Both orders are asked with both answers, and the position bias is reported; the copy is part of the run."""
    holdfast("run", judged_eval(tmp_path, [PAIR], j=FIRST), "--run-dir", "r", code=0)
    one, two = (asked for asked in requests(holdfast) if "\nq1\n" in asked)
    assert one.index("\nan answer\n") < one.index("\nold answer\n")
    assert two.index("\nan answer\n") > two.index("\nold answer\n")
    group = holdfast.json("report", "r")["tasks"]["t"]["m"]
    assert group["metrics"]["pair"]["mean"]["value"] == 0.5
    assert group["panels"]["pair"]["position"]["bias"] == 1.0
    assert group["panels"]["pair"]["position"]["flipped"] == 2
    scores = holdfast.records("r", "score")
    assert {score["explanation"] for score in scores} == {"the answer wins: so; the other wins: so"}
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_limits_26_the_other_run_may_be_gone_or_changed(holdfast, tmp_path, base):
    """The answers were copied: a resume compares with the same ones, wherever the run is by then."""
    holdfast("run", judged_eval(tmp_path, [PAIR], j=FIRST), "--run-dir", "r", code=0)
    shutil.rmtree(base)
    grown = judged_eval(tmp_path, [PAIR], j=FIRST, task={"epochs": 2})
    holdfast("resume", "r", "--config", grown, code=0)
    assert len(requests(holdfast)) == 8
    assert all("\nold answer\n" in asked for asked in requests(holdfast))
    assert holdfast("resume", "r", "--config", grown, code=0).out.count("nothing was run") == 1
    assert "base is not a run: it does not exist" in holdfast("run", grown, "--run-dir", "n", code=2).err


def test_limits_26_another_opponent_is_another_way_to_score(holdfast, tmp_path, base):
    """A change is refused and named rescore, which asks again; back again, the first comparisons are found."""
    holdfast("run", judged_eval(tmp_path, ["exact"], m=scripted("new answer", "m")), "--run-dir", "other", code=0)
    holdfast("run", judged_eval(tmp_path, [PAIR], j=FIRST), "--run-dir", "r", code=0)
    changed = judged_eval(tmp_path, [pair(pairwise={"run": "other"})], j=FIRST)
    assert "holdfast rescore r" in holdfast("resume", "r", "--config", changed, code=3).err
    holdfast("rescore", "r", "--config", changed, code=0)
    assert sum("\nnew answer\n" in asked for asked in requests(holdfast)) == 4
    assert sum("\nold answer\n" in asked for asked in requests(holdfast)) == 4
    base.rename(tmp_path / "moved")
    # The same answers from another place are the same opponent; so are those that the run has a copy of.
    for run in ("moved", "base"):
        eval_file = judged_eval(tmp_path, [pair(pairwise={"run": run})], j=FIRST)
        assert "Nothing to score" in holdfast("rescore", "r", "--config", eval_file, code=0).err
    assert len(requests(holdfast)) == 8


def test_limits_26_samples_without_an_answer_there_are_unscored(holdfast, tmp_path, base):
    """With a warning before the start; a run that has answered none of them is refused."""
    ended = holdfast("run", judged_eval(tmp_path, [PAIR], count=3, j=FIRST), "--run-dir", "r", code=0)
    assert "has no answer to s3; these stay unscored" in " ".join(ended.err.split())
    (score,) = [score for score in holdfast.records("r", "score") if score.get("unscored")]
    assert score["explanation"].startswith("no answer to compare with")
    panel = holdfast.json("report", "r")["tasks"]["t"]["m"]["panels"]["pair"]
    assert panel["reasons"] == {"no answer to compare with": 1}
    eval_file = judged_eval(tmp_path, [PAIR], j=FIRST)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "x", "question": "q", "answer": "a"}) + "\n")
    assert "an answer to none of the samples, such as x" in holdfast("run", eval_file, "--run-dir", "n", code=2).err


def rewrite_rows(tmp_path, change):
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(change(row)) + "\n" for row in rows))


def test_limits_26_samples_that_share_only_an_id_are_unscored(holdfast, tmp_path, base):
    """With one warning that counts them; if all are others, the eval is refused, and no judge is asked."""
    eval_file = judged_eval(tmp_path, [PAIR], j=FIRST)
    rewrite_rows(tmp_path, lambda row: {**row, "question": "another"} if row["id"] == "s2" else row)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert "was asked something else about s2 (1 of 2); these stay unscored" in " ".join(ended.err.split())
    (score,) = [score for score in holdfast.records("r", "score") if score.get("unscored")]
    assert score["explanation"].startswith("another question")
    assert len(requests(holdfast)) == 2
    rewrite_rows(tmp_path, lambda row: {**row, "question": f"other {row['id']}"})
    ended = holdfast("run", eval_file, "--run-dir", "n", code=2)
    assert "asked something else about every sample, such as s1" in " ".join(ended.err.split())


def test_limits_26_another_prompt_or_another_column_is_no_other_question(holdfast, tmp_path, base):
    """Prompts may be what is compared, and a file may have more columns than the other one."""
    holdfast(
        "run", judged_eval(tmp_path, [PAIR], j=FIRST, task={"prompt": "Say: {question}"}), "--run-dir", "r", code=0
    )
    eval_file = judged_eval(tmp_path, [PAIR], j=FIRST)
    rewrite_rows(tmp_path, lambda row: {**row, "more": 1})
    holdfast("run", eval_file, "--run-dir", "s", code=0)
    assert len(requests(holdfast)) == len(requests(holdfast, "s")) == 4


def test_limits_26_damage_of_the_other_run_is_named(holdfast, tmp_path, base):
    """What is left of it can be compared with."""
    eval_file = judged_eval(tmp_path, [PAIR], j=FIRST)
    segments = sorted((base / "journal").iterdir())
    segments[-1].write_bytes(bytes(40) + segments[-1].read_bytes()[40:])
    ended = holdfast("run", eval_file, "--run-dir", "r")
    assert "base lists what is lost" in " ".join(ended.err.split())
    assert "not all of that can be read" in " ".join(ended.err.split())
    # Zeros in place of all but the first bytes: the session is known, and no answer is left.
    for segment in segments:
        content = segment.read_bytes()
        segment.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    ended = holdfast("run", eval_file, "--run-dir", "n", code=2)
    assert "base lists what is lost" in " ".join(ended.err.split())


def test_limits_26_damage_of_the_other_run_is_named_by_resume_and_rescore(holdfast, tmp_path, base):
    """Whether the scorer is added by a resume, or compares with another run from now on."""
    shutil.copytree(base, tmp_path / "whole")
    segment = max((base / "journal").iterdir())
    segment.write_bytes(bytes(40) + segment.read_bytes()[40:])
    holdfast("run", judged_eval(tmp_path, [pair(pairwise={"run": "whole"})], j=FIRST), "--run-dir", "r", code=0)
    changed = judged_eval(tmp_path, [PAIR], j=FIRST)
    told = holdfast("rescore", "r", "--config", changed)
    assert "not all of that can be read" in " ".join(told.err.split())
    holdfast("run", judged_eval(tmp_path, ["exact"], j=FIRST), "--run-dir", "s", code=0)
    told = holdfast("resume", "s", "--config", judged_eval(tmp_path, ["exact", PAIR], j=FIRST))
    assert "not all of that can be read" in " ".join(told.err.split())


def test_limits_26_epochs_prompts_and_models_of_the_other_run(holdfast, tmp_path):
    """The same epoch and prompt are compared, or the only ones there are; of several models, one is named."""
    prompts = {"prompt": {"a": "A {question}", "b": "B {question}"}, "epochs": 2}
    echo = {"provider": "scripted", "model": "echo"}
    two = judged_eval(tmp_path, ["exact"], count=1, task=prompts, m=echo, other=scripted("x"))
    holdfast("run", two, "--run-dir", "base", code=0)
    assert "Name one: pairwise: {run: base, model: m}" in " ".join(
        holdfast("run", judged_eval(tmp_path, [PAIR], j=FIRST), "--run-dir", "r", code=2).err.split()
    )
    scorer = pair(pairwise={"run": "base", "model": "m"})
    more = {**prompts, "epochs": 3}
    holdfast("run", judged_eval(tmp_path, [scorer], count=1, task=more, j=FIRST), "--run-dir", "r", code=0)
    asked = requests(holdfast)
    assert len(asked) == 2 * 2 * 3
    # Each prompt is compared with the answer to the same prompt: an echo says which it was.
    assert all(text.count("\nA q") == 2 or text.count("\nB q") == 2 for text in asked)
    wrong = pair(pairwise={"run": "base", "model": "y"})
    assert "no answer of 'y'" in holdfast("run", judged_eval(tmp_path, [wrong], j=FIRST), "--run-dir", "n", code=2).err


def other_answers(tmp_path, *rows):
    """A copy of answers, each given as a sample, a prompt, an epoch and a text."""
    path = tmp_path / "answers.jsonl"
    names = ("sample", "axes", "epoch", "answer")
    made = [dict(zip(names, (sample, {"prompt": prompt}, *rest), strict=True)) for sample, prompt, *rest in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return OtherAnswers(Rows.open(path))


def test_limits_26_the_answer_to_another_prompt_is_no_opponent(tmp_path):
    """A sample may lack the answer to one of two prompts; a run of one prompt is compared with whatever it was."""
    two = other_answers(tmp_path, ("s1", "a", 1, "A1"), ("s1", "b", 1, "B1"), ("s2", "a", 1, "A2"))
    assert two.find("s2", 1, {"prompt": "a"}) == "A2" and two.find("s2", 1, {"prompt": "b"}) is None
    one = other_answers(tmp_path, ("s1", "a", 1, "A1"), ("s2", "a", 1, "A2"))
    assert one.find("s2", 1, {"prompt": "b"}) == "A2" and one.find("s3", 1, {"prompt": "b"}) is None


def test_limits_26_the_same_epoch_is_compared(tmp_path):
    """Where an epoch of the other run has no answer, the others stay where they are; beyond them it is their turn."""
    answers = other_answers(tmp_path, ("s1", "a", 2, "second"), ("s1", "a", 3, "third"))
    found = [answers.find("s1", epoch, {"prompt": "a"}) for epoch in range(1, 6)]
    assert found == ["second", "second", "third", "third", "second"]


FAILING = """
def failing(answer, sample):
    raise ValueError("no score")
"""


def test_limits_26_an_answer_whose_scorer_failed_is_an_opponent(holdfast, tmp_path):
    """Nothing is missing of the answer."""
    (tmp_path / "own.py").write_text(FAILING)
    holdfast("run", judged_eval(tmp_path, ["own.py:failing"], m=scripted("old answer", "m")), "--run-dir", "base")
    holdfast("run", judged_eval(tmp_path, [PAIR], j=FIRST), "--run-dir", "r", code=0)
    assert sum("\nold answer\n" in asked for asked in requests(holdfast)) == 4


PYTHON = """
from holdfast import Sample, Task, generate, model_graded, task

@task
def t():
    judged = model_graded(model="j", name="pair", pairwise={"run": "base"})
    return Task(samples=[Sample("q1", id="s1"), Sample("q2", id="s2")], solver=generate(), scorers=judged)
"""


def test_limits_26_in_python_and_resumed(holdfast, tmp_path, base):
    (tmp_path / "task.py").write_text(PYTHON)
    data = {"name": "n", "models": {"m": scripted("x"), "j": FIRST}, "tasks": {"t": {"use": "task.py:t"}}}
    eval_file = write_eval(tmp_path, data)
    holdfast("run", eval_file, "--run-dir", "r", "--limit", "1", code=0)
    shutil.rmtree(base)
    holdfast("resume", "r", "--set", "limit=2", code=0)
    assert len(requests(holdfast)) == 4
