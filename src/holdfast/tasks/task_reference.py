"""A Python task or a solver by reference: `tasks/code.py:fix_bug`, `package.module:name`; a task also by `file.py`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.source.arguments import fit_arguments
from holdfast.tasks.source.code_files import CodeBase, as_code_files
from holdfast.tasks.source.importing import guarded, import_file
from holdfast.tasks.source.object_reference import load_object
from holdfast.tasks.stages import is_staged
from holdfast.tasks.task import REGISTERED, Task, TaskFactory
from holdfast.tasks.trial_interface import Solver

_SOLVER = "A solver is an async function of a trial: async def solve(trial)."


def load_use(reference: str, base: CodeBase, args: Mapping[str, Any] | None = None) -> Task:
    """The task that a reference names, made with these arguments; file paths start at `base`."""
    found = _find_task(reference, base)
    if isinstance(found, TaskFactory):
        with guarded(f"The task {reference!r}"):
            return found.build(args or {})
    if args:
        raise ConfigurationError(
            f"The task {reference!r} is not made by a function, so it takes no argument {next(iter(args))!r}.",
            hint="Decorate a function that returns it with @task.",
        )
    return found


def task_arguments(reference: str, base: CodeBase, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a task would be made with: those given, fitted to its function, and its defaults.

    Raises:
        ConfigurationError: there is no such task, or it does not take the arguments.
    """
    found = _find_task(reference, base)
    return fit_arguments(found.function, args, reference) if isinstance(found, TaskFactory) else dict(args)


def task_names(reference: str, base_dir: Path) -> list[str]:
    """A reference to every task that `file.py` defines, as file.py:name; one that names its task stays as it is."""
    if ":" in reference or not reference.endswith(".py"):
        return [reference]
    tasks = _tasks_defined(import_file((base_dir / reference).absolute(), reference))
    if not tasks:
        raise ConfigurationError(
            f"{reference} defines no task.", hint="Decorate a function that returns a Task with @task."
        )
    return [f"{reference}:{name}" for name in tasks]


def _find_task(reference: str, base: CodeBase) -> TaskFactory | Task:
    home, _, name = reference.partition(":") if ":" in reference else (reference, "", "")
    if home.endswith(".py") or name:
        return _pick_task(as_code_files(base).module(home), name, home)
    if reference in REGISTERED:
        return REGISTERED[reference]
    raise ConfigurationError(
        f"There is no task {reference!r}.",
        hint=did_you_mean(reference, REGISTERED) or "A task in a file is named as file.py:name.",
    )


def _pick_task(module: ModuleType, name: str, home: str) -> TaskFactory | Task:
    tasks = _tasks_defined(module)
    if name:
        return _named_task(module, tasks, name, home)
    if len(tasks) == 1:
        return next(iter(tasks.values()))
    if tasks:
        first = min(tasks)
        raise ConfigurationError(
            f"{home} defines {len(tasks)} tasks: {listing(tasks)}.", hint=f"Name one, as in {home}:{first}."
        )
    raise ConfigurationError(f"{home} defines no task.", hint="Decorate a function that returns a Task with @task.")


def _named_task(
    module: ModuleType, tasks: Mapping[str, TaskFactory | Task], name: str, home: str
) -> TaskFactory | Task:
    found = vars(module).get(name)
    if isinstance(found, TaskFactory | Task):
        return found
    if name in vars(module):
        raise ConfigurationError(
            f"{home}:{name} is {_kind_text(found)}, not a task.",
            hint="Decorate a function that returns a Task with @task.",
        )
    raise ConfigurationError(f"{home} has no task {name!r}; it has {listing(tasks)}.", hint=did_you_mean(name, tasks))


def _tasks_defined(module: ModuleType) -> dict[str, TaskFactory | Task]:
    """The tasks that the module defines; those that it imports are not its own."""
    return {
        name: value
        for name, value in vars(module).items()
        # A thing of the module may answer anything to what it is, or raise; its type is asked.
        if issubclass(type(value), Task) or (type(value) is TaskFactory and value.__module__ == module.__name__)
    }


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
        raise ConfigurationError(f"{reference} is not an async function.", hint=_SOLVER)
    if not (callable(found) or is_staged(found)) or isinstance(found, type):
        raise ConfigurationError(f"{reference} is {_kind_text(found)}, not a solver.", hint=_SOLVER)


def _kind_text(found: object) -> str:
    """What was found instead, with its article."""
    if isinstance(found, FunctionType):
        return "a function"
    return f"the class {found.__name__}" if isinstance(found, type) else f"of the type {type(found).__name__}"
