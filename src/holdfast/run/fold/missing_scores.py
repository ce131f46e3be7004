"""Scores that are still missing: a scorer was added after trials had ended, and has yet to judge them.

A run is complete only when every planned trial has every planned score. Nothing has to be looked up unless a scorer
was added.
"""

from __future__ import annotations

from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import SessionRecord, Status, decode_summary


def added_scorers(sessions: list[SessionRecord]) -> dict[str, set[str]]:
    """By task, the scorers of the newest plan that the first plan with that task did not have."""
    first: dict[str, set[str]] = {}
    for session in sessions:
        for entry in session.plan:
            first.setdefault(entry.task, set(entry.scorers))
    newest = sessions[-1].plan if sessions else []
    return {entry.task: added for entry in newest if (added := set(entry.scorers) - first[entry.task])}


def lacking_scores(reader: RunReader) -> list[str]:
    """The keys of trials that ended validly and lack the score of a scorer that was added later."""
    added = added_scorers(reader.sessions)
    if not added:
        return []
    judged: dict[str, set[str]] = {}
    for row in reader.index.rows("score"):
        judged.setdefault((row.data or b"").decode(), set()).add(row.key)
    found = {}
    for row in reader.index.rows("trial"):
        summary = decode_summary(row.data or b"")
        if summary.status == Status.VALID.value and summary.task in added:
            found[row.key] = any(row.key not in judged.get(scorer, ()) for scorer in added[summary.task])
    return [key for key, lacks in found.items() if lacks]
