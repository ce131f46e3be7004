"""What remains of a run, and why: every planned trial that is not finished is counted under one reason.

A run is complete only when every planned trial has every planned score. A scorer that was added after trials had ended
has yet to judge them; nothing has to be looked up unless one was added.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import SessionRecord, Status, decode_summary

_WORDS = {
    "interrupted": "interrupted",
    "failed": "failed before",
    "lacking_scores": "not yet scored",
    "not_started": "not started",
}


def added_scorers(sessions: list[SessionRecord]) -> dict[str, set[str]]:
    """By task, the scorers of the newest plan that the first plan with that task did not have."""
    first: dict[str, set[str]] = {}
    for session in sessions:
        for entry in session.plan:
            first.setdefault(entry.task, set(entry.scorers))
    newest = sessions[-1].plan if sessions else []
    return {entry.task: added for entry in newest if (added := set(entry.scorers) - first[entry.task])}


def trials_missing_scores(reader: RunReader) -> list[str]:
    """The keys of trials that ended validly and have no score yet from a scorer that was added later."""
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
    return [key for key, is_missing in found.items() if is_missing]


def count_remaining(reader: RunReader, planned: int) -> dict[str, int]:
    """How many trials are finished, and how many remain for which reason."""
    finished = reader.finished_count
    touched = failed = 0
    for key in reader.index.open_keys():
        touched += 1
        failed += any(True for _ in reader.index.rows("trial", key))
    unscored = len(trials_missing_scores(reader))
    open_ = max(planned - finished, 0)
    interrupted = min(touched - failed, open_)
    return {
        "finished": finished - unscored,
        "owed": open_ + unscored,
        "failed": failed,
        "interrupted": interrupted,
        "lacking_scores": unscored,
        "not_started": max(open_ - failed - interrupted, 0),
    }


def remaining_reasons(counts: Mapping[str, int]) -> dict[str, int]:
    """The reasons that apply, in the words of a person."""
    return {words: counts[name] for name, words in _WORDS.items() if counts.get(name)}


def reasons_text(reasons: Mapping[str, int]) -> str:
    """The end of a sentence about how many trials remain; empty where none does."""
    return ": " + ", ".join(f"{count} {words}" for words, count in reasons.items()) if reasons else ""
