"""What went wrong, for a program that calls `evaluate`: in the report and in `Run.ended`, as on the command line."""

from __future__ import annotations

import pytest

from holdfast import Run, Sample, Task, evaluate, exact

TIMES = "\N{MULTIPLICATION SIGN}"
COUNTRIES = {"fr": "Paris"}


async def look_up(trial):
    if trial.sample.input == "escape":
        raise ValueError("red \x1b[31m text")
    return COUNTRIES[trial.sample.input]


def made_run(directory, *names):
    samples = [Sample(name, target="Paris", id=name) for name in names]
    return evaluate(
        Task(name="geo", samples=samples, solver=look_up, scorers=exact()),
        ["scripted/echo"],
        run=directory / "r",
        max_retries=0,
        fail_fast=False,
    )


@pytest.mark.parametrize("names", [["fr"], ["fr", "a"], ["a", "b", "escape"], ["escape"]], ids=" ".join)
def test_a_report_as_text_is_what_the_command_line_prints(tmp_path, holdfast, names):
    """Complete or not, with one error, several, and one that would act on a terminal."""
    run = made_run(tmp_path, *names)
    assert f"{run.report()}\n" == holdfast("report", tmp_path / "r", code=0).out
    assert str(Run.open(tmp_path / "r").report()) == str(run.report())


def test_the_outcome_names_the_errors_of_trials(tmp_path):
    """A script that shows no progress can print why trials have failed."""
    run = made_run(tmp_path, "fr", "a", "b", "escape")
    line = look_up.__code__.co_firstlineno + 3
    assert run.ended is not None
    assert [error.partition(": ")[0] for error in run.ended.errors] == [f"2 {TIMES} KeyError", f"1 {TIMES} ValueError"]
    assert run.ended.errors[0].endswith(f"(test_errors_in_python.py:{line})")
    assert "\x1b" not in run.ended.errors[1]
    assert all(error in str(run.report()) for error in run.ended.errors)


def test_the_errors_of_a_report_are_plain_data(tmp_path, holdfast):
    """How many trials have which error, for a program; the same in JSON."""
    errors = made_run(tmp_path, "fr", "a", "b", "escape").report().errors
    assert (errors.trials, [group.trials for group in errors.groups]) == (3, [2, 1])
    found = holdfast.json("report", tmp_path / "r", code=0)["errors"]
    assert found["trials"] == 3
    unset = {"setting": "", "is_refused": False, "may_pass": False}
    assert found["groups"][0] == {"trials": 2, "reason": "task error", "error": errors.groups[0].error, **unset}


def test_without_failed_trials_there_are_no_errors(tmp_path):
    run = made_run(tmp_path, "fr")
    assert run.ended is not None
    assert (list(run.ended.errors), run.report().errors.trials) == ([], 0)


def test_when_a_complete_run_with_failed_trials_is_evaluated_again_its_errors_are_named(tmp_path):
    """Nothing is run, and the outcome still says why."""
    made_run(tmp_path, "fr", "a")
    again = made_run(tmp_path, "fr", "a")
    assert again.ended is not None
    assert again.ended.errors[0].startswith(f"1 {TIMES} KeyError: 'a'")
