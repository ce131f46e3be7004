"""Selecting the score slots that a rescoring fills: of answers on record, those that are missing by the new plan.

An expression may name the `scorer` and the `judge` of a slot beside everything that it may say about a trial. A trial
without an answer is left alone: nothing is asked of the model under test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.selection import SelectionRequest, TrialSelection, all_trials, candidate_of, known_names
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.errors import UsageError
from holdfast.run.core.records import PlanEntry
from holdfast.run.core.slots.slot_names import judge_of, scorer_of
from holdfast.run.fold.candidate import TrialCandidate
from holdfast.run.fold.reader import RunReader
from holdfast.run.where.expression import Where, parse_where
from holdfast.spec import EvalSpec
from holdfast.spec.grid import asked_models
from holdfast.tasks.scorers.recorded import can_score


def select_slots(
    request: SelectionRequest, reader: RunReader, prepared: PreparedEval, plan: list[PlanEntry]
) -> TrialSelection:
    """The slots of a plan that the expression selects, or all of them, as far as they are missing.

    Raises:
        UsageError: the expression is not valid, or matches no slot of an answer.
    """
    where = None
    if request.where is not None:
        names = known_names(reader, prepared)._replace(has_slots=True)
        where = parse_where(request.where, names, f"{request.option_prefix}where")
    fold = reader.fold.with_plan(plan)
    found: defaultdict[str, list[str]] = defaultdict(list)
    answered = KeySet([*fold.keys_with_end(), *fold.answered_without_end()])
    trials: list[str] = []
    matched = held = left_out = 0
    for planned in all_trials(prepared):
        if bytes.fromhex(planned.key) not in answered or (trial := fold.find(planned.key)) is None:
            continue
        if trial.row.is_without_answer and trial.row.counted:
            # A result of another tool, or from a file: it has scores, and no answer that could be scored.
            continue
        slots = list(_matching(where, candidate_of(reader, fold, planned, trial), planned))
        matched += bool(slots)
        missing = [slot for slot in slots if slot not in trial.standing.scorers] if trial.standing.lacks_scores else []
        if missing and not _is_offered(planned, request.offered):
            left_out += 1
            continue
        trials += [planned.key] if missing else []
        for slot in missing:
            found[slot].append(planned.key)
            held += _holds(slot, planned, trial.standing.scorers)
    if where is not None and not matched:
        raise _no_match(request, reader, where)
    return TrialSelection(
        KeySet(trials),
        KeySet([]),
        0,
        matched,
        0,
        slots={slot: KeySet(keys) for slot, keys in found.items()},
        scores_that_hold=held,
        left_out=left_out,
    )


def _holds(slot: str, planned: PlannedTrial, filled: frozenset[str]) -> bool:
    """Whether the slot is filled with a score on record: its sample has kept its target."""
    held = planned.task.scores_that_hold
    return held is not None and held.slot_for(slot, planned.position, filled) is not None


def _is_offered(planned: PlannedTrial, offered: EvalSpec | None) -> bool:
    """Whether the eval that was given still asks for a trial; what it leaves out is kept, and not paid for again."""
    if offered is None:
        return True
    task = offered.tasks.get(planned.task.name)
    return task is not None and planned.model in offered.models and planned.model in asked_models(task, offered.models)


def _matching(where: Where | None, candidate: TrialCandidate, planned: PlannedTrial) -> Iterator[str]:
    for slot in _fillable_slots(planned.task):
        if where is None or where.matches(_SlotCandidate(candidate, slot)):
            yield slot


def _fillable_slots(task: PlannedTask) -> list[str]:
    """The slots of scorers that can score; those of other tools are only on record."""
    return [slot for slot, scorer in zip(task.slots, task.task.scorers, strict=True) if can_score(scorer)]


class _SlotCandidate:
    """One slot of a trial as an expression sees it."""

    def __init__(self, trial: TrialCandidate, slot: str) -> None:
        self._trial, self._slot = trial, slot
        self.coordinates, self.axis, self.score = trial.coordinates, trial.axis, trial.score
        self.metadata, self.text = trial.metadata, trial.text

    def field(self, name: str) -> str | float | int | None:
        if name == "scorer":
            return scorer_of(self._slot)
        if name == "judge":
            return judge_of(self._slot) or None
        return self._trial.field(name)


def _no_match(request: SelectionRequest, reader: RunReader, where: Where | None) -> UsageError:
    return UsageError(
        f"{request.option_prefix}where {request.where!r} matches no score of an answer in {reader.place}.",
        hint=" ".join(
            [
                *(where.unknown_values if where is not None else ()),
                "Nothing was scored. `holdfast show RUN --where …` lists matching trials.",
            ]
        ),
    )
