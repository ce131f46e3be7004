"""A command line without an eval file asks for the same as the file it stands for."""

import pytest

from holdfast.errors import ConfigurationError, UsageError
from holdfast.spec import eval_from_flags, parse_argument, parse_eval, resolve


def test_flags_stand_for_a_file(tmp_path, monkeypatch):
    """Tasks, models, epochs, limit and arguments given as flags make the eval that a file would."""
    monkeypatch.chdir(tmp_path)
    flags = eval_from_flags(
        ["capitals.py:capitals"], ["openai/gpt-4o", "scripted/echo"], epochs=4, limit=5, args={"n": 3}
    )
    file = parse_eval(
        f"""
        name: capitals
        directory: {tmp_path}
        models: {{openai/gpt-4o: openai/gpt-4o, scripted/echo: {{provider: scripted, model: echo}}}}
        tasks: {{capitals: {{use: "capitals.py:capitals", epochs: 4, limit: 5, args: {{n: 3}}}}}}
        """
    )
    assert flags == file
    assert resolve(flags).tasks["capitals"].models == ["openai/gpt-4o", "scripted/echo"]


def test_defaults_are_left_to_the_schema():
    """Flags that are not given say nothing."""
    task = eval_from_flags(["gsm8k"], ["a/b"]).tasks["gsm8k"]
    assert (task.use, task.epochs, task.limit, task.args) == ("gsm8k", None, None, {})


def test_settings_of_the_runner_are_taken():
    """Any key of an eval file may be added, and is checked like one."""
    spec = eval_from_flags(["gsm8k"], ["a/b"], settings={"concurrency_limit": 8, "name": "mine"})
    assert (spec.runner.concurrency_limit, spec.name) == (8, "mine")
    with pytest.raises(ConfigurationError, match=r"the command line: concurrency_limit is 0; allowed: "):
        eval_from_flags(["gsm8k"], ["a/b"], settings={"concurrency_limit": 0})


def test_tasks_of_one_name_are_told_apart_by_their_file():
    """Two files may each have a task of the same name."""
    spec = eval_from_flags(["a/one.py:task", "b/two.py:task", "a/one.py:task"], ["p/m"])
    assert {name: task.use for name, task in spec.tasks.items()} == {
        "task": "a/one.py:task",
        "two_task": "b/two.py:task",
    }
    with pytest.raises(UsageError, match='Two tasks are called "one_task"'):
        eval_from_flags(["x.py:task", "a/one.py:task", "b/one.py:task"], ["p/m"])


@pytest.mark.parametrize("model", ["gpt-4o", "/gpt", "openai/", ""])
def test_a_model_without_its_provider_is_refused(model):
    """A model is named as provider/model."""
    with pytest.raises(ConfigurationError):
        eval_from_flags(["x"], [model])
    with pytest.raises(ConfigurationError, match=r"--model 'echo' names no provider. Write it as provider/model"):
        eval_from_flags(["x"], ["echo"])


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("n=3", "n", 3),
        ("n=", "n", None),
        ("flag=true", "flag", True),
        ("answer=No", "answer", "No"),
        ("url=http://host/?a=b", "url", "http://host/?a=b"),
        ("list=[1, two]", "list", [1, "two"]),
        ("quoted='3'", "quoted", "3"),
    ],
)
def test_an_argument_is_read_as_in_a_file(text, name, value):
    """The value of -T name=value is what YAML makes of it."""
    assert parse_argument(text) == (name, value)


@pytest.mark.parametrize(("text", "missing"), [("n", "value"), ("", "name"), ("=3", "name")])
def test_an_argument_without_name_or_value_is_refused(text, missing):
    """An argument is name=value; what is missing of it is named."""
    with pytest.raises(UsageError, match=f"has no {missing}. Write it as name=value"):
        parse_argument(text)


def test_a_broken_value_is_refused_with_its_name():
    """A value that is no YAML is refused, naming the argument."""
    with pytest.raises(ConfigurationError, match="the argument n, line 1: not valid YAML"):
        parse_argument("n=[1")
