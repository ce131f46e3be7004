"""Choices between axis values that the journal has lost, as result files know them.

Every result of a value that depends on others says which value was chosen for it. The choice of a run is made once:
where files disagree, that of most results counts, and a result that was made with another one is listed and not
recorded, so that no later trial is run with another choice than the trials before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.run.core.axes.choices import AxisChoice, ChoiceKey
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import PlanEntry, TrialRecord
from holdfast.run.core.result_file import ResultFile, read_results
from holdfast.run.repair.result_file_comparison import RejectionReason


class FoundChoices:
    """The choices of a run: those of its journal, and those that only result files know."""

    def __init__(self, plan: Iterable[PlanEntry], known: Mapping[ChoiceKey, AxisChoice], layout: Layout) -> None:
        self._dependent = {
            (entry.task, entry.model, axis, value)
            for entry in plan
            for axis, values in entry.depends.items()
            for value in values
        }
        self._known = {key: choice.chosen for key, choice in known.items()}
        found = _choices_in_files(layout) if self._dependent else {}
        self.new = [AxisChoice(*key, chosen) for key, chosen in found.items() if key not in self._known]
        """Those that have to be recorded."""
        self._all = {**found, **self._known}
        self._unknown: Counter[ChoiceKey] = Counter()

    def rejecting(self, rejection: RejectionReason) -> RejectionReason:
        """The same rejection, and that of results which were made with another choice."""
        if not self._dependent:
            return rejection
        return lambda trial: rejection(trial) or self._why_not(trial)

    def _why_not(self, trial: TrialRecord) -> str:
        for axis, value in trial.axes.items():
            key = (trial.task, trial.model, axis, value)
            chosen, own = self._all.get(key), trial.chosen.get(axis)
            if own is not None and chosen is not None and own != chosen:
                return f"it was made with {own} as the choice for {axis} {value}; the choice of the run is {chosen}"
            self._unknown[key] += key in self._dependent and chosen is None
        return ""

    def notes(self) -> list[str]:
        """Sentences about results whose choice nobody knows."""
        return [
            f"{task} · {model}: which value was chosen for {axis} {value} is lost, and {count} results were made"
            " with it. The next session chooses anew, and may choose another value."
            for (task, model, axis, value), count in self._unknown.items()
            if count
        ]


def _choices_in_files(layout: Layout) -> dict[ChoiceKey, str]:
    """By task, model, axis and value, what most intact results were made with; of equally many, the earliest."""
    counts: dict[ChoiceKey, Counter[str]] = {}
    first: dict[tuple[ChoiceKey, str], float] = {}
    for result in read_results(layout):
        if isinstance(result, ResultFile):
            trial = result.trial
            for axis, chosen in trial.chosen.items():
                key = (trial.task, trial.model, axis, trial.axes.get(axis, ""))
                counts.setdefault(key, Counter())[chosen] += 1
                first[key, chosen] = min(first.get((key, chosen), trial.at), trial.at)
    return {key: max(found, key=lambda one: (found[one], -first[key, one])) for key, found in counts.items()}
