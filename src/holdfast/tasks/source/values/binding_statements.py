"""The statements that give a name its value: those that bind it, and those that change what it stands for.

They count for a value that cannot be compared, and for one that is another at every import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from holdfast.tasks.source.syntax import Chain
from holdfast.tasks.source.values.running_source import SourceText, syntax_nodes

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BOUND: WeakKeyDictionary[SourceText, dict[str, list[ast.stmt]]] = WeakKeyDictionary()


def statements_of(source: SourceText, name: str) -> list[ast.stmt]:
    """The statements at the level of the module that bind a name or change its value."""
    if source not in _BOUND:
        _BOUND[source] = _by_name(source.tree.body if source.tree else ())
    return _BOUND[source].get(name, [])


def statements_binding(body: Iterable[ast.stmt], name: str) -> list[ast.stmt]:
    """Those of a list of statements that bind a name or change its value."""
    return [statement for statement in body if name in _changed_by(statement)]


def statements_naming(source: SourceText, name: str) -> list[ast.stmt]:
    """Every line of the module that names a function or class, wherever it is, and the definition itself."""
    statements = (node for node in source.nodes if isinstance(node, ast.stmt))
    naming = [node for node in statements if _may_name(source, node, name) and _is_about(node, name)]
    return sorted(naming, key=lambda node: (node.lineno, node.col_offset))


def patched_attributes(source: SourceText) -> Iterator[Chain]:
    """The dotted names that code assigns to or changes, wherever it is: `json.dumps = …`,
    `setattr(json, "dumps", …)`, `json.dumps.__kwdefaults__["indent"] = …`.
    """
    for node in source.nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            chain = dotted_name(_without_items(node))
            if chain[1:] and chain not in _OF_THE_PROCESS:
                yield chain
        elif isinstance(node, ast.Call) and dotted_name(node.func) == ("setattr",) and len(node.args) == 3:
            home, name = dotted_name(node.args[0]), getattr(node.args[1], "value", None)
            if home and isinstance(name, str):
                yield (*home, name)


_OF_THE_PROCESS = frozenset({("os", "environ"), ("sys", "modules"), ("sys", "path"), ("sys", "argv")})
"""Tables that hold far more than what one line puts into them."""


def _without_items(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def dotted_name(node: ast.AST) -> Chain:
    """The names in `a.b.c`; empty for anything else."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def _may_name(source: SourceText, node: ast.stmt, name: str) -> bool:
    """Whether a name is in the lines of a statement at all."""
    return any(name in line for line in source.lines[node.lineno - 1 : node.end_lineno])


def _is_about(node: ast.stmt, name: str) -> bool:
    if isinstance(node, _DEFINITIONS):
        return node.name == name
    return not hasattr(node, "body") and _names(node, name)


def _by_name(body: Iterable[ast.stmt]) -> dict[str, list[ast.stmt]]:
    found: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for name in sorted(_changed_by(statement)):
            found.setdefault(name, []).append(statement)
    return found


def _changed_by(statement: ast.stmt) -> set[str]:
    """The names that a statement of the module binds or changes; of a definition, also those it declares global."""
    if isinstance(statement, _DEFINITIONS):
        declared = (node.names for node in syntax_nodes(statement) if isinstance(node, ast.Global))
        return {statement.name, *(name for names in declared for name in names)}
    found: set[str] = set()
    for node in syntax_nodes(statement):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(_root(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Expr):
            found |= _called_on(node.value)
    return found - {""}


def _called_on(node: ast.expr) -> set[str]:
    """The names that a call as a statement of its own may change."""
    while isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return set()
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return {_root(item) for item in (node.func, *given)}


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.stmt, name: str) -> bool:
    return any(
        (isinstance(inner, ast.Name) and inner.id == name) or (isinstance(inner, ast.Attribute) and inner.attr == name)
        for inner in syntax_nodes(node)
    )
