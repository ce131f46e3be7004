"""The judges of a task, and its panels, from its slots."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.run.core.records import MAJORITY_OF_JUDGES, PanelEntry, shown_scorers
from holdfast.run.core.slots.slot_names import judge_of, scorer_of
from holdfast.tasks.scorers.base import Scorer, is_binary
from holdfast.tasks.scorers.recorded import RecordedSlot

if TYPE_CHECKING:
    from holdfast.tasks.judges.judge_slot import JudgeSlot

_VERSION = re.compile(r"@[0-9a-f]{8}$")


def judge_slots(scorers: Iterable[Scorer]) -> list[JudgeSlot]:
    """The slots of judges among the scorers of a task."""
    named = [scorer for scorer in scorers if judge_of(scorer.name)]
    if not named:
        # Most tasks have none: what knows how to judge is not loaded for them.
        return []
    kind: type[JudgeSlot] = importlib.import_module("holdfast.tasks.judges.judge_slot").JudgeSlot
    return [scorer for scorer in named if isinstance(scorer, kind)]


def panels_of(scorers: Sequence[Scorer]) -> dict[str, PanelEntry]:
    """The panels of a task, by name."""
    judges: dict[str, list[JudgeSlot]] = {}
    for slot in judge_slots(scorers):
        judges.setdefault(slot.of.name, []).append(slot)
    panels = {name: slots[0].of.panel([slot.model for slot in slots]) for name, slots in judges.items()}
    return panels | {slot.of.name: slot.of.panel() for slot in scorers if isinstance(slot, RecordedSlot)}


def shown_names(scorers: Sequence[Scorer]) -> list[str]:
    """The names under which people see the scores of a task."""
    return shown_scorers([scorer.name for scorer in scorers], panels_of(scorers))


def binary_scorers(scorers: Sequence[Scorer]) -> list[str]:
    """The names of scores that are nothing but 0 and 1: of scorers that say so, and of panels."""
    binary = [scorer.name for scorer in scorers if is_binary(scorer)]
    return binary + [name for name, panel in panels_of(scorers).items() if _is_binary_panel(panel, binary)]


def _is_binary_panel(panel: PanelEntry, binary: Sequence[str]) -> bool:
    return panel.combine == MAJORITY_OF_JUDGES or (len(panel.slots) == 1 and panel.slots[0] in binary)


def judging_models(scorers: Iterable[Scorer]) -> tuple[str, ...]:
    """The models that the scorers of a task ask, as far as that is known before."""
    return tuple(dict.fromkeys(slot.model for slot in judge_slots(scorers)))


def with_saved_judges(scorers: Sequence[Scorer], saved: Iterable[str]) -> tuple[Scorer, ...]:
    """The scorers with the judges that a run has had beside them, by the names of its slots."""
    first: dict[str, Any] = {}
    for slot in judge_slots(scorers):
        first.setdefault(slot.of.name, slot)
    known = {scorer.name for scorer in scorers}
    # A changed version of a slot, `quality/a@3fa2c1d0`, is not that of another judge.
    left_out = [name for name in saved if name not in known and scorer_of(name) in first and not _VERSION.search(name)]
    return (*scorers, *(first[scorer_of(name)].with_judge(judge_of(name)) for name in left_out))
