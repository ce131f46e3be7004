"""Records without keys: what is written to the journal holds no known secret, whoever put it there.

What a solver sees (replies, results of steps) has lost its keys before it gets here, and what a run is made of (its
configuration, its rows) is refused with a key in it, so this is about the rest: prompts, arguments, answers,
explanations, notes, errors. Only what people and models say is replaced. Names by which trials and steps are found
again never are: they hold no key, because scopes and steps are named without them.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from holdfast.models.redaction import known_secrets, redact_json
from holdfast.run.core.codec import encode
from holdfast.run.core.records import (
    AnswerRecord,
    NoteRecord,
    Record,
    RefusedRecord,
    ScoreRecord,
    SessionEndRecord,
    StepRecord,
    TrialRecord,
)

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)
_SAID: dict[type[Record], tuple[str, ...]] = {
    StepRecord: ("request", "result", "error", "raised"),
    AnswerRecord: ("text", "value", "unscored"),
    ScoreRecord: ("answer", "explanation", "metadata", "error"),
    TrialRecord: ("error", "imported"),
    NoteRecord: ("text", "data"),
    RefusedRecord: ("name",),
    SessionEndRecord: ("ledger",),
}
"""The fields that hold what people and models say."""


def key_free_line(record: Record) -> tuple[bytes, Record]:
    """The record as a line of JSON without any known key, and the record that this line holds.

    Raises:
        UsageError: the record holds something that JSON cannot.
    """
    line = encode(record)
    if not known_secrets.is_in_line(line):
        return line, record
    record = _without_keys(record)
    return encode(record), record


def _without_keys(record: Record) -> Record:
    plain = msgspec.to_builtins(record, str_keys=True)
    said = {name: plain[name] for name in _SAID.get(type(record), ()) if name in plain}
    return msgspec.convert({**plain, **redact_json(said)}, type(record))


def key_free_value(value: AnyStruct) -> AnyStruct:
    """The same struct without any known key; the same object if it holds none."""
    if not known_secrets.longest or not _may_hold_key(value):
        return value
    return msgspec.convert(redact_json(msgspec.to_builtins(value, str_keys=True)), type(value))


def _may_hold_key(value: msgspec.Struct) -> bool:
    try:
        return known_secrets.is_in_line(msgspec.json.encode(value))
    except UnicodeEncodeError:
        # A lone surrogate, which no line of JSON can hold.
        return bool(known_secrets.names_in(repr(value)))
