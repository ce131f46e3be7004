"""What all trials of a session share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.engine.events import Events
from holdfast.engine.model_calls.caller import CallCounts, Caller
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.capacity import CapacityPool
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.concurrency_limits import Limit
from holdfast.engine.scheduling.live_settings import LiveSettings
from holdfast.engine.trials.record_sink import RecordSink
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.engine.trials.step_threads import StepThreads


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
