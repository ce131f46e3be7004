"""Beginning a session: a new run from an eval, or the next session of a run from the run alone."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from holdfast.engine.history import History
from holdfast.engine.prepare import FreshInputs, Prepared, SavedInputs, prepare, source_inputs
from holdfast.errors import NotARun, ResumeAborted
from holdfast.journal import SegmentPin
from holdfast.run import create_run, open_session, session_record
from holdfast.run.create import refuse_existing
from holdfast.run.find import RUNS
from holdfast.run.reading import RunReader
from holdfast.run.records import PlanEntry, Session
from holdfast.run.session import RunSession
from holdfast.spec import EvalSpec, plain, typed_eval
from holdfast.tasks import Task


class Begun:
    """A session that may begin its work: what it will do, and why."""

    def __init__(self, session: RunSession, prepared: Prepared) -> None:
        self.session, self.prepared = session, prepared

    @property
    def root(self) -> Path:
        return self.session.layout.root


def default_root(spec: EvalSpec, runs: Path = RUNS) -> Path:
    """A directory of its own for a new run, also beside others that begin in the same second."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.name).strip("-.")[:60] or "eval"
    return runs / f"{stamp}-{name}-{secrets.token_hex(3)}"


def begin_run(
    spec: EvalSpec, root: Path | None = None, *, tasks: Mapping[str, Task] | None = None, source: str = ""
) -> Begun:
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
        files = {**inputs.files, **source_inputs(prepared)}
        fields = {"plan": plan_entries(prepared), "source": source}
        session = create_run(
            root, name=spec.name, config=plain(spec), inputs=files, planned=prepared.planned, fields=fields
        )
    finally:
        inputs.close()
    return Begun(session, prepared)


def plan_entries(prepared: Prepared) -> list[PlanEntry]:
    """How many trials are planned for each task and model."""
    return [PlanEntry(task.name, model, task.planned_by_model) for task in prepared.tasks for model in task.models]


def saved_eval(session: Session) -> EvalSpec:
    """The eval that a session was carrying out.

    Raises:
        ResumeAborted: it cannot be understood by this version.
    """
    try:
        return typed_eval(session.config, "the run's configuration")
    except ValueError as error:  # pragma: no cover - a configuration that this version wrote is one it can read
        raise ResumeAborted(f"Resume aborted: the run's configuration cannot be read: {error}.") from error


def begin_resume(root: Path, *, tasks: Mapping[str, Task] | None = None) -> Begun:
    """Opens a run for its next session; everything comes from the run.

    Raises:
        NotARun: there is no run at `root`.
        RunHeld: another session executes it.
        ResumeAborted: it may not go on.
        ConfigurationError: a task or a model lacks something here; nothing was written.
    """
    prepared: list[Prepared] = []

    def make(reader: RunReader, number: int, pins: list[SegmentPin]) -> Session:
        last = last_session(reader)
        ready = prepare(saved_eval(last), SavedInputs(reader.layout, last.inputs), tasks)
        ready.open_models()
        prepared.append(ready)
        return session_record(
            reader.run.hex(),
            number,
            pins,
            name=last.name,
            config=last.config,
            inputs=last.inputs,
            planned=ready.planned,
            plan=plan_entries(ready),
            source=last.source,
        )

    session = open_session(root, make)
    return Begun(session, prepared[0])


def last_session(reader: RunReader) -> Session:
    """The newest session record that survives.

    Raises:
        NotARun: none does.
    """
    if not reader.sessions:
        raise NotARun(
            f"No session record is left in {reader.layout.root}.", hint="`holdfast verify` names what is lost."
        )
    return reader.sessions[-1]


def owed_and_why(reader: RunReader, planned: int) -> dict[str, int]:
    """How many trials are finished, and how many are owed for which reason."""
    finished = sum(1 for _ in reader.finished())
    touched = History(reader).touched
    failed = sum(1 for key in touched if any(True for _ in reader.index.rows("trial", key)))
    owed = max(planned - finished, 0)
    interrupted = min(len(touched) - failed, owed)
    return {
        "finished": finished,
        "owed": owed,
        "failed": failed,
        "interrupted": interrupted,
        "not_started": max(owed - failed - interrupted, 0),
    }
