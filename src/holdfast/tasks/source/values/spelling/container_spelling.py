"""Numbers, texts, lists, maps and sets: what they hold, in an order that does not depend on the process."""

from __future__ import annotations

import collections
import gc
import marshal
import operator
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from holdfast.run.core.records import MEMBER, OPAQUE, ORDER_OF, VALUE
from holdfast.tasks.source.values.spelling.builtin_content import (
    MapPairs,
    ordered_pairs,
)
from holdfast.tasks.source.values.spelling.node_budget import NodeBudget
from holdfast.tasks.source.values.spelling.taken_nodes import (
    SCALARS,
    SHOWN,
    TakenNode,
    is_scalar,
    joined_nodes,
    order_node,
    shown_text,
)

_MANY_MEMBERS = 40
"""A container of more is one node of the tree; of up to `_MANY_NODES` members, each is a node beside it."""
_MANY_NODES = 256
_FLAT = frozenset(map(id, SCALARS - {bytes}))
_EMPTY_TEXTS = {"list": "[]", "tuple": "()", "dict": "{}"}


class ContainerSpelling(NodeBudget):
    """Spells scalars and containers."""

    def _scalar(self, path: str, value: Any, depth: int) -> None:  # noqa: ARG002 - as for every type
        if type(value) in {str, bytes}:
            self._check_size(0, len(value))
            if self._mask.holds_own_key(value if type(value) is str else value.decode("latin-1")):
                self._spend(1, 0)
                self._opaque(path, self._scalar_bytes(value).decode(errors="replace"), "looks like a key")
                return
        self._emit(path, self._scalar_bytes(value), self._scalar_text(value))

    def _scalar_bytes(self, value: Any) -> bytes:
        found = type(value)
        if found is str:
            return b"str " + self._mask.spelled(value).encode(errors="surrogatepass")
        if found is bytes:
            return b"bytes " + self._mask.spelled(value.decode("latin-1")).encode("latin-1", "replace")
        if found is int:
            return f"int {value:x}".encode()
        return f"{found.__name__} {value!r}".encode()

    def _scalar_text(self, value: Any) -> str:
        found = type(value)
        if found is int and value.bit_length() > 4 * SHOWN:
            return f"a number of {value.bit_length()} bits"
        if found is str:
            # A text is cut before it is spelled: it may be long.
            return "" if self._mask.is_from_environment(value) else shown_text(self._mask.spelled(value))
        if found is bytes:
            return shown_text(self._mask.spelled(value.decode("latin-1")), "b")
        return repr(value)

    def _list(self, path: str, value: Any, depth: int) -> None:
        self._members(
            path, value, type(value).__name__, len(value), ((f"[{n}]", item) for n, item in enumerate(value)), depth
        )

    def _deque(self, path: str, value: collections.deque[Any], depth: int) -> None:
        # Taken at once: a thread may be at work on it.
        self._members(
            path,
            value,
            f"deque {value.maxlen}",
            len(value),
            ((f"[{n}]", item) for n, item in enumerate(list(value))),
            depth,
        )

    def _map(self, path: str, value: dict[Any, Any], depth: int) -> None:
        self._map_members(path, value, type(value).__name__, dict.items(value), depth)

    def _ordered_map(self, path: str, value: Any, depth: int) -> None:
        self._check_size(dict.__len__(value), 0)
        self._map_members(path, value, "OrderedDict", ordered_pairs(value), depth)

    def _pairs(self, path: str, value: MapPairs, depth: int) -> None:
        self._map_members(path, value, "dict", value, depth)

    def _weak_map(self, path: str, value: Any, depth: int) -> None:
        self._map_members(path, value, type(value).__name__, list(value.items()), depth)

    def _weak_reference(self, path: str, value: Any, depth: int) -> None:
        self._emit(path, type(value).__name__.encode(), "weak reference")
        self._value(f"{path}()", value(), depth + 1)

    def _proxy_object(self, path: str, value: Any, depth: int) -> None:  # noqa: ARG002
        self._opaque(path, "weakref.proxy", "weakref.proxy")

    def _default_map(self, path: str, value: Any, depth: int) -> None:
        self._map_members(path, value, "defaultdict", dict.items(value), depth)
        self._value(f"{path}.default_factory", value.default_factory, depth + 1)

    def _proxy(self, path: str, value: Any, depth: int) -> None:
        held = gc.get_referents(value)
        if held:
            self._value(path, held[0], depth + 1)
        else:
            self._opaque(path, "mappingproxy", "mappingproxy")

    def _map_members(self, path: str, value: Any, tag: str, items: Iterable[tuple[Any, Any]], depth: int) -> None:
        # Pairs of a large map take longer to be made than all else here takes.
        self._check_size(operator.length_hint(items), 0)
        listed = list(items)
        self._check_size(len(listed), 0)
        named = [(f"[{self._key_text(key)}]", item) for key, item in listed]
        order = [key for key, _ in named]
        named.sort(key=lambda pair: pair[0])
        self._members(path, value, tag, len(named), named, depth)
        if len(order) > 1:
            # Apart from the members: a map that is made from a set has another order every time, and nothing else.
            self._out[path + ORDER_OF] = order_node(order)

    def _key_text(self, key: Any) -> str:
        """A key of a map, which is part of a name: complete, for two keys may differ in their last letter only."""
        if is_scalar(key):
            whole = repr(self._mask.spelled(key)) if type(key) is str else repr(key)
            if len(whole) <= SHOWN:
                return whole
            return f"{whole[: SHOWN - 20]}… {blake2b(self._scalar_bytes(key), digest_size=4).hexdigest()}"
        spelled, text = self._apart(key)
        return f"{text[:40]} {blake2b(spelled, digest_size=4).hexdigest()}"

    def _apart(self, value: Any) -> tuple[bytes, str]:
        """A value spelled by itself, as one piece."""
        out, self._out = self._out, {}
        try:
            self._value("", value, 1)
            whole = joined_nodes(self._out, "")
            text = next(iter(self._out.values())).text if self._out else ""
        finally:
            self._out = out
        return whole, text

    def _set(self, path: str, value: Any, depth: int) -> None:  # noqa: ARG002
        self._check_size(len(value), 0)
        pieces = sorted(self._apart(item) for item in list(value))
        shown = ", ".join(text for _, text in pieces[:5])
        more = ", …" if len(pieces) > 5 else ""
        spelled = b"\0".join(piece for piece, _ in pieces)
        self._emit(path, f"{type(value).__name__} {len(pieces)} ".encode() + spelled, f"{{{shown}{more}}}"[:SHOWN])

    def _members(
        self, path: str, value: object, tag: str, count: int, members: Iterable[tuple[str, Any]], depth: int
    ) -> None:
        """The members of a container; one that holds itself ends where it begins again."""
        self._check_size(count, 0)
        if id(value) in self._inside:
            self._emit(path, b"itself", "itself")
            return
        self._inside.add(id(value))
        try:
            self._enter(path, value, tag, count, members, depth)
        finally:
            self._inside.discard(id(value))

    def _enter(
        self, path: str, value: object, tag: str, count: int, members: Iterable[tuple[str, Any]], depth: int
    ) -> None:
        before = len(self._out)
        text = f"{tag.partition(' ')[0]} of {count}" if count else _EMPTY_TEXTS.get(tag, f"empty {tag}")
        self._emit(path, f"{tag} {'of' if count else 'empty'}".encode(), text)
        listed = list(members) if count <= _MANY_NODES else members
        if count > _MANY_MEMBERS and (flat := self._flat(value, count)) is not None:
            single = {path + suffix: self._flat_member(item) for suffix, item in listed} if count <= _MANY_NODES else {}
            self._collapse(path, before, flat, text, single)
            return
        keyed = count <= _MANY_MEMBERS and tag.startswith(("dict", "OrderedDict"))
        begins = []
        for suffix, item in listed:
            begins.append((path + suffix, len(self._out)))
            spell = self._bounded if keyed else self._value
            spell(path + suffix, item, depth + 1)
        if count > _MANY_MEMBERS or len(self._out) - before > _MANY_NODES:
            single = self._single_members(begins) if count <= _MANY_NODES else {}
            self._collapse(path, before, b"", text, single)

    def _flat_member(self, item: Any) -> TakenNode:
        return TakenNode(MEMBER, self._scalar_bytes(item), self._scalar_text(item))

    def _single_members(self, begins: list[tuple[str, int]]) -> dict[str, TakenNode]:
        """Each member of a container as one node, so that one that is another at every import hides no other."""
        emitted = list(self._out.items())
        ends = [*(begin for _, begin in begins[1:]), len(emitted)]
        found = {}
        for (name, begin), end in zip(begins, ends, strict=True):
            nodes = {key: node for key, node in emitted[begin:end] if node.kind != MEMBER}
            first = next(iter(nodes.values()), None)
            if first is not None and first.kind != OPAQUE:
                whole = first.spelled if len(nodes) == 1 else joined_nodes(nodes, name)
                found[name] = TakenNode(MEMBER, whole, first.text)
        return found

    def _flat(self, value: object, count: int) -> bytes | None:
        """A long list or map of nothing but numbers and texts, at once; None where there is anything else in it."""
        if type(value) not in {list, tuple, dict}:
            return None
        items: list[Any] = list(value)  # type: ignore[call-overload]
        if type(value) is dict:
            items = [*items, *value.values()]
        if not set(map(id, map(type, items))) <= _FLAT:
            return None
        texts = [item for item in items if type(item) is str]
        self._check_size(0, sum(map(len, texts)))
        if self._mask.changes_any(texts):
            return None
        if type(value) is dict:
            items = sorted(value.items(), key=lambda pair: (type(pair[0]).__name__, str(pair[0])))
        # Version 2 says nothing of which objects are the same, or interned.
        whole = marshal.dumps(items, 2)
        self._spend(count, len(whole))
        return whole

    def _collapse(self, path: str, before: int, flat: bytes, text: str, members: dict[str, TakenNode]) -> None:
        """Puts what was emitted since then into one node, and its members beside it; what is opaque keeps its own."""
        keys = list(self._out)[before:]
        taken = {key: self._out.pop(key) for key in keys}
        joined = joined_nodes({key: node for key, node in taken.items() if node.kind != MEMBER}, path)
        self._out[path] = TakenNode(VALUE, b"many " + blake2b(joined + flat, digest_size=16).digest(), text)
        if len(members) <= self._single:
            self._single -= len(members)
            self._out |= members
        self._out |= {key: node for key, node in taken.items() if node.kind == OPAQUE}
