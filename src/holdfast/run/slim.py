"""A run without the transcripts of its finished trials: smaller, and with the same scores and the same report.

It is a new run that begins with the records of the old one: everything of trials that are not finished, so that they
go on where they were, and of the others all but their steps. A note says where it comes from.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, NotARun
from holdfast.journal import Damage
from holdfast.run.create import SourceFile, create_run
from holdfast.run.layout import Layout
from holdfast.run.reading import RunReader
from holdfast.run.records import KEPT, Answer, Note, Record, Score, Step, Trial, decode

KIND = "recover"


def slim(source: Path, root: Path) -> list[str]:
    """Makes the run `root` from the run at `source`; what could not be taken over, in words.

    Raises:
        NotARun: no session record is left at `source`.
        UsageError: there is something at `root` already.
        StorageFailure: the run cannot be written.
    """
    reader = RunReader(source)
    try:
        if not reader.sessions:
            raise NotARun(f"No session record is left in {source}.", hint="Recover it with its steps, then verify it.")
        taking = _Taking(reader)
        last = reader.sessions[-1]
        fields = {name: getattr(last, name) for name in ("plan", "code", "serving", "source")}
        inputs, warnings = _inputs(reader)
        session = create_run(
            root,
            name=last.name,
            config=last.config,
            inputs=inputs,
            planned=last.planned,
            fields=fields,
            preload=taking.records(),
        )
        _copy_files(Layout(source), Layout(root))
        finished = sum(1 for _ in session.reader.finished())
        session.close("recovered", finished=finished, planned=last.planned)
        return warnings
    finally:
        reader.close()


class _Taking:
    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._is_finished = lru_cache(maxsize=10_000)(self._look_up)

    def _look_up(self, key: str) -> bool:
        return any(row.flag == KEPT for row in self._reader.index.rows("trial", key))

    def records(self) -> Iterator[Record]:
        """The note of the origin, then every record that is taken over, in the order of the run."""
        run = self._reader.run.hex()
        yield Note(kind=KIND, text=f"recovered from run {run} without the steps of finished trials", data={"run": run})
        found: list[Damage] = []
        for _, line in self._reader.stream(found):
            record = decode(line)
            if isinstance(record, Step | Trial):
                if isinstance(record, Trial) or not self._is_finished(record.trial):
                    yield msgspec.structs.replace(record, source=record.source or run)
            elif isinstance(record, Answer | Score | Note):
                yield record


def _inputs(reader: RunReader) -> tuple[dict[str, SourceFile], list[str]]:
    found, warnings = {}, []
    for name, item in reader.sessions[-1].inputs.items():
        path = reader.inputs.path(item.digest)
        if item.copied and path.is_file():
            found[name] = SourceFile(path, item.raw)
        else:
            warnings.append(f"The input {name} is not in the run; resuming needs it where it was.")
    return found, warnings


def _copy_files(source: Layout, target: Layout) -> None:
    if source.artifacts.is_dir():
        shutil.copytree(source.artifacts, target.artifacts, dirs_exist_ok=True)
    serving = source.root / "serving.yaml"
    if serving.is_file():
        shutil.copyfile(serving, target.root / "serving.yaml")


def origin_of(root: Path) -> str:
    """The id of the run that the one at `root` was slimmed from; empty if it was not."""
    try:
        reader = RunReader(root)
    except HoldfastError:
        return ""
    try:
        notes = (reader.read(row) for row in reader.index.rows("note", ""))
        found = [note.data["run"] for note in notes if isinstance(note, Note) and note.kind == KIND]
        return str(found[0]) if found else ""
    finally:
        reader.close()
