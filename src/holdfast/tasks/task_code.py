"""The code behind a task, as digests that a later session compares.

A task in Python brings along what an eval file would say of a declarative one: its prompts, its system text, its
limits, what it does with its dataset. Each of these has a digest of its own, so that a change is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.digests import json_digest
from holdfast.run.core.records import BUILT_IN_SOLVER, SCORER_ROOT, CodeTree, RowReading, TaskCode
from holdfast.spec import DatasetSpec, TrialLimits
from holdfast.tasks.grid.axis_files import file_identities
from holdfast.tasks.scorers.base import BuiltIn, Scorer
from holdfast.tasks.solver import REVISION, Generate
from holdfast.tasks.task import Task

if TYPE_CHECKING:
    from holdfast.tasks.source.spelling import Spelling

RULE = 3
"""The rule of today: code and values as a tree. Digests of the source alone were made by the rules before it."""
OWN_CODE = "own code"
"""The `solver` of a task whose solver is a person's own; what it is, the tree says."""


def code_of(task: Task, salt: str, like: CodeTree | None = None) -> TaskCode:
    """What a task's answers and scores rest on, apart from its configuration; `like` as for `TakenCode.salted`."""
    built_in = isinstance(task.solver, Generate)
    tree = task.taken.salted(salt, like)
    return _task_code(
        task,
        solver=f"{BUILT_IN_SOLVER}{REVISION}" if built_in else OWN_CODE,
        rule=RULE,
        scorers={scorer.name: json_digest(_codeless_identity(scorer)) for scorer in task.scorers},
        settings=settings_digests(task),
        tree=tree if tree.roots else None,
    )


def earlier_code_of(task: Task, spelling: Spelling) -> TaskCode:
    """The same by a rule of an earlier version, which digested the source."""
    from holdfast.tasks.source.digest import source_digest  # noqa: PLC0415 - few runs are that old

    built_in = isinstance(task.solver, Generate)
    return _task_code(
        task,
        solver=f"{BUILT_IN_SOLVER}{REVISION}" if built_in else source_digest(task.solver, spelling),
        rule=spelling.rule,
        scorers={scorer.name: json_digest(_scorer_identity(scorer, spelling)) for scorer in task.scorers},
        settings=settings_digests(task, with_code=True),
    )


def raised_parts(task: Task, saved: TaskCode, now: TaskCode) -> frozenset[str]:
    """What differs from the digests on record only by a behaviour number that was lower then: the names of settings,
    and of scorers as roots.
    """
    found = set()
    for name, value in _settings(task) if saved.settings != now.settings else ():
        if isinstance(value, dict) and saved.settings.get(name, "") in _lower_digests(value, {}):
            found.add(name)
    for scorer in task.scorers if saved.scorers != now.scorers else ():
        if isinstance(scorer, BuiltIn):
            digests = _lower_digests(scorer.identity(), _defaults(scorer))
            found.update([SCORER_ROOT + scorer.name] if saved.scorers.get(scorer.name, "") in digests else [])
    return frozenset(found)


def _lower_digests(identity: dict[str, Any], defaults: dict[str, Any]) -> Iterator[str]:
    """The digests that it had with every lower behaviour number, also without arguments that came with a higher one."""
    for revision in range(1, identity.get("revision", 1)):
        earlier = {**identity, "revision": revision}
        yield json_digest(earlier)
        for left_out in _subsets(
            [name for name, value in defaults.items() if identity["arguments"].get(name) == value]
        ):
            arguments = {name: value for name, value in identity["arguments"].items() if name not in left_out}
            yield json_digest({**earlier, "arguments": arguments})


def _subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(names) + 1):
        yield from itertools.combinations(names, size)


def _defaults(scorer: BuiltIn) -> dict[str, Any]:
    """The arguments that a scorer may leave out, with what they are then."""
    fields = msgspec.structs.fields(scorer)
    return {field.name: field.default for field in fields if field.default is not msgspec.NODEFAULT}


def _task_code(task: Task, **found: Any) -> TaskCode:
    return TaskCode(
        name=getattr(task.solver, "__qualname__", type(task.solver).__name__),
        files=sorted({path.name for path in task.taken.files} or _task_file(task)),
        epochs=task.epochs,
        limit=task.limit,
        axes={axis: list(values) for axis, values in task.axes.items()},
        rows=_row_reading(task),
        axis_files=file_identities(task.grid),
        **found,
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
        key_paths=None if columns.key_paths is None else list(columns.key_paths),
    )


def settings_digests(task: Task, *, with_code: bool = False) -> dict[str, str]:
    """What the task itself sets beside its code, as digests; settings that it leaves open are left out.

    `with_code` as under earlier rules: the sampling with the source of its functions.
    """
    found = dict(_settings(task))
    if not with_code and found.get("sampling"):
        found["sampling"] = _without_code(found["sampling"])
    return {name: json_digest(value) for name, value in found.items() if value}


def _without_code(identity: Any) -> Any:
    """The identity of a sampling without the source of functions, which are in the tree."""
    if isinstance(identity, list):
        return [_without_code(item) for item in identity]
    if not isinstance(identity, dict):
        return identity
    left_out = (
        {"code"} if "strategy" in identity else {"source"} if identity.get("requirement") == "function" else set()
    )
    return {name: _without_code(item) for name, item in identity.items() if name not in left_out}


def _codeless_identity(scorer: Scorer) -> dict[str, Any]:
    if isinstance(scorer, BuiltIn):
        return scorer.identity()
    # Most tasks have built-in scorers alone.
    from holdfast.tasks.scorers.function import FunctionScorer  # noqa: PLC0415
    from holdfast.tasks.scorers.reference import ObjectScorer  # noqa: PLC0415

    if isinstance(scorer, ObjectScorer):
        return scorer.function.identity()
    return {"scorer": scorer.name} if isinstance(scorer, FunctionScorer) else scorer.identity()


def _scorer_identity(scorer: Scorer, spelling: Spelling) -> dict[str, Any]:
    from holdfast.tasks.scorers.function import FunctionScorer  # noqa: PLC0415 - few runs are that old

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
    yield "max_iterations", task.max_iterations
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
    yield "tools", solver.tool_identity()
    yield from solver.own_settings().items()


def _has_choices(task: Task) -> bool:
    return task.shuffle_choices is not None or bool(task.columns.options)


def _template_texts(templates: Any) -> list[str]:
    return [template.text for template in templates if template is not None]


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value)
