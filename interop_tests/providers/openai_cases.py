"""Conversations with the chat protocol: as the official client takes them, and as ours does."""

from typing import Any, Literal, NamedTuple

from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel
from sides import MODEL, Call

from holdfast.models.message import Request
from holdfast.providers import Generation, ImagePart, Message, RawPart, TextPart, ToolCall


class Verdict(BaseModel):
    """A verdict with its reason."""

    reason: str
    verdict: Literal["yes", "no"]


TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}},
}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
PIXEL = "data:image/png;base64,AAAA"
USER = Message("user", "Capital of France?")
ASKED = {"role": "user", "content": "Capital of France?"}


class RequestCase(NamedTuple):
    """The same request on both sides; `args` are options of our provider."""

    call: Call
    request: Request
    args: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


def _create(messages: list[Any], **fields: Any) -> Call:
    return lambda client: client.chat.completions.create(model=MODEL, messages=messages, **fields)


REQUESTS = {
    "text": RequestCase(_create([ASKED]), Request((USER,))),
    "system and turns": RequestCase(
        _create(
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi", "name": "ann"},
                {"role": "assistant", "content": "Hello."},
                ASKED,
            ]
        ),
        Request(
            (Message("system", "Be brief."), Message("user", "Hi", name="ann"), Message("assistant", "Hello."), USER)
        ),
    ),
    "every setting": RequestCase(
        _create(
            [ASKED],
            temperature=0.5,
            top_p=0.9,
            max_completion_tokens=64,
            stop=["END"],
            seed=7,
            logprobs=True,
            top_logprobs=2,
            presence_penalty=0.1,
            frequency_penalty=0.2,
            reasoning_effort="low",
        ),
        Request(
            (USER,),
            Generation(
                temperature=0.5,
                top_p=0.9,
                max_tokens=64,
                stop=["END"],
                seed=7,
                logprobs=True,
                top_logprobs=2,
                presence_penalty=0.1,
                frequency_penalty=0.2,
                extra_body={"reasoning_effort": "low"},
            ),
        ),
        {"max_tokens_field": "max_completion_tokens"},
    ),
    "max_tokens": RequestCase(_create([ASKED], max_tokens=64), Request((USER,), Generation(max_tokens=64))),
    "tools": RequestCase(
        _create([ASKED], tools=[TOOL], tool_choice="required", parallel_tool_calls=False),
        Request(
            (USER,),
            Generation(extra_body={"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}),
        ),
    ),
    "tool result": RequestCase(
        _create(
            [
                ASKED,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                    ],
                },
                {"role": "tool", "content": "2", "tool_call_id": "c1"},
            ]
        ),
        Request(
            (
                USER,
                Message("assistant", "", tool_calls=(ToolCall("c1", "add", '{"a": 1}'),)),
                Message("tool", "2", tool_call_id="c1"),
            )
        ),
    ),
    "images and other parts": RequestCase(
        _create(
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What?"},
                        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                        {"type": "image_url", "image_url": {"url": "https://host/i.png"}},
                        AUDIO,
                    ],
                }
            ]
        ),
        Request(
            (
                Message(
                    "user",
                    (TextPart("What?"), ImagePart(PIXEL, "low"), ImagePart("https://host/i.png"), RawPart(AUDIO)),
                ),
            )
        ),
    ),
    "structured output": RequestCase(
        lambda client: client.chat.completions.parse(model=MODEL, messages=[ASKED], response_format=Verdict),
        Request((USER,), Generation(), to_strict_json_schema(Verdict)),
    ),
}


def body(message: dict[str, Any], finish: str = "stop", **fields: Any) -> dict[str, Any]:
    """A response of the API."""
    usage = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, "logprobs": None}
    outer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_741_569_952, "model": "oracle-2026-08-06"}
    return {**outer, "choices": [choice], "usage": usage, **fields}


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
RESPONSES = {
    "text": body({"content": "Paris.", "refusal": None, "annotations": []}),
    "null tool_calls": body({"content": "Paris.", "tool_calls": None, "function_call": None}),
    "two tool calls": body(
        {"content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}], "refusal": None}, "tool_calls"
    ),
    "text and a tool call": body({"content": "Wait.", "tool_calls": [CALL]}, "tool_calls"),
    "refusal": body({"content": None, "refusal": "I cannot help."}),
    "cut off": body({"content": "Par"}, "length"),
    "reasoning and cached tokens": body(
        {"content": "Paris."},
        usage={
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 256, "accepted_prediction_tokens": 0},
        },
    ),
    "no usage": body({"content": "Paris."}, usage=None),
    "structured": body({"content": '{"reason":"r","verdict":"yes"}'}),
    "unicode": body({"content": "Zürich \u0000 \U0001f680"}),
}
TURNS = {
    "a tool call": body({"content": None, "tool_calls": [CALL]}, "tool_calls"),
    "text and a tool call": body({"content": "Wait.", "tool_calls": [CALL]}, "tool_calls"),
    "a tool call with null fields": body({"content": None, "tool_calls": [CALL], "refusal": None}, "tool_calls"),
}


def parsed(completion: Any) -> dict[str, Any]:
    """What the official client read, by our names."""
    choice, usage = completion.choices[0], completion.usage
    message = choice.message
    inputs = getattr(usage, "prompt_tokens_details", None)
    outputs = getattr(usage, "completion_tokens_details", None)
    return {
        "text": message.content or "",
        "refusal": message.refusal or "",
        "reasoning": "",
        "tool_calls": [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()],
        "finish": choice.finish_reason,
        "model": completion.model,
        "id": completion.id,
        "usage": None
        if usage is None
        else (
            usage.prompt_tokens,
            usage.completion_tokens,
            (inputs and inputs.cached_tokens) or 0,
            (outputs and outputs.reasoning_tokens) or 0,
        ),
    }


def first_call(client: Any) -> Any:
    return client.chat.completions.create(model=MODEL, messages=[ASKED])


def second_call(completion: Any) -> Call:
    """The next turn: what the model said, and the result of its tool."""
    said = completion.choices[0].message
    return _create([ASKED, said, {"role": "tool", "content": "2", "tool_call_id": "c1"}])
