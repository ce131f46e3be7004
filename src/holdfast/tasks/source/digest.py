"""What a function's behaviour rests on, as one digest: comments, docstrings and formatting do not count.

The digest covers the function, the functions, classes and constants of its own code that it refers to, at any
remove, and the plain values that it closes over. What comes from an installed package counts by name and version, what
comes from Python or Holdfast itself by name. Constants count as they are written, not by their value: a time
stamp or a key that is read at import changes nothing.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

from holdfast.digests import content_digest
from holdfast.tasks.source.origin import class_file, imported_module, is_local
from holdfast.tasks.source.spelling import PRESENT, Directories, Spelling
from holdfast.tasks.source.syntax import (
    Chain,
    bindings,
    find_class,
    find_function,
    imports,
    normalised,
    parse_file,
    references,
    spelled_code,
)

_PLAIN = (str, bytes, int, float, complex, bool, type(None), re.Pattern, PurePath, Enum)


def source_digest(obj: object, spelling: Spelling = PRESENT) -> str:
    """Sixteen bytes, in hexadecimal, that change when the code behind a function or an object does."""
    reached = _Reached(spelling)
    reached.add(obj)
    return content_digest("\n".join(reached.parts).encode(errors="surrogatepass"))


def source_files(obj: object) -> list[Path]:
    """The files of one's own that the digest covers."""
    reached = _Reached(PRESENT)
    reached.add(obj)
    return sorted(Path(name) for name in reached.files if Path(name).is_file())


class _Reached:
    """Everything that is reached from an object, in an order that depends on the code alone."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling, self._directories = spelling, Directories()
        self.parts: list[str] = []
        self.files: set[str] = set()
        self._seen: set[object] = set()
        self._kept: list[object] = []
        self._modules: dict[str, ast.Module | None] = {}
        self._bound: dict[str, dict[str, list[ast.stmt]]] = {}

    def add(self, value: object) -> None:
        """Take in a value by what kind of thing it is."""
        if isinstance(value, functools.partial):
            self._add_all(value.func, value.args, value.keywords)
        elif isinstance(value, MethodType):
            self._add_all(value.__self__, value.__func__)
        elif isinstance(value, FunctionType):
            self._add_function(value)
            self._add_held(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, ModuleType):
            self._add_module(value)
        elif isinstance(value, BuiltinFunctionType | MethodDescriptorType):
            self.parts.append(f"builtin {getattr(value, '__module__', '')}.{value.__qualname__}")
        elif not self._add_plain(value):
            self._add_instance(value)

    def _add_all(self, *values: object) -> None:
        for value in values:
            self.add(value)

    def _add_plain(self, value: object) -> bool:
        """Numbers, texts and what is made of them, by value."""
        if isinstance(value, _PLAIN):
            self.parts.append(f"value {self._spelling.value(value, self._directories)}")
        elif isinstance(value, dict):
            self._enter(
                value, "map", [item for key in sorted(value, key=self._spelling.order) for item in (key, value[key])]
            )
        elif isinstance(value, set | frozenset):
            self._enter(value, "set", sorted(value, key=self._spelling.order))
        elif isinstance(value, list | tuple):
            self._enter(value, "list", list(value))
        else:
            return False
        return True

    def _enter(self, container: object, kind: str, items: list[Any]) -> None:
        self.parts.append(f"{kind} of {len(items)}")
        if self._first_object("container", container):
            self._add_all(*items)

    def _add_instance(self, value: object) -> None:
        """An object counts by its class and its state; one that wraps a function, by that function."""
        if not self._first_object("instance", value):
            return
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "function", None)
        if isinstance(wrapped, FunctionType):
            self.add(wrapped)
            return
        self._add_class(type(value))
        self.add(self._spelling.state(value))

    def _add_function(self, function: FunctionType) -> None:
        code = function.__code__
        if not self._first((code, function.__module__)):
            return
        if not is_local(code.co_filename):
            self.parts.append(self._spelling.foreign(function.__module__, function.__qualname__))
        else:
            self._add_definition(function, code)

    def _add_definition(self, function: FunctionType, code: CodeType) -> None:
        module = self._parsed(code.co_filename)
        node = find_function(module, code) if module else None
        if node is None:
            self.parts.append(f"bytecode {spelled_code(code)}")
            self._add_references([(name,) for name in code.co_names], function.__globals__, code.co_filename)
        else:
            self._add_node(node, function.__globals__, code.co_filename)

    def _add_held(self, function: FunctionType) -> None:
        """What the function closes over, and the defaults it was made with."""
        if not self._first_object("held", function):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            self._add_held_value(name, held)
        for position, default in enumerate(function.__defaults__ or ()):
            self._add_held_value(str(position), default)
        for keyword, default in self._spelling.keywords(function).items():
            self._add_held_value(keyword, default)

    def _add_held_value(self, name: str, value: object) -> None:
        self.parts.append(f"holds {name}")
        self.add(value)

    def _add_class(self, found: type) -> None:
        home = sys.modules.get(found.__module__)
        filename = getattr(home, "__file__", None) or class_file(found)
        if filename is None or not is_local(filename):
            self.parts.append(self._spelling.foreign(found.__module__, found.__qualname__))
            return
        module = self._parsed(filename)
        node = find_class(module, found.__qualname__) if module else None
        self.parts.append(f"class {found.__qualname__}")
        if node is not None and self._first((filename, found.__qualname__, node.lineno)):
            self._add_node(node, vars(home) if home else {}, filename)

    def _add_module(self, module: ModuleType) -> None:
        filename = getattr(module, "__file__", None)
        if filename is None or not is_local(filename):
            self.parts.append(self._spelling.foreign(module.__name__, ""))
        elif self._first((filename, "")):
            self._add_file(filename, vars(module))

    def _add_file(self, filename: str, names: Mapping[str, Any]) -> None:
        tree = self._parsed(filename)
        if tree is not None:
            self._add_node(tree, names, filename)

    def _add_node(self, node: ast.AST, names: Mapping[str, Any], filename: str) -> None:
        self.parts.append(f"code {normalised(node)}")
        self._add_references(references(node), names, filename)
        for imported in imports(node):
            self._add_sibling(imported, filename)

    def _add_references(self, chains: list[Chain], names: Mapping[str, Any], filename: str) -> None:
        for chain in chains:
            self._add_reference(chain, names, filename)

    def _add_reference(self, chain: Chain, names: Mapping[str, Any], filename: str) -> None:
        """What a name means in a file: by its statements there, or else by what it holds now."""
        statements = self._bindings(filename).get(chain[0], [])
        if not statements and chain[0] in names and not hasattr(builtins, chain[0]):
            self._add_named(chain, names)
        for statement in statements:
            if isinstance(statement, ast.ImportFrom):
                self._add_imported(statement, chain, names)
            elif isinstance(statement, ast.Import):
                self._add_named(chain, names)
            elif self._first((filename, chain[0], statement.lineno)):
                self.parts.append(f"name {chain[0]}")
                self._add_node(statement, names, filename)

    def _add_named(self, chain: Chain, names: Mapping[str, Any]) -> None:
        """The value of a dotted name, followed as far as it leads through modules."""
        value = names.get(chain[0])
        for position, attribute in enumerate(chain[1:], start=1):
            if not isinstance(value, ModuleType):
                break
            home, value = value, getattr(value, attribute, None)
            if not isinstance(value, ModuleType):
                self._add_attribute(home, chain[position:])
                return
        if self._first_object(".".join(chain), value):
            self.add(value)

    def _add_attribute(self, home: ModuleType, chain: Chain) -> None:
        """A name of a module: followed in one's own, and only named in others, whose values are their affair."""
        filename = getattr(home, "__file__", None)
        if filename is not None and is_local(filename):
            self._add_reference(chain, vars(home), filename)
        else:
            self.parts.append(self._spelling.foreign(home.__name__, chain[0]))

    def _add_imported(self, statement: ast.ImportFrom, chain: Chain, names: Mapping[str, Any]) -> None:
        original = next((alias.name for alias in statement.names if (alias.asname or alias.name) == chain[0]), chain[0])
        home = imported_module(statement, names)
        if home is None:
            self.parts.append(self._spelling.foreign(statement.module, original))
        else:
            self._add_attribute(home, (original, *chain[1:]))

    def _add_sibling(self, imported: str, filename: str) -> None:
        """A file beside this one that is imported inside a function: whole, since it need not be loaded yet."""
        beside = Path(filename).with_name(f"{imported}.py")
        if str(beside) != filename and beside.is_file() and self._first((str(beside), "")):
            self._add_file(str(beside), {})

    def _parsed(self, filename: str) -> ast.Module | None:
        if filename not in self._modules:
            self._modules[filename] = parse_file(filename)
            self.files.add(filename)
            self._directories.add(filename)
        return self._modules[filename]

    def _bindings(self, filename: str) -> dict[str, list[ast.stmt]]:
        if filename not in self._bound:
            module = self._parsed(filename)
            self._bound[filename] = bindings(module) if module else {}
        return self._bound[filename]

    def _first(self, mark: object) -> bool:
        """Whether this is met for the first time; what is met again is not followed again."""
        if mark in self._seen:
            return False
        self._seen.add(mark)
        return True

    def _first_object(self, kind: str, value: object) -> bool:
        """As before, by identity; the object is kept, since another could take the place of one that is gone."""
        self._kept.append(value)
        return self._first((kind, id(value)))
