"""The chat format on the wire: what is sent, byte by byte, and what is read back."""

import asyncio
import gzip
import json

import pytest
from aiohttp import web
from chat_server import QUESTION, answering, ask, ask_once, chat_server, completion, opened

from holdfast.errors import ConfigurationError
from holdfast.models import Message, Rejected, Reply, Request, Unavailable, Usage
from holdfast.spec import Generation, Timeouts


def sent(request: Request = QUESTION, **fields) -> tuple[dict, dict, str]:
    async def go():
        async with chat_server(answering(completion())) as seen:
            await ask_once(seen.spec(**fields), request)
            return seen.body, seen.headers[0], seen.targets[0]

    return asyncio.run(go())


def test_a_request_looks_as_the_protocol_wants_it():
    """Target, headers and body are exactly those of the protocol."""
    body, headers, target = sent()
    assert target == "POST /v1/chat/completions"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("holdfast/")
    assert "Authorization" not in headers
    assert "Cookie" not in headers
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Capital of France?"}],
        "temperature": 0.0,
        "max_tokens": 8,
    }


def test_the_body_is_these_bytes():
    """The wire format is stable to the byte, so that recorded requests stay comparable."""

    async def go():
        async with chat_server(answering(completion())) as seen:
            await ask_once(seen.spec())
            return seen.bodies[0]

    assert asyncio.run(go()) == (
        b'{"model":"tiny","messages":[{"role":"user","content":"Capital of France?"}],"temperature":0.0,"max_tokens":8}'
    )


def test_every_generation_parameter_is_sent():
    """Each field of the generation arrives under its name on the wire, and extra fields stand beside them."""
    generation = Generation(
        temperature=0.5,
        top_p=0.9,
        max_tokens=5,
        stop=["\n", "END"],
        seed=7,
        logprobs=True,
        top_logprobs=3,
        presence_penalty=0.1,
        frequency_penalty=-0.2,
        extra_body={"top_k": 40, "chat_template_kwargs": {"enable_thinking": False}},
    )
    messages = (Message("system", "Be brief."), Message("user", "Höher?", name="ann"))
    body, _, _ = sent(Request(messages, generation))
    assert body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Höher?", "name": "ann"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": ["\n", "END"],
        "seed": 7,
        "logprobs": True,
        "top_logprobs": 3,
        "presence_penalty": 0.1,
        "frequency_penalty": -0.2,
        "top_k": 40,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_nothing_unasked_is_sent():
    """Without generation parameters the body has the model and the messages only."""
    body, _, _ = sent(Request((Message("user", "Hi"),)))
    assert body == {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def test_requests_with_different_generations_do_not_mix():
    """What one request asks for does not leak into the next."""

    async def go():
        async with chat_server(answering(completion())) as seen, opened(seen.spec()) as provider:
            for tokens in (1, 2, None, 2):
                await provider.send(Request(QUESTION.messages, Generation(max_tokens=tokens)))
            return [json.loads(body).get("max_tokens") for body in seen.bodies]

    assert asyncio.run(go()) == [1, 2, None, 2]


def test_an_extra_field_wins_over_the_generation():
    """A field in extra_body replaces the one of the same name, and stands once."""

    async def go():
        generation = Generation(temperature=0.0, extra_body={"temperature": 1.5})
        async with chat_server(answering(completion())) as seen:
            await ask_once(seen.spec(), Request(QUESTION.messages, generation))
            return seen.bodies[0]

    body = asyncio.run(go())
    assert json.loads(body)["temperature"] == 1.5
    assert body.count(b"temperature") == 1


@pytest.mark.parametrize("name", ["messages", "model", "stream", "n"])
def test_what_holdfast_sets_itself_cannot_be_set_beside_it(name):
    """A reserved field in extra_body is refused by name, and nothing is sent."""
    with pytest.raises(ConfigurationError, match=name):
        sent(Request(QUESTION.messages, Generation(extra_body={name: 1})))


def test_a_lone_surrogate_in_a_prompt_is_sent_as_a_replacement():
    """A prompt that UTF-8 cannot carry is sent with the replacement character, and escaped pairs are joined."""
    text = "a\ud800b \ud83d\ude00"
    body, _, _ = sent(Request((Message("user", text),), Generation(stop=["\udfff"])))
    assert body["messages"][0]["content"] == "a\ufffdb \U0001f600"
    assert body["stop"] == ["\ufffd"]


def test_a_prompt_of_several_megabytes_arrives_whole():
    """A prompt larger than one write arrives byte for byte."""
    text = "word " * 600_000
    body, _, _ = sent(Request((Message("user", text),)))
    assert body["messages"][0]["content"] == text


def test_headers_of_the_configuration_are_sent():
    """A model's own headers are added to each request."""
    _, headers, _ = sent(headers={"X-Title": "capitals"})
    assert headers["X-Title"] == "capitals"


def test_a_reply_is_read_whole():
    """Text, finish, tokens, model, id, logprobs and reasoning come back as they were sent."""
    usage = {
        "prompt_tokens": 70,
        "completion_tokens": 20,
        "total_tokens": 90,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    message = {"role": "assistant", "content": "Paris", "reasoning_content": "It is Paris."}
    logprobs = {"content": [{"token": "Paris", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
    body = completion(message=message, finish_reason="length", logprobs=logprobs, usage=usage)
    assert ask(answering(body)) == Reply(
        content="Paris",
        finish="length",
        usage=Usage(70, 20, 64, 12),
        model="tiny-2024",
        id="chatcmpl-1",
        logprobs=logprobs,
        reasoning="It is Paris.",
    )


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 3, "completion_tokens": None}, None),
        ({"prompt_tokens": 3, "completion_tokens": 0, "prompt_tokens_details": None}, Usage(3)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {}}, Usage(3, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 0, "prompt_cache_hit_tokens": 4}, Usage(9, 0, 4)),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}, Usage(9, 2, 4)),
    ],
)
def test_tokens_are_those_the_server_reports(usage, expected):
    """Parts that are not reported count as none; a usage without both of its sums is unknown."""
    assert ask(answering(completion(usage=usage))).usage == expected


@pytest.mark.parametrize(
    ("finish", "expected"),
    [("stop", "stop"), ("length", "length"), ("eos", "stop"), ("MAX_TOKENS", "length"), (None, ""), ("odd", "odd")],
)
def test_finish_reasons_have_one_spelling(finish, expected):
    """Other spellings of the two common reasons are brought to one; an unknown one is kept."""
    assert ask(answering(completion(finish_reason=finish))).finish == expected


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("", "", ""),
        (None, "", ""),
        ([], "", ""),
        ([{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}], "Paris", ""),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"text": "Paris"}], "Paris", "hm"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Paris"}], "Paris", "hm"),
        ([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "seen"}], "seen", ""),
        ("nul \x00 inside", "nul \x00 inside", ""),
    ],
)
def test_content_may_be_text_or_parts_or_null(content, text, reasoning):
    """Parts are joined, null is an empty text, and reasoning is kept apart."""
    reply = ask(answering(completion(content)))
    assert (reply.text, reply.reasoning) == (text, reasoning)


def test_a_refusal_in_words_is_the_text():
    """Where the content is null and the model says why it refuses, that is what it said."""
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    assert ask(answering(completion(message=message))).text == "I cannot help with that."


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (rb"a\ud800b", "a\ufffdb"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (b"a\x00b", "a\x00b"),
        (b"a\nb", "a\nb"),
    ],
)
def test_text_that_json_forbids_is_still_read(raw, text):
    """A reply that was paid for is read, and what comes out can always be encoded."""
    body = json.dumps(completion("@@")).encode().replace(b"@@", raw)
    reply = ask(answering(body))
    assert reply.text == text
    reply.text.encode()


def test_a_byte_order_mark_and_nan_do_not_cost_the_reply():
    """Numbers that only Python writes, and a byte order mark, are read over."""
    body = b"\xef\xbb\xbf" + json.dumps(completion(logprobs={"content": [{"logprob": float("-inf")}]})).encode()
    reply = ask(answering(body))
    assert reply.text == "Paris"
    assert reply.logprobs == {"content": [{"logprob": float("-inf")}]}


def test_a_compressed_reply_is_read():
    """A server may compress what it sends."""
    body = gzip.compress(json.dumps(completion("Paris " * 1000)).encode())
    assert ask(answering(body, headers={"Content-Encoding": "gzip"})).text == "Paris " * 1000


def test_a_reply_of_fifty_megabytes_is_read():
    """A reply below the cap is read, however large."""
    text = "x" * 50_000_000
    assert ask(answering(completion(text))).text == text


@pytest.mark.parametrize("chunked", [True, False])
def test_a_reply_over_the_cap_is_refused_with_its_size(chunked):
    """A larger reply is not read to its end; the error names the size and the option."""
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        if not chunked:
            response.content_length = 10_000_000
        await response.prepare(request)
        while written < 10_000_000:
            await response.write(b" " * 100_000)
            written += 100_000
        return response

    with pytest.raises(Rejected, match="max_reply_bytes") as caught:
        ask(endless, args={"max_reply_bytes": 1_000_000})
    assert "1,000,000" in str(caught.value)
    assert chunked or "10,000,000" in str(caught.value)
    assert written < 10_000_000


def test_a_small_body_that_unpacks_to_a_large_one_is_refused():
    """The cap counts what a compressed reply unpacks to."""
    bomb = gzip.compress(b" " * 30_000_000)
    with pytest.raises(Rejected, match="a reply may have 2,000,000"):
        ask(answering(bomb, headers={"Content-Encoding": "gzip"}), args={"max_reply_bytes": 2_000_000})


def test_the_default_cap_is_sixty_four_mebibytes():
    """Without an option a reply may have 64 MiB."""

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 2**33
        await response.prepare(request)
        for _ in range(70):
            await response.write(b" " * 2**20)
        return response

    with pytest.raises(Rejected, match="a reply may have 67,108,864"):
        ask(endless, timeouts=Timeouts(read=10.0))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "an empty body"),
        (b" \n ", "an empty body"),
        (b"<html><head><title>502 Bad\nGateway</title></head></html>", 'an HTML page \\("502 Bad Gateway"\\)'),
        (b"\n<!DOCTYPE html><p>", "an HTML page instead of JSON. Check base_url"),
        (b"Internal error", "not JSON"),
        (b'{"choices": [{"message": {"content": "Par', "not JSON, or not all of it"),
        (b'{"choices": [{"message": {}, "logprobs": ' + b"[" * 100_000, "nested too deeply"),
        (b"[]", "unexpected shape"),
        (b'"text"', "unexpected shape"),
        (b"{}", "no choices"),
        (b'{"choices": null}', "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": {}}', "unexpected shape"),
        (b'{"choices": [null]}', "unexpected shape"),
        (b'{"choices": [{}]}', "unexpected shape .*message"),
        (b'{"choices": [{"message": null}]}', "unexpected shape"),
        (b'{"choices": [{"message": {"content": 5}}]}', "unexpected shape .*content"),
        (b'data: {"choices": []}\n\n', "a stream of events"),
        (b'{"choices": [{"message": {"content": "Par"}, "finish_reason": "error"}]}', "broke the reply off"),
    ],
)
def test_a_successful_status_without_a_reply_is_unavailable(body, words):
    """A body that holds no reply is never taken for one: the request may be made again."""
    with pytest.raises(Unavailable, match=words) as caught:
        ask(answering(body))
    assert caught.value.status == 200
    assert len(caught.value.detail) <= 500
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("openai/tiny ")
