"""Plain functions as scorers, sync and async."""

import asyncio
import inspect
import math

import pytest

from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.tasks.answer import Answer, as_answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import Scorer
from holdfast.tasks.scorers.exact import exact
from holdfast.tasks.scorers.function import FunctionScorer, scorer
from holdfast.tasks.scorers.registry import as_scorer, as_scorers


def result_of(given, answer="text", **sample):
    result = given(Answer(answer), Sample("?", **sample))
    return asyncio.run(result) if inspect.isawaitable(result) else result


@pytest.mark.parametrize("value", [True, False, 0, 3, 0.25, Score(0.5, explanation="why")])
def test_a_function_may_return_a_boolean_a_number_or_a_score(value):
    """Whatever counts as a score becomes one, of the same kind."""
    score = result_of(scorer(lambda _answer, _sample: value))
    assert score == (value if isinstance(value, Score) else Score(value))
    assert type(score.value) is type(value.value if isinstance(value, Score) else value)


def test_an_async_function_is_awaited():
    """Async scorers work like others."""

    @scorer
    async def graded(answer, sample):
        await asyncio.sleep(0)
        return len(answer.text) == sample.metadata["length"]

    assert result_of(graded, "four", metadata={"length": 4}) == Score(True)


@pytest.mark.parametrize("value", [None, "0.5", [1], {"value": 1}, 1 + 2j, object()])
def test_anything_else_is_a_type_error_that_names_the_scorer(value):
    """A forgotten return is no score of zero."""

    @scorer
    def forgetful(answer, sample):
        return value

    with pytest.raises(TypeError, match="forgetful") as caught:
        result_of(forgetful)
    assert type(value).__name__ in str(caught.value)
    assert isinstance(caught.value, HoldfastError)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, 2**60])
def test_a_score_is_a_finite_number(value):
    """What no mean can be taken of is refused, from a function and in a Score."""
    with pytest.raises(TypeError, match="broken"):
        result_of(scorer(name="broken")(lambda _answer, _sample: value))
    with pytest.raises(TypeError):
        Score(value)


def test_an_async_function_is_held_to_the_same():
    """An awaited result is checked as well."""

    @scorer
    async def silent(answer, sample):
        pass

    with pytest.raises(TypeError, match="silent"):
        result_of(silent)


def test_a_function_gets_the_arguments_that_its_sample_carries():
    """A sample's own arguments are passed by name, and checked before the run."""

    @scorer
    def at_least(answer, sample, length=3):
        return len(answer.text) >= length

    assert result_of(at_least, "abcd").value is True
    assert result_of(at_least, "abcd", scoring={"at_least": {"length": 9}}).value is False
    with pytest.raises(ConfigurationError, match=r"row 2.*at_least"):
        at_least.check(Sample("?", scoring={"at_least": {"size": 9}}), "row 2")


def test_a_function_may_say_that_it_needs_a_target():
    """A missing target is found before the run."""
    needy = scorer(name="needy", needs_target=True)(lambda _answer, _sample: True)
    needy.check(Sample("?", target="x"), "row 1")
    with pytest.raises(ConfigurationError, match=r"'needy' needs a target, and row 1 has none"):
        needy.check(Sample("?"), "row 1")


def test_a_function_is_taken_as_it_stands_where_a_scorer_is_asked_for():
    """A task may be scored by a bare function, an object with a name, or a built-in's name."""

    class Custom:
        name = "custom"

        def __call__(self, _answer, _sample):
            return True

    def bare(answer, sample):
        return True

    assert [given.name for given in as_scorers([bare, Custom(), "exact"])] == ["bare", "custom", "exact"]
    assert all(isinstance(given, Scorer) for given in as_scorers([bare, Custom(), exact()]))
    assert result_of(as_scorer(Custom())).value is True


@pytest.mark.parametrize(
    ("given", "said"), [(exact, r"exact\(\)"), (5, "int"), (FunctionScorer, "type"), (None, "None")]
)
def test_what_is_no_scorer_is_refused(given, said):
    """Forgetting to call exact() is told as such."""
    with pytest.raises(ConfigurationError, match=said):
        as_scorers(given)


def test_two_scorers_need_two_names():
    """Scores are kept by name, so names are not shared."""
    with pytest.raises(ConfigurationError, match="'exact'"):
        as_scorers([exact(), exact(ignore_case=True)])
    assert len(as_scorers([exact(), exact(ignore_case=True, name="loose")])) == 2


def test_the_identity_is_the_source():
    """Two functions that do the same have one identity; one that does another thing has another."""

    def make(limit):
        def longer(answer, sample):
            return len(answer.text) > limit

        return scorer(longer)

    assert make(3).identity() == make(3).identity()
    assert make(3).identity() != make(4).identity()


@pytest.mark.parametrize("value", [None, 5, ["text"]])
def test_a_solver_that_returns_no_answer_is_a_type_error(value):
    """An answer is an Answer, a reply or a text."""
    assert as_answer("text") == as_answer(Answer("text"))
    with pytest.raises(TypeError, match=type(value).__name__):
        as_answer(value)
