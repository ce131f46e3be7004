"""Which members of a class are a person's doing, and which follow from the rest or are Python's."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType

from holdfast.tasks.source.values.definition_parts import module_of_code
from holdfast.tasks.source.values.installed_packages import is_own_file
from holdfast.tasks.source.values.type_parts import issubclass_of, type_dict, type_label

_CLASS_INTERNALS = frozenset(
    {"_abc_impl", "_member_names_", "_member_map_", "_value2member_map_", "_unhashable_values_", "_hashable_values_"}
    | {"_use_args_", "_member_type_", "_value_repr_", "_new_member_", "_generate_next_value_", "_is_protocol"}
    | {"_is_runtime_protocol", "_unhashable_values_map_"}
)
_CLASS_DUNDERS = frozenset(
    {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__", "__slots__"}
    | {"__annotate_func__", "__annotations_cache__", "__static_attributes__", "__firstlineno__"}
    | {"__parameters__", "__orig_bases__", "__abstractmethods__", "__dataclass_fields__", "__dataclass_params__"}
    | {"__hash__", "__type_params__", "__struct_config__", "__struct_encode_fields__", "__signature__", "__total__"}
    | {"__required_keys__", "__optional_keys__", "__readonly_keys__", "__mutable_keys__", "__protocol_attrs__"}
    | {"__non_callable_proto_members__", "__callable_proto_members_only__", "__attrs_attrs__", "__attrs_own_setattr__"}
    | {"__attrs_props__", "__class_vars__", "__private_attributes__", "__fields__"}
)
"""What Python and the makers of classes keep in a class: it follows from the rest, or changes nothing."""


def declares_something(declared: object) -> bool:
    """Whether a class declares something; where it does not, Python has nothing there, or something empty."""
    if declared is None or type(declared) is GetSetDescriptorType or type(declared) is MemberDescriptorType:
        return False
    is_container = type(declared) is dict or type(declared) is tuple or type(declared) is frozenset
    return bool(declared) if is_container else True


def counts_in_class(owner: type, name: str, item: object) -> bool:
    """Whether a member of a class is a person's doing, and not Python's."""
    if type(item) is MemberDescriptorType or type(item) is GetSetDescriptorType or name in _CLASS_INTERNALS:
        return False
    if type_label(type(item)) == "collections._tuplegetter":
        # A field of a named tuple, whose names are in `_fields`.
        return False
    if issubclass_of(owner, enum.Enum) and name in type_dict(owner)["_member_map_"]:
        return False
    function = item.__func__ if type(item) is staticmethod or type(item) is classmethod else item
    if type(function) is FunctionType:
        return not _is_generated(owner, function) and not _is_added_by_maker(name, function)
    return name not in _CLASS_DUNDERS and not name.startswith("__pydantic")


def registered_classes(owner: type) -> list[type]:
    """The classes that were registered with an abstract class; where Python keeps none of them, there are none."""
    try:
        references = _abc._get_dump(owner)[0]  # noqa: SLF001 - they are kept nowhere else
    except (AttributeError, TypeError):
        return []
    return [found for reference in references if (found := reference()) is not None]


def _is_added_by_maker(name: str, item: FunctionType) -> bool:
    """Whether a method is what the maker of a class gives to each: those of `Protocol`, and `__replace__` of fields.

    They are others in another version of Python.
    """
    module = module_of_code(item)
    return (name.startswith("__") and module == "typing") or (
        name == "__replace__" and not is_own_file(item.__code__.co_filename)
    )


def _is_generated(owner: type, item: FunctionType) -> bool:
    """Whether a method was written by a decorator from the fields of its class."""
    filename = item.__code__.co_filename
    if filename.startswith("<attrs generated"):
        return True
    members = type_dict(owner)
    made = "__dataclass_fields__" in members or "_field_defaults" in members or issubclass_of(owner, enum.Enum)
    return made and (filename == "<string>" or not is_own_file(filename))
