"""The records of a run: what is written about it, one JSON object each.

Every record is a typed struct with a tag. A field that has its default is left out of the bytes; a field or a type
that this version does not know is passed over by it and kept in the journal. `encode` and `decode` are
inverses for every record; a value that JSON cannot hold (NaN, a lone surrogate) is refused when it is encoded.
"""

from __future__ import annotations

import enum
import math
import re
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.journal import BLOB_BYTES, BlobStore, Entry, SegmentId, SegmentPin
from holdfast.models.message import Usage


class Status(enum.StrEnum):
    """How a trial ended. The first three are kept on resume, FAILED is tried again, UNFINISHED goes on."""

    VALID = "valid"
    LIMITED = "limited"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNFINISHED = "unfinished"

    @property
    def is_kept(self) -> bool:
        return self in {Status.VALID, Status.LIMITED, Status.BLOCKED}


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that the run depends on; `digest` names the copy in `inputs`."""

    digest: str
    size: int
    source: str = ""
    copied: bool = True
    raw: str = ""
    """The digest of the file that it was taken from, as it stood there."""


class PlanEntry(msgspec.Struct, frozen=True):
    """How many trials of a task are planned for a model."""

    task: str
    model: str
    planned: int
    scorers: list[str] = []


class TaskCode(msgspec.Struct, frozen=True, omit_defaults=True):
    """The code behind a task as digests of its normalised source, and how much the task asks for."""

    name: str
    solver: str
    scorers: dict[str, str] = {}
    files: list[str] = []
    settings: dict[str, str] = {}
    """What the task itself sets beside its code, such as its system text and its prompts, as digests."""
    epochs: int = 1
    limit: int | None = None
    axes: dict[str, list[str]] = {}


class Change(msgspec.Struct, frozen=True):
    """A field of the configuration that differs from the session before."""

    path: str
    old: Any
    new: Any


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong: its class, its message, and where."""

    kind: str
    message: str
    traceback: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    """Anything that is written to the journal."""

    v: int = 1
    """The version of this record's layout."""


class Session(Record, frozen=True):
    """A process attached itself to the run. Holds everything that is needed to go on."""

    number: int
    run: str
    name: str
    at: str
    version: str
    config: dict[str, Any] = {}
    inputs: dict[str, Input] = {}
    environment: dict[str, str] = {}
    packages: dict[str, str] = {}
    """The versions of the packages that were installed."""
    invocation: list[str] = []
    source: str = ""
    planned: int = 0
    plan: list[PlanEntry] = []
    code: dict[str, TaskCode] = {}
    serving: str = ""
    """The digest of serving.yaml, if the run has one."""
    pins: list[SegmentPin] = []
    lost: list[SegmentId] = []
    """Segments that were lost with their machine before they were uploaded: their trials are owed."""
    changes: list[Change] = []


class Call(Record, frozen=True):
    """A request to a model is about to be sent; not waited for."""

    trial: str
    attempt: int
    step: str
    model: str = ""


class Step(Record, frozen=True):
    """One durable action inside a trial, with its result."""

    trial: str
    attempt: int
    step: str
    """Scope path, name, fingerprint and occurrence: the identity under which it is replayed."""
    name: str = ""
    parent: str = ""
    request: Any = None
    """What was added since the parent's request and result."""
    result: Any = None
    model: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    tries: int = 0
    at: float = 0.0
    seconds: float = 0.0
    source: str = ""
    error: Failure | None = None


class Answer(Record, frozen=True):
    """The solver's outcome; journaled before scoring starts."""

    trial: str
    attempt: int
    text: str = ""
    value: Any = None


class Score(Record, frozen=True):
    """One scorer's judgement of an answer."""

    trial: str
    attempt: int
    scorer: str
    task: str = ""
    model: str = ""
    axes: dict[str, str] = {}
    """Given, as the two before it, where the trial had already ended when it was judged."""
    value: float | None = None
    answer: str | None = None
    explanation: str = ""
    metadata: dict[str, Any] = {}
    usage: Usage | None = None
    cost: float = 0.0
    source: str = ""
    """As of a trial."""
    error: Failure | None = None


class Trial(Record, frozen=True):
    """The end of an attempt at a trial; final or not is said by its status."""

    trial: str
    attempt: int
    status: Status
    task: str = ""
    model: str = ""
    sample: str = ""
    epoch: int = 1
    axes: dict[str, str] = {}
    digest: str = ""
    scores: dict[str, float] = {}
    usage: Usage | None = None
    cost: float = 0.0
    calls: int = 0
    replayed: int = 0
    tries: int = 0
    at: float = 0.0
    seconds: float = 0.0
    limit: str = ""
    stage: str = ""
    source: str = ""
    """The run that it was taken over from, or `artifact` if it was taken from a result file."""
    error: Failure | None = None
    artifacts: dict[str, str] = {}


FAILURE = "failure"
"""The kind of a note that something beside the journal could not be written."""
FAILURES = "failures"
"""Where the ledger of a session's end counts those."""


class Note(Record, frozen=True):
    """Something a person should know about the run."""

    kind: str
    text: str
    trial: str = ""
    data: Any = None


class SessionEnd(Record, frozen=True, tag="session_end"):
    """The session ended in an orderly way; vouches for all its segments."""

    number: int
    how: str
    exit_code: int = 0
    at: str = ""
    finished: int = 0
    failed: int = 0
    planned: int = 0
    ledger: dict[str, Any] = {}
    pins: list[SegmentPin] = []


AnyRecord = Session | Call | Step | Answer | Score | Trial | Note | SessionEnd
RECORD_TYPES: tuple[type[Record], ...] = (Session, Call, Step, Answer, Score, Trial, Note, SessionEnd)


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the index needs of any record, and all that stands in the journal of one that is stored as a blob."""

    type: str
    trial: str = ""
    status: str = ""
    scorer: str = ""
    model: str = ""
    task: str = ""
    source: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    blob: str = ""
    size: int = 0


class Summary(msgspec.Struct, frozen=True, array_like=True):
    """What the index keeps of a trial's end."""

    status: str
    usage: Usage | None
    cost: float
    task: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)
_envelope = msgspec.json.Decoder(Envelope)
_summary_encoder, _summary_decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Summary)
_UNKNOWN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a line that is no record, or not one of this version."""
KEPT, NOT_KEPT = 1, 0
"""How the index flags the end of a trial."""
ARTIFACT = "artifact"
"""The source of a record that `repair` took from a result file."""
BY_MODEL = 1
"""How the index flags a step that is a model's reply to a call of this run."""


def encode(record: Record) -> bytes:
    """The record as one line of JSON, without the line's end.

    Raises:
        UsageError: the record holds something that JSON cannot.
    """
    try:
        line = _encoder.encode(record)
        _check_types(record, line)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise UsageError(f"A {_tag(record)} record cannot be written as JSON: {error}.") from error
    if b"null" in line:
        # The encoder writes null for NaN and infinity.
        _refuse_non_finite(msgspec.to_builtins(record), _tag(record))
    return line


def _check_types(record: Record, line: bytes) -> None:
    """What cannot be read back must not be written: the types of fields are not checked when a record is made."""
    if len(line) <= BLOB_BYTES:
        _decoder.decode(line)
    else:
        # The same of a large record, without another copy of its texts.
        msgspec.convert(msgspec.to_builtins(record), AnyRecord)


def _tag(record: Record) -> str:
    return str(record.__struct_config__.tag)


def _refuse_non_finite(value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{path} is {value}, which JSON cannot hold.", hint="Give a finite number, or leave it out.")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            _refuse_non_finite(item, f"{path}[{place}]")


def decode(line: bytes) -> AnyRecord | None:
    """The record in a line, or None for a type or a layout that this version does not know."""
    try:
        record: AnyRecord = _decoder.decode(line)
    except _UNKNOWN:
        return None
    return record


def classify(line: bytes) -> Entry | None:
    """What the index keeps of a line; None for what is no record at all."""
    try:
        envelope = _envelope.decode(line)
    except _UNKNOWN:
        return None
    if envelope.type != "trial":
        flag = BY_MODEL if envelope.type == "step" and envelope.model and not envelope.source else 0
        return Entry(envelope.type, envelope.trial, flag, envelope.scorer.encode() or None)
    kept = envelope.status in _KEPT_NAMES
    summary = Summary(envelope.status, envelope.usage, envelope.cost, envelope.task)
    return Entry("trial", envelope.trial, KEPT if kept else NOT_KEPT, _packed(summary))


def _packed(summary: Summary) -> bytes:
    try:
        return _summary_encoder.encode(summary)
    except OverflowError:
        # A count of tokens that no model ever reached must not keep the run from being opened.
        return _summary_encoder.encode(msgspec.structs.replace(summary, usage=None))


def head_of(line: bytes) -> tuple[str, str]:
    """The type of a record and the trial it belongs to, without reading what follows; empty where there is none."""
    if match := _HEAD.match(line):
        return match[1].decode(), match[2].decode(errors="replace")
    entry = classify(line)
    return (entry.kind, entry.key) if entry else ("", "")


_HEAD = re.compile(rb'\{"type":"([a-z_]+)"(?:,"v":[0-9]+)?,"trial":"([^"\\]*)"')
_KEPT_NAMES = frozenset(status.value for status in Status if status.is_kept)


def decode_summary(data: bytes) -> Summary:
    return _summary_decoder.decode(data)


def outsource(line: bytes, blobs: BlobStore) -> bytes:
    """The line itself, or, if it is too large for the journal, a short one that cites a blob with its content.

    Raises:
        OSError: the blob could not be stored.
    """
    if len(line) <= BLOB_BYTES:
        return line
    envelope = _envelope.decode(line)
    if envelope.type == "trial":
        # Whether a trial is finished must not depend on a second file.
        return line
    return _encoder.encode(msgspec.structs.replace(envelope, blob=blobs.put(line), size=len(line)))


def citation(line: bytes) -> Envelope | None:
    """What stands in the journal of a record that is stored as a blob; None for any other line."""
    if b'"blob":"' not in line or len(line) > 1 << 16:
        return None
    try:
        envelope = _envelope.decode(line)
    except _UNKNOWN:
        return None
    return envelope if envelope.blob else None


def cited_blob(line: bytes) -> tuple[str, int] | None:
    """The digest and size of the blob that a line stands for, if it does."""
    envelope = citation(line)
    return (envelope.blob, envelope.size) if envelope else None
