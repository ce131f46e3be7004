"""Runs in virtual time: a real journal, real records, the real engine, and a model under the test's control."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.virtual import VirtualClock, VirtualLoop, run_virtually, seeded
from holdfast import Reply, Sample, Task, Usage, exact
from holdfast.analysis.report import Report, make_report
from holdfast.analysis.status import RunStatus, run_status
from holdfast.api.event_text import EventText
from holdfast.engine.events import Event, Observer
from holdfast.engine.execution import Execution, SessionOutcome
from holdfast.engine.opening.new_run import StartedSession, start_run
from holdfast.engine.opening.resume import resume_run
from holdfast.engine.planning.selection import SelectionRequest
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.run import verify_run
from holdfast.run.core.codec import decode
from holdfast.run.core.records import Record, TrialRecord
from holdfast.run.fold.reader import RunReader
from holdfast.spec import resolve, typed_eval
from holdfast.spec.code_reference import IN_MEMORY

Behaviour = Callable[[Any, int], Awaitable[Reply]]


def said(text: str, tokens: tuple[int, int] = (1, 1)) -> Reply:
    return Reply(text, "stop", Usage(*tokens))


def prompt_of(request) -> str:
    return request.messages[-1].content


class State:
    """Something that a solver looks at and a test changes between sessions, as a machine or a service changes."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Solver(State):
    """A solver whose code is the same to every session, whatever the function behind it holds."""

    async def __call__(self, trial):
        return await self.value(trial)


class Actor:
    """A provider that does what the test says; it notes when each try began and ended, and how many were running."""

    def __init__(self, behave: Behaviour | None = None, *, seconds: float = 0.0) -> None:
        self._behave, self._seconds = behave, seconds
        self.tries: list[tuple[float, str]] = []
        self.times: dict[str, list[float]] = {}
        self.active = self.most_active = self.cancelled = 0
        self.by_prompt: Counter[str] = Counter()
        self.requests: list = []
        self.closed = 0

    async def send(self, request) -> Reply:
        prompt, now = prompt_of(request), asyncio.get_running_loop().time()
        self.tries.append((now, prompt))
        self.times.setdefault(prompt, []).append(now)
        self.requests.append(request)
        self.by_prompt[prompt] += 1
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            if self._seconds:
                await asyncio.sleep(self._seconds)
            if self._behave is not None:
                return await self._behave(request, self.by_prompt[prompt])
            return said(prompt.upper())
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.active -= 1

    async def close(self) -> None:
        self.closed += 1

    @property
    def calls(self) -> int:
        return len(self.tries)


async def ask(trial):
    """A solver that asks with the sample's input."""
    return await trial.generate(trial.sample.input)


def samples(count: int, start: int = 0) -> list[Sample]:
    return [Sample(f"q{number}", target=f"Q{number}", id=f"s{number}") for number in range(start, start + count)]


def simple_task(count: int = 1, solve=ask, score=None, name: str = "t", **fields) -> Task:
    return Task(name=name, samples=samples(count), solver=solve, scorers=score or exact(), **fields)


@dataclass
class Session:
    """One session that has ended."""

    ended: SessionOutcome
    execution: Execution
    seconds: float
    events: list[Event] = field(default_factory=list)
    """Everything that was observed, in order."""

    @property
    def messages(self) -> list[str]:
        """What people are told about it, as if everything happened at one moment."""
        sentences = EventText(lambda: 0.0)
        return [text for event in self.events if (text := sentences.text(event))]

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Rig:
    """A run that is executed session by session, each in virtual time."""

    root: Path
    tasks: list[Task]
    actors: dict[str, Actor] = field(default_factory=lambda: {"m": Actor()})
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 7
    at: dict[float, Callable[[Execution], Any]] = field(default_factory=dict)
    """What happens so many seconds after the beginning of the next session."""
    looks: list[Callable[[Execution], None]] = field(default_factory=list)
    """Who looks at the state before every jump of the clock."""
    observers: list[Observer] = field(default_factory=list)
    """Who observes every session, after the rig itself."""
    is_observed: bool = True
    """Whether the rig observes the sessions."""
    redo: str | None = None
    """Which trials the next sessions run once more."""
    where: str | None = None
    start_from: str = ""
    until: str = ""
    """Which stages the next sessions run, of which trials."""
    reuse: list[Path] = field(default_factory=list)
    """Runs whose replies are used again."""

    def __post_init__(self) -> None:
        if not isinstance(self.tasks, list):
            self.tasks = [self.tasks]
        seeded(self.seed)

    def session(self) -> Session:
        """The next session, from its beginning to its end."""
        loop = VirtualLoop()
        return run_virtually(self._session(loop), loop)

    def killed_session(self, seconds: float) -> Session:
        """A session that is gone at a moment, as with SIGKILL: what was not synced by then is not there."""
        loop = VirtualLoop()
        try:
            return loop.run_until_complete(self._killed(loop, seconds))
        finally:
            loop.close()

    async def _session(self, loop: VirtualLoop) -> Session:
        execution = self._execution(loop)
        began = loop.time()
        for moment, act in self.at.items():
            loop.call_at(began + moment, act, execution)
        self.at = {}
        try:
            return Session(await execution.run(signals=False), execution, loop.time() - began, self._events)
        finally:
            # Timers of a grace time are no reason to go on.
            for handle in list(loop._scheduled):
                handle.cancel()

    async def _killed(self, loop: VirtualLoop, seconds: float) -> Session:
        execution = self._execution(loop)
        began = loop.time()
        running = asyncio.ensure_future(execution.run(signals=False))
        await asyncio.wait([running], timeout=seconds)
        if running.done():
            return Session(running.result(), execution, loop.time() - began, self._events)
        events = list(self._events)
        execution._session.abandon()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return Session(SessionOutcome("killed", 137, 0, 0, 0), execution, loop.time() - began, events)

    def _execution(self, loop: VirtualLoop) -> Execution:
        started = self.begin()
        loop.writers.append(started.session.sink.journal)
        self._events: list[Event] = []
        observers = [self._events.append, *self.observers] if self.is_observed else self.observers
        execution = Execution(
            started.session,
            started.prepared,
            clock=VirtualClock(loop),
            rng=seeded(self.seed),
            reuse=ReusableReplies(self.reuse) if self.reuse else None,
            selection=started.selection,
            observers=observers,
        )
        _wait_for_result_files(loop, execution)
        loop.at_jump += [lambda look=look: look(execution) for look in self.looks]
        return execution

    def begin(self) -> StartedSession:
        """Opens the run for its next session, with the test's own models behind the names."""
        made = {task.name: task for task in self.tasks}
        if (self.root / "journal").is_dir():
            selection = SelectionRequest(self.where, self.redo, start_from=self.start_from, until=self.until)
            started = resume_run(self.root, tasks=made, selection=selection)
        else:
            started = start_run(self.spec(), self.root, tasks=made, until=self.until)
        started.prepared.providers.update(self.actors)
        return started

    def spec(self):
        models = {name: {"provider": "scripted", "model": "echo", **self.models.get(name, {})} for name in self.actors}
        tasks = {task.name: {"use": IN_MEMORY + task.name} for task in self.tasks}
        settings = dict(self.settings)
        for name, entry in settings.pop("tasks", {}).items():
            tasks[name] |= entry
        data = {"name": "rig", "directory": str(self.root.parent), "models": models, "tasks": tasks, **settings}
        return resolve(typed_eval(data, "the rig"), "the rig")

    # What is on record.

    def records(self, type_: type[Record] = Record) -> list[Any]:
        reader = RunReader(self.root)
        try:
            return [record for _, line in reader.stream([]) if isinstance(record := decode(line), type_)]
        finally:
            reader.close()

    def ends(self) -> list[TrialRecord]:
        return self.records(TrialRecord)

    def statuses(self) -> dict[str, str]:
        """The last status of every trial, by its sample."""
        return {end.sample: end.status.value for end in self.ends()}

    def report(self) -> Report:
        return self._read(make_report)

    def ledger(self) -> list[tuple[int, str, str, int, str]]:
        """What the ledger names: by session, task, kind and model, how many calls."""
        return self._read(lambda reader: [tuple(entry) for entry in reader.fold.ledger()])

    def status(self) -> RunStatus:
        return self._read(run_status)

    def is_sound(self) -> bool:
        """Whether everything in the run agrees with everything else."""
        verification = self._read(verify_run)
        assert verification.ok, verification.damage
        return True

    def _read(self, look):
        reader = RunReader(self.root)
        try:
            return look(reader)
        finally:
            reader.close()


def _wait_for_result_files(loop: VirtualLoop, execution: Execution) -> None:
    """Has the loop wait while a result file is written."""
    write = execution._results.write

    async def counted(*given: Any) -> None:
        loop.outside += 1
        try:
            await write(*given)
        finally:
            loop.outside -= 1

    execution._results.write = counted


def interrupt(execution: Execution) -> None:
    """A Ctrl-C arrives."""
    execution._note_signal()
    execution._interrupt.arrive(signal.SIGINT)
