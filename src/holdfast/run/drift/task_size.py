"""The size of a task in Python: its epochs, its limit, its axes, its scorers. They may grow, and never shrink.

An eval file says these of a declarative task, and they are compared there. A task in Python may bring its own, so what
a run asked for is recorded with its code; where the code asks for less than before, the run keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from holdfast.run.core.records import TaskCode
from holdfast.spec import Drift
from holdfast.spec.compare import Difference, DriftVerdict, limit_bound, way_out_of


def merge_task_sizes(saved: TaskCode, offered: TaskCode) -> TaskCode:
    """The offered task with everything that the saved one asked for too."""
    axes = {axis: [*saved.axes.get(axis, []), *_added(saved, offered, axis)] for axis in offered.axes}
    limit = max(limit_bound(saved.limit), limit_bound(offered.limit))
    return msgspec.structs.replace(
        offered,
        epochs=max(saved.epochs, offered.epochs),
        limit=None if limit == math.inf else int(limit),
        axes=axes,
    )


def task_size_differences(task: str, saved: TaskCode, offered: TaskCode) -> list[Difference]:
    """Where a task asks for more or for less than before."""
    found = []
    if saved.epochs != offered.epochs:
        verdict = DriftVerdict.GROWN if offered.epochs > saved.epochs else DriftVerdict.KEPT
        found.append(Difference(f"tasks.{task}.epochs", Drift.ADDITIVE, saved.epochs, offered.epochs, verdict))
    if saved.limit != offered.limit:
        verdict = DriftVerdict.GROWN if limit_bound(offered.limit) > limit_bound(saved.limit) else DriftVerdict.KEPT
        found.append(Difference(f"tasks.{task}.limit", Drift.ADDITIVE, saved.limit, offered.limit, verdict))
    added = [name for name in offered.scorers if name not in saved.scorers]
    found += [Difference(f"tasks.{task}.scorers.{n}", Drift.ADDITIVE, None, "added", DriftVerdict.GROWN) for n in added]
    return found + list(_axis_differences(task, saved, offered))


def _axis_differences(task: str, saved: TaskCode, offered: TaskCode) -> Iterator[Difference]:
    if saved.axes.keys() != offered.axes.keys():
        # Every trial has a value on every axis: with other axes they are all other trials.
        names = [", ".join(sorted(side.axes)) or "none" for side in (saved, offered)]
        out = way_out_of(Drift.IDENTITY)
        yield Difference(f"tasks.{task}.axes", Drift.IDENTITY, names[0], names[1], DriftVerdict.REFUSED, out)
        return
    for axis, values in saved.axes.items():
        path = f"tasks.{task}.{axis}"
        for value in values:
            if value not in offered.axes[axis]:
                yield Difference(path, Drift.ADDITIVE, value, "left out", DriftVerdict.KEPT)
        for value in _added(saved, offered, axis):
            yield Difference(path, Drift.ADDITIVE, None, value, DriftVerdict.GROWN)


def _added(saved: TaskCode, offered: TaskCode, axis: str) -> list[str]:
    return [value for value in offered.axes[axis] if value not in saved.axes.get(axis, [])]
