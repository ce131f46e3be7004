"""Values in one spelling, which is the same in every process: the leaves of the tree.

No code of a person runs while a value is spelled: no `repr`, no property, no `__eq__`. What something is, is asked of
its type, never of the thing itself. A value that cannot be spelled is opaque: it is listed, and what binds it counts.
"""

from __future__ import annotations

import abc
import array
import collections
import contextvars
import datetime as dt
import enum
import functools
import gc
import itertools
import marshal
import operator
import pathlib
import re
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.run.core.records import OPAQUE, ORDER_OF, REMEMBERED, VALUE
from holdfast.tasks.source.values.installed_packages import is_of_holdfast, is_of_python
from holdfast.tasks.source.values.spelling.builtin_content import (
    MapPairs,
    builtin_content,
    exception_cause,
    field_names,
    has_function,
    is_path_part,
    ordered_pairs,
    unknown_base,
)
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.remembered_results import first_kept, first_remembered
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_label,
    type_module,
    type_mro,
    type_qualname,
)

MAX_NODES, MAX_BYTES = 20_000, 1 << 20
"""What the values of a task may come to; beyond that they are opaque."""
_MAX_WORK = 3 * MAX_NODES
_MAX_DEPTH = 60
_SHOWN = 80
_MANY_MEMBERS = 40
"""A container of more is one node of the tree."""
_MANY_NODES = 256
_FEW_NODES = 500
"""How many nodes each further value may have, once much work was spent on values that are too large."""


class TakenNode(NamedTuple):
    """One entry of a tree, before it is salted."""

    kind: str
    spelled: bytes
    text: str


class _TooLarge(Exception):  # noqa: N818 - no error: what the value is
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


_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})
_FLAT = frozenset(map(id, _SCALARS - {bytes}))
_BY_TYPE_ONLY = frozenset(
    {"_thread", "threading", "logging", "concurrent", "multiprocessing", "weakref", "_weakref", "_weakrefset"}
    | {"_asyncio", "_abc", "abc", "select", "selectors"}
)
"""Modules of Python whose objects hold no setting that an answer depends on."""
_LOCKS = frozenset({"Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore", "Barrier"})
"""Of asyncio, those that hold none either."""
_LOGGER_PARTS = frozenset(
    {"name", "level", "parent", "propagate", "handlers", "disabled", "filters", "_cache", "manager", "root"}
)
"""What every logger has; anything else is a person's own."""
_METHODS_OF_TYPES = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
_TYPING_PARTS = ("_name", "__origin__", "__args__", "__metadata__")
_OBJECT_INTERNALS = frozenset(
    {"__doc__", "__module__", "__name__", "__qualname__", "__annotations__", "__weakref__", "__orig_class__"}
)
"""What Python, or `functools.update_wrapper`, keeps among the attributes of an object."""


class ValueSpelling:
    """Spells values into nodes, one after the other, within the bounds of a task."""

    def __init__(self, sink: DefinitionSink, mask: TextMask) -> None:
        self._sink, self._mask = sink, mask
        self._nodes, self._bytes, self._work = MAX_NODES, MAX_BYTES, 0
        self._out: dict[str, TakenNode] = {}
        self._seen: dict[int, str] = {}
        self._kept: list[object] = []
        self._inside: set[int] = set()
        self.samples: dict[str, tuple[int, ...]] = {}
        """Of what is too large, which objects some of its members are: within this process, that tells a change."""
        self.attribute_orders: dict[str, tuple[list[str], bool]] = {}
        """Of objects, their attributes in the order in which they got them; and whether `str` shows that order."""
        self._by_type: dict[type, Callable[[str, Any, int], None]] = {
            **dict.fromkeys(_SCALARS, self._scalar),
            list: self._list,
            tuple: self._list,
            collections.deque: self._deque,
            dict: self._map,
            collections.OrderedDict: self._ordered_map,
            collections.Counter: self._map,
            collections.defaultdict: self._default_map,
            MapPairs: self._pairs,
            types.MappingProxyType: self._proxy,
            set: self._set,
            frozenset: self._set,
            types.FunctionType: self._function,
            types.MethodType: self._method,
            types.BuiltinFunctionType: self._builtin,
            **dict.fromkeys(_METHODS_OF_TYPES, self._method_of_type),
            functools.partial: self._partial,
            types.ModuleType: self._module,
            threading.local: self._thread_values,
            **dict.fromkeys((weakref.ReferenceType, weakref.WeakMethod), self._weak_reference),
            **dict.fromkeys((weakref.WeakValueDictionary, weakref.WeakKeyDictionary), self._weak_map),
            weakref.WeakSet: self._set,
            # What one stands for is not to be had without asking it.
            **dict.fromkeys((weakref.ProxyType, weakref.CallableProxyType), self._proxy_object),
            contextvars.ContextVar: self._context_variable,
            **dict.fromkeys((property, staticmethod, classmethod, functools.cached_property), self._descriptor),
            type(functools.lru_cache(lambda: None)): self._cached_function,
            **dict.fromkeys((operator.itemgetter, operator.attrgetter, operator.methodcaller), self._getter),
            **dict.fromkeys((types.GenericAlias, types.UnionType), self._alias),
            typing.NewType: self._new_type,
            **dict.fromkeys(_PRINTED, self._printed),
            **dict.fromkeys(_loaded_types(_PRINTED_IF_LOADED), self._printed),
            **dict.fromkeys(_loaded_types(["random.Random"]), self._random),
        }

    def spell(self, path: str, value: object) -> dict[str, TakenNode]:
        """The nodes of one value; a part of it that is too large is opaque."""
        self._out = {}
        self._bounded(path, value, 0)
        return self._out

    # Bounds.

    def _bounded(self, path: str, value: object, depth: int) -> None:
        """A value that has a name of its own: where it alone takes most of the bound, it is opaque."""
        before, nodes, size = len(self._out), self._nodes, self._bytes
        try:
            self._value(path, value, depth)
        except _TooLarge as found:
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
            raise _TooLarge(alone=nodes > MAX_NODES or size > MAX_BYTES)

    def _spend(self, nodes: int, size: int) -> None:
        self._nodes -= nodes
        self._bytes -= size
        if self._nodes < 0 or self._bytes < 0:
            raise _TooLarge

    def _emit(self, path: str, spelled: bytes, text: str, kind: str = VALUE) -> None:
        self._spend(1, len(spelled))
        key = path
        number = 2
        while key in self._out:
            key, number = f"{path}#{number}", number + 1
        self._out[key] = TakenNode(kind, spelled, text)

    def _opaque(self, path: str, spelled: str, text: str) -> None:
        self._out[path] = TakenNode(OPAQUE, spelled.encode(), text)

    # What a value is.

    def _value(self, path: str, value: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            self._opaque(path, "too deep", "nested too deeply")
            return
        found = type(value)
        # A metaclass may have any notion of what equals what; the types that are looked up here have none.
        by_type = self._by_type.get(found) if type(found) is type or type(found) is abc.ABCMeta else None
        if by_type is not None:
            by_type(path, value, depth)
        elif issubclass_of(found, type):
            self._class(path, value, depth)
        else:
            self._object(path, value, found, depth)

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
        if found is int and value.bit_length() > 4 * _SHOWN:
            return f"a number of {value.bit_length()} bits"
        if found is str:
            # A text is cut before it is spelled: it may be long.
            return "" if self._mask.is_from_environment(value) else shown_text(self._mask.spelled(value))
        if found is bytes:
            return shown_text(self._mask.spelled(value.decode("latin-1")), "b")
        return repr(value)

    # Containers.

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
            if len(whole) <= _SHOWN:
                return whole
            return f"{whole[: _SHOWN - 20]}… {blake2b(self._scalar_bytes(key), digest_size=4).hexdigest()}"
        spelled, text = self._apart(key)
        return f"{text[:40]} {blake2b(spelled, digest_size=4).hexdigest()}"

    def _apart(self, value: Any) -> tuple[bytes, str]:
        """A value spelled by itself, as one piece."""
        out, self._out = self._out, {}
        try:
            self._value("", value, 1)
            whole = _joined(self._out, "")
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
        self._emit(path, f"{type(value).__name__} {len(pieces)} ".encode() + spelled, f"{{{shown}{more}}}"[:_SHOWN])

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
        if count > _MANY_MEMBERS and (flat := self._flat(value, count)) is not None:
            self._collapse(path, before, flat, text)
            return
        keyed = count <= _MANY_MEMBERS and tag.startswith(("dict", "OrderedDict"))
        for suffix, item in members:
            spell = self._bounded if keyed else self._value
            spell(path + suffix, item, depth + 1)
        if count > _MANY_MEMBERS or len(self._out) - before > _MANY_NODES:
            self._collapse(path, before, b"", text)

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

    def _collapse(self, path: str, before: int, flat: bytes, text: str) -> None:
        """Puts what was emitted since then into one node; what is opaque keeps its own."""
        keys = list(self._out)[before:]
        taken = {key: self._out.pop(key) for key in keys}
        whole = blake2b(_joined(taken, path) + flat, digest_size=16).digest()
        self._out[path] = TakenNode(VALUE, b"many " + whole, text)
        self._out |= {key: node for key, node in taken.items() if node.kind == OPAQUE}

    # Code.

    def _function(self, path: str, value: types.FunctionType, depth: int) -> None:  # noqa: ARG002
        self._add(path, self._sink.function(path, value))

    def _class(self, path: str, value: type, depth: int) -> None:  # noqa: ARG002
        self._add(path, self._sink.class_(path, value))

    def _module(self, path: str, value: types.ModuleType, depth: int) -> None:  # noqa: ARG002
        self._add(path, self._sink.module(path, value))

    def _add(self, path: str, node: TakenNode) -> None:
        self._emit(path, node.spelled, node.text, node.kind)

    def _method(self, path: str, value: types.MethodType, depth: int) -> None:
        self._value(path, value.__func__, depth + 1)
        self._value(f"{path}.__self__", value.__self__, depth + 1)

    def _builtin(self, path: str, value: Any, depth: int) -> None:
        home = value.__self__
        qualified = f"builtin {value.__qualname__}"
        if home is None or type(home) is types.ModuleType:
            qualified = f"builtin {(value.__module__ or '').lstrip('_')}.{value.__qualname__}"
            self._emit(path, qualified.encode(), f"{value.__qualname__}()")
        else:
            self._emit(path, qualified.encode(), f"{value.__qualname__}()")
            self._value(f"{path}.__self__", home, depth + 1)

    def _method_of_type(self, path: str, value: Any, depth: int) -> None:
        """`str.upper`, and `"text".__add__`, which has the text as well."""
        said = f"{type_label(value.__objclass__)}.{value.__name__}"
        self._emit(path, f"method {said}".encode(), f"{said}()")
        if type(value) is types.MethodWrapperType:
            self._value(f"{path}.__self__", value.__self__, depth + 1)

    def _partial(self, path: str, value: Any, depth: int) -> None:
        self._emit(path, b"partial", "partial")
        self._value(f"{path}.func", value.func, depth + 1)
        for number, given in enumerate(value.args):
            self._bounded(f"{path}({number})", given, depth + 1)
        for name, given in sorted(value.keywords.items()):
            self._bounded(f"{path}({name}=)", given, depth + 1)

    def _descriptor(self, path: str, value: Any, depth: int) -> None:
        self._emit(path, type(value).__name__.encode(), type(value).__name__)
        for name in ("fget", "fset", "fdel", "__func__", "func"):
            inner = getattr(value, name, None)
            if inner is not None:
                self._value(f"{path}.{name}", inner, depth + 1)

    def _cached_function(self, path: str, value: Any, depth: int) -> None:
        self._value(path, value.__wrapped__, depth + 1)
        # What it remembers from its import on may be from a file that has changed since; what use has added is a memo.
        for key, result in first_remembered(value):
            self._remembered(f"{path}{REMEMBERED}[{self._key_text(key)}]", result)

    def _remembered(self, path: str, value: Any) -> None:
        """A result that is kept for later, in one piece."""
        nodes, size = self._nodes, self._bytes
        try:
            spelled, text = self._apart(value)
            self._emit(path, b"remembered " + blake2b(spelled, digest_size=16).digest(), text)
        except _TooLarge:
            self._nodes, self._bytes = nodes, size
            self._opaque(path, "too large", "too large")

    def _getter(self, path: str, value: Any, depth: int) -> None:
        self._emit(path, type(value).__name__.encode(), type(value).__name__)
        for number, given in enumerate(value.__reduce__()[1:]):
            self._value(f"{path}({number})", given, depth + 1)

    def _alias(self, path: str, value: Any, depth: int) -> None:
        self._emit(path, type(value).__name__.encode(), type(value).__name__)
        origin = getattr(value, "__origin__", None)
        for number, given in enumerate((origin, *value.__args__)):
            self._value(f"{path}[{number}]", given, depth + 1)

    def _new_type(self, path: str, value: typing.NewType, depth: int) -> None:
        self._emit(path, f"NewType {value.__name__}".encode(), f"NewType {value.__name__}")
        self._value(f"{path}.__supertype__", value.__supertype__, depth + 1)

    def _context_variable(self, path: str, value: contextvars.ContextVar[Any], depth: int) -> None:
        self._emit(path, f"ContextVar {value.name}".encode(), f"ContextVar {value.name}")
        try:
            default = contextvars.Context().run(value.get)
        except LookupError:
            pass
        else:
            self._value(f"{path}.default", default, depth + 1)
        if value in (now := contextvars.copy_context()):
            self._value(f"{path}.value", now[value], depth + 1)

    def _thread_values(self, path: str, value: threading.local, depth: int) -> None:
        self._emit(path, b"local", "threading.local")
        for name, held in sorted(threading.local.__getattribute__(value, "__dict__").items()):
            self._bounded(f"{path}.{name}", held, depth + 1)

    def _random(self, path: str, value: Any, depth: int) -> None:  # noqa: ARG002
        state = blake2b(repr(value.getstate()).encode(), digest_size=16).digest()
        self._emit(path, b"random " + state, "random.Random with another state")

    def _printed(self, path: str, value: Any, depth: int) -> None:  # noqa: ARG002
        if type(value) in {bytearray, array.array, msgspec.Raw}:
            self._check_size(0, memoryview(value).nbytes)
        spelled = self._mask.spelled(_PRINTED.get(type(value), str)(value))
        name = type(value).__name__.removeprefix("Posix").removeprefix("Windows")
        self._emit(path, f"{name} {spelled}".encode(errors="surrogatepass"), shown_text(spelled, f"{name} "))

    # Objects.

    def _object(self, path: str, value: Any, found: type, depth: int) -> None:
        if id(value) in self._seen:
            self._emit(path, f"same as {self._seen[id(value)]}".encode(), f"same as {self._seen[id(value)]}")
            return
        if found is object or _is_leaf_of_python(found):
            # Of a logger, its name counts as well.
            is_logger = type_label(found) == "logging.Logger"
            name = object.__getattribute__(value, "name") if is_logger else ""
            self._emit(path, f"object {type_label(found)} {name}".encode(), type_label(found))
            for added, held in self._attributes(value, found) if is_logger else ():
                if added not in _LOGGER_PARTS:
                    self._bounded(f"{path}.{added}", held, depth + 1)
            return
        if issubclass_of(found, typing._SpecialForm):  # noqa: SLF001 - it has no other name
            # Their classes are others in every version of Python.
            name = object.__getattribute__(value, "_name")
            self._emit(path, f"typing.{name}".encode(), f"typing.{name}")
            return
        if type_module(found).partition(".")[0] == "numpy" and self._array(path, value, found):
            return
        if not self._is_spelled(found):
            self._sink.package_type(found)
            self._opaque(path, type_label(found), type_label(found))
            return
        self._seen[id(value)] = path
        self._kept.append(value)
        self._members_of_object(path, value, found, depth)

    def _is_spelled(self, found: type) -> bool:
        """Whether objects of a class are spelled by what they hold."""
        if self._sink.is_own(found) or is_of_holdfast(type_module(found)):
            return True
        return issubclass_of(found, enum.Enum) or _is_plain_python(found) or builtin_content(found) is not None

    def _array(self, path: str, value: Any, found: type) -> bool:
        """An array or a number of numpy, which are as plain as any; False for other things of that package."""
        base = _array_base(found)
        if base is None:
            return False
        parts = type_dict(base)
        dtype = parts["dtype"].__get__(value)
        if dtype.hasobject:
            return False
        self._sink.package_type(base)
        self._check_size(0, parts["nbytes"].__get__(value))
        shape, whole = parts["shape"].__get__(value), parts["tobytes"](value)
        self._emit(path, f"{type_qualname(base)} {dtype.str} {shape} ".encode() + whole, f"{dtype} {shape}")
        return True

    def _members_of_object(self, path: str, value: Any, found: type, depth: int) -> None:
        label = self._sink.class_(path, found)
        if issubclass_of(found, enum.Enum):
            name = str(object.__getattribute__(value, "_name_"))
            self._emit(path, b"member " + label.spelled + f" {name}".encode(), f"{type_qualname(found)}.{name}")
            self._value(f"{path}.value", object.__getattribute__(value, "_value_"), depth + 1)
            return
        self._emit(path, b"object " + label.spelled, f"{type_qualname(found)} object")
        self._content(path, value, found, depth)
        attributes = self._attributes(value, found)
        if len(attributes) > 1:
            given = _held_by_object(value, found)[0]
            names = {name for name, _ in attributes}
            self.attribute_orders[path] = [name for name in given if name in names], found is types.SimpleNamespace
        for name, held in attributes:
            self._bounded(f"{path}.{name}", held, depth + 1)
        kept, cached = _held_by_object(value, found)
        for name in first_kept(value, cached & kept.keys()) if cached else ():
            self._remembered(f"{path}.{name}{REMEMBERED}", kept[name])

    def _content(self, path: str, value: Any, found: type, depth: int) -> None:
        """What the object holds as one of a type that is written in C."""
        if fields := field_names(found):
            for name, item in zip(fields, tuple.__iter__(value), strict=True):
                self._bounded(f"{path}.{name}", item, depth + 1)
        elif (content := builtin_content(found)) is not None:
            self._value(f"{path}.content", content(value), depth + 1)
            if issubclass_of(found, BaseException) and (cause := exception_cause(value)) is not None:
                self._value(f"{path}.__cause__", cause, depth + 1)
        elif _array_base(found) is not None and self._array(f"{path}.content", value, found):
            return
        elif (base := unknown_base(found)) is not None and self._sink.is_own(found):
            self._sink.package_type(base)
            self._opaque(f"{path}.content", type_label(base), type_label(base))

    def _attributes(self, value: Any, found: type) -> list[tuple[str, Any]]:
        """What an object holds, by name; values that Python remembers for a property are none of it."""
        held, cached = _held_by_object(value, found)
        internal = cached | _OBJECT_INTERNALS
        names = [name for name in held if name not in internal and not name.startswith("__pydantic")]
        if type_module(found) == "typing":
            names = [name for name in names if name in _TYPING_PARTS]
        elif is_of_python(type_module(found)) and not self._sink.is_own(found):
            names = [name for name in names if not _is_of_version(name, held[name])]
        if is_of_holdfast(type_module(found)):
            # What a later version adds to a class of ours changes nothing where it is not used.
            defaults = _defaults_of_ours(found)
            names = [
                name for name in names if not name.startswith("_") and not _is_default(held[name], defaults.get(name))
            ]
        return [(name, held[name]) for name in sorted(names)]


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


def _is_of_version(name: str, value: Any) -> bool:
    """Whether an attribute of an object of Python's library is one that other versions of Python do not have."""
    return name in _PARTS_OF_VERSIONS or (name.startswith("_") and id(type(value)) in _CONTAINERS and not value)


_CONTAINERS = frozenset(map(id, (list, tuple, dict, set, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)))
_PARTS_OF_VERSIONS = frozenset(
    {"_delete", "_prefixes", "_comment_prefixes", "_inline_comment_prefixes", "_allow_unnamed_section"}
    | {"is_shutdown", "suggest_on_error", "color", "_method_cache"}
)
"""Of temporary directories, queues and parsers, what has no effect on what they give once they were made."""


def _held_by_object(value: Any, found: type) -> tuple[dict[str, Any], set[str]]:
    """The attributes of an object, read where Python itself keeps them; and the names of its cached properties."""
    held: dict[str, Any] = {}
    cached: set[str] = set()
    for part in reversed(type_mro(found)):
        for name, item in () if is_path_part(part) else type_dict(part).items():
            if name == "__dict__" and type(item) in _DICT_DESCRIPTORS:
                held.update((key, inner) for key, inner in item.__get__(value).items() if type(key) is str)
            elif type(item) is types.MemberDescriptorType:
                try:
                    held[name] = item.__get__(value)
                except AttributeError:
                    continue
            elif type(item) is functools.cached_property:
                cached.add(name)
    return held, cached


_DICT_DESCRIPTORS = frozenset({types.GetSetDescriptorType, types.MemberDescriptorType})


def is_scalar(value: object) -> bool:
    """Whether a value is exactly a number, a text, bytes or nothing."""
    return type(type(value)) is type and type(value) in _SCALARS


def shown_text(text: str, before: str = "") -> str:
    """A text as a message shows it: in one line, and cut."""
    whole = before + repr(text[: 2 * _SHOWN])
    return shown_line(whole) if len(text) <= 2 * _SHOWN else f"{whole[: _SHOWN - 1]}…"


def shown_line(whole: str) -> str:
    """As much of a line as is shown."""
    return whole if len(whole) <= _SHOWN else f"{whole[: _SHOWN - 1]}…"


def _joined(nodes: Mapping[str, TakenNode], path: str) -> bytes:
    parts = (
        f"{key.removeprefix(path)} {node.kind} {len(node.spelled)} ".encode(errors="surrogatepass") + node.spelled
        for key, node in nodes.items()
    )
    return b"\0".join(parts)


_EMPTY_TEXTS = {"list": "[]", "tuple": "()", "dict": "{}"}


def _pattern_text(value: re.Pattern[Any]) -> str:
    return f"{value.pattern!r} {value.flags}"


def _moment_text(value: Any) -> str:
    """A date or a time; a time zone of a person's own class is not asked anything."""
    zone = value.tzinfo
    known = type(zone) is dt.timezone or type_module(type(zone)) == "zoneinfo"
    said = "" if zone is None else str(zone) if known else type_label(type(zone))
    return f"{value.replace(tzinfo=None).isoformat()} {said} {value.fold}".strip()


_PRINTED: dict[type, Callable[[Any], str]] = {
    range: str,
    **dict.fromkeys((dt.date, dt.timedelta, dt.timezone, type(...), type(NotImplemented)), repr),
    **dict.fromkeys((dt.datetime, dt.time), _moment_text),
    **dict.fromkeys((pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath), str),
    re.Pattern: _pattern_text,
    **dict.fromkeys((bytearray, msgspec.Raw), lambda value: bytes(value).decode("latin-1")),
    array.array: lambda value: f"{value.typecode} {value.tobytes().hex()}",
}
"""Types of Python whose own spelling is complete, and the same everywhere."""
_PRINTED_IF_LOADED = ("decimal.Decimal", "fractions.Fraction", "uuid.UUID", "zoneinfo.ZoneInfo")
"""Such types in modules that take time to load: without the module there is no such value."""


def _loaded_types(names: Iterable[str]) -> list[type]:
    """Those of the types whose modules are loaded."""
    parts = (name.rpartition(".") for name in names)
    return [getattr(sys.modules[module], name) for module, _, name in parts if module in sys.modules]


def order_node(order: list[str]) -> TakenNode:
    """The order of keys or names, each in brackets or with a character on either side."""
    whole = blake2b("".join(order).encode(errors="surrogatepass"), digest_size=16).digest()
    return TakenNode(VALUE, b"order " + whole, shown_line(", ".join(key[1:-1] for key in order[:_SHOWN])))


def _array_base(found: type) -> type | None:
    """The class of numpy that has the content of an object, if there is one."""
    names = {"ndarray", "generic"}
    return next(
        (base for base in type_mro(found) if type_module(base) == "numpy" and type_qualname(base) in names), None
    )


def _is_leaf_of_python(found: type) -> bool:
    module = type_module(found)
    if module.partition(".")[0] == "asyncio":
        return type_qualname(found) in _LOCKS
    return is_of_python(module) and module.partition(".")[0] in _BY_TYPE_ONLY


def _is_plain_python(found: type) -> bool:
    """Whether a class of Python's own library is written in Python: what its objects hold can be read."""
    if not is_of_python(type_module(found)):
        return False
    if found is types.SimpleNamespace:
        return True
    parts = [type_dict(part) for part in type_mro(found) if part is not object]
    return has_function(parts[0]) and all(
        "__slots__" in part or "__dict__" in part or has_function(part) for part in parts
    )


def _defaults_of_ours(found: type) -> dict[str, Any]:
    """The defaults of the fields of a class of Holdfast."""
    fields, defaults = getattr(found, "__struct_fields__", ()), getattr(found, "__struct_defaults__", ())
    named = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))
    data = getattr(found, "__dataclass_fields__", {})
    return named | {name: field.default for name, field in data.items()}


def _is_default(value: Any, default: Any) -> bool:
    if type(type(value)) is type and type(value) in {list, dict, set, tuple, frozenset}:
        return not value
    return value is default or (is_scalar(value) and type(value) is type(default) and bool(value == default))
