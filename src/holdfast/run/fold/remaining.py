"""What a run still owes, and why: every planned trial that is not finished is counted under one reason."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.run.core.reader import RunReader
from holdfast.run.fold.missing_scores import lacking_scores

_WORDS = {
    "interrupted": "interrupted",
    "failed": "failed before",
    "lacking_scores": "not yet scored",
    "not_started": "not started",
}


def owed_and_why(reader: RunReader, planned: int) -> dict[str, int]:
    """How many trials are finished, and how many are owed for which reason."""
    finished = reader.finished_count
    touched = failed = 0
    for key in reader.index.open_keys():
        touched += 1
        failed += any(True for _ in reader.index.rows("trial", key))
    lacking = len(lacking_scores(reader))
    open_ = max(planned - finished, 0)
    interrupted = min(touched - failed, open_)
    return {
        "finished": finished - lacking,
        "owed": open_ + lacking,
        "failed": failed,
        "interrupted": interrupted,
        "lacking_scores": lacking,
        "not_started": max(open_ - failed - interrupted, 0),
    }


def reasons(counts: Mapping[str, int]) -> dict[str, int]:
    """The reasons that apply, in the words of a person."""
    return {words: counts[name] for name, words in _WORDS.items() if counts.get(name)}


def reasons_text(told: Mapping[str, int]) -> str:
    """The end of a sentence about how many trials are owed; nothing where none is."""
    return ": " + ", ".join(f"{count} {words}" for words, count in told.items()) if told else ""
