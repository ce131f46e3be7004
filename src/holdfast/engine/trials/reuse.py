"""Reusing replies of other runs: an identical request to the same model is not made again.

`holdfast run EVAL --reuse RUN…` takes a reply from those runs where they have one for exactly the same messages and
generation, asked of the same model. Every recorded reply is used once, so that repetitions stay different draws. The
step says where its reply comes from, and costs nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.engine.trials.steps import fingerprint_in_key
from holdfast.errors import ConfigurationError
from holdfast.run.core.codec import decode
from holdfast.run.core.records import SessionRecord, StepRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.remote.recover_without_steps import recovered_from
from holdfast.spec import ModelSpec
from holdfast.spec.compare import model_identity


class ReusableReplies:
    """The replies of other runs, on disk, by model and request."""

    def __init__(self, runs: Sequence[Path]) -> None:
        """Reads the replies of these runs.

        Raises:
            NotARun: there is no run at one of the paths.
        """
        # A private file of SQLite's own, gone when it is closed: replies of large runs do not fit into memory.
        self._db = sqlite3.connect("", check_same_thread=False)
        # Any thread may be the one that finds it unused.
        weakref.finalize(self, self._db.close).atexit = False
        self._db.execute(
            "CREATE TABLE replies (model BLOB, fingerprint TEXT, run TEXT, at REAL, seconds REAL, line BLOB,"
            " UNIQUE (model, fingerprint, run, at, seconds))"
        )
        for run in runs:
            self.add_run(run)

    def add_run(self, run: Path) -> None:
        """Reads the replies of another run.

        Raises:
            HoldfastError: it cannot be read.
        """
        with contextlib.closing(RunReader(run)) as reader:
            # A copy without steps has another id than the run in which its replies were drawn.
            drawn_in = [reader.run.hex(), *recovered_from(reader)][-1]
            for model, step, line in _recorded_replies(reader):
                # A reply that several of the runs have reused from one run is still one draw.
                row = (*_reply_identity(model, step, drawn_in), line)
                self._db.execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?)", row)

    def leave_out(self, reader: RunReader) -> None:
        """Leaves out the replies that earlier sessions of a run have taken."""
        for model, step, _ in _recorded_replies(reader):
            if step.source:
                query = "DELETE FROM replies WHERE model = ? AND fingerprint = ? AND run = ? AND at = ? AND seconds = ?"
                self._db.execute(query, _reply_identity(model, step, ""))

    def take(self, model: ModelSpec, fingerprint: str, weights: str = "") -> StepRecord | None:
        """A recorded reply to this request that was not used yet; its `source` names the run it is from.

        `weights` is the digest of a model that is a file.
        """
        query = "SELECT rowid, line, run FROM replies WHERE model = ? AND fingerprint = ? ORDER BY rowid LIMIT 1"
        found = self._db.execute(query, (model_identity(model, weights), fingerprint)).fetchone()
        step = decode(found[1]) if found is not None else None
        if not isinstance(step, StepRecord):
            return None
        self._db.execute("DELETE FROM replies WHERE rowid = ?", found[:1])
        return msgspec.structs.replace(step, source=found[2])


def _recorded_replies(reader: RunReader) -> Iterator[tuple[bytes, StepRecord, bytes]]:
    """Every reply of a model that is recorded: the model's identity, the step, and its line."""
    if not reader.sessions:
        raise ConfigurationError(
            f"{reader.layout.root} has no session record, so it is not known which models gave its replies."
        )
    models = _ModelsBySession(reader.sessions)
    for ident, line in reader.stream([], "step"):
        step = decode(line)
        if isinstance(step, StepRecord) and step.error is None and (model := models.find(ident.session, step.model)):
            yield model, step, line


class _ModelsBySession:
    """What each model was when it replied: a rescoring may put another judge behind its name."""

    def __init__(self, sessions: Sequence[SessionRecord]) -> None:
        self._by_session: dict[int, dict[str, bytes]] = {}
        known: dict[bytes, dict[str, bytes]] = {}
        for session in sessions:
            spelled = msgspec.json.encode([session.config.get("models"), session.weights], order="sorted")
            if spelled not in known:
                known[spelled] = _identities(session)
            self._by_session[session.number] = known[spelled]
        self._ever = list(known.values())

    def find(self, session: int, name: str) -> bytes | None:
        """The identity of a model in a session; None if it has none, or if the session's record is lost and it was
        not always the same.
        """
        if session in self._by_session:
            return self._by_session[session].get(name)
        found = {models[name] for models in self._ever if name in models}
        return found.pop() if len(found) == 1 else None


def _identities(session: SessionRecord) -> dict[str, bytes]:
    return {
        name: model_identity(model, session.weights.get(name, "")) for name, model in saved_eval(session).models.items()
    }


def _reply_identity(model: bytes, step: StepRecord, run: str) -> tuple[bytes, str, str, float, float]:
    """What makes two records the same reply: the request, and when and in which run it was made."""
    return model, fingerprint_in_key(step.step), step.source or run, step.at, step.seconds
