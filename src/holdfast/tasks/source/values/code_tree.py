"""The tree of a task: what its solver, its sampling and its scorers reach."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

from holdfast.tasks.source.values.first_taken import settle
from holdfast.tasks.source.values.hidden_texts import TextMask
from holdfast.tasks.source.values.reached_values import ReachedValues
from holdfast.tasks.source.values.taken_code import TakenCode
from holdfast.tasks.source.values.value_spelling import TakenNode


def take_code(roots: Mapping[str, object]) -> TakenCode:
    """Walks from every part of a task that a person has written."""
    # A collection would go through every table of the task, and take longer than all of this.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _take_code(roots)
    finally:
        if collects:
            gc.enable()


def _take_code(roots: Mapping[str, object]) -> TakenCode:
    mask = TextMask()
    taken: dict[str, dict[str, TakenNode]] = {}
    files: set[str] = set()
    places: dict[str, str] = {}
    mutated: set[str] = set()
    codes = {}
    for name, root in roots.items():
        tree = ReachedValues(mask).take(root)
        taken[name], changed = settle(tree)
        files |= tree.files
        places |= tree.places
        mutated |= changed
        codes[name] = tree.codes
    paths = sorted(Path(name) for name in files if Path(name).is_file())
    return TakenCode(taken, paths, places, frozenset(mutated), codes)
