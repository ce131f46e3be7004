"""Making a run of another tool's results: whole, or not at all.

Everything is read first, and waits on disk; then the run is created with all its records, and gets its name last. So a
process that is killed leaves nothing under that name. From then on it is a run like any other: its trials are counted
by the same fold, and only `resume` refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.digests import file_digest
from holdfast.engine.opening.new_run import default_root, planned_contents
from holdfast.engine.planning.inputs import WriteRows, input_name, raw_digest
from holdfast.engine.planning.prepared_eval import PreparedEval, prepare_eval
from holdfast.errors import StorageFailure, UsageError
from holdfast.interop.importing.foreign_eval import ForeignEval, ForeignState, ForeignTrial, SkippedItem
from holdfast.interop.importing.foreign_values import kept_value
from holdfast.interop.importing.names import eval_title, valid_name
from holdfast.interop.importing.spool import Spool
from holdfast.interop.importing.tally import MOST_NAMED, AxisCount, ImportTally, ScorerFacts
from holdfast.interop.importing.trial_records import TrialRecords, foreign_key, sample_key
from holdfast.interop.importing.valid_trial import sample_row, valid_trial, why_not_valid
from holdfast.models.catalogue import IMPORTED
from holdfast.models.message import UNKNOWN_USAGE
from holdfast.run.core.inputs import LISTED_TRIALS, InputSource, SourceFile
from holdfast.run.core.layout import Layout
from holdfast.run.core.provenance import utc_timestamp
from holdfast.run.core.records import REPLY_NOTE, NoteRecord, Record
from holdfast.run.import_origin import IMPORT_NOTE, RECORDED_COST, UNTIMED
from holdfast.run.session.create import create_run, refuse_existing, refuse_unwritable
from holdfast.spec import EvalSpec, plain_data, resolve, typed_eval
from holdfast.storage.filesystem import FileSystem
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.task import Task

if TYPE_CHECKING:
    from holdfast.tasks.workspaces.workspace_template import PackedTemplate, WorkspaceTemplate


class ImportSummary(msgspec.Struct, frozen=True):
    """What was imported."""

    run: str
    tool: str
    place: str
    name: str
    found: int
    """Everything that could have been a trial."""
    imported: int
    """Without trials that were planned and not started."""
    states: dict[str, int]
    by_axis: list[AxisCount]
    skipped: list[SkippedItem]
    """At most 10,000 of them."""
    skipped_count: int
    unknown_fields: dict[str, int]
    """Fields that are not known here, and in how many trials; they are kept."""
    unusable_fields: dict[str, int]
    """Fields whose value is not what their format has, and in how many trials; they are kept, and count as missing."""
    recorded_cost: float | None
    """What the other tool says that the trials cost, as far as it does."""
    recorded_cost_trials: int
    currency: str
    notes: list[str]
    faults: list[str]
    """What contradicts itself or is known to be missing."""

    @property
    def ok(self) -> bool:
        """Whether nothing was skipped, and nothing is known to be missing or wrong."""
        return not self.skipped_count and not self.faults and not self.unusable_fields


def import_run(source: ForeignEval, root: Path | None = None, fs: FileSystem | None = None) -> ImportSummary:
    """Makes the run `root`, or one below `runs`, of what another tool has recorded.

    Raises:
        UsageError: something is at `root` already, or there is no trial to import.
        StorageFailure: the run cannot be written; nothing of it is left.
    """
    if root is not None:
        _check_place(root)
    with Spool() as spool:
        tally = ImportTally()
        try:
            _read_all(source, spool, tally)
        except OSError as error:
            raise _not_read(source, error) from error
        if not tally.trials:
            raise _nothing_found(source, tally)
        return _Writing(source, spool, tally, fs).write(root)


def _check_place(root: Path) -> None:
    if Layout(root.absolute()).journal.exists():
        hint = "An import always makes a new run: choose another directory with --run-dir."
        raise UsageError(f"{root} already holds a run.", hint=hint)
    refuse_existing(root.absolute())
    refuse_unwritable(root.absolute())


def _not_read(source: ForeignEval, error: OSError) -> StorageFailure:
    return StorageFailure(
        f"{source.place} could not be imported: {error.filename or ''} {error.strerror or error}.".replace("  ", " "),
        hint="No run was created; what is there is unchanged.",
    )


def _nothing_found(source: ForeignEval, tally: ImportTally) -> UsageError:
    first = next(iter(tally.skipped), None)
    why = f" {tally.skipped_count} were skipped, the first ({first.where}) because {first.reason}." if first else ""
    return UsageError(f"{source.place} has no result that can be imported.{why}", hint="No run was created.")


def _read_all(source: ForeignEval, spool: Spool, tally: ImportTally) -> None:
    for item in source.items():
        if isinstance(item, SkippedItem):
            tally.skip(item)
        elif why := why_not_valid(item):
            tally.skip(SkippedItem(item.place, why))
        else:
            _add(valid_trial(item), spool, tally)


def _add(trial: ForeignTrial, spool: Spool, tally: ImportTally) -> None:
    key = foreign_key(trial)
    if not tally.is_new(key):
        tally.skip(SkippedItem(trial.place, f"it is the same trial as an earlier one ({_coordinates_text(trial)})"))
        return
    is_new = tally.new_sample(trial.task, trial.sample)
    if is_new:
        spool.add_sample(trial.task, sample_row(trial.sample))
    elif is_new is None:
        # Its answer belongs to what it was asked, which the id alone no longer says.
        trial = msgspec.structs.replace(trial, fields={**trial.fields, "sample": sample_row(trial.sample)})
    tally.add(trial, sample_key(trial))
    spool.add_trial(trial)


def _coordinates_text(trial: ForeignTrial) -> str:
    axes = [f"{axis}={value}" for axis, value in trial.axes.items()]
    return ", ".join([trial.task, *axes, trial.sample.id, f"number {trial.epoch}"])


class _ImportedInputs:
    """The samples that were read, and the list of the trials."""

    def __init__(self, files: Mapping[str, Path], listed: bytes) -> None:
        self._files, self._listed = files, listed
        self._rows: dict[str, Rows] = {}

    def rows(self, name: str, task: Task) -> Rows:
        if name not in self._rows:
            self._rows[name] = Rows.open(self._files[task.name], source=task.name)
        return self._rows[name]

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - nothing is asked of them
        return False

    def code_copy(self, task: str, name: str) -> None:
        """There is no code."""

    def other_rows(self, name: str, task: str, write: WriteRows) -> Rows:  # noqa: ARG002 - as above
        raise UsageError(f"The scorers of the imported task {task!r} are names alone; none compares answers.")

    def template(self, name: str, template: WorkspaceTemplate) -> PackedTemplate:
        """Never needed: an imported task has no workspace."""
        raise NotImplementedError

    def list_of_trials(self) -> bytes:
        return self._listed


class _Writing:
    """Writes the run of what was read."""

    def __init__(self, source: ForeignEval, spool: Spool, tally: ImportTally, fs: FileSystem | None) -> None:
        self._source, self._spool, self._tally, self._fs = source, spool, tally, fs

    def write(self, root: Path | None) -> ImportSummary:
        files = self._spool.sample_files()
        root = root or default_root(EvalSpec(name=eval_title(self._source.name)))
        listed = b"".join(facts.lines(name) for name, facts in self._tally.tasks.items())
        spec = resolve(typed_eval(self._config(root, files), "the imported run"))
        prepared = prepare_eval(spec, _ImportedInputs(files, listed))
        contents = replace(
            planned_contents(spec.name, plain_data(spec, explicit=True), prepared), source=self._source.place
        )
        inputs: dict[str, InputSource] = {
            input_name(name, entry): SourceFile(files[name], raw_digest(files[name]))
            for name, entry in spec.tasks.items()
        }
        session = create_run(
            root, contents, inputs={**inputs, LISTED_TRIALS: listed}, preload=self._records(prepared), fs=self._fs
        )
        session.close("imported")
        return self._summary(root)

    def _config(self, root: Path, files: Mapping[str, Path]) -> dict[str, Any]:
        """The configuration: an eval whose models cannot be asked, and whose scorers are names of scores on record."""
        inputs = Layout(root.absolute()).inputs
        return {
            "name": eval_title(self._source.name),
            "directory": str(root.absolute()),
            "models": {name: {"provider": IMPORTED, "model": name} for name in self._tally.models},
            "datasets": {
                name: {"path": str(inputs / file_digest(path)), "format": "jsonl"} for name, path in files.items()
            },
            "tasks": {
                name: {
                    "dataset": name,
                    "models": list(facts.trials),
                    "epochs": facts.epochs,
                    "scorers": _scorer_entries(facts.scorers),
                }
                for name, facts in self._tally.tasks.items()
            },
        }

    def _records(self, prepared: PreparedEval) -> Iterator[Record]:
        records = TrialRecords(self._source.tool, {task.name: task.slots for task in prepared.tasks})
        for trial in self._spool.trials():
            yield from records.of(trial)
        for model in self._tally.unmetered:
            text = f"{model}: {self._source.tool} did not record the tokens of every trial."
            yield NoteRecord(kind=REPLY_NOTE, text=text, data={"model": model, "about": UNKNOWN_USAGE})
        yield NoteRecord(kind=IMPORT_NOTE, text=f"imported from {self._source.tool}", data=self._note())

    def _note(self) -> dict[str, Any]:
        tally, source = self._tally, self._source
        return {
            "tool": source.tool,
            "place": source.place,
            "at": utc_timestamp(),
            "trials": tally.trials,
            "skipped": tally.skipped_count,
            "faults": kept_value(source.faults[:MOST_NAMED]),
            "unknown_fields": dict(tally.unknown),
            "unusable_fields": dict(tally.unusable),
            UNTIMED: tally.untimed,
            RECORDED_COST: {"amount": float(tally.cost), "currency": source.currency, "trials": tally.costed},
            "details": kept_value(source.details),
        }

    def _summary(self, root: Path) -> ImportSummary:
        tally, source = self._tally, self._source
        not_started = tally.states[ForeignState.NOT_STARTED.value]
        return ImportSummary(
            run=str(root),
            tool=source.tool,
            place=source.place,
            name=valid_name(source.name),
            found=tally.trials - not_started + tally.skipped_count,
            imported=tally.trials - not_started,
            states=dict(tally.states),
            by_axis=[
                AxisCount(axis, value, count)
                for axis, values in tally.by_axis.items()
                for value, count in sorted(values.items())
            ],
            skipped=tally.skipped,
            skipped_count=tally.skipped_count,
            unknown_fields=dict(tally.unknown.most_common()),
            unusable_fields=dict(tally.unusable.most_common()),
            recorded_cost=float(tally.cost) if tally.costed else None,
            recorded_cost_trials=tally.costed,
            currency=source.currency,
            notes=source.notes,
            faults=source.faults,
        )


def _scorer_entries(found: Mapping[str, ScorerFacts]) -> list[dict[str, Any]]:
    """The scorers of a task; every task has one, also where nothing was scored."""
    return [facts.config(name) for name, facts in found.items()] or [{"recorded": {"name": "score"}}]
