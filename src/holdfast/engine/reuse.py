"""Reusing replies of other runs: an identical request to the same model is not made again.

`holdfast run EVAL --reuse RUN…` takes a reply from those runs where they have one for exactly the same messages and
generation, asked of the same model. Every recorded reply is used once, so that repetitions stay different draws. The
step says where its reply comes from, and costs nothing.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.engine.examine import saved_eval
from holdfast.errors import ConfigurationError
from holdfast.run.reading import RunReader
from holdfast.run.records import Step, decode
from holdfast.spec import ModelSpec, plain

_STEP = b'"type":"step"'


def asked_of(model: ModelSpec) -> bytes:
    """What makes two models the same one: who serves it, its name and the provider's options; not where it is
    reached.
    """
    kept = {name: value for name, value in plain(model).items() if name in {"provider", "model", "args"}}
    return msgspec.json.encode(kept, order="sorted")


class Reuse:
    """The replies of other runs, on disk, by model and request."""

    def __init__(self, runs: Sequence[Path]) -> None:
        """Reads the replies of these runs.

        Raises:
            NotARun: one of them is none.
        """
        # A private file of SQLite's own, gone when it is closed: replies of large runs do not fit into memory.
        self._db = sqlite3.connect("")
        self._db.execute("CREATE TABLE replies (model BLOB, fingerprint TEXT, run TEXT, line BLOB)")
        for run in runs:
            self._read(run)
        self._db.execute("CREATE INDEX by_request ON replies (model, fingerprint)")
        self._used: Counter[tuple[bytes, str]] = Counter()
        self.taken = 0

    def _read(self, run: Path) -> None:
        reader = RunReader(run)
        try:
            if not reader.sessions:
                raise ConfigurationError(f"{run} has no session record, so nobody knows whom its replies are from.")
            models = {name: asked_of(model) for name, model in saved_eval(reader.sessions[-1]).models.items()}
            for _, line in reader.stream([]):
                if not line.startswith(_STEP, 1) or not isinstance(step := decode(line), Step):
                    continue
                if step.model in models and step.error is None:
                    row = (models[step.model], fingerprint_in(step.step), reader.run.hex(), line)
                    self._db.execute("INSERT INTO replies VALUES (?, ?, ?, ?)", row)
        finally:
            reader.close()

    def take(self, model: ModelSpec, fingerprint: str) -> Step | None:
        """A recorded reply to this request that was not used yet; its `source` names the run it is from."""
        asked = (asked_of(model), fingerprint)
        query = "SELECT line, run FROM replies WHERE model = ? AND fingerprint = ? ORDER BY rowid LIMIT 1 OFFSET ?"
        found = self._db.execute(query, (*asked, self._used[asked])).fetchone()
        if found is None:
            return None
        self._used[asked] += 1
        self.taken += 1
        step = decode(found[0])
        return msgspec.structs.replace(step, source=found[1]) if isinstance(step, Step) else None


def fingerprint_in(step: str) -> str:
    """The fingerprint of the request in a step's key."""
    return step.rpartition(":")[2].partition("#")[0]
