"""The floor plan: rooms of a size that one can look over, and one meaning for each name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent
MOST_MODULES = 15
SAME_EVERYWHERE = {"command", "main", "read", "recognises"}
"""What every command of the command line is called, every program, and both sides of a kind that can be imported."""
SCORER_AND_REQUIREMENT = {"includes", "numeric", "regex"}
"""What asks the same of an answer has one name in eval files, whether it scores or is required."""
MOST_HOMES = 2
"""A private helper of one name may stand in two modules, as `_first_line` does; in more it means too many things."""


def modules():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def definitions(kinds):
    """Every definition at the level of a module, by name; overloads of one function count once."""
    found = {
        (node.name, path.relative_to(SOURCE))
        for path, tree in modules().items()
        for node in tree.body
        if isinstance(node, kinds)
    }
    return Counter(name for name, _ in found)


def test_no_folder_has_more_modules_than_one_can_look_over():
    """Only the command line, with one file for each command, may have more than fifteen."""
    for folder in {path.parent for path in modules()} - {SOURCE / "cli"}:
        names = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(names) <= MOST_MODULES, f"{folder.relative_to(SOURCE)}: {len(names)} modules"


def test_no_two_classes_share_a_name():
    """Inner classes count too: whoever reads a name knows which class is meant."""
    names = Counter(
        node.name for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_two_public_functions_share_a_name():
    """A function that another module may import means one thing in the whole tree."""
    counted = definitions(ast.FunctionDef | ast.AsyncFunctionDef)
    twice = {name for name, count in counted.items() if count > 1 and not name.startswith("_")}
    assert twice - SAME_EVERYWHERE - SCORER_AND_REQUIREMENT == set()


def test_no_private_name_has_many_meanings():
    """A helper called the same in three modules and more says nothing any more."""
    counted = definitions(ast.FunctionDef | ast.AsyncFunctionDef)
    often = {name: count for name, count in counted.items() if count > MOST_HOMES and name.startswith("_")}
    assert often == {}


def test_every_module_says_what_it_is():
    """A module opens with a sentence, and that of a package is more than its name."""
    for path, tree in modules().items():
        opening = (ast.get_docstring(tree) or "").split("\n")[0]
        assert len(opening.split()) > 2, f"{path.relative_to(SOURCE)}: {opening!r}"
