"""What an object holds beside its attributes, where its class is derived from a type that is written in C.

The content is read by the type's own methods, never by those of the derived class. Of a type that is not known here
nothing can be read: its part of the object cannot be compared.
"""

from __future__ import annotations

import array
import collections
import datetime as dt
import functools
import pathlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.tasks.source.values.type_parts import adds_state, type_dict, type_label, type_mro

Content = Callable[[Any], Any]


class MapPairs(list[tuple[Any, Any]]):
    """The keys and values of a map, in its order; no key is asked for its hash."""


def ordered_pairs(value: Any) -> MapPairs:
    """Those of an ordered map, which keeps its order beside that of the plain map."""
    held = {id(key): item for key, item in dict.items(value)}
    return MapPairs((key, held[id(key)]) for key in collections.OrderedDict.__iter__(value))


def _queue_content(value: Any) -> Any:
    return [*collections.deque.__iter__(value), collections.deque.maxlen.__get__(value)]


def _moment_content(value: Any) -> Any:
    return _in_zone(dt.datetime.isoformat(dt.datetime.replace(value, tzinfo=None)), dt.datetime.tzinfo.__get__(value))


def _time_content(value: Any) -> Any:
    return _in_zone(dt.time.isoformat(dt.time.replace(value, tzinfo=None)), dt.time.tzinfo.__get__(value))


def _in_zone(text: str, zone: Any) -> Any:
    """A moment, with its time zone where it has one."""
    return text if zone is None else (text, zone)


_CONTENTS: dict[type, Content] = {
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
    bool: bool,
    int: lambda value: int.__add__(value, 0),
    float: float.__float__,
    complex: lambda value: complex.__add__(value, 0j),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    collections.OrderedDict: ordered_pairs,
    dict: lambda value: MapPairs(dict.items(value)),
    # Of a set, a set takes over members with their hashes: none is asked for its own.
    set: set,
    frozenset: set,
    collections.deque: _queue_content,
    array.array: lambda value: f"{value.typecode} {array.array.tobytes(value).hex()}",
    dt.datetime: _moment_content,
    dt.date: dt.date.isoformat,
    dt.time: _time_content,
    dt.timedelta: dt.timedelta.__repr__,
    pathlib.PurePath: pathlib.PurePath.__str__,
    BaseException: BaseException.args.__get__,  # type: ignore[attr-defined]
}
_CONTENTS_IF_LOADED: dict[str, str] = {
    "decimal.Decimal": "__str__",
    "random.Random": "getstate",
    "zoneinfo.ZoneInfo": "__str__",
    "struct.Struct": "format",
}
"""The same for types in modules that take time to load, with the member that gives it."""
_STATE_IN_ATTRIBUTES = frozenset(
    {object, type, types.SimpleNamespace, types.ModuleType, functools.partial, property, staticmethod, classmethod}
    | {collections.defaultdict}
)
"""Types written in C whose objects hold nothing but what can be read as attributes."""


def exception_cause(value: Any) -> Any:
    """What an exception was raised from."""
    return BaseException.__cause__.__get__(value)  # type: ignore[union-attr]


def builtin_content(found: type) -> Content | None:
    """What reads the content of objects of a class; None where its bases hold none, or none that is known."""
    for base in type_mro(found):
        if type(base) is type and base in _CONTENTS:
            return _CONTENTS[base]
        if member := _CONTENTS_IF_LOADED.get(type_label(base)):
            return _reader(type_dict(base)[member])
    return None


def _reader(member: Any) -> Content:
    """A method, or a descriptor of an attribute, of the type itself."""
    reader: Content = member.__get__ if type(member) is types.GetSetDescriptorType else member
    return reader


def unknown_base(found: type) -> type | None:
    """A type written in C that a class is derived from and whose part of an object cannot be read."""
    if builtin_content(found) is not None:
        return None
    return next((base for base in type_mro(found) if _is_unknown(base)), None)


def _is_unknown(base: type) -> bool:
    if type(base) is type and base in _STATE_IN_ATTRIBUTES:
        return False
    # A class statement adds room for attributes only.
    members = type_dict(base)
    return adds_state(base) and "__slots__" not in members and "__dict__" not in members and not has_function(members)


def has_function(members: Mapping[str, Any]) -> bool:
    return any(type(item) is types.FunctionType for item in members.values())


def field_names(found: type) -> tuple[str, ...]:
    """The names of the fields of a named tuple."""
    for base in type_mro(found):
        fields = type_dict(base).get("_fields")
        if fields is not None:
            is_named = type(fields) is tuple and all(type(name) is str for name in fields)
            return fields if is_named and tuple in type_mro(found) else ()
    return ()


def is_path_part(base: type) -> bool:
    """Whether a class keeps the parts of a path, which it remembers as they are asked for."""
    module = sys.modules.get(str(type_dict(base).get("__module__")))
    return base is not object and module is not None and module.__name__.partition(".")[0] == "pathlib"
