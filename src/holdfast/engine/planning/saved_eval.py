"""The eval that a session of a run was carrying out, from its record."""

from __future__ import annotations

from holdfast.engine.planning.earlier_runs import with_present_names
from holdfast.errors import ConfigurationError, ResumeAborted
from holdfast.run.core.records import SessionRecord
from holdfast.spec import EvalSpec, resolve, typed_eval


def saved_eval(session: SessionRecord) -> EvalSpec:
    """The eval that a session was carrying out.

    Raises:
        ResumeAborted: it cannot be understood by this version.
    """
    try:
        return resolve(typed_eval(with_present_names(session.config), "the run's configuration"))
    except ConfigurationError as error:
        raise ResumeAborted(f"Resume aborted: the run's configuration cannot be read: {error}") from error
