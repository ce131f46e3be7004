"""Beginning a session: a new run from an eval, or the next session of a run through the gate.

Nothing is written before everything that can be checked was. A run is examined twice: before its lease is taken, so
that a refusal leaves no trace, and under it, because another session may have changed the run meanwhile.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.engine.opening.examine_live import examine_beside_session
from holdfast.engine.opening.resume_plan import Examiner, ResumePlan, raw_digest, task_codes
from holdfast.engine.planning.prepared_eval import FreshInputs, Prepared, prepare, source_inputs
from holdfast.engine.trials.reuse import Reuse
from holdfast.errors import NotARun
from holdfast.journal import SegmentPin
from holdfast.run import create_run, open_session, session_record
from holdfast.run.core.config_file import write_config
from holdfast.run.core.environment import packages
from holdfast.run.core.inputs import SourceFile, copy_inputs
from holdfast.run.core.layout import RUNS
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import Input, PlanEntry, Record, SessionRecord
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.drift.gate import Decision
from holdfast.run.session.create import refuse_existing
from holdfast.run.session.session import RunSession
from holdfast.run.session.writer_options import DEFAULT_WRITER, WriterOptions
from holdfast.spec import DatasetSpec, EvalSpec, plain
from holdfast.tasks import Task


class StartedSession:
    """A session that may begin its work: what it will do, and why."""

    def __init__(
        self, session: RunSession, prepared: Prepared, decision: Decision | None = None, note: str = ""
    ) -> None:
        self.session, self.prepared, self.decision, self.note = session, prepared, decision, note
        self.reuse: Reuse | None = None
        self.warnings: list[str] = []
        self.url = ""
        """Where the run is, if it is in an object store."""

    @property
    def root(self) -> Path:
        return self.session.layout.root

    @property
    def place(self) -> str:
        """How a person names the run."""
        return self.url or str(self.root)


def default_root(spec: EvalSpec, runs: Path = RUNS) -> Path:
    """A directory of its own for a new run, also beside others that begin in the same second."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.name).strip("-.")[:60] or "eval"
    return runs / f"{stamp}-{name}-{secrets.token_hex(3)}"


def start_run(
    spec: EvalSpec,
    root: Path | None = None,
    *,
    tasks: Mapping[str, Task] | None = None,
    source: str = "",
    writer: WriterOptions = DEFAULT_WRITER,
) -> StartedSession:
    """Makes a new run of a resolved eval; nothing is written before everything that can be checked was.

    Raises:
        ConfigurationError: a task, dataset or model is wrong.
        UsageError: there is something at `root` already.
        StorageFailure: the run cannot be written.
    """
    root = root or default_root(spec)
    refuse_existing(root.absolute())
    inputs = FreshInputs()
    try:
        prepared = prepare(spec, inputs, tasks)
        prepared.open_models()
        session = create_planned(root, prepared, inputs, source, writer=writer)
    finally:
        inputs.close()
    inputs.keep(session.layout)
    return StartedSession(session, prepared)


def create_planned(
    root: Path,
    prepared: Prepared,
    inputs: FreshInputs,
    source: str,
    *,
    preload: Iterable[Record] = (),
    writer: WriterOptions = DEFAULT_WRITER,
) -> RunSession:
    """Makes the run of what was prepared, and opens its first session; `preload` and `writer` as for `create_run`."""
    contents = planned_contents(prepared.spec.name, plain(prepared.spec, explicit=True), prepared)
    files = input_files(prepared, inputs.files)
    return create_run(root, replace(contents, source=source), inputs=files, preload=preload, writer=writer)


def planned_contents(name: str, config: dict[str, Any], prepared: Prepared) -> SessionContents:
    """What a session record says of the plan, the code, and the packages it runs with."""
    return SessionContents(
        name=name,
        config=config,
        planned=prepared.planned,
        plan=plan_entries(prepared),
        code=task_codes({task.name: task.task for task in prepared.tasks}),
        packages=packages(),
    )


def input_files(prepared: Prepared, files: Mapping[str, Path]) -> dict[str, SourceFile]:
    """What is copied into a new run: its datasets, and the Python files that its tasks come from."""
    raw = raw_digests(prepared)
    copied = {name: SourceFile(path, raw.get(name, "")) for name, path in files.items()}
    return copied | {name: SourceFile(path) for name, path in source_inputs(prepared).items()}


def raw_digests(prepared: Prepared) -> dict[str, str]:
    """The digests of the dataset files, as they stand where they come from."""
    return {
        planned.source: raw_digest(Path(planned.task.dataset.path))
        for planned in prepared.tasks
        if isinstance(planned.task.dataset, DatasetSpec)
    }


def plan_entries(prepared: Prepared) -> list[PlanEntry]:
    """How many trials are planned for each task and model, and who scores them."""
    return [
        PlanEntry(task.name, model, task.planned_by_model, [scorer.name for scorer in task.task.scorers])
        for task in prepared.tasks
        for model in task.models
    ]


def resume_run(
    root: Path,
    *,
    offered: EvalSpec | None = None,
    tasks: Mapping[str, Task] | None = None,
    at_least: int = 1,
    writer: WriterOptions = DEFAULT_WRITER,
) -> StartedSession:
    """Opens a run for its next session, through the gate; without an offer everything comes from the run.

    Raises:
        NotARun: there is no run at `root`.
        RunHeld: another session executes it.
        ResumeAborted: it may not go on with what is offered; nothing was written.
        ConfigurationError: a task or a model lacks something here; nothing was written.
    """
    examine_run(root, offered, tasks).inputs.close()
    with contextlib.closing(_Opening(offered, tasks)) as opening:
        session = open_session(root, opening.make, at_least=at_least, writer=writer)
        begun = opening.begun(session)
    session.layout.recovered.unlink(missing_ok=True)
    if begun.note or session.record.changes or _has_new_config(session.reader):
        try:
            write_config(session.reader.fs, session.layout.config, session.reader.sessions)
        except OSError as error:
            # The file is derived: a failure to write it costs nothing, and the next session writes it.
            session.derived.note(session.layout.config.name, error)
    return begun


def _has_new_config(reader: RunReader) -> bool:
    """Whether the newest session wrote its configuration down in another way, as with fields of other names."""
    configs = [session.config for session in reader.sessions[-2:]]
    return configs[0] != configs[-1]


def examine_run(root: Path, offered: EvalSpec | None = None, tasks: Mapping[str, Task] | None = None) -> ResumePlan:
    """What a resume would go on with; writes nothing into the run.

    Raises:
        ResumeAborted: the run may not go on with what is offered.
        RunHeld: another session executes it and has changed it meanwhile.
    """
    reader = RunReader(root)
    try:
        last_session(reader)
        return examine_beside_session(reader, offered, tasks)
    finally:
        reader.close()


class _Opening:
    """The record of a session that resumes a run, made under the lease."""

    def __init__(self, offered: EvalSpec | None, tasks: Mapping[str, Task] | None) -> None:
        self._offered, self._tasks = offered, tasks
        self._passage: ResumePlan | None = None
        self._prepared: Prepared | None = None

    def make(self, reader: RunReader, number: int, pins: list[SegmentPin]) -> SessionRecord:
        last = last_session(reader)
        # Once more under the lease: another session may have changed the run since it was examined.
        passage = Examiner(reader, self._offered, self._tasks).examine()
        self._passage = passage
        prepared = self._prepared = prepare(passage.decision.spec, passage.inputs, passage.tasks)
        prepared.open_models()
        contents = replace(
            planned_contents(last.name, plain(passage.decision.spec, explicit=True), prepared),
            inputs={**last.inputs, **self._copy_inputs(reader, passage, prepared)},
            source=last.source,
            serving=last.serving,
            lost=reader.never_uploaded(),
            changes=passage.decision.changes,
        )
        return session_record(reader.run.hex(), number, pins, contents)

    def _copy_inputs(self, reader: RunReader, passage: ResumePlan, prepared: Prepared) -> dict[str, Input]:
        """Copies the rows that are new, and the files of tasks that are."""
        raw, known = raw_digests(prepared), last_session(reader).inputs
        sources = {name: path for name, path in source_inputs(prepared).items() if name not in known}
        files = {**passage.inputs.files, **sources}
        return copy_inputs(reader.inputs, {name: SourceFile(path, raw.get(name, "")) for name, path in files.items()})

    def close(self) -> None:
        """Lets go of what was read to make the record."""
        if self._passage is not None:
            self._passage.inputs.close()

    def begun(self, session: RunSession) -> StartedSession:
        if self._passage is None or self._prepared is None:
            raise RuntimeError("the session was opened without its record being made")
        self._passage.inputs.keep(session.layout)
        return StartedSession(session, self._prepared, self._passage.decision, self._passage.note)


def last_session(reader: RunReader) -> SessionRecord:
    """The newest session record that survives.

    Raises:
        NotARun: none does.
    """
    if not reader.sessions:
        raise NotARun(
            f"No session record is left in {reader.layout.root}.", hint="`holdfast verify` names what is lost."
        )
    return reader.sessions[-1]
