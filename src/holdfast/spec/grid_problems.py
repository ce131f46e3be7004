"""What can be wrong with the axes of a task: names that do not exist, values that exclude one another, cycles.

Only the eval is looked at. A Python task may have axes of its own, which are checked when it is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from holdfast.spec.grid import (
    Axes,
    Combination,
    axis_entries,
    combinations,
    declared_axes,
    dependency_levels,
)
from holdfast.spec.loading.error_messages import describe_value, item_path, key_path
from holdfast.spec.schema.axis import AxisValue
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.task import TaskSpec
from holdfast.suggestions import first_of, nearest_or_known

RESERVED = ("task", "model", "sample", "epoch", "prompt")
"""What every trial is named by; variants of a prompt have an axis of this name."""
_ONE_AXIS = ("prompt", "system", "model", "best_of")
"""What values of one axis may give, and of a second one not: it would be undecided which of them counts."""
Entries = Mapping[str, Mapping[str, AxisValue]]


def grid_problems(place: str, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    """The problems of one task, which is at `place` in the eval."""
    entries = axis_entries(task)
    yield from _axis_problems(f"{place}.axes", task)
    for axis, values in entries.items():
        for value, entry in values.items():
            yield from _value_problems(key_path(key_path(f"{place}.axes", axis), value), entry, task, spec)
    yield from _clashes(f"{place}.axes", entries)
    if task.use is None:
        yield from filter_problems(place, task, declared_axes(task))
    for axis, values in entries.items():
        yield from dependency_problems(key_path(f"{place}.axes", axis), values, values)


def _axis_problems(place: str, task: TaskSpec) -> Iterator[str]:
    for axis, values in task.axes.items():
        at = key_path(place, axis)
        if axis in RESERVED:
            variants = "; give several prompts under `prompt`, and they are this axis" if axis == "prompt" else ""
            yield f"{at} has the name of something that every trial has; choose another name{variants}"
        if not values:
            yield f"{at} has no values; give at least one, as in {{{axis}: [a, b]}}"
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if value in list(values)[:index]:
                yield f"{item_path(at, index)} is {describe_value(value)} a second time; keep one"


def _value_problems(place: str, entry: AxisValue, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    if entry.model is not None and entry.model not in spec.models:
        unknown = f"{place}.model is {describe_value(entry.model)}, which is unknown"
        yield f"{unknown}; {nearest_or_known(entry.model, spec.models)}"
    if entry.prompt is not None and isinstance(task.prompt, list | dict):
        yield f"{place}.prompt cannot be given where the task has several prompts, which are an axis of their own"
    if entry.args and task.use is None and task.solver is None:
        yield f"{place}.args is for code, and this task has neither use nor solver; remove args"
    for path in entry.files:
        if not _is_inside(path):
            yield f"{place}.files has {describe_value(path)}, which is not a path inside the workspace"
    for path, other in _same_places(entry.files):
        both = f"{describe_value(path)} and {describe_value(other)}"
        yield f"{place}.files has {both}, which are the same place; keep one"
    if entry.scorer is not None and not entry.best_of:
        yield f"{place}.scorer decides which value of best_of is chosen, and there is no best_of; remove scorer"


def _same_places(files: Collection[str]) -> Iterator[tuple[str, str]]:
    spelled: dict[str, str] = {}
    for path in files:
        if (other := spelled.setdefault(_usual_path(path), path)) != path:
            yield other, path


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return not parts.is_absolute() and bool(parts.parts) and ".." not in parts.parts and "\0" not in path


def _clashes(place: str, entries: Entries) -> Iterator[str]:
    for field in _ONE_AXIS:
        giving = [axis for axis, values in entries.items() if any(getattr(entry, field) for entry in values.values())]
        if len(giving) > 1:
            yield f"{place}: values of {first_of(giving)} all give {field}; give it on one axis only"
    for field in ("files", "args"):
        owners: dict[str, str] = {}
        for axis, values in entries.items():
            names = (name for entry in values.values() for name in getattr(entry, field))
            for name in dict.fromkeys(map(_usual_path, names) if field == "files" else names):
                if owners.setdefault(name, axis) != axis:
                    both = f"values of {owners[name]} and of {axis} both give {field}.{name}"
                    yield f"{place}: {both}; give it on one axis only"


def _usual_path(path: str) -> str:
    """A place in the workspace as it is usually spelled: `./a//b` is `a/b`."""
    return str(PurePosixPath(path))


def filter_problems(place: str, task: TaskSpec, axes: Axes) -> Iterator[str]:
    """The problems of `include` and `exclude`, given the axes that the task has."""
    found = [*_pattern_problems(f"{place}.include", task.include, axes)]
    found += _pattern_problems(f"{place}.exclude", task.exclude, axes)
    yield from found
    if not found and (task.include or task.exclude) and not combinations(axes, task.include, task.exclude):
        yield f"{place}: include and exclude leave no combination of axis values; nothing would be run"


def _pattern_problems(place: str, patterns: Sequence[Combination], axes: Axes) -> Iterator[str]:
    if patterns and not axes:
        yield f"{place} selects combinations of axis values, and the task has no axes; remove it, or add axes"
        return
    for index, pattern in enumerate(patterns):
        at = item_path(place, index)
        if not pattern:
            yield f"{at} names no axis; write it as {{{next(iter(axes))}: VALUE}}, or remove it"
        for axis, value in pattern.items():
            if axis not in axes:
                yield f"{key_path(at, axis)} is not an axis of the task; {nearest_or_known(axis, axes)}"
            elif value not in axes[axis]:
                unknown = f"{key_path(at, axis)} is {describe_value(value)}, which is not a value of that axis"
                yield f"{unknown}; {nearest_or_known(value, axes[axis])}"


def dependency_problems(place: str, entries: Mapping[str, AxisValue], known: Collection[str]) -> Iterator[str]:
    """What is wrong with the values that others depend on; `known` are all values of the axis."""
    for value, entry in entries.items():
        at = f"{key_path(place, value)}.best_of"
        for index, other in enumerate(entry.best_of):
            if other not in known:
                names = nearest_or_known(other, known)
                yield f"{item_path(at, index)} is {describe_value(other)}, which is not a value of that axis; {names}"
            elif other in entry.best_of[:index]:
                yield f"{item_path(at, index)} is {describe_value(other)} a second time; keep one"
    if cycle := _cycle(entries):
        yield f"{place}: {' needs '.join(cycle)}, so none of them could ever start; break the cycle of best_of"


def _cycle(entries: Mapping[str, AxisValue]) -> list[str]:
    """Values of which each depends on the next, and the last on the first; empty if there is no cycle."""
    ranked = {value for level in dependency_levels(entries) for value in level}
    stuck = [value for value in entries if value not in ranked]
    path: list[str] = []
    while stuck:
        value = stuck[0] if not path else next(one for one in entries[path[-1]].best_of if one in stuck)
        if value in path:
            return [*path[path.index(value) :], value]
        path.append(value)
    return []
