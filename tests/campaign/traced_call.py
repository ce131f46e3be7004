"""What one call of a function reaches, found out by tracing it: the code that was executed, the names of modules that
it read, and a digest of each. Nothing of the product takes part.

As a program: `traced_call.py ROOT MODULE FUNCTION ARGUMENTS` prints one JSON object. Functions count by their syntax
trees, without comments, docstrings, annotations and names of locals; other values by their representation.
"""

# ruff: noqa: ARG002, N815, RUF012 - the names that ast and settrace call
from __future__ import annotations

import ast
import contextlib
import dis
import hashlib
import importlib
import inspect
import io
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def own_file(code: types.CodeType, root: str) -> bool:
    return code.co_filename.startswith(root)


class Source:
    """The definitions of one file, by qualified name."""

    _all: dict[str, Source] = {}

    def __init__(self, path: str) -> None:
        self.nodes: dict[str, ast.AST] = {}
        self._walk(ast.parse(Path(path).read_text("utf-8")), "")

    @classmethod
    def of(cls, path: str) -> Source:
        return cls._all.setdefault(path, cls(path)) if path not in cls._all else cls._all[path]

    def _walk(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.nodes[prefix + child.name] = child
                inner = "" if isinstance(child, ast.ClassDef) else "<locals>."
                self._walk(child, f"{prefix}{child.name}.{inner}")
            else:
                self._walk(child, prefix)

    def digest(self, name: str) -> str:
        node = self.nodes.get(name)
        return "" if node is None else tree_digest(node)


class Plain(ast.NodeTransformer):
    """A tree without docstrings and annotations."""

    def _body(self, node: Any) -> Any:
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        node.returns = None
        return self._body(node)

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_ClassDef = _body
    visit_Module = _body

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value, lineno=0) if node.value else ast.Pass()


def tree_digest(node: ast.AST) -> str:
    plain = Plain().visit(ast.parse(ast.unparse(node)))
    for function in ast.walk(plain):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            _number_locals(function)
    return hashlib.sha256(ast.dump(plain).encode()).hexdigest()[:16]


def _number_locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    order: dict[str, str] = {}
    for node in names:
        if isinstance(node.ctx, ast.Store) and node.id not in given:
            order.setdefault(node.id, f"local{len(order)}")
    for node in names:
        node.id = order.get(node.id, node.id)


def value_digest(value: Any, root: str) -> str:
    """Functions and classes by their source, modules by name, the rest by what it shows of itself."""
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, types.FunctionType | type):
        file = (inspect.getsourcefile(value) if isinstance(value, types.FunctionType) else _file_of(value)) or ""
        return (
            Source.of(file).digest(value.__qualname__)
            if file.startswith(root)
            else f"{value.__module__}.{value.__qualname__}"
        )
    return hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace(root, "").encode()).hexdigest()[:16]


def _file_of(cls: type) -> str:
    with contextlib.suppress(TypeError, OSError):
        return inspect.getsourcefile(cls) or ""
    return ""


class Reached:
    """Collects what the traced call executes."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.codes: dict[types.CodeType, dict[str, Any]] = {}
        self.lines: dict[types.CodeType, set[int]] = {}

    def trace(self, frame: types.FrameType, event: str, _: Any) -> Any:
        if not own_file(frame.f_code, self.root):
            return None
        self.codes.setdefault(frame.f_code, frame.f_globals)
        self.lines.setdefault(frame.f_code, set()).add(frame.f_lineno)
        return self.trace

    def items(self) -> dict[str, list[str]]:
        """A digest of each thing that was executed or read, by its name."""
        found: dict[str, set[str]] = {}
        for code, space in self.codes.items():
            name = code.co_qualname
            if "<lambda>" not in name and "comp>" not in name and "<genexpr>" not in name and name != "<module>":
                found.setdefault(f"code {name}", set()).add(Source.of(code.co_filename).digest(name))
            for read in self._names(code):
                if read in space:
                    found.setdefault(f"name {read}", set()).add(value_digest(space[read], self.root))
        return {name: sorted(digests) for name, digests in sorted(found.items())}

    def _names(self, code: types.CodeType) -> set[str]:
        line, names = code.co_firstlineno, set()
        for step in dis.get_instructions(code):
            line = step.starts_line or line
            if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and line in self.lines[code]:
                names.add(step.argval)
        return names

    def mentioned(self) -> dict[str, list[str]]:
        """The same for everything that the executed code mentions anywhere, and what that mentions in turn."""
        found: dict[str, set[str]] = {}
        todo = [(code, space) for code, space in self.codes.items()]
        seen: set[types.CodeType] = set()
        while todo:
            code, space = todo.pop()
            if code in seen:
                continue
            seen.add(code)
            if not code.co_qualname.startswith("<"):
                found.setdefault(f"code {code.co_qualname}", set()).add(
                    Source.of(code.co_filename).digest(code.co_qualname)
                )
            todo += [(inner, space) for inner in code.co_consts if isinstance(inner, types.CodeType)]
            for name in code.co_names:
                if name in space:
                    value = space[name]
                    found.setdefault(f"name {name}", set()).add(value_digest(value, self.root))
                    todo += self._code_of(value)
                for module in [v for v in (space.get(n) for n in code.co_names) if isinstance(v, types.ModuleType)]:
                    if (getattr(module, "__file__", None) or "").startswith(self.root) and hasattr(module, name):
                        found.setdefault(f"name {name}", set()).add(value_digest(getattr(module, name), self.root))
                        todo += self._code_of(getattr(module, name))
        return {name: sorted(digests) for name, digests in sorted(found.items())}

    def _code_of(self, value: Any) -> list[tuple[types.CodeType, dict[str, Any]]]:
        if isinstance(value, type):
            return [one for inner in vars(value).values() for one in self._code_of(getattr(inner, "__func__", inner))]
        code = getattr(value, "__code__", None)
        if not isinstance(code, types.CodeType):
            return []
        held = [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if cell != types.CellType()]
        inner = [one for found in held if isinstance(found, types.FunctionType) for one in self._code_of(found)]
        return [*inner, *([(code, value.__globals__)] if own_file(code, self.root) else [])]


def main(root: str, module: str, function: str, arguments: str) -> None:
    sys.path[:0] = [root, str(HERE)]
    sys.dont_write_bytecode = True
    opened: set[str] = set()
    sys.addaudithook(lambda event, given: opened.add(str(given[0])) if event == "open" else None)
    with contextlib.redirect_stdout(io.StringIO()):
        importlib.import_module("missing_packages").install()
        called = getattr(importlib.import_module(module), function)
        reached = Reached(root)
        sys.settrace(reached.trace)
        try:
            result = called(*json.loads(arguments))
        finally:
            sys.settrace(None)
    loaded = {str(getattr(one, "__file__", "")) for one in list(sys.modules.values())}
    files = sorted(
        str(Path(file).relative_to(root)) for file in loaded | opened if file.startswith(f"{root}/inspect_evals")
    )
    shown = re.sub(r" at 0x[0-9a-f]+", "", repr(result))[:300]
    print(
        "TRACED "
        + json.dumps({"items": reached.items(), "mentioned": reached.mentioned(), "files": files, "result": shown})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
