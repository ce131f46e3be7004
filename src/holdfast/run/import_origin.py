"""Where an imported run comes from: the tool that ran its trials, and what that tool says they cost.

Its trials are read by the one fold, as those of any run. Only what would run a trial has to know that it cannot.
"""

from typing import Any, NamedTuple

from holdfast.run.core.display_text import shell_word
from holdfast.run.core.inputs import LISTED_TRIALS
from holdfast.run.fold.reader import RunReader
from holdfast.terminal.text import quantity

IMPORT_NOTE = "import"
"""The kind of the note that says where a run was imported from."""
RECORDED_COST = "recorded_cost"
UNTIMED = "untimed"
"""How many trials have no duration on record."""


class ImportOrigin(NamedTuple):
    """Where the results of a run come from."""

    tool: str
    place: str
    cost: float | None = None
    """What the tool says that they cost; None where it says nothing. Never added to costs that are computed here."""
    currency: str = ""
    costed: int = 0
    """How many trials have such a cost."""
    untimed: int = 0
    """How many trials have no duration on record."""

    def text(self) -> str:
        """For people, in one sentence."""
        parts = [f"imported from {self.tool} ({self.place})"]
        if self.cost is not None:
            cost = f"{self.cost:,.4f} {self.currency}"
            parts.append(f"it recorded a cost of {cost} for {quantity(self.costed, 'trial')}")
        if self.untimed:
            parts.append(f"the duration of {quantity(self.untimed, 'trial')} is unknown, and counted as 0")
        return "; ".join(parts)


def import_origin(reader: RunReader) -> ImportOrigin | None:
    """Where a run was imported from; None for a run that was started here."""
    if not reader.sessions or LISTED_TRIALS not in reader.sessions[-1].inputs:
        return None
    notes = (note.data for _, note in reader.notes() if note.kind == IMPORT_NOTE and isinstance(note.data, dict))
    data = next(notes, {})
    return _origin(data, data.get(RECORDED_COST))


def _origin(data: dict[str, Any], cost: Any) -> ImportOrigin:
    origin = ImportOrigin(
        str(data.get("tool", "another tool")),
        str(data.get("place", "unknown place")),
        untimed=int(data.get(UNTIMED, 0)),
    )
    if not isinstance(cost, dict) or not cost.get("trials"):
        return origin
    return origin._replace(
        cost=float(cost.get("amount", 0.0)), currency=str(cost.get("currency", "")), costed=int(cost["trials"])
    )


def what_is_possible(reader: RunReader, place: str) -> str:
    """What can be done with an imported run, as a hint; scoring again needs answers."""
    word = shell_word(place)
    report = f"See its scores with `holdfast report {word}`"
    if not has_answers(reader):
        return f"{report}."
    return f"{report}; score its answers with other scorers: `holdfast rescore {word} --set tasks.TASK.scorers=[…]`."


def has_answers(reader: RunReader) -> bool:
    """Whether any trial has an answer that could be scored again."""
    return any(trial.row.answered for trial in reader.fold.trials())
