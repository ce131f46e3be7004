"""What is odd about replies that are kept all the same: said once for each model and kind, and counted.

The first of each is a note in the journal too: if it is the usage that is unknown, no cost is computed from the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from holdfast.engine.events import ODD_REPLY, Events, Note
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.errors import RunHeld, StorageFailure
from holdfast.models.errors import excerpt
from holdfast.models.finish_reasons import is_known_reason
from holdfast.models.message import UNKNOWN_USAGE, Reply
from holdfast.models.reasoning_text import without_reasoning
from holdfast.run.core.records import CUT_ANSWER, CUT_OFF_REPLY, EMPTY_REPLY, REPLY_NOTE, NoteRecord

FINISH, SCHEMA = "finish", "response_schema"
CUT_OFF = "length"
"""The finish reason of a reply that reached its longest length."""
_MOST_REASONS = 10
"""How many unknown finish reasons of a model are distinguished: a server may give a new one with every reply."""
_REASON_CHARACTERS = 80


class ReplyWarnings:
    """The warnings of a session about its replies."""

    def __init__(
        self, events: Events, record: Callable[[NoteRecord], None] = lambda _: None, unmetered: Iterable[str] = ()
    ) -> None:
        """`record` writes a note to the journal; `unmetered` are models with replies of unknown usage from before."""
        self._events, self._record = events, record
        self.unmetered = set(unmetered)
        """The models that have given a reply whose usage is unknown."""
        self.counts: dict[str, dict[str, int]] = {}
        """By model, how many replies each warning is about."""

    def note(self, model: OpenModel, reply: Reply) -> None:
        """Takes note of a reply that is not as usual."""
        for kind, text in reply.warnings.items():
            self._warn(model.name, kind, text)
        if reply.usage is None and UNKNOWN_USAGE not in reply.warnings:
            text = "A reply came without usage, so its tokens are unknown."
            self._warn(model.name, UNKNOWN_USAGE, text, is_said=model.spec.price is not None)
        if is_empty(reply):
            what = "holds only reasoning" if str(reply.content).strip() else "is empty"
            self._warn(model.name, EMPTY_REPLY, f"A reply {what} (finish: {reply.finish or 'none'}).")
        if reply.finish == CUT_OFF:
            self._warn(model.name, CUT_OFF_REPLY, "A reply was cut off at its longest length, max_tokens.")
        if not is_known_reason(reply.finish):
            self._note_reason(model.name, excerpt(reply.finish, _REASON_CHARACTERS))

    def note_schema(self, model: OpenModel) -> None:
        """Takes note of a reply that was not held to the schema of its request, because its provider takes none."""
        self._warn(model.name, SCHEMA, "Its provider does not send a response_schema: replies may not fit it.")

    def note_cut_answer(self, model: OpenModel, text: str) -> None:
        """Takes note of an answer that is not all of what was said or done."""
        self._warn(model.name, CUT_ANSWER, text)

    def _note_reason(self, model: str, reason: str) -> None:
        kind, known = f"{FINISH} {reason}", self.counts.get(model, {})
        if kind not in known and sum(other.startswith(FINISH) for other in known) >= _MOST_REASONS:
            kind, reason = f"{FINISH} …", "…"
        self._warn(model, kind, f"A reply ended with the unknown finish_reason {reason!r}; it is kept as it is.")

    def _warn(self, model: str, kind: str, text: str, *, is_said: bool = True) -> None:
        counts = self.counts.setdefault(model, {})
        counts[kind] = counts.get(kind, 0) + 1
        if kind == UNKNOWN_USAGE:
            self.unmetered.add(model)
        if counts[kind] == 1:
            with contextlib.suppress(StorageFailure, RunHeld):  # whoever waits for the journal gets the error
                self._record(NoteRecord(kind=REPLY_NOTE, text=f"{model}: {text}", data={"model": model, "about": kind}))
            if is_said:
                self._events.emit(Note(ODD_REPLY, model, text))


def is_empty(reply: Reply) -> bool:
    """Whether nothing is in it that a solver could answer with; reasoning alone is no answer."""
    if not isinstance(reply.content, str) or reply.tool_calls or reply.refusal:
        return False
    return not without_reasoning(reply.content).strip()
