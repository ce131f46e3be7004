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
from holdfast.errors import RunDamaged, StorageFailure
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Input
from holdfast.spec import EvalSpec, TaskSpec
from holdfast.spec.code_reference import split_reference
from holdfast.tasks.source.code_files import relative_name
from holdfast.tasks.source.imported_files import with_imported_files
from holdfast.tasks.source.unpacked_copies import directory_of, new_directory
from holdfast.tasks.task import Task

_UNPACKED: dict[tuple[tuple[str, str], ...], Path] = {}
"""By the names and digests of copies, the directory that they are in."""


def files_to_copy(name: str, task: Task, spec: EvalSpec) -> dict[str, Path]:
    """The files that a task cannot be loaded without, by the name of their copy; files of copies are left out."""
    named = task.taken.files
    paths = with_imported_files([*named, *_referenced_files(spec.tasks[name], _directory(spec))])
    return {copy_name(name, path, spec): path for path in sorted(paths) if directory_of(path) is None}


def key_warning(path: Path, spec: EvalSpec) -> str:
    """What a person should know of a file that is not copied because it holds a key; the key is not repeated."""
    name = relative_name(path, _directory(spec))
    return f"{name} holds something that looks like a key, so no copy of it is kept in the run; resume needs the file."


def copy_name(task: str, path: Path, spec: EvalSpec) -> str:
    """The name, among the inputs of a run, of the copy of a file behind a task."""
    root = directory_of(path)
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
    # Compared by name: a pattern would take the brackets in a name for its own.
    named = [path for path in root.rglob("*") if path.name == _last(name) and path.is_file()]
    return named[0] if len(named) == 1 else None


def _unpacked(layout: Layout, copies: Mapping[str, str]) -> Path:
    contents = {_checked_name(name): _content(layout.inputs / digest, name) for name, digest in copies.items()}
    root = new_directory()
    for name, content in contents.items():
        _write_copy(root, name, content)
    return root


def _write_copy(root: Path, name: str, content: bytes) -> None:
    target = root / name
    if not target.resolve().is_relative_to(root):
        raise _outside(name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    except OSError as error:
        raise StorageFailure(f"The run's copy of {name!r} cannot be unpacked: {error.strerror}.") from None


def _checked_name(name: str) -> str:
    """The name of a copy, which leads to a file below the directory it is put in; a record may say anything.

    Raises:
        RunDamaged: it leads elsewhere.
    """
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or "\0" in name or PurePosixPath(name).is_absolute() or Path(name).is_absolute():
        raise _outside(name)
    return name


def _outside(name: str) -> RunDamaged:
    return RunDamaged(
        f"The run names a copy {name!r}, which is not the name of a file of an eval, so none of its code is loaded.",
        hint="Check where the run comes from.",
    )


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


def _directory(spec: EvalSpec) -> Path:
    return Path(spec.directory or ".").absolute()


def _prefix(task: str) -> str:
    return f"sources/{task}/"


def _last(name: str) -> str:
    return name.rpartition("/")[2]
