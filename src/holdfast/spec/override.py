"""Changing single keys of an eval from the command line: `--set runner.concurrency_limit=8`, `--epochs 4`.

A path is written as refusals write it: dots between keys, a name that holds a dot in double quotes. A bare name that is
no key of the top level stands for that key in every model, dataset or task that may have it. It never gives a task a
block that changes what the task is: a sampling, an agent, a workspace or an axis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import UsageError
from holdfast.spec.canonical import plain_data
from holdfast.spec.loading.error_messages import describe_value, key_path
from holdfast.spec.loading.load import typed_eval
from holdfast.spec.loading.validate import inlined_fields
from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import block_within, blocks_in, schema_fields, schema_places
from holdfast.suggestions import did_you_mean, listing

_STEP = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')

Steps = tuple[str, ...]


def override(spec: EvalSpec, changes: Mapping[str | Steps, Any], source: str = "the command line") -> EvalSpec:
    """The eval with each path, dotted or in its steps, set to its value; `source` is what an error calls the changes.

    Raises:
        ConfigurationError: a path does not exist, or cannot have that value.
        UsageError: a path is not written as one, or names a model, dataset or task that the eval does not have.
    """
    data = plain_data(spec)
    for path, value in changes.items():
        places = _meant_paths(spec, path) if isinstance(path, str) else [path]
        for steps in places:
            _set_value(data, steps, value)
            if steps is places[0] and len(places) > 1:
                # One value for many entries: if it is wrong, that is said once.
                typed_eval(data, source)
    for first, kind in _MAPS.items():
        _refuse_unknown_entries(first, kind, getattr(spec, first), data.get(first))
    return typed_eval(data, source)


def _refuse_unknown_entries(first: str, kind: str, known: Mapping[str, Any], changed: Any) -> None:
    """A setting of an entry that does not exist makes a new one, which is meant only if it is complete by itself."""
    for name, entry in changed.items() if isinstance(changed, dict) else ():
        if name not in known and isinstance(entry, dict) and entry and _ENOUGH[first].isdisjoint(entry):
            raise UsageError(
                f"The eval has no {kind} {name!r}.",
                hint=did_you_mean(name, known) or f"It has {listing(known)}.",
            )


def _meant_paths(spec: EvalSpec, path: str) -> list[Steps]:
    steps = _parse_path(path)
    _refuse_entry_as_key(spec, steps)
    if len(steps) > 1 or steps[0] in {*schema_fields(EvalSpec), *inlined_fields(EvalSpec)}:
        return [_canonical_path(steps)]
    found = dict.fromkeys(_canonical_path(place) for place in _places_named(spec, steps[0]))
    # `tokens` of a task are its limit; those of a sampling, which few tasks have, are meant where nothing else is.
    found = {place: None for place in found if _OWN_BLOCKS.isdisjoint(place[2:3])} or found
    common = [place for place in found if place[0] not in _MAPS]
    return common or list(found) or [steps]


def _refuse_entry_as_key(spec: EvalSpec, steps: Steps) -> None:
    """Refuses a path that begins with the name of a model, dataset or task, and names where that is."""
    if steps[0] in {*schema_fields(EvalSpec), *inlined_fields(EvalSpec)}:
        return
    found = [first for first in _MAPS if steps[0] in getattr(spec, first) and len(steps) > 1]
    if found:
        paths = " or ".join(".".join([first, *map(_quoted_step, steps)]) for first in found)
        raise UsageError(f"{_quoted_step(steps[0])} is not a key of the eval.", hint=f"Did you mean {paths}?")


def _quoted_step(step: str) -> str:
    return key_path("", step)


def _parse_path(path: str) -> Steps:
    import json  # noqa: PLC0415 - slow to load, and most commands override nothing

    found = _STEP.findall(path)
    if not found or len(path) != sum(map(len, found)) + len(found) - 1:
        raise UsageError(
            f"{describe_value(path)} is not the path of a key.", hint="Write it as models.small.concurrency_limit."
        )
    return tuple(json.loads(step) if step.startswith('"') else step for step in found)


_MAPS = {"models": "model", "datasets": "dataset", "tasks": "task"}
_ENOUGH = {"models": {"provider", "base"}, "datasets": {"path"}, "tasks": {"dataset", "use"}}
"""The keys of which an entry needs one to be anything."""
_OWN_BLOCKS = {"sampling", "agent", "workspace"}
"""The blocks of a task that few tasks have."""


def _places_named(spec: EvalSpec, name: str) -> Iterator[Steps]:
    """Every place where a key of that name may appear, for every model, dataset and task that there is."""
    for place in schema_places(EvalSpec):
        first, *rest = place.path.split(".")
        # Within a task, the values of an axis have names of the eval's own.
        if "[" in place.path or not rest or rest[-1] != name or "*" in rest[1:]:
            continue
        if first not in _MAPS:
            yield (first, *rest)
        for owner, entry in getattr(spec, first).items() if first in _MAPS else ():
            if rest[1] not in _OWN_BLOCKS or len(rest) == 2 or getattr(entry, rest[1]) is not None:
                yield (first, owner, *rest[1:])


def _canonical_path(steps: Steps, block: type[Block] = EvalSpec) -> Steps:
    """The path at which loading puts a key that may be in two places."""
    name, rest = steps[0], steps[1:]
    if name not in schema_fields(block) and name in inlined_fields(block):
        return (block.inlined, *_canonical_path(steps, blocks_in(schema_fields(block)[block.inlined].type)[0]))
    within = block_within(schema_fields(block)[name].type) if name in schema_fields(block) else None
    # In a map the next step is the name of an entry.
    names = within[1].count("*") or len(within[1]) // 2 if within else 0
    entry, below = rest[:names], rest[names:]
    return (name, *entry, *_canonical_path(below, within[0])) if within and below else steps


def _set_value(data: dict[str, Any], steps: Steps, value: Any) -> None:
    *blocks, key = steps
    for block in blocks:
        below = data.setdefault(block, {})
        if not isinstance(below, dict):
            problem = f"{'.'.join(steps)} cannot be set: {block} is not a block."
            raise UsageError(problem, hint="Write it as written in the file.")
        data = below
    data[key] = value
