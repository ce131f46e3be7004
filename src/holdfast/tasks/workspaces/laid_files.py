"""Files that cannot be laid over a workspace, which is known before the first one is made.

A file cannot be below another file, nor take the place of a directory; values of two axes are combined, so theirs must
fit together as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from holdfast.errors import ConfigurationError
from holdfast.tasks.workspaces.git_command import GitFailed, run_git
from holdfast.tasks.workspaces.workspace_template import WorkspaceTemplate, checked_place

_FILE, _DIRECTORY = "file", "directory"


class LaidFile(NamedTuple):
    """A file or directory that an axis value lays over the workspace."""

    field: str
    """Where the eval has it, for messages."""
    axis: str
    place: str
    source: str


def check_laid_files(template: WorkspaceTemplate, files: Sequence[LaidFile]) -> None:
    """Raises ConfigurationError where a file of an axis value has no place in the workspace that it is laid over."""
    for file in files:
        name = checked_place(file.place, file.field)
        _check_kind(file, name, template)
        for parent in (str(one) for one in PurePosixPath(name).parents if one.name):
            if where := next(_files_at(parent, file, template, files), ""):
                raise ConfigurationError(
                    f"{file.field}: {file.place!r} is below {parent!r}, which is a file in {where}.",
                    hint="Give one of them another place.",
                )


def _check_kind(file: LaidFile, name: str, template: WorkspaceTemplate) -> None:
    own, there = _entry_kind(Path(file.source)), _kind_in_template(name, template)
    if own and there and own != there:
        raise ConfigurationError(
            f"{file.field}: {file.place!r} is a {own}, and the template of the workspace has a {there} there.",
            hint="Give it another place.",
        )


def _files_at(parent: str, file: LaidFile, template: WorkspaceTemplate, files: Sequence[LaidFile]) -> Iterator[str]:
    """Who has a file at a place, which another one is to be below: in words."""
    if _kind_in_template(parent, template) == _FILE:
        yield "the template of the workspace"
    others = [(template.field, place, source) for place, source in template.files.items()]
    # Values of the same axis are never combined.
    others += [(one.field, one.place, one.source) for one in files if one.axis != file.axis]
    for field, place, source in others:
        if checked_place(place, field) == parent and _entry_kind(Path(source)) == _FILE:
            yield field


def _entry_kind(path: Path) -> str:
    """What is there; empty if nothing is, or something else."""
    return _DIRECTORY if path.is_dir() else _FILE if path.is_file() else ""


def _kind_in_template(place: str, template: WorkspaceTemplate) -> str:
    if template.path:
        return _FILE if Path(template.path, place).is_symlink() else _entry_kind(Path(template.path, place))
    if not template.repo or "://" in template.repo or not Path(template.repo).is_dir():
        return ""
    try:
        found = run_git(["cat-file", "-t", f"{template.commit}:{place}"], cwd=Path(template.repo)).strip()
    except GitFailed:
        return ""
    return {b"blob": _FILE, b"tree": _DIRECTORY}.get(found, "")
