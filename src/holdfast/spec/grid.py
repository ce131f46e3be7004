"""The grid of a task: every combination of its axis values, less what `include` and `exclude` leave out.

Combinations are computed from the eval alone, in one order: that of the axes' names, then of their values. Nothing here
grows with the number of samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from holdfast.spec.schema.axis import AxisValue
from holdfast.spec.schema.task import TaskSpec

Combination = Mapping[str, str]
Axes = Mapping[str, Sequence[str]]
"""The values of every axis, in order."""

NO_OVERRIDES = AxisValue()


def entries_of(axis: list[str] | dict[str, AxisValue]) -> dict[str, AxisValue]:
    """The values of an axis in either form, with what is special about each."""
    return axis if isinstance(axis, dict) else dict.fromkeys(axis, NO_OVERRIDES)


def short_axis(axis: list[str] | dict[str, AxisValue]) -> list[str] | dict[str, AxisValue]:
    """The same axis in one form for equal content: a list where nothing is special about any value."""
    entries = entries_of(axis)
    return entries if any(entry != NO_OVERRIDES for entry in entries.values()) else list(entries)


def declared_axes(task: TaskSpec) -> dict[str, list[str]]:
    """The values of the axes that an entry of `tasks` declares."""
    return {name: list(entries_of(axis)) for name, axis in task.axes.items()}


def axis_entries(task: TaskSpec) -> dict[str, dict[str, AxisValue]]:
    """The same with what is special about each value."""
    return {name: entries_of(axis) for name, axis in task.axes.items()}


def pinned_models(task: TaskSpec) -> list[str]:
    """The models that axis values name, each once."""
    named = (entry.model for entries in axis_entries(task).values() for entry in entries.values())
    return list(dict.fromkeys(model for model in named if model is not None))


def asked_models(task: TaskSpec, models: Iterable[str]) -> list[str]:
    """The models under test of a task: those it names, or `models` if it names none, and those of its axis values."""
    own = list(models if task.models is None else task.models)
    return list(dict.fromkeys([*own, *pinned_models(task)]))


class GridFilter:
    """Says which combinations of axis values belong to a grid."""

    def __init__(self, include: Sequence[Combination], exclude: Sequence[Combination], axes: int) -> None:
        """`axes` is the number of axes: a pattern that names them all is one combination, which is looked up."""
        self._include = _Patterns(include, axes) if include else None
        self._exclude = _Patterns(exclude, axes)

    def takes(self, combination: Combination) -> bool:
        """Whether a combination is in the grid."""
        if self._include is not None and not self._include.match(combination):
            return False
        return not self._exclude.match(combination)


class _Patterns:
    def __init__(self, patterns: Sequence[Combination], axes: int) -> None:
        self._whole = {combination_key(pattern) for pattern in patterns if len(pattern) == axes}
        self._partial = [pattern.items() for pattern in patterns if len(pattern) != axes]

    def match(self, combination: Combination) -> bool:
        if self._whole and combination_key(combination) in self._whole:
            return True
        return any(pattern <= combination.items() for pattern in self._partial)


def combination_key(combination: Combination) -> tuple[tuple[str, str], ...]:
    """A combination as a value that sets can hold."""
    return tuple(sorted(combination.items()))


def combinations(
    axes: Axes, include: Sequence[Combination] = (), exclude: Sequence[Combination] = ()
) -> tuple[Combination, ...]:
    """Every combination of a grid; one that is empty where there are no axes."""
    found: Iterator[Combination] = _product(axes)
    if include or exclude:
        found = filter(GridFilter(include, exclude, len(axes)).takes, found)
    return tuple(found)


def _product(axes: Axes) -> Iterator[Combination]:
    names = sorted(axes)
    return (dict(zip(names, values, strict=True)) for values in product(*(axes[name] for name in names)))


def joined_axes(saved: Axes, offered: Axes) -> dict[str, list[str]]:
    """The values of both sides, those that are saved first."""
    return {name: list(dict.fromkeys([*saved.get(name, ()), *offered.get(name, ())])) for name in {**saved, **offered}}


class JoinedGrid:
    """The grids of a saved and an offered task as one: whatever is in either of them.

    `include` and `exclude` are those of the offered task if they give that grid, else those of the saved one, else the
    list of all combinations.
    """

    def __init__(self, saved: TaskSpec, offered: TaskSpec, before: Axes, after: Axes) -> None:
        """`before` and `after` are the axes of the two sides, with those that the code of a task brings."""
        axes = joined_axes(before, after)
        old, new = (combinations(had, task.include, task.exclude) for had, task in ((before, saved), (after, offered)))
        known, offers = set(map(combination_key, old)), set(map(combination_key, new))
        both = {name: set(before.get(name, ())) & set(after.get(name, ())) for name in axes}
        self.added = [one for one in new if combination_key(one) not in known and _is_within(one, both)]
        """Combinations of values on both sides that only the offered grid has."""
        self.left_out = [one for one in old if combination_key(one) not in offers and _is_within(one, both)]
        """The same of the saved grid."""
        whole = known | offers
        self.include, self.exclude = _filter_for(axes, whole, (offered, saved), (*old, *new))


def _is_within(combination: Combination, values: Mapping[str, set[str]]) -> bool:
    return all(value in values[axis] for axis, value in combination.items())


def _filter_for(
    axes: Axes,
    whole: set[tuple[tuple[str, str], ...]],
    tasks: Iterable[TaskSpec],
    every: Iterable[Combination],
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    for task in tasks:
        if set(map(combination_key, combinations(axes, task.include, task.exclude))) == whole:
            return task.include, task.exclude
    if len(whole) == len(combinations(axes)):
        return [], []
    listed = {combination_key(one): dict(one) for one in every}
    return list(listed.values()), []


def dependency_levels(entries: Mapping[str, AxisValue]) -> list[list[str]]:
    """The values of an axis in the order in which they can be run: those of a level depend on earlier levels only.

    Values in a cycle are in no level, and neither are those that depend on one.
    """
    levels: list[list[str]] = []
    left, ranked = dict(entries), set[str]()
    while left:
        # A value that is not known here is refused elsewhere.
        free = [value for value, entry in left.items() if not any(one in left for one in entry.best_of)]
        if not free:
            break
        levels.append(free)
        ranked.update(free)
        left = {value: entry for value, entry in left.items() if value not in ranked}
    return levels


def combination_text(combination: Combination) -> str:
    """A combination, or a pattern of some, as people read it."""
    return ", ".join(f"{axis}={value}" for axis, value in combination.items())
