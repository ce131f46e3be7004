"""The tree of a task: what its solver, its sampling and its scorers reach, salted for a run."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from holdfast.run.core.records import BYTECODE, CodeTree, ValueNode
from holdfast.tasks.source.values.first_taken import settle
from holdfast.tasks.source.values.hidden_texts import TextMask
from holdfast.tasks.source.values.reached_values import ReachedValues, compiled_node
from holdfast.tasks.source.values.value_spelling import TakenNode

_DIGEST_BYTES = 8


class TakenCode(NamedTuple):
    """What the parts of a task reach, as it was when it was taken."""

    roots: Mapping[str, Mapping[str, TakenNode]]
    files: list[Path]
    """The person's own files that it comes from."""
    places: Mapping[str, str]
    """By name, the file in which a person finds it."""
    mutated: frozenset[str]
    """The names of what has changed since this process took them first."""

    codes: Mapping[str, Mapping[str, CodeType]]
    """By root and name, the functions as they run."""

    def salted(self, salt: str, like: CodeTree | None = None) -> CodeTree:
        """The tree as it is recorded in the run that has this salt.

        A function whose source was not known when `like` was recorded is given in the same way, as compiled code.
        """
        key, roots = bytes.fromhex(salt), {}
        for root, nodes in self.roots.items():
            before = {} if like is None else like.roots.get(root, {})
            compiled = {
                name: compiled_node(code)
                for name, code in self.codes[root].items()
                if name in before and before[name].kind == BYTECODE
            }
            roots[root] = {_legible(name): _salted_node(compiled.get(name, nodes[name]), key) for name in sorted(nodes)}
        return CodeTree(salt, roots)


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


def _salted_node(node: TakenNode, key: bytes) -> ValueNode:
    return ValueNode(
        node.kind, blake2b(node.spelled, digest_size=_DIGEST_BYTES, key=key).hexdigest(), _legible(node.text)
    )


def _legible(name: str) -> str:
    """What can be written in a record: halves of characters, which a text of Python may have, are spelled out."""
    return name.encode(errors="backslashreplace").decode()
