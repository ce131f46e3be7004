"""Which package code comes from, and whether that package is a person's own.

A package that was installed from a directory is one's own: it is compared by its code, since it may be installed again
under the same version. Every other package is compared by its version.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import msgspec

from holdfast.tasks.source.origin import is_local

_SUFFIX = ".dist-info"


class Distribution(NamedTuple):
    """An installed package: what `pip` calls it, and its version."""

    name: str
    version: str


def is_own_file(filename: str) -> bool:
    """Whether code in that file is a person's own."""
    return is_local(filename) or _is_in_local_package(filename)


def is_of_python(module: str) -> bool:
    """Whether a module is part of Python."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top == "builtins"


def is_of_holdfast(module: str) -> bool:
    return module.partition(".")[0] == "holdfast"


def is_own_module(module: ModuleType) -> bool:
    """Whether a module is a person's own: from a file of theirs, or a program or notebook without one."""
    filename = vars(module).get("__file__")
    if isinstance(filename, str):
        return is_own_file(filename)
    if (paths := _namespace_paths(module)) is not None:
        return any(map(is_own_file, paths))
    return module.__name__ == "__main__"


def _namespace_paths(module: ModuleType) -> list[str] | None:
    """The directories of a package without `__init__.py`."""
    found = vars(module).get("__path__")
    if found is None:
        return None
    try:
        return [item for item in found if isinstance(item, str)]
    except TypeError:
        return []


def distribution_of(module: str) -> Distribution | None:
    """The package that a module belongs to; None for Python, Holdfast and what was not installed."""
    top = module.partition(".")[0]
    if not top or top == "__main__" or is_of_python(top) or is_of_holdfast(top):
        return None
    return _distribution_of(module) if top in _SHARED_NAMES else _distribution_of(top)


_SHARED_NAMES = frozenset({"google", "azure", "opentelemetry", "zope", "sphinxcontrib", "ruamel", "jaraco"})
"""Names under which several packages install their modules."""


@functools.lru_cache(maxsize=1024)
def _distribution_of(module: str) -> Distribution | None:
    place = _site_of(module)
    if place is None:
        return None
    wanted = _folded(module)
    others = []
    for entry in _dist_infos(place):
        found = _named(entry)
        if _folded(found.name) == wanted:
            return found
        others.append((entry, found))
    return next((found for entry, found in others if _provides(entry, module)), None)


def _site_of(module: str) -> Path | None:
    """The directory that a module was installed into, whether it is loaded or not."""
    loaded = sys.modules.get(module)
    filename = vars(loaded).get("__file__") if loaded is not None else spec_origin(module)
    paths = _namespace_paths(loaded) if loaded is not None else None
    if not isinstance(filename, str):
        filename = f"{paths[0]}/__init__.py" if paths else None
    if filename is None:
        return None
    depth = module.count(".") + (2 if Path(filename).stem == "__init__" else 1)
    parents = Path(filename).parents
    return parents[depth - 1] if depth <= len(parents) else None


def spec_origin(module: str) -> str | None:
    """The file that a module would be loaded from; only that of a package above all others is looked for."""
    if "." in module:
        return None
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    if found is None:
        return None
    places = list(found.submodule_search_locations or ())
    return found.origin or (f"{places[0]}/__init__.py" if places else None)


@functools.lru_cache(maxsize=64)
def _dist_infos(place: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(entry for entry in place.iterdir() if entry.name.endswith(_SUFFIX)))
    except OSError:
        return ()


def _named(entry: Path) -> Distribution:
    name, _, version = entry.name.removesuffix(_SUFFIX).partition("-")
    return Distribution(name.replace("_", "-"), version)


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _provides(entry: Path, module: str) -> bool:
    """Whether a package lists a module among its files."""
    path = module.replace(".", "/")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        listed = (entry / "top_level.txt").read_text().split()
        if module in listed:
            return True
    with contextlib.suppress(OSError, UnicodeDecodeError):
        record = "\n" + (entry / "RECORD").read_text()
        return f"\n{path}/" in record or f"\n{path}.py," in record or f"\n{path}." in record
    return False


def _is_in_local_package(filename: str) -> bool:
    return any(filename == place or filename.startswith(place + os.sep) for place in _local_places())


@functools.cache
def _local_places() -> tuple[str, ...]:
    """The installed directories and files of packages that come from a directory on this machine."""
    entries = (entry for place in sys.path if place for entry in _dist_infos(Path(place)))
    return tuple(str(found) for entry in entries if _is_local_package(entry) for found in _installed_places(entry))


def _is_local_package(entry: Path) -> bool:
    try:
        said = msgspec.json.decode((entry / "direct_url.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    if not isinstance(said, dict) or not str(said.get("url", "")).startswith("file:"):
        return False
    # Conda builds every package from a directory, of a machine that is long gone.
    return not _is_from_conda(entry) and _folded(_named(entry).name) != "holdfast"


def _is_from_conda(entry: Path) -> bool:
    try:
        return (entry / "INSTALLER").read_text().strip() == "conda"
    except OSError:
        return False


def _installed_places(entry: Path) -> Iterator[Path]:
    try:
        record = (entry / "RECORD").read_text()
    except (OSError, UnicodeDecodeError):
        return
    tops = {line.partition(",")[0].partition("/")[0] for line in record.splitlines()}
    for top in sorted(tops):
        if top and not top.startswith(("..", "/")) and not top.endswith(_SUFFIX) and top != "__pycache__":
            yield entry.parent / top
