"""The replay of a trial: its solver runs against its record, without a call, a step or a write.

The verdict is about the solver alone: scorers are not run. A trial that has ended must ask for everything that is
recorded and come to the same end; one that was interrupted must follow its record as far as that goes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from holdfast.engine.events import Events
from holdfast.engine.model_calls.caller import CallCounts, Caller
from holdfast.engine.model_calls.open_model import OpenModel, uncallable_model
from holdfast.engine.replay.record_follower import MissingRecord, RecordFollower
from holdfast.engine.replay.recorded_trial import RecordedTrial
from holdfast.engine.replay.request_diff import recorded_lines, short_diff, value_lines
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.admission_mark import AdmissionMark
from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.clock import RealClock
from holdfast.engine.scheduling.concurrency_limits import EvalLimits
from holdfast.engine.scheduling.holds import Holds
from holdfast.engine.scheduling.live_settings import LiveSettings
from holdfast.engine.trials.error_boundary import Outcome, guard
from holdfast.engine.trials.running_trial import RunningTrial
from holdfast.engine.trials.scopes import CURRENT_SCOPE, is_in_sampling, names_in, scope_in_key, scoping_tasks
from holdfast.engine.trials.stages.staged_solving import StagedSolving
from holdfast.engine.trials.step_threads import StepThreads
from holdfast.engine.trials.steps import request_in_key
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import UsageError
from holdfast.models.redaction import redact
from holdfast.run.core.records import CANDIDATE, CHOICE, Failure, Record, Status, StepRecord
from holdfast.tasks.answer import Answer, as_answer
from holdfast.tasks.stages import is_staged

PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02
_QUIET_SECONDS = 1.0
"""So long without a change, where a branch has come to the end of its record: the others have too."""
_GIVING_UP_SECONDS = 10.0
_LEAVING_SECONDS = 2.0
_CUT_OFF = "time"
"""The limit that stops a solver wherever it is."""


class ReplayDifference(msgspec.Struct, frozen=True):
    """The first thing in which a replay differs from the record."""

    kind: str
    """`request`, `step`, `answer`, `error`, `not asked` or `waiting`."""
    text: str
    """What differs, as a sentence."""
    step: str = ""
    """The key of what was asked, or of what is recorded and was not asked for."""
    recorded: list[str] = []
    asked: list[str] = []
    """Both, as lines; empty if absent."""
    diff: list[str] = []


class TrialReplay(msgspec.Struct, frozen=True):
    """How a replay went."""

    attempt: int
    verdict: str
    """`same`, `record ends` for a trial that was interrupted, or `differs`."""
    steps: int
    """How many results of steps are recorded."""
    replayed: int
    difference: ReplayDifference | None = None
    ends_at: str = ""
    """The key of what the solver asks for next, where the record ends."""
    asks_next: str = ""
    """The same in words."""
    notes: list[str] = []

    @property
    def ok(self) -> bool:
        return self.difference is None


class _NoRecords:
    """Takes the records of a trial that only follows its own: none is written."""

    def put(self, record: Record) -> None:
        """It is recorded already, or belongs to nobody."""

    async def keep(self, record: Record) -> object:
        """As `put`."""

    def when_counted(self, report: Callable[[], None]) -> None:
        """Nothing counts."""


class _SolverReplay:
    """The solver of one trial, running against its record."""

    def __init__(self, recorded: RecordedTrial, patience: float, on_look: Callable[[], object]) -> None:
        self._recorded, self._patience, self._state = recorded, patience, recorded.state
        self._on_look = on_look
        self._follower = RecordFollower(recorded.state)
        self._results = _asked_for(recorded.state.steps)
        self._trial: RunningTrial | None = None
        self._notes = [*recorded.notes]

    # Running.

    async def run(self) -> TrialReplay:
        threads = StepThreads()
        with scoping_tasks():
            environment = self._environment(threads)
            solver = asyncio.get_running_loop().create_task(self._solve(environment))
            await self._watch(solver)
            solver.cancel()
            await asyncio.wait([solver], timeout=_LEAVING_SECONDS)
        threads.close()
        return self._judge(None if not solver.done() or solver.cancelled() else solver.result())

    async def _solve(self, environment: TrialEnvironment) -> Outcome:
        planned = self._recorded.planned
        sample = planned.read_sample()
        grant, model = CapacityGrant(environment.capacity, ()), environment.find_model(planned.model)
        trial = self._trial = RunningTrial(environment, planned, self._state, sample, model, grant)
        CURRENT_SCOPE.set(trial.root_scope)
        return await guard(self._answer(environment, trial, grant))

    async def _answer(self, environment: TrialEnvironment, trial: RunningTrial, grant: CapacityGrant) -> Answer | None:
        planned = self._recorded.planned
        solver = planned.task.task.solver_at(planned.axes, planned.chosen)
        if is_staged(solver):
            # Stages do more than ask: none is run, and what follows from their recorded outcomes is compared.
            answer = await StagedSolving(environment, planned, self._state, trial, grant).run(solver)
        else:
            answer = as_answer(await solver(trial))
        trial.account.check_limits()
        trial.account.check_answered()
        return answer

    async def _watch(self, solver: asyncio.Task[Outcome]) -> None:
        """Returns when the solver has ended, when it can get no further, or when patience is over."""
        quiet, seen = 0, (-1, -1)
        while not solver.done():
            await asyncio.wait([solver], timeout=_POLL_SECONDS)
            self._on_look()
            now = len(self._follower.missing), len(self._unasked())
            quiet, seen = (quiet + 1 if now == seen else 0), now
            if quiet * _POLL_SECONDS > self._quiet_seconds() or self._is_stopped(solver):
                return

    def _quiet_seconds(self) -> float:
        """How long nothing may change before the rest is given up."""
        missing = self._follower.missing
        if not missing:
            return self._patience
        # Of what the solver itself has given up nothing is recorded: it gives it up again, if it gets the time.
        is_spared = self._has_ended and not any(map(self._counterpart, missing))
        return min(_GIVING_UP_SECONDS, self._patience) if is_spared else _QUIET_SECONDS

    def _is_stopped(self, solver: asyncio.Task[Outcome]) -> bool:
        """Whether what is missing decides already: the solver itself waits for it, or nothing else is recorded."""
        missing = self._follower.missing
        if self._has_ended:
            return any(one.task is solver and self._counterpart(one) is not None for one in missing)
        return bool(missing) and (not self._unasked() or self._diverged() is not None)

    def _unasked(self) -> list[StepRecord]:
        return _asked_for(self._trial.unasked()) if self._trial is not None else self._results

    def _environment(self, threads: StepThreads) -> TrialEnvironment:
        spec, clock, events, counts = self._recorded.prepared.spec, RealClock(), Events(), CallCounts()
        limits, capacity = EvalLimits(spec), CapacityPool(lambda: None)
        admission = Admission(limits, capacity, Holds(clock), AdmissionMark(0, _no_mark, limits.run))
        return TrialEnvironment(
            sink=_NoRecords(),
            caller=Caller(clock, admission, counts, random.Random(0), capacity, events, lambda _: None),  # noqa: S311
            admission=admission,
            counts=counts,
            clock=clock,
            settings=LiveSettings(spec),
            events=events,
            on_idle=lambda _: None,
            step_threads=threads,
            score_limits=limits.score,
            capacity=capacity,
            find_model=lambda name: self._find_model(name, clock, limits),
            seed=spec.seed,
            deterministic=spec.deterministic is True,
            record_only=self._follower,
        )

    def _find_model(self, name: str, clock: RealClock, limits: EvalLimits) -> OpenModel:
        if name not in self._recorded.prepared.spec.models:
            raise UsageError(f"The eval has no model {name!r}.")
        return uncallable_model(name, self._recorded.prepared, clock, limits)

    # The verdict.

    @property
    def _has_ended(self) -> bool:
        """Whether the solver came to an end of its own in this attempt, by the record."""
        end = self._state.end
        if self._state.answer is not None:
            return True
        return end is not None and end.status is not Status.UNFINISHED and end.limit != _CUT_OFF

    def _judge(self, outcome: Outcome | None) -> TrialReplay:
        unasked = self._unasked()
        difference = self._difference(outcome, unasked)
        is_open = difference is None and outcome is None and self._follower.missing
        following = self._follower.missing[0] if is_open else None
        # What a sampling that has not ended does not ask for again is settled when it ends.
        spared = [step for step in unasked if not is_in_sampling(scope_in_key(step.step))]
        verdict = "differs" if difference is not None else "same" if self._has_ended else "record ends"
        if difference is None and spared:
            first = f"{spared[0].name}{_asked_where(spared[0].step)}"
            self._notes.append(f"{len(spared)} recorded steps were not asked for, such as {first}.")
        if difference is None and not self._has_ended and outcome is not None and outcome.error is not None:
            failure = outcome.failure()
            self._notes.append(f"The solver then raises {failure.kind}: {failure.message}")
        return TrialReplay(
            self._state.attempt,
            verdict,
            len(self._results),
            len(self._results) - len(unasked),
            difference,
            "" if following is None else following.key,
            "" if following is None else _kind_of(following) + _asked_where(following.key),
            self._notes,
        )

    def _difference(self, outcome: Outcome | None, unasked: list[StepRecord]) -> ReplayDifference | None:
        if outcome is not None:
            return self._end_difference(outcome) or self._unasked_difference(unasked)
        missing = self._follower.missing
        if not missing:
            text = f"The solver asked for nothing more within {self._patience:g} seconds, and has not ended."
            return ReplayDifference("waiting", text)
        if self._has_ended:
            return self._missing_difference(missing[0])
        diverged = self._diverged()
        return self._missing_difference(diverged) if diverged is not None else None

    def _diverged(self) -> MissingRecord | None:
        """The first thing that was asked for where something else is recorded and was not in flight at the kill."""
        scopes = {scope_in_key(step.step) for step in self._unasked()}
        others = (one for one in self._follower.missing if one.key not in self._state.in_flight)
        return next((one for one in others if scope_in_key(one.key) in scopes), None)

    def _missing_difference(self, missing: MissingRecord) -> ReplayDifference:
        recorded = self._counterpart(missing)
        kind, where = "request" if missing.is_call else "step", _asked_where(missing.key)
        if recorded is None:
            text = f"The solver asks for {_kind_of(missing)} that is not recorded{where}."
            return ReplayDifference(kind, text, missing.key, [], missing.lines, short_diff([], missing.lines))
        by_key = {step.step: step for step in self._results}
        lines = recorded_lines(recorded, by_key)
        text = f"The solver asks for another {kind} than the recorded one{where}."
        return ReplayDifference(kind, text, missing.key, lines, missing.lines, short_diff(lines, missing.lines))

    def _counterpart(self, missing: MissingRecord) -> StepRecord | None:
        """The recorded step in place of which something else was asked: in the same scope, or in one of its names."""
        path = scope_in_key(missing.key)
        alike = [step for step in self._unasked() if bool(step.model) == missing.is_call]
        here = [step for step in alike if scope_in_key(step.step) == path]
        named = [step for step in alike if names_in(scope_in_key(step.step)) == names_in(path)]
        return next(iter([*here, *named]), None)

    def _unasked_difference(self, unasked: list[StepRecord]) -> ReplayDifference | None:
        """A recorded step that an interrupted trial does not ask for again; one that has ended alike may spare it."""
        if not unasked or self._has_ended:
            return None
        first = unasked[0]
        lines = recorded_lines(first, {step.step: step for step in self._results})
        text = f"The solver ended without asking for a recorded step{_asked_where(first.step)}."
        return ReplayDifference("not asked", text, first.step, lines, [], short_diff(lines, []))

    def _end_difference(self, outcome: Outcome) -> ReplayDifference | None:
        if not self._has_ended:
            return None
        # The record has no keys.
        expected, found = _end_lines(self._recorded_end()), [redact(line) for line in _end_lines(_end_of(outcome))]
        if expected == found:
            return None
        kind = "answer" if isinstance(_end_of(outcome), Answer) else "error"
        text = "The solver asked for the same, and came to another end."
        return ReplayDifference(kind, text, "", expected, found, short_diff(expected, found))

    def _recorded_end(self) -> Answer | Failure | str:
        answer, end = self._state.answer, self._state.end
        if end is not None and end.limit and end.limit != _CUT_OFF:
            # Also where the solver has caught the error and given an answer.
            return end.limit
        if answer is not None:
            return Answer(answer.text, answer.value, answer.unscored)
        return end.error if end is not None and end.error is not None else ""


def _kind_of(missing: MissingRecord) -> str:
    return "a request" if missing.is_call else "a step"


def _asked_where(key: str) -> str:
    """Where in the trial something is asked, and the name of a step."""
    path, request = scope_in_key(key), request_in_key(key).rpartition(":")[0]
    name = f" ({request.removeprefix('step/')})" if request.startswith("step/") else ""
    return f"{name} in the scope {path}" if path else name


def _asked_for(steps: list[StepRecord]) -> list[StepRecord]:
    """The results that solvers and samplings ask for: candidates and choices only say how a sampling went."""
    return [step for step in steps if step.error is None and step.name not in {CANDIDATE, CHOICE}]


async def _no_mark(_calls: int) -> None:
    """No call is ever in flight."""


def _end_of(outcome: Outcome) -> Answer | Failure:
    return outcome.value if isinstance(outcome.value, Answer) else outcome.failure()


def _end_lines(end: Answer | Failure | str) -> list[str]:
    if isinstance(end, str):
        return [f"the trial reached its limit of {end}"] if end else ["no answer"]
    if isinstance(end, Failure):
        return [end.message] if end.kind == "limit" else [f"{end.kind}: {end.message}"]
    lines = value_lines(end.text)
    lines += value_lines(end.value) if end.value is not None else []
    return [*lines, f"unscored: {end.unscored}"] if end.unscored else lines


def replay_trial(recorded: RecordedTrial, patience: float, on_look: Callable[[], object]) -> TrialReplay:
    """Runs the solver of a trial against its record; `patience` is how long it may ask for nothing.

    `on_look` is called several times a second, as long as the solver lets the event loop run.
    """
    loop = asyncio.new_event_loop()
    # A solver that did not end is left as it is: what Python says of that helps nobody.
    loop.set_exception_handler(lambda *_: None)
    try:
        return loop.run_until_complete(_SolverReplay(recorded, patience, on_look).run())
    finally:
        loop.close()
