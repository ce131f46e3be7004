"""A short comparison of what is recorded and what is asked now, for people."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.engine.trials.steps import recorded_request, replay_reply
from holdfast.models.message import Request
from holdfast.models.redaction import redact, redact_json
from holdfast.run.core.records import StepRecord

_MOST_LINES = 24
_LINE_CHARACTERS = 160
_BEFORE = 60
"""How much of a long line is shown before the first character that differs."""


def short_diff(recorded: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The lines that differ, with one line around them; long ones are cut around the first difference."""
    found = list(difflib.unified_diff(recorded, asked, "recorded", "asked now", n=1, lineterm=""))
    lines = [line for line in found if not line.startswith("@@")]
    start = max(_first_difference(lines) - _BEFORE, 0)
    shown = [_cut(redact(line), start) for line in lines[:_MOST_LINES]]
    return [*shown, f"… and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else shown


def _first_difference(lines: list[str]) -> int:
    """Where the first line that went and the first that came begin to differ."""
    went, came = (next((line[1:] for line in lines[2:] if line.startswith(sign)), "") for sign in "-+")
    pairs = enumerate(zip(went, came, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(went), len(came)))


def _cut(line: str, start: int) -> str:
    if len(line) <= _LINE_CHARACTERS:
        return line
    text = line[1:]
    begin = f"…{text[start:]}" if start else text
    return line[0] + (begin if len(begin) < _LINE_CHARACTERS else f"{begin[: _LINE_CHARACTERS - 1]}…")


def value_lines(value: Any) -> list[str]:
    """A value as lines of JSON, a text as it is; without keys, as in the record."""
    if isinstance(value, str):
        return redact(value).splitlines() or [""]
    # Keys are replaced first: the order of entries is that of the names that are on record.
    plain = redact_json(msgspec.to_builtins(value))
    return msgspec.json.format(msgspec.json.encode(plain, order="sorted"), indent=1).decode().splitlines()


def request_lines(request: Request) -> list[str]:
    """What is asked of a model, as lines."""
    plain = redact_json(msgspec.to_builtins(recorded_request(request, request.messages)))
    return [*_message_lines(plain["messages"]), *_option_lines(plain)]


def recorded_lines(step: StepRecord, steps: Mapping[str, StepRecord]) -> list[str]:
    """The same of a recorded step; of one that is no call, its arguments. `steps` are all of them, by their keys."""
    if not step.model or not isinstance(step.request, dict):
        return value_lines(step.request)
    return [*_message_lines(_recorded_messages(step, steps)), *_option_lines(step.request)]


def _recorded_messages(step: StepRecord, steps: Mapping[str, StepRecord]) -> list[Any]:
    """All messages of a request: a record holds only those that were added since its parent."""
    chain = [step]
    while (parent := steps.get(chain[-1].parent)) is not None and parent not in chain:
        chain.append(parent)
    messages: list[Any] = []
    for one in reversed(chain):
        messages += one.request.get("messages", ()) if isinstance(one.request, dict) else ()
        if one is not step and one.error is None:
            messages.append(msgspec.to_builtins(replay_reply(one).message))
    return messages


def _message_lines(messages: Sequence[Any]) -> list[str]:
    return [line for message in messages for line in _one_message(message)]


def _one_message(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content", "")
    first, *rest = value_lines(content)
    yield f"[{message.get('role')}] {first}"
    yield from rest
    others = {name: value for name, value in message.items() if name not in {"role", "content"} and value}
    if others:
        yield from value_lines(others)


def _option_lines(request: Mapping[str, Any]) -> list[str]:
    """How the reply is to be drawn, and the schema that it has to fit."""
    generation = request.get("generation") or {}
    lines = [f"{name}: {value}" for name, value in sorted(generation.items())]
    schema = request.get("response_schema")
    return lines if schema is None else [*lines, "response_schema:", *value_lines(schema)]
