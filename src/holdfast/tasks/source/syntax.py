"""Python source as syntax: what it says, without comments, docstrings and formatting."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable, Iterator
from types import CodeType

Chain = tuple[str, ...]
"""A dotted name: `helpers.check` is ("helpers", "check")."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def parse_file(filename: str) -> ast.Module | None:
    """The syntax of a file as it was when it was first looked at; None where there is no source."""
    lines = linecache.getlines(filename)
    return _parse_text("".join(lines)) if lines else None


@functools.lru_cache(maxsize=16)
def _parse_text(text: str) -> ast.Module | None:
    """The solver and scorers of a task are mostly in one file, which is looked at for each of them."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


@functools.lru_cache(maxsize=16)
def _definitions(module: ast.Module) -> list[Definition]:
    return [node for node in ast.walk(module) if isinstance(node, Definition)]


def normalised(node: ast.AST) -> str:
    """A spelling of the syntax that changes only when its meaning may.

    Absent and empty parts are left out, so that a part that a newer Python adds makes no difference.
    """
    parts = [type(node).__name__]
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(value, list):
            value = _without_docstring(node, value)  # noqa: PLW2901 - what the loop is about
        if value is not None and value != [] and field not in {"type_comment", "kind"}:
            parts.append(f"{field}={_spelled(value)}")
    return f"({' '.join(parts)})"


def bindings(module: ast.Module) -> dict[str, list[ast.stmt]]:
    """The statements at the level of the module that give each name its meaning."""
    bound: dict[str, list[ast.stmt]] = {}
    for statement in _module_level(module.body):
        for name in _names_bound(statement):
            bound.setdefault(name, []).append(statement)
    return bound


def references(node: ast.AST) -> list[Chain]:
    """Every name that is read inside, with the attributes that follow it; sorted."""
    found: set[Chain] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        chain = _chain(current)
        if chain:
            found.add(chain)
        else:
            waiting += ast.iter_child_nodes(current)
    return sorted(found)


def imports(node: ast.AST) -> Iterator[str]:
    """The modules that are imported inside, by the first part of their names."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.module:
            yield inner.module.partition(".")[0]


def find_function(module: ast.Module, code: CodeType) -> ast.AST | None:
    """The definition that a function's code was compiled from."""
    candidates = [
        node
        for node in _definitions(module)
        if _definition_line(node) == code.co_firstlineno and _definition_name(node) == code.co_name
    ]
    holding = [node for node in candidates if _contains_code(node, code)] if len(candidates) > 1 else candidates
    # Of lambdas within lambdas, the innermost that holds all of the code.
    return min(holding, key=_extent, default=None)


def find_class(module: ast.Module, qualified: str) -> ast.ClassDef | None:
    """The last class of that qualified name; functions around it do not count."""
    wanted = qualified.replace(".<locals>", "").split(".")[-1]
    classes = [node for node in _definitions(module) if isinstance(node, ast.ClassDef) and node.name == wanted]
    return max(classes, key=lambda node: node.lineno, default=None)


def spelled_code(code: CodeType, mask: Callable[[str], str] = str, name_mask: Callable[[str], str] = str) -> str:
    """Compiled code where there is no source: its instructions, names and constants, without its places.

    The masks replace the keys in constants and in names.
    """
    constants = [_spelled_constant(constant, mask, name_mask) for constant in code.co_consts]
    names, variables = (tuple(map(name_mask, listed)) for listed in (code.co_names, code.co_varnames))
    return f"{code.co_code.hex()} {names} {variables} {constants}"


def _spelled_constant(constant: object, mask: Callable[[str], str], name_mask: Callable[[str], str]) -> str:
    if isinstance(constant, CodeType):
        return spelled_code(constant, mask, name_mask)
    if isinstance(constant, frozenset):
        # Its own spelling differs from one process to the next.
        return f"frozenset({{{', '.join(sorted(mask(repr(item)) for item in constant))}}})"
    return mask(repr(constant))


def _spelled(value: object) -> str:
    if isinstance(value, ast.AST):
        return normalised(value)
    if isinstance(value, list):
        return f"[{' '.join(_spelled(item) for item in value)}]"
    return repr(value)


def _without_docstring(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if documented and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        text = isinstance(body[0].value.value, str)
        # A body that was nothing but its docstring does the same as `pass`.
        return (body[1:] or [ast.Pass()]) if text else body
    return body


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those inside if, try, with and loops; a block counts as its parts."""
    for statement in body:
        inner = [
            part
            for field in ("body", "orelse", "finalbody", "handlers")
            for part in getattr(statement, field, [])
            if not isinstance(statement, Definition)
        ]
        if inner:
            yield from _module_level(inner)
        else:
            yield statement


def _names_bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _chain(node: ast.AST) -> Chain:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def _definition_line(node: Definition) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _definition_name(node: Definition) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _contains_code(node: Definition, code: CodeType) -> bool:
    """Whether the code's instructions lie within the node, which tells lambdas on one line apart."""
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    start = (node.lineno, node.col_offset)
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return all(start <= place < end for place in places)


def _extent(node: Definition) -> tuple[int, int]:
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset
