"""Values that have changed since this process took them first, as in a notebook.

A memo, a counter or a cache that was empty then and that the code itself fills is no setting: it counts as empty. Any
other value counts as it is now, and a refusal can say that the process changed it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.tasks.source.values.reached_values import HeldValue, TakenTree
from holdfast.tasks.source.values.value_spelling import TakenNode, is_scalar

_EMPTY = re.compile(rb"(.* empty|NoneType None|int 0|float 0\.0|set 0 |frozenset 0 |WeakSet 0 |str |bytes )", re.DOTALL)
_WEAK = re.compile(rb"Weak\w+ (empty|0 )")
"""A container that lets go of what nobody else keeps: one that was empty is a cache, whoever fills it."""
_LAST_NAME = re.compile(r"(\w+)(?:\)|=\)|\['?[^\]]*\]|#\d+| \(\w+\)|\.content)*$")


class _First(NamedTuple):
    held: object
    """Kept, so that nothing else gets its identity."""
    nodes: Mapping[str, TakenNode]
    statements: bytes


_FIRST: dict[tuple[int, str], _First] = {}
"""By the namespace and the name, or by the object, what it held when it was first taken."""


def settle(tree: TakenTree) -> tuple[dict[str, TakenNode], set[str]]:
    """The nodes of a tree with memos as they were first; and the names of what this process has changed otherwise."""
    nodes = dict(tree.nodes)
    mutated: set[str] = set()
    for held in tree.held:
        first = _first_of(held)
        before = {held.path + key: node for key, node in first.nodes.items()}
        if before == held.nodes or first.statements != held.statements:
            continue
        memos = [key for key, node in before.items() if _is_memo(key, node, held.nodes, tree.written)]
        for key in held.nodes:
            if any(key.startswith(memo) for memo in memos):
                nodes.pop(key, None)
            elif held.nodes[key] != before.get(key):
                mutated.add(key)
        mutated |= {key for key in before if key not in held.nodes and not any(map(key.startswith, memos))}
        nodes |= {memo: before[memo] for memo in memos}
    return nodes, mutated


def _is_memo(key: str, first: TakenNode, now: Mapping[str, TakenNode], written: set[str]) -> bool:
    """Whether a value was empty and is filled by the code that uses it."""
    if now.get(key) == first or not _EMPTY.fullmatch(first.spelled):
        return False
    name = _LAST_NAME.search(key)
    return (name is not None and name[1] in written) or _WEAK.fullmatch(first.spelled) is not None


def _first_of(held: HeldValue) -> _First:
    relative = {key.removeprefix(held.path): node for key, node in held.nodes.items()}
    now = _First((held.owner, held.value), relative, held.statements)
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
