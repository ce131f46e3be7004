"""Classes, and code of others that one's own code has changed."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from types import (
    FunctionType,
    ModuleType,
)
from typing import Any

from holdfast.run.core.records import CLASS, CODE, VALUE
from holdfast.tasks.source.syntax import Chain, find_class
from holdfast.tasks.source.values.binding_statements import (
    patched_attributes,
    statements_binding,
    statements_of,
)
from holdfast.tasks.source.values.class_members import counts_in_class, registered_classes
from holdfast.tasks.source.values.definition_parts import (
    is_class,
    members_of,
    module_of_code,
    namespace_of,
)
from holdfast.tasks.source.values.import_effects import import_effects
from holdfast.tasks.source.values.installed_packages import (
    is_of_holdfast,
    is_of_python,
    is_own_file,
    is_own_module,
)
from holdfast.tasks.source.values.running_source import module_source
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode, shown_line
from holdfast.tasks.source.values.text.code_text import (
    code_text,
)
from holdfast.tasks.source.values.text.scope_names import imports_within
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_label,
    type_module,
    type_qualname,
)
from holdfast.tasks.source.values.walk.code_walk import CodeWalk
from holdfast.tasks.source.values.walk.held_values import (
    ModuleNames,
    full_module_name,
)

_DATACLASS_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
_FIELD_PARTS = ("init", "kw_only", "repr", "compare", "hash")


class ClassWalk(CodeWalk):
    """Follows code into classes, by what is in them at run time."""

    def _class_key(self, value: type) -> str:
        if id(value) not in self._classes:
            self._kept.append(value)
            own = self.is_own(value)
            base = f"{self._class_prefix(value)}{type_qualname(value)}" if own else type_label(value)
            self._classes[id(value)] = key = self._unique(base, value)
            if own:
                self._definitions.append((value, key))
                self._waiting.append(functools.partial(self._define_class, value, key))
            else:
                self._add_package(type_module(value))
        return self._classes[id(value)]

    def _class_prefix(self, value: type) -> str:
        if type_module(value) == "types":
            # From Python 3.12 on, `make_dataclass` gives the module that it was called in.
            return ""
        values = namespace_of(value)
        return self._space(values).prefix if values is not None else ""

    def _define_class(self, value: type, key: str) -> None:
        bases = [self._class_key(base) for base in type.__dict__["__bases__"].__get__(value)]
        meta = [] if is_of_python(type_module(type(value))) else [self._class_key(type(value))]
        spelled = f"class {' '.join(bases)} {' '.join(meta)}"
        space = self._space_of(value)
        self._put(f"class {key}", TakenNode(CODE, spelled.encode(), CLASS), space)
        self._own_classes.append((value, key))
        members, needs_body = type_dict(value), bool(meta and self._is_of_package(type(value)))
        if "__dataclass_fields__" in members:
            self._data_fields(value, key, members)
        for name, member in members["_member_map_"].items() if issubclass_of(value, enum.Enum) else ():
            self._hold_member(value, name, f"{key}.{name}", object.__getattribute__(member, "_value_"))
        for name, item in members.items():
            if counts_in_class(value, name, item):
                self._class_member(value, key, name, item)
        if "_abc_impl" in members:
            self._registered(value, key)
        if needs_body or "__attrs_attrs__" in members:
            self._class_body(value, key)

    def _registered(self, value: type, key: str) -> None:
        """The classes that were registered with an abstract one (`Text.register(str)`): they pass for derived ones."""
        if names := sorted(map(self._class_key, registered_classes(value))):
            node = TakenNode(VALUE, " ".join(names).encode(errors="surrogatepass"), shown_line(", ".join(names)))
            self._put(f"{key} (registered)", node, self._space_of(value))

    def _class_member(self, owner: type, key: str, name: str, item: Any) -> None:
        if self._is_of_package(type(item)):
            self._add_package(type_module(type(item)))
        if (type(item) is staticmethod or type(item) is classmethod) and type(item.__func__) is FunctionType:
            self._put(f"{key}.{name} ", TakenNode(VALUE, type(item).__name__.encode(), type(item).__name__))
            item = item.__func__
        self._hold_member(owner, name, f"{key}.{name}", item)

    def _hold_member(self, owner: type, name: str, path: str, value: object) -> None:
        """A value of a class, which the statements in its body set, and those that change the class later."""
        statements = functools.partial(self._member_statements, owner, name)
        self._hold_value(self._space_of(owner), path, value, statements, owner=owner, kept=False)

    def _member_statements(self, owner: type, name: str) -> list[Any]:
        space = self._space_of(owner)
        source = space.source() if space else None
        node = find_class(source.tree, type_qualname(owner)) if source and source.tree else None
        if source is None or node is None:
            return []
        later = statements_of(source, type_qualname(owner).partition(".")[0])
        return [*statements_binding(node.body, name), *(item for item in later if not isinstance(item, ast.ClassDef))]

    def _is_of_package(self, found: type) -> bool:
        module = type_module(found)
        return not is_of_python(module) and not is_of_holdfast(module) and not self.is_own(found)

    def _data_fields(self, owner: type, key: str, members: Mapping[str, Any]) -> None:
        space = self._space_of(owner)
        fields: dict[str, dataclasses.Field[Any]] = members["__dataclass_fields__"]
        names = " ".join(f"{name} {[getattr(field, part) for part in _FIELD_PARTS]}" for name, field in fields.items())
        self._put(f"{key} (fields)", TakenNode(VALUE, names.encode(), ", ".join(fields)[:80]), space)
        options = {name: getattr(members.get("__dataclass_params__"), name, None) for name in _DATACLASS_OPTIONS}
        text = ", ".join(f"{name}={value}" for name, value in options.items())
        self._put(f"{key} (options)", TakenNode(VALUE, text.encode(), text), space)
        for name, field in fields.items():
            for part in ("default", "default_factory"):
                held = getattr(field, part)
                if held is not dataclasses.MISSING:
                    self._hold_member(owner, name, f"{key}.{name} ({part})", held)

    def _class_body(self, value: type, key: str) -> None:
        """The text of a class whose members a package has made something else of."""
        space = self._space_of(value)
        source = space.source() if space else None
        node = find_class(source.tree, type_qualname(value)) if source and source.tree else None
        if node is not None:
            text = code_text([node], mask=self._mask.without_keys, documented=True)
            self._put(f"class {key} (body)", TakenNode(CODE, text.text.encode(errors="surrogatepass"), CLASS), space)
            self._follow(text, space)

    def _space_of(self, value: type | FunctionType) -> ModuleNames | None:
        values = namespace_of(value)
        return None if values is None else self._space(values)

    def _scan_patches(self, filename: str, values: dict[str, Any]) -> None:
        """What the files of one's own put in the place of something in a package, and the files they import."""
        if filename in self._scanned:
            return
        self._scanned.add(filename)
        if is_own_file(filename) and Path(filename).is_absolute():
            self._files.add(filename)
        source = module_source(filename, values)
        if source is None or source.tree is None:
            return
        for chain in sorted(set(patched_attributes(source))):
            self._patched(chain, values)
        self._effects += [(effect, self._space(values)) for effect in import_effects(source, values)]
        for imported in set(imports_within(source.nodes)):
            module = sys.modules.get(full_module_name(imported, str(values.get("__package__") or "")))
            if module is not None and is_own_module(module):
                self._scan_patches(str(vars(module).get("__file__") or ""), vars(module))

    def _patched(self, chain: Chain, values: dict[str, Any]) -> None:
        value: Any = values.get(chain[0])
        for name in chain[1:-1]:
            if type(value) is not ModuleType and not is_class(value):
                return
            value = members_of(value).get(name)
        if self._is_foreign_holder(value):
            held = members_of(value).get(chain[-1])
            space = self._space(values)
            bound = functools.partial(self._bound_statements, space, chain[0])
            self._hold_value(space, f"{'.'.join(chain)} (patched)", held, bound, kept=False)

    def _is_foreign_holder(self, value: object) -> bool:
        """Whether it is a module, class or function of Python or of a package, whose members can be replaced."""
        if type(value) is ModuleType:
            return not is_own_module(value)
        if type(value) is FunctionType:
            # Its code may be what was replaced.
            filename = value.__globals__.get("__file__") or value.__code__.co_filename
            return not is_own_file(str(filename)) and not is_of_holdfast(module_of_code(value))
        return is_class(value) and not self.is_own(value) and not is_of_holdfast(type_module(value))
