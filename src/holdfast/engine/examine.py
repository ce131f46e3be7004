"""Before a resume: what is saved in the run, what is offered now, and the inputs to go on with.

Datasets are looked at where the eval says they are; a file whose bytes are as they were is not read further. Where
the file has changed, its samples are compared by key with those that the run has asked about. Where it is gone, the
run's own copy stands. Nothing in the run is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine.prepare import FreshInputs, SavedInputs, build, input_name
from holdfast.errors import ConfigurationError, ResumeAborted
from holdfast.run.config_file import check_config
from holdfast.run.gate import Decision, Snapshot, decide, refusal
from holdfast.run.reading import RunReader
from holdfast.run.records import Session, TaskCode
from holdfast.spec import DatasetSpec, Drift, EvalSpec, canonical, resolve, typed_eval
from holdfast.spec.compare import Difference, Verdict, join
from holdfast.tasks import Dataset, Rows, Task
from holdfast.tasks.code import code_of

_CHUNK = 1 << 20


def raw_digest(path: Path) -> str:
    """The digest of a file as it stands; empty if it cannot be read."""
    found = sha256()
    try:
        with path.open("rb") as stream:
            while part := stream.read(_CHUNK):
                found.update(part)
    except OSError:
        return ""
    return found.hexdigest()


def saved_eval(session: Session) -> EvalSpec:
    """The eval that a session was carrying out.

    Raises:
        ResumeAborted: it cannot be understood by this version.
    """
    try:
        return resolve(typed_eval(session.config, "the run's configuration"))
    except ConfigurationError as error:
        raise ResumeAborted(f"Resume aborted: the run's configuration cannot be read: {error}") from error


class Passage:
    """What passed the gate: the eval, the inputs and the tasks of the next session."""

    def __init__(self, decision: Decision, tasks: Mapping[str, Task], inputs: ResumedInputs, note: str) -> None:
        self.decision, self.tasks, self.inputs, self.note = decision, tasks, inputs, note
        self.code = {name: code_of(task) for name, task in tasks.items()}


class ResumedInputs:
    """The run's own copies, except where a dataset has grown or is new."""

    def __init__(self, saved: SavedInputs, fresh: FreshInputs) -> None:
        self.saved, self.fresh = saved, fresh
        self.grown: dict[str, Path] = {}

    def rows(self, name: str, task: Task) -> Rows:
        if self.is_new(name):
            return self.fresh.rows(name, task)
        return self.saved.rows(name, task)

    def is_new(self, name: str) -> bool:
        return name in self.grown or not self.saved.has(name)

    @property
    def files(self) -> dict[str, Path]:
        """What has to be copied into the run."""
        return {name: path for name, path in self.fresh.files.items() if self.is_new(name)}

    def close(self) -> None:
        self.fresh.close()


class Examiner:
    """Compares a run with what is offered."""

    def __init__(self, reader: RunReader, offered: EvalSpec | None, given: Mapping[str, Task] | None) -> None:
        self._reader, self._given = reader, given or {}
        self._session = reader.sessions[-1]
        self._saved = saved_eval(self._session)
        self._offered = offered or self._saved
        self._inputs = ResumedInputs(SavedInputs(reader.layout, self._session.inputs), FreshInputs())

    def examine(self) -> Passage:
        """What the next session would go on with.

        Raises:
            ResumeAborted: the run may not go on with what is offered; nothing was written.
        """
        note = check_config(self._reader.layout.config, self._reader.sessions, same_values)
        self._check_serving()
        decision = self.compare()
        if decision.refused:
            self._inputs.close()
            raise refusal(decision, str(self._reader.layout.root))
        return Passage(decision, self._tasks, self._inputs, note)

    def compare(self) -> Decision:
        """Every difference, with its verdict."""
        joined = join(self._saved, self._offered)
        if any(item.verdict is Verdict.REFUSED for item in joined.differences):
            # What is asked would be another thing; its data and code have nothing to be compared with.
            return Decision(joined.spec, joined.differences)
        self._tasks = {name: self._task(name, joined.spec) for name in joined.spec.tasks}
        return self._decide(joined.spec, self._tasks)

    def _task(self, name: str, spec: EvalSpec) -> Task:
        return build(name, spec.tasks[name], spec, self._given.get(name))

    def _check_serving(self) -> None:
        path = self._reader.layout.root / "serving.yaml"
        found = raw_digest(path) if path.exists() else ""
        if found != self._session.serving:
            state = "is gone" if not found else "was not there before" if not self._session.serving else "has changed"
            raise ResumeAborted(
                f"Resume aborted: {path} {state}; it is compared byte for byte.", hint="Bring back the file as it was."
            )

    def _decide(self, spec: EvalSpec, tasks: Mapping[str, Task]) -> Decision:
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        keyed: set[str] = set()
        gone: list[Difference] = []
        for name in self._saved.tasks:
            source = input_name(name, spec.tasks[name])
            task = tasks[name]
            state = self._changed(source, task)
            if state == "gone":
                gone.append(Difference(f"tasks.{name}.dataset", Drift.ADDITIVE, "given", "left out", Verdict.KEPT))
            elif state == "changed":
                old = task.bind(self._inputs.saved.rows(source, task), self._saved.tasks[name].limit)
                new = task.bind(self._inputs.fresh.rows(source, task), spec.tasks[name].limit)
                before[name], after[name] = _content(old), _content(new)
                keyed |= {name} if old.has_ids and new.has_ids else set()
        code = {name: code_of(task) for name, task in tasks.items()}
        saved = Snapshot(self._saved, self._session.code, before, frozenset(keyed))
        decision = decide(saved, Snapshot(self._offered, code, after, frozenset(keyed)))
        self._take_growth(spec, tasks, before, after)
        return msgspec.structs.replace(decision, differences=decision.differences + gone)

    def _changed(self, source: str, task: Task) -> str:
        """Whether the rows of an input are other ones than those in the run: "same", "changed" or "gone"."""
        saved = self._session.inputs[source]
        if isinstance(task.dataset, DatasetSpec):
            raw = raw_digest(Path(task.dataset.path))
            if not raw or raw == saved.raw:
                return "same" if raw else "gone"
        rows = self._inputs.fresh.rows(source, task)
        return "same" if rows.digest == saved.digest else "changed"

    def _take_growth(
        self, spec: EvalSpec, tasks: Mapping[str, Task], before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> None:
        """Goes on with the new rows where they hold more; saved rows that are missing from them are put behind."""
        for name, new in after.items():
            old = before[name]
            if set(new) <= set(old):
                continue
            source, task = input_name(name, spec.tasks[name]), tasks[name]
            self._inputs.grown[source] = self._inputs.fresh.files[source]
            if missing := set(old) - set(new):
                saved = task.bind(self._inputs.saved.rows(source, task), None)
                self._inputs.fresh.append(source, saved, missing)


def _content(dataset: Dataset) -> dict[str, tuple[bytes, bytes]]:
    return {
        dataset.key(position): (dataset.input_digest(position), dataset.target_digest(position))
        for position in range(len(dataset))
    }


def same_values(data: Any, config: dict[str, Any]) -> bool:
    """Whether a configuration file, however it is written, says the same as a session's configuration."""
    try:
        ours = canonical(resolve(typed_eval(config, "the run")))
        return canonical(resolve(typed_eval(data, "config.yaml"))) == ours
    except ConfigurationError:
        return bool(data == config)


def task_codes(tasks: Mapping[str, Task]) -> dict[str, TaskCode]:
    """The code behind every task."""
    return {name: code_of(task) for name, task in tasks.items()}
