"""`holdfast list`: what an eval file can name, from the definitions themselves."""

from __future__ import annotations

import json

import pytest

from cli_calls import call
from holdfast import exact, regex
from holdfast.spec import Operation
from holdfast.tasks.datasets.formats import READERS
from holdfast.tasks.scorers.registry import BUILT_IN

COLUMNS = 80


def test_providers_are_listed_with_their_status(capfdbinary, monkeypatch):
    """One that is ready says so, and one that is not names the variable that it needs."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    lines = call(capfdbinary, "list", "models").out.splitlines()
    assert any(line.split()[:2] == ["scripted", "ready"] for line in lines)
    assert "groq        not ready  Groq; needs the environment variable GROQ_API_KEY" in lines
    monkeypatch.setenv("GROQ_API_KEY", "key-of-groq-0123")
    found = {item["name"]: item for item in json.loads(call(capfdbinary, "list", "models", "--json").out)["providers"]}
    assert found["groq"]["ready"] and found["groq"]["needs"] == ""


def test_every_scorer_is_listed_with_every_argument(capfdbinary):
    """Names and defaults are those of the scorers themselves."""
    scorers = json.loads(call(capfdbinary, "list", "scorers", "--json").out)["scorers"]
    assert [scorer["name"] for scorer in scorers] == list(BUILT_IN)
    by_name = {scorer["name"]: {item["name"]: item for item in scorer["arguments"]} for scorer in scorers}
    for name, scorer in BUILT_IN.items():
        assert set(by_name[name]) == set(scorer.__struct_encode_fields__)
    made = exact()
    assert all(getattr(made, name) == item["default"] for name, item in by_name["exact"].items())
    assert by_name["regex"]["pattern"] == {"name": "pattern", "required": True, "default": None}
    assert by_name["regex"]["match"]["default"] == regex("a").match
    told = call(capfdbinary, "list", "scorers").out
    assert "pattern (required)" in told and "ignore_case=false" in told and "scorers: [my.py:strict]" in told


def test_every_format_and_operation_is_listed(capfdbinary):
    """What a dataset may be, and what may be done with it."""
    found = json.loads(call(capfdbinary, "list", "datasets", "--json").out)
    assert [item["name"] for item in found["formats"]] == list(READERS)
    assert [item["name"] for item in found["operations"]] == list(Operation.__struct_encode_fields__)
    assert all(item["description"] for kind in ("formats", "operations") for item in found[kind])
    assert "slice    " in call(capfdbinary, "list", "datasets").out


def test_the_datasets_of_an_eval_are_listed(capfdbinary, tmp_path):
    """With the path, the number of rows and the columns, also of those that not every row has."""
    (tmp_path / "rows.jsonl").write_text('{"a": 1, "b": 2}\n{"a": 1, "\\u001b[31mc": 2}\n')
    (tmp_path / "eval.yaml").write_text(
        "models: {m: scripted/echo}\ndatasets: {rows: rows.jsonl}\ntasks: {t: {dataset: rows, scorers: [exact]}}\n"
    )
    told = call(capfdbinary, "list", "datasets", tmp_path / "eval.yaml").out
    assert f"rows {tmp_path / 'rows.jsonl'} (jsonl, 2 rows)" in " ".join(told.split())
    assert "columns: a, b, c" in told and "\x1b" not in told
    (found,) = json.loads(call(capfdbinary, "list", "datasets", tmp_path / "eval.yaml", "--json").out)["datasets"]
    assert (found["name"], found["rows"], found["columns"][:2]) == ("rows", 2, ["a", "b"])
    (tmp_path / "rows.jsonl").unlink()
    assert call(capfdbinary, "list", "datasets", tmp_path / "eval.yaml").code == 2


@pytest.mark.parametrize("what", ["models", "scorers", "datasets"])
def test_the_lines_fit_a_terminal_of_eighty_columns(capfdbinary, what):
    """No line is longer, and no word is broken."""
    lines = call(capfdbinary, "list", what).out.splitlines()
    assert lines and max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "scorer"], "There is no list of 'scorer'. Did you mean 'scorers'?"),
        (["list", "xyz"], "There is no list of 'xyz'. There are models, scorers and datasets."),
        (["list", "models", "eval.yaml"], "An eval file is for `holdfast list datasets`, not for models."),
        (["models"], "No such command 'models'"),
    ],
)
def test_a_wrong_word_is_refused_with_the_right_one(capfdbinary, words, told):
    """The exit code is 2."""
    ended = call(capfdbinary, *words)
    assert ended.code == 2 and told in ended.err
