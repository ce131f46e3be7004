"""The slots of a trial under the names that they have in a fork: each scorer begins there with its plain name.

Where answers were scored by several versions of a scorer, the version of the newest plan is the one that is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.scopes import first_slot_path, key_at_slot, slot_path
from holdfast.run.core.records import ScoreRecord, StepRecord, TrialRecord


def with_plain_names(state: AttemptState, slots: Mapping[str, str]) -> AttemptState:
    """An attempt as a fork keeps it; `slots` gives, by plain name, those of the newest plan."""
    if all(name == slot for name, slot in slots.items()):
        return state
    scores = {name: _renamed(state.scores[slot], name) for name, slot in slots.items() if slot in state.scores}
    return replace(
        state,
        scores=scores,
        slots={name: state.slots[slot] for name, slot in slots.items() if slot in state.slots},
        slot_steps=dict(step for name, slot in slots.items() for step in _moved_steps(state, name, slot)),
        end=None if state.end is None else _scored_end(state.end, scores),
    )


def _renamed(score: ScoreRecord, name: str) -> ScoreRecord:
    return msgspec.structs.replace(score, scorer=name)


def _scored_end(end: TrialRecord, scores: Mapping[str, ScoreRecord]) -> TrialRecord:
    return msgspec.structs.replace(end, scores={name: score.value for name, score in scores.items()})


def _moved_steps(state: AttemptState, name: str, slot: str) -> list[tuple[str, list[StepRecord]]]:
    """The steps of all attempts of a slot, as those of the slot with the plain name."""
    spelled = slot_path(name, 1).partition("/")[2]
    found = []
    for old, steps in state.slot_steps.items():
        if first_slot_path(old) == slot_path(slot, 1):
            new = f"{old.partition('/')[0]}/{spelled}"
            found.append((new, [step_at_slot(step, new) for step in steps]))
    return found


def step_at_slot(step: StepRecord, path: str) -> StepRecord:
    """The step as one of the score slot's attempt at `path`; what it refers to is of the same attempt."""
    moved = {name: key_at_slot(getattr(step, name), path) for name in ("step", "parent", "lender")}
    return msgspec.structs.replace(step, **moved)
