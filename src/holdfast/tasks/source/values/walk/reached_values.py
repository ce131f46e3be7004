"""Everything that is reached from a solver or a scorer: its code, and the values that the code holds.

The walk begins with an object and follows the names that code reads, the variables it closes over, defaults, attributes
and members. A person's own code counts by its text, that of packages by their versions. A function or class is named by
its qualified name; those of another file of one's own have the name of that module in front.
"""

from __future__ import annotations

import ast
import enum
import functools
import gc
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from types import (
    FunctionType,
    MethodType,
)
from typing import Any

from holdfast.run.core.records import CODE, MEMBER, ORDER_OF, VALUE
from holdfast.tasks.source.syntax import Definition, find_class
from holdfast.tasks.source.values.class_members import counts_in_class, declares_something
from holdfast.tasks.source.values.definition_parts import (
    given_names,
    is_class,
    module_of_code,
    namespace_of,
)
from holdfast.tasks.source.values.package_state import package_states
from holdfast.tasks.source.values.running_source import SourceText, running_definition, source_lines
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode, order_node, shown_line
from holdfast.tasks.source.values.text.code_text import (
    ASSERTS,
    DECLARED_OF_CLASS,
    GOES_THROUGH_ATTRIBUTES,
    code_text,
)
from holdfast.tasks.source.values.type_parts import (
    issubclass_of,
    type_dict,
    type_qualname,
)
from holdfast.tasks.source.values.walk.class_walk import ClassWalk
from holdfast.tasks.source.values.walk.held_values import (
    ModuleNames,
    TakenTree,
    is_own_name,
)

_CHANGEABLE = frozenset(
    map(id, (list, dict, set, bytearray, deque, OrderedDict, Counter, defaultdict, types.SimpleNamespace))
)
"""Containers that can be changed in place."""
_READS_LINES = frozenset(
    {"f_lineno", "tb_lineno", "co_firstlineno", "co_lines", "co_positions", "getlineno", "getframeinfo"}
    | {"getsourcelines", "findsource"}
)
"""Names by which code sees on which line something is."""
_READS_SOURCE = _READS_LINES | {
    *("getsource", "getcomments", "getsourcefile", "getlines"),
    *("co_varnames", "co_names", "co_consts", "co_code", "co_cellvars", "co_freevars", "co_nlocals", "f_locals"),
}
"""Names by which code sees how something is written, with comments or the names of its variables."""


class ReachedValues(ClassWalk):
    """One walk, from one object."""

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
        self._add_package_states()
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
            own = [name for name, value in space.values.items() if not name.startswith("__") and is_own_name(value)]
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

    def _put_order(self, path: str, names: list[str], space: ModuleNames | None = None) -> None:
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
        """Source as it is written, comments included, where code reads it; and its line, where code reads that."""
        mentioned = frozenset().union(*(text.mentioned for text in self._texts))
        if not _READS_SOURCE & mentioned:
            return
        for value, key in self._definitions:
            if (found := self._defined(value)) is not None:
                if _READS_LINES & mentioned:
                    line = str(found[1].lineno)
                    self._put(f"{key} (line)", TakenNode(VALUE, line.encode(), line), self._space_of(value))
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

    def _add_package_states(self) -> None:
        """What is set for the whole process; a run of an earlier version has none of it on record."""
        for name, state in package_states(self._packages):
            text = repr(state)
            self._put(name, TakenNode(MEMBER, text.encode(), shown_line(text)))

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
