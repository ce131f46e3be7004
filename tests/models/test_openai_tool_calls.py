"""Row 20 of steps, on the wire: parts, tool calls, refusals and whatever else a server sends are read whole, and go
back as they came.
"""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from chat_server import answering, ask, ask_once, chat_server, completion

from holdfast import ImagePart, Message, RawPart, Reply, ReplyWithoutText, TextPart, ToolCall, ToolCallReply
from holdfast.models import ModelError, Request, Unavailable, fingerprint
from holdfast.models.openai.chat_format import decode_reply
from holdfast.models.redaction import known_secrets

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}


def answer_of(**message) -> Reply:
    """The reply to a server whose message is this."""
    return ask(answering(completion(message={"role": "assistant", "content": None, **message})))


def sent_message(message: Message, **fields) -> dict:
    """A message as the server gets it."""

    async def go():
        async with chat_server(answering(completion())) as seen:
            await ask_once(seen.spec(**fields), Request((Message("user", "hi"), message)))
            return seen.body["messages"][1]

    return asyncio.run(go())


def test_tool_calls_are_read_and_no_empty_text_is_made_of_them():
    """A reply that only calls tools has them all, and its text is an error that names them and the way out."""
    second = {"id": "call_2", "type": "function", "function": {"name": "search", "arguments": "not { JSON"}}
    reply = answer_of(tool_calls=[CALL, second])
    assert reply.tool_calls == (
        ToolCall("call_1", "weather", '{"city": "Paris"}'),
        ToolCall("call_2", "search", "not { JSON"),
    )
    with pytest.raises(ToolCallReply, match=r"calls 'weather', 'search' and holds no text\. .*trial\.call_tools"):
        _ = reply.text


@pytest.mark.parametrize("blank", ["", "\n\n", [], [{"type": "text", "text": " "}]])
def test_blanks_beside_a_tool_call_are_no_answer(blank):
    """What a server's parser leaves over beside a call is not what the model said."""
    with pytest.raises(ToolCallReply):
        _ = answer_of(content=blank, tool_calls=[CALL]).text


def test_text_beside_a_tool_call_is_the_text():
    """A solver that knows nothing of tools gets what was said."""
    assert answer_of(content="Let me look.", tool_calls=[CALL]).text == "Let me look."


@pytest.mark.parametrize("nothing", [None, [], {}, "", 0])
def test_no_tool_calls_are_as_absent(nothing):
    """`tool_calls: null` and an empty list make a plain reply."""
    reply = answer_of(content="Paris", tool_calls=nothing, function_call=None, refusal=None, annotations=[])
    assert (reply.text, reply.is_plain, reply.message) == ("Paris", True, Message("assistant", "Paris"))


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        ({"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}, "f", '{"x":1}'),
        ({"id": "a", "type": "function", "function": {"name": "f", "arguments": None}}, "f", ""),
        ({"id": "a", "function": {"name": "f", "arguments": "{}"}}, "f", "{}"),
        ({**CALL, "index": 0, "extra_content": {"signature": "s"}}, "weather", '{"city": "Paris"}'),
        ({"id": "a", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}, "sql", "SELECT 1"),
        ({"id": "a", "type": "function", "function": None}, "", ""),
        ({"id": 7, "type": "function", "function": {"name": None, "arguments": [1]}}, "", "[1]"),
        ({"name": "f", "arguments": "{}"}, "f", "{}"),
        ("weather", "", ""),
        (3, "", ""),
        ([[]], "", ""),
    ],
)
def test_a_call_of_another_shape_is_kept_and_goes_back_as_it_came(call, name, arguments):
    """Nothing of an odd call is lost, it is never an empty answer, and the server gets back what it sent."""
    reply = answer_of(tool_calls=[call])
    (read,) = reply.tool_calls
    assert (read.name, read.arguments, read.raw) == (name, arguments, call)
    with pytest.raises(ToolCallReply):
        _ = reply.text
    assert sent_message(reply.message)["tool_calls"] == [call]


@pytest.mark.parametrize("calls", [CALL, "weather", 3, True, {"0": CALL}])
def test_tool_calls_that_are_no_list_are_kept(calls):
    """A wrong type is no reason to lose the reply, nor to take it for an empty one."""
    reply = answer_of(tool_calls=calls)
    assert len(reply.tool_calls) == 1
    assert reply.tool_calls[0].raw == (None if calls is CALL else calls)
    with pytest.raises(ToolCallReply):
        _ = reply.text


def test_the_former_kind_of_call_is_a_tool_call():
    """`function_call`, which some servers still send, is no empty answer either."""
    reply = answer_of(function_call={"name": "f", "arguments": "{}"}, finish_reason="function_call")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("f", "{}")]


def test_arguments_of_fifty_megabytes_are_read():
    """Arguments are a text like any other, however long."""
    long = "x" * 50_000_000
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": long}}
    assert answer_of(tool_calls=[call]).tool_calls == (ToolCall("a", "f", long),)


def test_parts_are_kept_and_their_text_is_joined():
    """Text parts are the text; an image and an unknown part stay beside it, and all go back as they came."""
    content = [
        {"type": "text", "text": "Look: "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "hologram", "planes": [1, 2]},
        {"type": "text", "text": "a cat", "annotations": [{"type": "url_citation"}]},
        "bare",
    ]
    reply = answer_of(content=content)
    assert reply.text == "Look: a cat"
    assert reply.content == (
        TextPart("Look: "),
        ImagePart("data:image/png;base64,AAAA", "low"),
        RawPart({"type": "hologram", "planes": [1, 2]}),
        RawPart(content[3]),
        RawPart("bare"),
    )
    assert sent_message(reply.message) == {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"content": [{"type": "hologram", "planes": []}]}, "hologram"),
        ({"content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "image"),
        ({"content": [None]}, "unknown"),
        ({"audio": {"id": "a", "data": "AAAA", "transcript": "hm"}}, "audio"),
        ({"images": [{"type": "image_url", "image_url": {"url": "x"}}]}, "image"),
        ({"images": "x"}, "images"),
    ],
)
def test_a_reply_of_other_parts_is_no_empty_answer(message, kind):
    """Where a model gave something that is no text, asking for its text names what it is."""
    with pytest.raises(ReplyWithoutText, match=rf"holds '{kind}' and no text") as caught:
        _ = answer_of(**message).text
    assert not isinstance(caught.value, ToolCallReply)


@pytest.mark.parametrize("message", [{"refusal": "No."}, {"content": [{"type": "refusal", "refusal": "No."}]}])
def test_a_refusal_is_kept_as_one_and_is_what_was_said(message):
    """The text of a pure refusal is the refusal, and it goes back as a refusal."""
    reply = answer_of(**message)
    assert (reply.text, reply.refusal) == ("No.", "No.")
    assert sent_message(reply.message)["refusal"] == "No."


def test_reasoning_goes_back_only_with_tool_calls_and_only_where_the_server_wants_it():
    """Servers differ: some refuse it, some refuse a call without it; the model's args say which."""
    reply = answer_of(reasoning_content="hm", tool_calls=[CALL])
    expected = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert sent_message(reply.message) == expected
    wanted = {"args": {"reasoning_field": "reasoning_content"}}
    assert sent_message(reply.message, **wanted) == {**expected, "reasoning_content": "hm"}
    assert answer_of(content="Paris", reasoning_content="hm").message == Message("assistant", "Paris")


def test_what_has_no_field_of_its_own_is_kept():
    """Members that only some servers send are in `other`, under the server's names."""
    reply = answer_of(
        content="Paris",
        reasoning_content="hm",
        reasoning="other thoughts",
        refusal={"why": 1},
        annotations=[{"type": "url_citation"}],
        reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}],
    )
    assert (reply.text, reply.reasoning, reply.refusal) == ("Paris", "hm", "")
    assert reply.other == {
        "reasoning": "other thoughts",
        "refusal": {"why": 1},
        "annotations": [{"type": "url_citation"}],
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
    }


def test_messages_are_sent_in_the_shape_of_the_protocol():
    """Parts, tool results and names are what servers expect; a plain message has no further field."""
    parts = (TextPart("What is it?"), ImagePart("https://x/a.png"), RawPart({"type": "input_audio", "input_audio": {}}))
    assert sent_message(Message("user", parts)) == {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
            {"type": "input_audio", "input_audio": {}},
        ],
    }
    result = Message("tool", "21", tool_call_id="call_1")
    assert sent_message(result) == {"role": "tool", "content": "21", "tool_call_id": "call_1"}
    assert sent_message(Message("user", "hi", name="ann")) == {"role": "user", "content": "hi", "name": "ann"}


def test_a_lone_surrogate_in_a_tool_call_is_sent_as_a_replacement():
    """What UTF-8 cannot carry does not keep a conversation from going on."""
    message = Message("assistant", "", tool_calls=(ToolCall("a", "f", "\ud800"),))
    assert sent_message(message)["tool_calls"][0]["function"]["arguments"] == "\ufffd"


def test_a_fingerprint_depends_on_parts_and_calls_and_a_plain_message_has_the_one_it_had():
    """Step keys of recorded runs stay; whatever else a message holds changes the key."""
    plain = Request((Message("user", "hi", name="ann"),))
    assert fingerprint(plain).hex() == "b2836a17803acc0298a2b1c9cc7ed844"
    others = [
        Message("user", (TextPart("hi"),)),
        Message("user", (TextPart("h"), TextPart("i"))),
        Message("user", (RawPart({"type": "text", "text": "hi"}),)),
        Message("user", (ImagePart("hi"),)),
        Message("user", "hi", tool_calls=(ToolCall("a", "f", "{}"),)),
        Message("user", "hi", tool_calls=(ToolCall("a", "f", "{ }"),)),
        Message("user", "hi", tool_calls=(ToolCall("b", "f", "{}"),)),
        Message("user", "hi", tool_call_id="a"),
        Message("user", "hi", refusal="a"),
        Message("user", "hi", reasoning="a"),
    ]
    assert len({fingerprint(Request((message,))) for message in others} | {fingerprint(plain)}) == len(others) + 1


def test_a_secret_is_redacted_wherever_a_reply_holds_it(monkeypatch):
    """In arguments, odd calls, parts, keys and other members; the tokens that would spell it are left out."""
    monkeypatch.setattr(known_secrets, "_names", {})
    monkeypatch.setattr(known_secrets, "_needles", ())
    secret = "sk-very-secret-value"
    known_secrets.remember("THE_KEY", secret)
    call = {"id": "a", "type": "function", "function": {"name": secret, "arguments": f'{{"k": "{secret}"}}'}}
    message = {
        "content": [{"type": "text", "text": secret}, {"type": "odd", secret: [secret]}],
        "tool_calls": [call, {**call, "x": {secret: secret}}],
        "refusal": secret,
        "reasoning": secret,
        "annotations": [secret],
        "audio": {"data": secret},
    }
    body = completion(message=message, logprobs={"content": [{"token": secret}]})
    reply = ask(answering(body))
    assert secret not in repr(reply)
    assert repr(reply).count("[THE_KEY]") == 15
    assert reply.logprobs is None


@pytest.mark.parametrize("member", ["tool_calls", "content", "annotations", "audio"])
def test_a_reply_nested_too_deeply_is_refused_in_a_sentence(member):
    """What could be read and not be written down again is an error of the server, not a crash."""
    deep = json.loads("[" * 300 + "]" * 300)
    with pytest.raises(Unavailable, match="nested too deeply"):
        answer_of(**{member: deep})


def garbage(rng: random.Random, depth: int = 4):
    """Any JSON value, with words that mean something in a reply."""
    words = ["type", "text", "function", "name", "arguments", "id", "image_url", "url", "thinking", "refusal", "custom"]
    kinds = [None, True, 0, 1.5, "", "x", rng.choice(words)]
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(kinds)
    if rng.random() < 0.5:
        return [garbage(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(words): garbage(rng, depth - 1) for _ in range(rng.randrange(5))}


def test_garbage_is_read_or_refused_and_never_an_empty_answer():
    """A message of random members is a whole reply or one ModelError; calls and parts are never an empty text."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = (
        "content",
        "tool_calls",
        "function_call",
        "refusal",
        "reasoning",
        "reasoning_content",
        "audio",
        "images",
        "x",
    )
    for _ in range(3000):
        message = {name: garbage(rng) for name in names if rng.random() < 0.5}
        body = json.dumps(completion(message=message)).encode()
        try:
            reply = decode_reply("m", 200, body)
        except ModelError:
            assert not isinstance(message.get("content"), str | list | None)
            continue
        try:
            text = reply.text
        except ReplyWithoutText:
            continue
        assert text.strip() or not reply.tool_calls
        assert bool(reply.tool_calls) == bool(message.get("tool_calls") or message.get("function_call"))
