"""Conversations with the Messages API: as the official client takes them, and as ours does."""

from typing import Any

from anthropic import transform_schema
from openai_cases import ASKED, TOOL, USER, RequestCase, Verdict
from sides import MODEL, Call

from holdfast.models.message import Request
from holdfast.providers import Generation, ImagePart, Message, RawPart, TextPart, ToolCall

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}
"""Our spelling of stop reasons; all others are kept."""
NATIVE_TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
PLAIN = Generation(max_tokens=64)


def _create(messages: list[Any], **fields: Any) -> Call:
    sent = {"max_tokens": 64, **fields}
    return lambda client: client.messages.create(model=MODEL, messages=messages, **sent)


def _generation(**fields: Any) -> Generation:
    return Generation(max_tokens=64, extra_body=fields)


REQUESTS = {
    "text": RequestCase(_create([ASKED]), Request((USER,), PLAIN)),
    "the default of max_tokens": RequestCase(_create([ASKED], max_tokens=8192), Request((USER,))),
    "system and turns": RequestCase(
        _create(
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, ASKED], system="Be brief."
        ),
        Request((Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Hello."), USER), PLAIN),
    ),
    "two system texts, and one later": RequestCase(
        _create(
            [ASKED, {"role": "system", "content": "c"}, ASKED],
            system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
        Request((Message("system", "a"), Message("system", "b"), USER, Message("system", "c"), USER), PLAIN),
    ),
    "every setting": RequestCase(
        # The client of today has no parameters for these, and sends what it is given.
        _create([ASKED], stop_sequences=["END"], extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 5}),
        Request(
            (USER,),
            Generation(temperature=0.5, top_p=0.9, max_tokens=64, stop=["END"], seed=7, extra_body={"top_k": 5}),
        ),
    ),
    "tools": RequestCase(
        _create([ASKED], tools=[NATIVE_TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}),
        Request((USER,), _generation(tools=[TOOL], tool_choice="required", parallel_tool_calls=False)),
    ),
    "tools in the form of the API": RequestCase(
        _create([ASKED], tools=[NATIVE_TOOL], tool_choice={"type": "tool", "name": "add"}),
        Request((USER,), _generation(tools=[NATIVE_TOOL], tool_choice={"type": "tool", "name": "add"})),
    ),
    "results of two tools": RequestCase(
        _create(
            [
                ASKED,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Wait."},
                        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
                        {"type": "tool_use", "id": "t2", "name": "add", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "2"},
                        {"type": "tool_result", "tool_use_id": "t2", "content": "3"},
                    ],
                },
            ]
        ),
        Request(
            (
                USER,
                Message(
                    "assistant", "Wait.", tool_calls=(ToolCall("t1", "add", '{"a": 1}'), ToolCall("t2", "add", ""))
                ),
                Message("tool", "2", tool_call_id="t1"),
                Message("tool", "3", tool_call_id="t2"),
            ),
            PLAIN,
        ),
    ),
    "images and other parts": RequestCase(
        _create(
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What?"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                        {"type": "image", "source": {"type": "url", "url": "https://host/i.png"}},
                        DOCUMENT,
                    ],
                }
            ]
        ),
        Request(
            (
                Message(
                    "user",
                    (
                        TextPart("What?"),
                        ImagePart("data:image/png;base64,AAAA"),
                        ImagePart("https://host/i.png"),
                        RawPart(DOCUMENT),
                    ),
                ),
            ),
            PLAIN,
        ),
    ),
    "thinking with a budget": RequestCase(
        _create([ASKED], max_tokens=10192, thinking={"type": "enabled", "budget_tokens": 2000}),
        Request((USER,), Generation(extra_body={"thinking": {"type": "enabled", "budget_tokens": 2000}})),
    ),
    "adaptive thinking": RequestCase(
        _create([ASKED], thinking={"type": "adaptive"}, output_config={"effort": "low"}),
        Request((USER,), _generation(thinking={"type": "adaptive"}, output_config={"effort": "low"})),
    ),
    "structured output": RequestCase(
        lambda client: client.messages.parse(model=MODEL, max_tokens=64, messages=[ASKED], output_format=Verdict),
        Request((USER,), PLAIN, transform_schema(Verdict)),
    ),
}


def body(*blocks: Any, stop_reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    """A response of the API."""
    outer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "oracle-20260801", "content": list(blocks)}
    usage = {"input_tokens": 19, "output_tokens": 10}
    return {**outer, "stop_reason": stop_reason, "stop_sequence": None, "usage": usage, **fields}


TEXT = {"type": "text", "text": "Paris."}
CALL = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "AAAA"}
RESPONSES = {
    "text": body({**TEXT, "citations": None}),
    "structured": body({"type": "text", "text": '{"reason":"r","verdict":"yes"}'}),
    "two texts": body(TEXT, {"type": "text", "text": " Yes."}),
    "thinking": body(THINKING, HIDDEN, TEXT),
    "tool calls": body(TEXT, CALL, {**CALL, "id": "c2", "caller": {"type": "direct"}}, stop_reason="tool_use"),
    "cached and thinking tokens": body(
        TEXT,
        usage={
            "input_tokens": 10,
            "output_tokens": 300,
            "cache_creation_input_tokens": 248,
            "cache_read_input_tokens": 1800,
            "cache_creation": {"ephemeral_5m_input_tokens": 248, "ephemeral_1h_input_tokens": 0},
            "output_tokens_details": {"thinking_tokens": 256},
            "service_tier": "standard",
        },
    ),
    "null cache tokens": body(
        TEXT,
        usage={
            "input_tokens": 10,
            "output_tokens": 3,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
        },
    ),
    "stop sequence": body(TEXT, stop_reason="stop_sequence") | {"stop_sequence": "END"},
    "refusal": body(
        stop_reason="refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": "Not this."}
    ),
    "unicode": body({"type": "text", "text": "Zürich \u0000 \U0001f680"}),
    **{
        reason: body(TEXT, stop_reason=reason)
        for reason in ("max_tokens", "pause_turn", "model_context_window_exceeded", "novel_reason")
    },
}
TURNS = {
    "a tool call": body(CALL, stop_reason="tool_use"),
    "thinking, text and a tool call": body(THINKING, HIDDEN, TEXT, CALL, stop_reason="tool_use"),
    "a text between two calls": body({**CALL, "id": "c0"}, TEXT, CALL, stop_reason="tool_use"),
    "a call with its caller": body({**CALL, "caller": {"type": "direct"}}, stop_reason="tool_use"),
    "a text with null citations": body({**TEXT, "citations": None}, CALL, stop_reason="tool_use"),
}


def parsed(message: Any) -> dict[str, Any]:
    """What the official client read, by our names."""
    usage, blocks = message.usage, message.content
    written, read = usage.cache_creation_input_tokens or 0, usage.cache_read_input_tokens or 0
    details, why = usage.output_tokens_details, message.stop_details
    return {
        "text": "".join(block.text for block in blocks if block.type == "text"),
        "refusal": (why and why.explanation) or "",
        "reasoning": "".join(block.thinking for block in blocks if block.type == "thinking"),
        "tool_calls": [(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"],
        "finish": FINISH.get(message.stop_reason, message.stop_reason),
        "model": message.model,
        "id": message.id,
        "usage": (
            usage.input_tokens + written + read,
            usage.output_tokens,
            read,
            (details and details.thinking_tokens) or 0,
        ),
    }


def first_call(client: Any) -> Any:
    return client.messages.create(model=MODEL, max_tokens=64, messages=[ASKED])


def second_call(message: Any) -> Call:
    """The next turn: what the model said, and the result of its tool."""
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "2"}
    return _create([ASKED, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}])
