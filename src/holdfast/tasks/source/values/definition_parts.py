"""Functions and classes as they are defined: modules, defaults, members and names. None of them is asked anything."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

from holdfast.tasks.source.values.installed_packages import is_of_python, is_own_module
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_module,
    type_mro,
    type_name,
    type_qualname,
)

_FUNCTION_PARTS = ("__code__", "__defaults__", "__kwdefaults__")


def is_defined_by_python(value: FunctionType) -> bool:
    """Whether a function is in Python's library as it is: its defaults may be others in another version of Python."""
    return is_of_python(module_of_code(value)) and "<locals>" not in value.__code__.co_qualname


def defaults_of(value: FunctionType) -> list[tuple[str, Any]]:
    given = value.__defaults__ or ()
    code = value.__code__
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(given) :]
    # Both can be set to anything after the function was made.
    return [*zip(names, given, strict=False), *sorted((value.__kwdefaults__ or {}).items())]


def module_of_code(value: FunctionType) -> str:
    """The module that a function was written in; `functools.wraps` gives it the name of another."""
    return str(value.__globals__.get("__name__") or "")


def is_class(value: object) -> TypeGuard[type]:
    """Whether a value is a class; it is not asked."""
    return issubclass_of(type(value), type)


def members_of(value: ModuleType | type | FunctionType) -> Mapping[str, Any]:
    if type(value) is FunctionType:
        return {**value.__dict__, **{name: getattr(value, name) for name in _FUNCTION_PARTS}}
    return type_dict(value) if is_class(value) else vars(value)


def given_names(value: FunctionType | type) -> list[tuple[str, str, str]]:
    """Each name of a function or class, as it is and as its definition has it."""
    if isinstance(value, FunctionType):
        code = value.__code__
        return [("__name__", value.__name__, code.co_name), ("__qualname__", value.__qualname__, code.co_qualname)]
    return [("__name__", type_name(value), type_qualname(value).rpartition(".")[2])]


def owner_module(value: object) -> str | None:
    """The module of a function or class; None for other things."""
    if type(value) is FunctionType or type(value) is BuiltinFunctionType:
        return str(getattr(value, "__module__", "") or "builtins")
    return type_module(value) if is_class(value) else None


def namespace_of(value: object) -> dict[str, Any] | None:
    """The names of the module that an object's code is from."""
    if type(value) is tuple:
        return next((found for found in map(namespace_of, value) if found is not None), None)
    if type(value) is functools.partial:
        return namespace_of(value.func)
    if type(value) is MethodType:
        return namespace_of(value.__self__ if type(value.__func__) is not FunctionType else value.__func__)
    if type(value) is FunctionType:
        return value.__globals__
    found = value if issubclass_of(type(value), type) else type(value)
    for part in type_mro(found):  # type: ignore[arg-type]
        loaded = sys.modules.get(type_module(part))
        if part is not object and loaded is not None and is_own_module(loaded):
            return vars(loaded)
    methods = (item for item in type_dict(found).values() if type(item) is FunctionType)  # type: ignore[arg-type]
    return next((method.__globals__ for method in methods), None)
