"""What a walk has found: values with what keeps them, names of modules, and the tree."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import (
    CodeType,
    ModuleType,
)
from typing import Any, NamedTuple

from holdfast.run.core.records import BYTECODE
from holdfast.tasks.source.syntax import Definition, spelled_code
from holdfast.tasks.source.values.running_source import SourceText, module_source
from holdfast.tasks.source.values.spelling.hidden_texts import TextMask
from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode
from holdfast.tasks.source.values.text.code_text import (
    CodeText,
)
from holdfast.tasks.source.values.text.scope_names import LocalImport
from holdfast.tasks.source.values.type_parts import (
    type_module,
)


class HeldValue(NamedTuple):
    """A value that has a name of its own, with what keeps it."""

    owner: object
    """What has it: the namespace of a module, a function or a class; None where that is not known."""
    path: str
    value: object
    nodes: dict[str, TakenNode]
    statements: bytes


class TakenTree(NamedTuple):
    """Code and values as they are at one moment."""

    nodes: dict[str, TakenNode]
    held: list[HeldValue]
    files: set[str]
    """The person's own files that it comes from."""
    places: dict[str, str]
    """By name, the file that a person finds it in."""
    written: set[str]
    """The names of what the code itself changes."""
    codes: dict[str, CodeType]
    samples: dict[str, tuple[int, ...]]
    """Of values that are too large, some of their members; they mean something in this process only."""


class ModuleNames(NamedTuple):
    """The names of a module."""

    values: dict[str, Any]
    prefix: str
    filename: str

    def source(self) -> SourceText | None:
        return module_source(self.filename, self.values) if self.filename else None


class WrittenText(NamedTuple):
    """A piece of source whose text is in the tree, which may be wanted with its docstrings."""

    key: str
    definition: Definition
    free: tuple[str, ...]


NO_TEXT = CodeText(
    "", [], [], [], [], set(), frozenset(), frozenset(), [], reads_definitions=False, reads_namespace=False
)


def is_own_name(value: object) -> bool:
    """Whether a name of a module stands for something of its own: not for a module, nor for `annotations`."""
    return type(value) is not ModuleType and type_module(type(value)) != "__future__"


def compiled_node(code: CodeType, mask: TextMask) -> TakenNode:
    """A function whose source is not known any more; compiled code differs between versions of Python."""
    spelled = f"{sys.version_info[:2]} {spelled_code(code, mask.without_keys, mask.without_known_keys)}"
    return TakenNode(BYTECODE, spelled.encode(errors="surrogatepass"), "")


def texts_within(code: CodeType) -> list[str]:
    """The texts among the constants of compiled code."""
    inner = [text for item in code.co_consts if isinstance(item, CodeType) for text in texts_within(item)]
    return [item for item in code.co_consts if isinstance(item, str)] + inner


def full_module_name(imported: LocalImport, package: str) -> str:
    if not imported.level:
        return imported.module
    try:
        return importlib.util.resolve_name("." * imported.level + imported.module, package)
    except ImportError:
        return ""
