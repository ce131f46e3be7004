"""A solver of one's own, named in an eval file: `solver: my.py:solve`."""

from __future__ import annotations

import inspect
from types import FunctionType

from holdfast.errors import ConfigurationError
from holdfast.tasks.source.code_files import CodeBase
from holdfast.tasks.source.object_reference import load_object
from holdfast.tasks.task import Task, TaskFactory
from holdfast.tasks.trial_interface import Solver

_SHAPE = "A solver is an async function of a trial: async def solve(trial)."


def load_solver(reference: str, where: str, base: CodeBase) -> Solver:
    """The solver that a reference names; file paths start at `base`.

    Raises:
        ConfigurationError: it does not exist, or is not a solver; the message begins with `where`.
    """
    try:
        found = load_object(reference, base, "solver")
        _check_solver(found, reference)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}", hint=error.hint) from None
    return found  # type: ignore[no-any-return]


def _check_solver(found: object, reference: str) -> None:
    if isinstance(found, Task | TaskFactory):
        raise ConfigurationError(
            f"{reference} is a task, not a solver.", hint=f"Name it with use, instead of dataset: use: {reference}."
        )
    if isinstance(found, FunctionType) and not inspect.iscoroutinefunction(inspect.unwrap(found)):
        raise ConfigurationError(f"{reference} is not an async function.", hint=_SHAPE)
    if not callable(found) or isinstance(found, type):
        raise ConfigurationError(f"{reference} is {type(found).__name__}, not a solver.", hint=_SHAPE)
