"""The runner's keys may stand at the top, in runner, and per task; wherever they stand they mean the same."""

import pytest
from schema_values import MINIMAL

from holdfast.errors import ConfigurationError
from holdfast.spec import StageLimits, TaskRunner, resolve, schema_fields, typed_eval


def resolved(**fields):
    return resolve(typed_eval({**MINIMAL, **fields}))


def with_task(**fields):
    return resolved(tasks={"ask": {"dataset": "rows", **fields}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency_limit", 8),
        ("concurrency_limits", {"solve": 4}),
        ("max_retries", 0),
        ("grace_period", 1),
        ("retry_deadline", 5),
    ],
)
def test_the_top_and_the_runner_are_one_place(name, value):
    """A key at the top is the same as the key in runner, and both at once are fine when they agree."""
    top, inner = resolved(**{name: value}), resolved(runner={name: value})
    assert top == inner == resolved(**{name: value}, runner={name: value})
    assert top != resolved()


def test_keys_from_both_places_are_joined():
    """Some keys at the top and others in runner make one set, also inside a block."""
    spec = resolved(
        concurrency_limit=8,
        concurrency_limits={"solve": 4},
        runner={"max_retries": 5, "concurrency_limits": {"score": 2, "solve": 4.0}},
    )
    assert (spec.runner.concurrency_limit, spec.runner.max_retries) == (8, 5)
    assert spec.runner.concurrency_limits == StageLimits(solve=4, score=2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"grace_period": 1, "runner": {"grace_period": 2}},
            "grace_period is 1.0 and runner.grace_period is 2.0; keep one",
        ),
        (
            {"concurrency_limits": {"solve": 1}, "runner": {"concurrency_limits": {"solve": 2}}},
            "concurrency_limits.solve is 1 and runner.concurrency_limits.solve is 2; keep one",
        ),
        (
            {"tasks": {"ask": {"dataset": "rows", "max_retries": 0, "runner": {"max_retries": 1}}}},
            "tasks.ask.max_retries is 0 and tasks.ask.runner.max_retries is 1; keep one",
        ),
    ],
)
def test_two_values_for_one_key_are_refused(fields, message):
    """A key with different values in both places is refused with both paths."""
    with pytest.raises(ConfigurationError) as caught:
        typed_eval({**MINIMAL, **fields})
    assert message in str(caught.value)


def test_null_in_one_place_leaves_the_other():
    """A null is no second value."""
    assert resolved(grace_period=None, runner={"grace_period": 2}) == resolved(
        grace_period=2, runner={"grace_period": None}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency_limit", 8), ("concurrency_limits", {"score": 4}), ("max_retries", 0), ("retry_deadline", 5)],
)
def test_a_task_has_its_own_runner_keys(name, value):
    """A key in a task is the same as in the task's runner, and concerns that task only."""
    direct, inner = with_task(**{name: value}), with_task(runner={name: value})
    assert direct == inner != resolved()
    assert direct.runner == resolved().runner


def test_the_narrower_block_wins():
    """A task's retries stand against the run's; a task without any takes the run's."""
    spec = resolved(
        max_retries=7,
        tasks={"own": {"dataset": "rows", "max_retries": 0}, "none": {"dataset": "rows"}},
    )
    assert spec.tasks["own"].runner.max_retries == 0
    assert spec.tasks["none"].runner.max_retries == 7
    assert spec.tasks["none"].runner.retry_deadline == spec.runner.retry_deadline


def test_limits_of_the_run_are_not_limits_of_a_task():
    """A limit at the top bounds the run; a task without a limit of its own has none."""
    assert resolved(concurrency_limit=8).tasks["ask"].runner.concurrency_limit is None


def test_a_value_spelled_out_in_a_task_is_no_difference():
    """A task that repeats the run's value asks for the same work."""
    assert with_task(max_retries=2, retry_deadline=3600) == resolved()


def test_a_key_that_means_nothing_for_one_task_is_refused_there():
    """The grace time belongs to the run; in a task it is an unknown key."""
    assert "grace_period" not in schema_fields(TaskRunner)
    with pytest.raises(ConfigurationError, match=r"tasks\.ask\.grace_period is not a known key"):
        with_task(grace_period=3)
    with pytest.raises(ConfigurationError, match=r"tasks\.ask\.runner\.grace_period is not a known key"):
        with_task(runner={"grace_period": 3})


def test_a_model_has_limits_of_its_own():
    """Concurrency and rate are limited per model too."""
    limits = {"concurrency_limit": 3, "rate_limit": {"requests_per_minute": 60}}
    model = resolved(models={"small": {"provider": "p", "model": "m", **limits}}).models["small"]
    assert model.concurrency_limit == 3
    assert model.rate_limit is not None
    assert (model.rate_limit.requests_per_minute, model.rate_limit.tokens_per_minute) == (60, None)
