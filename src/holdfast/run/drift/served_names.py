"""The names under which models have answered, as their servers report them.

Each session notes a name when it first gets a reply with it, before that reply. The names of the first session in which
a model has answered are its set on record: a resumed session accepts no other. A reply of another run (`--reuse`,
`fork`) says nothing about the server of this one; its name only counts where the report names several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.digests import content_digest
from holdfast.models.errors import excerpt
from holdfast.models.redaction import redact
from holdfast.run.core.codec import decode
from holdfast.run.core.records import SERVED_NOTE, NoteRecord, SessionRecord, StepRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import REPLY

NO_NAME, MANY_NAMES = "", "…"
"""What stands for a reply without a name, and for the names of a server that has too many to be noted."""


_NAME_CHARACTERS = 200


class ServedName(NamedTuple):
    """A name that a session has seen."""

    session: int
    model: str
    """As the eval calls it."""
    name: str
    is_reused: bool = False
    """Whether it is that of replies of other runs."""


def served_note(model: str, name: str, address: str = "", *, is_reused: bool = False) -> NoteRecord:
    """The note that replies of a model have this name, and where it was reached, if that is known."""
    said = f"answers as {name!r}" if name else "answers without a name"
    where = " in another run" if is_reused else f" at {address}" if address else ""
    data: dict[str, Any] = {"model": model, "name": name}
    data |= {"address": address} if address else {}
    return NoteRecord(
        kind=SERVED_NOTE, text=f"{model} {said}{where}", data=data | ({"reused": True} if is_reused else {})
    )


class NamesOnRecord(NamedTuple):
    """By model, the names in the first session in which it has answered."""

    by_model: Mapping[str, frozenset[str]] = {}
    are_noted: bool = True
    """Not in a run of an earlier version: they were read from its replies, and the next session notes them."""
    of_other_runs: Mapping[str, frozenset[str]] = {}
    """By model, the names of the replies that are from other runs."""

    @property
    def comparable(self) -> set[str]:
        """The models whose replies can be compared with theirs: all of which had a name."""
        return {model for model, names in self.by_model.items() if not names & {NO_NAME, MANY_NAMES}}


def noted_name(name: str) -> str:
    """A name as it is recorded and compared: it is a server's text, and may be of any length and kind."""
    if len(name) <= _NAME_CHARACTERS and name.isprintable():
        return redact(name)
    digest = content_digest(name.encode(errors="surrogatepass"))
    return f"{excerpt(name, _NAME_CHARACTERS - len(digest) - 3)} ({digest})"


def names_on_record(reader: RunReader) -> NamesOnRecord:
    """The names that a resumed session may accept; replies are read only where no name is noted."""
    is_same = _SameModels(reader.sessions)
    noted = [one for one in _noted(reader) if is_same(one)]
    found = [one for one in noted if not one.is_reused]
    if reader.has_losses():
        # A note may be among what is lost, and replies after it are not.
        found += [one for one in set(_recorded(reader)) if not one.is_reused and is_same(one)]
    reused = {one.model: frozenset(_reused_names(noted, one.model)) for one in noted if one.is_reused}
    if found or not any(reader.fold.written(REPLY).values()):
        return NamesOnRecord(_of_first_sessions(found), of_other_runs=reused)
    recorded = {one for one in _recorded(reader) if not one.is_reused and is_same(one)}
    return NamesOnRecord(_of_first_sessions(list(recorded)), are_noted=False, of_other_runs=reused)


class _SameModels:
    """Whether a name is one of the model that the newest session asks: a rescoring may ask another judge instead."""

    def __init__(self, sessions: Sequence[SessionRecord]) -> None:
        self._models = {session.number: session.config.get("models") for session in sessions}
        self._last = sessions[-1].config.get("models") if sessions else None

    def __call__(self, one: ServedName) -> bool:
        before, now = (_asked_model(models, one.model) for models in (self._models.get(one.session), self._last))
        return before is None or now is None or before == now


def _asked_model(models: Any, name: str) -> Any:
    """What is asked for under a name; None where that is not known."""
    found = models.get(name) if isinstance(models, Mapping) else None
    return [found.get("provider"), found.get("model")] if isinstance(found, Mapping) else None


def _reused_names(noted: list[ServedName], model: str) -> Iterator[str]:
    return (one.name for one in noted if one.is_reused and one.model == model)


def _of_first_sessions(found: list[ServedName]) -> dict[str, frozenset[str]]:
    first: dict[str, int] = {}
    for one in found:
        first[one.model] = min(one.session, first.get(one.model, one.session))
    return {
        model: frozenset(one.name for one in found if (one.model, one.session) == (model, session))
        for model, session in first.items()
    }


def has_several_names(reader: RunReader) -> bool:
    """Whether the report counts the replies of a model by name: then it needs their steps."""
    return any(len(names) > 1 for names in _names_by_model(reader).values())


def replies_by_name(reader: RunReader) -> dict[str, dict[str, int]]:
    """How many recorded replies have which name, of each model that has answered under several.

    The steps are read only if there is such a model. What is not noted, because there are too many, is `…`.
    """
    several = {model: names for model, names in _names_by_model(reader).items() if len(names) > 1}
    counts = {model: Counter[str]() for model in sorted(several)}
    for one in _recorded(reader) if several else ():
        if one.model in several:
            name = one.name if one.name in several[one.model] else MANY_NAMES
            counts[one.model][name] += 1
    return {model: dict(sorted(found.items())) for model, found in counts.items()}


def _names_by_model(reader: RunReader) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in _noted(reader):
        found.setdefault(one.model, set()).add(one.name)
    return found


def _noted(reader: RunReader) -> Iterator[ServedName]:
    for session, note in reader.notes():
        if note.kind == SERVED_NOTE and isinstance(data := note.data, dict):
            yield ServedName(session, str(data.get("model")), str(data.get("name")), bool(data.get("reused")))


def _recorded(reader: RunReader) -> Iterator[ServedName]:
    """The name of every reply that is recorded; one that a branch has borrowed from another counts once."""
    for ident, line in reader.stream([], "step"):
        step = decode(line)
        if isinstance(step, StepRecord) and step.model and step.error is None and not step.lender:
            yield ServedName(ident.session, step.model, recorded_name(step), bool(step.source))


def recorded_name(step: StepRecord) -> str:
    """The name in a recorded reply."""
    return noted_name(str(step.result.get("model", NO_NAME))) if isinstance(step.result, dict) else NO_NAME
