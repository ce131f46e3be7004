"""Scorers of one's own, named in an eval file: `my.py:strict`, or `{my.py:strict: {threshold: 0.5}}`.

A reference may name a function of an answer and a sample, a scorer, or a factory: a function or a class that returns
either. Arguments are keyword arguments of the function or the factory, checked against its annotations; `name` is the
name of the scores, which is otherwise the name in the file. Whatever it is, its code is part of its identity.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.spec.code_reference import split_reference
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn, Scorer
from holdfast.tasks.scorers.function import FunctionScorer
from holdfast.tasks.source.arguments import fit_arguments
from holdfast.tasks.source.code_files import CodeBase
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.source.importing import guarded
from holdfast.tasks.source.object_reference import load_object
from holdfast.tasks.source.spelling import PRESENT, Spelling
from holdfast.tasks.trial_interface import ScoreScope

_SHAPE = "A scorer is a function of an answer and a sample: def strict(answer, sample)."
_POSITIONAL = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def load_scorer(reference: str, arguments: Mapping[str, Any], where: str, base: CodeBase) -> Scorer:
    """The scorer that a reference names, with its arguments; file paths start at `base`.

    Raises:
        ConfigurationError: it does not exist, is not a scorer, or does not take the arguments; the message begins with
            `where`.
    """
    try:
        found = load_object(reference, base, "scorer")
        return _Reference(reference, arguments).scorer(found)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}", hint=error.hint) from None


def reference_arguments(reference: str, arguments: Mapping[str, Any], base: CodeBase) -> dict[str, Any]:
    """The arguments under a reference and the defaults of the others; `name` is the name in the file if not given.

    Raises:
        ConfigurationError: there is no such object.
    """
    found = load_object(reference, base, "scorer")
    function = found.function if isinstance(found, FunctionScorer) else found
    parameters = _parameters(function) if callable(function) else {}
    defaults = {name: item.default for name, item in parameters.items() if item.default is not item.empty}
    return {"name": getattr(found, "name", split_reference(reference)[1]), **defaults, **arguments}


class ObjectScorer(FunctionScorer):
    """A scorer of a class of one's own: as it is, and with the code of its class in its identity."""

    function: Scorer

    def __init__(self, given: Scorer) -> None:
        super().__init__(given, given.name)
        self.checks_types_only = getattr(given, "checks_types_only", False)  # type: ignore[misc]

    def __call__(self, answer: Answer, sample: Sample, scope: ScoreScope | None = None) -> Score | Awaitable[Score]:
        return self.call(answer, sample, {}, scope)

    def identity(self, spelling: Spelling = PRESENT) -> dict[str, Any]:
        return {**self.function.identity(), "source": source_digest(self.function, spelling)}

    def check(self, sample: Sample, place: str) -> None:
        self.function.check(sample, place)


class _Reference:
    """What a reference was found to name becomes a scorer."""

    def __init__(self, reference: str, arguments: Mapping[str, Any]) -> None:
        self._reference, self._own_name = reference, split_reference(reference)[1]
        self._arguments = dict(arguments)

    def scorer(self, found: object) -> Scorer:
        if isinstance(found, FunctionScorer):
            return self._function_scorer(found.function, found.name, needs_target=found.needs_target)
        if isinstance(found, Scorer) and not isinstance(found, type):
            return self._finished_scorer(found)
        if not callable(found):
            raise ConfigurationError(f"{self._reference} is {type(found).__name__}, not a scorer.", hint=_SHAPE)
        if _takes_answer(found, self._arguments):
            return self._function_scorer(found, self._own_name)
        return self._made_scorer(found)

    def _function_scorer(self, function: Callable[..., Any], name: str, *, needs_target: bool = False) -> Scorer:
        name = str(self._arguments.pop("name", name)) if "name" not in _parameters(function) else name
        taken = list(_parameters(function))
        bound = self._fitted(function, supplied=[*taken[:2], *(name for name in taken[2:] if name == "scope")])
        return FunctionScorer(
            functools.partial(function, **bound) if bound else function, name, needs_target=needs_target
        )

    def _finished_scorer(self, found: Scorer) -> Scorer:
        name = self._arguments.pop("name", None)
        if self._arguments:
            raise ConfigurationError(
                f"{self._reference} is a scorer already, so it takes no argument {next(iter(self._arguments))!r}.",
                hint="Name a function that returns it; the arguments are passed to that function.",
            )
        return self._renamed(found, None if name is None else str(name))

    def _made_scorer(self, factory: Callable[..., Any]) -> Scorer:
        """What a factory returns for the arguments."""
        takes_name = "name" in _parameters(factory)
        name = None if takes_name else self._arguments.pop("name", None)
        fitted = self._fitted(factory)
        with guarded(self._reference):
            made = factory(**fitted)
        if isinstance(made, Scorer):
            return self._renamed(made, name)
        if callable(made) and not isinstance(made, type):
            return FunctionScorer(made, str(name or self._own_name))
        raise ConfigurationError(f"{self._reference} returned {type(made).__name__}, not a scorer.", hint=_SHAPE)

    def _renamed(self, scorer: Scorer, name: str | None) -> Scorer:
        """The scorer under the name it is given or, where its own is only a default, under its name in the file."""
        if isinstance(scorer, BuiltIn):
            new = name or (self._own_name if scorer.name == scorer.kind else scorer.name)
            return msgspec.structs.replace(scorer, name=new)
        if isinstance(scorer, FunctionScorer):
            is_default = scorer.name == getattr(scorer.function, "__name__", "")
            new = name or (self._own_name if is_default else scorer.name)
            return FunctionScorer(scorer.function, new, needs_target=scorer.needs_target)
        if name is not None:
            raise ConfigurationError(
                f"{self._reference} has the name {scorer.name!r}, which cannot be changed here.",
                hint="Leave the argument name out.",
            )
        return ObjectScorer(scorer)

    def _fitted(self, function: Callable[..., Any], supplied: Sequence[str] = ()) -> dict[str, Any]:
        """The arguments that were given, converted and checked; `supplied` are those that scoring supplies."""
        needed = [name for name, item in _parameters(function).items() if _is_required(item)]
        missing = [name for name in needed if name not in self._arguments and name not in supplied]
        if missing:
            raise ConfigurationError(
                f"{self._reference} needs the argument {missing[0]!r}.",
                hint=f"{_SHAPE} Arguments are written under its name: {{{self._reference}: {{{missing[0]}: ...}}}}.",
            )
        for name in self._arguments:
            if name in supplied:
                raise ConfigurationError(f"{self._reference} gets {name!r} from the trial; leave it out.")
        fitted = fit_arguments(function, self._arguments, self._reference, supplied)
        return {name: fitted[name] for name in self._arguments}


def _takes_answer(found: Callable[..., Any], arguments: Mapping[str, Any]) -> bool:
    """Whether it judges answers: its first two parameters are required, and the arguments are not for both of them."""
    if isinstance(found, type):
        return False
    first = list(_parameters(found).values())[:2]
    plain = [item for item in first if item.kind in _POSITIONAL and item.default is item.empty]
    return len(plain) == 2 and not all(item.name in arguments for item in plain)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _is_required(item: inspect.Parameter) -> bool:
    return item.default is item.empty and item.kind in {*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY}
