"""Scorers by name, as an eval file gives them: `exact`, `{regex: {pattern: "..."}}`, or `my.py:strict`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError
from holdfast.run.core.slots.slot_names import RESERVED
from holdfast.spec.code_reference import is_code_reference
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.scorers.base import BuiltIn, Scorer

if TYPE_CHECKING:
    from holdfast.tasks.source.code_files import CodeBase

_MODEL_GRADED = "model_graded"
_CLASSES = {"checks": "WorkspaceChecks"}
_RECORDED = "recorded"
"""In the configuration of imported runs only: no list of scorers has it."""


class _BuiltInScorers(Mapping[str, type[BuiltIn]]):
    """The built-in scorers by name; each is loaded when it is first used, so that an eval pays only for its own."""

    _NAMES = ("exact", "includes", "regex", "numeric", "choice", "checks", _MODEL_GRADED)

    def __getitem__(self, name: str) -> type[BuiltIn]:
        if name not in self._NAMES and name != _RECORDED:
            raise KeyError(name)
        if name == _MODEL_GRADED:
            judged: type[BuiltIn] = importlib.import_module("holdfast.tasks.judges.model_graded").ModelGraded
            return judged
        # The module of a scorer has its name, and so has its class, unless another has it.
        found: type[BuiltIn] = getattr(
            importlib.import_module(f"{__package__}.{name}"), _CLASSES.get(name, name.title())
        )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._NAMES)

    def __len__(self) -> int:
        return len(self._NAMES)


BUILT_IN: Mapping[str, type[BuiltIn]] = _BuiltInScorers()


def _is_factory(given: object) -> bool:
    """Whether it is `exact` and not `exact()`."""
    name = getattr(given, "__name__", "")
    home = getattr(given, "__module__", "")
    return name in BUILT_IN and home in {f"{__package__}.{name}", "holdfast.tasks.judges.model_graded"}


def build_scorer(given: str | Mapping[str, Any], where: str = "scorers", base: CodeBase = Path()) -> Scorer:
    """The scorer of that name, with the arguments that are given under it; file paths start at `base`."""
    name, arguments = _name_and_arguments(given, where)
    if is_code_reference(name):
        from holdfast.tasks.scorers.reference import load_scorer  # noqa: PLC0415 - only for code of one's own

        return load_scorer(name, arguments, where, base)
    if name not in BUILT_IN:
        raise ConfigurationError(
            f"{where}: there is no scorer {name!r}; there are {listing(BUILT_IN)}.",
            hint=did_you_mean(name, BUILT_IN) or "A scorer of your own is named as file.py:name.",
        )
    return BUILT_IN[name].build(arguments, where)


def scorer_effect(given: str | Mapping[str, Any], base: CodeBase = Path()) -> Any:
    """A scorer as an eval file gives it, with the defaults of its arguments, as a value that can be compared.

    Raises:
        ConfigurationError: there is no such scorer, or it does not take the arguments.
    """
    name, arguments = _name_and_arguments(given, "scorers")
    if is_code_reference(name):
        from holdfast.tasks.scorers.reference import reference_arguments  # noqa: PLC0415 - as above

        return name, reference_arguments(name, arguments, base)
    built = build_scorer(given)
    return built.effect() if isinstance(built, BuiltIn) else built


def as_scorer(given: object) -> Scorer:
    """A scorer from whatever a task was given: a scorer, a function, or a built-in one's name."""
    if isinstance(given, str | Mapping):
        return build_scorer(given)
    if isinstance(given, Scorer) and not isinstance(given, type):
        return given
    if _is_factory(given):
        name = getattr(given, "__name__", "")
        arguments = {"regex": "pattern", _MODEL_GRADED: 'model="judge"'}.get(name, "")
        raise ConfigurationError(f"`{name}` is a factory; call it: `{name}({arguments})`.")
    if callable(given) and not isinstance(given, type):
        from holdfast.tasks.scorers.function import FunctionScorer  # noqa: PLC0415 - as above

        return FunctionScorer(given, str(getattr(given, "name", "")))
    raise ConfigurationError(
        f"A task cannot be scored by {type(given).__name__}.", hint="Give a scorer, such as exact(), or a function."
    )


def as_scorers(given: object) -> tuple[Scorer, ...]:
    """One scorer or several, each with a name of its own; one with judges becomes a scorer for each judge."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    scorers = [as_scorer(item) for item in several]
    expanded = [(scorer, scorer.slots() if isinstance(scorer, BuiltIn) else (scorer,)) for scorer in scorers]
    # Slots of one panel, from a task that was made before, belong together.
    owners = [getattr(scorer, "of", scorer) if isinstance(scorer, BuiltIn) else scorer for scorer in scorers]
    distinct = [owner for place, owner in enumerate(owners) if not any(owner is one for one in owners[:place])]
    _check_names([scorer.name for scorer in distinct])
    return tuple(slot for _, slots in expanded for slot in slots)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if any(character in name for character in RESERVED):
            raise ConfigurationError(
                f"A scorer is called {name!r}; the name of a scorer has neither / nor @ in it.",
                hint="Slots are named with them: quality/judge is the slot of a judge.",
            )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigurationError(f"Two scorers are called {repeated[0]!r}.", hint="Give one of them the argument name.")


def _name_and_arguments(given: str | Mapping[str, Any], where: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str):
        return given, {}
    if len(given) != 1:
        raise ConfigurationError(
            f"{where}: a scorer is one name with its arguments, not {listing(map(str, given))}.",
            hint="Start each scorer with its own dash.",
        )
    ((name, arguments),) = given.items()
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ConfigurationError(
            f"{where}: the arguments of the scorer {name!r} are not a map.", hint="Write {regex: {pattern: '…'}}."
        )
    return str(name), arguments or {}
