"""A sample of a log, made of its summary and the rows of a buffer."""

import math
from collections.abc import Iterable
from typing import Any

from holdfast.interop.inspect.attachments import resolved
from holdfast.interop.inspect.recovering.buffer_rows import (
    BufferedSample,
    SampleRows,
    ranges,
)

_SUMMARY_ONLY = {
    "completed",
    "error",
    "limit",
    "limit_reason",
    "retries",
    "message_count",
    "input",
    "target",
    "choices",
}
"""Fields of a summary that a sample does not have, or has in full."""
_TYPES_OF_LIMIT = {"context", "time", "working", "message", "token", "cost", "operator", "custom", "turn"}
INTERRUPTED = "The sample was in progress when the process of the eval ended."


def make_sample(found: BufferedSample, rows: SampleRows, problem: str, *, with_events: bool = True) -> dict[str, Any]:
    """The sample as a log holds it; with `problem`, it has that error, so that a retry runs it again, and no scores."""
    summary = found.summary
    origin = _first_event(rows.events, "sample_init").get("sample")
    origin = resolved(origin, rows.attachments) if isinstance(origin, dict) else summary
    messages, output = conversation(rows)
    error = error_of(problem) if problem else error_of(summary.get("error"))
    sample = {
        **{name: value for name, value in summary.items() if name not in _SUMMARY_ONLY},
        "input": origin.get("input", summary.get("input", "")),
        "choices": origin.get("choices"),
        "target": origin.get("target", summary.get("target", "")),
        "sandbox": origin.get("sandbox"),
        "files": list(origin["files"]) if isinstance(origin.get("files"), dict) else None,
        "setup": origin.get("setup"),
        "metadata": _metadata(rows, origin, summary),
        "messages": resolved(messages, rows.attachments),
        "output": resolved(output, rows.attachments),
        "scores": None if problem else _scores(summary, rows),
        "limit": None if problem else _limit(summary, rows.events),
        "error": error,
        "store": {},
    }
    note = {"recovered_from": found.source, **({"lost": rows.losses} if rows.losses else {})}
    sample["events"] = [*(rows.events if with_events else []), _note(note, summary)]
    if with_events:
        sample["attachments"] = rows.attachments
        sample["events_data"] = {"messages": rows.messages, "calls": rows.calls}
    return {name: value for name, value in sample.items() if value is not None}


def make_summary(sample: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """The summary that goes with a recovered sample."""
    error = sample.get("error")
    kept = {name: value for name, value in summary.items() if name not in ("scores", "error")}
    return {
        **kept,
        "completed": True,
        "message_count": len(sample["messages"]),
        **({"scores": _all_with_nan(summary["scores"])} if sample.get("scores") else {}),
        **({"error": error["message"]} if error else {}),
    }


def error_of(message: Any) -> dict[str, str] | None:
    """An error as a log holds it."""
    if message is None:
        return None
    return {"message": str(message), "traceback": f"{message}\n", "traceback_ansi": f"{message}\n"}


def conversation(rows: SampleRows) -> tuple[list[Any], Any]:
    """The messages of the conversation that the solver started with, and the last output of its model.

    Other conversations of the sample, with models in other roles, are in its events. Where a long conversation was
    shortened on the way, what was left out stands before the rest.
    """
    merged: list[Any] = []
    last: list[Any] | None = None
    before_trim: list[Any] | None = None
    output: Any = None
    for event in _primary_events(rows.events):
        if event.get("event") == "model":
            asked = _input_of(event, rows.messages)
            if before_trim is not None:
                merged += _left_out(before_trim, asked)
                before_trim = None
            last, output = asked + _answer_of(event), event.get("output")
        elif event.get("type") == "summary":
            merged, last = merged + (last or []), None
        elif event.get("type") == "trim":
            before_trim, last = (last or [])[:], None
    return merged + (last or []), output


def _primary_events(events: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Calls of the model that was called first, in its role, and the shortenings of its conversation."""
    primary: Any = None
    is_known, newest = False, None
    for event in events:
        kind = event.get("event")
        if kind == "model":
            newest = event.get("role")
            primary, is_known = (primary, True) if is_known else (newest, True)
        role = newest if kind == "model" or event.get("role") is None else event.get("role")
        if kind in ("model", "compaction") and role == primary:
            yield event


def _input_of(event: dict[str, Any], pool: list[Any]) -> list[Any]:
    references = event.get("input_refs")
    if isinstance(references, list):
        return [message for start, end in ranges(references) for message in pool[start:end]]
    given = event.get("input")
    return list(given) if isinstance(given, list) else []


def _answer_of(event: dict[str, Any]) -> list[Any]:
    """The message that the model gave; none while it had not answered."""
    output = event.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    if event.get("pending") or not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return []
    message = choices[0].get("message")
    return [message] if isinstance(message, dict) else []


def _left_out(before: list[Any], after: list[Any]) -> list[Any]:
    """The messages at the beginning that a shortening has dropped."""
    if not after or not isinstance(after[0], dict):
        return []
    first = after[0]
    for name in ("id", "content"):
        for place, message in enumerate(before):
            if isinstance(message, dict) and first.get(name) is not None and message.get(name) == first[name]:
                return before[:place]
    return []


def _first_event(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next((event for event in events if event.get("event") == kind), {})


def _metadata(rows: SampleRows, origin: dict[str, Any], summary: dict[str, Any]) -> Any:
    if rows.metadata is not None:
        return rows.metadata
    found = origin.get("metadata")
    return found if isinstance(found, dict) else summary.get("metadata") or {}


def _scores(summary: dict[str, Any], rows: SampleRows) -> dict[str, Any] | None:
    """The scores that the summary names, in full; the buffers have null for NaN, which a log cannot have."""
    given = summary.get("scores")
    if not isinstance(given, dict):
        return None
    final = {
        event.get("scorer"): resolved(event.get("score"), rows.attachments)
        for event in rows.events
        if event.get("event") == "score" and not event.get("intermediate") and isinstance(event.get("score"), dict)
    }
    found = {name: final.get(name, score) for name, score in given.items()}
    return _all_with_nan(found)


def _all_with_nan(scores: dict[str, Any]) -> dict[str, Any]:
    return {name: _with_nan(score) for name, score in scores.items()}


def _with_nan(score: Any) -> Any:
    is_nan = isinstance(score, dict) and "value" in score and score["value"] is None
    return {**score, "value": math.nan} if is_nan else score


def _limit(summary: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The limit that ended the sample."""
    name = summary.get("limit")
    if name not in _TYPES_OF_LIMIT:
        return None
    at_limit = [event for event in events if event.get("event") == "sample_limit" and event.get("type") == name]
    value = at_limit[-1].get("limit") if at_limit else None
    # Inspect writes 1 for what an operator has stopped, and -1 where the figure is not known.
    unknown = 1 if name == "operator" and at_limit else -1
    return {"type": name, "limit": unknown if value is None else value, "reason": summary.get("limit_reason")}


def _note(data: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """An event that says where the sample is from."""
    at = summary.get("completed_at") or summary.get("started_at")
    return {"event": "info", "source": "holdfast", "data": data, **({"timestamp": at} if at else {})}
