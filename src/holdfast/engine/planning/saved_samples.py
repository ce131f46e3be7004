"""The samples of a run, read from its own files: the input and the target of a trial.

The record of a trial names its task and the key of its sample; the sample itself is in the run's copy of the rows, as
the newest session has it. How a row becomes a sample is in the configuration or, for a task in Python, in what the
session recorded of it; no code of a task is ever loaded. Runs of earlier versions did not record it, so of their tasks
in Python only rows with columns of the usual names are shown. Whatever is missing or damaged becomes a note, never an
error.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from holdfast.digests import json_digest
from holdfast.engine.planning.inputs import SavedInputs, input_name
from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.errors import ConfigurationError, HoldfastError, ResumeAborted, UsageError
from holdfast.run.core.axes.choices import ChoiceKey, line_of
from holdfast.run.core.records import SessionRecord
from holdfast.run.fold.reader import RunReader
from holdfast.spec import EvalSpec
from holdfast.tasks.choices import LETTERS, target_index
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.datasets.row_identity import key_name, key_text
from holdfast.tasks.from_spec import samples_on_record
from holdfast.tasks.grid.axis_grid import NOTHING_CHOSEN, Chosen
from holdfast.tasks.sample import Sample
from holdfast.tasks.solver import Generate
from holdfast.tasks.task import Task, prompted

_COLUMNS = frozenset({"columns", "target"})
"""Settings of a task in Python without which its rows cannot be read."""
_UNRECORDED = (
    "The run is of an earlier version, which did not record how the task's code reads its rows, and looking at a run"
    " executes no code."
)


class SavedSample(NamedTuple):
    """One sample, as the solver and the scorers of a trial saw it."""

    input: Any
    """A text, or a list of messages as maps."""
    target: Any
    metadata: Mapping[str, Any]
    sample_id: str
    """The id that the dataset gives; empty where the sample's key is a digest of its content."""
    choice: str = ""
    """The choice that the target means, with its letter; empty where there are no choices."""


def saved_sample(sample: Sample, axes: Mapping[str, str], solver: Generate | None) -> SavedSample:
    """A sample as it is asked about on these axes; `solver` makes the question where there are several prompts."""
    asked = solver.question(sample, axes) if solver is not None and axes else sample.input
    return SavedSample(msgspec.to_builtins(asked), sample.target, sample.metadata or {}, sample.id or "")


def input_digests(dataset: Dataset, position: int) -> list[str]:
    """Digests of what is asked about a sample: of the input in its row, and of the text that is made of it."""
    asked = msgspec.to_builtins(dataset[position].input)
    return [dataset.input_digest(position).hex(), json_digest(asked)]


class SavedSamples:
    """The samples of a run, looked up by task and sample key.

    Nothing is opened before the first lookup. In memory are only the indexes of the datasets that were asked about.
    """

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._tasks: dict[str, _TaskSamples | None] = {}
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> list[str]:
        """Why samples cannot be shown: one note for each task whose samples were looked up in vain."""
        return list(self._notes.values())

    def find(self, task: str, key: str, axes: Mapping[str, str] | None = None, model: str = "") -> SavedSample | None:
        """The sample of a task with this key, as a model is asked on these axes; None, and a note, if it cannot be
        shown.
        """
        try:
            samples = self._samples_of(task)
            if samples is None:
                return None
            found = samples.find(key, axes or {}, self._chosen(task, model, axes or {}))
        except (HoldfastError, OSError) as error:
            self._note(task, f"Samples of the task {task!r} cannot be shown. {error}")
            return None
        if found is None:
            self._note(task, f"The run's copy of the samples of the task {task!r} does not have the sample {key!r}.")
        return found

    def _chosen(self, task: str, model: str, axes: Mapping[str, str]) -> Chosen:
        """What was chosen for axis values that depend on others."""
        lines = {axis: line_of(self._choices, task, model, axis, value) for axis, value in axes.items()}
        return {axis: line for axis, line in lines.items() if line}

    @cached_property
    def _choices(self) -> dict[ChoiceKey, str]:
        return {key: choice.chosen for key, choice in self._reader.fold.choices.items()}

    def input_digests(self, task: str, key: str) -> list[str]:
        """Digests of what is asked about a sample, as its row and as its text; none if it cannot be read."""
        try:
            samples = self._samples_of(task)
            position = samples.dataset.position(key) if samples is not None and samples.is_certain else None
            return [] if samples is None or position is None else input_digests(samples.dataset, position)
        except (HoldfastError, OSError):
            return []

    def _samples_of(self, task: str) -> "_TaskSamples | None":
        if task not in self._tasks:
            # A failure is not retried: files would be read again for each of many lookups.
            self._tasks[task] = None
            self._tasks[task] = self._open(task)
        return self._tasks[task]

    def _note(self, task: str, text: str) -> None:
        self._notes.setdefault(task, text)

    @cached_property
    def _session(self) -> SessionRecord:
        return last_session(self._reader)

    @cached_property
    def _spec(self) -> EvalSpec:
        try:
            return saved_eval(self._session)
        except ResumeAborted as error:
            # Nothing is being resumed here, so the note has the cause alone.
            raise ConfigurationError(f"The run's configuration cannot be read: {error.__cause__}") from None

    @cached_property
    def _inputs(self) -> SavedInputs:
        # Shared by all tasks: those that ask about one dataset share its rows.
        return SavedInputs(self._reader.layout, self._session.inputs)

    def _open(self, task: str) -> "_TaskSamples":
        entry = self._spec.tasks.get(task)
        if entry is None:
            raise UsageError("The run's newest configuration does not have this task.")
        rows = self._inputs.copied_rows(input_name(task, entry), task)
        read = samples_on_record(task, self._spec, self._session.code.get(task))
        if read is None:
            return self._open_unrecorded(task, rows)
        if entry.use is None:
            return _TaskSamples(read.bind_all(rows), task=read, asks_itself=entry.solver is not None)
        return _TaskSamples(read.bind_all(rows))

    def _open_unrecorded(self, task: str, rows: Rows) -> "_TaskSamples":
        code = self._session.code.get(task)
        if code is None or not _COLUMNS.isdisjoint(code.settings):
            raise UsageError(_UNRECORDED)
        copied = _TaskSamples(
            Dataset(rows), is_renumbered="operations" in code.settings, is_target_unknown="choices" in code.settings
        )
        if not copied.is_certain:
            self._note(task, f"Some samples or targets of the task {task!r} cannot be shown. {_UNRECORDED}")
        return copied


class _TaskSamples(NamedTuple):
    """The samples of one task, and what is unknown of them without its code."""

    dataset: Dataset
    is_renumbered: bool = False
    """Its operations are unknown: they may have repeated rows, and so have given them other occurrence numbers."""
    is_target_unknown: bool = False
    """The order of its choices is unknown, nor the letter that a target became in that order."""
    task: Task | None = None
    """What makes the questions of its prompts, where it has several."""
    asks_itself: bool = False
    """Whether the questions are asked by a solver of the task's own."""

    @property
    def is_certain(self) -> bool:
        """Whether every sample can be shown in full."""
        return not self.is_target_unknown and not (self.is_renumbered and self.dataset.has_duplicates)

    def find(self, key: str, axes: Mapping[str, str], chosen: Chosen = NOTHING_CHOSEN) -> SavedSample | None:
        position = self._unnumbered_position(key) if self.is_renumbered else self.dataset.position(key)
        return None if position is None else self._saved_sample(self.dataset[position], axes, chosen)

    def _asked(
        self, sample: Sample, axes: Mapping[str, str], chosen: Chosen
    ) -> tuple[Sample, Mapping[str, str], Generate | None]:
        """The sample as a solver of the task's own gets it, or the solver that makes its question."""
        if self.task is None:
            return sample, axes, None
        solver = self.task.solver_at(axes, chosen)
        if not self.asks_itself:
            return sample, axes, solver if isinstance(solver, Generate) else None
        grid = self.task.grid
        prompt = (grid.prompt_at(axes, chosen) or grid.prompt) if grid is not None else None
        return sample if prompt is None else prompted(sample, prompt, "the sample", axes), axes, None

    def _unnumbered_position(self, key: str) -> int | None:
        """Whatever the occurrence number, the row is known where only one has the name."""
        name = key_name(key)
        is_only_one = self.dataset.position(key_text(name, 2)) is None
        return self.dataset.position(key_text(name, 1)) if is_only_one else None

    def _saved_sample(self, sample: Sample, axes: Mapping[str, str], chosen: Chosen) -> SavedSample:
        found = saved_sample(*self._asked(sample, axes, chosen))
        if self.is_target_unknown:
            return found._replace(target=None)
        return found if found.target is None else found._replace(choice=_right_choice(sample))


def _right_choice(sample: Sample) -> str:
    """As the model saw it: "B) Paris"."""
    if not sample.choices:
        return ""
    try:
        index = target_index(sample)
    except ConfigurationError:
        # Only the scorer `choice` asks for a target that is one of them.
        return ""
    return f"{LETTERS[index]}) {sample.choices[index]}"
