"""The value that was chosen for one which depends on others, as a note in the journal.

The note is durable before any trial that depends on it starts. Of several notes about the same value the first counts:
a choice is made once, and holds for the whole run, whatever becomes of the scores that it was made by.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.run.core.records import NoteRecord, PlanEntry

AXIS_CHOICE = "axis choice"
"""The kind of these notes."""
ChoiceKey = tuple[str, str, str, str]
"""A task, a model, an axis and the value that depends on others."""


class CandidateFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a choice was made by."""

    value: str
    median: float
    tokens: float
    """For each trial, on average."""
    trials: int


class AxisChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a note."""

    task: str
    model: str
    axis: str
    value: str
    """The value that depends on others."""
    chosen: str
    scorer: str = ""
    candidates: list[CandidateFigures] = []

    @property
    def key(self) -> ChoiceKey:
        return self.task, self.model, self.axis, self.value

    def text(self) -> str:
        """The choice as people read it."""
        found = next((one for one in self.candidates if one.value == self.chosen), None)
        why = f" (median {self.scorer} {found.median:g})" if found is not None else ""
        return f"{self.task} · {self.model}: {self.axis} {self.value} takes {self.chosen}{why}"

    def as_note(self) -> NoteRecord:
        """The note, to be recorded."""
        return NoteRecord(kind=AXIS_CHOICE, text=self.text(), data=self)


def first_choices(notes: Iterable[NoteRecord]) -> dict[ChoiceKey, AxisChoice]:
    """The choices of a run, given its notes in order."""
    found: dict[ChoiceKey, AxisChoice] = {}
    for note in notes:
        if note.kind == AXIS_CHOICE and (choice := _decoded_choice(note)) is not None:
            found.setdefault(choice.key, choice)
    return found


def _decoded_choice(note: NoteRecord) -> AxisChoice | None:
    try:
        return msgspec.convert(note.data, AxisChoice)
    except msgspec.ValidationError:
        # A later version may record more, in another form.
        return None


def line_of(choices: Mapping[ChoiceKey, str], task: str, model: str, axis: str, value: str) -> tuple[str, ...]:
    """The value that was chosen for a value, the one that was chosen for that, and so on."""
    line: list[str] = []
    while (value := choices.get((task, model, axis, value), "")) and value not in line:
        line.append(value)
    return tuple(line)


def waiting_reason(axis: str, values: Sequence[str], order: Sequence[str]) -> str:
    """Why trials are not started that depend on these values of an axis, whose values have this order."""
    places = sorted(order.index(value) for value in values if value in order)
    is_run = len(places) > 2 and places == list(range(places[0], places[-1] + 1)) and len(places) == len(values)
    named = f"{order[places[0]]}–{order[places[-1]]}" if is_run else ", ".join(values)  # noqa: RUF001 - a range
    return f"{WAITING}{axis} {named}"


WAITING = "waiting for "
"""How the reason begins for which trials remain that depend on others."""


def waiting_trials(
    entry: PlanEntry, choices: Mapping[ChoiceKey, object], started: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """By reason, how many trials of a task and model wait for a choice; `started` counts those on record, by axis and
    value.
    """
    found: dict[str, int] = {}
    for axis, values in entry.depends.items():
        for value, others in values.items():
            if (entry.task, entry.model, axis, value) in choices:
                continue
            reason = waiting_reason(axis, others, list(entry.axes.get(axis, {})))
            waiting = entry.axes.get(axis, {}).get(value, 0) - started.get((axis, value), 0)
            if waiting > 0:
                found[reason] = found.get(reason, 0) + waiting
    return found
