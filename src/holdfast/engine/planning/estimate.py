"""What trials are likely to cost: by the tokens that trials of a run have taken, at the prices of the new eval."""

from __future__ import annotations

from collections import defaultdict

from holdfast.engine.planning.plan import PlannedTrial
from holdfast.models.message import Usage
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import KEPT, decode_summary
from holdfast.spec import EvalSpec


class Estimate:
    """Adds up what trials may cost that are still to be run."""

    def __init__(self, reader: RunReader, spec: EvalSpec) -> None:
        self._prices = {name: model.price for name, model in spec.models.items()}
        self._used: defaultdict[str, Usage] = defaultdict(Usage)
        self._trials: defaultdict[str, int] = defaultdict(int)
        for row in reader.index.rows("trial"):
            summary = decode_summary(row.data or b"")
            if row.flag == KEPT and summary.usage is not None:
                self._take(summary.task, summary.usage)
                self._take("", summary.usage)
        self.cost = 0.0

    def _take(self, task: str, usage: Usage) -> None:
        self._used[task] += usage
        self._trials[task] += 1

    def add(self, cell: PlannedTrial) -> None:
        """Adds one trial: as much as those of its task have taken or, if it is new, as those of the run."""
        price = self._prices[cell.model]
        task = cell.task.name if cell.task.name in self._trials else ""
        if price is None or not self._trials.get(task):
            return
        used, count = self._used[task], self._trials[task]
        self.cost += (used.input_tokens * price.input + used.output_tokens * price.output) / count / 1e6
