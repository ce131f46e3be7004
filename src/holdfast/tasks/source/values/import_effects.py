"""Lines that change the state of a package when a file is loaded: `random.seed(1)`, `decimal.getcontext().prec = 5`.

Such a state is in no value that code reaches, so the lines themselves count, where reached code uses the package.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from holdfast.tasks.source.syntax import Chain
from holdfast.tasks.source.values.installed_packages import is_of_holdfast, is_own_file, is_own_module
from holdfast.tasks.source.values.running_source import SourceText, syntax_nodes
from holdfast.tasks.source.values.type_parts import type_module

_SETS_STATE = re.compile(r"seed|^set|^getcontext$|config|option|environ|putenv|locale", re.IGNORECASE)
"""How functions and attributes are called that set something for all later calls."""
_WITHOUT_EFFECT = frozenset(
    {"asyncio", "atexit", "faulthandler", "gc", "logging", "multiprocessing", "signal", "sys", "threading", "warnings"}
)
"""Modules of Python whose state changes no prompt and no score."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class ImportEffect(NamedTuple):
    """One statement, and what it changes."""

    package: str
    """The package or module of Python, by the first part of its name."""
    statement: ast.stmt
    variable: str
    """The environment variable that it sets; empty where it sets something else, or one that is not known."""

    def matters_to(self, packages: Collection[str], mentioned: Collection[str]) -> bool:
        """Whether code that uses these packages, and mentions these names, may see the change."""
        return self.package in packages and (not self.variable or self.variable in mentioned)


def import_effects(source: SourceText, values: Mapping[str, Any]) -> Iterator[ImportEffect]:
    """The statements at the level of a module that set the state of a package, also through a function beside them."""
    for statement in _module_level(source.tree.body if source.tree else ()):
        for chain in sorted(_setters(statement)):
            value = values.get(chain[0])
            if package := _package_of(value, chain):
                yield ImportEffect(package, statement, _variable(statement) if package == "os" else "")
            elif type(value) is FunctionType and len(chain) == 1 and is_own_file(value.__code__.co_filename):
                for inner in _called_setters(source, value):
                    if package := _package_of(value.__globals__.get(inner[0]), inner):
                        yield ImportEffect(package, statement, "")


def _module_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, _DEFINITIONS):
            continue
        inner = [part for field in ("body", "orelse", "finalbody") for part in getattr(statement, field, ())]
        handled = [part for handler in getattr(statement, "handlers", ()) for part in handler.body]
        yield from _module_level([*inner, *handled]) if inner or handled else (statement,)


def _setters(statement: ast.stmt) -> set[Chain]:
    """The dotted names that a statement calls, or whose parts it assigns to."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return {_dotted(statement.value.func)} - {()}
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Delete):
        targets = [statement.target] if isinstance(statement, ast.AugAssign) else statement.targets
        return {_dotted(target) for target in targets if isinstance(target, ast.Attribute | ast.Subscript)} - {()}
    return set()


def _called_setters(source: SourceText, function: FunctionType) -> set[Chain]:
    """Those within a function of the same file."""
    found = source.definition(function.__code__)
    statements = (node for node in syntax_nodes(found) if isinstance(node, ast.stmt)) if found is not None else ()
    return {chain for statement in statements for chain in _setters(statement)}


def _dotted(node: ast.AST) -> Chain:
    """The names in `a.b().c[d]`: `("a", "b", "c")`."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return ()
    return (node.id, *reversed(parts))


def _package_of(value: object, chain: Chain) -> str:
    """The package whose state a call of this name sets; empty where it sets none."""
    if type(value) is ModuleType:
        package = value.__name__ if not is_own_module(value) and any(map(_SETS_STATE.search, chain[1:])) else ""
    else:
        package = _imported_from(value) if _SETS_STATE.search(chain[0]) else ""
    top = package.partition(".")[0].lstrip("_")
    return "" if top in _WITHOUT_EFFECT or is_of_holdfast(top) else top


def _imported_from(value: object) -> str:
    """The module of a function of a package, as in `from random import seed`, or of the environment."""
    function = value.__func__ if type(value) is MethodType else value
    if type(function) is FunctionType:
        return "" if is_own_file(function.__code__.co_filename) else function.__module__ or ""
    if type(function) is BuiltinFunctionType:
        return function.__module__ or type_module(type(function.__self__))
    return "os" if function is os.environ else ""


def _variable(statement: ast.stmt) -> str:
    """The first name in quotes, which is that of the variable: in `os.environ["A"] = "b"`, `A`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign | ast.Delete) else statement
    texts = (node.value for node in ast.walk(target) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return next((text for text in texts if text.isidentifier()), "")
