"""Values in one spelling, which is the same in every process: the leaves of the tree.

No code of a person runs while a value is spelled: no `repr`, no property, no `__eq__`. What something is, is asked of
its type, never of the thing itself. A value that cannot be spelled is opaque: it is listed, and what binds it counts.
"""

from __future__ import annotations

import abc
import array
import collections
import contextvars
import functools
import operator
import threading
import types
import typing
import weakref
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.run.core.records import REMEMBERED
from holdfast.tasks.source.values.spelling.builtin_content import (
    MapPairs,
)
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.node_budget import DefinitionSink
from holdfast.tasks.source.values.spelling.object_spelling import ObjectSpelling
from holdfast.tasks.source.values.spelling.printed_types import PRINTED, PRINTED_IF_LOADED, loaded_types
from holdfast.tasks.source.values.spelling.remembered_results import first_remembered
from holdfast.tasks.source.values.spelling.taken_nodes import (
    SCALARS,
    TakenNode,
    shown_text,
)
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_label,
)

MAX_DEPTH = 60
_METHODS_OF_TYPES = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)


class ValueSpelling(ObjectSpelling):
    """Spells values into nodes, one after the other, within the bounds of a task."""

    def __init__(self, sink: DefinitionSink, mask: TextMask) -> None:
        super().__init__(sink, mask)
        self._by_type: dict[type, Callable[[str, Any, int], None]] = {
            **dict.fromkeys(SCALARS, self._scalar),
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
            memoryview: self._view,
            **dict.fromkeys(PRINTED, self._printed),
            **dict.fromkeys(loaded_types(PRINTED_IF_LOADED), self._printed),
            **dict.fromkeys(loaded_types(["random.Random"]), self._random),
        }

    def spell(self, path: str, value: object) -> dict[str, TakenNode]:
        """The nodes of one value; a part of it that is too large is opaque."""
        self._out = {}
        self._bounded(path, value, 0)
        return self._out

    def _value(self, path: str, value: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
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

    def _view(self, path: str, value: memoryview, depth: int) -> None:  # noqa: ARG002
        self._check_size(0, value.nbytes)
        said = f"memoryview {value.format} {value.shape}{' read-only' if value.readonly else ''}"
        self._emit(path, f"{said} ".encode() + value.tobytes(), said)

    def _printed(self, path: str, value: Any, depth: int) -> None:  # noqa: ARG002
        if type(value) in {bytearray, array.array, msgspec.Raw}:
            self._check_size(0, memoryview(value).nbytes)
        spelled = self._mask.spelled(PRINTED.get(type(value), str)(value))
        name = type(value).__name__.removeprefix("Posix").removeprefix("Windows")
        self._emit(path, f"{name} {spelled}".encode(errors="surrogatepass"), shown_text(spelled, f"{name} "))
