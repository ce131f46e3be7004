"""Arrays of numpy: everything that code can see of one beside its numbers.

What most arrays do not have (names of fields, a mask, another order in memory) is added only where there is some, so
that the spelling of a plain array stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from holdfast.tasks.source.values.type_parts import type_dict, type_label, type_module, type_mro, type_qualname

_MASK_PARTS = ("_mask", "_hardmask", "_optinfo")


def array_base(found: type) -> type | None:
    """The class of numpy that has the content of an object, if there is one."""
    names = {"ndarray", "generic"}
    return next(
        (base for base in type_mro(found) if type_module(base) == "numpy" and type_qualname(base) in names), None
    )


def array_marks(value: Any, found: type, base: type) -> str:
    """What an array is beside its type of number, its shape and its bytes; empty for a plain one."""
    dtype = type_dict(base)["dtype"].__get__(value)
    marks = [] if dtype.names is None and not dtype.hasobject else [repr(dtype)]
    if type_qualname(base) == "ndarray":
        kind = _numpy_class(found)
        marks += [] if kind is base else [type_label(kind)]
        marks += _memory_marks(value, type_dict(base))
    return "".join(f"{mark} " for mark in marks)


def _numpy_class(found: type) -> type:
    """The class of numpy that an object is of, or that a person's own class is derived from: `matrix`, `recarray`."""
    return next(base for base in type_mro(found) if type_module(base).partition(".")[0] == "numpy")


def _memory_marks(value: Any, parts: Mapping[str, Any]) -> list[str]:
    """The order of the axes in memory, which `ravel("K")` and `flags` show, and whether it may be written to."""
    flags, strides = parts["flags"].__get__(value), parts["strides"].__get__(value)
    axes = sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))
    is_plain = flags.c_contiguous or axes == sorted(axes)
    return [*([] if is_plain else [f"axes {axes}"]), *([] if flags.writeable else ["read-only"])]


def array_parts(value: Any, found: type) -> list[tuple[str, Any]]:
    """What an array has as attributes: the metadata of its type, and the parts of a masked one."""
    metadata = value.dtype.metadata
    held = [] if not metadata else [(".dtype.metadata", dict(metadata))]
    if not any(type_label(base) == "numpy.ma.MaskedArray" or _is_masked(base) for base in type_mro(found)):
        return held
    given = object.__getattribute__(value, "__dict__")
    return [*held, *((f".{name}", given[name]) for name in _MASK_PARTS if name in given), _fill_value(value, given)]


def _is_masked(base: type) -> bool:
    return type_qualname(base) == "MaskedArray" and type_module(base).partition(".")[0] == "numpy"


def _fill_value(value: Any, given: Mapping[str, Any]) -> tuple[str, Any]:
    """The value that stands for what is masked; numpy works it out when it is first asked for."""
    fill = given.get("_fill_value")
    if fill is None:
        fill = sys.modules["numpy"].ma.MaskedArray([], dtype=value.dtype).fill_value
    return ".fill_value", repr(fill.tolist())
