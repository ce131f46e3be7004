"""What an eval says of a task's axes, as trials need it: the texts, files and arguments of each combination.

A value that depends on others takes what it does not give itself from the value that was chosen for it, and that one
from its own choice, if it has one. Such a line of choices is passed in: nothing here knows a run.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.spec import TaskSpec
from holdfast.spec.grid import NO_OVERRIDES, Axes, Combination, axis_entries, combinations
from holdfast.spec.schema.axis import AxisValue
from holdfast.tasks.solver import Generate
from holdfast.tasks.template import Template

if TYPE_CHECKING:
    from holdfast.tasks.workspaces.workspace_template import PackedTemplate

Chosen = Mapping[str, tuple[str, ...]]
"""By axis, the value that was chosen for the trial's own, the one that was chosen for that, and so on."""
NOTHING_CHOSEN: Chosen = {}


class AxisGrid:
    """The axes of one task as its entry in the eval has them."""

    def __init__(
        self,
        values: Mapping[str, Mapping[str, AxisValue]],
        include: Sequence[Combination] = (),
        exclude: Sequence[Combination] = (),
        *,
        prompt: Template | None = None,
        directory: str = "",
        copies: Mapping[str, PackedTemplate] | None = None,
    ) -> None:
        """`prompt` is that of a task with a solver of its own whose prompt differs by trial; the sources of files are
        looked up in `directory`, and `copies` are what the run has of them, by `axis=value: path`.
        """
        self.values, self.include, self.exclude = values, include, exclude
        self.prompt, self.directory = prompt, directory
        self.copies: Mapping[str, PackedTemplate] = copies or {}
        self._solvers: dict[tuple[int, str | None, str | None], tuple[Generate, Generate]] = {}
        """Those of combinations, each with the one that it was made from."""

    def in_directory(self, directory: str) -> AxisGrid:
        """The same grid, whose files are looked up there."""
        return AxisGrid(self.values, self.include, self.exclude, prompt=self.prompt, directory=directory)

    def with_copies(self, copies: Mapping[str, PackedTemplate]) -> AxisGrid:
        """The same grid, whose files are in the run."""
        own = self.values, self.include, self.exclude
        return AxisGrid(*own, prompt=self.prompt, directory=self.directory, copies=copies)

    def solver_at(self, solver: Generate, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> Generate:
        """The solver that asks with the texts of a combination; one and the same for equal texts."""
        prompt, system = self.prompt_at(axes, chosen), self.system_at(axes, chosen)
        if prompt is None and system is None:
            return solver
        key = id(solver), prompt.text if prompt else None, system.text if system else None
        if key not in self._solvers:
            prompts = solver.prompts if prompt is None else {"": prompt}
            made = msgspec.structs.replace(solver, prompts=prompts, system=system or solver.system)
            self._solvers[key] = solver, made
        return self._solvers[key][1]

    def combinations(self, axes: Axes) -> tuple[Combination, ...]:
        """Every combination of these axes that is run."""
        return combinations(axes, self.include, self.exclude)

    def value(self, axis: str, value: str) -> AxisValue:
        """What is special about a value."""
        return self.values.get(axis, {}).get(value, NO_OVERRIDES)

    def layers(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> Iterator[AxisValue]:
        """What is special about a combination: that of its own values first, then of those chosen for them."""
        for axis, value in axes.items():
            yield self.value(axis, value)
        for axis, line in chosen.items():
            yield from (self.value(axis, value) for value in line)

    def prompt_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> Template | None:
        """The prompt that a combination gives instead of the task's."""
        return next((self._templates[entry.prompt] for entry in self.layers(axes, chosen) if entry.prompt), None)

    def system_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> Template | None:
        """The system text that a combination gives instead of the task's."""
        return next((self._templates[entry.system] for entry in self.layers(axes, chosen) if entry.system), None)

    def args_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> dict[str, Any]:
        """The arguments that a combination gives."""
        found: dict[str, Any] = {}
        for entry in self.layers(axes, chosen):
            found = {**entry.args, **found}
        return found

    def files_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> dict[str, str]:
        """The files of a combination: by the path in the workspace, where each is copied from."""
        found: dict[str, str] = {}
        for entry in self.layers(axes, chosen):
            found = {**entry.files, **found}
        return {path: self.locate(source) for path, source in found.items()}

    def copies_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> dict[str, PackedTemplate]:
        """The same files as the run has them, those of chosen values first: what comes later is laid over them."""
        found: dict[str, PackedTemplate] = {}
        lines = [(axis, value) for axis, value in axes.items()]
        lines += [(axis, value) for axis, line in chosen.items() for value in line]
        for axis, value in reversed(lines):
            for path in self.value(axis, value).files:
                # Where both have it, the place is that of the upper one.
                found.pop(path, None)
                found[path] = self.copies[f"{axis}={value}: {path}"]
        return found

    def locate(self, source: str) -> str:
        """Where the source of a file is."""
        return posixpath.normpath(posixpath.join(self.directory, source))

    def model_at(self, axes: Combination) -> str | None:
        """The only model that a combination is run with; None where that is every model of the task."""
        return next((entry.model for entry in self.layers(axes) if entry.model is not None), None)

    def identity_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> dict[str, Any]:
        """Everything that is special about a combination and that an answer may depend on."""
        prompt, system = self.prompt_at(axes, chosen), self.system_at(axes, chosen)
        found = {"prompt": prompt.text if prompt else None, "system": system.text if system else None}
        files: dict[str, str] = {}
        for entry in self.layers(axes, chosen):
            files = {**entry.files, **files}
        return {**found, "files": files, "args": self.args_at(axes, chosen)}

    @cached_property
    def _templates(self) -> dict[str, Template]:
        """Every text of a value, parsed."""
        return {
            text: Template.parse(text, f"{what} of {axis}={value}")
            for axis, values in self.values.items()
            for value, entry in values.items()
            for what, text in (("system text", entry.system), ("prompt", entry.prompt))
            if text
        }

    @property
    def has_prompts(self) -> bool:
        """Whether what is asked differs by trial."""
        return self.prompt is not None or any(
            entry.prompt for values in self.values.values() for entry in values.values()
        )

    def situations(self, axes: Axes) -> Iterator[tuple[Combination, Chosen]]:
        """Every combination, and for one that depends on others, each choice that may be made for it."""
        dependent = self.dependencies
        for combination in self.combinations(axes):
            axis = next((axis for axis, value in combination.items() if value in dependent.get(axis, {})), None)
            if axis is None:
                yield combination, NOTHING_CHOSEN
                continue
            for value in dependent[axis][combination[axis]].best_of:
                yield combination, {axis: self._likely_line(axis, value)}

    def _likely_line(self, axis: str, value: str) -> tuple[str, ...]:
        line = [value]
        while other := self.value(axis, line[-1]).best_of:
            line.append(other[0])
        return tuple(line)

    @cached_property
    def dependencies(self) -> dict[str, dict[str, AxisValue]]:
        """By axis, the values that depend on others."""
        found = {
            axis: {value: entry for value, entry in values.items() if entry.best_of}
            for axis, values in self.values.items()
        }
        return {axis: values for axis, values in found.items() if values}


def grid_of_entry(entry: TaskSpec, prompt: Template | None = None) -> AxisGrid | None:
    """The grid that an entry of `tasks` declares; None where it says nothing of axes."""
    if not (entry.axes or entry.include or entry.exclude):
        return None
    return AxisGrid(axis_entries(entry), entry.include, entry.exclude, prompt=prompt)
