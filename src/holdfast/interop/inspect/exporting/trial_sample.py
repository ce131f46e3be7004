"""A trial as a sample of a log."""

import datetime as dt
import math
from typing import Any

import msgspec

from holdfast.engine.trials.steps import replay_reply
from holdfast.interop.inspect.exporting.exported_trial import ExportedTrial
from holdfast.interop.inspect.exporting.messages import inspect_answer, inspect_message, inspect_output, inspect_usage
from holdfast.models.message import EarlierMessage, Reply, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import CANDIDATE, CHOICE, ScoreRecord, StepRecord

_OURS = "holdfast"
_FINISHED = {"valid", "limited", "blocked"}
_LIMITS = {"time": "time", "tokens": "token", "cost": "cost"}
"""Limits of a trial, by Inspect's names."""
_SHORT = 5000
"""Characters of a text in a summary."""


class _RecordedCall(msgspec.Struct, frozen=True):
    """A call of a model on record, with the whole conversation before it."""

    step: StepRecord
    asked: list[dict[str, Any]]
    reply: Reply


def trial_sample(trial: ExportedTrial, model: str) -> dict[str, Any]:
    """The sample of a trial, with all that is on record of it."""
    events: list[dict[str, Any]] = []
    calls: dict[str, _RecordedCall] = {}
    for step in trial.steps:
        call = _call(step, calls)
        if call is not None:
            calls[step.step] = call
        events += [_event(step, call, model)] if step.name not in {CANDIDATE, CHOICE} else []
    events += [_score_event(name, trial, value) for name, value in trial.scores.items()]
    times = _times(calls, trial.seconds)
    last = next((call for call in reversed(calls.values()) if call.step.role is ModelRole.UNDER_TEST), None)
    sample = {
        "id": trial.sample,
        "epoch": trial.epoch,
        "input": _input(trial.input),
        "target": _target(trial.target),
        "messages": [*last.asked, inspect_answer(last.reply, model)] if last else [],
        "output": _output(trial, last, model),
        "scores": {name: _score(name, trial, value) for name, value in trial.scores.items()},
        "metadata": {**_plain(trial.metadata), _OURS: {"trial": trial.key, "state": trial.state}},
        "model_usage": _model_usage(trial, model),
        "total_time": trial.seconds,
        "events": [_numbered(event, number, trial.key, times) for number, event in enumerate(events)],
        "uuid": trial.key,
        **times,
        **_end(trial),
    }
    return {name: value for name, value in sample.items() if value is not None}


def _model_usage(trial: ExportedTrial, model: str) -> dict[str, dict[str, int]]:
    found = {model: trial.usage}
    for name, usage in trial.other_usage.items():
        found[name] = found.get(name, Usage()) + usage
    return {name: inspect_usage(usage) for name, usage in found.items()}


def _numbered(event: dict[str, Any], number: int, key: str, times: dict[str, str]) -> dict[str, Any]:
    """An event with the id and the time that Inspect would invent, differently each time that it reads the log."""
    at = times.get("completed_at", _time(0.0))
    return {"uuid": f"{key}-{number}", "timestamp": at, "working_start": 0.0, **event}


def sample_summary(sample: dict[str, Any]) -> dict[str, Any]:
    """What a list of samples shows of it."""
    kept = ("id", "epoch", "scores", "model_usage", "total_time", "started_at", "completed_at", "uuid")
    error, limit = sample.get("error"), sample.get("limit")
    return {
        **{name: sample[name] for name in kept if name in sample},
        "input": _shortened(sample["input"]),
        "target": _shortened(sample["target"]),
        "metadata": {name: _shortened(value) for name, value in sample["metadata"].items()},
        "completed": True,
        "message_count": len(sample["messages"]),
        **({"error": error["message"]} if error else {}),
        **({"limit": limit["type"]} if limit else {}),
    }


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _SHORT else f"{value[:_SHORT]}…"
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return {name: _shortened(item) for name, item in value.items()} if isinstance(value, dict) else value


def _call(step: StepRecord, calls: dict[str, _RecordedCall]) -> _RecordedCall | None:
    """The call that a step is, with the messages of those that it continues; None for any other step."""
    if step.error is not None or not isinstance(step.request, dict) or not isinstance(step.result, dict):
        return None
    try:
        added = msgspec.convert(step.request.get("messages"), list[EarlierMessage])
        reply = replay_reply(step)
    except msgspec.ValidationError:
        return None
    before = calls.get(step.parent)
    known = [*before.asked, inspect_answer(before.reply, before.step.model)] if before else []
    return _RecordedCall(step, [*known, *map(inspect_message, added)], reply)


def _event(step: StepRecord, call: _RecordedCall | None, model: str) -> dict[str, Any]:
    at = {"timestamp": _time(step.at)} if step.at else {}
    if call is None:
        known = {"step": step.name, "result": _plain(step.result)}
        failed = {"error": step.error.message} if step.error else {}
        return {"event": "info", "source": _OURS, "data": {**known, **failed}, **at}
    name = step.model or model
    return {
        "event": "model",
        "model": name,
        "role": "grader" if step.role is ModelRole.JUDGE else None,
        "input": call.asked,
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": inspect_output(call.reply, name, step.seconds),
        "working_time": step.seconds,
        **at,
    }


def _score_event(name: str, trial: ExportedTrial, value: float | None) -> dict[str, Any]:
    return {"event": "score", "scorer": name, "score": _score(name, trial, value), "intermediate": False}


def _score(name: str, trial: ExportedTrial, value: float | None) -> dict[str, Any]:
    """A score; one without a number is NaN there, and metrics leave it out."""
    record = trial.judged.get(name) or ScoreRecord(trial=trial.key, attempt=1, scorer=name)
    found = {
        "value": math.nan if value is None else value,
        "answer": record.answer,
        "explanation": record.explanation or None,
        "metadata": _plain(record.metadata) or None,
    }
    return {field: item for field, item in found.items() if item is not None}


def _output(trial: ExportedTrial, last: _RecordedCall | None, model: str) -> dict[str, Any]:
    found = inspect_output(last.reply, model, last.step.seconds) if last else {"model": model, "choices": []}
    return {**found, "completion": trial.answer} if trial.answer is not None else found


def _end(trial: ExportedTrial) -> dict[str, Any]:
    """The limit that it reached, or the error with which it ended."""
    if trial.state == "limited":
        return {"limit": {"type": _LIMITS.get(trial.reason, "custom"), "limit": -1, "reason": trial.reason or None}}
    if trial.state == "valid":
        return {}
    why = f"{trial.state}: {trial.reason}" if trial.reason else trial.state
    message = f"{trial.error.kind}: {trial.error.message}" if trial.error else why
    traceback = trial.error.traceback if trial.error and trial.error.traceback else message
    return {"error": {"message": message, "traceback": f"{traceback}\n", "traceback_ansi": f"{traceback}\n"}}


def _times(calls: dict[str, _RecordedCall], seconds: float) -> dict[str, str]:
    """When it began and ended, as far as its calls say."""
    first = next((call.step.at for call in calls.values() if call.step.at), 0.0)
    return {"started_at": _time(first), "completed_at": _time(first + seconds)} if first else {}


def _time(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat()


def _input(value: Any) -> Any:
    """A text or messages; nothing where the run no longer has the sample."""
    if isinstance(value, list):
        try:
            return [inspect_message(message) for message in msgspec.convert(value, list[EarlierMessage])]
        except msgspec.ValidationError:
            pass
    return _as_text(value)


def _target(value: Any) -> Any:
    return [_as_text(item) for item in value] if isinstance(value, list | tuple) else _as_text(value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)
