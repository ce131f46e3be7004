"""The fold of a verification: the usual one, plus what the records refer to and every final record of a trial."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from holdfast.journal import RecordId
from holdfast.journal.frame import Origin
from holdfast.run.core.codec import citation, decode
from holdfast.run.fold.entries import FoldedRecord, TrialEntry
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.fold.rows.cited_artifacts import CITED_SCHEMA, CitedArtifacts
from holdfast.run.fold.rows.fold_tables import SCHEMA, pack_key
from holdfast.run.verify.cross_check_records import RecordCrossCheck

_BLOB = b'"blob":"'


class VerifyingFold(FoldWriter):
    """Takes in records, and adds up what verification compares."""

    schema = f"{SCHEMA}CREATE TABLE finals (key, session INTEGER, segment INTEGER);\n{CITED_SCHEMA}"

    def __init__(self, deep: RecordCrossCheck | None = None) -> None:
        super().__init__()
        self.deep = deep

    def begin(self, db: sqlite3.Connection) -> None:
        super().begin(db)
        self._lines: list[bytes] = []
        self._finals: list[tuple[object, ...]] = []
        self.unknown = 0
        self.blobs: dict[str, int] = {}
        self.citing: dict[str, set[str]] = {}
        """The trials whose records cite a blob."""
        self.artifacts = CitedArtifacts(db)
        if self.deep is not None:
            self.deep.begin()

    def decode(self, lines: list[bytes]) -> Sequence[FoldedRecord | None]:
        self._lines = lines
        return super().decode(lines)

    def add(self, frame: Origin, segment: int, offset: int, records: Sequence[FoldedRecord | None]) -> None:
        super().add(frame, segment, offset, records)
        for place, (line, entry) in enumerate(zip(self._lines, records, strict=True)):
            if entry is None:
                self.unknown += 1
            elif type(entry) is TrialEntry:
                self._add_final(entry, frame.session, segment)
                self.artifacts.add(line, RecordId(*frame, place))
            elif _BLOB in line and (cited := citation(line)):
                self.blobs[cited.blob] = cited.size
                self.citing.setdefault(cited.blob, set()).add(cited.trial)
        if self.deep is not None:
            for place, line in enumerate(self._lines):
                self.deep.add(citation(line) or decode(line), RecordId(*frame, place))

    def _add_final(self, entry: TrialEntry, session: int, segment: int) -> None:
        if entry.status.is_kept:
            self._finals.append((pack_key(entry.trial), session, segment))

    def flush(self) -> None:
        super().flush()
        finals, self._finals = self._finals, []
        self._db.executemany("INSERT INTO finals VALUES (?,?,?)", finals)
