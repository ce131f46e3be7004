"""One run: creating it, opening it to read or to execute, finding it, and proving it whole."""

from holdfast.run.create import create_run
from holdfast.run.environment import session_record
from holdfast.run.find import find_run
from holdfast.run.opening import open_session
from holdfast.run.reading import RunReader
from holdfast.run.session import RunSession
from holdfast.run.verify import Verification, verify_run

__all__ = [
    "RunReader",
    "RunSession",
    "Verification",
    "create_run",
    "find_run",
    "open_session",
    "session_record",
    "verify_run",
]
