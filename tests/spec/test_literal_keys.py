"""A key never stands in a configuration: it is refused by its place, and no message repeats it."""

import traceback

import pytest

from holdfast.errors import ConfigurationError
from holdfast.spec import eval_from_flags, parse_eval, typed_eval
from holdfast.spec.loading.key_detection import has_credentials, is_variable_name, looks_like_key

KEY = "sk-proj-Zx81Qm4TtLw0vbNcRkYa77"


def refusal(document) -> str:
    with pytest.raises(ConfigurationError) as caught:
        typed_eval(document, "eval.yaml")
    told = "".join(traceback.format_exception(caught.value)) + str(caught.value) + caught.value.hint
    assert KEY not in told
    assert KEY[8:] not in told
    return str(caught.value)


def model(**fields):
    return {"models": {"small": {"provider": "openai", "model": "gpt", **fields}}}


@pytest.mark.parametrize(
    "name", ["api_key", "apikey", "apiKey", "API-KEY", "secret_key", "authorization", "access_token"]
)
@pytest.mark.parametrize("value", [KEY, "hunter2", 12345])
def test_a_field_named_like_a_key_is_refused(name, value):
    """Whatever stands in a field named like a key is taken for one."""
    message = refusal(model(**{name: value}))
    assert f"models.small.{name} holds a literal key" in message
    assert "api_key_env" in message
    assert str(value) not in message


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "api-key", "X-Auth-Token", "Proxy-Authorization"])
def test_a_header_with_a_key_is_refused(header):
    """Headers that carry keys are refused."""
    assert f"models.small.headers.{header} holds a literal key" in refusal(model(headers={header: "anything"}))


@pytest.mark.parametrize("value", [KEY, f"Bearer {KEY}", "hf_abcdefghijklmnopqrst", "AKIAABCDEFGHIJKLMNOP"])
def test_a_value_that_looks_like_a_key_is_refused_in_a_model(value):
    """A key under an innocent name is refused too."""
    assert "models.small.headers.X-Custom looks like a literal key" in refusal(model(headers={"X-Custom": value}))
    assert "models.small.args.deep[0].er" in refusal(model(args={"deep": [{"er": value}]}))


@pytest.mark.parametrize("place", ["args", "extra_body"])
def test_a_key_inside_free_values_is_refused(place):
    """A key is found at any depth of what is passed on to a provider."""
    fields = (
        {"args": {"inner": {"api_key": KEY}}} if place == "args" else {"generation": {"extra_body": {"api_key": KEY}}}
    )
    assert "api_key holds a literal key" in refusal(model(**fields))


def test_a_key_among_a_tasks_arguments_is_refused():
    """Arguments of a Python task are recorded, so that they may hold no key either."""
    assert "tasks.t.args.api_key holds" in refusal({"tasks": {"t": {"use": "x", "args": {"api_key": KEY}}}})


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{KEY}@example.org/v1",
        f"https://{KEY}@example.org/v1",
        f"https://example.org/v1?api_key={KEY}",
        f"https://example.org/v1?a=b&Key={KEY}",
        f"https://example.org/v1?x-api-key={KEY}",
        f"http://user:{KEY}@proxy:3128",
    ],
)
@pytest.mark.parametrize("field", ["base_url", "proxy"])
def test_credentials_in_a_url_are_refused(url, field):
    """A URL may carry no user, password or key."""
    assert f"models.small.{field} is a URL with credentials in it" in refusal(model(**{field: url}))


def test_credentials_in_the_path_of_a_dataset_are_refused():
    """A dataset's address is recorded too."""
    message = refusal({"datasets": {"d": f"https://user:{KEY}@example.org/rows.jsonl"}})
    assert "datasets.d is a URL with credentials in it" in message


@pytest.mark.parametrize(
    "value",
    [
        KEY,
        "hf_aBcDeFgHiJkLmNoPqRsT",
        "gsk_1234567890abcdef1234",
        "0123456789abcdef0123456789abcdef",
        "$KEY",
        "a b",
        "A" * 101,
    ],
)
def test_a_key_in_place_of_its_variable_is_refused(value):
    """api_key_env holds a variable's name; anything else is refused unseen."""
    message = refusal(model(api_key_env=value))
    assert "models.small.api_key_env is not the name of an environment variable" in message
    assert value not in message


@pytest.mark.parametrize("value", ["OPENAI_API_KEY", "key", "MY_TEAMS_KEY_2024_FOR_EVALS", "azure_openai_key", "_K1"])
def test_a_variables_name_is_taken(value):
    """The usual names of variables are no keys."""
    assert typed_eval(model(api_key_env=value)).models["small"].api_key_env == value


@pytest.mark.parametrize(
    "fields",
    [
        {"base_url": "http://127.0.0.1:8000/v1?api-version=2024-06-01"},
        {"headers": {"anthropic-beta": "files-api-2025-04-14", "X-Title": "an eval about api keys"}},
        {"model": "ft:gpt-4o-mini:team:sk-8"},
        {"api_key": None},
    ],
)
def test_what_is_no_key_is_not_taken_for_one(fields):
    """Ordinary values pass; an empty field named like a key is only an unknown one."""
    if "api_key" in fields:
        assert "models.small.api_key is not a known key; did you mean api_key_env?" in refusal(model(**fields))
    else:
        assert typed_eval(model(**fields))


def test_prompts_may_speak_of_keys():
    """What a model is asked about keys and URLs is not refused."""
    prompt = f"Is {KEY} a key? See https://user:pass@example.org/ for more."
    assert typed_eval({"tasks": {"t": {"dataset": "d", "prompt": prompt}}}).tasks["t"].prompt == prompt


@pytest.mark.parametrize(
    "document",
    [
        {"seed": KEY},
        {KEY: 1},
        {"models": {"small": {KEY: 1}}},
        {"tasks": {"t": {"epochs": KEY}}},
        {"datasets": {"d": {"path": "x", "format": KEY}}},
        {"tasks": {KEY: {"epochs": 0}}},
    ],
)
def test_other_refusals_do_not_repeat_a_key(document):
    """A key that strayed into any field is hidden in whatever is said about that field."""
    assert "hidden: it looks like a key" in refusal(document)


@pytest.mark.parametrize(
    "text", [f"a: [{KEY}", f"{KEY}: 1\n{KEY}: 2", f"a: *{KEY}", f"api_key: {KEY}\nb: ]", f"a: !{KEY} 1"]
)
def test_refusals_of_broken_yaml_do_not_repeat_a_key(text):
    """Syntax errors name the line and not what stands in it."""
    with pytest.raises(ConfigurationError) as caught:
        parse_eval(text)
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_the_command_line_takes_no_key_either():
    """Arguments given as flags are checked like a file."""
    with pytest.raises(ConfigurationError, match="holds a literal key"):
        eval_from_flags(["x"], ["a/b"], args={"api_key": KEY})


def test_the_forms_of_keys():
    """The forms that are told apart, side by side."""
    assert looks_like_key(KEY) and looks_like_key(f"use {KEY} here")
    assert not looks_like_key("task-description-of-some-length") and not looks_like_key("risk_assessment_of_models")
    assert (
        has_credentials("s3://id:secret@bucket/x")
        and not has_credentials("http://[::1/")
        and not has_credentials("a@b")
    )
    assert is_variable_name("KEY") and not is_variable_name("KEY ") and not is_variable_name("")
