"""Changes that alter nothing a task asks or scores: of its text, and of where and how it is loaded."""

# ruff: noqa: ARG005, E501 - every change is given the same
from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Callable

Files = dict[str, str]


def _python(files: Files, rng: random.Random) -> str:
    return rng.choice(sorted(name for name in files if name.endswith(".py")))


def reformatted(text: str, rng: random.Random) -> str:
    """The same syntax tree, laid out anew and without its comments."""
    return ast.unparse(ast.parse(text)) + "\n"


def commented(text: str, rng: random.Random) -> str:
    """A comment before every statement of the module."""
    tree, lines = ast.parse(text), text.split("\n")
    for node in reversed(tree.body):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        lines.insert(first - 1, f"# {rng.random()}")
    return "\n".join(lines)


def documented(text: str, rng: random.Random) -> str:
    """A docstring in every function and class that has none."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not ast.get_docstring(node):
            node.body.insert(0, ast.Expr(ast.Constant(f"What it does: {rng.randrange(100)}.")))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def annotated(text: str, rng: random.Random) -> str:
    """Types on every parameter and result that has none."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]:
                if one.annotation is None and one.arg not in {"self", "cls", "mcs"}:
                    one.annotation = ast.Name("object")
            node.returns = node.returns or ast.Name("object")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def renamed_locals(text: str, rng: random.Random) -> str:
    """Another name for each local variable of functions that have no function, class or scope inside."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_simple(node):
            _rename(node)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp)
SCOPES += (ast.GeneratorExp, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.ExceptHandler, ast.Match)


def _is_simple(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    inside = [node for statement in function.body for node in ast.walk(statement)]
    names = {node.id for node in inside if isinstance(node, ast.Name)}
    return not any(isinstance(node, SCOPES) for node in inside) and not names & {"locals", "vars", "eval", "exec"}


def _rename(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    inside = [node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    stored = {node.id for node in inside if isinstance(node.ctx, ast.Store)} - given - set(dir(builtins))
    for node in inside:
        if node.id in stored:
            node.id += "_renamed"


def annotated_locals(text: str, rng: random.Random) -> str:
    """`a = 1` becomes `a: object = 1` inside functions."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_simple(node):
            node.body = [_annotated(statement) for statement in node.body]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _annotated(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return ast.AnnAssign(statement.targets[0], ast.Name("object"), statement.value, simple=1)
    return statement


def reordered(text: str, rng: random.Random) -> str:
    """Two neighbouring functions of the module, neither of which is used at import, change places."""
    tree = ast.parse(text)
    plain = [
        n
        for n in range(len(tree.body) - 1)
        if all(isinstance(one, ast.FunctionDef) and not one.decorator_list and not one.args.defaults and not one.args.kw_defaults for one in tree.body[n : n + 2])
        and tree.body[n].name != tree.body[n + 1].name
    ]  # fmt: skip
    if not plain:
        return text
    at = rng.choice(plain)
    tree.body[at], tree.body[at + 1] = tree.body[at + 1], tree.body[at]
    return ast.unparse(tree) + "\n"


def _added(line: str) -> Callable[[str, random.Random], str]:
    def change(text: str, rng: random.Random) -> str:
        return f"{line}\n{text}" if rng.random() < 0.5 else f"{text}\n{line}\n"

    return change


def unix_or_dos(text: str, rng: random.Random) -> str:
    return text.replace("\n", "\r\n")


def quoted(text: str, rng: random.Random) -> str:
    """Long lines broken where brackets allow it."""
    return text.replace("('polite')", "(\n    'polite'\n)").replace(" = [", " = [  # items\n    ")


TEXT_CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "reformatted": reformatted,
    "comments": commented,
    "docstrings": documented,
    "type annotations": annotated,
    "renamed locals": renamed_locals,
    "annotated locals": annotated_locals,
    "functions in another order": reordered,
    "an added import": _added("import colorsys"),
    "an added import of a module's name": _added("from http import HTTPStatus"),
    "an added print": _added("print('loaded')"),
    "an added constant": _added("ADDED_CONSTANT_ZZ = 17"),
    "an added time stamp": _added("import time as time_zz; ADDED_STAMP_ZZ = time_zz.time()"),
    "an added function": _added("def added_function_zz(x):\n    return x * 2\n"),
    "an added class": _added("class AddedZz:\n    a = 1\n"),
    "an added function that uses all": _added("def added_function_zz(x):\n    return globals()\n"),
    "blank lines": lambda text, rng: text.replace("\n", "\n\n") if '"""' not in text else text + "\n\n\n",
    "line endings": unix_or_dos,
    "blanks at the end": lambda text, rng: text + "\n    \n\n",
    "line breaks": quoted,
    "a mark at the beginning": lambda text, rng: "\ufeff" + text,
    "an encoding": lambda text, rng: "# -*- coding: utf-8 -*-\n" + text,
    "annotations of the future": lambda text, rng: "from __future__ import annotations\n" + text,
}
WHOLE_CHANGES = (
    "nothing",
    "another directory",
    "another hash seed",
    "rotated keys",
    "another file",
    "another working directory",
    "another variable",
    "times of files",
)
"""What is not in the text; `gate_campaign.py` carries it out."""


def change_text(files: Files, name: str, rng: random.Random) -> Files:
    """One file, or every one, changed in this way."""
    chosen = [_python(files, rng)] if rng.random() < 0.5 else [one for one in files if one.endswith(".py")]
    return {**files, **{one: TEXT_CHANGES[name](files[one], rng) for one in chosen}}
