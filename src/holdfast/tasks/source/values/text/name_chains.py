"""Dotted names in syntax: what is written as `a.b.c`, or named by a text in a call or in brackets."""

from __future__ import annotations

import ast

from holdfast.tasks.source.syntax import Chain

_IMPORTERS = frozenset({("importlib", "import_module"), ("import_module",), ("__import__",)})


def name_chain(node: ast.AST) -> Chain:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def literal_import(node: ast.AST) -> str:
    """The module in `import_module("name")` and `sys.modules["name"]`."""
    given: object = None
    if isinstance(node, ast.Call) and node.args and name_chain(node.func) in _IMPORTERS:
        given = getattr(node.args[0], "value", None)
    elif isinstance(node, ast.Subscript) and name_chain(node.value) == ("sys", "modules"):
        given = getattr(node.slice, "value", None)
    return given if isinstance(given, str) else ""


def global_item(node: ast.Subscript) -> str:
    """The name in `globals()["NAME"]`."""
    is_globals = isinstance(node.value, ast.Call) and name_chain(node.value.func) == ("globals",)
    name = getattr(node.slice, "value", None)
    return name if is_globals and isinstance(name, str) else ""


def last_name(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
