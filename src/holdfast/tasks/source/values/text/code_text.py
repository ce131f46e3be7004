"""The text of code as it counts: what it does, without how it is written.

Comments, docstrings, formatting, type annotations, the names of local variables, imports that nothing uses and plain
`print` lines do not count. Beside the text is what the code refers to outside itself, which is followed from there.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.models.secret_parts import SHORTEST
from holdfast.tasks.source.syntax import Chain
from holdfast.tasks.source.values.text.name_chains import global_item, last_name, literal_import, name_chain
from holdfast.tasks.source.values.text.scope_names import (
    COMPREHENSIONS,
    LocalImport,
    ScopeNames,
    bound_imports,
    class_names,
    comprehension_names,
    function_names,
)

Mask = Callable[[str], str]
"""From a text to the same without the keys in it."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_READS_NAMES = frozenset({"locals", "vars", "eval", "exec", "dir", "globals"})
"""Builtins through which code sees the names of its variables."""
DECLARED_OF_CLASS = (
    *("__doc__", "__annotations__", "__total__", "__required_keys__", "__optional_keys__", "__abstractmethods__"),
    "__slots__",
)
"""What a class says of itself, and what Python works out from that."""
_READS_DEFINITIONS = frozenset(
    {
        *DECLARED_OF_CLASS,
        "__readonly_keys__",
        "__mutable_keys__",
        "__protocol_attrs__",
        "getdoc",
        "get_type_hints",
        "signature",
        "getsource",
        "get_annotations",
    }
    | {"getfullargspec", "getsourcelines", "__signature__", "__orig_bases__", "get_original_bases"}
    | {"__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "model_fields", "model_json_schema"}
)
"""Names through which code sees docstrings and annotations, wherever they stand."""
_DEFINITION_READERS = frozenset(
    {"fields", "schema", "json_schema", "convert", "TypeAdapter", "Decoder", "create_model", "validate_call", "help"}
)
"""The same for names that mean this only as a function of a module: `dataclasses.fields`."""
_TYPE_KEYWORDS = frozenset({"type", "response_model", "response_format", "tools"})
"""Arguments by which packages are given a class or a function to look at."""
_READS_ALL = frozenset({(("globals",), 0), (("vars",), 0), (("eval",), 1), (("exec",), 1)})
"""Calls, and their number of arguments, that reach any name of a module."""
GOES_THROUGH_ATTRIBUTES = "__dict__()"
"""Among the names that code mentions: it may go through the attributes of anything, in their order."""
ASSERTS = "assert"
"""Among the names that code mentions: it has such statements, which Python leaves out under `-O`."""
_NAMESPACES = frozenset({("vars",), ("globals",)})
_LOOK_UPS = frozenset({"get", "update", "pop", "setdefault", "__setitem__", "__getitem__", "__contains__"})
"""Methods of a map that do not go through it."""
_DEEPEST = 10_000
_MUTATORS = frozenset(
    {"add", "append", "appendleft", "extend", "extendleft", "insert", "update", "setdefault", "pop", "popitem"}
    | {"popleft", "clear", "remove", "discard", "__setitem__", "put", "put_nowait", "increment", "subtract"}
)
_LEFT_OUT = frozenset({"type_comment", "kind", "type_params", "ctx", "lineno", "annotation", "returns"})


class CodeText(NamedTuple):
    """What a piece of code says."""

    text: str
    references: list[Chain]
    """The names outside of it that it reads, with the attributes that follow them; sorted."""
    imports: list[tuple[LocalImport, Chain]]
    """What it uses of what it imports: the attributes that it reads of that."""
    imported: list[LocalImport]
    """What it imports, used or not."""
    free: list[str]
    """The variables of the functions around it, in the order in which it uses them."""
    written: set[str]
    """The names of variables and attributes that it changes."""
    mentioned: frozenset[str]
    """Every name and attribute in it, and the texts that it may look one up by."""
    iterated: frozenset[str]
    """Of those, the ones that it may go through one by one: it does more than to look something up in them."""
    long_texts: list[str]
    """The texts in it that are long enough to be keys."""
    reads_definitions: bool
    """Whether it looks at docstrings or annotations."""
    reads_namespace: bool
    """Whether it can read any name of its module."""


def code_text(
    nodes: Iterable[ast.AST],
    free: Iterable[str] = (),
    mask: Mask = str,
    *,
    documented: bool = False,
    prints: bool = True,
) -> CodeText:
    """What code says; `free` are the names of the functions around it.

    `documented` adds docstrings and annotations; `prints` says that `print` is Python's own.
    """
    listed, options = list(nodes), _Options(frozenset(free), mask, documented, prints)
    with _deep_recursion():
        writer = _Writer(options, renames=True)
        text = " ".join(writer.write(node, ()) for node in listed)
        if writer.mentioned & _READS_NAMES:
            # The names of its variables are part of what it does.
            writer = _Writer(options, renames=False)
            text = " ".join(writer.write(node, ()) for node in listed)
    if writer.namespaces > 0:
        writer.mentioned.add(GOES_THROUGH_ATTRIBUTES)
    return CodeText(
        text,
        sorted(writer.references),
        sorted(writer.imports),
        sorted(writer.imported),
        list(writer.free_used),
        writer.written - {""},
        mentioned=frozenset(writer.mentioned),
        iterated=frozenset(name for name, count in writer.uses.items() if count > writer.lookups[name]),
        long_texts=writer.long_texts,
        reads_definitions=writer.reads_definitions,
        reads_namespace=writer.reads_namespace or ("sys", "modules") in writer.references,
    )


class _Options(NamedTuple):
    free: frozenset[str]
    mask: Mask
    documented: bool
    prints: bool


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Long sums and chains of `elif` are nested as deeply in the syntax as they are long."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


_Scopes = tuple[ScopeNames, ...]


class _Writer:
    def __init__(self, options: _Options, *, renames: bool) -> None:
        self._free, self._mask, self._documented, self._prints = options
        self._renames = renames
        self._numbers: dict[tuple[int, str], int] = {}
        self.references: set[Chain] = set()
        self.imports: set[tuple[LocalImport, Chain]] = set()
        self.imported: set[LocalImport] = set()
        self.free_used: dict[str, None] = {}
        self.mentioned: set[str] = set()
        self.written: set[str] = set()
        self.long_texts: list[str] = []
        self.uses: Counter[str] = Counter()
        self.lookups: Counter[str] = Counter()
        """How often names are used, and used only to look one thing up, to search or to count."""
        self.namespaces = 0
        """How often the names of something are taken as a map, and not only to look one of them up."""
        self.reads_namespace = False
        self._gives_types = False

    def write(self, node: ast.AST, scopes: _Scopes) -> str:
        if isinstance(node, ast.Name | ast.Attribute):
            return self._attribute(node, scopes)
        if isinstance(node, ast.Constant):
            return self._constant(node.value)
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return self._class(node, scopes) if isinstance(node, ast.ClassDef) else self._function(node, scopes)
        if isinstance(node, COMPREHENSIONS):
            return self._fields(node, (*scopes, comprehension_names(node)))
        if isinstance(node, ast.Subscript):
            return self._subscript(node, scopes)
        self._look_at(node)
        return self._fields(node, scopes)

    def _look_at(self, node: ast.AST) -> None:
        """What a node says beside its own text."""
        if isinstance(node, ast.Call):
            self._look_at_call(node, ())
        elif isinstance(node, ast.Compare) and all(isinstance(sign, ast.In | ast.NotIn) for sign in node.ops):
            for searched in node.comparators:
                self.lookups.update(name_chain(searched))
                self._looks_up_in_namespace(searched)
        elif isinstance(node, ast.AugAssign):
            self.written.add(last_name(node.target))
        elif isinstance(node, ast.Assert):
            self.mentioned.add(ASSERTS)

    @property
    def reads_definitions(self) -> bool:
        chains = [*self.references, *((found.attribute, *chain) for found, chain in self.imports)]
        is_read = any(_DEFINITION_READERS.intersection(chain) for chain in chains)
        return is_read or bool(self.mentioned & _READS_DEFINITIONS) or self._gives_types

    def _subscript(self, node: ast.Subscript, scopes: _Scopes) -> str:
        if not isinstance(node.ctx, ast.Load):
            self.written.add(last_name(node.value))
        self.lookups.update(name_chain(node.value))
        if name := global_item(node):
            self.references.add((name,))
            return f"globals.{name}"
        self._looks_up_in_namespace(node.value)
        if name := literal_import(node):
            self.imports.add((LocalImport(0, name, ""), ()))
        return self._fields(node, scopes)

    def _look_at_call(self, node: ast.Call, attributes: Chain) -> None:
        """Calls that reach something by a name that is only a text, or by any name at all."""
        called = name_chain(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOOK_UPS:
            self._looks_up_in_namespace(node.func.value)
        if called == ("len",) and node.args:
            self.lookups.update(name_chain(node.args[0]))
        elif called[1:] and called[-1] == "get":
            self.lookups.update(called[:-1])
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
            self.written.add(last_name(node.func.value))
        if name := literal_import(node):
            self.imports.add((LocalImport(0, name, ""), attributes))
        if called == ("getattr",) and not isinstance(getattr(node.args[1:2] and node.args[1], "value", None), str):
            self.mentioned.add("getattr()")
        given = (item for item in node.keywords if item.arg in _TYPE_KEYWORDS)
        self._gives_types |= any(not isinstance(item.value, ast.Constant) for item in given)
        # Without a namespace of its own, text that is run sees every name of the module.
        self.reads_namespace |= (called, len(node.args) + len(node.keywords)) in _READS_ALL

    def _looks_up_in_namespace(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call) and name_chain(node.func) in _NAMESPACES:
            self.namespaces -= 1

    def _fields(self, node: ast.AST, scopes: _Scopes) -> str:
        if isinstance(node, ast.AnnAssign) and not self._documented:
            # The annotation of a variable does nothing.
            node = ast.Assign([node.target], node.value) if node.value is not None else ast.Pass()
        parts = [type(node).__name__]
        for field, value in ast.iter_fields(node):
            if value is None or value == [] or (field in _LEFT_OUT and not self._is_documentation(field)):
                continue
            parts.append(f"{field}={self._value(node, field, value, scopes)}")
        return f"({' '.join(parts)})"

    def _is_documentation(self, field: str) -> bool:
        return self._documented and field in {"annotation", "returns"}

    def _value(self, node: ast.AST, field: str, value: object, scopes: _Scopes) -> str:
        if isinstance(value, ast.AST):
            return self.write(value, scopes)
        if isinstance(value, list):
            items = self._body(node, value, scopes) if _is_body(field, value) else value
            return f"[{' '.join(self._value(node, '', item, scopes) for item in items)}]"
        if isinstance(value, str) and field in {"name", "rest", "arg"} and not isinstance(node, ast.arg | ast.keyword):
            return self._name(value, scopes)
        return repr(value)

    def _body(self, node: ast.AST, body: list[ast.stmt], scopes: _Scopes) -> list[ast.stmt]:
        """The statements that do something."""
        kept = body if self._documented else _without_docstring(node, body)
        kept = [item for item in kept if not self._does_nothing(item, scopes)]
        return kept or [ast.Pass()]

    def _does_nothing(self, item: ast.stmt, scopes: _Scopes) -> bool:
        if isinstance(item, ast.Import | ast.ImportFrom):
            self.imported.update(found for _, found in bound_imports(item))
            return True
        if isinstance(item, ast.AnnAssign):
            return item.value is None and not self._documented
        if isinstance(item, ast.Global | ast.Nonlocal):
            self.written.update(item.names)
        # Where a name is declared to belong shows in how the name itself is written.
        return isinstance(item, ast.Pass | ast.Global | ast.Nonlocal) or (
            self._prints and _is_plain_print(item) and self._is_global("print", scopes)
        )

    def _is_global(self, name: str, scopes: _Scopes) -> bool:
        return all(name not in scope.renamed | scope.kept and name not in scope.imported for scope in scopes)

    def _constant(self, value: object) -> str:
        if isinstance(value, str):
            if value.isidentifier():
                self.mentioned.add(value)
            if len(value) >= SHORTEST:
                self.long_texts.append(value)
            return repr(self._mask(value))
        if isinstance(value, frozenset):
            return f"frozenset({sorted(map(repr, value))})"
        return (
            f"{type(value).__name__} {value!r}" if not isinstance(value, int) else f"{type(value).__name__} {value:x}"
        )

    def _attribute(self, node: ast.Name | ast.Attribute, scopes: _Scopes) -> str:
        attributes: list[str] = []
        current: ast.AST = node
        while isinstance(current, ast.Attribute):
            attributes.append(current.attr)
            current = current.value
        self.mentioned.update(attributes)
        if "__dict__" in attributes and attributes[attributes.index("__dict__") - 1] not in _LOOK_UPS:
            self.mentioned.add(GOES_THROUGH_ATTRIBUTES)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            self.written.add(node.attr)
        self.namespaces += name_chain(node) in _NAMESPACES
        if isinstance(current, ast.Name):
            return self._chain((current.id, *reversed(attributes)), scopes)
        if name := literal_import(current):
            self.imports.add((LocalImport(0, name, ""), tuple(reversed(attributes))))
            return f"{self._fields(current, scopes)}.{'.'.join(reversed(attributes))}"
        return f"{self.write(current, scopes)}.{'.'.join(reversed(attributes))}"

    def _chain(self, chain: Chain, scopes: _Scopes) -> str:
        for depth, scope in reversed(list(enumerate(scopes))):
            if scope.is_class and depth != len(scopes) - 1:
                continue
            if chain[0] in scope.imported:
                found = scope.imported[chain[0]]
                self.imports.add((found, chain[1:]))
                self.uses.update((found.attribute, *chain))
                return ".".join((f"<{'.' * found.level}{found.module} {found.attribute}>", *chain[1:]))
            if chain[0] in scope.renamed:
                return ".".join((self._number(depth, chain[0]), *chain[1:]))
            if chain[0] in scope.kept:
                return ".".join(chain)
        if chain[0] in self._free:
            self.free_used.setdefault(chain[0])
            return ".".join((self._number(-1, chain[0]), *chain[1:]))
        self.references.add(chain)
        self.mentioned.update(chain)
        self.uses.update(chain)
        return ".".join(chain)

    def _name(self, name: str, scopes: _Scopes) -> str:
        """A name that is bound by something else than an assignment."""
        if scopes and name in scopes[-1].renamed:
            return self._number(len(scopes) - 1, name)
        return name

    def _number(self, depth: int, name: str) -> str:
        return f"${self._numbers.setdefault((depth, name), len(self._numbers))}" if self._renames else name

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scopes: _Scopes) -> str:
        inner = (*scopes, function_names(node))
        parts = [type(node).__name__]
        if not isinstance(node, ast.Lambda):
            parts.append(node.name)
            parts += [self.write(decorator, scopes) for decorator in node.decorator_list]
            if self._documented and node.returns is not None:
                parts.append(self.write(node.returns, scopes))
        parts.append(self._parameters(node.args, scopes))
        body = [node.body] if isinstance(node, ast.Lambda) else self._body(node, node.body, inner)
        return f"({' '.join([*parts, *(self.write(item, inner) for item in body)])})"

    def _parameters(self, given: ast.arguments, scopes: _Scopes) -> str:
        """The parameters by name; defaults are evaluated in the scope around the function."""
        named = [given.posonlyargs, given.args, [given.vararg] if given.vararg else [], given.kwonlyargs]
        groups = ["/".join(self._parameter(item, scopes) for item in group) for group in named]
        defaults = [self.write(item, scopes) if item else "-" for item in (*given.defaults, *given.kw_defaults)]
        return f"[{'; '.join(groups)}; {given.kwarg.arg if given.kwarg else ''}; {' '.join(defaults)}]"

    def _parameter(self, item: ast.arg, scopes: _Scopes) -> str:
        hint = f":{self.write(item.annotation, scopes)}" if self._documented and item.annotation else ""
        return item.arg + hint

    def _class(self, node: ast.ClassDef, scopes: _Scopes) -> str:
        inner = (*scopes, class_names(node))
        outside = [*node.decorator_list, *node.bases, *node.keywords]
        body = self._body(node, node.body, inner)
        written = [*(self.write(item, scopes) for item in outside), *(self.write(item, inner) for item in body)]
        return f"(ClassDef {node.name} {' '.join(written)})"


def _is_body(field: str, value: list[object]) -> bool:
    return field in {"body", "orelse", "finalbody"} and all(isinstance(item, ast.stmt) for item in value)


def _without_docstring(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    first = body[0] if documented and body else None
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def _is_plain_print(item: ast.stmt) -> bool:
    """Whether a statement only prints what is there already."""
    call = item.value if isinstance(item, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"):
        return False
    acting = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    # A stream to write to may be anything.
    return not call.keywords and not any(isinstance(inner, acting) for item in given for inner in ast.walk(item))
