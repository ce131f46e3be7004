"""Messages and replies as Inspect spells them."""

from typing import Any

from holdfast.interop.inspect.json_text import InvalidJson, decode_json
from holdfast.models.content import Content, ImagePart, RawPart, TextPart, ToolCall
from holdfast.models.message import EarlierMessage, Message, Reply, Usage

_ROLES = {"developer": "system"}
"""Roles that have another name there."""
_STOP_REASONS = {
    "": "stop",
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def inspect_message(message: Message | EarlierMessage) -> dict[str, Any]:
    """A message of a conversation."""
    found: dict[str, Any] = {
        "role": _ROLES.get(message.role, message.role),
        "content": _inspect_content(message.content, message.reasoning, message.refusal),
    }
    if message.role == "assistant" and message.tool_calls:
        found["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.role == "tool":
        found.update({"tool_call_id": message.tool_call_id, "function": message.name})
    return {name: value for name, value in found.items() if value is not None}


def inspect_answer(reply: Reply, model: str) -> dict[str, Any]:
    """The message of a reply."""
    found = {"role": "assistant", "content": _inspect_content(reply.content, reply.reasoning, reply.refusal)}
    if reply.tool_calls:
        found["tool_calls"] = [_tool_call(call) for call in reply.tool_calls]
    return {**found, "source": "generate", "model": model}


def inspect_output(reply: Reply, model: str, seconds: float) -> dict[str, Any]:
    """A reply as the output of a model."""
    reason = _STOP_REASONS.get(reply.finish.lower(), "unknown")
    found: dict[str, Any] = {
        "model": reply.model or model,
        "choices": [{"message": inspect_answer(reply, model), "stop_reason": reason}],
        "time": seconds,
    }
    if reply.usage is not None:
        found["usage"] = inspect_usage(reply.usage)
    return found


def inspect_usage(usage: Usage) -> dict[str, int]:
    """Tokens. Inspect counts those read from a cache apart from the input; here they are part of it."""
    found = {
        "input_tokens": max(0, usage.input_tokens - usage.cached_input_tokens),
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_input_tokens:
        found["input_tokens_cache_read"] = usage.cached_input_tokens
    if usage.reasoning_tokens:
        found["reasoning_tokens"] = usage.reasoning_tokens
    return found


def _inspect_content(content: Content, reasoning: str, refusal: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str) and not reasoning and not refusal:
        return content
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else [_part(part) for part in content]
    if isinstance(content, str) and not content:
        parts = []
    before = [{"type": "reasoning", "reasoning": reasoning}] if reasoning else []
    after = [{"type": "text", "text": refusal, "refusal": True}] if refusal else []
    return [*before, *parts, *after]


def _part(part: TextPart | ImagePart | RawPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart):
        detail = {"detail": part.detail} if part.detail in {"auto", "low", "high"} else {}
        return {"type": "image", "image": part.url, **detail}
    return {"type": "data", "data": part.value if isinstance(part.value, dict) else {"value": part.value}}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    found: dict[str, Any] = {"id": call.id, "function": call.name, "arguments": {}, "type": "function"}
    try:
        arguments = decode_json(call.arguments or "{}")
    except InvalidJson as error:
        return {**found, "arguments": {"text": call.arguments}, "parse_error": str(error)}
    return {**found, "arguments": arguments if isinstance(arguments, dict) else {"value": arguments}}
