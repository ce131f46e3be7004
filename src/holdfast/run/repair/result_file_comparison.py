"""The result files of a run, compared with its journal and its plan.

A file that is damaged, or that belongs to no planned trial, is a fault. One that contradicts the journal is a
conflict, and the journal wins. All other results that are not recorded yet are new. Each file is read once; new
results wait in a temporary file.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from holdfast.run.core.layout import Layout
from holdfast.run.core.records import (
    ARTIFACT,
    AnswerRecord,
    NoteRecord,
    Record,
    ScoreRecord,
    SessionRecord,
    Status,
    TrialRecord,
)
from holdfast.run.core.result_file import RESULT, ResultFile, ResultFileFault, read_results, result_location
from holdfast.run.fold.ends_on_record import REBUILT, EndMatch, compare_end, run_ids
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import Group, RunFold

_QUEUE_BYTES = 4 << 20

RejectionReason = Callable[[TrialRecord], str]
"""Why a result does not belong to the run; empty if it does."""


class TrialGroup(msgspec.Struct, frozen=True):
    """Finished trials of one task, one model, or one value on an axis."""

    by: str
    value: str
    files: int
    """Sound result files."""
    before: int
    after: int
    difference: int


class ResultConflict(msgspec.Struct, frozen=True):
    """A result file that contradicts the journal."""

    where: str
    trial: str
    detail: str


class _FoundResult(msgspec.Struct, frozen=True, array_like=True):
    """A result that waits to be recorded."""

    trial: TrialRecord
    answer: AnswerRecord | None = None
    run: str = ""


_found_decoder = msgspec.json.Decoder(_FoundResult)


class ResultTally:
    """Counts of trials by task, by model and by the value on each axis."""

    def __init__(self) -> None:
        self.files: Counter[tuple[str, str]] = Counter()
        self.before: Counter[tuple[str, str]] = Counter()
        self.added: Counter[tuple[str, str]] = Counter()

    def groups(self) -> list[TrialGroup]:
        """Every group that anything was counted in, in order."""
        return [
            TrialGroup(by, value, self.files[by, value], before, before + added, added)
            for by, value in sorted({*self.files, *self.before, *self.added})
            for before, added in [(self.before[by, value], self.added[by, value])]
        ]


def tally_groups(fold: RunFold) -> Counter[tuple[str, str]]:
    """How many trials of each group have an end that is kept."""
    found: Counter[tuple[str, str]] = Counter()
    for standing in fold.standings.values():
        if standing.is_kept:
            for group in _groups(standing.group):
                found[group] += standing.trials
    return found


def trial_groups(trial: TrialRecord) -> list[tuple[str, str]]:
    """The groups that a trial belongs to."""
    return _groups(Group(trial.task, trial.model, trial.axes))


def _groups(group: Group) -> list[tuple[str, str]]:
    return [("task", group.task), ("model", group.model), *((f"axis {name}", at) for name, at in group.axes.items())]


class ResultComparison:
    """The result files of a run, read once; without a reader there is no journal to compare them with."""

    def __init__(
        self, layout: Layout, reader: RunReader | None, rejection: RejectionReason, tally: ResultTally
    ) -> None:
        self._layout, self._reader, self._rejection, self.tally = layout, reader, rejection, tally
        # What has to be recorded may be more than fits into memory.
        self._queue = tempfile.SpooledTemporaryFile(_QUEUE_BYTES, prefix="holdfast-")  # noqa: SIM115 - closed by `close`
        self._own: frozenset[str] | None = None
        """The ids by which result files may name this run; None until one is compared."""
        self._named: Counter[str] = Counter()
        """How many new results name which run."""
        self._earlier: dict[str, set[str]] = {}
        """By run, the ids that it had before, as its new results say."""
        self.files = self.sound = self.new = self.new_kept = 0
        self.faults: list[ResultFileFault] = []
        self.conflicts: list[ResultConflict] = []
        self.scorers: dict[tuple[str, str], set[str]] = {}
        """The scorers that new results name, by task and model."""
        self.unmetered: set[str] = set()
        """The models of new results whose usage is unknown."""

    def run(self) -> None:
        """Reads every file, compares and counts."""
        for found in read_results(self._layout):
            self.files += 1
            if isinstance(found, ResultFileFault):
                self.faults.append(found)
            elif reason := self._rejection(found.trial):
                self.faults.append(ResultFileFault(result_location(found.path), reason))
            else:
                self._compare(found)
        if self._reader is None and len(self._named) > 1:
            self._refuse_others()

    def _compare(self, found: ResultFile) -> None:
        trial = found.trial
        match, detail = compare_end(self._reader, trial)
        if match is not EndMatch.KNOWN and self._is_foreign(found.run):
            self.faults.append(_foreign(result_location(found.path), found.run))
            return
        self.sound += 1
        self.tally.files.update(trial_groups(trial))
        if match is EndMatch.CONFLICT:
            self.conflicts.append(ResultConflict(result_location(found.path), trial.trial, detail))
        elif match is EndMatch.NEW:
            self._queue_new(trial, found)

    def _is_foreign(self, run: str) -> bool:
        """Whether a result is known to be of another run, which may well have planned the same trial."""
        if not run or self._reader is None:
            return False
        if self._own is None:
            self._own = run_ids(self._reader)
        return run not in self._own

    @property
    def named_run(self) -> str:
        """The id that most files name which are new; empty if none does, or two runs are named as often."""
        return max(sorted(self._own_runs()), key=lambda run: self._named[run], default="")

    @property
    def earlier_runs(self) -> list[str]:
        """The other ids of that run."""
        return sorted(self._own_runs() - {self.named_run})

    def _own_runs(self) -> set[str]:
        """All ids of the run that most files name: one that was repaired or recovered has several."""
        runs = {frozenset(self._same_run(run)) for run in self._named}
        counted = sorted(((sum(self._named[one] for one in run), run) for run in runs), key=lambda pair: -pair[0])
        is_clear = len(counted) == 1 or (len(counted) > 1 and counted[0][0] > counted[1][0])
        return set(counted[0][1]) if is_clear else set()

    def _same_run(self, run: str) -> set[str]:
        """The ids that a run has or had, as files say that name an earlier or a later one of it."""
        own, groups = {run}, [{one, *before} for one, before in self._earlier.items()]
        while more := {one for group in groups if group & own for one in group} - own:
            own |= more
        return own

    def _refuse_others(self) -> None:
        """Without a journal, the run is the one that most files name: results of others are faults after all."""
        own, queue = {"", *self._own_runs()}, self._queue
        self._queue = tempfile.SpooledTemporaryFile(_QUEUE_BYTES, prefix="holdfast-")  # noqa: SIM115 - closed by `close`
        self.scorers.clear()
        self.unmetered.clear()
        queue.seek(0)
        for found in map(_found_decoder.decode, queue):
            self._count_new(found.trial, -1)
            if found.run in own:
                self._add_new(found)
            else:
                self.sound -= 1
                self.tally.files.subtract(trial_groups(found.trial))
                self.faults.append(_foreign(f"artifacts/{found.trial.trial}/{RESULT}", found.run))
        queue.close()

    def _queue_new(self, trial: TrialRecord, found: ResultFile) -> None:
        files = {**trial.artifacts, RESULT: found.digest}
        self._named.update([found.run] if found.run else ())
        if found.run and found.earlier:
            self._earlier.setdefault(found.run, set()).update(found.earlier)
        recorded = msgspec.structs.replace(trial, source=ARTIFACT, artifacts=files)
        self._add_new(_FoundResult(recorded, found.answer, found.run))

    def _add_new(self, found: _FoundResult) -> None:
        trial = found.trial
        self._queue.write(msgspec.json.encode(found) + b"\n")
        self._count_new(trial, 1)
        self.scorers.setdefault((trial.task, trial.model), set()).update(trial.scores)
        if trial.usage is None:
            self.unmetered.add(trial.model)

    def _count_new(self, trial: TrialRecord, by: int) -> None:
        self.new += by
        if trial.status.is_kept:
            self.new_kept += by
            self.tally.added.update(dict.fromkeys(trial_groups(trial), by))

    def records(self) -> Iterator[Record]:
        """What has to be recorded of the results that are missing in the journal."""
        self._queue.seek(0)
        for line in self._queue:
            trial, answer, _ = msgspec.structs.astuple(_found_decoder.decode(line))
            if answer is not None:
                yield answer
            for scorer, value in trial.scores.items():
                yield ScoreRecord(
                    trial=trial.trial,
                    attempt=trial.attempt,
                    scorer=scorer,
                    value=value,
                    unscored=value is None,
                    source=ARTIFACT,
                )
            yield trial

    def close(self) -> None:
        self._queue.close()


def planned_scorers(sessions: list[SessionRecord]) -> dict[tuple[str, str], set[str]]:
    """By planned task and model, the scorers that every trial must have; those added later may still be missing."""
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
    missing = planned.get((trial.task, trial.model), set()) - trial.scores.keys()
    if missing:
        return f"it holds no verdict: the score of {', '.join(sorted(missing))} is missing"
    return "" if planned or trial.scores else "it holds no verdict: no scores"


def samples_of(layout: Layout) -> dict[str, set[str]]:
    """The samples that intact result files name, by task."""
    samples: dict[str, set[str]] = {}
    for found in read_results(layout):
        if isinstance(found, ResultFile):
            samples.setdefault(found.trial.task, set()).add(found.trial.sample)
    return samples


def _foreign(where: str, run: str) -> ResultFileFault:
    return ResultFileFault(where, f"it is a result of another run ({run})")


def rebuilt_note(run: str, earlier: list[str]) -> NoteRecord:
    """What a rebuilt journal says of the run whose place it takes, and of the other ids that this had."""
    data = {"run": run, "earlier": earlier} if earlier else {"run": run}
    return NoteRecord(kind=REBUILT, text=f"rebuilt in place of run {run}", data=data)


def has_results(layout: Layout) -> bool:
    """Whether any result file is intact."""
    return any(isinstance(found, ResultFile) for found in read_results(layout))
