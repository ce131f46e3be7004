"""Where code comes from: one's own files, Python and Holdfast themselves, or an installed package."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec

_PACKAGE = Path(sys.modules["holdfast"].__path__[0]).resolve()
_INSTALLED_PARTS = {"site-packages", "dist-packages"}


@functools.lru_cache(maxsize=4096)
def is_local(filename: str) -> bool:
    """Whether code in that file is one's own: neither Python's, nor Holdfast's, nor an installed package's."""
    if filename.startswith("<frozen"):
        return False
    path = Path(filename)
    if _INSTALLED_PARTS & set(path.parts):
        return False
    return not any(path.is_relative_to(home) for home in (_PACKAGE, *_python_homes()))


def versioned_name(module: str | None, qualified: str) -> str:
    """How code from elsewhere counts: by its name and, for an installed package, that package's version."""
    name = f"{module}.{qualified}".rstrip(".")
    top = (module or "").partition(".")[0]
    own = top in sys.stdlib_module_names or top in {"", "builtins", "holdfast", "__main__"}
    return name if own else f"{name} {_package_version(top)}"


def imported_module(statement: ast.ImportFrom, names: Mapping[str, Any]) -> ModuleType | None:
    """The loaded module that a `from ... import` took its names from."""
    relative = "." * statement.level + (statement.module or "")
    try:
        return sys.modules.get(importlib.util.resolve_name(relative, names.get("__package__")))
    except ImportError:
        return None


def class_file(found: type) -> str | None:
    """The file of a class whose module has none, as in a notebook: that of one of its methods."""
    methods = (value for value in vars(found).values() if isinstance(value, FunctionType))
    return next((method.__code__.co_filename for method in methods), None)


def object_state(value: object) -> Any:
    """What an object holds, where that determines what it does: structs, data classes, callable objects."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(vars(value)) if callable(value) and hasattr(value, "__dict__") else None


@functools.cache
def _python_homes() -> tuple[Path, ...]:
    """The directories of the standard library; `sysconfig` says the same, and reads Python's build settings first."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binary = Path(sys.base_exec_prefix) / sys.platlibdir / name
    return tuple({Path(os.__file__).parent.resolve(), binary.resolve()})


@functools.cache
def _package_version(top: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - slow to load, and most tasks use no other package

    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        pass
    owners = metadata.packages_distributions().get(top, [])
    return " ".join(sorted(f"{owner} {metadata.version(owner)}" for owner in set(owners)))
