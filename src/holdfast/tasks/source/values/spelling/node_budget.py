"""The bounds of a tree: how many nodes and bytes the values of a task may come to."""

from __future__ import annotations

import collections
import itertools
import types
from typing import Any, Protocol

from holdfast.run.core.records import OPAQUE, VALUE
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.taken_nodes import (
    TakenNode,
)

MAX_NODES, MAX_BYTES = 20_000, 1 << 20
"""What the values of a task may come to; beyond that they are opaque."""
MAX_SINGLE = 2_000
"""How many members of large containers have a node of their own, so that a tree stays small in the record."""
_MAX_WORK = 3 * MAX_NODES
_FEW_NODES = 500
"""How many nodes each further value may have, once much work was spent on values that are too large."""


class TooLarge(Exception):  # noqa: N818 - no error: what the value is
    """The value exceeds a bound; `alone` if it would whatever else there is."""

    def __init__(self, *, alone: bool = False) -> None:
        super().__init__()
        self.alone = alone


class DefinitionSink(Protocol):
    """Where functions, classes and modules go that are met inside values."""

    def function(self, path: str, value: types.FunctionType) -> TakenNode: ...
    def class_(self, path: str, value: type) -> TakenNode: ...
    def module(self, path: str, value: types.ModuleType) -> TakenNode: ...
    def is_own(self, found: type) -> bool: ...
    def package_type(self, found: type) -> None: ...


class NodeBudget:
    """The nodes of one value after the other, within the bounds of a task."""

    def __init__(self, sink: DefinitionSink, mask: TextMask) -> None:
        self._sink, self._mask = sink, mask
        self._nodes, self._bytes, self._work = MAX_NODES, MAX_BYTES, 0
        self._single = MAX_SINGLE
        self._out: dict[str, TakenNode] = {}
        self._seen: dict[int, str] = {}
        self._kept: list[object] = []
        self._inside: set[int] = set()
        self.samples: dict[str, tuple[int, ...]] = {}
        """Of what is too large, which objects some of its members are: within this process, that tells a change."""
        self.attribute_orders: dict[str, tuple[list[str], bool]] = {}
        """Of objects, their attributes in the order in which they got them; and whether `str` shows that order."""

    def _bounded(self, path: str, value: object, depth: int) -> None:
        """A value that has a name of its own: where it alone takes most of the bound, it is opaque."""
        before, nodes, size = len(self._out), self._nodes, self._bytes
        try:
            self._value(path, value, depth)
        except TooLarge as found:
            spent = max((nodes - self._nodes) / MAX_NODES, (size - self._bytes) / MAX_BYTES)
            if depth and spent < 0.5 and not found.alone:
                raise
            self._give_back(before, nodes, size)
            self.samples[path] = _sample(value)
            self._opaque(path, "too large", "too large")

    def _give_back(self, before: int, nodes: int, size: int) -> None:
        self._work += nodes - self._nodes
        for key in list(self._out)[before:]:
            del self._out[key]
        self._nodes, self._bytes = nodes, size
        if self._work > _MAX_WORK:
            self._nodes = min(self._nodes, _FEW_NODES)

    def _check_size(self, nodes: int, size: int) -> None:
        """Before anything of it is spelled: whether a value can be within the bound at all."""
        if nodes > self._nodes or size > self._bytes:
            raise TooLarge(alone=nodes > MAX_NODES or size > MAX_BYTES)

    def _spend(self, nodes: int, size: int) -> None:
        self._nodes -= nodes
        self._bytes -= size
        if self._nodes < 0 or self._bytes < 0:
            raise TooLarge

    def _emit(self, path: str, spelled: bytes, text: str, kind: str = VALUE) -> None:
        self._spend(1, len(spelled))
        key = path
        number = 2
        while key in self._out:
            key, number = f"{path}#{number}", number + 1
        self._out[key] = TakenNode(kind, spelled, text)

    def _opaque(self, path: str, spelled: str, text: str) -> None:
        self._out[path] = TakenNode(OPAQUE, spelled.encode(), text)

    def _value(self, path: str, value: Any, depth: int) -> None:
        raise NotImplementedError


def _sample(value: object) -> tuple[int, ...]:
    """How many members a large container has, and which objects some of them are."""
    if type(value) is list or type(value) is tuple:
        return len(value), *map(id, value[:: len(value) // _SAMPLED + 1])
    if type(value) is dict:
        some = itertools.islice(value.items(), _SAMPLED)
        return len(value), *(id(part) for pair in some for part in pair)
    if type(value) is set or type(value) is frozenset or type(value) is collections.deque:
        return len(value), *map(id, itertools.islice(value, _SAMPLED))
    return ()


_SAMPLED = 64
