"""A second load of the code of tasks, in a process of its own, which tells a changed value from one that never stays.

Two loads of the same source agree on everything but what is another at every import: a time stamp, a random number, a
temporary path, the order of a set. The process gets what it needs on its standard input, and what the code prints there
goes nowhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.engine.planning.inputs import SavedInputs
from holdfast.engine.planning.prepared_eval import task_of_entry
from holdfast.errors import HoldfastError
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import CodeTree, Input, TaskCode
from holdfast.run.drift.code_changes import CodeChange, code_changes, unsteady_names
from holdfast.run.drift.gate import UnsteadyNames
from holdfast.run.fold.reader import RunReader
from holdfast.spec import EvalSpec, plain_data, resolve, typed_eval

_SECONDS = 120
"""For one load; code that takes longer is compared as it is."""
_SEED = "PYTHONHASHSEED"
_HASH_SEEDS = ("random", "1", "2", "3", "4")
"""Several orders of sets: two loads may agree on one by chance. The first is enough for everything else."""

_LOADED: WeakKeyDictionary[RunReader, dict[tuple[bytes, str], dict[str, CodeTree]]] = WeakKeyDictionary()
"""What was loaded for one comparison of a run: the gate and the ways out that it names ask for the same."""
Changes = Mapping[str, Mapping[str, list[CodeChange]]]


class _LoadRequest(msgspec.Struct):
    """What the second process is to load."""

    root: str
    config: dict[str, Any]
    inputs: dict[str, Input]
    trees: dict[str, CodeTree]
    """By task, the tree on record: it says the salt, and in which way code is given."""
    path: list[str]
    hash_seed: str | None
    """`PYTHONHASHSEED` as it is: code may read the environment, and must not see the seed of this load there."""


def unsteady_values(
    reader: RunReader,
    saved: Mapping[str, TaskCode],
    offered: Mapping[str, TaskCode],
    spec: EvalSpec,
    given: Collection[str],
) -> UnsteadyNames:
    """By task and root, the values that differ from the record, and from a second load of the same code as well.

    Tasks that are `given` exist in this process only, and cannot be loaded by another.
    """
    changes = {name: code_changes(saved[name].tree, offered[name].tree) for name in saved if name in offered}
    doubtful = [name for name, found in changes.items() if any(_may_be_unsteady(found)) and name not in given]
    if not doubtful:
        return {}
    trees = {name: saved[name].tree for name in doubtful}
    return _find_unsteady(changes, offered, _load_again(reader, spec, trees))


def _may_be_unsteady(changes: Mapping[str, list[CodeChange]]) -> Iterator[bool]:
    """For each change, whether a second load could explain it."""
    return (change.may_be_unsteady for found in changes.values() for change in found)


def _load_again(
    reader: RunReader, spec: EvalSpec, saved: Mapping[str, CodeTree | None]
) -> Iterator[dict[str, CodeTree]]:
    """The trees of the tasks, loaded once more by a new process, each time with another order of sets."""
    trees = {name: tree for name, tree in saved.items() if tree is not None}
    root, inputs = str(reader.layout.root.absolute()), reader.sessions[-1].inputs
    config, seed_now = plain_data(spec, explicit=True), os.environ.get(_SEED)
    request = msgspec.json.encode(_LoadRequest(root, config, inputs, trees, sys.path, seed_now))
    entries = msgspec.json.encode({name: spec.tasks[name] for name in trees})
    kept = _LOADED.setdefault(reader, {})
    for seed in _HASH_SEEDS:
        if (entries, seed) not in kept:
            kept[entries, seed] = _loaded_trees(request, seed)
        yield kept[entries, seed]


def _find_unsteady(
    changes: Changes, offered: Mapping[str, TaskCode], loads: Iterator[dict[str, CodeTree]]
) -> UnsteadyNames:
    """By task and root, the changes that are explained by the loads; no more are made than are needed."""
    found: UnsteadyNames = {}
    for trees in loads:
        for task, tree in trees.items():
            for root, listed in changes[task].items():
                own = offered[task].tree
                names = unsteady_names(listed, own.roots[root], tree.roots.get(root, {})) if own is not None else set()
                found.setdefault(task, {}).setdefault(root, set()).update(names)
        if not trees or not any(_unexplained(changes[task], found.get(task, {})) for task in trees):
            break
    return found


def _unexplained(changes: Mapping[str, list[CodeChange]], found: Mapping[str, set[str]]) -> bool:
    """Whether another load may explain what no load has yet: only an order differs, and nothing else is refused."""
    listed = [change for root, group in changes.items() for change in group if change.name not in found.get(root, ())]
    return bool(listed) and all(change.may_be_unsteady and change.may_be_order for change in listed)


def _loaded_trees(request: bytes, seed: str) -> dict[str, CodeTree]:
    """Empty where the code could not be loaded a second time."""
    import subprocess  # noqa: PLC0415 - few comparisons load anything again

    environment = {**os.environ, _SEED: seed}
    command = [sys.executable, "-m", "holdfast.engine.opening.second_load"]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, env=environment, timeout=_SECONDS, check=False
        )
        return msgspec.json.decode(done.stdout, type=dict[str, CodeTree])
    except (OSError, subprocess.TimeoutExpired, msgspec.MsgspecError):
        return {}


def _take_again(request: _LoadRequest) -> dict[str, CodeTree]:
    spec = resolve(typed_eval(request.config, "the configuration"))
    inputs = SavedInputs(Layout(Path(request.root)), request.inputs, loads_code=True)
    found = {}
    for name, like in request.trees.items():
        task = task_of_entry(name, spec.tasks[name], spec, inputs)
        found[name] = task.taken.salted(like.salt, like)
    return found


def _restore_seed(value: str | None) -> None:
    """Python has read the variable when it started; from now on it is as in the process that asks."""
    if value is None:
        os.environ.pop(_SEED, None)
    else:
        os.environ[_SEED] = value


def main() -> None:
    """Reads a request, and writes the trees that it asks for."""
    # What the code of a task prints must not come between.
    result = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_LoadRequest)
    sys.path[:] = request.path
    _restore_seed(request.hash_seed)
    try:
        trees = _take_again(request)
    except HoldfastError as error:
        sys.exit(str(error))
    with result:
        result.write(msgspec.json.encode(trees))


if __name__ == "__main__":
    main()
