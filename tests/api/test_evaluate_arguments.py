"""`evaluate(..., epochs=, limit=, set=)`: like the options of the command line, and with clear errors."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import ConfigurationError, Run, Sample, Task, UsageError, evaluate, evaluate_async, exact, generate
from holdfast.tasks.source.digest import source_digest

ECHO = ["scripted/echo"]


def letters(name: str = "letters", epochs: int = 1) -> Task:
    samples = [Sample(letter, target=letter) for letter in "abcd"]
    return Task(name=name, samples=samples, solver=generate(), scorers=exact(), epochs=epochs)


def test_epochs_and_limit_apply_to_every_task(tmp_path):
    """They are instead of what a task says itself."""
    run = evaluate([letters("one"), letters("two", epochs=5)], ECHO, run=tmp_path / "r", epochs=3, limit=2)
    assert run.planned == 2 * 3 * 2
    assert {(trial.task, trial.epoch) for trial in run.trials()} == {
        (task, epoch) for task in ("one", "two") for epoch in (1, 2, 3)
    }
    assert {trial.input for trial in run.trials()} == {"a", "b"}


def test_more_epochs_resume_the_run(tmp_path):
    """They are additive, as on the command line."""
    evaluate(letters(), ECHO, run=tmp_path / "r", limit=2)
    run = evaluate(letters(), ECHO, run=tmp_path / "r", limit=3, epochs=2)
    assert [session.calls for session in run.lineage] == [2, 4]


def test_set_changes_single_keys_by_their_paths(tmp_path):
    """Dots between keys, and a bare name for that key wherever it may stand."""
    models = {"m": {"provider": "scripted", "model": "echo"}}
    changed = {"concurrency_limit": 8, "models.m.generation.temperature": 0.5}
    run = evaluate(letters(), models, run=tmp_path / "r", set=changed)
    config = run.sessions[0].config
    assert config["runner"]["concurrency_limit"] == 8
    assert config["models"]["m"]["generation"]["temperature"] == 0.5


def test_set_comes_after_everything_else(tmp_path):
    """As --set does."""
    run = evaluate(letters(), ECHO, run=tmp_path / "r", limit=4, seed=1, set={"seed": 7, "tasks.letters.limit": 1})
    assert (run.planned, run.sessions[0].config["seed"]) == (1, 7)


def test_a_coroutine_takes_the_same_arguments(tmp_path):
    """evaluate_async has them all."""
    run = asyncio.run(evaluate_async(letters(), ECHO, run=tmp_path / "r", epochs=2, limit=1, set={"seed": 3}))
    assert (run.planned, run.sessions[0].config["seed"]) == (2, 3)


BAD = {
    "an empty run": ({"run": ""}, "The name of the run's directory is empty: ''. A shell variable may not be set."),
    "a blank run": ({"run": " "}, "The name of the run's directory is empty: ' '. A shell variable may not be set."),
    "epochs 0": ({"epochs": 0}, "epochs is 0. Give a whole number of 1 or more."),
    "epochs text": ({"epochs": "3"}, "epochs is '3'. Give a whole number"),
    "epochs true": ({"epochs": True}, "epochs is True"),
    "limit negative": ({"limit": -1}, "limit is -1"),
    "limit fraction": ({"limit": 1.5}, "limit is 1.5"),
    "set text": ({"set": "seed=1"}, "set is str, and not a map"),
    "set number": ({"set": {1: 2}}, "set has the key 1, which is not text"),
    "set unknown": ({"set": {"concurency_limit": 1}}, r"evaluate\(\): concurency_limit .*concurrency_limit"),
    "set out of range": ({"set": {"concurrency_limit": 0}}, "concurrency_limit"),
    "set unknown model": ({"set": {"models.x.generation.temperature": 1}}, "x"),
    "reuse nothing": ({"reuse": "nowhere"}, "nowhere"),
    "mistyped epochs": ({"epoch": 3}, "evaluate.. has no argument 'epoch'. Did you mean 'epochs'"),
    "mistyped observers": ({"observer": print}, "Did you mean 'observers'"),
    "unknown setting": ({"colour": "red"}, "colour"),
}


@pytest.mark.parametrize(("arguments", "told"), BAD.values(), ids=BAD)
def test_a_wrong_argument_is_one_clear_error(tmp_path, monkeypatch, arguments, told):
    """It names the argument and the way out; nothing is written, and no other exception is shown above it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, ConfigurationError), match=f"(?s){told}") as caught:
        evaluate(letters(), ECHO, **arguments)
    assert list(tmp_path.iterdir()) == []
    assert shown_above(caught.value) is None


def shown_above(error: BaseException) -> BaseException | None:
    """What a traceback would print above an error, with "During handling of the above exception"."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize(
    ("tasks", "models"), [(5, ECHO), ([], ECHO), (letters(), []), (letters(), ["nonesuch/x"])], ids=repr
)
def test_errors_come_without_another_exception_above_them(tmp_path, tasks, models):
    """The reader sees the mistake and nothing of how it was found, also inside an event loop."""
    with pytest.raises(UsageError) as caught:
        evaluate(tasks, models, run=tmp_path / "r")
    assert shown_above(caught.value) is None

    async def cell():
        evaluate(tasks, models, run=tmp_path / "r")

    with pytest.raises(UsageError) as caught:
        asyncio.run(cell())
    assert shown_above(caught.value) is None


def test_the_traceback_of_a_mistake_is_short(tmp_path):
    """The caller's line and the error, without the way through the engine."""
    with pytest.raises(ConfigurationError, match="nonesuch") as caught:
        evaluate(letters(), ["nonesuch/x"], run=tmp_path / "r")
    assert [entry.name for entry in caught.traceback] == [
        "test_the_traceback_of_a_mistake_is_short",
        "evaluate",
    ]


def test_a_refused_resume_comes_without_another_exception_above_it(tmp_path):
    """Also where the error comes from deep below."""
    evaluate(letters(), ECHO, run=tmp_path / "r")
    with pytest.raises(RuntimeError) as caught:
        evaluate(letters(), ECHO, run=tmp_path / "r", seed=9)
    assert shown_above(caught.value) is None
    with pytest.raises(UsageError) as caught:
        Run.open(tmp_path / "nowhere")
    assert shown_above(caught.value) is None


GOLDEN = "274ea2b47e584d20bf867c14bc105854"
"""Taken before `evaluate` had any of these keywords."""


def test_the_keywords_change_no_digest_of_code_that_calls_evaluate():
    """A run made in a notebook before they came can be resumed: code without a file counts with what it refers to."""
    names = {"evaluate": evaluate, "evaluate_async": evaluate_async}
    exec(compile("async def solve(trial):\n    return evaluate, evaluate_async\n", "<stdin>", "exec"), names)
    assert source_digest(names["solve"]) == GOLDEN


def test_a_run_is_opened_by_its_path_alone(tmp_path):
    """`Run(path)` is `Run.open(path)`; anything else is refused with the way to do it."""
    made = evaluate(letters(), ECHO, run=tmp_path / "r")
    assert Run(tmp_path / "r").counts == Run(str(tmp_path / "r")).counts == made.counts
    with pytest.raises(UsageError, match=r"A run cannot be opened from int\. Give its path: Run\.open"):
        Run(3)


def test_an_eval_file_is_not_a_task():
    """The message has the command that runs it."""
    with pytest.raises(
        UsageError, match=r"'eval\.yaml' is a path, and not a task\. Run it with: holdfast run eval\.yaml"
    ):
        evaluate("eval.yaml", ECHO)
