"""Mistakes that a run would carry out as written: one warning each, before the first call."""

from __future__ import annotations

import json

import pytest

from evals import write_eval
from holdfast import Sample, Task, evaluate, exact, generate

ROWS = [
    {"question": "Capital of France?", "answer": "Paris", "a": "Paris", "b": "Rome"},
    {"question": "Capital of Italy?", "answer": "Rome", "a": "Paris", "b": "Rome"},
    {"question": "Capital of Peru?", "answer": "Lima", "a": "Lima", "b": "Cusco"},
]
TASK = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
CHOICES = {"choices": ["{a}", "{b}"], "target": "{answer}", "scorers": ["choice"]}


def write(tmp_path, rows=ROWS, **task):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"models": {"m": "scripted/echo"}, "datasets": {"rows": "rows.jsonl"}, "tasks": {"t": {**TASK, **task}}}
    write_eval(tmp_path, data)


def edited(number: int, **fields) -> list[dict]:
    """The rows, with some fields of one of them replaced."""
    return [{**row, **fields} if index == number else row for index, row in enumerate(ROWS)]


LISTED = "{question}\nA) {a}\nB) {b}"
WARNINGS = {
    "a target that is an empty text": (
        {"target": ""},
        ROWS,
        (
            "The target of the task 't' is an empty text for every sample; all answers are compared with it."
            " Name the field with the expected answer, such as {answer}."
        ),
    ),
    "no field": (
        {"prompt": "Which capital?"},
        ROWS,
        (
            "The prompt of the task 't' uses no field of the dataset, so all 3 samples are asked the same."
            " Name a field in it, such as {question}."
        ),
    ),
    "the name of a field": (
        {"prompt": "question"},
        ROWS,
        (
            "The prompt of the task 't' uses no field of the dataset, so all 3 samples are asked the same."
            " Name a field in it, such as {question}."
        ),
    ),
    "the name of the target's field": (
        {"prompt": "answer"},
        ROWS,
        (
            "The prompt of the task 't' uses no field of the dataset, so all 3 samples are asked the same."
            " Name a field in it, such as {question}."
        ),
    ),
    "one of several prompts": (
        {"prompt": {"good": "{question}", "bad": "Well?"}},
        ROWS,
        (
            "The prompt 'bad' of the task 't' uses no field of the dataset, so all 3 samples are asked the same."
            " Name a field in it, such as {question}."
        ),
    ),
    "doubled braces": (
        {"prompt": "Say: {{ question }}"},
        ROWS,
        (
            "The prompt of the task 't' has {{question}}, which is sent as the text {question}."
            " For the value of the field, write {question}."
        ),
    ),
    "doubled braces in the target": (
        {"target": "{{answer}}"},
        ROWS,
        (
            "The target of the task 't' has {{answer}}, which is sent as the text {answer}."
            " For the value of the field, write {answer}."
        ),
    ),
    "a target that is a field's name": (
        {"target": "answer"},
        ROWS,
        "The target of the task 't' is the text 'answer' for every sample. For the value of the field, write {answer}.",
    ),
    "choices by their fields": (
        {"prompt": LISTED, **CHOICES},
        ROWS,
        (
            "The prompt of the task 't' already lists the choices, and the list is added to it again."
            " Write {choices} where the list belongs, or leave the choices of the task out."
        ),
    ),
    "choices that are compared as texts": (
        {**CHOICES, "scorers": ["exact"]},
        ROWS,
        (
            "The choices of the task 't' are asked by letter, and its target is not a letter (first: 'Paris'): the"
            " scorer exact counts an answer such as B as wrong. Use the scorer choice, which accepts the letter and the"
            " text."
        ),
    ),
    "choices in the question": (
        {"prompt": "{question}", "choices": "options", "target": "A", "scorers": ["choice"]},
        [{"question": f"Which? a. x{number} b. y", "options": [f"x{number}", "y"]} for number in range(3)],
        (
            "The prompt of the task 't' already lists the choices, and the list is added to it again."
            " Write {choices} where the list belongs, or leave the choices of the task out."
        ),
    ),
    "an empty target": (
        {},
        edited(1, answer=""),
        (
            "The target is empty in 1 of 3 samples of the task 't' (first: rows.jsonl row 2); their answers are"
            " compared"
            " with an empty text. Fill it in, or leave such rows out with a filter."
        ),
    ),
    "one row that repeats another": (
        {},
        [*ROWS, ROWS[1]],
        (
            "1 of 4 samples of the task 't' asks the same as another one (first: rows.jsonl rows 2 and 4); it counts as"
            " a sample of its own, so intervals are too narrow. Remove such rows; to ask every question several times,"
            " use epochs."
        ),
    ),
    "rows that repeat others, with other targets too": (
        {},
        [*ROWS, ROWS[0], {**ROWS[0], "answer": "Lyon"}],
        (
            "2 of 5 samples of the task 't' ask the same as another one (first: rows.jsonl rows 1 and 4); each counts"
            " as a sample of its own, so intervals are too narrow. Remove such rows; to ask every question several"
            " times, use epochs."
        ),
    ),
    "arguments for no scorer": (
        {},
        [{**row, "scoring": {"exakt": {}}} for row in ROWS],
        (
            "3 samples carry arguments for the scorer 'exakt', which the task 't' does not have; they have no effect"
            " (first: rows.jsonl row 1). Name one of its scorers: exact."
        ),
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_likely_mistake_is_one_warning_before_the_first_call(holdfast, tmp_path, name):
    """Run and dry run say the same, for people and as JSON; the run is carried out all the same."""
    task, rows, expected = WARNINGS[name]
    write(tmp_path, rows, **task)
    said = holdfast("run", "eval.yaml", "--dry-run", code=0)
    assert said.err == f"warning: {expected}\n"
    assert holdfast.json("run", "eval.yaml", "--dry-run", code=0)["warnings"] == [expected]
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", "--json", code=0)
    assert json.loads(ended.out)["warnings"] == [expected]
    assert ended.err.splitlines()[1] == f"warning: {expected}"
    first = expected.partition(". ")[0]
    assert ended.err.splitlines()[-1].startswith(f"1 warning before the start: {first[:159]}")
    assert "warning" not in holdfast("resume", "r", code=0).err


QUIET = {
    "as it should be": ({}, ROWS),
    "literal braces": ({"prompt": '{question} As JSON: {{"city": "..."}}, {{{answer}}}'}, ROWS),
    "one sample": ({"prompt": "Which capital?"}, ROWS[:1]),
    "a system text that names a field": ({"prompt": "Well?", "system": "{question}"}, ROWS),
    "choices that are added to the same prompt": ({"prompt": "Which?", **CHOICES}, ROWS),
    "choices whose target is a letter": (
        {"prompt": "{question}", **CHOICES, "target": "A", "scorers": ["exact"]},
        ROWS,
    ),
    "choices for the scorer of choices as well": (
        {"prompt": "{question}", **CHOICES, "scorers": ["exact", "choice"]},
        ROWS,
    ),
    "choices where the prompt says": ({"prompt": "{question}\n{choices}", **CHOICES}, ROWS),
    "choices that the question mentions": (
        {"choices": "options", "target": "A", "scorers": ["choice"]},
        [{"question": f"Is {number} even, yes or no?", "options": ["yes", "no"]} for number in range(3)],
    ),
    "a target that is the same for all": ({"target": "yes"}, ROWS),
    "no target where nothing is compared": (
        {"target": None, "scorers": [{"regex": {"pattern": "x", "compare": False}}]},
        [{**row, "target": ""} for row in ROWS],
    ),
    "a repeated row that is not asked about": ({"limit": 3}, [*ROWS, ROWS[1]]),
    "an empty target that is not asked about": ({"limit": 1}, edited(1, answer="")),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_can_be_meant_is_not_warned_of(holdfast, tmp_path, name):
    """Whoever is warned for nothing stops reading."""
    task, rows = QUIET[name]
    write(tmp_path, rows, **task)
    assert holdfast("run", "eval.yaml", "--dry-run", code=0).err == ""


def test_rows_that_an_operation_repeats_are_not_warned_of(holdfast, tmp_path):
    """Who repeats them on purpose knows it; nor is a row warned of whose twin was left out."""
    write(tmp_path, [*ROWS, ROWS[0]])
    for operation in ("{repeat: {times: 2}}", "{slice: {start: 1}}"):
        told = holdfast("run", "eval.yaml", "--dry-run", "--set", f"datasets.rows.operations=[{operation}]", code=0)
        assert told.err == ""


def test_a_fork_warns_of_the_eval_that_it_gets(holdfast, tmp_path):
    """A resume of the fork pays for it, and says nothing any more."""
    write(tmp_path)
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    write(tmp_path, prompt="{{question}}")
    assert "warning: The prompt" in holdfast("fork", "r", "--config", "eval.yaml", "--run-dir", "f", code=0).err


def test_foreign_names_in_a_warning_do_nothing_to_a_terminal(holdfast, tmp_path):
    """A field may have any name."""
    write(tmp_path, [{**row, "scoring": {"\x1b[31mred\n": {}}} for row in ROWS])
    said = holdfast("run", "eval.yaml", "--dry-run", code=0).err
    assert "\x1b" not in said and said.count("\n") == 1


def test_evaluate_prints_warnings_before_the_first_call(tmp_path, capsys):
    """In Python they go to stderr, and stay with the run."""
    samples = [Sample("a", target="a"), Sample("b", target="")]
    task = Task(name="t", samples=samples, solver=generate("always"), scorers=exact())
    run = evaluate(task, ["scripted/echo"], run=tmp_path / "r")
    said = capsys.readouterr().err
    assert "holdfast: warning: The prompt of the task 't' uses no field" in said
    assert "holdfast: warning: The target is empty in 1 of 2 samples" in said
    assert "uses no field" in run.ended.warning


def test_a_task_without_a_scorer_is_warned_of(tmp_path, capsys):
    """Its answers are recorded; that nothing is scored may be meant."""
    task = Task(name="t", samples=[Sample("a")], solver=generate(), scorers=[])
    evaluate(task, ["scripted/echo"], run=tmp_path / "r")
    assert "holdfast: warning: The task 't' has no scorer: its answers are recorded" in capsys.readouterr().err


def test_quiet_prints_the_warnings(holdfast, tmp_path):
    """They are about money that is not spent yet."""
    write(tmp_path, target="")
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", "-q", code=0)
    (line,) = ended.err.splitlines()
    assert line.startswith("warning: The target of the task 't' is an empty text")
