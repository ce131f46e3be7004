"""One run: creating it, opening it to read or to execute, finding it, and verifying it."""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.run.core.session_contents import SessionContents, session_record
    from holdfast.run.fold.reader import RunReader
    from holdfast.run.locate import find_run
    from holdfast.run.session.create import create_run
    from holdfast.run.session.join import JoinedSession, join_session
    from holdfast.run.session.open import open_session
    from holdfast.run.session.session import RunSession
    from holdfast.run.session.writer_options import WriterOptions
    from holdfast.run.verify.verify import Verification, verify_run

__all__ = [
    "JoinedSession",
    "RunReader",
    "RunSession",
    "SessionContents",
    "Verification",
    "WriterOptions",
    "create_run",
    "find_run",
    "join_session",
    "open_session",
    "session_record",
    "verify_run",
]

_HOMES = {
    "holdfast.run.core.session_contents": ("SessionContents", "session_record"),
    "holdfast.run.fold.reader": ("RunReader",),
    "holdfast.run.locate": ("find_run",),
    "holdfast.run.session.create": ("create_run",),
    "holdfast.run.session.join": ("JoinedSession", "join_session"),
    "holdfast.run.session.open": ("open_session",),
    "holdfast.run.session.session": ("RunSession",),
    "holdfast.run.session.writer_options": ("WriterOptions",),
    "holdfast.run.verify.verify": ("Verification", "verify_run"),
}
__getattr__ = load_lazily(__name__, _HOMES)
