"""The names of one scope of code: its variables, its definitions, and what it imports."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.tasks.source.values.text.name_chains import literal_import

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CLOSED = (*_FUNCTIONS, ast.ClassDef, ast.Constant, ast.expr_context)
"""What is not entered for the names of a scope."""
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class LocalImport(NamedTuple):
    """An import inside a function: what the name stands for there."""

    level: int
    module: str
    attribute: str
    """Empty where the name stands for the module itself."""


class ScopeNames(NamedTuple):
    """The names that belong to one scope of the code."""

    renamed: frozenset[str]
    """Its variables, whose names do not matter."""
    kept: frozenset[str]
    """Its parameters and definitions, and the names in the body of a class."""
    imported: dict[str, LocalImport]
    is_class: bool = False


def bound_imports(item: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, LocalImport]]:
    """The names that an import binds, and what each stands for."""
    for alias in item.names:
        if isinstance(item, ast.ImportFrom):
            yield alias.asname or alias.name, LocalImport(item.level, item.module or "", alias.name)
        elif alias.asname:
            yield alias.asname, LocalImport(0, alias.name, "")
        else:
            yield alias.name.partition(".")[0], LocalImport(0, alias.name.partition(".")[0], "")
            if "." in alias.name:
                yield "", LocalImport(0, alias.name, "")


def imports_within(nodes: Iterable[ast.AST]) -> Iterator[LocalImport]:
    """Everything that the imports among these nodes import."""
    for inner in nodes:
        if isinstance(inner, ast.Import | ast.ImportFrom):
            yield from (found for _, found in bound_imports(inner))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one scope; definitions and comprehensions within are given, and not entered."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, COMPREHENSIONS):
            # An assignment expression in a comprehension binds in the function around it.
            waiting += [inner for inner in ast.walk(current) if isinstance(inner, ast.NamedExpr)]
        elif not isinstance(current, _CLOSED):
            for field in current._fields:
                value = getattr(current, field, None)
                if type(value) is list:
                    waiting += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    waiting.append(value)


def _scope_names(inside: Iterable[ast.AST]) -> tuple[set[str], set[str], dict[str, LocalImport]]:
    """The variables, the definitions and the imports of a scope, without those declared to be of another one."""
    renamed: set[str] = set()
    kept: set[str] = set()
    imported: dict[str, LocalImport] = {}
    called: dict[str, LocalImport] = {}
    elsewhere: set[str] = set()
    stores: Counter[str] = Counter()
    for node in inside:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            renamed.add(node.id)
            stores[node.id] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kept.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported.update((bound, found) for bound, found in bound_imports(node) if bound)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and literal_import(node.value):
            called[node.targets[0].id] = LocalImport(0, literal_import(node.value), "")
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            renamed.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            renamed.add(node.rest)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.update(node.names)
    # A variable that stands for a module, and for nothing else, is as good as an import.
    modules = {name: found for name, found in called.items() if stores[name] == 1}
    renamed -= modules.keys()
    imported |= modules
    # A name that is imported in one place and assigned in another may be either.
    imported = {name: found for name, found in imported.items() if name not in renamed | kept | elsewhere}
    return renamed - kept - elsewhere, kept - elsewhere, imported


def function_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ScopeNames:
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    holder = ast.Module(body=[ast.Expr(item) if isinstance(item, ast.expr) else item for item in body], type_ignores=[])
    renamed, kept, imported = _scope_names(_inside(holder))
    given = node.args
    parameters = {item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    parameters |= {item.arg for item in (given.vararg, given.kwarg) if item is not None}
    return ScopeNames(
        frozenset(renamed - parameters),
        frozenset(kept | parameters),
        {name: found for name, found in imported.items() if name not in parameters},
    )


def class_names(node: ast.ClassDef) -> ScopeNames:
    renamed, kept, imported = _scope_names(_inside(ast.Module(body=node.body, type_ignores=[])))
    return ScopeNames(frozenset(), frozenset(renamed | kept), imported, is_class=True)


def comprehension_names(node: ast.AST) -> ScopeNames:
    targets = [generator.target for generator in getattr(node, "generators", [])]
    names = {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
    return ScopeNames(frozenset(names), frozenset(), {})
