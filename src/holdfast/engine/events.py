"""Events: what happens while a session runs, as values for observers.

An event is emitted once the fact that it reports is true: an attempt has ended when its record counts, a step is
recorded when it is durable. Observers are called in the loop's thread, in the order of the events, and after the
journal has acknowledged the record: no observer can change what is recorded. The display makes text from them, not
this package.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.event_type import Event
from holdfast.models.message import Usage
from holdfast.run.core.records import Failure, TrialRecord
from holdfast.run.fold.states import StateCounts
from holdfast.sampling.events import CandidateEnded, LaneRepaired, SamplingEnded, SamplingStarted

ADMISSION = "admission"
"""The name of the limit on everything that a session starts."""
FAILURE_BESIDE_JOURNAL, FAILED_OBSERVER, UNAWAITED_ERROR, ODD_REPLY = "failure", "observer", "unawaited", "reply"
SERVED_MODEL, LEFT_BEHIND = "served", "clean_up"
"""The kinds of notes."""


class SessionStarted(Event, frozen=True):
    """The session is about to start its first trial. The first event."""

    run: str
    """The identity of the run."""
    place: str
    """Its URL in an object store, or its directory."""
    session: int
    planned: int
    finished: int
    """How many trials were finished before."""


class SessionEnded(Event, frozen=True):
    """The session has ended in an orderly way; `counts` has the states of the trials. The last event."""

    session: int
    ended_as: str
    exit_code: int
    counts: StateCounts


class TrialStarted(Event, frozen=True):
    """A trial runs now."""

    trial: str
    task: str
    model: str
    sample: str
    epoch: int
    axes: dict[str, str]
    was_finished: bool = False
    """It was finished before, and is attempted once more."""


class StepRecorded(Event, frozen=True):
    """A step of a trial is durable; or, if `replayed`, it was recorded and has not been done again."""

    trial: str
    attempt: int
    step: str
    """Its key, under which it is recorded."""
    name: str
    """`generate` for a call of a model, else the name that the solver gave it."""
    model: str
    """Empty for a step that is no call of a model."""
    replayed: bool
    usage: Usage | None
    source: str = ""
    """The run that the reply was taken from, if it was another one."""


class AttemptEnded(Event, frozen=True):
    """An attempt at a trial has ended, and its record counts."""

    record: TrialRecord
    will_retry: bool = False
    """Another attempt follows: at once, or once `fail_fast` has seen that not all trials of the task fail alike."""
    was_finished: bool = False
    """As of `TrialStarted`."""
    without_retry: bool = False
    """It was reported before, when another attempt was to follow, which does not: the task was stopped."""


class TrialLeft(Event, frozen=True):
    """A trial is no longer running, for any reason."""

    trial: str


class CallRetried(Event, frozen=True):
    """A try of a call failed, and is retried after a pause."""

    model: str
    kind: str
    """`rate_limited`, or `unavailable`."""
    reason: str
    pause: float
    """In seconds."""
    tries: int
    """How many tries of the call have failed."""
    deadline: float = 0.0
    """For how many seconds a model is retried that has not replied in this session; 0 once it has, and after a 429."""
    hint: str = ""
    """What to check, if the server may never reply."""


class ModelDisabled(Event, frozen=True):
    """A model refused the key or cannot be opened, for example, and is disabled for this session."""

    model: str
    reason: str
    is_other_model: bool = False
    """Whether the server is another model than the one whose replies are recorded: then the session ends."""


class TaskStopped(Event, frozen=True):
    """All of the first trials of a task have failed with the same error: no more of them are started."""

    task: str
    error: str
    """In one line, with the line of the task's own code that it comes from."""
    failed: int
    """How many trials have failed with it."""
    not_started: int
    """How many others the task has."""


class AxisValueChosen(Event, frozen=True):
    """Of the axis values that another one depends on, the best was chosen; the choice is durable."""

    task: str
    model: str
    axis: str
    value: str
    """The value that depends on others."""
    chosen: str


class LimitChanged(Event, frozen=True):
    """A limit on what runs at once has changed: `value` is what it allows now, 0 for nothing, None for any number."""

    name: str
    """`admission` for what may start at all."""
    value: int | None
    reason: str
    """`set`. Of `admission`: why it is held (`lease`, say), a signal's name, `other model` or `cancelled`."""
    model: str = ""
    """The model whose calls are held; empty for everything."""
    lifted: bool = False
    """Whether the hold with this reason has ended; `value` stays 0 while another one is in force."""
    detail: str = ""
    """More about the reason, for people: since when a lease could not be renewed."""


class UploadReported(Event, frozen=True):
    """Sealed segments were uploaded to the run's store, or the upload failed."""

    uploaded: int
    """How many were just uploaded."""
    behind: int
    """How many are not uploaded yet."""
    failure: str = ""
    """Why, if the upload failed."""


class Interrupted(Event, frozen=True):
    """A signal has come. The first lets calls in flight finish, the next stops `at_once`."""

    signal: str
    in_flight: int
    """How many calls are sent and not yet recorded."""
    at_once: bool = False
    grace_period: float | None = None
    """For how many seconds those are waited for."""


class Note(Event, frozen=True):
    """A problem that did not stop the run, and that a person should know.

    The kinds: `failure`, a file other than the journal could not be written; `observer`, an observer raised and is
    disabled; `unawaited`, code of a task failed where nobody waited for it; `reply`, a model gave a reply that is kept
    although something is wrong with it, once for each model and kind; `served`, the names that a model's server reports
    are several, or cannot be compared with those on record.
    """

    kind: str
    subject: str
    """What could not be written, which observer it was, or which model."""
    text: str
    """What happened."""
    error: Failure | None = None


EVENT_TYPES: tuple[type[Event], ...] = (
    SessionStarted,
    SessionEnded,
    TrialStarted,
    StepRecorded,
    AttemptEnded,
    TrialLeft,
    CallRetried,
    ModelDisabled,
    TaskStopped,
    AxisValueChosen,
    LimitChanged,
    UploadReported,
    Interrupted,
    Note,
    SamplingStarted,
    CandidateEnded,
    LaneRepaired,
    SamplingEnded,
)
Observer = Callable[[Any], None]
"""Gets events; a plain function, called in the loop's thread, so that it has to return quickly."""


class Events:
    """The events of one session, and who observes them."""

    def __init__(self) -> None:
        """To be made in the event loop that the session runs in."""
        self._loop = asyncio.get_running_loop()
        self._observers: dict[type[Event], tuple[Observer, ...]] = {}
        self._queue: deque[Event] = deque()
        self._is_delivering = False

    def subscribe(self, observer: Observer, *kinds: type[Event]) -> None:
        """From now on the observer gets the events of these kinds, or of all kinds."""
        for kind in kinds or EVENT_TYPES:
            self._observers[kind] = (*self._observers.get(kind, ()), observer)

    def unsubscribe(self, observer: Observer) -> None:
        for kind, observers in self._observers.items():
            self._observers[kind] = tuple(other for other in observers if other is not observer)

    def is_observed(self, kind: type[Event]) -> bool:
        """Whether anybody wants such events; where there are many, they need not be made for nobody."""
        return bool(self._observers.get(kind))

    def emit(self, event: Event) -> None:
        """Delivers an event, after those before it; in the loop's thread."""
        if self._queue or self._observers.get(type(event)):
            self._queue.append(event)
            self._deliver()

    def emit_from_thread(self, event: Event) -> None:
        """As `emit`, from any thread: the loop delivers it soon."""
        self._queue.append(event)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody observes any more
            self._loop.call_soon_threadsafe(self._deliver)

    def close(self, last: Event) -> None:
        """Delivers everything that waits, then the last event; nothing is delivered after it."""
        self.emit(last)
        self._observers = {}

    def _deliver(self) -> None:
        if self._is_delivering:
            # An observer has emitted one: it is delivered once everybody has this one.
            return
        self._is_delivering = True
        try:
            while self._queue:
                event = self._queue.popleft()
                for observer in self._observers.get(type(event), ()):
                    observer(event)
        finally:
            self._is_delivering = False
