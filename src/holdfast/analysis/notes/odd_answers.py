"""Answers that are empty or not whole, and replies that were cut off: why a score may mean nothing.

The session that gets such a reply leaves a note in the journal. Only where there is one are answers looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.models.reasoning_text import without_reasoning
from holdfast.run.core.records import CUT_ANSWER, CUT_OFF_REPLY, EMPTY_REPLY, REPLY_NOTE, AnswerRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial

_MOST_READ = 5000
"""Of more trials, the answers are not read for a sentence."""


def odd_answer_notes(reader: RunReader) -> Iterator[str]:
    """Sentences about empty answers, replies that were cut off, and answers that are not whole."""
    noted = _noted(reader)
    if EMPTY_REPLY in noted:
        yield from _empty_answers(reader, ", ".join(sorted(noted[EMPTY_REPLY])))
    if CUT_OFF_REPLY in noted:
        models = ", ".join(sorted(noted[CUT_OFF_REPLY]))
        yield f"some replies of {models} were cut off at max_tokens (finish reason: length)"
    if CUT_ANSWER in noted:
        models = ", ".join(sorted(noted[CUT_ANSWER]))
        yield f"some answers of {models} are not whole (patch_cut or message_cut in their values), and were scored so"


def _noted(reader: RunReader) -> dict[str, set[str]]:
    """By what notes are about, the models."""
    found: dict[str, set[str]] = {}
    for _, note in reader.notes():
        if note.kind == REPLY_NOTE and isinstance(note.data, dict):
            found.setdefault(str(note.data.get("about")), set()).add(str(note.data.get("model")))
    return found


def _empty_answers(reader: RunReader, models: str) -> Iterator[str]:
    if reader.fold.on_record > _MOST_READ:
        yield f"some replies of {models} are empty, or hold only reasoning"
        return
    answers = [text for trial in reader.fold.trials() if (text := _answer_text(reader, trial)) is not None]
    empty = sum(not text.strip() for text in answers)
    unanswered = sum(not without_reasoning(text).strip() for text in answers) - empty
    if empty:
        yield f"{empty} of {len(answers)} answers {'is' if empty == 1 else 'are'} empty"
    if unanswered:
        yield f"{unanswered} of {len(answers)} answers {'holds' if unanswered == 1 else 'hold'} only reasoning"


def _answer_text(reader: RunReader, trial: FoldedTrial) -> str | None:
    """The answer that a trial has; None where it has none."""
    records = (reader.read(placed.line) for placed in reader.lines_of(trial, "answer"))
    texts = [one.text for one in records if isinstance(one, AnswerRecord) and one.attempt == trial.row.answer_of]
    return texts[-1] if texts else None
