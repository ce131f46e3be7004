"""What the result files of a run come to, held against its journal and its plan.

A file that is not sound, or that belongs to no planned trial, is a fault. One that says otherwise than the journal is a
conflict, and the journal wins. What is left and not yet on record is new. Each file is read once; what has to be
recorded waits in a temporary database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from holdfast.run.core.layout import Layout
from holdfast.run.core.records import ARTIFACT, Record, ScoreRecord, SessionRecord, Status, TrialRecord
from holdfast.run.core.result_file import RESULT, Result, ResultFileFault, results, where_of
from holdfast.run.fold.attempt_ends import Ends, Standing

WhyNot = Callable[[TrialRecord], str]
"""Why a result does not belong to the run; empty if it does."""


class Group(msgspec.Struct, frozen=True):
    """Finished trials of one task, one model, or one value on an axis."""

    by: str
    value: str
    files: int
    """Sound result files."""
    before: int
    after: int
    difference: int


class Conflict(msgspec.Struct, frozen=True):
    """A result file that contradicts the journal."""

    where: str
    trial: str
    detail: str


class ResultTally:
    """Counts of trials by task, by model and by the value on each axis."""

    def __init__(self) -> None:
        self.files: Counter[tuple[str, str]] = Counter()
        self.before: Counter[tuple[str, str]] = Counter()
        self.added: Counter[tuple[str, str]] = Counter()

    def groups(self) -> list[Group]:
        """Every group that anything was counted in, in order."""
        return [
            Group(by, value, self.files[by, value], before, before + added, added)
            for by, value in sorted({*self.files, *self.before, *self.added})
            for before, added in [(self.before[by, value], self.added[by, value])]
        ]


def places(trial: TrialRecord) -> list[tuple[str, str]]:
    """The groups that a trial belongs to."""
    return [("task", trial.task), ("model", trial.model), *((f"axis {name}", at) for name, at in trial.axes.items())]


class Findings:
    """The result files of a run, looked through once."""

    def __init__(self, layout: Layout, ends: Ends, why_not: WhyNot, tally: ResultTally) -> None:
        self._layout, self._ends, self._why_not, self.tally = layout, ends, why_not, tally
        self.files = self.sound = self.new = self.new_kept = 0
        self.faults: list[ResultFileFault] = []
        self.conflicts: list[Conflict] = []
        self.scorers: dict[tuple[str, str], set[str]] = {}
        """The scorers that new results name, by task and model."""

    def look(self) -> None:
        """Reads every file and counts."""
        for found in results(self._layout):
            self.files += 1
            if isinstance(found, ResultFileFault):
                self.faults.append(found)
            elif reason := self._why_not(found.trial):
                self.faults.append(ResultFileFault(where_of(found.path), reason))
            else:
                self._take(found)

    def _take(self, found: Result) -> None:
        trial = found.trial
        self.sound += 1
        self.tally.files.update(places(trial))
        standing, detail = self._ends.compare(trial)
        if standing is Standing.CONFLICT:
            self.conflicts.append(Conflict(where_of(found.path), trial.trial, detail))
        elif standing is Standing.NEW:
            self._take_new(trial, found.digest)

    def _take_new(self, trial: TrialRecord, digest: str) -> None:
        files = {**trial.artifacts, RESULT: digest}
        self._ends.add(msgspec.structs.replace(trial, source=ARTIFACT, artifacts=files))
        self.new += 1
        self.scorers.setdefault((trial.task, trial.model), set()).update(trial.scores)
        if trial.status.is_kept:
            self.new_kept += 1
            self.tally.added.update(places(trial))

    def records(self) -> Iterator[Record]:
        """What has to be recorded of the results that the journal lacks."""
        for trial in self._ends.added():
            for scorer, value in trial.scores.items():
                yield ScoreRecord(trial=trial.trial, attempt=trial.attempt, scorer=scorer, value=value, source=ARTIFACT)
            yield trial


def planned_scorers(sessions: list[SessionRecord]) -> dict[tuple[str, str], set[str]]:
    """For every planned task and model the scorers that every trial of it must have; one added later is owed."""
    scorers: dict[tuple[str, str], set[str]] = {}
    for session in sessions:
        for entry in session.plan:
            known = scorers.setdefault((entry.task, entry.model), set(entry.scorers))
            known &= set(entry.scorers)
    return scorers


def not_planned(planned: Mapping[tuple[str, str], set[str]], trial: TrialRecord) -> str:
    """Why a result does not fit the plan, going by its task, model and scores."""
    if planned and (trial.task, trial.model) not in planned:
        return f"the plan has no task {trial.task!r} for the model {trial.model!r}"
    if trial.status is not Status.VALID:
        return ""
    lacking = planned.get((trial.task, trial.model), set()) - trial.scores.keys()
    if lacking:
        return f"it holds no verdict: the score of {', '.join(sorted(lacking))} is missing"
    return "" if planned or trial.scores else "it holds no verdict: no scores"


def samples_of(layout: Layout) -> dict[str, set[str]]:
    """The samples that sound result files speak of, by task."""
    samples: dict[str, set[str]] = {}
    for found in results(layout):
        if isinstance(found, Result):
            samples.setdefault(found.trial.task, set()).add(found.trial.sample)
    return samples


def has_results(layout: Layout) -> bool:
    """Whether any result file is sound."""
    return any(isinstance(found, Result) for found in results(layout))
