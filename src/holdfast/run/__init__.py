"""One run: creating it, opening it to read or to execute, finding it, and verifying it."""

from holdfast.run.core.reader import RunReader
from holdfast.run.core.session_contents import SessionContents, session_record
from holdfast.run.locate import find_run
from holdfast.run.session.create import create_run
from holdfast.run.session.open import open_session
from holdfast.run.session.session import RunSession
from holdfast.run.session.writer_options import WriterOptions
from holdfast.run.verify.verify import Verification, verify_run

__all__ = [
    "RunReader",
    "RunSession",
    "SessionContents",
    "Verification",
    "WriterOptions",
    "create_run",
    "find_run",
    "open_session",
    "session_record",
    "verify_run",
]
