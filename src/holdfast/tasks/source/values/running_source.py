"""The source of the code that runs, which is not always what its file says now.

A file may have been edited since it was imported, as in a notebook. So a piece of source counts only if it compiles to
the very code that runs; texts that did so once are remembered while the process lives.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from collections.abc import Iterator, Mapping
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from holdfast.tasks.source.syntax import Definition, find_function

_KNOWN: dict[str, list[SourceText]] = {}
"""By file name, the texts that running code was compiled from, the newest last."""


class SourceText:
    """One text of a file."""

    def __init__(self, filename: str, text: str) -> None:
        self.filename, self.text = filename, text

    @functools.cached_property
    def tree(self) -> ast.Module | None:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the syntax: it is gone through for several reasons, and only once."""
        return list(syntax_nodes(self.tree)) if self.tree is not None else []

    @functools.cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @functools.cached_property
    def _definitions(self) -> dict[tuple[str, int], list[Definition]]:
        """The functions by their name and first line."""
        found: dict[tuple[str, int], list[Definition]] = {}
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                line = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                found.setdefault((node.name, line), []).append(node)
            elif isinstance(node, ast.Lambda):
                found.setdefault(("<lambda>", node.lineno), []).append(node)
        return found

    @functools.cached_property
    def _codes(self) -> set[CodeType]:
        """Every code object that the text compiles to."""
        if self.tree is None:
            return set()
        try:
            # A cell of a notebook may await at its top level.
            whole = compile(self.tree, self.filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return set()
        return set(_codes_within(whole))

    def definition(self, code: CodeType, *, is_known: bool = False) -> Definition | None:
        """The definition that the code was compiled from; None where this text is not its source.

        `is_known` where the module is known to be loaded from this text.
        """
        candidates = self._definitions.get((code.co_name, code.co_firstlineno), [])
        if not candidates or self.tree is None:
            return None
        if not is_known and code not in self._codes and not _may_be_rewritten(candidates[0]):
            return None
        return candidates[0] if len(candidates) == 1 else find_function(self.tree, code)  # type: ignore[return-value]


def source_lines(source: SourceText, node: Definition | ast.ClassDef) -> str:
    """The lines of a definition as they are written, with comments and decorators."""
    first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
    return "\n".join(source.lines[first - 1 : node.end_lineno])


def syntax_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node below and including one, as `ast.walk` gives them, without those that say nothing more."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                waiting += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _MARKS):
                waiting.append(value)


_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


def _may_be_rewritten(node: Definition) -> bool:
    """Whether a test runner may have rewritten an `assert` in it: its code is then never what is compiled here."""
    return any(isinstance(inner, ast.Assert) for inner in ast.walk(node))


def _codes_within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_within(constant)


_CODE_IDS: dict[int, tuple[CodeType, frozenset[int]]] = {}
"""By the identity of a module's code, that code, so that it keeps its identity, and those of all code within."""


def _is_loaded_with(whole: object, code: CodeType) -> bool:
    """Whether code is the very code that a module was loaded with: a function may have been given another."""
    if type(whole) is not CodeType:
        return False
    if id(whole) not in _CODE_IDS:
        _CODE_IDS[id(whole)] = whole, frozenset(map(id, _codes_within(whole)))
    return id(code) in _CODE_IDS[id(whole)][1]


def running_definition(code: CodeType, values: Mapping[str, Any]) -> tuple[SourceText, Definition] | None:
    """The source that a function's code was compiled from, and its place there; None where it is not known any more.

    `values` are the names of the function's module.
    """
    known = _KNOWN.setdefault(code.co_filename, [])
    loaded = values.get("__holdfast_source__")
    if isinstance(loaded, bytes) and values.get("__file__") == code.co_filename:
        source = _remembered(SourceText(code.co_filename, _decoded(loaded)), known)
        is_known = _is_loaded_with(values.get("__holdfast_code__"), code)
        if (found := source.definition(code, is_known=is_known)) is not None:
            return source, found
    # The file is read only if no text that is known will do.
    for source in itertools.chain(known[::-1], _texts_now(code.co_filename, known)):
        if (found := source.definition(code)) is not None:
            return _remembered(source, known), found
    return _executed_definition(code, values)


def _executed_definition(code: CodeType, values: Mapping[str, Any]) -> tuple[SourceText, Definition] | None:
    """The same for code that `exec` made, in a module that says which file it is from."""
    filename = values.get("__file__")
    if (
        not code.co_filename.startswith("<")
        or not isinstance(filename, str)
        or isinstance(values.get("__holdfast_source__"), bytes)
    ):
        return None
    known = _KNOWN.setdefault(filename, [])
    for source in itertools.chain(known[::-1], _texts_now(filename, known)):
        if (found := source.definition(code)) is not None:
            return _remembered(source, known), found
    return None


def module_source(filename: str, values: Mapping[str, Any]) -> SourceText | None:
    """The source of the module with these names: what its functions come from or, where it has none, its file."""
    known = _KNOWN.setdefault(filename, [])
    loaded = values.get("__holdfast_source__")
    if isinstance(loaded, bytes):
        return _remembered(SourceText(filename, _decoded(loaded)), known)
    functions = (item for item in values.values() if type(item) is FunctionType)
    codes = [item.__code__ for item in functions if item.__code__.co_filename == filename]
    last = None
    for last in itertools.chain(known[::-1], _texts_now(filename, known)):
        if any(last.definition(code) is not None for code in codes):
            break
    return None if last is None else _remembered(last, known)


_decoded = functools.lru_cache(maxsize=64)(decode_source)


def _remembered(source: SourceText, known: list[SourceText]) -> SourceText:
    """The same text as it was met before, so that it is not parsed again."""
    found = next((other for other in known if other.text == source.text), None)
    if found is None:
        known.append(source)
    return found or source


def _texts_now(filename: str, known: list[SourceText]) -> Iterator[SourceText]:
    """What a file, or a cell of a notebook, says: as remembered by Python, and as it is on the disk now."""
    seen = {source.text for source in known}
    text = "".join(linecache.getlines(filename))
    if text and text not in seen:
        yield SourceText(filename, text)
        seen.add(text)
    if (now := _text_on_disk(filename)) and now not in seen:
        yield SourceText(filename, now)


def _text_on_disk(filename: str) -> str:
    path = Path(filename)
    if not path.is_absolute():
        return ""
    try:
        with path.open("rb") as stream:
            content = stream.read()
        return decode_source(content)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
