"""The eval that is saved in a run, in the record of its last session."""

from __future__ import annotations

from pathlib import Path

from holdfast.engine.planning.earlier_runs import with_present_names
from holdfast.errors import ConfigurationError, NotARun, ResumeAborted
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import SessionRecord
from holdfast.run.fold.reader import RunReader
from holdfast.spec import EvalSpec, resolve, typed_eval


def last_session(reader: RunReader) -> SessionRecord:
    """The newest session record that survives.

    Raises:
        NotARun: none does.
    """
    if not reader.sessions:
        raise NotARun(
            f"No session record is left in {reader.place}.",
            hint=f"Rebuild it with: holdfast repair {shell_word(reader.place)}",
        )
    return reader.sessions[-1]


def eval_directory(session: SessionRecord) -> Path:
    """Where the file of the eval was: an eval file's directory, or that of the Python file that `run` was given."""
    directory = Path(session.config.get("directory") or ".")
    home, _, _ = session.source.partition(":")
    return (directory / home).parent if home.endswith(".py") else directory


def saved_eval(session: SessionRecord) -> EvalSpec:
    """The eval that a session was running.

    Raises:
        ResumeAborted: it cannot be understood by this version.
    """
    try:
        return resolve(typed_eval(with_present_names(session.config), "the run's configuration"))
    except ConfigurationError as error:
        raise ResumeAborted(f"Resume aborted: the run's configuration cannot be read: {error}") from error
