"""The sentences about events: what people read while a session runs. The engine itself makes none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from holdfast.engine.events import (
    FAILED_OBSERVER,
    LEFT_BEHIND,
    ODD_REPLY,
    SERVED_MODEL,
    UNAWAITED_ERROR,
    AttemptEnded,
    AxisValueChosen,
    CallRetried,
    Interrupted,
    LimitChanged,
    ModelDisabled,
    Note,
    SessionEnded,
    TaskStopped,
)
from holdfast.engine.model_calls.caller import ModelClosed
from holdfast.engine.scheduling.admission import LEASE
from holdfast.event_type import Event
from holdfast.run.core.display_text import short_sample
from holdfast.run.core.records import TrialRecord
from holdfast.run.fold.states import is_failed_slot
from holdfast.run.where.trial_spelling import axes_text
from holdfast.sampling.candidate import CandidateStatus
from holdfast.tasks.source.failure_text import error_identity, failure_line
from holdfast.terminal.text import duration_text, quantity
from holdfast.terminal.width import one_line

_REPEAT_SECONDS = 60.0
_MINUTE = 60.0
_LONG_PAUSE = 60.0
"""From this many seconds on it is said how long a call waits: the run may seem to hang."""
_SHORT_ERROR = 60
_MOST_ERRORS = 100
"""How many different errors are listed."""
_OTHERS = ("", "")
_ERROR = CandidateStatus.ERROR.value
_SIGNALS = {"SIGINT": "Ctrl-C"}
"""What people press."""
_LOOKED_AT = 20
"""How many trials of a task fail before it is stopped, if no others are running: the first ten, and ten others."""


class EventText:
    """Makes a sentence of each event that people should know of."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, verbose: bool = False) -> None:
        """`verbose` has a sentence for every retry and every failed attempt; else equal errors are said once."""
        self._now, self._verbose = now, verbose
        self._repeated: dict[tuple[str, str], int] = {}
        """By task and error, how many trials have ended with it after the first, as far as errors are kept apart."""
        self._lines: dict[tuple[str, str], str] = {}
        """The first of each, in one line."""
        self._retried: dict[str, float] = {}
        """When it was last said of a model that its calls are retried."""
        self._with_failed_lanes: set[str] = set()
        """The tasks of which it was said that lanes fail beside a success."""
        self._makers: dict[type[Event], Callable[[Any], str]] = {
            AttemptEnded: self._attempt_text,
            CallRetried: self._retry_text,
            ModelDisabled: _disabled_text,
            TaskStopped: _stopped_text,
            AxisValueChosen: _chosen_text,
            SessionEnded: self._repeated_text,
            LimitChanged: _limit_text,
            Interrupted: _interrupt_text,
            Note: note_text,
        }

    @property
    def kinds(self) -> tuple[type[Event], ...]:
        """The events that anything is said about."""
        return tuple(self._makers)

    def text(self, event: Event) -> str:
        """The sentence, or nothing."""
        maker = self._makers.get(type(event))
        return maker(event) if maker is not None else ""

    def _attempt_text(self, event: AttemptEnded) -> str:
        return self._failure_text(event) or (self._lane_text(event.record) if event.record.samplings else "")

    def _failure_text(self, event: AttemptEnded) -> str:
        """Why a trial has failed or remains; that its model is disabled was said when it happened."""
        end = event.record
        if end.error is None or end.error.kind == ModelClosed.kind or (event.will_retry and not self._verbose):
            return ""
        line = failure_line(end.error)
        if event.will_retry:
            return f"{_reference(end)}: attempt {end.attempt} failed, retrying: {line}"
        where = f" ({end.stage})" if is_failed_slot(end.stage) else ""
        text = f"{_reference(end)}: {end.status.value}{where}: {line}"
        return text if self._verbose else self._text_unless_repeated((end.task, error_identity(end.error)), line, text)

    def _text_unless_repeated(self, error: tuple[str, str], line: str, text: str) -> str:
        """The text for the first trial with an error; the others are counted."""
        if error in self._repeated:
            self._repeated[error] += 1
            return ""
        if len(self._repeated) == _MOST_ERRORS:
            # Each has an error of its own, and nobody reads them all.
            self._repeated[_OTHERS] = 0
            return "More trials failed, with other errors; they are counted, and not listed here."
        if len(self._repeated) > _MOST_ERRORS:
            return ""
        self._repeated[error], self._lines[error] = 0, line
        return text

    def _repeated_text(self, _event: SessionEnded) -> str:
        """At the end, how often each error came that was listed once."""
        counts = [(error, count) for error, count in self._repeated.items() if count]
        return "\n".join(
            # In short: the whole of it is above, and at the end of the session.
            f"{error[0]}: {count} more with the same error: {one_line(self._lines[error], _SHORT_ERROR)}"
            for error, count in counts
        )

    def _lane_text(self, end: TrialRecord) -> str:
        """Once for each task, that samplings succeed although lanes of theirs fail: the errors are on record only."""
        failed = sum(one.candidates.get(_ERROR, 0) for one in end.samplings if one.success)
        if not failed or end.task in self._with_failed_lanes:
            return ""
        self._with_failed_lanes.add(end.task)
        lanes = "a lane" if failed == 1 else f"{failed} lanes"
        return (
            f"warning: {_reference(end)}: a sampling succeeded although {lanes} of it failed with an error;"
            f" `holdfast show RUN {end.trial}` has the error. This warning is shown once per task."
        )

    def _retry_text(self, event: CallRetried) -> str:
        """Now and then, why a model's calls are retried: whoever watches wants to know what the run waits for."""
        if self._verbose:
            return f"{event.model}: try {event.tries} failed, retrying in {event.pause:.1f}s: {event.reason}"
        now, last = self._now(), self._retried.get(event.model)
        if last is not None and now - last < _REPEAT_SECONDS:
            return ""
        self._retried[event.model] = now
        when = f" in {duration_text(event.pause)}" if event.pause >= _LONG_PAUSE else ""
        # A wrong address looks like an outage: whoever waits for a first reply should know for how long.
        limit = (
            f" for up to {_setting_text(event.deadline)} (retry_deadline)" if event.deadline and last is None else ""
        )
        # At once, and not after an hour: many errors of this kind do not heal by themselves.
        hint = f" {event.hint}" if event.hint and event.deadline else ""
        return f"{event.model}: retrying{when}{limit}: {event.reason}{hint}"


def _setting_text(seconds: float) -> str:
    """A duration as people write it in an eval: "1h", "2m", "0.5s"."""
    return f"{seconds:g}s" if seconds < _MINUTE else re.sub("(?<=[hm])00[ms]$", "", duration_text(seconds))


def _chosen_text(event: AxisValueChosen) -> str:
    return f"{event.task} · {event.model}: {event.axis} {event.value} takes {event.chosen}, the best value"


def _stopped_text(event: TaskStopped) -> str:
    """The error itself is in the list of errors, and in what is said at the end."""
    others = f"; its other {quantity(event.not_started, 'trial')} will not run" if event.not_started else ""
    failed = "its only trial failed" if event.failed == 1 and not others else _alike(event.failed)
    return f"{event.task}: stopped, because {failed}{others}"


def _alike(failed: int) -> str:
    running = ", counting those that were already running" if failed > _LOOKED_AT else ""
    return "its first trial failed" if failed == 1 else f"its first {failed} trials failed in the same way{running}"


def _reference(end: TrialRecord) -> str:
    """The trial as `holdfast show` takes it, with the model and the epoch."""
    names = [name for name in (end.task, end.model, short_sample(end.sample)) if name]
    return f"{'/'.join(names)}#{end.epoch}{axes_text(end.axes)}"


def _disabled_text(event: ModelDisabled) -> str:
    return f"{event.model}: disabled for this session. {event.reason}"


def _limit_text(event: LimitChanged) -> str:
    """Other changes have a sentence of their own: an interrupt, a model that is another one."""
    if event.reason != LEASE:
        return ""
    if not event.lifted and event.detail:
        return f"{event.detail[0].upper()}{event.detail[1:]}."
    if not event.lifted:
        return "Paused: the lease of the run could not be renewed. Continues as soon as it can be."
    return "The lease of the run has been renewed: continuing." if event.value is None else ""


def _interrupt_text(event: Interrupted) -> str:
    if event.at_once:
        return ""
    name = _SIGNALS.get(event.signal, event.signal)
    calls = "1 in-flight call" if event.in_flight == 1 else f"{event.in_flight} in-flight calls"
    if event.grace_period == 0:
        left = f" without {calls} (grace_period is 0)" if event.in_flight else ""
        return f"{name}: stopping{left}"
    doing = f"waiting for {calls}" if event.in_flight else "stopping"
    again = f"press {name} again" if event.signal in _SIGNALS else "send it again"
    if event.signal == "SIGHUP":
        # A terminal that is gone says so more than once.
        again = "send SIGTERM"
    return f"{name}: {doing}; {again} to stop immediately"


def note_text(note: Note) -> str:
    """What a note says; what could not be written is reported when the session ends, with how often it happened."""
    if note.kind == FAILED_OBSERVER:
        reason = failure_line(note.error) if note.error is not None else note.text
        return f"The observer {note.subject} is disabled for this session: {reason}"
    if note.kind == UNAWAITED_ERROR:
        return f"an error in a task's code was not awaited: {note.text}"
    if note.kind == SERVED_MODEL:
        return f"warning: {note.subject}: {note.text}"
    if note.kind == LEFT_BEHIND:
        return f"warning: {note.subject}: {note.text} This is shown once."
    if note.kind == ODD_REPLY:
        return f"warning: {note.subject}: {note.text} This is shown once; later replies of this kind are only counted."
    return ""
