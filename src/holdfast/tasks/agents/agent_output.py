"""What an agent says of its own work: its final message, tokens, session and errors, from its structured output.

Known are the shapes of `claude -p --output-format json | stream-json` and of `codex exec --json`; keys that others use
for the same are found as well. A rate limit is read from fields and texts of errors alone: an answer that speaks of
limits is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.models.http.unreadable_usage import unknown_usage
from holdfast.models.message import MOST_TOKENS, Usage
from holdfast.tasks.agents.reset_time import reset_time

TEXT, JSON, STREAM = "text", "json", "stream-json"
_SESSION_KEYS = ("session_id", "thread_id", "conversation_id", "sessionId")
_RESET_KEYS = ("resetsAt", "resets_at", "reset_at", "retry_after", "retry_after_seconds", "reset_time", "wait_until")
_STATUS_KEYS = ("api_error_status", "status_code", "http_status", "status", "code")
_LIMIT_KINDS = (
    "rate_limit",
    "rate_limited",
    "rate_limit_error",
    "rate_limit_exceeded",
    "usage_limit_reached",
    "usage_limit",
)
_LIMIT_WORDS = re.compile(
    r"(?:usage|rate|session|weekly|hourly|daily|5-hour|hour|opus|sonnet) limit|limit reached|hit your limit"
    r"|limit resets|too many requests|\b429\b",
    re.IGNORECASE,
)
_STATUS_TEXT = re.compile(r"\s*API Error: ([45]\d\d)\b", re.IGNORECASE)
_TOO_MANY, _SERVER_ERROR = 429, 500
_DEFAULT_WAIT = 60.0


class AgentOutput(msgspec.Struct):
    """What an agent has said."""

    text: str = ""
    session: str = ""
    usage: Usage | None = None
    odd_usage: str = ""
    """What is wrong with what it says of its tokens, if not all of it can be read: they are unknown then."""
    cost: float | None = None
    """What it says that its work has cost; kept as it is, and added to nothing."""
    model: str = ""
    error: str = ""
    """What it says went wrong, if anything did."""
    status: int | None = None
    """The HTTP status of that error."""
    limited_until: float | None = None
    """When a rate limit ends that has stopped it, in seconds since 1970."""
    is_structured: bool = False

    @property
    def is_outage(self) -> bool:
        """Whether its error is one of the service that it uses."""
        return self.status is not None and self.status >= _SERVER_ERROR


def read_output(data: bytes, kind: str, now: float) -> AgentOutput:
    """What an agent has printed, in the form that it was asked for; other output is text, and no JSON an error."""
    if kind == TEXT:
        return AgentOutput(text=data.decode("utf-8", "replace").strip())
    found = AgentOutput()
    messages: dict[str, Usage] = {}
    for event in _events(data):
        found.is_structured = True
        _read_event(found, event, messages, now)
    if found.usage is None and messages:
        # It did not come to its end: what its messages have taken so far was paid for.
        found.usage = _total_usage(messages.values())
    if not found.is_structured:
        found.text = data.decode("utf-8", "replace").strip()
        # Nothing at all is an end without work, not a wrong form of it.
        found.error = "the output is not valid JSON" if kind == JSON and found.text else ""
    return found


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output: the whole of it, or one for each line; other lines are skipped."""
    whole = _json_value(data.strip())
    if isinstance(whole, dict):
        yield whole
        return
    if isinstance(whole, list):
        yield from (item for item in whole if isinstance(item, dict))
        return
    for line in data.splitlines():
        if line.lstrip().startswith(b"{") and isinstance(event := _json_value(line), dict):
            yield event


def _json_value(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _read_event(found: AgentOutput, event: dict[str, Any], messages: dict[str, Usage], now: float) -> None:
    kind = str(event.get("type", ""))
    session = next((event[key] for key in _SESSION_KEYS if isinstance(event.get(key), str)), "")
    found.session = session or found.session
    if isinstance(event.get("model"), str):
        found.model = event["model"]
    if kind == "rate_limit_event" or "rate_limit_info" in event:
        _read_limit_event(found, event, now)
    elif kind == "assistant" and isinstance(message := event.get("message"), dict):
        _read_message(found, message, messages)
    elif kind.startswith("item.") and isinstance(item := event.get("item"), dict):
        if item.get("type") == "agent_message" and isinstance(item.get("text"), str):
            found.text = item["text"]
    elif kind == "turn.completed":
        found.usage = _added(found.usage, _read_usage(found, event.get("usage"), _codex_usage))
        _forget_error(found)
    elif kind in {"error", "turn.failed"}:
        _read_error(found, event, now)
    elif kind == "result" or (not kind and _is_result(event)):
        _read_result(found, event, now)


def _is_result(event: Mapping[str, Any]) -> bool:
    return any(key in event for key in ("result", "response", "is_error", "error", "usage", "message"))


def _forget_error(found: AgentOutput) -> None:
    """An error from which the agent has recovered by itself does not count."""
    found.error, found.status, found.limited_until = "", None, None


def _read_message(found: AgentOutput, message: dict[str, Any], messages: dict[str, Usage]) -> None:
    if isinstance(message.get("model"), str) and message["model"]:
        found.model = message["model"]
    if (usage := _read_usage(found, message.get("usage"), _claude_usage)) is not None:
        # A message is printed once for each of its parts, each time with its whole usage.
        messages[str(message.get("id", len(messages)))] = usage
    content = message.get("content")
    texts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else [content]
    said = "".join(text for text in texts if isinstance(text, str))
    found.text = said or found.text


def _read_result(found: AgentOutput, event: dict[str, Any], now: float) -> None:
    said = next((event[key] for key in ("result", "response", "message") if isinstance(event.get(key), str)), None)
    usage = _read_usage(found, event.get("usage"), _claude_usage)
    found.usage = usage if usage is not None else found.usage
    cost = event.get("total_cost_usd", event.get("cost_usd", event.get("cost")))
    found.cost = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else found.cost
    if isinstance(models := event.get("modelUsage"), dict) and len(models) == 1:
        found.model = str(next(iter(models)))
    is_cut_off = said is None and str(event.get("subtype", "")).startswith("error")
    if event.get("is_error") is True or event.get("error") or is_cut_off:
        _read_error(found, {**event, "message": said or event.get("message")}, now)
        return
    _forget_error(found)
    found.text = found.text if said is None else said


def _read_error(found: AgentOutput, event: dict[str, Any], now: float) -> None:
    """An error: its text, its status, and when it ends if it is a rate limit."""
    inner = event["error"] if isinstance(event.get("error"), dict) else {}
    given = event.get("error") if isinstance(event.get("error"), str) else None
    text = next((str(one) for one in (inner.get("message"), given, event.get("message")) if isinstance(one, str)), "")
    found.error = text or str(event.get("subtype") or "error")
    found.status = _status(event) or _status(inner) or _status_in_text(text)
    kinds = {
        str(one.get(key, "")).lower() for one in (event, inner) for key in ("type", "subtype", "code", "error_type")
    }
    kinds.add(str(given or "").lower())
    is_limit = found.status == _TOO_MANY or bool(kinds & set(_LIMIT_KINDS)) or _LIMIT_WORDS.search(text)
    if is_limit:
        said = [one[key] for one in (event, inner) for key in _RESET_KEYS if one.get(key) is not None]
        times = [reset_time(one, now) for one in (*said, text)]
        found.limited_until = next(
            (time for time in times if time is not None), found.limited_until or now + _DEFAULT_WAIT
        )


def _read_limit_event(found: AgentOutput, event: dict[str, Any], now: float) -> None:
    """A limit that is reported beside the work: it counts where the agent was refused."""
    info = event.get("rate_limit_info", event)
    if not isinstance(info, dict) or str(info.get("status", "")).lower() not in {"rejected", "exceeded", "blocked"}:
        return
    times = [reset_time(info[key], now) for key in _RESET_KEYS if info.get(key) is not None]
    found.limited_until = next((time for time in times if time is not None), now + _DEFAULT_WAIT)
    found.error = found.error or "the rate limit of the agent's account is reached"


def _status(event: Mapping[str, Any]) -> int | None:
    for key in _STATUS_KEYS:
        value = event.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return None


def _status_in_text(text: str) -> int | None:
    """The status that an error's own text begins with, as in `API Error: 529 {…}`."""
    said = _STATUS_TEXT.match(text)
    return int(said[1]) if said else None


# Tokens.


def _read_usage(found: AgentOutput, said: Any, read: Callable[[Any], Usage | None]) -> Usage | None:
    """What an agent says of its tokens; None where it says nothing, or what cannot be meant."""
    try:
        return read(said)
    except _OddCount:
        found.odd_usage = unknown_usage(said)
        return None


class _OddCount(Exception):  # noqa: N818 - caught next to where it is raised
    """A number of tokens that cannot be one."""


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
        return value
    raise _OddCount(key)


def _claude_usage(usage: Any) -> Usage | None:
    """Tokens that were read from a cache, and those written to it, are beside the input there, and part of it here."""
    if not isinstance(usage, dict) or not any(key.endswith("_tokens") for key in usage if isinstance(key, str)):
        return None
    if "cached_input_tokens" in usage:
        return _codex_usage(usage)
    cached = _count(usage, "cache_read_input_tokens")
    read = _count(usage, "input_tokens") + _count(usage, "cache_creation_input_tokens") + cached
    return Usage(read, _count(usage, "output_tokens"), cached)


def _codex_usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    thought = _count(usage, "reasoning_output_tokens")
    return Usage(
        _count(usage, "input_tokens"), _count(usage, "output_tokens"), _count(usage, "cached_input_tokens"), thought
    )


def _added(one: Usage | None, other: Usage | None) -> Usage | None:
    return one if other is None else other if one is None else one + other


def _total_usage(usages: Any) -> Usage:
    total = Usage()
    for usage in usages:
        total += usage
    return total
