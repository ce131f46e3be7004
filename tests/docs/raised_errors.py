"""Which errors a function may raise, itself or through what it calls, as far as its source says.

Calls are followed where the source says what is called: a name that is imported or defined in the module, a class, a
method of `self`, of a parameter with an annotation, of a variable or an attribute that was given one of these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """The functions and classes of a package, by their full names."""

    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    """By module, what a name in it stands for."""

    @classmethod
    def read(cls, root: Path) -> Source:
        found = cls()
        for path in sorted(root.rglob("*.py")):
            module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
            found._add(module, ast.parse(path.read_text(encoding="utf-8")))
        return found

    def _add(self, module: str, tree: ast.Module) -> None:
        names = self.names[module] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for node in tree.body:
            if isinstance(node, Function):
                names[node.name] = f"{module}.{node.name}"
                self.functions[f"{module}.{node.name}"] = node
            elif isinstance(node, ast.ClassDef):
                names[node.name] = f"{module}.{node.name}"
                self.classes[f"{module}.{node.name}"] = node
                for item in node.body:
                    if isinstance(item, Function):
                        self.functions[f"{module}.{node.name}.{item.name}"] = item

    def raised_by(self, name: str, seen: set[str] | None = None) -> set[str]:
        """The full names of the errors that a function may raise."""
        seen = set() if seen is None else seen
        if name in seen or name not in self.functions:
            return set()
        seen.add(name)
        module, owner = self._home(name)
        function = self.functions[name]
        found = set(self._raised_here(function, module))
        types = self._types(function, module, owner)
        for called in self._called(function, module, owner, types):
            found |= self.raised_by(called, seen)
        return found

    def _home(self, name: str) -> tuple[str, str]:
        """The module of a function, and its class if it is a method."""
        before = name.rpartition(".")[0]
        return (before.rpartition(".")[0], before) if before in self.classes else (before, "")

    def _raised_here(self, function: Function, module: str) -> Iterator[str]:
        for node in ast.walk(function):
            if not isinstance(node, ast.Raise) or node.exc is None:
                continue
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name):
                name = self.names[module].get(raised.id, raised.id)
                if name in self.classes or raised.id.endswith("Error"):
                    yield name

    def _types(self, function: Function, module: str, owner: str) -> dict[str, str]:
        """What variables hold, by annotations of parameters and by calls of classes."""
        found: dict[str, str] = {}
        arguments = (*function.args.args, *function.args.kwonlyargs)
        for argument in arguments:
            if argument.annotation is not None and (known := self._class_in(argument.annotation, module)):
                found[argument.arg] = known
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.withitem):
                found |= self._assigned(node, module)
        if owner and function.name != "__init__" and f"{owner}.__init__" in self.functions:
            init = self.functions[f"{owner}.__init__"]
            found |= self._attributes(init, self._types(init, module, ""), module)
        return found

    def _assigned(self, node: ast.Assign | ast.AnnAssign | ast.withitem, module: str) -> dict[str, str]:
        if isinstance(node, ast.withitem):
            targets, value = [node.optional_vars], node.context_expr
        else:
            targets, value = (node.targets if isinstance(node, ast.Assign) else [node.target]), node.value
        if not isinstance(value, ast.Call) or not (known := self._class_in(value.func, module)):
            return {}
        return {ast.unparse(target): known for target in targets if target is not None}

    def _attributes(self, init: Function, types: dict[str, str], module: str) -> dict[str, str]:
        """What `self.x` holds: what the constructor was given, or has made."""
        found = {name: known for name, known in types.items() if name.startswith("self.")}
        for node in ast.walk(init):
            if not isinstance(node, ast.Assign):
                continue
            for target, value in _pairs(node):
                if isinstance(value, ast.Name) and value.id in types:
                    found[ast.unparse(target)] = types[value.id]
                elif isinstance(value, ast.Call) and (known := self._class_in(value.func, module)):
                    found[ast.unparse(target)] = known
        return found

    def _class_in(self, node: ast.expr, module: str) -> str:
        """The class that an annotation or a called name stands for; empty if it is none of the package."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and self.names[module].get(part.id, "") in self.classes:
                return self.names[module][part.id]
        return ""

    def _called(self, function: Function, module: str, owner: str, types: dict[str, str]) -> Iterator[str]:
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            # A function that is handed over, as to `map`, is called too.
            for named in (node.func, *node.args):
                if isinstance(named, ast.Name):
                    yield from self._targets(self.names[module].get(named.id, ""))
            if isinstance(node.func, ast.Name):
                continue
            if isinstance(node.func, ast.Attribute):
                holder = ast.unparse(node.func.value)
                named = self.names[module].get(holder, "")
                known = owner if holder in {"self", "cls"} else types.get(holder, named)
                if holder == "super()" and owner:
                    yield from self._methods(owner, node.func.attr, above=True)
                elif known:
                    yield from self._methods(known, node.func.attr)

    def _targets(self, name: str) -> Iterator[str]:
        if name in self.classes:
            for method in ("__init__", "__post_init__"):
                yield from self._methods(name, method)
        elif name:
            yield name

    def _methods(self, owner: str, method: str, *, above: bool = False) -> Iterator[str]:
        if not above and f"{owner}.{method}" in self.functions:
            yield f"{owner}.{method}"
            return
        node = self.classes.get(owner)
        module = owner.rpartition(".")[0]
        for base in node.bases if node is not None else []:
            name = self.names[module].get(ast.unparse(base), "")
            yield from self._methods(name, method)

    def ancestors(self, name: str) -> set[str]:
        """An error and what it is derived from, by their last names."""
        node = self.classes.get(name)
        found = {name.rpartition(".")[2]}
        for base in node.bases if node is not None else []:
            module = name.rpartition(".")[0]
            found |= self.ancestors(self.names[module].get(ast.unparse(base), ast.unparse(base)))
        return found


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, also in `a, b = x, y`."""
    (target, value) = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def documented(function: Function) -> set[str]:
    """The types under `Raises:` in a docstring."""
    text = ast.get_docstring(function) or ""
    section = text.partition("Raises:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in section.splitlines()]
    return {line.partition(":")[0] for line in lines if line.partition(":")[0].isidentifier()}
