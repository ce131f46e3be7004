"""What all trials of a session share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from holdfast.engine.events import Events
from holdfast.engine.model_calls.caller import CallCounts, Caller
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.capacity import CapacityPool
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.concurrency_limits import Limit
from holdfast.engine.scheduling.live_settings import LiveSettings
from holdfast.engine.trials.record_sink import RecordSink
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.engine.trials.step_threads import StepThreads
from holdfast.models.message import Request
from holdfast.run.core.records import AnswerRecord, TrialRecord


class RecordOnly(Protocol):
    """Gets what a trial asks for that is not recorded, where it only follows its record; none of it is done."""

    async def miss_call(self, key: str, request: Request) -> NoReturn: ...
    async def miss_step(self, key: str, name: str, arguments: Any) -> NoReturn: ...


class ResultSink(Protocol):
    """Takes results of trials, for their files."""

    async def write(self, trial: TrialRecord, answer: AnswerRecord | None) -> None: ...


@dataclass(frozen=True, slots=True)
class TrialEnvironment:
    """What all trials of a session share."""

    sink: RecordSink
    caller: Caller
    admission: Admission
    counts: CallCounts
    clock: Clock
    settings: LiveSettings
    events: Events
    on_idle: Callable[[TrialActivity], None]
    """Called whenever nothing of a trial is worth waiting for."""
    step_threads: StepThreads
    score_limits: Mapping[str, tuple[Limit, ...]]
    """By task, what a score slot needs to be worked on."""
    capacity: CapacityPool
    find_model: Callable[[str], OpenModel]
    """Gives the model of that name; raises UsageError where the eval has none."""
    seed: int = 0
    deterministic: bool = False
    """Whether every call gets a seed, and no choice among candidates may depend on timing."""
    reuse: ReusableReplies | None = None
    modules: frozenset[str] = field(default_factory=lambda: frozenset(sys.modules))
    """What was imported before the first trial: the same in every session, whatever functions of steps import."""
    slots: Mapping[str, KeySet] | None = None
    """By name, the trials whose slots are filled in this session; None where all that are missing are."""
    redone_by: str = ""
    """What of their results finished trials that are attempted once more were selected by."""
    stage_limits: Mapping[str, Mapping[str, tuple[Limit, ...]]] = field(default_factory=dict)
    """By task and stage, what the stages of a solver need to run."""
    until: str = ""
    """The stage after which trials are left for a later session; empty where none is."""
    root: Path | None = None
    """The directory of the run on this machine; None where trials only follow their record."""
    results: ResultSink | None = None
    """Takes the results of finished trials of tasks with result files, before they are recorded."""
    note_left: Callable[[str, str], None] = lambda _key, _text: None
    """Gets a trial after which nothing could be cleaned up, and why."""
    record_only: RecordOnly | None = None
    """Set where trials only follow their record: nothing else is done."""
