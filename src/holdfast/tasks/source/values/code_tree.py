"""The tree of a task: what its solver, its sampling and its scorers reach."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

from holdfast.models.environment_keys import hide_environment_keys
from holdfast.tasks.source.values.first_taken import settle
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode
from holdfast.tasks.source.values.taken_code import TakenCode
from holdfast.tasks.source.values.walk.reached_values import ReachedValues


def take_code(roots: Mapping[str, object]) -> TakenCode:
    """Walks from every part of a task that a person has written."""
    # A collection would go through every table of the task, and take longer than all of this.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _take_code(roots)
    finally:
        _spare_collector()
        if collects:
            gc.enable()


def _spare_collector() -> None:
    """Takes what was just imported for old, so that it is not gone through at once when collections start again."""
    if not gc.get_freeze_count():  # what somebody else has frozen would be let go
        gc.freeze()
        gc.unfreeze()


def _take_code(roots: Mapping[str, object]) -> TakenCode:
    hide_environment_keys()
    mask = TextMask()
    taken: dict[str, dict[str, TakenNode]] = {}
    files: set[str] = set()
    places: dict[str, str] = {}
    mutated: set[str] = set()
    codes = {}
    for name, root in roots.items():
        tree = ReachedValues(mask).take(root, name)
        nodes, changed = settle(tree)
        taken[name] = _without_keys(nodes, mask)
        files |= tree.files
        places |= tree.places
        mutated |= changed
        codes[name] = tree.codes
    paths = sorted(Path(name) for name in files if Path(name).is_file())
    return TakenCode(taken, paths, places, frozenset(mutated), codes)


def _without_keys(nodes: dict[str, TakenNode], mask: TextMask) -> dict[str, TakenNode]:
    """The nodes without keys in their names, which are not spelled as values are."""
    whole = "\n".join((*nodes, *(node.text for node in nodes.values())))
    if mask.without_known_keys(whole) == whole:
        return nodes
    return {mask.without_known_keys(name): _node_without_keys(node, mask) for name, node in nodes.items()}


def _node_without_keys(node: TakenNode, mask: TextMask) -> TakenNode:
    spelled = mask.without_known_keys(node.spelled.decode(errors="surrogateescape"))
    return TakenNode(node.kind, spelled.encode(errors="surrogateescape"), mask.without_known_keys(node.text))
