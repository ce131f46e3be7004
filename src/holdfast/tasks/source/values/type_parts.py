"""Classes as they are defined: no metaclass of a person is asked anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.tasks.source.values.installed_packages import is_of_holdfast, is_of_python

_type_dict: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_type_mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_type_qualname: Callable[[type], str] = type.__dict__["__qualname__"].__get__
_type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
_type_base: Callable[[type], type | None] = type.__dict__["__base__"].__get__
_type_basicsize: Callable[[type], int] = type.__dict__["__basicsize__"].__get__


def type_dict(found: type) -> Mapping[str, Any]:
    """What a class itself defines, whatever its metaclass says."""
    return _type_dict(found)


def type_mro(found: type) -> tuple[type, ...]:
    return _type_mro(found)


def adds_state(found: type) -> bool:
    """Whether objects of a class have more room in them than those of the class it is derived from."""
    base = _type_base(found)
    return base is not None and _type_basicsize(found) > _type_basicsize(base)


def type_module(found: type) -> str:
    """The module of a class, as its definition has it."""
    module = _type_dict(found).get("__module__")
    if isinstance(module, str):
        return module
    # Types that are written in C have it in their name.
    return str(type.__dict__["__module__"].__get__(found)) if type(found) is type else "builtins"


def type_name(found: type) -> str:
    return _type_name(found)


def type_qualname(found: type) -> str:
    return _type_qualname(found)


def type_label(found: type) -> str:
    """How a class is named in a tree: without the module of a person's file, which may be renamed or moved."""
    module, name = type_module(found), _type_qualname(found)
    if is_of_holdfast(module):
        return f"holdfast.{name}"
    if is_of_python(module):
        # In which part of a module something is, and whether that is written in C, differs between versions of Python.
        module = module.partition(".")[0].lstrip("_")
    return name if module == "builtins" else f"{module}.{name}"


def issubclass_of(found: type, base: type) -> bool:
    """Whether a class has another among those it is made of; no metaclass is asked."""
    return any(part is base for part in _type_mro(found))
