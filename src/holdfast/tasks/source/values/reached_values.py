"""Everything that is reached from a solver or a scorer: its code, and the values that the code holds.

The walk begins with an object and follows the names that code reads, the variables it closes over, defaults, attributes
and members. A person's own code counts by its text, that of packages by their versions. A function or class is named by
its qualified name; those of another file of one's own have the name of that module in front.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import functools
import gc
import importlib
import importlib.util
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from holdfast.errors import ConfigurationError
from holdfast.run.core.records import BYTECODE, CLASS, CODE, OPAQUE, ORDER_OF, PACKAGE, STATEMENTS, STATEMENTS_OF, VALUE
from holdfast.tasks.source.importing import guarded, unnumbered
from holdfast.tasks.source.syntax import Chain, Definition, find_class, spelled_code
from holdfast.tasks.source.values.binding_statements import (
    patched_attributes,
    statements_binding,
    statements_naming,
    statements_of,
)
from holdfast.tasks.source.values.class_members import counts_in_class, declares_something
from holdfast.tasks.source.values.definition_parts import (
    defaults_of,
    given_names,
    is_class,
    is_defined_by_python,
    members_of,
    module_of_code,
    namespace_of,
    owner_module,
)
from holdfast.tasks.source.values.import_effects import ImportEffect, import_effects
from holdfast.tasks.source.values.installed_packages import (
    distribution_of,
    is_of_holdfast,
    is_of_python,
    is_own_file,
    is_own_module,
    spec_origin,
)
from holdfast.tasks.source.values.running_source import SourceText, module_source, running_definition, source_lines
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode, order_node, shown_line
from holdfast.tasks.source.values.spelling.value_spelling import ValueSpelling
from holdfast.tasks.source.values.text.code_text import (
    ASSERTS,
    DECLARED_OF_CLASS,
    GOES_THROUGH_ATTRIBUTES,
    CodeText,
    code_text,
)
from holdfast.tasks.source.values.text.scope_names import LocalImport, imports_within
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_label,
    type_module,
    type_qualname,
)

_READS_ANY_NAME = frozenset({"getattr()", "__dict__", "attrgetter", "vars", "dir", "getmembers"})
"""Names by which code may read any attribute of a module; a text that is a literal is a name that it mentions."""
_DATACLASS_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
_FIELD_PARTS = ("init", "kw_only", "repr", "compare", "hash")
_MODULE_DUNDERS = frozenset(
    {"__name__", "__file__", "__spec__", "__loader__", "__package__", "__path__", "__cached__", "__builtins__"}
    | {"__annotations__", "__holdfast_source__", "__holdfast_code__"}
)

_CHANGEABLE = frozenset(
    map(id, (list, dict, set, bytearray, deque, OrderedDict, Counter, defaultdict, types.SimpleNamespace))
)
"""Containers that can be changed in place."""
_READS_SOURCE = frozenset({"getsource", "getsourcelines", "getcomments", "getsourcefile", "findsource", "getlines"})
_MODULE_HOOKS = frozenset({"__getattr__", "__dir__"})
"""What a module answers with for names that it does not have."""


class HeldValue(NamedTuple):
    """A value that has a name of its own, with what keeps it."""

    owner: object
    """What has it: the namespace of a module, a function or a class; None where that is not known."""
    path: str
    value: object
    nodes: dict[str, TakenNode]
    statements: bytes


class TakenTree(NamedTuple):
    """Code and values as they are at one moment."""

    nodes: dict[str, TakenNode]
    held: list[HeldValue]
    files: set[str]
    """The person's own files that it comes from."""
    places: dict[str, str]
    """By name, the file that a person finds it in."""
    written: set[str]
    """The names of what the code itself changes."""
    codes: dict[str, CodeType]
    samples: dict[str, tuple[int, ...]]
    """Of values that are too large, some of their members; they mean something in this process only."""


class _Names(NamedTuple):
    """The names of a module."""

    values: dict[str, Any]
    prefix: str
    filename: str

    def source(self) -> SourceText | None:
        return module_source(self.filename, self.values) if self.filename else None


class _Written(NamedTuple):
    """A piece of source whose text is in the tree, which may be wanted with its docstrings."""

    key: str
    definition: Definition
    free: tuple[str, ...]


class ReachedValues:
    """One walk, from one object."""

    def __init__(self, mask: TextMask) -> None:
        self._mask = mask
        self._spelling = ValueSpelling(self, mask)
        self._nodes: dict[str, TakenNode] = {}
        self._held: list[HeldValue] = []
        self._files: set[str] = set()
        self._places: dict[str, str] = {}
        self._texts: list[CodeText] = []
        self._written: list[_Written] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._spaces: dict[int, _Names] = {}
        self._scanned: set[str] = set()
        self._seen_names: set[tuple[int, str]] = set()
        self._codes: dict[int, tuple[CodeType, str]] = {}
        """By identity: equal code of two files is not the same."""
        self._classes: dict[int, str] = {}
        self._own_classes: list[tuple[type, str]] = []
        self._wholes: dict[int, tuple[_Names, bool]] = {}
        self._own_types: dict[int, bool] = {}
        self._functions: dict[int, str] = {}
        self._named_functions: set[str] = set()
        self._definitions: list[tuple[FunctionType | type, str]] = []
        self._effects: list[tuple[ImportEffect, _Names]] = []
        self._packages: set[str] = set()
        self._kept: list[object] = []
        self._taken_keys: dict[str, object] = {}
        self._home: dict[str, Any] | None = None

    def take(self, root: object, called: str = "sampling") -> TakenTree:
        """Walks from the object to everything that it reaches; `called` is the name of several, in a tuple."""
        self._home = namespace_of(root)
        for name, value in self._start(root, called):
            space = None if self._home is None else self._space(self._home)
            self._hold_value(space, name, value, functools.partial(self._around, value))
        self._work()
        while self._add_import_effects() or self._add_documentation() or self._add_subclasses():
            self._work()
        if any({"__name__", "__qualname__"} & text.mentioned for text in self._texts):
            self._add_given_names()
        self._add_sources()
        self._add_python_options()
        self._drop_orders()
        self._add_orders()
        written = {name for text in self._texts for name in text.written}
        self._add_aliases(written)
        codes = {f"{key}()": code for code, key in self._codes.values()}
        return TakenTree(self._nodes, self._held, self._files, self._places, written, codes, self._spelling.samples)

    def _drop_orders(self) -> None:
        """The order of a map that code only looks things up in makes no difference."""
        if self._wholes:
            return
        iterated = frozenset().union(*(text.iterated for text in self._texts))
        for held in self._held:
            name = held.path.rpartition(".")[2]
            if type(held.owner) is dict and name not in iterated:
                self._nodes.pop(held.path + ORDER_OF, None)
                held.nodes.pop(held.path + ORDER_OF, None)

    def _add_orders(self) -> None:
        """The order of what is no map, and that code may go through all the same."""
        mentioned = frozenset().union(*(text.mentioned for text in self._texts))
        goes_through = GOES_THROUGH_ATTRIBUTES in mentioned
        self._add_attribute_orders(goes_through=goes_through)
        for value, key in self._definitions:
            if is_class(value) and (goes_through or issubclass_of(value, enum.Enum)):
                self._class_order(value, key, mentioned, goes_through=goes_through)
        for space, _ in self._wholes.values() if goes_through else ():
            own = [name for name, value in space.values.items() if not name.startswith("__") and _is_own_name(value)]
            self._put_order(f"{space.prefix}globals()", own, space)

    def _add_attribute_orders(self, *, goes_through: bool) -> None:
        """Of an object, what its own code sets is in the text of that code, and may be a memo."""
        written = {name for text in self._texts for name in text.written}
        whole = {chain[-1] for text in self._texts for chain in text.references}
        whole |= {imported.attribute for text in self._texts for imported, chain in text.imports if not chain}
        for path, (names, is_shown) in self._spelling.attribute_orders.items():
            if path in self._nodes and (goes_through or (is_shown and path.rpartition(".")[2] in whole)):
                self._put_order(path, [name for name in names if name not in written])

    def _class_order(self, value: type, key: str, mentioned: frozenset[str], *, goes_through: bool) -> None:
        members = type_dict(value)
        listed = list(members["_member_map_"]) if issubclass_of(value, enum.Enum) else []
        others = [name for name, item in members.items() if name not in listed and counts_in_class(value, name, item)]
        if goes_through:
            self._put_order(key, [*listed, *others], self._space_of(value))
        elif not self._is_only_looked_up(value, key, mentioned, is_plain=not others):
            self._put_order(key, listed, self._space_of(value))

    def _is_only_looked_up(self, value: type, key: str, mentioned: frozenset[str], *, is_plain: bool) -> bool:
        """Whether all code names the members of an enumeration one by one (`Label.YES`)."""
        name = type_qualname(value).rpartition(".")[2]
        if self._wholes or not is_plain or {"type", "__class__", "__members__"} & mentioned:
            return False
        chains = {chain for text in self._texts for chain in text.references}
        chains |= {(found.attribute, *chain) for text in self._texts for found, chain in text.imports}
        as_value = f"class {key}".encode(errors="surrogatepass")
        held = [path for path, node in self._nodes.items() if node.spelled == as_value]
        return all(chain[-1] != name for chain in chains) and all(path.rpartition(".")[2] == name for path in held)

    def _put_order(self, path: str, names: list[str], space: _Names | None = None) -> None:
        if len(names) > 1:
            self._put(path + ORDER_OF, order_node([f"[{name}]" for name in names]), space)

    def _start(self, root: Any, called: str) -> list[tuple[str, Any]]:
        """The values to begin with, by the names that they have in the tree."""
        if type(root) is MethodType and type(root.__func__) is FunctionType:
            owner = root.__self__
            label = type_qualname(owner) if is_class(owner) else f"{type_qualname(type(owner))}(…)"
            return [(label, owner), (self._function_key(root.__func__), root.__func__)]
        if type(root) is FunctionType:
            return [(self._function_key(root), root)]
        if type(root) is functools.partial:
            return [("partial", root)]
        return [(called if type(root) is tuple else f"{type_qualname(type(root))}(…)", root)]

    def _work(self) -> None:
        self._enter_wholes()
        while self._waiting:
            self._waiting.popleft()()
            if not self._waiting:
                self._enter_wholes()

    def _enter_wholes(self) -> None:
        """The names that code may read of modules that it passes on: those that it mentions anywhere."""
        mentioned = frozenset().union(*(text.mentioned for text in self._texts))
        for space, is_open in list(self._wholes.values()):
            for name in list(space.values):
                is_read = is_open or bool(mentioned & _READS_ANY_NAME) or name in mentioned
                is_read = is_read and not name.startswith("__") and _is_own_name(space.values[name])
                if (is_read or name in _MODULE_HOOKS) and self._is_new(space, name):
                    self._waiting.append(functools.partial(self._name, space, name))

    def _is_new(self, space: _Names, name: str) -> bool:
        return (id(space.values), name) not in self._seen_names

    # What values are made of.

    def function(self, path: str, value: FunctionType) -> TakenNode:
        key = self._function_key(value, path)
        if id(value) not in self._functions:
            # Several functions may be made of one piece of code, each with variables or defaults of its own.
            is_made = bool(value.__closure__) or "<locals>" in value.__code__.co_qualname
            is_one_of_many = is_made or key in self._named_functions
            self._named_functions.add(key)
            self._functions[id(value)] = place = path if is_one_of_many else key
            self._kept.append(value)
            self._definitions.append((value, place))
            self._waiting.append(functools.partial(self._define, value, key, place))
        first = self._functions[id(value)]
        same = "" if first in {key, path} else f" {first}"
        return TakenNode(VALUE, f"function {key}{same}".encode(errors="surrogatepass"), f"{key}()")

    def class_(self, path: str, value: type) -> TakenNode:  # noqa: ARG002 - as for a function
        key = self._class_key(value)
        return TakenNode(VALUE, f"class {key}".encode(errors="surrogatepass"), key)

    def module(self, path: str, value: ModuleType) -> TakenNode:  # noqa: ARG002
        if not is_own_module(value):
            self._add_package(value.__name__)
        else:
            self._waiting.append(functools.partial(self._whole, self._space(vars(value))))
        return TakenNode(VALUE, f"module {self._module_label(value)}".encode(), self._module_label(value))

    def is_own(self, found: type) -> bool:
        if id(found) not in self._own_types:
            self._kept.append(found)
            self._own_types[id(found)] = self._is_own_type(found)
        return self._own_types[id(found)]

    def _is_own_type(self, found: type) -> bool:
        module = type_module(found)
        if module == "types":
            # `make_dataclass` and `new_class` say so of classes that are somebody's own.
            return vars(types).get(type_qualname(found)) is not found
        if is_of_python(module) or is_of_holdfast(module):
            # A class may say that it is of another module than all its methods; one method may only be patched.
            methods = [item for item in type_dict(found).values() if type(item) is FunctionType]
            return bool(methods) and all(_is_own_source(method.__code__.co_filename) for method in methods)
        loaded = sys.modules.get(module)
        filename = vars(loaded).get("__file__") if loaded is not None else None
        if isinstance(filename, str):
            return is_own_file(filename)
        return distribution_of(module) is None

    def package_type(self, found: type) -> None:
        self._add_package(type_module(found))

    def _module_label(self, value: ModuleType) -> str:
        return unnumbered(value.__name__).removeprefix("holdfast_task_")

    def _add_package(self, module: str) -> None:
        self._packages.add(module.partition(".")[0].lstrip("_"))
        found = distribution_of(module)
        if found is not None:
            self._nodes[f"package {found.name}"] = TakenNode(PACKAGE, found.version.encode(), found.version)

    # Names of modules.

    def _space(self, values: dict[str, Any]) -> _Names:
        if id(values) not in self._spaces:
            filename = values.get("__file__")
            filename = filename if isinstance(filename, str) else ""
            name = str(values.get("__name__", ""))
            label = "" if values is self._home else f"{unnumbered(name).removeprefix('holdfast_task_')}."
            used = [space.prefix for space in self._spaces.values()]
            number = 1 + sum(prefix.rstrip("#0123456789.") == label.rstrip(".") for prefix in used) if label else 1
            prefix = label if number == 1 else f"{label.rstrip('.')}#{number}."
            self._spaces[id(values)] = _Names(values, prefix, filename)
            self._kept.append(values)
            if filename and is_own_file(filename):
                self._files.add(filename)
                self._mask.add_directory(Path(filename).parent)
                self._waiting.append(functools.partial(self._scan_patches, filename, values))
        return self._spaces[id(values)]

    def _whole(self, space: _Names, *, is_open: bool = False) -> None:
        """A module that is passed on; where it `is_open`, every name of it counts."""
        known = self._wholes.get(id(space.values))
        self._wholes[id(space.values)] = space, is_open or (known is not None and known[1])

    def _chain(self, space: _Names, chain: Chain) -> None:
        """What a dotted name stands for in a module, followed through other modules."""
        values, name = space.values, chain[0]
        if name not in values:
            self._builtin_name(name)
            return
        if type(values[name]) is ModuleType:
            self._module_chain(values[name], chain[1:], ".".join(chain))
        elif name not in _MODULE_DUNDERS:
            self._name(space, name)

    def _builtin_name(self, name: str) -> None:
        """A builtin counts only where code has put something else in its place."""
        value = vars(builtins).get(name)
        if type(value) is FunctionType or (is_class(value) and type_module(value) != "builtins"):
            self._hold_value(None, f"builtins.{name}", value)

    def _module_chain(self, module: ModuleType, chain: Chain, shown: str) -> None:
        """A name that is read of a module; without one, the module may be read whole."""
        while chain:
            value = vars(module).get(chain[0], sys.modules.get(f"{module.__name__}.{chain[0]}"))
            if type(value) is not ModuleType:
                break
            module, chain = value, chain[1:]
        if not is_own_module(module):
            self._foreign_name(module, chain, shown)
        elif not chain:
            self._whole(self._space(vars(module)))
        elif chain[0] in vars(module):
            self._name(self._space(vars(module)), chain[0])
        elif self._load(LocalImport(0, f"{module.__name__}.{chain[0]}", ""), "") is None:
            self._made_on_demand(module)
        else:
            self._imported(LocalImport(0, f"{module.__name__}.{chain[0]}", ""), chain[1:], "")

    def _made_on_demand(self, module: ModuleType) -> None:
        """A name that a module does not have: its `__getattr__` gives it, or it is one of all modules (`__dict__`)."""
        self._whole(self._space(vars(module)))

    def _foreign_name(self, module: ModuleType, chain: Chain, shown: str) -> None:
        """A name of a package or of Python: by what it is called, unless one's own code was put in its place."""
        self._add_package(module.__name__)
        value = vars(module).get(chain[0]) if chain else None
        owned = owner_module(value)
        if value is not None and ((owned is not None and not is_of_python(owned)) or not is_of_python(module.__name__)):
            self._hold_value(None, shown, value, listed=False)
            return
        name = module.__name__ if not is_of_holdfast(module.__name__) else "holdfast"
        qualified = getattr(value, "__qualname__", "") if owned is not None else ""
        spelled = " ".join(part for part in (".".join((name, *chain[:1])), qualified) if part)
        self._put(shown, TakenNode(VALUE, f"name {spelled}".encode(), spelled.partition(" ")[0]))

    def _name(self, space: _Names, name: str) -> None:
        """A name of a module of one's own, or of a program or notebook."""
        if (id(space.values), name) in self._seen_names or name not in space.values:
            return
        self._seen_names.add((id(space.values), name))
        value, path = space.values[name], f"{space.prefix}{name}"
        bound = functools.partial(self._bound_statements, space, name)
        self._hold_value(space, path, value, bound, owner=space.values)

    def _hold_value(
        self,
        space: _Names | None,
        path: str,
        value: object,
        statements: Callable[[], list[Any]] = list,
        *,
        owner: object = None,
        listed: bool = True,
        kept: bool = True,
    ) -> None:
        """Puts a value into the tree, and beside it the statements that it comes from.

        `owner` has it as a name; without `listed`, parts that cannot be compared are left out; without `kept`, the
        statements count only if a part of it cannot be compared.
        """
        if type(value) is FunctionType:
            node = self.function(path, value)
        elif issubclass_of(type(value), type):
            node = self.class_(path, value)  # type: ignore[arg-type]
        else:
            nodes = self._spelling.spell(path, value)
            if not listed:
                # A package's own objects are its affair, and its version counts.
                nodes = {key: inner for key, inner in nodes.items() if inner.kind != OPAQUE}
            is_wanted = kept or any(inner.kind == OPAQUE for inner in nodes.values())
            self._hold_state(space, HeldValue(owner, path, value, nodes, b""), statements() if is_wanted else [])
            return
        if node.text.removesuffix("()") != path:
            self._put(path, node, space)
            if owner is not None:
                self._held.append(HeldValue(owner, path, value, {path: node}, b""))

    def _hold_state(self, space: _Names | None, held: HeldValue, statements: list[Any]) -> None:
        is_opaque = any(node.kind == OPAQUE for node in held.nodes.values())
        # A decorator of a package that makes a thing of its own may do so from the docstring, as those of tools do.
        is_decorated = is_opaque and any(getattr(item, "decorator_list", ()) for item in statements)
        text = code_text(statements, mask=self._mask.without_keys, documented=is_decorated)
        spelled = text.text.encode(errors="surrogatepass")
        nodes = {key: _with_statements(node, spelled) for key, node in held.nodes.items()}
        if is_opaque:
            self._follow(text, space)
        self._held.append(held._replace(nodes=nodes, statements=spelled))
        for key, node in nodes.items():
            self._put(key, node, space)
        if spelled:
            self._put(held.path + STATEMENTS_OF, TakenNode(STATEMENTS, spelled, ""), space)

    def _put(self, key: str, node: TakenNode, space: _Names | None = None) -> None:
        self._nodes.setdefault(key, node)
        if space is not None and space.filename:
            self._places.setdefault(key, Path(space.filename).name)

    def _bound_statements(self, space: _Names, name: str) -> list[Any]:
        """The statements behind a name; of an imported one also those in the module that it comes from."""
        source = space.source()
        found: list[Any] = statements_of(source, name) if source else []
        for statement in list(found):
            for imported in imports_within([statement]):
                module = self._loaded(imported, space)
                if imported.attribute == name and module is not None and is_own_module(module):
                    found = (
                        [*found, *statements_of(source, name)]
                        if (source := self._space(vars(module)).source())
                        else found
                    )
        return found

    def _around(self, value: object) -> list[Any]:
        """The lines behind what an object or a function holds: those that name what it was made by."""
        function = value.__func__ if type(value) is MethodType else value
        if type(function) is FunctionType:
            name = (
                function.__code__.co_qualname.partition(".<locals>")[0].rpartition(".")[2]
                if "<locals>" in function.__code__.co_qualname
                else ""
            )
        else:
            name = type_qualname(type(value)).rpartition(".")[2]
        values = namespace_of(value)
        source = self._space(values).source() if name and values is not None else None
        return list(statements_naming(source, name)) if source else []

    # Code.

    def _follow(self, text: CodeText, space: _Names | None) -> None:
        """What a piece of code refers to."""
        if space is None:
            space = self._space(self._home) if self._home is not None else None
        self._texts.append(text)
        if space is None:
            return
        if text.reads_namespace:
            self._whole(space, is_open=True)
        for chain in text.references:
            self._chain(space, chain)
        for imported, chain in text.imports:
            self._imported(imported, chain, str(space.values.get("__package__") or ""))
        for imported in text.imported:
            if (module := self._loaded(imported, space)) is not None and is_own_module(module):
                self._space(vars(module))

    def _imported(self, imported: LocalImport, chain: Chain, package: str) -> None:
        """What code uses of a module that it imports itself, which may not be loaded yet."""
        module = self._load(imported, package)
        wanted = (imported.attribute, *chain) if imported.attribute else chain
        shown = ".".join((imported.module, *wanted))
        if module is None:
            self._add_package(imported.module)
            self._put(shown, TakenNode(VALUE, f"import {shown}".encode(), "not loaded"))
        elif wanted and wanted[0] not in vars(module) and is_own_module(module):
            inner = LocalImport(0, f"{module.__name__}.{wanted[0]}", "")
            if (found := self._load(inner, "")) is not None:
                self._module_chain(found, wanted[1:], shown)
            else:
                self._made_on_demand(module)
        else:
            self._module_chain(module, wanted, shown)

    def _loaded(self, imported: LocalImport, space: _Names) -> ModuleType | None:
        return sys.modules.get(_full_name(imported, str(space.values.get("__package__") or "")))

    def _load(self, imported: LocalImport, package: str) -> ModuleType | None:
        """A module that a function imports: one's own is imported now, as the first trial would."""
        name = _full_name(imported, package)
        if not name or name in sys.modules:
            return sys.modules.get(name)
        top = name.partition(".")[0]
        origin = getattr(sys.modules.get(top), "__file__", None) or spec_origin(top)
        if not isinstance(origin, str) or not is_own_file(origin):
            return None
        try:
            with guarded(name):
                return importlib.import_module(name)
        except ConfigurationError:
            # The solver will say so, if it ever comes to that line.
            return None

    def _function_key(self, value: FunctionType, path: str = "") -> str:
        """The name of a function's code; one that has none of its own is called by where it was found."""
        code = value.__code__
        if id(code) not in self._codes:
            module = module_of_code(value)
            if path and code.co_name == "<lambda>" and self._is_own_code(code, module):
                base = path
            elif is_of_holdfast(module):
                base = f"holdfast.{code.co_qualname}"
            elif self._is_own_code(code, module):
                base = f"{self._space(value.__globals__).prefix}{code.co_qualname}"
            else:
                base = f"{module}.{code.co_qualname}"
            self._codes[id(code)] = code, self._unique(base, code)
        return self._codes[id(code)][1]

    def _unique(self, base: str, thing: object) -> str:
        key, number = base, 2
        while self._taken_keys.setdefault(key, thing) is not thing:
            key, number = f"{base}#{number}", number + 1
        return key

    def _is_own_code(self, code: CodeType, module: str) -> bool:
        if is_of_holdfast(module) and not code.co_filename.startswith("<"):
            return False
        return is_own_file(code.co_filename)

    def _define(self, value: FunctionType, key: str, path: str) -> None:
        """The text of a function, and what it holds."""
        module = module_of_code(value)
        own = self._is_own_code(value.__code__, module)
        text = self._define_own(value, key) if own else None
        if not own:
            self._add_package(module)
        if own or not is_of_holdfast(module):
            self._hold(value, path, text.free if text else ())

    def _define_own(self, value: FunctionType, key: str) -> CodeText | None:
        code, space, name = value.__code__, self._space(value.__globals__), f"{key}()"
        found = running_definition(code, value.__globals__)
        if found is None:
            self._put(name, compiled_node(code), space)
            names = _names_within(code)
            self._follow(
                _NO_TEXT._replace(
                    references=sorted((name,) for name in names), mentioned=frozenset(names), iterated=frozenset(names)
                ),
                space,
            )
            return None
        source, definition = found
        if code.co_filename and Path(code.co_filename).is_absolute():
            self._files.add(code.co_filename)
        prints = "print" not in space.values
        text = code_text([definition], code.co_freevars, self._mask.without_keys, prints=prints)
        if name not in self._nodes:
            self._written.append(_Written(name, definition, code.co_freevars))
            self._put(name, TakenNode(CODE, text.text.encode(errors="surrogatepass"), ""), space)
            self._places[name] = Path(source.filename).name
            if any(map(self._mask.holds_own_key, text.long_texts)):
                self._put(f"{name} (key)", TakenNode(OPAQUE, b"key", "looks like a key"), space)
            self._follow(text, space)
        return text

    def _hold(self, value: FunctionType, path: str, order: Iterable[str]) -> None:
        """What a function closes over, its defaults and its attributes."""
        around = functools.partial(self._around, value)
        own = self._is_own_code(value.__code__, module_of_code(value))
        space = self._space(value.__globals__) if own else None
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        for name in dict.fromkeys((*order, *cells)):
            try:
                held = cells[name].cell_contents
            except ValueError:
                continue
            self._hold_value(space, f"{path}({name})", held, around, owner=value)
        for name, held in () if is_defined_by_python(value) else defaults_of(value):
            self._hold_value(space, f"{path}({name}=)", held, around, owner=value)
        for name, held in sorted(value.__dict__.items()):
            self._hold_value(space, f"{path}.{name}", held, around, owner=value)

    def _add_documentation(self) -> bool:
        """Docstrings and annotations, where code reads them: of everything, for it may have any of it in hand.

        Whether there were any that are new.
        """
        if not any(text.reads_definitions for text in self._texts) or not (self._written or self._own_classes):
            return False
        written, self._written = self._written, []
        for item in written:
            text = code_text([item.definition], item.free, self._mask.without_keys, documented=True)
            self._nodes[item.key] = TakenNode(CODE, text.text.encode(errors="surrogatepass"), "")
        classes, self._own_classes = self._own_classes, []
        for value, key in classes:
            self._class_body(value, key)
            self._class_documentation(value, key)
        return True

    def _class_documentation(self, value: type, key: str) -> None:
        """What a class says of itself, also where it was made by a call and has no text."""
        members, space = type_dict(value), self._space_of(value)
        for name in DECLARED_OF_CLASS:
            if declares_something(members.get(name)):
                self._hold_value(space, f"{key}.{name}", members[name])
        fields = members.get("__dataclass_fields__", {})
        for name, field in fields.items():
            if field.metadata:
                self._hold_value(space, f"{key}.{name} (metadata)", field.metadata)

    def _add_given_names(self) -> None:
        """The names that functions and classes were given after their definition, where code reads names."""
        for value, place in self._definitions:
            for name, given, written in given_names(value):
                if given != written:
                    self._put(f"{place}.{name}", TakenNode(VALUE, f"str {given}".encode(), repr(given)))

    def _add_sources(self) -> None:
        """Source as it is written, comments included, where code reads it."""
        if not any(_READS_SOURCE & text.mentioned for text in self._texts):
            return
        for value, key in self._definitions:
            if (found := self._defined(value)) is not None:
                text = self._mask.without_keys(source_lines(*found))
                node = TakenNode(VALUE, text.encode(errors="surrogatepass"), f"{len(text.splitlines())} lines")
                self._put(f"{key} (source)", node, self._space_of(value))

    def _defined(self, value: FunctionType | type) -> tuple[SourceText, Definition | ast.ClassDef] | None:
        """Where the source of a function or a class of one's own is."""
        if isinstance(value, FunctionType):
            is_own = self._is_own_code(value.__code__, module_of_code(value))
            return running_definition(value.__code__, value.__globals__) if is_own else None
        space = self._space_of(value)
        source = space.source() if space else None
        node = find_class(source.tree, type_qualname(value)) if source and source.tree else None
        return None if source is None or node is None else (source, node)

    def _add_python_options(self) -> None:
        """Options of Python that leave something out of the code: `-O` assertions, `-OO` docstrings as well."""
        mentioned = frozenset().union(*(text.mentioned for text in self._texts))
        if sys.flags.optimize and {ASSERTS, "__debug__"} & mentioned:
            self._put("assertions", TakenNode(VALUE, b"left out", "left out by python -O"))
        if sys.flags.optimize > 1 and any(text.reads_definitions for text in self._texts):
            self._put("docstrings", TakenNode(VALUE, b"left out", "left out by python -OO"))

    def _add_aliases(self, written: set[str]) -> None:
        """Names that stand for one thing, where code changes what one of them stands for: the others change too."""
        names: dict[int, list[str]] = {}
        for held in self._held:
            if type(held.owner) is dict and (id(type(held.value)) in _CHANGEABLE or self.is_own(type(held.value))):
                names.setdefault(id(held.value), []).append(held.path)
        for paths in names.values():
            alike = sorted(set(paths))
            if len(alike) > 1 and any(path.rpartition(".")[2] in written for path in alike):
                text = " is ".join(alike)
                self._put(f"{alike[0]} (the same as others)", TakenNode(VALUE, text.encode(), shown_line(text)))

    # Classes.

    def _add_subclasses(self) -> bool:
        """The classes that are derived from one's own, where code asks for them; whether any are new."""
        if not any("__subclasses__" in text.mentioned for text in self._texts):
            return False
        known = len(self._definitions)
        # A class that was defined again goes only when memory is tidied up.
        gc.collect()
        for value, key in list(self._definitions):
            if is_class(value) and f"{key} (subclasses)" not in self._nodes:
                derived: list[type] = type.__subclasses__(value)
                names = [self._class_key(found) for found in derived if self.is_own(found)]
                if names:
                    node = TakenNode(
                        VALUE, " ".join(names).encode(errors="surrogatepass"), shown_line(", ".join(names))
                    )
                    self._put(f"{key} (subclasses)", node, self._space_of(value))
        return len(self._definitions) > known

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
        if needs_body or "__attrs_attrs__" in members:
            self._class_body(value, key)

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

    def _space_of(self, value: type | FunctionType) -> _Names | None:
        values = namespace_of(value)
        return None if values is None else self._space(values)

    # Code of others that one's own code has changed.

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
            module = sys.modules.get(_full_name(imported, str(values.get("__package__") or "")))
            if module is not None and is_own_module(module):
                self._scan_patches(str(vars(module).get("__file__") or ""), vars(module))

    def _add_import_effects(self) -> bool:
        """The lines that set the state of a package that code uses; whether there are any that are new."""
        mentioned = frozenset().union(*(text.mentioned for text in self._texts))
        wanted = [item for item in self._effects if item[0].matters_to(self._packages, mentioned)]
        self._effects = [item for item in self._effects if item not in wanted]
        for effect, space in wanted:
            text = code_text([effect.statement], mask=self._mask.without_keys)
            shown = shown_line(self._mask.spelled(ast.unparse(effect.statement)))
            node = TakenNode(VALUE, text.text.encode(errors="surrogatepass"), shown)
            self._put(self._unique(f"{space.prefix}{effect.package} (set at import)", effect.statement), node, space)
            self._follow(text, space)
        return bool(wanted)

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


_NO_TEXT = CodeText(
    "", [], [], [], [], set(), frozenset(), frozenset(), [], reads_definitions=False, reads_namespace=False
)


def _is_own_name(value: object) -> bool:
    """Whether a name of a module stands for something of its own: not for a module, nor for `annotations`."""
    return type(value) is not ModuleType and type_module(type(value)) != "__future__"


def _with_statements(node: TakenNode, statements: bytes) -> TakenNode:
    """What cannot be compared counts by the statements that it comes from."""
    return node._replace(spelled=node.spelled + b" " + statements) if node.kind == OPAQUE else node


def compiled_node(code: CodeType) -> TakenNode:
    """A function whose source is not known any more; compiled code differs between versions of Python."""
    spelled = f"{sys.version_info[:2]} {spelled_code(code)}"
    return TakenNode(BYTECODE, spelled.encode(errors="surrogatepass"), "")


def _names_within(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_within(constant)
    return found


def _full_name(imported: LocalImport, package: str) -> str:
    if not imported.level:
        return imported.module
    try:
        return importlib.util.resolve_name("." * imported.level + imported.module, package)
    except ImportError:
        return ""


def _is_own_source(filename: str) -> bool:
    return not filename.startswith("<") and is_own_file(filename)
