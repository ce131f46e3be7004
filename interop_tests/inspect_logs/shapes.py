"""Samples with one odd value somewhere: Inspect reads whatever our table of its types accepts."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalSample
from pydantic import ValidationError

from holdfast.interop.inspect.eval_archive import EvalArchive
from holdfast.interop.inspect.sample_shape import faults_in, readable_parts

LOG = Path(__file__).resolve().parents[2] / "tests/data/inspect/questions.eval"
_ODD: list[Any] = [None, 1, 1.5, "x", [], {}, [1], {"a": 1}, True]
_CHANGES = 2000


def compare_shapes(seed: int) -> list[str]:
    """What Inspect refuses although the table accepts it, and what it refuses of the parts that are left."""
    with EvalArchive(LOG) as archive:
        samples = [archive.sample(name) for name in archive.sample_members()]
    draw, faults = random.Random(seed), []
    for _ in range(_CHANGES):
        place, found = _changed(draw, draw.choice(samples))
        if not faults_in(found, "sample") and not _is_read(found):
            faults.append(f"shapes: Inspect refuses {place}, and the table does not")
        left = {"input": "", "target": "", **readable_parts(found, "sample")}
        if "id" in left and "epoch" in left and not _is_read(left):
            faults.append(f"shapes: Inspect refuses what is left of {place}")
    faults += [f"shapes: the table refuses sample {found['id']}" for found in samples if faults_in(found, "sample")]
    return faults


def _changed(draw: random.Random, sample: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    found = copy.deepcopy(sample)
    place = draw.choice(list(_places(found)))
    holder: Any = found
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value = copy.deepcopy(draw.choice(_ODD))
    return f"{place} = {value!r}", found


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield (*place, step)
        yield from _places(item, (*place, step))


def _is_read(sample: dict[str, Any]) -> bool:
    try:
        EvalSample.model_validate(copy.deepcopy(sample))
    except ValidationError:
        return False
    return True
