"""`holdfast schema`: a valid JSON Schema with words on every field, and every eval that can be run is valid."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from full_evals import refusal

from holdfast.cli.run.init import FILES
from holdfast.errors import ConfigurationError
from holdfast.reference.eval_schema import eval_schema, schema_text
from holdfast.spec.loading.yaml_document import read_document

ROOT = Path(__file__).parents[2]
SCHEMA = eval_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
FENCED = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def problems(text: str) -> list[str]:
    return [f"{error.instance_path}: {error.message}" for error in VALIDATOR.iter_errors(read_document(text, "eval"))]


def can_be_run(text: str) -> bool:
    """Whether a text is an eval that loads and makes sense, with scorers and options that exist."""
    try:
        return isinstance(data := read_document(text, "eval"), dict) and not refusal(data)
    except ConfigurationError:
        return False


def texts_in_sources() -> dict[str, str]:
    """Every text in the tests that might be an eval file, by where it is."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "models:" in node.value:
                found[f"{path.relative_to(ROOT)}:{node.lineno}"] = node.value
    return found


def eval_files() -> dict[str, str]:
    """Every eval file of the examples and of the data of tests, and those in the documents."""
    files = [*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "tests" / "data").rglob("*.yaml")]
    found = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(files)}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(FENCED.findall(page.read_text(encoding="utf-8"))):
            found[f"{page.relative_to(ROOT)} block {number}"] = block
    return found


EVAL_FILES = eval_files()


def test_it_is_a_json_schema():
    """The dialect's own schema accepts it."""
    jsonschema_rs.meta.validate(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_key_is_explained():
    """An editor can say of every key what it means, with an example that is valid there."""
    for name, definition in SCHEMA["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert len(value.get("description", "").split()) >= 3, f"{name}.{key}"
            place = {"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{name}/properties/{key}"}
            jsonschema_rs.Draft202012Validator(place).validate(value["examples"][0])


def test_unknown_keys_are_refused_wherever_there_are_known_ones():
    """No block accepts what nobody reads."""
    blocks = [definition for definition in SCHEMA["$defs"].values() if "properties" in definition]
    assert len(blocks) > 20
    assert all(definition["additionalProperties"] is False for definition in blocks)


def test_the_eval_that_init_writes_is_valid():
    """What a new user starts from has no red line under it."""
    assert problems(FILES["eval.yaml"]) == []


@pytest.mark.parametrize("name", EVAL_FILES)
def test_the_eval_files_of_examples_and_documents_are_valid(name):
    """Whatever can be run is valid; pieces of evals, and evals of earlier versions, do not load."""
    text = EVAL_FILES[name]
    if can_be_run(text):
        assert problems(text) == []


def test_the_eval_files_in_tests_are_valid():
    """So is every text in the tests that is an eval which can be run."""
    runnable = {at: text for at, text in texts_in_sources().items() if can_be_run(text)}
    assert len(runnable) > 10
    assert {at: found for at, text in runnable.items() if (found := problems(text))} == {}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("tasks: {t: {dataset: d, scorers: [my.py:strict]}}", True),
        ("tasks: {t: {dataset: d, scorers: ['package.module:strict']}}", True),
        ("tasks: {t: {dataset: d, scorers: ['my.py:strict': {level: 2}]}}", True),
        ("tasks: {t: {dataset: d, scorers: my.py:strict}}", True),
        ("tasks: {t: {dataset: d, scorers: [strict]}}", False),
        ("tasks: {t: {dataset: d, scorers: []}}", False),
        ("tasks: {t: {dataset: d, scorers: [{exact: null}]}}", True),
        ("tasks: {t: {dataset: d, scorers: [{exact: {}, choice: {}}]}}", False),
        ("tasks: {t: {use: 'a.py:t', prompt: x}}", False),
        ("grace_period: 1h", True),
        ("grace_period: 1 hour", False),
        ("grace_period: 120", True),
        ("grace_period: '120'", False),
        ("models: {m: openai}", False),
        ("models: {m: {provider: scripted, model: echo, args: {slots: 1}}}", False),
        ("models: {m: {provider: a_plug_in, model: x, args: {anything: 1}}}", True),
        ("models: {m: {model: local/small, args: {slots: 1}}}", True),
        ("seed: yes", False),
        ("seed: '1'", False),
    ],
)
def test_short_forms_and_rules(keys, expected):
    """Short forms, code of the user's, durations, and keys that exclude one another."""
    valid = "{models: {m: scripted/echo}, datasets: {d: d.csv}, tasks: {t: {dataset: d, scorers: [exact]}}}"
    data: dict[str, Any] = {**read_document(valid, "valid"), **read_document(keys, "keys")}
    assert VALIDATOR.is_valid(data) is expected


def test_it_is_printed_as_it_is(holdfast):
    """`holdfast schema` prints the schema and nothing else, with and without --json."""
    printed = holdfast("schema", code=0).out
    assert printed == schema_text() == holdfast("schema", "--json", code=0).out
    assert json.loads(printed) == json.loads(json.dumps(SCHEMA))


def test_init_writes_the_schema_beside_the_eval(holdfast, tmp_path):
    """The first line of the eval file names the schema, which lies beside it."""
    holdfast("init", "new", code=0)
    first = (tmp_path / "new" / "eval.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=eval.schema.json"
    assert (tmp_path / "new" / "eval.schema.json").read_text(encoding="utf-8") == schema_text()
