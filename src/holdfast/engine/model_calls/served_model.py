"""Which model replies: a resumed session must not mix in the replies of another one.

Servers report the name of the model that gave a reply. In a resumed session the first call of each model goes alone,
and the others wait for its reply; whatever name comes then or later must be one of those on record. A reply with
another name is kept out, and the session ends. What has no name cannot be compared, and is said to be so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from urllib.parse import urlsplit

from holdfast.engine.events import SERVED_MODEL, Events, Note
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.errors import RunHeld, StorageFailure
from holdfast.models.errors import Rejected, excerpt
from holdfast.models.message import Reply
from holdfast.models.redaction import redact
from holdfast.run.core.display_text import list_text
from holdfast.run.core.records import NoteRecord
from holdfast.run.drift.served_names import MANY_NAMES, NO_NAME, NamesOnRecord, noted_name, served_note
from holdfast.spec.loading.error_messages import key_path

_MOST_NAMES = 50
"""How many names of a model are noted: a server may give a new one with every reply."""


class UnexpectedModel(Rejected):
    """The server says that it is another model than the one whose replies are recorded."""

    def __init__(self, model: OpenModel, reply: Reply) -> None:
        entry, address = key_path("models", model.name), public_address(model.provider)
        expected = list_text(sorted(map(repr, model.names)))
        self.name = noted_name(reply.model)
        super().__init__(
            f"{f'The server at {address}' if address else entry} reports the model {self.name!r}; the replies on record"
            f" are from {expected}. Its reply was kept out, and no address was saved.",
            hint=f"Give the address of the model on record with --set {entry}.base_url=URL. To take the other one,"
            " `holdfast fork RUN` starts a run that keeps what is finished; its report names both.",
        )
        self.usage = reply.usage


def public_address(provider: object) -> str:
    """Where a provider reaches its model, if it says so: without a user, a password or a query."""
    address = getattr(provider, "address", "")
    if not isinstance(address, str):
        return ""
    try:
        parts = urlsplit(address)
        netloc = parts.netloc.rpartition("@")[2]
        return excerpt(redact(parts._replace(netloc=netloc, query="", fragment="").geturl()))
    except ValueError:
        return ""


class ServedModels:
    """The names that the models of a session report."""

    def __init__(
        self,
        on_record: NamesOnRecord,
        events: Events,
        record: Callable[[NoteRecord], None] = lambda _: None,
        on_accepted: Callable[[OpenModel], None] = lambda _: None,
    ) -> None:
        """`on_record` has the names of earlier sessions; `record` writes a note to the journal; `on_accepted` is called
        with each model when its first reply is accepted.
        """
        self._on_record, self._events = on_record, events
        self._record, self._on_accepted = record, on_accepted
        self._seen: dict[str, set[str]] = {}
        """By model, the names that are noted in this session."""
        self._reused = {model: set(names) for model, names in on_record.of_other_runs.items()}
        """The same of replies from other runs."""
        self._warned: set[str] = set()

    def prepare(self, model: OpenModel) -> None:
        """Has the model's replies compared, where there are names to compare them with."""
        if model.name in self._on_record.comparable:
            # The first reply of an agent may take hours: the others do not wait for it.
            model.names, model.awaits_reply = self._on_record.by_model[model.name], not model.has_effects

    def note_earlier(self) -> None:
        """Notes the names of a run of an earlier version: the next resume need not read its replies again."""
        for model, names in self._on_record.by_model.items() if not self._on_record.are_noted else ():
            self._seen[model] = set(names)
            for name in sorted(names):
                self._put(served_note(model, name))

    def check(self, model: OpenModel, reply: Reply) -> None:
        """Compares the name in a reply with those on record.

        Raises:
            UnexpectedModel: it is another one.
        """
        if reply.model and model.names and noted_name(reply.model) not in model.names:
            model.is_other_model = True
            raise UnexpectedModel(model, reply)

    def accept(self, model: OpenModel, reply: Reply) -> None:
        """Takes note of the name in a reply that is about to be recorded."""
        is_first, model.last_name, model.awaits_reply = model.last_name is None, reply.model, False
        name, seen = noted_name(reply.model), self._seen.setdefault(model.name, set())
        if name not in seen and MANY_NAMES not in seen:
            name = name if len(seen) < _MOST_NAMES else MANY_NAMES
            seen.add(name)
            self._put(served_note(model.name, name, public_address(model.provider)))
            self._tell(model.name, name)
        if is_first:
            self._on_accepted(model)

    def note_reused(self, model: str, name: str) -> None:
        """Takes note of the name in a reply of another run."""
        seen = self._reused.setdefault(model, set())
        if (name := noted_name(name)) not in seen and len(seen) < _MOST_NAMES:
            seen.add(name)
            self._put(served_note(model, name, is_reused=True))
            self._tell(model, name)

    def _put(self, note: NoteRecord) -> None:
        with contextlib.suppress(StorageFailure, RunHeld):  # whoever waits for the journal gets the error
            self._record(note)

    def _tell(self, model: str, name: str) -> None:
        before = self._on_record.by_model.get(model, frozenset())
        if before and (NO_NAME in {name, *before} or MANY_NAMES in before):
            self._say_once(model, f"{_why_not(name, before)}, so whether it is still the same one cannot be compared.")
        names = {*self._seen.get(model, ()), *self._reused.get(model, ())}
        if len(names) > 1 and not before:
            shown = list_text([repr(one) if one else "no name" for one in sorted(names)])
            self._say_once(model, f"several models reply: {shown}. The report counts the replies of each.")

    def _say_once(self, model: str, text: str) -> None:
        if model not in self._warned:
            self._warned.add(model)
            self._events.emit(Note(SERVED_MODEL, model, text))


def _why_not(name: str, before: frozenset[str]) -> str:
    if name == NO_NAME:
        return "its server reports no model name"
    if NO_NAME in before:
        return "earlier replies have no model name"
    return "its server reports a new model name with every reply"
