"""The Messages API read back: blocks, stop reasons, usage, and everything that is not a reply."""

import asyncio

import pytest
from chat_server import QUESTION, answering, chat_server, opened
from messages_server import ask_claude, claude, message_body, sent_to_claude

from holdfast.errors import ReplyWithoutText, ToolCallReply, UndecodableReply
from holdfast.models import Blocked, Message, ModelError, RateLimited, Rejected, Request, Unavailable, Usage
from holdfast.models.content import RawPart, TextPart, ToolCall

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "AAAA"}
TEXT = {"type": "text", "text": "Paris"}
CALL = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}


def failing(status: int, kind: str, message: str, headers: dict | None = None, **error) -> ModelError:
    body = {"type": "error", "error": {"type": kind, "message": message, **error}, "request_id": "req_1"}
    with pytest.raises(ModelError) as caught:
        ask_claude(answering(body, status, headers))
    return caught.value


def test_a_plain_reply_is_read():
    """Text, finish, usage, the name that the server reports, and the id."""
    reply = ask_claude(message_body())
    assert (reply.content, reply.finish, reply.model, reply.id) == ("Paris", "stop", "claude-tiny-2026", "msg_1")
    assert reply.usage == Usage(7, 2)
    assert reply.is_plain


def test_a_reply_with_thinking_and_tools_goes_back_as_it_came():
    """Every block in its place, with its signature, so that the API accepts the next turn."""
    blocks = [THINKING, HIDDEN, TEXT, CALL, {**CALL, "id": "t2", "caller": {"type": "direct"}}]
    reply = ask_claude(message_body(*blocks, stop_reason="tool_use"))
    assert reply.reasoning == "Hm."
    assert reply.text == "Paris"
    assert reply.finish == "tool_calls"
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("t1", "add", '{"a":1}'),
        ("t2", "add", '{"a":1}'),
    ]
    request = Request((*QUESTION.messages, reply.message, Message("tool", "2", tool_call_id="t1")))
    assert sent_to_claude(request)["messages"][1] == {"role": "assistant", "content": blocks}


def test_blocks_after_a_call_keep_their_order():
    """A text between two calls stays between them."""
    blocks = [CALL, TEXT, {**CALL, "id": "t2"}]
    reply = ask_claude(message_body(*blocks, stop_reason="tool_use"))
    assert [call.id for call in reply.tool_calls] == ["t1", "t2"]
    request = Request((*QUESTION.messages, reply.message))
    assert sent_to_claude(request)["messages"][1]["content"] == blocks


def test_unknown_blocks_are_kept():
    """Whatever they are; text with citations is text all the same."""
    cited = {**TEXT, "citations": [{"type": "char_location"}]}
    reply = ask_claude(message_body({"type": "novel", "x": 1}, cited, 5))
    assert reply.content == (RawPart({"type": "novel", "x": 1}), RawPart(cited), RawPart(5))
    assert reply.text == "Paris"
    assert ask_claude(message_body(TEXT, TEXT)).content == (TextPart("Paris"), TextPart("Paris"))


def test_a_call_without_a_text_is_no_empty_answer():
    """As from any server."""
    with pytest.raises(ToolCallReply):
        _ = ask_claude(message_body(CALL, stop_reason="tool_use")).text
    with pytest.raises(ReplyWithoutText):
        _ = ask_claude(message_body(THINKING, stop_reason="max_tokens")).text
    assert ask_claude({**message_body(), "content": []}).text == ""


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
        ("novel", "novel"),
    ],
)
def test_stop_reasons_have_one_spelling(reason, finish):
    """Unknown ones, and a turn that was only paused, are kept as they are, and the engine warns about them."""
    assert ask_claude(message_body(stop_reason=reason)).finish == finish


def test_a_refusal_has_the_words_of_the_service():
    """They are what was said, if nothing else was; the category is kept beside them."""
    details = {"type": "refusal", "category": "cyber", "explanation": "This could enable harm."}
    reply = ask_claude({**message_body(stop_reason="refusal", stop_details=details), "content": []})
    assert reply.text == reply.refusal == "This could enable harm."
    assert reply.other["stop_details"] == details


def test_what_else_the_server_says_is_kept():
    """Under its own names: the stop sequence that was met, a container, what is new."""
    body = message_body(stop_reason="stop_sequence", stop_sequence="END", container={"id": "c"}, novel=[1])
    assert ask_claude(body).other == {"stop_sequence": "END", "container": {"id": "c"}, "novel": [1]}


def test_cached_tokens_are_part_of_the_input():
    """The API counts them apart: the sum is what was sent, and what a cache gave is the cached part."""
    usage = {
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "output_tokens_details": {"thinking_tokens": 15},
        "service_tier": "standard",
    }
    reply = ask_claude(message_body(usage=usage))
    assert reply.usage == Usage(1110, 20, 1000, 15)
    assert reply.other == {"cache_creation_input_tokens": 100}


@pytest.mark.parametrize(
    ("usage", "expected", "warned"),
    [
        (None, None, None),
        ("many", None, "usage"),
        ({"input_tokens": -1, "output_tokens": 2}, None, "usage"),
        ({"output_tokens": 2}, None, "usage"),
        ({"input_tokens": 1, "output_tokens": 2, "output_tokens_details": 5}, Usage(1, 2), "usage_parts"),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": "x"}, None, "usage"),
    ],
    ids=str,
)
def test_usage_that_cannot_be_read_costs_no_reply(usage, expected, warned):
    """A sum that would leave cached tokens out is unknown, not small."""
    reply = ask_claude(message_body(usage=usage))
    assert reply.usage == expected
    assert list(reply.warnings) == ([warned] if warned else [])


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", Rejected),
        (401, "authentication_error", Rejected),
        (403, "permission_error", Rejected),
        (404, "not_found_error", Rejected),
        (413, "request_too_large", Rejected),
        (429, "rate_limit_error", RateLimited),
        (500, "api_error", Unavailable),
        (504, "timeout_error", Unavailable),
        (529, "overloaded_error", Unavailable),
    ],
)
def test_a_status_is_the_error_that_it_stands_for(status, kind, error):
    """The server's words are in it."""
    failure = failing(status, kind, "Because.")
    assert type(failure) is error
    assert failure.status == status
    assert "Because" in failure.message


def test_the_wait_that_the_server_asks_for_is_kept():
    """For a rate limit, and for an overload."""
    assert failing(429, "rate_limit_error", "slow", {"retry-after": "7"}).retry_after == 7
    assert failing(529, "overloaded_error", "busy", {"retry-after": "3"}).retry_after == 3


@pytest.mark.parametrize(
    ("status", "kind", "message", "error"),
    [
        (402, "billing_error", "Pay.", {}),
        (400, "billing_error", "Pay.", {}),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", {}),
        (400, "invalid_request_error", "You have reached your specified API usage limits.", {}),
        (429, "rate_limit_error", "No.", {"details": {"error_code": "enforced_spend_limit_reached"}}),
    ],
)
def test_an_account_without_credit_closes_the_model(status, kind, message, error):
    """Whatever status and code say so: no waiting cures it."""
    failure = failing(status, kind, message, **error)
    assert (type(failure), failure.status) == (Rejected, 402)
    assert "Add credit" in failure.hint


@pytest.mark.parametrize(
    ("message", "setting"),
    [
        (
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-x",
            "models.NAME.generation.max_tokens=8192",
        ),
        (
            "`temperature` may only be set to 1 when thinking is enabled.",
            "models.NAME.generation.temperature=1",
        ),
        ("`temperature` is deprecated for this model.", "models.NAME.generation.temperature=null"),
        ("top_p: Extra inputs are not permitted", "models.NAME.generation.top_p=null"),
        (
            "temperature and top_p cannot both be specified for this model. Please use only one.",
            "models.NAME.generation.top_p=null",
        ),
        (
            "output_config.format: structured outputs are not supported by this model",
            "models.NAME.args.takes_response_schema=false",
        ),
    ],
)
def test_a_refused_setting_has_a_hint(message, setting):
    """The setting that would be accepted, as `--set` takes it."""
    failure = failing(400, "invalid_request_error", message)
    assert failure.setting == setting
    assert failure.hint.startswith("Set models.NAME.")


def test_a_missing_model_does_not_blame_the_address():
    """Its name is in what the server says."""
    failure = failing(404, "not_found_error", "model: claude-tiny")
    assert "base_url" not in failure.hint


def test_an_error_behind_a_success_is_an_error():
    """By its kind, where it says one."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(Unavailable, match="Overloaded"):
        ask_claude(answering(body))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "an empty body"),
        (b"<html><title>Gateway</title></html>", "an HTML page"),
        (b'{"content": [{"type": "text", "te', "not JSON, or not all of it"),
        (b"[]", "unexpected shape"),
        (b"{}", "holds no content"),
        (b'{"content": 5}', "content is int"),
        (b'event: message_start\ndata: {"type": "x"}\n\n', "stream of events"),
        (b'{"content": [%b1%b]}' % (b"[" * 5000, b"]" * 5000), "nested too deeply"),
        (b'{"content": [%b1%b]}' % (b"[" * 200, b"]" * 200), "nested too deeply"),
    ],
    ids=["empty", "html", "cut", "list", "map", "number", "events", "deep", "deeper than a record"],
)
def test_what_is_no_reply_is_retried(body, words):
    """Each with what came instead."""
    with pytest.raises(Unavailable, match=words):
        ask_claude(answering(body))


def test_bytes_that_are_not_text_are_kept():
    """In base64; the reply is not scored."""
    body = b'{"content": [{"type": "text", "text": "Z\xfcrich"}], "stop_reason": "end_turn"}'
    reply = ask_claude(answering(body))
    assert reply.undecoded == "WvxyaWNo"
    with pytest.raises(UndecodableReply):
        _ = reply.text


def test_a_reason_that_is_missing_is_an_outage():
    """From a server that gives one otherwise."""
    bodies = iter([message_body(), message_body(stop_reason=None)])

    async def answer(request):
        return await answering(next(bodies))(request)

    async def go():
        async with chat_server(answer) as seen, opened(claude(seen)) as provider:
            await provider.send(QUESTION)
            await provider.send(QUESTION)

    with pytest.raises(Unavailable, match="no finish_reason"):
        asyncio.run(go())


def test_a_policy_in_a_stop_reason_blocks():
    """Servers that speak the API have their own words."""
    with pytest.raises(Blocked):
        ask_claude(message_body(stop_reason="content_filter"))


def test_no_key_is_in_a_reply(monkeypatch):
    """Nor in what is kept beside the text."""
    key = "sk-ant-0123456789abcdef"
    monkeypatch.setenv("MY_KEY", key)
    body = message_body(
        {"type": "text", "text": key}, {"type": "novel", key: key}, {**CALL, "input": {"k": key}}, id=key
    )
    reply = ask_claude(body, api_key_env="MY_KEY")
    assert key not in repr(reply)
    assert reply.text == "[MY_KEY]"
    assert reply.tool_calls == (ToolCall("t1", "add", '{"k":"[MY_KEY]"}'),)
