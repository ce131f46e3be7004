"""Records as bytes: one line of JSON each, and what is known of a line without decoding all of it.

`encode` and `decode` are inverses for every record. A value that JSON cannot hold (NaN, a lone surrogate) is refused
when it is encoded. A line that is too large for the journal is stored as a blob, and a short one cites it.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.journal import BLOB_BYTES, BlobStore, IndexEntry
from holdfast.models.message import Usage
from holdfast.run.core.records import BY_MODEL, KEPT, NOT_KEPT, AnyRecord, Record, Status, TrialSummary


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the index needs of any record, and all that the journal has of one that is stored as a blob."""

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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)
_envelope = msgspec.json.Decoder(Envelope)
_summary_encoder = msgspec.msgpack.Encoder()
_UNKNOWN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a line that is no record, or not one of this version."""
_HEAD = re.compile(rb'\{"type":"([a-z_]+)"(?:,"v":[0-9]+)?,"trial":"([^"\\]*)"')
_KEPT_NAMES = frozenset(status.value for status in Status if status.is_kept)


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


def classify(line: bytes) -> IndexEntry | None:
    """What the index keeps of a line; None for what is no record at all."""
    try:
        envelope = _envelope.decode(line)
    except _UNKNOWN:
        return None
    if envelope.type != "trial":
        flag = BY_MODEL if envelope.type == "step" and envelope.model and not envelope.source else 0
        return IndexEntry(envelope.type, envelope.trial, flag, envelope.scorer.encode() or None)
    kept = envelope.status in _KEPT_NAMES
    summary = TrialSummary(envelope.status, envelope.usage, envelope.cost, envelope.task)
    return IndexEntry("trial", envelope.trial, KEPT if kept else NOT_KEPT, _encode_summary(summary))


def _encode_summary(summary: TrialSummary) -> bytes:
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
