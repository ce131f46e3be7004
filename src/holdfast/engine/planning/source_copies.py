"""The Python files behind tasks: which are copied into a run, and how a resume finds a copy when the original is gone.

A copy is used only for a file that no longer exists where the eval says it is; a file that exists is compared with what
the run has, like everything else. Copies are put into a temporary directory, laid out as the originals were, so that
they find one another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from holdfast.digests import content_digest
from holdfast.errors import RunDamaged
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Input
from holdfast.spec import EvalSpec, TaskSpec
from holdfast.spec.code_reference import split_reference
from holdfast.tasks.source.code_files import relative_name
from holdfast.tasks.source.digest import source_files
from holdfast.tasks.source.imported_files import with_imported_files
from holdfast.tasks.task import Task

# Code that is loaded from a copy may import its neighbours as long as the process lives.
_UNPACKED: dict[tuple[tuple[str, str], ...], Path] = {}


def files_to_copy(name: str, task: Task, spec: EvalSpec) -> dict[str, Path]:
    """The files that a task cannot be loaded without, by the name of their copy; files of copies are left out."""
    named = [path for item in (task.solver, *task.scorers) for path in source_files(item)]
    paths = with_imported_files([*named, *_referenced_files(spec.tasks[name], _directory(spec))])
    return {copy_name(name, path, spec): path for path in sorted(paths) if _copy_root(path) is None}


def copy_name(task: str, path: Path, spec: EvalSpec) -> str:
    """The name, among the inputs of a run, of the copy of a file behind a task."""
    root = _copy_root(path)
    return _prefix(task) + relative_name(path, _directory(spec) if root is None else root)


def copy_of(inputs: Mapping[str, Input], task: str, path: Path, spec: EvalSpec) -> Input | None:
    """The copy of a file behind a task; one that has moved since is known by its name alone."""
    exact = inputs.get(copy_name(task, path, spec))
    moved = [copy for name, copy in inputs.items() if name.startswith(_prefix(task)) and _last(name) == path.name]
    return exact or (moved[0] if len(moved) == 1 else None)


def unpack_copy(layout: Layout, inputs: Mapping[str, Input], task: str, name: str) -> Path | None:
    """The run's copy of a file behind a task, as a file that can be imported; None where the run has none.

    Raises:
        RunDamaged: a copy is gone, or its content is not what it was.
    """
    prefix = _prefix(task)
    copies = {given.removeprefix(prefix): copy.digest for given, copy in inputs.items() if given.startswith(prefix)}
    if not any(_last(given) == _last(name) for given in copies):
        return None
    key = tuple(sorted(copies.items()))
    if key not in _UNPACKED:
        _UNPACKED[key] = _unpacked(layout, copies)
    root = _UNPACKED[key]
    if (root / name).is_file():
        return root / name
    named = list(root.rglob(_last(name)))
    return named[0] if len(named) == 1 else None


def _unpacked(layout: Layout, copies: Mapping[str, str]) -> Path:
    contents = {name: _content(layout.inputs / digest, name) for name, digest in copies.items() if _is_below(name)}
    # Loaded for a run whose files are gone, which is rare.
    import atexit  # noqa: PLC0415
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    root = Path(tempfile.mkdtemp(prefix="holdfast-code-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def _is_below(name: str) -> bool:
    """Whether a name leads to a file below the directory it is put in; a record may say anything."""
    return {"..", "/"}.isdisjoint(PurePosixPath(name).parts)


def _content(path: Path, name: str) -> bytes:
    hint = "Bring it back from a backup."
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RunDamaged(f"The run's copy of {name} ({path}) is gone.", hint=hint) from None
    if content_digest(content) != path.name:
        raise RunDamaged(f"The run's copy of {name} ({path}) has changed.", hint=hint)
    return content


def _referenced_files(entry: TaskSpec, directory: Path) -> Iterator[Path]:
    """The files that the entry names itself; a file may only pass on what others define."""
    for reference in entry.code_references():
        home, _ = split_reference(reference)
        loaded = getattr(sys.modules.get(home), "__file__", None)
        if home.endswith(".py"):
            yield (directory / home).absolute()
        elif loaded:
            yield Path(loaded)


def _copy_root(path: Path) -> Path | None:
    """The directory of copies that a file was loaded from, if it was."""
    return next((root for root in _UNPACKED.values() if path.is_relative_to(root)), None)


def _directory(spec: EvalSpec) -> Path:
    return Path(spec.directory or ".").absolute()


def _prefix(task: str) -> str:
    return f"sources/{task}/"


def _last(name: str) -> str:
    return name.rpartition("/")[2]
