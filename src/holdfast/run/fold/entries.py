"""The entry of a record in the fold: the few fields that the state of a trial depends on.

Texts, requests and results are not decoded. A line that is not a record, or not one of this version, gives None.
"""

import msgspec

from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import (
    CANDIDATE,
    CHOICE,
    CLEAN_UP,
    OF_STAGE,
    OWN_SOURCES,
    AnswerRecord,
    CallRecord,
    Coordinates,
    Failure,
    SamplingSummary,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
    UsageShare,
)

_SLOTS = ("/score/", "/score~")
"""How the keys of steps begin that score slots have asked for."""
_ABOUT_SAMPLINGS = (f"{CANDIDATE}:", f"{CHOICE}:")
"""How the keys of those begin, after their scope, that say how a sampling goes."""


_CLEAN_UP = f"{OF_STAGE}{CLEAN_UP}:"


class Entry(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """What is taken in of any record; `trial` is empty for one that belongs to no trial."""

    trial: str = ""


class CallEntry(Entry, frozen=True, gc=False, tag="call"):
    """A call that was sent."""

    attempt: int = 1
    model: str = ""
    about: Coordinates | None = None
    repeats: str = ""


class RefusedEntry(Entry, frozen=True, gc=False, tag="refused"):
    """A call whose reply was kept out, because another model gave it."""

    attempt: int = 1
    tries: int = 0


class StepEntry(Entry, frozen=True, gc=False, tag="step"):
    """A step: its result, or why it is missing."""

    attempt: int = 1
    model: str = ""
    source: str = ""
    error: Failure | None = None
    about: Coordinates | None = None
    usage: Usage | None = None
    lender: str = ""
    role: ModelRole = ModelRole.UNDER_TEST
    step: str = ""
    tries: int = 0
    cost: float = 0.0
    """In format 1 only."""

    @property
    def is_reused(self) -> bool:
        return _is_reused(self.source, self.cost)

    @property
    def is_of_slot(self) -> bool:
        """Whether a score slot has asked for it; a judge may also be asked by a sampling of the solver."""
        return self.role is ModelRole.JUDGE and (not self.step or self.step.startswith(_SLOTS))

    @property
    def is_clean_up(self) -> bool:
        """Whether it says that nothing is left to be cleaned up after an attempt."""
        return not self.model and self.step.startswith(_CLEAN_UP)

    @property
    def is_about_sampling(self) -> bool:
        """Whether it records the course of a sampling, and is not a step that a solver asked for."""
        return self.step.startswith("/") and self.step.partition(" ")[2].startswith(_ABOUT_SAMPLINGS)


class AnswerEntry(Entry, frozen=True, gc=False, tag="answer"):
    """An answer."""

    attempt: int = 1
    about: Coordinates | None = None


class ScoreEntry(Entry, frozen=True, gc=False, tag="score"):
    """A score, or why it is missing."""

    attempt: int = 1
    scorer: str = ""
    value: float | None = None
    unscored: bool = False
    error: Failure | None = None
    usage: Usage | None = None
    shares: tuple[UsageShare, ...] = ()
    source: str = ""
    slot_attempt: int = 1
    unused: int = 0
    will_retry: bool = False
    blob: str = ""


class TrialEntry(Entry, frozen=True, gc=False, tag="trial"):
    """The end of an attempt; the fields are those of `TrialRecord`."""

    status: Status = Status.UNFINISHED
    attempt: int = 1
    task: str = ""
    model: str = ""
    sample: str = ""
    epoch: int = 1
    axes: dict[str, str] = {}
    scores: dict[str, float | None] = {}
    usage: Usage | None = None
    shares: tuple[UsageShare, ...] = ()
    calls: int = 0
    replayed: int = 0
    unused: int = 0
    at: float = 0.0
    seconds: float = 0.0
    limit: str = ""
    stage: str = ""
    source: str = ""
    error: Failure | None = None
    will_retry: bool = False
    samplings: tuple[SamplingSummary, ...] = ()
    paused: bool = False
    cost: float = 0.0
    """In format 1 only."""


class SessionEntry(Entry, frozen=True, gc=False, tag="session"):
    """A session began."""


class SessionEndEntry(Entry, frozen=True, gc=False, tag="session_end"):
    """A session ended."""


class NoteEntry(Entry, frozen=True, gc=False, tag="note"):
    """A note."""


class AppliedEntry(Entry, frozen=True, gc=False, tag="applied"):
    """Changes that had waited."""


class MarkEntry(Entry, frozen=True, gc=False, tag="mark"):
    """An admission mark."""


AnyEntry = (
    CallEntry
    | RefusedEntry
    | StepEntry
    | AnswerEntry
    | ScoreEntry
    | TrialEntry
    | SessionEntry
    | SessionEndEntry
    | NoteEntry
    | AppliedEntry
    | MarkEntry
)
FoldedRecord = AnyEntry | CallRecord | ScoreRecord | TrialRecord
"""What the fold takes in: records of these types have all the fields that it asks for."""
_SMALL = frozenset({ScoreRecord, TrialRecord})
_SMALL_BYTES = 4096
_decoder = msgspec.json.Decoder(AnyEntry)
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _is_reused(source: str, cost: float) -> bool:
    """Whether another run has paid for what a record says.

    In format 1 a copy had a source too, and kept its cost: one that has a cost was paid for.
    """
    return source not in OWN_SOURCES and not cost


def is_reused_end(entry: TrialEntry | TrialRecord) -> bool:
    """Whether the end of an attempt was kept from another run, with all that it took."""
    return _is_reused(entry.source, getattr(entry, "cost", 0.0))


def entry_of_line(line: bytes) -> AnyEntry | None:
    """What is taken in of a line of the journal; None for what is not a record of this version."""
    try:
        entry: AnyEntry = _decoder.decode(line)
    except _UNDECODABLE:
        return None
    return entry


def entry_of_record(record: object, line: bytes) -> FoldedRecord | None:
    """The same of a record that has just been encoded; one that is small is taken in as it is."""
    type_ = type(record)
    if type_ is CallRecord or (type_ in _SMALL and len(line) < _SMALL_BYTES):
        return record  # type: ignore[return-value]
    if isinstance(record, StepRecord):
        of_model = record.usage, record.lender, record.role, record.step, record.tries
        return StepEntry(
            record.trial, record.attempt, record.model, record.source, record.error, record.about, *of_model
        )
    if isinstance(record, AnswerRecord):
        return AnswerEntry(record.trial, record.attempt, record.about)
    return entry_of_line(line)
