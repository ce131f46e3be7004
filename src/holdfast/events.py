"""What an observer of a session gets; `docs/api.md` says how to write one.

A package offers an observer through an entry point in the group `holdfast.observers`, which names a function without
arguments that makes it.
"""

from holdfast.engine.events import (
    AttemptEnded,
    AxisValueChosen,
    CallRetried,
    Interrupted,
    LimitChanged,
    ModelDisabled,
    Note,
    Observer,
    SessionEnded,
    SessionStarted,
    StepRecorded,
    TaskStopped,
    TrialLeft,
    TrialStarted,
    UploadReported,
)
from holdfast.event_type import Event
from holdfast.sampling.events import CandidateEnded, LaneRepaired, SamplingEnded, SamplingStarted

__all__ = [
    "AttemptEnded",
    "AxisValueChosen",
    "CallRetried",
    "CandidateEnded",
    "Event",
    "Interrupted",
    "LaneRepaired",
    "LimitChanged",
    "ModelDisabled",
    "Note",
    "Observer",
    "SamplingEnded",
    "SamplingStarted",
    "SessionEnded",
    "SessionStarted",
    "StepRecorded",
    "TaskStopped",
    "TrialLeft",
    "TrialStarted",
    "UploadReported",
]
