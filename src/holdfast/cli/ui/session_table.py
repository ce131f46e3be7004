"""The sessions of a run as a table: the first, the last few, and how the others ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from holdfast.analysis.status import SessionStatus
from holdfast.cli.ui.table import Column, table_lines
from holdfast.run.core.display_text import change_text
from holdfast.terminal.text import duration_text, quantity, time_text
from holdfast.terminal.width import hanging, one_line

_MINUTE = len("2026-11-17 11:32")
_ALL, _LAST = 10, 5
"""Of more sessions than the first number, the first one and the last few are listed."""
_INDENT, _NOTE = "  ", "         "
_SHOWN_CHARACTERS = 1000
_COLOURS = {
    "completed": "green",
    "running": "cyan",
    "killed": "red",
    "storage": "red",
    "interrupted": "yellow",
    "with": "yellow",
    "incomplete": "yellow",
}
_SHORT_ENDS = {
    "finished with failures": "with failures",
    "selected trials completed": "selected completed",
    "storage": "storage failed",
}
"""As they are listed below "ended as": every column has to fit into 80."""
_COLUMNS = (
    Column("session", is_number=True),
    Column("started (UTC)", is_optional=True),
    Column("time", is_number=True),
    Column("ended as", is_flexible=True, least=14, colours=_COLOURS),
    Column("trials", is_number=True),
    Column("calls", is_number=True),
    Column("in flight", is_number=True),
)


def session_lines(sessions: Sequence[SessionStatus], columns: int, *, all_sessions: bool = False) -> Iterator[str]:
    """The lines of the table; `all_sessions` lists every one."""
    if not sessions:
        return
    hidden = [] if all_sessions or len(sessions) <= _ALL else sessions[1:-_LAST]
    listed = [sessions[0], *sessions[-_LAST:]] if hidden else sessions
    header, *lines = table_lines(_COLUMNS, [_cells(session) for session in listed], columns - len(_INDENT))
    yield f"{_INDENT}{header}"
    for place, (session, line) in enumerate(zip(listed, lines, strict=True)):
        yield f"{_INDENT}{line}"
        for note in _notes(session):
            yield from hanging(_NOTE, one_line(note, _SHOWN_CHARACTERS), columns)
        if place == 0 and hidden:
            yield from hanging(_INDENT, _hidden_text(hidden), columns)


def _cells(session: SessionStatus) -> list[str]:
    doubtful = f"up to {session.in_flight_at_kill}" if session.in_flight_at_kill else "0"
    if session.ended_as == "running":
        # Only what was in flight at its end is known from the journal.
        doubtful = ""
    return [
        str(session.number),
        time_text(session.started_at, zone=False)[:_MINUTE],
        _duration(session),
        _SHORT_ENDS.get(session.ended_as, session.ended_as),
        f"{session.finished:,}",
        f"{session.calls:,}",
        doubtful,
    ]


def _duration(session: SessionStatus) -> str:
    """How long it ran; empty where its end is not on record."""
    try:
        start, end = (datetime.fromisoformat(at) for at in (session.started_at, session.ended_at or ""))
        return duration_text((end - start).total_seconds())
    except (ValueError, TypeError):
        return ""


def _notes(session: SessionStatus) -> Iterator[str]:
    yield from (f"{change.path}: {change_text(change.old, change.new)}" for change in session.changes)
    yield from map(str, session.failures)


def _hidden_text(hidden: Sequence[SessionStatus]) -> str:
    ends = Counter(session.ended_as for session in hidden)
    how = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    changed = sum(1 for session in hidden if session.changes)
    changes = f", {changed} of them with changed settings" if changed else ""
    return f"… {quantity(len(hidden), 'more session')}: {how}{changes}; --sessions lists them"
