"""A mistake in an eval file is refused by its path, its value and what is allowed there."""

import math
import typing

import pytest
from schema_values import MINIMAL, all_places, document_with, example, leaves

from holdfast.errors import ConfigurationError
from holdfast.spec import EvalSpec, FieldPlace, parse_eval, schema_fields, typed_eval
from holdfast.spec.schema.introspect import block_within, members, unwrapped


def refusal(document) -> str:
    with pytest.raises(ConfigurationError) as caught:
        typed_eval(document, "eval.yaml")
    return str(caught.value)


def spoken_path(place: FieldPlace) -> str:
    """The place as an error names it for the minimal eval."""
    named = place.path.replace("[]", "[0]")
    for block, name in (("models", "small"), ("datasets", "rows"), ("tasks", "ask")):
        named = named.replace(f"{block}.*", f"{block}.{name}")
    return named


def numbers() -> list[FieldPlace]:
    return [place for place in leaves() if unwrapped(members(place.field.type)[0]) in (int, float)]


def holders() -> list[FieldPlace]:
    return [place for place in all_places() if not place.is_leaf]


@pytest.mark.parametrize("place", numbers(), ids=lambda place: place.path)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -(10**30), 10**30, 1.5e300, "many", True, [1], {}])
def test_a_number_out_of_range_or_of_another_kind_is_named(place, value):
    """Every numeric field refuses what is no number in its range, with path, value and bounds."""
    message = refusal(document_with(place, value))
    assert f"{spoken_path(place)} is " in message
    assert "; allowed: a " in message
    if not isinstance(value, list | dict):
        assert {math.nan: "NaN", math.inf: "Infinity", True: "true", "many": '"many"'}.get(value, "") in message


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("concurrency_limit", -1, "a whole number from 1 up to 1000000"),
        ("concurrency_limit", 10**12, "a whole number from 1 up to 1000000"),
        ("runner.max_retries", 2.5, "a whole number from 0 up to 1000"),
        ("models.*.generation.temperature", -0.1, "a number from 0 up to 100"),
        ("models.*.rate_limit.requests_per_minute", 10**12, "a whole number from 1 up to 1000000000"),
        ("tasks.*.limits.time", 0, 'a number above 0 up to 10000000 (seconds), or text such as "90s", "2m" or "1h30m"'),
        ("tasks.*.limits.cost", -1, "a number above 0 up to 1000000000"),
        ("tasks.*.epochs", 0, "a whole number from 1 up to 1000000"),
        ("tasks.*.epochs", 10**6 + 1, "a whole number from 1 up to 1000000"),
        ("tasks.*.limit", 0, "a whole number from 1 up to 1000000000"),
        ("tasks.*.system", 3, "text; put it in quotes"),
        ("tasks.*.choices", 3, "a list or text"),
        ("datasets.*.format", "xml", "one of jsonl, json, csv"),
        ("models.*.headers", "x", "a map"),
        ("datasets.*.operations", "shuffle", "a list"),
        ("runner.show_progress", "yes", "true or false"),
    ],
)
def test_what_is_allowed_is_said(path, value, allowed):
    """The sentence has the dotted path, the value as written, and what may stand there."""
    place = next(place for place in all_places() if place.path == path)
    shown = f'"{value}"' if isinstance(value, str) else value
    assert refusal(document_with(place, value)) == f"eval.yaml: {spoken_path(place)} is {shown}; allowed: {allowed}."


@pytest.mark.parametrize("place", holders(), ids=lambda place: place.path)
def test_an_unknown_key_is_named_in_every_block(place):
    """A mistyped key is refused anywhere, with its place and the nearest name that is known there."""
    block, way = block_within(place.field.type)
    right = max(schema_fields(block), key=len)
    wrong = right + "x"
    inner = {"given": {wrong: 1}} if way == ".*" else [{wrong: 1}] if way == "[]" else {wrong: 1}
    inner = {"given": {"so": {wrong: 1}}} if way == ".*.*" else inner
    at = {".*": ".given", ".*.*": ".given.so", "[]": "[0]", "": ""}[way]
    message = refusal(document_with(place, inner))
    assert f"{spoken_path(place)}{at}.{wrong} is not a known key; did you mean {right}?" in message


def test_an_unknown_key_at_the_top_is_named():
    """A mistyped key at the top is refused with the nearest one."""
    message = refusal({**MINIMAL, "modles": {}})
    assert message == "eval.yaml: modles is not a known key; did you mean models?"


def test_a_key_like_no_other_is_refused_with_the_known_ones():
    """Where no name is near, the known ones are listed."""
    message = refusal({**MINIMAL, "runner": {"zzz": 1}})
    assert "runner.zzz is not a known key; known here: concurrency_limit, concurrency_limits, max_retries" in message


def test_the_nearest_column_of_a_dataset_is_named():
    """A mistyped part of a sample is refused like any other key."""
    message = refusal({**MINIMAL, "datasets": {"rows": {"path": "x", "fields": {"inptu": "question"}}}})
    assert "datasets.rows.fields.inptu is not a known key; did you mean input?" in message


def test_all_problems_are_reported_at_once():
    """One refusal lists every problem that was found."""
    message = refusal({"seed": "one", "models": {"a": {"modle": "b"}}, "tasks": {"t": {"epochs": 0}}})
    assert message.startswith("eval.yaml has 3 problems:")
    assert "seed is" in message and "models.a.modle" in message and "tasks.t.epochs" in message


def test_a_flood_of_problems_is_cut():
    """A thousand problems do not fill the screen."""
    message = refusal({f"seed{number}": 1 for number in range(1000)})
    assert message.startswith("eval.yaml has 1000 problems:")
    assert "\n  - and 980 more.\n" in message
    assert len(message.splitlines()) == 23


def test_the_known_keys_are_listed_once():
    """However many unknown keys are not like any that is known."""
    message = refusal({f"key{number}": 1 for number in range(1000)})
    assert message.count("known here: name, description") == 1
    assert "key18, key19 and 980 more are not known keys; " in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"tasks": {"t": {"scorer": "exact"}}}, "tasks.t.scorer is not a known key; did you mean scorers?"),
        ({"scorer": "exact"}, "scorer is not a known key; write tasks.NAME.scorers instead."),
        ({"concurrency": 3}, "concurrency is not a known key; did you mean concurrency_limit?"),
        ({"tests": []}, "tests is not a known key; did you mean datasets?"),
        ({"doc_to_text": ""}, "doc_to_text is not a known key; write tasks.NAME.prompt instead."),
        ({"tasks": {"t": {"doc_to_text": ""}}}, "tasks.t.doc_to_text is not a known key; did you mean prompt?"),
        ({"tasks": {"t": {"timeout": 3}}}, "tasks.t.timeout is not a known key; write models.NAME.timeouts instead."),
        ({"models": {"m": {"temperature": 0}}}, "it belongs under generation: models.m.generation.temperature."),
        ({"prompts": ["x"]}, "An eval file has models, datasets and tasks; `holdfast init` writes one to start from."),
        ({"models": ["a/b"]}, "models is a list; allowed: a map, such as models: {small: {provider: openai, "),
    ],
)
def test_the_key_that_was_meant_is_named(document, words):
    """Also where it is called differently in other eval files, or belongs to another block."""
    assert words in refusal(document)


@pytest.mark.parametrize("place", [place for place in leaves() if place.field.required], ids=lambda place: place.path)
def test_a_missing_field_is_named(place):
    """A required field that is absent or null is named."""
    message = refusal(document_with(place, None))
    assert f"{spoken_path(place)} is missing; allowed: " in message


@pytest.mark.parametrize("operation", [{}, {"shuffle": {"seed": 1}, "repeat": {"times": 2}}])
def test_an_operation_is_exactly_one(operation):
    """A step of a dataset with no operation or with two is refused."""
    message = refusal({"datasets": {"rows": {"path": "x", "operations": [operation]}}})
    assert "datasets.rows.operations[0] must have exactly one of slice, shuffle, filter, repeat" in message


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\x1b[31m", "a" * 201])
def test_an_unusable_name_is_refused(name):
    """A model's name that would garble a report is refused, and shown without its control characters."""
    message = refusal({"models": {name: "scripted/echo"}})
    assert "is not a usable name; allowed: text (1 to 200 characters" in message
    assert message.isprintable()


@pytest.mark.parametrize("name", ["a", "gpt-4.1", "openai/gpt-4o", "Modell für Österreich"])
def test_a_usual_name_is_taken(name):
    """Names with dots, slashes, spaces and letters of any language are fine."""
    assert list(typed_eval({"models": {name: "scripted/echo"}}).models) == [name]


def test_a_dotted_name_is_quoted_in_a_path():
    """A path stays readable when a name in it has a dot."""
    message = refusal({"models": {"gpt-4.1": {"provider": 1}}})
    assert 'models."gpt-4.1".provider is 1; allowed: text; put it in quotes.' in message


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**63, {1: 2}, object()])
def test_free_values_are_what_can_be_written_down(value):
    """Arguments whose meaning is not known are checked all the same, at any depth."""
    message = refusal({"tasks": {"t": {"use": "x", "args": {"deep": [{"er": value}]}}}})
    assert "tasks.t.args.deep[0].er" in message


@pytest.mark.parametrize("document", [[], "text", 3, True, [{"models": {}}]])
def test_something_else_than_a_map_is_refused(document):
    """An eval that is no map is refused in one sentence."""
    assert "; allowed: a map with models, datasets and tasks; `holdfast init` writes " in refusal(document)


def test_a_long_value_is_shortened():
    """A message never repeats a page of text."""
    message = refusal({"seed": "x" * 10_000})
    assert len(message) < 250


def test_every_example_is_taken():
    """The values that the other tests start from are valid, so that their refusals mean something."""
    for place in leaves():
        assert isinstance(typed_eval(document_with(place, example(place.field))), EvalSpec)


def test_problems_of_a_file_are_found_through_its_text():
    """The same refusals come out of YAML text."""
    with pytest.raises(ConfigurationError, match=r"models\.a\.generation\.temperature is NaN"):
        parse_eval("models: {a: {provider: x, generation: {temperature: .nan}}}")


def test_the_schema_has_only_types_that_are_checked():
    """Every field's type is one that the checks know: no set, tuple or date slips through."""
    known = {str, int, float, bool, list, dict, typing.Any, typing.Literal}
    for place in leaves():
        for kind in members(place.field.type):
            assert (typing.get_origin(unwrapped(kind)) or unwrapped(kind)) in known
