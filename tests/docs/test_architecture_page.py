"""docs/architecture.md is a true map: what it names exists, no package is left out, the order is the one enforced."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "holdfast"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON_FILE = re.compile(r"(?<![\w/.])((?:\w+/)*\w+\.py)(?::([A-Za-z_][\w.]*\w))?")
OUTSIDE = ("tests/", "docs/", "bench/", "examples/")
"""Where a path on the page begins that is no path of the package."""


@cache
def members(path: Path) -> dict[str, set[str]]:
    """The names that a module defines; for a class, also those of its body."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for name in defined_by(node):
            found[name] = set()
            if isinstance(node, ast.ClassDef):
                found[name] = {inner for item in node.body for inner in defined_by(item)}
    return found


def defined_by(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def is_defined(path: Path, name: str) -> bool:
    outer, _, inner = name.partition(".")
    found = members(path)
    return outer in found and (not inner or inner in found[outer])


def file_of(text: str) -> Path:
    return ROOT / text if text.startswith(OUTSIDE) else SOURCE / text


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def spans(page: str) -> set[str]:
    """What is set as code, outside of drawings."""
    return set(re.findall(r"`([^`\n]+)`", FENCED.sub("", page)))


def missing_files(page: str) -> set[str]:
    """Paths with or without a name in them, anywhere on the page, that lead nowhere."""
    return {
        f"{path}:{name}" if name else path
        for path, name in PYTHON_FILE.findall(page)
        if not file_of(path).is_file() or (name and not is_defined(file_of(path), name))
    }


def missing_directories(page: str) -> set[str]:
    return {text for text in spans(page) if re.fullmatch(r"(?:\w+/)+", text) and not is_directory(text)}


def is_directory(text: str) -> bool:
    return text == "src/holdfast/" or file_of(text).is_dir()


def missing_names(page: str) -> set[str]:
    """Dotted names, and single names that can only be Python's, that nothing in the package bears."""
    dotted = {text for text in spans(page) if re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)+", text)}
    single = {text for text in spans(page) if re.fullmatch(r"[A-Z]\w*[a-z]\w*|[a-z]+(?:_[a-z]+)+", text)}
    classes = {text for drawing in FENCED.findall(page) for text in re.findall(r"participant \w+ as (\w+)", drawing)}
    unknown = {text for text in dotted if not text.endswith((".py", ".md", ".toml")) and not is_dotted_name(text)}
    return unknown | {text for text in single | classes if not any(is_defined(path, text) for path in modules())}


def is_dotted_name(text: str) -> bool:
    """Whether it is a module or package of ours, `module.name`, or `Class.member`; or our group of entry points."""
    if text.startswith("holdfast."):
        place = SOURCE.joinpath(*text.split(".")[1:])
        groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
        return place.is_dir() or place.with_suffix(".py").is_file() or text in groups
    outer, _, inner = text.partition(".")
    return any((path.stem == outer and is_defined(path, inner)) or is_defined(path, text) for path in modules())


def packages() -> set[str]:
    return {f"{path.parent.relative_to(SOURCE)}/" for path in SOURCE.glob("*/**/__init__.py")}


def table(page: str) -> list[tuple[int, str]]:
    """The rows of the table of packages: layer and name."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)(?:/|\.py)` \|", page, re.MULTILINE)
    return [(int(layer), name) for layer, name in rows]


def enforced_layers() -> list[set[str]]:
    """The layers that the import contract has, lowest first, without those that have no package yet."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        item
        for item in document["tool"]["importlinter"]["contracts"]
        if item["type"] == "layers" and item["containers"] == ["holdfast"]
    ]
    layers = [{name.strip(" ()") for name in re.split(r"[|:]", layer)} for layer in contract["layers"]]
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    return [layer & there for layer in reversed(layers) if layer & there]


def stated_layers(page: str) -> list[set[str]]:
    rows = table(page)
    assert [layer for layer, _ in rows] == sorted(layer for layer, _ in rows)
    return [{name for at, name in rows if at == layer} for layer in sorted({at for at, _ in rows})]


def imports() -> set[tuple[str, str]]:
    """Which package imports which, as the source says."""
    found = set()
    for path in modules():
        owner = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast."):
                found.add((owner, str(node.module).split(".")[1]))
    return found


def test_every_file_and_every_name_in_it_exists():
    """A file that is moved, or a function that is renamed, is moved and renamed on the page too."""
    assert len(PYTHON_FILE.findall(PAGE)) > 60
    assert missing_files(PAGE) == set()


def test_every_directory_exists():
    """So is a folder."""
    assert missing_directories(PAGE) == set()


def test_every_other_name_of_python_exists():
    """Dotted names, names of classes and names with an underscore are those of the source."""
    assert missing_names(PAGE) == set()


def test_every_package_is_on_the_page():
    """A package that is added is added to the table."""
    assert packages() - spans(PAGE) == set()


def test_the_order_of_the_table_is_the_one_that_is_enforced():
    """Layer by layer, the page has what the import contract has."""
    assert stated_layers(PAGE) == enforced_layers()


def test_the_arrows_of_the_drawing_are_imports():
    """Every package with packages below it is drawn, and every arrow stands for an import."""
    drawing = FENCED.findall(PAGE)[0]
    arrows = set(re.findall(r"^\s+(\w+) -\.?-> (\w+)$", drawing, re.MULTILINE))
    assert len(arrows) == len(drawing.strip().splitlines()) - 1
    assert arrows - imports() == set()
    drawn = {name for arrow in arrows for name in arrow}
    assert {name for _, name in table(PAGE)} - drawn == {"version", "__main__"}


def test_contributing_links_the_page_and_names_files_that_exist():
    """Whoever reads CONTRIBUTING.md finds the map, and the one file that it names itself."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "](docs/architecture.md)" in text
    assert PYTHON_FILE.findall(text)
    assert missing_files(text) == set()


def test_what_does_not_exist_is_found():
    """Each check of this file fails for a page that is wrong."""
    wrong = "`cli/no_such.py` `cli/main.py:no_such` `run/core/records.py:StepRecord.no_such` `tests/no_such.py`"
    assert missing_files(f"{wrong} `cli/main.py:COMMANDS`") == set(wrong.replace("`", "").split())
    assert missing_files("```mermaid\nA->>B: engine/no_such.py\n```") == {"engine/no_such.py"}
    assert missing_directories("`run/no_such/` `run/core/`") == {"run/no_such/"}
    wrong = "`crashpoints.no_such` `NoSuchRecord` `no_such_name` `holdfast.no_such` `RunReader.no_such`"
    right = "`crashpoints.reach` `StepRecord` `print_json` `holdfast.testing` `RunReader.refresh` `holdfast.providers`"
    assert missing_names(f"{wrong} {right}") == set(wrong.replace("`", "").split())
    assert missing_names("```mermaid\n participant X as NoSuchClass\n```\n") == {"NoSuchClass"}
    assert stated_layers("| 1 | `storage/` |\n| 2 | `errors.py` |\n")[:2] != enforced_layers()[:2]
