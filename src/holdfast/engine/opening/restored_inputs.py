"""Copies of inputs that are damaged or missing are made again, if what they were made from is still the same.

The rows of a dataset are ingested again, the template of a workspace is packed again, and files of code are copied;
only what has exactly the digest on record takes the place of a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from holdfast.digests import file_digest
from holdfast.engine.opening.resumed_inputs import ResumedInputs
from holdfast.engine.planning.inputs import TEMPLATES, input_name
from holdfast.errors import HoldfastError
from holdfast.journal import Damage
from holdfast.run.core.records import Input
from holdfast.run.fold.reader import RunReader
from holdfast.spec import EvalSpec
from holdfast.tasks.task import Task

SOURCES = "sources/"


class InputRestorer:
    """Looks at the copies that a run has, and makes again those that it can; the caller holds the run."""

    def __init__(self, reader: RunReader, inputs: ResumedInputs, spec: EvalSpec, tasks: Mapping[str, Task]) -> None:
        self._reader, self._inputs, self._spec = reader, inputs, spec
        self._asking = {input_name(name, spec.tasks[name]): task for name, task in tasks.items()}

    def restore(self, known: Mapping[str, Input], check_place: Callable[[], None]) -> Iterator[str]:
        """Makes copies again; a note about each. `check_place` raises if the run is no longer where it was.

        Raises:
            OSError: a copy could not be stored.
        """
        for name, damage in self.damaged(known).items():
            if (source := self.source(name, known[name])) is not None:
                # Where another run has taken the path, that one is missing the copy.
                check_place()
                self._reader.inputs.put_file(source)
                what = name.rpartition("/")[2]
                yield f"The run's copy of {what} ({damage.where}) was damaged or missing; it was made again."

    def damaged(self, known: Mapping[str, Input]) -> dict[str, Damage]:
        """The copies that are not what they were; those that were read already are."""
        unread = {name: copy for name, copy in known.items() if copy.copied and not self._inputs.saved.is_open(name)}
        found = {name: self._reader.inputs.check(copy.digest, copy.size) for name, copy in unread.items()}
        return {name: damage for name, damage in found.items() if damage is not None}

    def knows_origin(self, name: str) -> bool:
        """Whether it can be looked for what a copy was made from; that of a task that was not built is unknown."""
        return name in self._asking or self._inputs.has_template(name) or name.startswith(SOURCES)

    def source(self, name: str, copy: Input) -> Path | None:
        """A file with exactly the content of the copy, if there is one."""
        if name in self._asking:
            return self._inputs.canonical_file(name, self._asking[name])
        if name.startswith(TEMPLATES):
            return self._inputs.packed_file(name)
        path = Path(self._spec.directory or ".") / name.removeprefix(SOURCES).partition("/")[2]
        try:
            return path if name.startswith(SOURCES) and file_digest(path) == copy.digest else None
        except (OSError, HoldfastError):
            return None
