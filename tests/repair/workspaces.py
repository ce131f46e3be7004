"""Runs as workspace tasks leave them: every trial that ended has a result file in its directory of artifacts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from evals import write_dataset, write_eval
from holdfast.engine.opening.new_run import start_run
from holdfast.engine.planning.plan import TrialSequence
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.run import RunReader, RunSession, SessionContents, open_session, session_record
from holdfast.run.core.codec import decode, encode
from holdfast.run.core.records import SessionEndRecord, Status, TrialRecord
from holdfast.run.core.result_file import RESULT, encode_result
from holdfast.spec import load_eval, resolve

GROUPS = {"first": 149, "second": 45, "third": 102, "fourth": 229, "fifth": 65}


def workspace_eval(directory: Path, counts: dict[str, int], *, variants: Iterable[str] = (), **task) -> Path:
    """An eval with one task for each of `counts`, with so many samples; `variants` are values on the axis `prompt`."""
    write_dataset(directory, max(counts.values()))
    prompt = {name: f"{name}: {{question}}" for name in variants} or "{question}"
    declared = {"dataset": "rows", "prompt": prompt, "target": "{answer}", "scorers": ["exact"], **task}
    data = {
        "name": "workspace",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {name: {**declared, "limit": count} for name, count in counts.items()},
    }
    return write_eval(directory, data)


def planned_run(
    eval_file: Path, root: Path, end: Callable[[TrialRecord], TrialRecord] | None = None
) -> list[TrialRecord]:
    """Begins a run of the eval, in which nothing is carried out; how its trials will have ended."""
    started = start_run(resolve(load_eval(eval_file), str(eval_file)), root)
    ends = []
    for task in started.prepared.tasks:
        for planned in TrialSequence(task, "m", KeySet([]), KeySet([])).trials():
            sample = task.dataset.key(planned.position)
            trial = TrialRecord(
                trial=planned.key,
                attempt=1,
                status=Status.VALID,
                task=task.name,
                model="m",
                sample=sample,
                epoch=planned.epoch,
                axes=dict(planned.axes),
                scores={"exact": float(planned.position % 3 == 0)},
            )
            ends.append(end(trial) if end else trial)
    started.session.close("interrupted", 130)
    return ends


def begin_session_like(root: Path, **fields) -> RunSession:
    """A further session with everything that the session before has, except `fields`."""
    names = ("name", "config", "inputs", "planned", "plan", "code")

    def make(reader, number, pins):
        last = reader.sessions[-1]
        contents = SessionContents(**{name: getattr(last, name) for name in names} | fields)
        return session_record(reader.run.hex(), number, pins, contents)

    return open_session(root, make)


def close_with_count(session: RunSession, finished: int) -> None:
    """Ends a session whose end says that so many trials are finished, true or not."""
    end = SessionEndRecord(number=session.number, how="interrupted", exit_code=130, finished=finished)
    session.sink.journal.close(lambda pins: encode(msgspec.structs.replace(end, pins=pins)))
    session.abandon()


def leave_results(root: Path, trials: Iterable[TrialRecord]) -> None:
    """Writes result files, without syncing each."""
    for trial in trials:
        directory = root / "artifacts" / trial.trial
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RESULT).write_bytes(encode_result(trial))


def ends_on_record(root: Path) -> list[TrialRecord]:
    """Every `trial` record of a run, in order."""
    reader = RunReader(root)
    try:
        records = (decode(line) for _, line in reader.stream([]))
        return [record for record in records if isinstance(record, TrialRecord)]
    finally:
        reader.close()


def lose_journal(root: Path) -> None:
    shutil.rmtree(root / "journal")


def result_path(root: Path, trial: TrialRecord) -> Path:
    return root / "artifacts" / trial.trial / RESULT


def edit_result(path: Path, change: Callable[[dict], object]) -> None:
    """Changes the content of a result file, and leaves its checksum as it was."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
