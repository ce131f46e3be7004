"""The files that axis values bring: each is packed like the template of a workspace, and the run keeps a copy of it.

The identity of such a file is its content: by that a later session knows if it is still the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from holdfast.tasks.grid.axis_grid import AxisGrid

if TYPE_CHECKING:
    from holdfast.tasks.workspaces.workspace_template import WorkspaceTemplate


def file_key(axis: str, value: str, path: str) -> str:
    """What a file of an axis value is recorded under."""
    return f"{axis}={value}: {path}"


class AxisFile(NamedTuple):
    """A file or directory that an axis value brings."""

    axis: str
    value: str
    path: str
    """Its place in the workspace."""
    source: str

    @property
    def key(self) -> str:
        return file_key(self.axis, self.value, self.path)

    def template(self, field: str) -> WorkspaceTemplate:
        """The file as a template; `field` names it in messages."""
        from holdfast.tasks.workspaces.workspace_template import WorkspaceTemplate  # noqa: PLC0415 - few axes have files

        return WorkspaceTemplate(files={self.path: self.source}, field=field)


def axis_files(grid: AxisGrid | None) -> Iterator[AxisFile]:
    """Every file that the values of a grid bring."""
    for axis, values in grid.values.items() if grid is not None else ():
        for value, entry in values.items():
            for path, source in entry.files.items():
                yield AxisFile(axis, value, path, grid.locate(source) if grid is not None else source)


def file_identities(grid: AxisGrid | None) -> dict[str, str]:
    """By axis, value and path in the workspace, the identity of every file that the run has a copy of."""
    return {} if grid is None else {key: packed.identity for key, packed in grid.copies.items()}
