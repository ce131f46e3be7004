"""Messages of Inspect's as messages of a run."""

from typing import Any

from holdfast.interop.importing.foreign_values import list_of, map_of, plain_text, token_count
from holdfast.interop.inspect.json_text import encode_json
from holdfast.models.message import Usage

_FINISHES = {"max_tokens": "length", "model_length": "length", "unknown": ""}
"""Reasons that have another name here."""


def message_of(value: Any) -> dict[str, Any]:
    """A message; what this version has no type for is kept as it is."""
    message = map_of(value)
    content, reasoning = _content_and_reasoning(message.get("content"))
    found: dict[str, Any] = {"role": str(message.get("role", "user")), "content": content}
    if calls := [_tool_call(map_of(call)) for call in list_of(message.get("tool_calls"))]:
        found["tool_calls"] = calls
    if message.get("tool_call_id"):
        found["tool_call_id"] = str(message["tool_call_id"])
    if message.get("function"):
        found["name"] = str(message["function"])
    if reasoning:
        found["reasoning"] = reasoning
    return found


def reply_of(output: Any) -> tuple[str, dict[str, Any]]:
    """The text of a model's output, and the other fields of the reply."""
    found = map_of(output)
    choice = map_of(next(iter(list_of(found.get("choices"))), None))
    message = message_of(choice.get("message"))
    content = message["content"]
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    reason = str(choice.get("stop_reason") or "")
    reply = {
        "finish": _FINISHES.get(reason, reason),
        "model": plain_text(found.get("model")),
        "reasoning": message.get("reasoning", ""),
        "tool_calls": message.get("tool_calls", []),
        "parts": None if isinstance(content, str) else content,
    }
    return text, {name: value for name, value in reply.items() if value}


def usage_of(value: Any) -> Usage | None:
    """Tokens; those read from a cache or written to one are part of the input here."""
    usage = map_of(value)
    given, answered = (token_count(usage.get(name)) for name in ("input_tokens", "output_tokens"))
    if given is None or answered is None:
        # A 0 for one of them would be invented.
        return None
    read, written = (token_count(usage.get(f"input_tokens_cache_{kind}")) or 0 for kind in ("read", "write"))
    return Usage(given + read + written, answered, read, token_count(usage.get("reasoning_tokens")) or 0)


def _content_and_reasoning(value: Any) -> tuple[Any, str]:
    """The content of a message, and the reasoning in it."""
    if not isinstance(value, list):
        return plain_text(value), ""
    parts = [map_of(part) for part in value]
    thoughts = [plain_text(part.get("reasoning")) for part in parts if part.get("type") == "reasoning"]
    others = [_part(part) for part in parts if part.get("type") != "reasoning"]
    if all(part["type"] == "text" for part in others):
        return "".join(part["text"] for part in others), "\n".join(thoughts)
    return others, "\n".join(thoughts)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"type": "text", "text": plain_text(part.get("text"))}
    if part.get("type") == "image" and isinstance(part.get("image"), str):
        return {"type": "image", "url": part["image"]}
    return {"type": "raw", "value": part}


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else encode_json(arguments or {}).decode(errors="replace")
    return {"id": plain_text(call.get("id")), "name": plain_text(call.get("function")), "arguments": text}
