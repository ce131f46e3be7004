"""What the samples of a Python task may be asked with: messages of known roles, and prompts from any columns."""

from __future__ import annotations

import sys

import pytest
from dataset_files import write_jsonl

from holdfast import Run, Task, evaluate, exact, generate, includes, regex
from holdfast.errors import ConfigurationError

ECHO = ["scripted/echo"]
ROWS = [{"question": "q1", "target": "q1"}, {"question": "q2", "target": "q2"}]


def chat(role: str) -> list[dict]:
    return [{"input": [{"role": role, "content": f"q{number}"}], "target": f"q{number}"} for number in range(2)]


def test_a_prompt_of_other_columns_makes_do_without_an_input(tmp_path):
    """A dataset without the column `input` can be asked with generate("{column}"), as in an eval file."""
    path = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    task = Task(name="t", dataset=path, solver=generate("{question}"), scorers=exact())
    run = evaluate(task, ECHO, run=tmp_path / "r")
    assert run.ended.counts.valid == 2
    assert [row["scores"]["exact"] for row in run.to_dicts()] == [True, True]


def test_the_hint_for_a_missing_input_can_be_followed(tmp_path):
    """What the error says works."""
    path = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(ConfigurationError) as refused:
        evaluate(Task(name="t", dataset=path, solver=generate(), scorers=exact()), ECHO, run=tmp_path / "r")
    assert str(refused.value) == (
        "rows.jsonl row 1 has no field 'input'; it has question, target."
        ' Use a prompt that names a field, such as "{question}" (in Python: solver=generate("{question}")), or say'
        " which column is the input: fields: {input: question} in the dataset."
    )
    told = Task(name="t", dataset={"path": path, "fields": {"input": "question"}}, scorers=exact())
    assert evaluate(told, ECHO, run=tmp_path / "r").ended.counts.valid == 2


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"answer": "a long answer", "title": "x"}, "{title}"),
        ({"answer": "Paris", "text": "x", "note": "longer"}, "{text}"),
    ],
)
def test_no_hint_gives_an_answer_away(tmp_path, row, named):
    """The field that is suggested for a prompt is not called like an answer."""
    path = write_jsonl(tmp_path / "rows.jsonl", [row])
    with pytest.raises(ConfigurationError) as refused:
        evaluate(Task(name="t", dataset=path, scorers=exact()), ECHO, run=tmp_path / "r")
    assert f'such as "{named}"' in str(refused.value) and "{answer}" not in str(refused.value)


def test_without_a_field_to_suggest_none_is_named(tmp_path):
    """The row has nothing but its answer."""
    path = write_jsonl(tmp_path / "rows.jsonl", [{"answer": "Paris"}])
    with pytest.raises(ConfigurationError, match=r"Use a prompt that names a field, or rename a column to input\.$"):
        evaluate(Task(name="t", dataset=path, scorers=exact()), ECHO, run=tmp_path / "r")


def test_a_map_of_a_dataset_is_checked(tmp_path):
    """A key that is not known is named, and what a map looks like."""
    with pytest.raises(ConfigurationError, match=r"unknown field `feilds`.*\"fields\": \{\"input\": \"question\""):
        Task(name="t", dataset={"path": "x.csv", "feilds": {}}, scorers=exact())


def test_the_message_about_a_missing_file_is_about_python_too(tmp_path, monkeypatch):
    """It names the directory that was looked in, and where relative paths start."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        evaluate(Task(name="t", dataset="rows.jsonl", scorers=exact()), ECHO, run=tmp_path / "r")
    assert str(refused.value) == (
        f"Dataset rows.jsonl does not exist in {tmp_path}. Relative paths start at the directory of the eval file; in"
        " Python, at that of the file with @task or, without @task, at the working directory."
    )


def test_a_dataset_with_an_unknown_role_is_refused_by_a_new_run(tmp_path):
    """Before anything is written, with the row."""
    path = write_jsonl(tmp_path / "rows.jsonl", chat("usr"))
    task = Task(name="t", dataset=path, solver=generate(), scorers=exact())
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl row 1 has a message with the role 'usr'"):
        evaluate(task, ECHO, run=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_an_earlier_run_with_an_unknown_role_is_read_and_resumed(tmp_path, monkeypatch):
    """What was accepted once stays readable."""
    path = write_jsonl(tmp_path / "rows.jsonl", chat("usr"))
    task = Task(name="t", dataset=path, solver=generate(), scorers=exact())
    with monkeypatch.context() as earlier:
        for module in ("holdfast.models.message", "holdfast.engine.planning.early_warnings"):
            earlier.setattr(sys.modules[module], "ROLES", ("usr", "system", "user", "assistant"))
        evaluate(task, ECHO, run=tmp_path / "r")
    assert Run.open(tmp_path / "r").report().coverage.valid == 2
    assert evaluate(task, ECHO, run=tmp_path / "r").ended.counts.valid == 2
    more = Task(name="t", dataset=path, solver=generate(), scorers=exact(), epochs=2)
    assert evaluate(more, ECHO, run=tmp_path / "r").ended.counts.finished == 4


@pytest.mark.parametrize(("factory", "call"), [(exact, "exact()"), (includes, "includes()"), (regex, "regex(pattern)")])
def test_a_factory_that_was_not_called_is_named(factory, call):
    """The call to write is in the message."""
    name = call.partition("(")[0]
    with pytest.raises(ConfigurationError, match="is a factory") as refused:
        Task(samples=[], solver=generate(), scorers=factory)
    assert str(refused.value) == f"`{name}` is a factory; call it: `{call}`."


def test_a_dataset_at_a_url_is_refused():
    """Nothing is downloaded."""
    with pytest.raises(ConfigurationError, match=r"The dataset is 'hf://squad'; only files are read: download"):
        Task(dataset="hf://squad", solver=generate(), scorers=exact())
