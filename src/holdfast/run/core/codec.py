"""Records as bytes: one line of JSON each, and the fields that can be read without decoding all of it.

`encode` and `decode` are inverses for every record. A value that JSON cannot hold (NaN, a lone surrogate) is refused
when it is encoded. A line that is too large for the journal is stored as a blob, and a short one cites it.
"""

import math
import re
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.journal import BLOB_BYTES, BlobStore
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import AnyRecord, CallRecord, Coordinates, Failure, Record, UsageShare


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the journal has of a record that is stored as a blob; of any other, what it begins with."""

    type: str
    trial: str = ""
    attempt: int = 1
    step: str = ""
    """Of a judge's: it says whether a score slot has asked for it."""
    scorer: str = ""
    model: str = ""
    role: ModelRole = ModelRole.UNDER_TEST
    task: str = ""
    source: str = ""
    about: Coordinates | None = None
    error: Failure | None = None
    usage: Usage | None = None
    lender: str = ""
    tries: int = 0
    unused: int = 0
    blob: str = ""
    size: int = 0


class ScoreEnvelope(Envelope, frozen=True, omit_defaults=True):
    """The same of a score: its value counts, whatever becomes of the blob with its explanation."""

    value: float | None = None
    unscored: bool = False
    slot_attempt: int = 1
    will_retry: bool = False
    shares: tuple[UsageShare, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)
_envelope = msgspec.json.Decoder(Envelope)
_UNKNOWN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a line that is not a record, or not one of this version."""
_HEAD = re.compile(rb'\{"type":"([a-z_]+)"(?:,"v":[0-9]+)?,"trial":"([^"\\]*)"')


def encode(record: Record) -> bytes:
    """The record as one line of JSON, without the line's end.

    Raises:
        UsageError: the record holds something that JSON cannot.
    """
    try:
        line = _encoder.encode(record)
        # What cannot be read back must not be written: the types of fields are not checked when a record is made.
        if type(record) is CallRecord:
            return line  # only our own names and numbers, never text from outside
        if len(line) <= BLOB_BYTES:
            _decoder.decode(line)
        else:
            # The same of a large record, without another copy of its texts.
            msgspec.convert(msgspec.to_builtins(record), AnyRecord)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise UsageError(f"A {_tag(record)} record cannot be written as JSON: {error}.") from error
    if b"null" in line:
        # The encoder writes null for NaN and infinity.
        _refuse_non_finite(msgspec.to_builtins(record), _tag(record))
    return line


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


def head_of(line: bytes) -> tuple[str, str]:
    """The type of a record and the trial it belongs to, without reading what follows; empty if absent."""
    if match := _HEAD.match(line):
        return match[1].decode(), match[2].decode(errors="replace")
    try:
        envelope = _envelope.decode(line)
    except _UNKNOWN:
        return "", ""
    return envelope.type, envelope.trial


def outsource(line: bytes, blobs: BlobStore) -> bytes:
    """The line itself, or, if it is too large for the journal, a short one that cites a blob with its content.

    Raises:
        OSError: the blob could not be stored.
    """
    if len(line) <= BLOB_BYTES:
        return line
    envelope: Envelope = _envelope.decode(line)
    if envelope.type == "score":
        envelope = msgspec.json.decode(line, type=ScoreEnvelope)
    if envelope.type == "trial":
        # Whether a trial is finished must not depend on a second file.
        return line
    # That something went wrong counts, whatever becomes of the blob that says what.
    error = Failure(envelope.error.kind, "") if envelope.error is not None else None
    step = envelope.step if envelope.role is ModelRole.JUDGE else ""
    cited = msgspec.structs.replace(envelope, step=step, error=error, blob=blobs.put(line), size=len(line))
    return _encoder.encode(cited)


def citation(line: bytes) -> Envelope | None:
    """What the journal has of a record that is stored as a blob; None for any other line."""
    if b'"blob":"' not in line or len(line) > 1 << 16:
        return None
    try:
        envelope = _envelope.decode(line)
    except _UNKNOWN:
        return None
    return envelope if envelope.blob else None


def cited_blob(line: bytes) -> tuple[str, int] | None:
    """The digest and size of the blob that a line cites, if it cites one."""
    envelope = citation(line)
    return (envelope.blob, envelope.size) if envelope else None
