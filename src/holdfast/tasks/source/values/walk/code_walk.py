"""Names and functions: what code reads, the variables that it closes over, defaults, and modules that it imports."""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.run.core.records import CODE, OPAQUE, PACKAGE, STATEMENTS, STATEMENTS_OF, VALUE
from holdfast.tasks.source.importing import guarded, unnumbered
from holdfast.tasks.source.syntax import Chain
from holdfast.tasks.source.values.binding_statements import (
    statements_naming,
    statements_of,
)
from holdfast.tasks.source.values.definition_parts import (
    defaults_of,
    is_class,
    is_defined_by_python,
    module_of_code,
    namespace_of,
    owner_module,
)
from holdfast.tasks.source.values.import_effects import ImportEffect
from holdfast.tasks.source.values.installed_packages import (
    distribution_of,
    is_of_holdfast,
    is_of_python,
    is_own_file,
    is_own_module,
    spec_origin,
)
from holdfast.tasks.source.values.running_source import running_definition
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode
from holdfast.tasks.source.values.spelling.value_spelling import ValueSpelling
from holdfast.tasks.source.values.text.code_text import (
    CodeText,
    code_text,
)
from holdfast.tasks.source.values.text.scope_names import LocalImport, imports_within
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_module,
    type_qualname,
)
from holdfast.tasks.source.values.walk.held_values import (
    NO_TEXT,
    HeldValue,
    ModuleNames,
    WrittenText,
    compiled_node,
    full_module_name,
    is_own_name,
    texts_within,
)

_READS_ANY_NAME = frozenset({"getattr()", "__dict__", "attrgetter", "vars", "dir", "getmembers"})
"""Names by which code may read any attribute of a module; a text that is a literal is a name that it mentions."""
_MODULE_DUNDERS = frozenset(
    {"__name__", "__file__", "__spec__", "__loader__", "__package__", "__path__", "__cached__", "__builtins__"}
    | {"__annotations__", "__holdfast_source__", "__holdfast_code__"}
)

_MODULE_HOOKS = frozenset({"__getattr__", "__dir__"})
"""What a module answers with for names that it does not have."""


class CodeWalk:
    """Follows code from name to name."""

    def __init__(self, mask: TextMask) -> None:
        self._mask = mask
        self._spelling = ValueSpelling(self, mask)
        self._nodes: dict[str, TakenNode] = {}
        self._held: list[HeldValue] = []
        self._files: set[str] = set()
        self._places: dict[str, str] = {}
        self._texts: list[CodeText] = []
        self._written: list[WrittenText] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._spaces: dict[int, ModuleNames] = {}
        self._scanned: set[str] = set()
        self._seen_names: set[tuple[int, str]] = set()
        self._codes: dict[int, tuple[CodeType, str]] = {}
        """By identity: equal code of two files is not the same."""
        self._classes: dict[int, str] = {}
        self._own_classes: list[tuple[type, str]] = []
        self._wholes: dict[int, tuple[ModuleNames, bool]] = {}
        self._own_types: dict[int, bool] = {}
        self._functions: dict[int, str] = {}
        self._named_functions: set[str] = set()
        self._definitions: list[tuple[FunctionType | type, str]] = []
        self._effects: list[tuple[ImportEffect, ModuleNames]] = []
        self._packages: set[str] = set()
        self._kept: list[object] = []
        self._taken_keys: dict[str, object] = {}
        self._home: dict[str, Any] | None = None

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
                is_read = is_read and not name.startswith("__") and is_own_name(space.values[name])
                if (is_read or name in _MODULE_HOOKS) and self._is_new(space, name):
                    self._waiting.append(functools.partial(self._name, space, name))

    def _is_new(self, space: ModuleNames, name: str) -> bool:
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

    def _space(self, values: dict[str, Any]) -> ModuleNames:
        if id(values) not in self._spaces:
            filename = values.get("__file__")
            filename = filename if isinstance(filename, str) else ""
            name = str(values.get("__name__", ""))
            label = "" if values is self._home else f"{unnumbered(name).removeprefix('holdfast_task_')}."
            used = [space.prefix for space in self._spaces.values()]
            number = 1 + sum(prefix.rstrip("#0123456789.") == label.rstrip(".") for prefix in used) if label else 1
            prefix = label if number == 1 else f"{label.rstrip('.')}#{number}."
            self._spaces[id(values)] = ModuleNames(values, prefix, filename)
            self._kept.append(values)
            if filename and is_own_file(filename):
                self._files.add(filename)
                self._mask.add_directory(Path(filename).parent)
                self._mask.add_source(self._spaces[id(values)].source)
                self._waiting.append(functools.partial(self._scan_patches, filename, values))
        return self._spaces[id(values)]

    def _whole(self, space: ModuleNames, *, is_open: bool = False) -> None:
        """A module that is passed on; where it `is_open`, every name of it counts."""
        known = self._wholes.get(id(space.values))
        self._wholes[id(space.values)] = space, is_open or (known is not None and known[1])

    def _chain(self, space: ModuleNames, chain: Chain) -> None:
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

    def _name(self, space: ModuleNames, name: str) -> None:
        """A name of a module of one's own, or of a program or notebook."""
        if (id(space.values), name) in self._seen_names or name not in space.values:
            return
        self._seen_names.add((id(space.values), name))
        value, path = space.values[name], f"{space.prefix}{name}"
        bound = functools.partial(self._bound_statements, space, name)
        self._hold_value(space, path, value, bound, owner=space.values)

    def _hold_value(
        self,
        space: ModuleNames | None,
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

    def _hold_state(self, space: ModuleNames | None, held: HeldValue, statements: list[Any]) -> None:
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

    def _put(self, key: str, node: TakenNode, space: ModuleNames | None = None) -> None:
        self._nodes.setdefault(key, node)
        if space is not None and space.filename:
            self._places.setdefault(key, Path(space.filename).name)

    def _bound_statements(self, space: ModuleNames, name: str) -> list[Any]:
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

    def _follow(self, text: CodeText, space: ModuleNames | None) -> None:
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

    def _loaded(self, imported: LocalImport, space: ModuleNames) -> ModuleType | None:
        return sys.modules.get(full_module_name(imported, str(space.values.get("__package__") or "")))

    def _load(self, imported: LocalImport, package: str) -> ModuleType | None:
        """A module that a function imports: one's own is imported now, as the first trial would."""
        name = full_module_name(imported, package)
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
            self._put(name, compiled_node(code, self._mask), space)
            if any(map(self._mask.holds_own_key, texts_within(code))):
                self._put(f"{name} (key)", TakenNode(OPAQUE, b"key", "looks like a key"), space)
            names = _names_within(code)
            self._follow(
                NO_TEXT._replace(
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
            self._written.append(WrittenText(name, definition, code.co_freevars))
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

    # What is known of classes, and of the files of a module.

    def _class_key(self, value: type) -> str:
        raise NotImplementedError

    def _scan_patches(self, filename: str, values: dict[str, Any]) -> None:
        raise NotImplementedError


def _with_statements(node: TakenNode, statements: bytes) -> TakenNode:
    """What cannot be compared counts by the statements that it comes from."""
    return node._replace(spelled=node.spelled + b" " + statements) if node.kind == OPAQUE else node


def _names_within(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_within(constant)
    return found


def _is_own_source(filename: str) -> bool:
    return not filename.startswith("<") and is_own_file(filename)
