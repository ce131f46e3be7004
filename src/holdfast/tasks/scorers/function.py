"""Scorers written as plain functions, sync or async.

The function gets the answer and the sample, and a scope if it has a parameter of that name, in which it may ask models
and take durable steps; it returns a boolean, a finite number or a Score. Its identity is its
source, without comments and formatting, so that an edited scorer is noticed when a run is resumed.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, overload

from holdfast.errors import ConfigurationError
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score, as_score
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.source.spelling import PRESENT, Spelling
from holdfast.tasks.trial_interface import ScoreScope

Function = Callable[..., Any]
_SCOPE = "scope"


def takes_scope(given: object) -> bool:
    """Whether a scorer, or a function that is to be one, has a parameter for its scope."""
    function: Any = getattr(given, "function", given)
    try:
        return _SCOPE in inspect.signature(function).parameters
    except (TypeError, ValueError):
        # What has no signature takes the two that every scorer takes.
        return False


class FunctionScorer:
    """A function as a scorer."""

    checks_types_only: ClassVar[bool] = True

    def __init__(self, function: Function, name: str = "", *, needs_target: bool = False) -> None:
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.needs_target = needs_target
        self._takes_scope = takes_scope(function)

    @property
    def is_binary(self) -> bool:
        """Whether the function is annotated to return True or False."""
        return getattr(self.function, "__annotations__", {}).get("return") in {bool, "bool"}

    def __call__(self, answer: Answer, sample: Sample, scope: ScoreScope | None = None) -> Score | Awaitable[Score]:
        return self.call(answer, sample, sample.scoring.get(self.name, {}), scope)

    def call(
        self, answer: Answer, sample: Sample, arguments: dict[str, Any], scope: ScoreScope | None
    ) -> Score | Awaitable[Score]:
        """The score of an answer; arguments are passed by name, and so is the scope if the function takes one."""
        if self._takes_scope:
            arguments = {**arguments, _SCOPE: scope}
        result = self.function(answer, sample, **arguments)
        return self._awaited(result) if inspect.isawaitable(result) else as_score(result, self.name)

    def identity(self, spelling: Spelling = PRESENT) -> dict[str, Any]:
        return {"scorer": self.name, "source": source_digest(self.function, spelling)}

    def check(self, sample: Sample, place: str) -> None:
        """Raise if the sample has no target, or the function does not take what it would be called with."""
        if self.needs_target and sample.target is None:
            raise ConfigurationError(f"The scorer {self.name!r} needs a target, and {place} has none.")
        self._check_parameters()
        if arguments := sample.scoring.get(self.name):
            self._check_arguments(arguments, place)

    async def _awaited(self, result: Awaitable[Any]) -> Score:
        return as_score(await result, self.name)

    def _check_parameters(self) -> None:
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return  # as in takes_scope
        try:
            signature.bind_partial(None, None)
        except TypeError:
            raise ConfigurationError(
                f"The scorer {self.name!r} is called with an answer and a sample, and its parameters are {signature}.",
                hint="Write it as: def score(answer, sample).",
            ) from None

    def _check_arguments(self, arguments: dict[str, Any], place: str) -> None:
        try:
            scope = {_SCOPE: None} if self._takes_scope else {}
            inspect.signature(self.function).bind(None, None, **arguments, **scope)
        except TypeError as error:
            raise ConfigurationError(
                f"The arguments that {place} carries do not fit the scorer {self.name!r}: {error}."
            ) from None


@overload
def scorer(function: Function) -> FunctionScorer: ...
@overload
def scorer(*, name: str = "", needs_target: bool = False) -> Callable[[Function], FunctionScorer]: ...
def scorer(
    function: Function | None = None, *, name: str = "", needs_target: bool = False
) -> FunctionScorer | Callable[[Function], FunctionScorer]:
    """Turns a function into a scorer: as `@scorer`, `@scorer(name=..., needs_target=True)` or `scorer(function)`."""
    if function is not None:
        return FunctionScorer(function, name, needs_target=needs_target)
    return lambda given: FunctionScorer(given, name, needs_target=needs_target)
