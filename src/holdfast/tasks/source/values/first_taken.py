"""Values that have changed since this process took them first, as in a notebook.

A memo, a counter or a cache that was empty then and that the code itself fills is no setting: it counts as empty. Any
other value counts as it is now, and a refusal can say that the process changed it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import FunctionType
from typing import NamedTuple

from holdfast.run.core.records import OPAQUE
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode, is_scalar
from holdfast.tasks.source.values.walk.held_values import HeldValue, TakenTree

_EMPTY = re.compile(rb"(.* empty|NoneType None|int 0|float 0\.0|set 0 |frozenset 0 |WeakSet 0 |str |bytes )", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\.\w+)+")
_WEAK = re.compile(rb"Weak\w+ (empty|0 )")
"""A container that lets go of what nobody else keeps: one that was empty is a cache, whoever fills it."""
_LAST_NAME = re.compile(r"(\w+)(?:\)|=\)|\['?[^\]]*\]|#\d+| \(\w+\)|\.content)*$")


class _First(NamedTuple):
    held: tuple[object, object]
    """What had it and what it was: kept, so that nothing else gets their identities."""
    nodes: Mapping[str, TakenNode]
    statements: bytes
    samples: Mapping[str, tuple[int, ...]]


_FIRST: dict[tuple[int, str], _First] = {}
"""By the namespace and the name, or by the object, what it held when it was first taken."""


def settle(tree: TakenTree) -> tuple[dict[str, TakenNode], set[str]]:
    """The nodes of a tree with memos as they were first; and the names of what this process has changed otherwise."""
    nodes = dict(tree.nodes)
    mutated: set[str] = set()
    for held in tree.held:
        first = _first_of(held, tree.samples)
        before = {held.path + key: node for key, node in first.nodes.items()}
        is_same = _holds(first) is held.value
        for key in _refilled(held, first, tree.samples) if is_same else ():
            nodes[key] = _another(held.nodes[key])
            mutated.add(key)
        if not is_same and type(held.value) is FunctionType:
            # Another function of the same code, which holds other values.
            mutated |= {key for key in tree.nodes if key.startswith(f"{held.path}(")}
        if first.statements != held.statements or (before == held.nodes and (is_same or not _is_opaque(held.nodes))):
            continue
        memos = _Memos(before, held, tree.written, is_same=is_same)
        mutated |= memos.mutated()
        nodes = {key: node for key, node in nodes.items() if key not in memos.filled}
        nodes |= {memo: before[memo] for memo in memos.empty}
        if not is_same:
            # What it is now cannot be compared; that it is another thing is known.
            nodes |= {key: _another(node) for key, node in held.nodes.items() if node.kind == OPAQUE}
            mutated |= {key for key, node in held.nodes.items() if node.kind == OPAQUE}
    return nodes, mutated


class _Memos:
    """Of one value, the parts that were empty at first and that the code which uses it has filled."""

    def __init__(self, before: Mapping[str, TakenNode], held: HeldValue, written: set[str], *, is_same: bool) -> None:
        self._before, self._now = before, held.nodes
        self.empty = [key for key, node in before.items() if _is_memo(key, node, held.nodes, written, is_same=is_same)]
        came = [key for key in held.nodes if key not in before and is_same and _is_added(key, held.path, written)]
        self.filled = {key for key in held.nodes if any(map(key.startswith, (*self.empty, *came)))}

    def mutated(self) -> set[str]:
        """The names of what has changed otherwise."""
        changed = {key for key, node in self._now.items() if key not in self.filled and node != self._before.get(key)}
        gone = {key for key in self._before if key not in self._now and not any(map(key.startswith, self.empty))}
        return changed | gone


def _is_opaque(nodes: Mapping[str, TakenNode]) -> bool:
    return any(node.kind == OPAQUE for node in nodes.values())


def _another(node: TakenNode) -> TakenNode:
    return node._replace(spelled=node.spelled + b" another")


def _is_memo(key: str, first: TakenNode, now: Mapping[str, TakenNode], written: set[str], *, is_same: bool) -> bool:
    """Whether a value was empty and is filled by the code that uses it, or is a source of numbers that was used."""
    if now.get(key) == first:
        return False
    if is_same and first.spelled.startswith(b"random ") and key in now:
        return True
    if not _EMPTY.fullmatch(first.spelled):
        return False
    return _is_written(key, written) or _WEAK.fullmatch(first.spelled) is not None


def _is_added(key: str, path: str, written: set[str]) -> bool:
    """Whether it is an attribute that the code itself has added to an object."""
    return _ATTRIBUTE.fullmatch(key.removeprefix(path)) is not None and _is_written(key, written)


def _is_written(key: str, written: set[str]) -> bool:
    name = _LAST_NAME.search(key)
    return name is not None and name[1] in written


def _holds(first: _First) -> object:
    return first.held[1]


def _refilled(held: HeldValue, first: _First, samples: Mapping[str, tuple[int, ...]]) -> list[str]:
    """What is too large to be compared, and has other members than it had."""
    found = [(key, first.samples.get(key.removeprefix(held.path))) for key in held.nodes if key in samples]
    return [key for key, before in found if before is not None and before != samples[key]]


def _first_of(held: HeldValue, samples: Mapping[str, tuple[int, ...]]) -> _First:
    relative = {key.removeprefix(held.path): node for key, node in held.nodes.items()}
    sampled = {key.removeprefix(held.path): samples[key] for key in held.nodes if key in samples}
    now = _First((held.owner, held.value), relative, held.statements, sampled)
    keys = [(id(held.value), "")] if _is_object(held.value) else []
    if held.owner is not None:
        keys.insert(0, (id(held.owner), held.path))
    found = next((_FIRST[key] for key in keys if key in _FIRST), now)
    if found.statements != held.statements:
        # The lines that bind it were run again, with another text.
        found = now
        for key in keys:
            _FIRST.pop(key, None)
    for key in keys:
        _FIRST.setdefault(key, found)
    return found


def _is_object(value: object) -> bool:
    return not is_scalar(value) and type(value) is not tuple and type(value) is not frozenset
