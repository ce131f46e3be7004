"""The code behind a task, as digests that a later session compares.

A task in Python brings along what an eval file would say of a declarative one: its prompts, its system text, its
limits, what it does with its dataset. Each of these has a digest of its own, so that a change is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.digests import json_digest
from holdfast.run.core.records import RowReading, TaskCode
from holdfast.spec import DatasetSpec, TrialLimits
from holdfast.tasks.scorers.base import Scorer
from holdfast.tasks.scorers.function import FunctionScorer
from holdfast.tasks.solver import REVISION, Generate
from holdfast.tasks.source.digest import source_digest, source_files
from holdfast.tasks.source.spelling import PRESENT, Spelling
from holdfast.tasks.task import Task


def code_of(task: Task, spelling: Spelling = PRESENT) -> TaskCode:
    """What a task's answers and scores rest on, apart from its configuration."""
    built_in = isinstance(task.solver, Generate)
    files = {path.name for item in (task.solver, *task.scorers) for path in source_files(item)}
    return TaskCode(
        name=getattr(task.solver, "__qualname__", type(task.solver).__name__),
        solver=f"generate {REVISION}" if built_in else _solver_digest(task, spelling),
        rule=spelling.rule,
        scorers={scorer.name: json_digest(_scorer_identity(scorer, spelling)) for scorer in task.scorers},
        files=sorted(files or _task_file(task)),
        settings=settings_digests(task),
        epochs=task.epochs,
        limit=task.limit,
        axes={axis: list(values) for axis, values in task.axes.items()},
        rows=_row_reading(task),
    )


def _row_reading(task: Task) -> RowReading:
    columns, operations = task.bound_columns(), task.dataset.operations if task.dataset is not None else []
    return RowReading(
        columns=columns.named,
        target=None if columns.target is None else columns.target.text,
        options=_template_texts(columns.options),
        asked=list(columns.asked),
        stand_in=None if columns.stand_in is None else columns.stand_in.text,
        operations=_builtins(operations),
        shuffle_choices=task.shuffle_choices,
    )


def settings_digests(task: Task) -> dict[str, str]:
    """What the task itself sets beside its code, as digests; settings that it leaves open are left out."""
    return {name: json_digest(value) for name, value in _settings(task) if value}


def _solver_digest(task: Task, spelling: Spelling) -> str:
    # The task keeps the digest of the code that it began with.
    return task.source if spelling is PRESENT else source_digest(task.solver, spelling)


def _scorer_identity(scorer: Scorer, spelling: Spelling) -> dict[str, Any]:
    return scorer.identity(spelling) if isinstance(scorer, FunctionScorer) else scorer.identity()


def _task_file(task: Task) -> set[str]:
    """The file that a task of built-in parts is put together in."""
    home = task.use.rpartition(":")[0]
    return {home.rpartition("/")[2]} if home.endswith(".py") else set()


def _settings(task: Task) -> Iterator[tuple[str, Any]]:
    yield "system", task.system
    yield (
        "limits",
        {name: value for name, value in _builtins(task.limits or TrialLimits()).items() if value is not None},
    )
    yield "columns", task.columns.named
    yield "choices", [task.shuffle_choices, *_template_texts(task.columns.options)] if _has_choices(task) else None
    yield "target", _template_texts([task.columns.target])
    yield "operations", _builtins(task.dataset.operations) if isinstance(task.dataset, DatasetSpec) else None
    if isinstance(task.solver, Generate):
        yield from _generate_settings(task.solver)


def _generate_settings(solver: Generate) -> Iterator[tuple[str, Any]]:
    for name, template in solver.prompts.items():
        yield f"prompt {name}".rstrip(), template.text
    yield "solver's system", _template_texts([solver.system])
    yield "few_shot", [_builtins(solver.shots), *_template_texts([solver.shot_template])] if solver.shots else None
    yield "generation", solver.generation
    yield "sampling", solver.draw_identity()


def _has_choices(task: Task) -> bool:
    return task.shuffle_choices is not None or bool(task.columns.options)


def _template_texts(templates: Any) -> list[str]:
    return [template.text for template in templates if template is not None]


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value)
