"""Objects: the attributes that they keep, read where Python itself keeps them."""

from __future__ import annotations

import enum
import functools
import types
import typing
import weakref
from hashlib import blake2b
from typing import Any

from holdfast.run.core.records import REMEMBERED
from holdfast.tasks.source.values.installed_packages import is_of_holdfast, is_of_python
from holdfast.tasks.source.values.spelling.array_content import array_base, array_marks, array_parts
from holdfast.tasks.source.values.spelling.builtin_content import (
    builtin_content,
    exception_cause,
    field_names,
    has_function,
    is_path_part,
    unknown_base,
)
from holdfast.tasks.source.values.spelling.container_spelling import ContainerSpelling
from holdfast.tasks.source.values.spelling.node_budget import TooLarge
from holdfast.tasks.source.values.spelling.remembered_results import first_kept
from holdfast.tasks.source.values.spelling.table_content import (
    UNREADABLE,
    ColumnName,
    TableReader,
    package_of,
    table_reader,
)
from holdfast.tasks.source.values.spelling.taken_nodes import (
    is_scalar,
)
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_label,
    type_module,
    type_mro,
    type_qualname,
)

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
_TYPING_PARTS = ("_name", "__origin__", "__args__", "__metadata__")
_OBJECT_INTERNALS = frozenset(
    {"__doc__", "__module__", "__name__", "__qualname__", "__annotations__", "__weakref__", "__orig_class__"}
)
"""What Python, or `functools.update_wrapper`, keeps among the attributes of an object."""


class ObjectSpelling(ContainerSpelling):
    """Spells objects."""

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
        if type_module(found).partition(".")[0] == "numpy" and self._array(path, value, found, depth):
            return
        if (reader := table_reader(found)) is not None and self._table(path, value, reader, depth):
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

    def _array(self, path: str, value: Any, found: type, depth: int) -> bool:
        """An array or a number of numpy, which are as plain as any; False for other things of that package."""
        base = array_base(found)
        if base is None:
            return False
        parts = type_dict(base)
        dtype = parts["dtype"].__get__(value)
        self._sink.package_type(base)
        self._check_size(parts["size"].__get__(value) if dtype.hasobject else 0, parts["nbytes"].__get__(value))
        shape = parts["shape"].__get__(value)
        whole = b"" if dtype.hasobject else parts["tobytes"](value)
        marks = array_marks(value, found, base)
        self._emit(path, f"{type_qualname(base)} {dtype.str} {shape} {marks}".encode() + whole, f"{dtype} {shape}")
        if dtype.hasobject:
            self._value(f"{path}.tolist()", parts["tolist"](value), depth + 1)
        for name, held in array_parts(value, found):
            self._value(f"{path}{name}", held, depth + 1)
        return True

    def _table(self, path: str, value: Any, reader: TableReader, depth: int) -> bool:
        """A table, a column or a value of a package that can be read; False where the package itself cannot."""
        found = type(value)
        self._check_size(*reader.size(value))
        try:
            parts = list(reader.parts(value))
        except UNREADABLE:
            return False
        self._sink.package_type(found)
        tag = f"{package_of(found)}.{type_qualname(found)}"
        if reader.is_random:
            state = blake2b(self._apart(parts[0][1])[0], digest_size=16).digest()
            self._emit(path, b"random " + tag.encode() + b" " + state, f"{tag} with another state")
            return True
        members = [
            (f"[{self._key_text(name.name)}]" if isinstance(name, ColumnName) else name, held) for name, held in parts
        ]
        self._members(path, value, tag, len(members), members, depth)
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
        elif array_base(found) is not None and self._array(f"{path}.content", value, found, depth):
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

    def _remembered(self, path: str, value: Any) -> None:
        """A result that is kept for later, in one piece."""
        nodes, size = self._nodes, self._bytes
        try:
            spelled, text = self._apart(value)
            self._emit(path, b"remembered " + blake2b(spelled, digest_size=16).digest(), text)
        except TooLarge:
            self._nodes, self._bytes = nodes, size
            self._opaque(path, "too large", "too large")


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
