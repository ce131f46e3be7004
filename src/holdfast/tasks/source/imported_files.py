"""The files that code cannot be loaded without: its own, and those of one's own that they import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from holdfast.tasks.source.origin import is_local
from holdfast.tasks.source.syntax import parse_file


def with_imported_files(paths: Iterable[Path]) -> set[Path]:
    """The files, and every file of one's own that they import at any remove, also inside functions."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file() and is_local(str(path)):
            found.add(path)
            waiting += _imported_files(path)
    return found


def _imported_files(path: Path) -> Iterator[Path]:
    tree = parse_file(str(path))
    package = _package_of(path)
    for node in ast.walk(tree) if tree else ():
        for name in _module_names(node, package):
            yield from _files_of(name, path.parent)


def _package_of(path: Path) -> str:
    """The package that a loaded file belongs to, which relative imports start at; empty for one that is alone."""
    modules = (module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == str(path))
    return next((str(getattr(module, "__package__", "") or "") for module in modules), "")


def _module_names(node: ast.AST, package: str) -> Iterator[str]:
    """The modules that a statement imports; a name taken from a package may be one as well."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        home = ".".join([*above, *([node.module] if node.module else [])])
        yield home
        yield from (f"{home}.{alias.name}" for alias in node.names)


def _files_of(name: str, beside: Path) -> Iterator[Path]:
    """The files of a module and of the packages above it: where it was loaded from, or else beside the importer."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        loaded: ModuleType | None = sys.modules.get(".".join(parts[:count]))
        if loaded is None:
            place = beside.joinpath(*parts[:count])
            yield from (place.with_name(f"{place.name}.py"), place / "__init__.py")
        elif getattr(loaded, "__file__", None):
            yield Path(str(loaded.__file__))
