"""Documentation and examples import public names only: what a reader copies keeps working."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = (
    "holdfast",
    "holdfast.events",
    "holdfast.interop.mellea",
    "holdfast.providers",
    "holdfast.sampling",
    "holdfast.testing",
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == "holdfast"


def internal_imports(code: str) -> Iterator[str]:
    """Every import from Holdfast that is not public, as it would be written."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (
                f"import {alias.name}" for alias in node.names if is_ours(alias.name) and alias.name not in PUBLIC
            )
        elif isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
            public = getattr(importlib.import_module(node.module), "__all__", []) if node.module in PUBLIC else []
            modules = [name.rpartition(".")[2] for name in PUBLIC if name.rpartition(".")[0] == node.module]
            names = [alias.name for alias in node.names if alias.name not in {*public, *modules}]
            yield from (f"from {node.module} import {name}" for name in names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_imports_public_names_only(page):
    """What stands in a block of Python can be copied."""
    assert [found for code in snippets(page) for found in internal_imports(code)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_imports_public_names_only(example):
    """Examples show what users may do."""
    assert list(internal_imports(example.read_text(encoding="utf-8"))) == []


def test_there_is_something_to_look_at():
    """The pages and examples are found, and so are their blocks of Python."""
    assert sum(len(snippets(page)) for page in PAGES) >= 5
    assert EXAMPLES


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from holdfast import Task, evaluate", []),
        ("import holdfast, holdfast.providers", []),
        ("from holdfast import providers, testing", []),
        ("from holdfast.providers import Reply", []),
        ("from holdfasten import anything", []),
        ("from holdfast import Tsk", ["from holdfast import Tsk"]),
        ("from holdfast import models", ["from holdfast import models"]),
        ("from holdfast.providers import open_provider", ["from holdfast.providers import open_provider"]),
        ("from holdfast.tasks import Task", ["from holdfast.tasks import Task"]),
        ("import holdfast.models.message", ["import holdfast.models.message"]),
        ("def late():\n    from holdfast.spec import resolve", ["from holdfast.spec import resolve"]),
    ],
)
def test_an_internal_import_is_found(code, found):
    """The check can fail: each way to import what is internal is noticed."""
    assert list(internal_imports(code)) == found
