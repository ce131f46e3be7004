"""Rows 20 to 24 of steps, on the wire: a reply that is not an answer is an error, and one with a flaw is kept."""

from __future__ import annotations

import asyncio
import base64
import copy
import gzip
import json
import random
import re
from pathlib import Path

import pytest
from chat_server import QUESTION, answering, ask, ask_once, ask_raw, chat_server, completion, opened

from holdfast import Reply, ReplyWithoutText, ToolCallReply, UndecodableReply
from holdfast.models import Blocked, ModelError, RateLimited, Rejected, Unavailable, Usage, finish_reasons
from holdfast.models.openai.chat_format import decode_reply
from holdfast.models.redaction import known_secrets

CREDIT = "openai/tiny is out of credit"


def failure_of(body, status=200, kind=ModelError, **headers) -> ModelError:
    """The error for an answer."""
    with pytest.raises(kind) as caught:
        ask(answering(body, status, {name.replace("_", "-"): value for name, value in headers.items()}))
    return caught.value


# steps 20


@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
@pytest.mark.parametrize("value", [None, [], {}, ""])
def test_no_tool_calls_are_no_tool_calls(field, value):
    """Steps 20: `tool_calls: null` and its like beside a text leave the text as it is."""
    reply = ask(answering(completion(message={"role": "assistant", "content": "Paris", field: value})))
    assert (reply.text, reply.tool_calls, reply.other) == ("Paris", (), {})


@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "TOOL_CALLS", "tool_use", "tool_call"])
@pytest.mark.parametrize("content", [None, "", " \n", [], [{"type": "text", "text": ""}], [{"type": "thinking"}]])
def test_a_call_that_the_server_lost_is_not_an_empty_answer(reason, content):
    """Steps 20: a reply that ended to call tools and holds none is refused as a text."""
    reply = ask(answering(completion(content, finish_reason=reason)))
    with pytest.raises(ToolCallReply, match="holds neither a call nor a text"):
        _ = reply.text


CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.mark.parametrize("beside", [{"tool_calls": [CALL]}, {"function_call": {"name": "weather", "arguments": "{}"}}])
@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_calls_beside_the_message_are_calls(beside, reason):
    """Steps 20: they are kept, and the text next to them is the answer where there is one."""
    body = completion("", finish_reason=reason)
    body["choices"][0] |= beside
    reply = ask(answering(body))
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("weather", "{}")]
    with pytest.raises(ToolCallReply, match="calls 'weather' and holds no text"):
        _ = reply.text
    body["choices"][0]["message"]["content"] = "Paris"
    assert ask(answering(body)).text == "Paris"


@pytest.mark.parametrize(
    ("message", "held"),
    [
        ({"content": None, "refusal": {"reason": "policy"}}, "refusal"),
        ({"content": "", "refusal": ["no"]}, "refusal"),
        ({"content": "", "refusal": True}, "refusal"),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, "thinking"),
        ({"content": [{"type": "reasoning", "text": "hm"}]}, "reasoning"),
        ({"content": [{"type": "refusal", "refusal": {"reason": "policy"}}]}, "refusal"),
        ({"content": [{"type": "text", "text": None}]}, "text"),
        ({"content": [{}]}, "unknown"),
        ({"content": [None]}, "unknown"),
    ],
)
def test_a_reply_without_a_text_is_not_an_empty_answer(message, held):
    """Steps 20: whatever stands there in place of a text is kept, and no text is made of it."""
    reply = ask(answering(completion(message={"role": "assistant", **message})))
    with pytest.raises(ReplyWithoutText, match=f"The reply holds '{held}' and no text"):
        _ = reply.text


@pytest.mark.parametrize(
    "content", ["", None, [], [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ""}]]
)
def test_a_model_that_said_nothing_has_answered(content):
    """Steps 20: an empty text is one."""
    assert ask(answering(completion(content))).text == ""


# steps 21


OUTAGES = {
    **{reason: reason for reason in ("insufficient_system_resource", "network_error", "abort", "cancelled")},
    **dict.fromkeys(("error", "ERROR", "server_error", "internal_error", "failed", "failure"), "error"),
    **dict.fromkeys(("canceled", "cancel", "Canceled"), "cancelled"),
    "aborted": "abort",
    "timeout": "timeout",
    "TIMED_OUT": "timeout",
    "overloaded": "overloaded",
}


@pytest.mark.parametrize(("reason", "usual"), OUTAGES.items())
def test_a_finish_reason_of_an_outage_is_an_outage(reason, usual):
    """Steps 21: the reply is not an answer; what it took is known."""
    error = failure_of(completion("Par", finish_reason=reason), kind=Unavailable)
    assert f"broke the reply off (finish_reason {usual})" in error.message
    assert (error.status, error.detail, error.usage) == (200, "Par", Usage(7, 2))


@pytest.mark.parametrize("reason", [{}, [], {"type": "abort", "message": "x" * 500}, ["stop"], [{"code": 500}]])
def test_a_finish_reason_that_is_a_map_or_a_list_is_an_outage(reason):
    """Steps 21: it says something else than how the text ends."""
    error = failure_of(completion("Par", finish_reason=reason), kind=Unavailable)
    assert f"broke the reply off (finish_reason {json.dumps(reason)[:70]}" in error.message
    assert len(error.message) < 200 and (error.detail, error.usage) == ("Par", Usage(7, 2))


@pytest.mark.parametrize("reason", ["content_filter", "sensitive", "SAFETY", "PROHIBITED_CONTENT"])
def test_a_finish_reason_of_a_policy_is_blocked(reason):
    """Steps 21: whatever the service calls it."""
    error = failure_of(completion("The first", finish_reason=reason), kind=Blocked)
    assert (error.detail, error.usage) == ("The first", Usage(7, 2))


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("model_length", "length"),
        ("RECITATION", "RECITATION"),
        (5, "5"),
        ("[odd]", "[odd]"),
    ],
)
def test_any_other_finish_reason_is_kept(reason, kept):
    """Steps 21: an unknown one as it is, whatever its type."""
    reply = ask(answering(completion(finish_reason=reason)))
    assert (reply.text, reply.finish, reply.usage) == ("Paris", kept, Usage(7, 2))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 502, "message": "Upstream error"}, Unavailable),
        ({"message": "provider disconnected"}, Unavailable),
        ("provider disconnected", Unavailable),
        ({"code": 429, "message": "slow down"}, RateLimited),
        ({"code": "content_filter", "message": "flagged"}, Blocked),
        ({"code": 403, "message": "flagged", "metadata": {"reasons": ["x"], "flagged_input": "y"}}, Blocked),
        ({"code": 402, "message": "Insufficient credits"}, Rejected),
    ],
)
@pytest.mark.parametrize("place", ["answer", "choice", "message", "list"])
def test_an_error_beside_a_reply_makes_it_none(error, kind, place):
    """Steps 21: `error` or `errors` beside `choices`, in a choice and in its message, with a text or without one."""
    for message in ({"role": "assistant", "content": "Par"}, {} if place == "message" else None):
        body = completion(message=message, finish_reason="stop")
        fields = {"error": error} if place != "list" else {"errors": [None, {}, error]}
        {"choice": body["choices"][0], "message": message}.get(place, body).update(fields)
        found = failure_of(body)
        assert type(found) is kind
        assert found.usage == Usage(7, 2)


@pytest.mark.parametrize("error", [None, "", {}, [], False, {"code": None, "message": ""}])
def test_an_empty_error_is_none(error):
    """Servers that send the field with every reply have replied."""
    body = completion()
    body["error"] = body["choices"][0]["error"] = body["choices"][0]["message"]["error"] = error
    body["errors"] = [error]
    assert ask(answering(body)).text == "Paris"


def test_a_missing_finish_reason_is_an_outage_once_the_server_gives_reasons():
    """Steps 21: a server that never gives one has replied; one that gives them has broken this reply off."""
    bodies = [
        completion("a", finish_reason=None),
        completion("b"),
        completion("c", finish_reason=None),
        completion("d"),
    ]

    async def go():
        turns = iter(bodies)

        async def answer(request):
            return await answering(next(turns))(request)

        found = []
        async with chat_server(answer) as seen, opened(seen.spec()) as provider:
            for _ in bodies:
                try:
                    found.append((await provider.send(QUESTION)).text)
                except Unavailable as error:
                    found.append((error.detail, error.usage, "no finish_reason, which its earlier" in error.message))
        return found

    assert asyncio.run(go()) == ["a", "b", ("c", Usage(7, 2), True), "d"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"code": 500, "msg": "system busy", "success": false}', "answered 200 with an error: system busy"),
        (b'{"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": null}', "an error: rate limit"),
        (b'{"detail": "model is loading"}', "model is loading"),
        (b'event: error\ndata: {"error": "x"}\n\n', "a stream of events instead of one JSON object"),
        (b"\xff\xfe\x00\x01", "not JSON"),
        (b'{"choices": [{"text": "legacy"}]}', "a choice without a message"),
    ],
)
def test_a_body_without_a_reply_says_what_it_holds(body, words):
    """Steps 21: never taken for a reply, and asked again."""
    error = failure_of(body, kind=Unavailable) if b"500" not in body else failure_of(body)
    assert words in error.message or "system busy" in error.message


def test_bodies_that_break_off_are_unavailable():
    """Steps 21: compressed and cut, shorter or longer than announced."""
    raw = json.dumps(completion("Paris " * 500)).encode()
    packed = gzip.compress(raw)
    answers = [
        (packed[: len(packed) // 2], b"Content-Encoding: gzip\r\n", len(packed) // 2),
        (raw, b"", len(raw) // 2),
        (raw, b"", len(raw) * 2),
        (b"\x1f\x8bgarbage", b"Content-Encoding: gzip\r\n", 9),
    ]
    for body, headers, length in answers:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + headers
        with pytest.raises(Unavailable):
            ask_raw([head + b"Content-Length: %d\r\n\r\n" % length, body])


def test_of_equal_keys_the_last_counts():
    """In a body that JSON allows as in one that it does not, so that nothing depends on which reader was used."""
    raw = b'{"choices": [{"message": {"content": "a"}, "finish_reason": "error", "finish_reason": "stop"}], "x": @}'
    assert ask(answering(raw.replace(b"@", b"1"))).finish == ask(answering(raw.replace(b"@", b"NaN"))).finish == "stop"


# steps 22


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (
            429,
            {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"},
        ),
        (429, {"message": "Billing hard limit has been reached", "code": "billing_hard_limit_reached"}),
        (429, {"message": "Your account is out of credit."}),
        (429, {"message": "suspended, check your plan", "type": "exceeded_current_quota_error"}),
        (402, {"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}),
        (402, {"message": "This request requires more credits, or fewer max_tokens"}),
        (402, "pay"),
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}),
        (400, {"code": "Arrearage", "message": "make sure your account is in good standing"}),
        (403, {"code": "insufficient_user_quota", "message": "quota"}),
        (403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}),
        (403, {"message": "Your team has used all available credits or reached its monthly spending limit."}),
        (412, {"message": "Account suspended, possibly due to reaching the monthly spending limit"}),
        (500, {"message": "relayed", "code": "insufficient_quota"}),
        (200, {"message": "Insufficient credits", "code": 402}),
        (200, {"message": "insufficient balance", "code": 1008}),
        (429, {"message": "payment required", "code": "payment_required"}),
        (429, "insufficient_quota"),
        (429, {"message": "insufficient_quota"}),
        (429, [{"code": "insufficient_quota"}]),
        (200, "Insufficient_Quota "),
    ],
)
def test_no_credit_is_told_apart(status, error):
    """Steps 22: whatever status, code and words a service has for it."""
    found = failure_of({"error": error}, status, Rejected)
    assert found.status == 402
    assert found.message.startswith(CREDIT) and found.hint == "Add credit, then resume."


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("names_it", [True, False])
@pytest.mark.parametrize("status", [429, 200])
def test_no_credit_is_told_apart_in_any_encoding(encoding, names_it, status):
    """Steps 22: an error is read as a reply is, also behind status 200, where it may have no field of its own."""
    for shape in ({"error": {"code": "insufficient_quota"}}, {"code": "insufficient_quota", "msg": "no credit"}):
        body = json.dumps(shape).encode(encoding)
        kind = "application/json" + f"; charset={encoding}" * names_it
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        with pytest.raises(Rejected, match=CREDIT) as caught:
            ask_raw([head.encode(), body])
        assert caught.value.status == 402


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"message": "Rate limit reached for requests per minute"}, RateLimited),
        (429, {"message": "You have no credits left per minute, try again in 3s"}, RateLimited),
        (429, {"message": "You exceeded your current quota, please check your plan and billing details."}, RateLimited),
        (400, {"message": "Unknown field 'credit'"}, Rejected),
        (400, {"message": "bad input " + "x" * 300 + " I am out of credit"}, Rejected),
        (503, {"message": "out of credit"}, Unavailable),
    ],
)
def test_a_quota_that_refills_is_not_no_credit(status, error, kind):
    """Steps 22: only what no waiting cures disables a model."""
    found = failure_of({"error": error}, status)
    assert type(found) is kind and found.status == status


# steps 23

NONSENSE = [
    "twelve",
    "12",
    [],
    [7, 2],
    7,
    True,
    2.5,
    {"prompt_tokens": "7", "completion_tokens": 2},
    {"prompt_tokens": 7.0, "completion_tokens": 2},
    {"prompt_tokens": -7, "completion_tokens": 2},
    {"prompt_tokens": True, "completion_tokens": 2},
    {"prompt_tokens": 10**30, "completion_tokens": 2},
    {"prompt_tokens": 2**63, "completion_tokens": 2},
    {"prompt_tokens": [7], "completion_tokens": {"n": 2}},
    {"prompt_tokens": {"a": {"b": [[[]]]}}},
    {},
    {"prompt_tokens": None, "completion_tokens": None},
    {"total_tokens": 6},
    {"prompt_tokens": 5},
    {"completion_tokens": 5},
    {"input_tokens": 5, "output_tokens": None},
    {"input_tokens": 5, "completion_tokens": "1"},
]


@pytest.mark.parametrize("usage", NONSENSE, ids=str)
def test_usage_that_cannot_be_read_does_not_cost_the_reply(usage):
    """Steps 23: the reply is kept, its usage is unknown, and it says so itself."""
    reply = ask(answering(completion(usage=usage)))
    assert (reply.text, reply.usage, reply.model, reply.id) == ("Paris", None, "tiny-2024", "chatcmpl-1")
    assert reply.warnings["usage"].startswith("The usage of the reply cannot be read, so its tokens are unknown: ")
    assert len(reply.warnings["usage"]) < 300


def test_usage_with_more_digits_than_any_number():
    """Steps 23: what would take minutes to read is not read."""
    body = json.dumps(completion(usage={"prompt_tokens": 1})).replace('": 1}', '": ' + "9" * 100_000 + "}")
    assert ask(answering(body)).usage is None
    assert ask(answering(body.replace("Paris", "a\\ud800"))).usage is None


def test_a_deep_usage_does_not_cost_the_reply():
    """Steps 23: it is beside the message."""
    deep = "[" * 300 + "]" * 300
    reply = ask(answering(json.dumps(completion(usage="@")).replace('"@"', deep)))
    assert (reply.text, reply.usage) == ("Paris", None)


@pytest.mark.parametrize("parts", [[], "none", 5, {"cached_tokens": -1}, {"cached_tokens": "x"}])
def test_parts_of_usage_that_cannot_be_read_leave_the_sums(parts):
    """Steps 23: what a price is for is known."""
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": parts}
    reply = ask(answering(completion(usage=usage)))
    assert reply.usage == Usage(7, 2)
    assert list(reply.warnings) == ["usage_parts"]


@pytest.mark.parametrize(
    "usage", [{"input_tokens": 5, "output_tokens": 1}, {"prompt_tokens": 5, "output_tokens": 1, "input_tokens": 9}]
)
def test_other_names_of_the_sums_are_read(usage):
    """Steps 23: both sums are known, so the usage is, without a warning."""
    reply = ask(answering(completion(usage=usage)))
    assert (reply.usage, reply.warnings) == (Usage(5, 1), {})


@pytest.mark.parametrize("field", ["model", "id"])
@pytest.mark.parametrize("value", [None, 5.5, [1], {"a": 1}, True])
def test_names_of_another_type_do_not_cost_the_reply(field, value):
    """What stands beside the message is left out where it cannot be read."""
    assert ask(answering(completion(**{field: value}))).text == "Paris"


def test_a_secret_in_the_usage_is_redacted():
    """A warning is recorded and printed, so it holds no key."""
    known_secrets.remember("MY_KEY", "sk-0123456789-secret")
    reply = ask(answering(completion(usage="sk-0123456789-secret")))
    assert "sk-0123" not in repr(reply) and "[MY_KEY]" in reply.warnings["usage"]


# steps 24


def bytes_of(text: str, raw: bytes) -> bytes:
    return json.dumps(completion(text)).encode().replace(b"@@", raw)


@pytest.mark.parametrize("raw", [b"a\xffb", b"\xe9t\xe9", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xfe\xff\x00"])
def test_bytes_that_are_not_text_are_kept_and_not_scored(raw):
    """Steps 24: the text has replacements, the bytes are beside it, and nobody gets it as an answer by mistake."""
    reply = ask(answering(bytes_of("x@@ \u00fc", raw)))
    assert base64.b64decode(reply.undecoded) == b"x" + raw + " ü".encode()
    assert "\ufffd" in reply.content and reply.usage == Usage(7, 2)
    assert "not valid UTF-8; the reply is not scored" in reply.warnings["encoding"]
    with pytest.raises(UndecodableReply, match=r"not valid UTF-8\. reply\.undecoded has its bytes in base64"):
        _ = reply.text
    reply.message.content.encode()


def test_bytes_in_parts_and_in_a_refusal_are_noted():
    """Steps 24: wherever the text is."""
    parts = json.dumps(completion([{"type": "text", "text": "a@@"}, {"type": "text", "text": "b"}])).encode()
    refusal = json.dumps(completion(message={"role": "assistant", "content": None, "refusal": "no @@"})).encode()
    for body, kept in ((parts, b"a\xffb"), (refusal, b"no \xff")):
        reply = ask(answering(body.replace(b"@@", b"\xff")))
        assert base64.b64decode(reply.undecoded) == kept
        with pytest.raises(UndecodableReply):
            _ = reply.text


def test_bytes_beside_the_text_leave_it():
    """Steps 24: the answer is whole."""
    body = json.dumps(completion(message={"role": "assistant", "content": "Paris", "reasoning": "hm @@"})).encode()
    reply = ask(answering(body.replace(b"@@", b"\xff")))
    assert (reply.text, reply.reasoning, reply.undecoded) == ("Paris", "hm \ufffd", "")
    assert reply.warnings["encoding"] == "1 bytes of the answer are not valid UTF-8; none of them in its text."


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_a_body_that_shows_its_encoding_is_read(encoding):
    """Steps 24: UTF-16 and UTF-32 are recognised, and a mark at the beginning is skipped."""
    body = json.dumps(completion("Zürich 🙂"), ensure_ascii=False).encode(encoding)
    reply = ask(answering(body))
    assert (reply.text, reply.warnings) == ("Zürich 🙂", {})


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        *[("iso-8859-1", "Zürich"), ("windows-1252", "Zürich"), ("bogus", None), ("base64", None)],
        *[(exotic, None) for exotic in ("utf-7", "utf-16", "cp037", "hz", "unicode_escape", "raw_unicode_escape")],
    ],
)
def test_a_body_that_names_its_encoding_is_read(charset, text):
    """Steps 24: where it is not UTF-8, the encoding in the header counts, but not one that is unknown or no ASCII."""
    body = json.dumps(completion("Zürich"), ensure_ascii=False).encode("iso-8859-1")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=%s\r\n" % charset.encode()
    reply = ask_raw([head + b"Content-Length: %d\r\n\r\n" % len(body), body])
    if text is None:
        assert base64.b64decode(reply.undecoded) == b"Z\xfcrich"
    else:
        assert (reply.text, reply.undecoded) == (text, "")


def test_utf_8_is_utf_8_whatever_its_header_says():
    """Steps 24: a wrong header does not spoil a text that is right."""
    body = json.dumps(completion("Zürich"), ensure_ascii=False).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=iso-8859-1\r\n"
    assert ask_raw([head + b"Content-Length: %d\r\n\r\n" % len(body), body]).text == "Zürich"


def test_half_a_character_is_replaced_with_a_warning():
    """Steps 24: a lone surrogate is not damage in transit: the text is known but for one character."""
    reply = ask(answering(bytes_of("a@@b", rb"\ud800")))
    assert (reply.text, reply.undecoded) == ("a\ufffdb", "")
    assert "a lone surrogate" in reply.warnings["encoding"]
    assert ask(answering(bytes_of("@@", rb"\ud83d\ude00"))).warnings == {}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("half", [chr(0xD800), chr(0xDC80), chr(0xDFFF)], ids=ascii)
def test_half_a_character_in_utf_16_is_bytes_that_are_not_text(encoding, half):
    """Steps 24: kept and not scored, as bad bytes in UTF-8 are; whole pairs beside it are characters."""
    text = json.dumps(completion(f"a🙂@{half}b"), ensure_ascii=False)
    reply = ask(answering(text.encode(encoding, "surrogatepass")))
    assert base64.b64decode(reply.undecoded) == f"a🙂@{half}b".encode("utf-8", "surrogatepass")
    assert reply.content == "a🙂@\ufffd\ufffd\ufffdb"
    with pytest.raises(UndecodableReply):
        _ = reply.text


def test_a_byte_never_becomes_half_of_a_character():
    """Steps 24: an escaped half before a bad byte stays a half."""
    reply = ask(answering(bytes_of("@@", b"\\ud83d\x80")))
    assert reply.content == "\ufffd\ufffd"


def test_a_secret_beside_bad_bytes_is_redacted():
    """The bytes that are kept hold no key either."""
    known_secrets.remember("MY_KEY", "sk-0123456789-secret")
    reply = ask(answering(bytes_of("@@", b"\xff sk-0123456789-secret")))
    assert base64.b64decode(reply.undecoded) == b"\xff [MY_KEY]"


# steps 26


@pytest.mark.parametrize(
    "value", ["nan", "-1", "-inf", "inf", "1e999", "soon", "", "0x10", "Fri, 32 Foo 9999 00:00:00 GMT", "9" * 5000]
)
def test_a_retry_after_that_is_not_a_time_is_none(value):
    """Steps 26: the pause is then the usual one."""
    error = failure_of({"error": "slow"}, 429, RateLimited, Retry_After=value)
    assert error.retry_after is None


@pytest.mark.parametrize("value", ["99999999999", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_absurd_retry_after_is_a_number_all_the_same(value):
    """Steps 26: whoever waits caps it."""
    assert failure_of({"error": "slow"}, 429, RateLimited, Retry_After=value).retry_after > 10**10


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "soon", True, None, [1]])
def test_a_plug_in_cannot_ask_for_a_wait_that_is_none(value):
    """Steps 26: errors of anybody's provider are read the same way."""
    assert RateLimited("slow", retry_after=value).retry_after is None


# All of it


def test_whatever_stands_in_a_body_it_is_a_reply_or_a_model_error():
    """Random changes to a good body give a reply that can be encoded, or a ModelError; never anything else."""
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    values = [None, True, -1, 10**30, 1.5, "x", "\ud800", [], [1], {}, {"a": [1]}, {"message": "no", "code": 500}]
    for _ in range(3000):
        body = completion("Paris")
        for _ in range(rng.randint(1, 4)):
            target = rng.choice([body, body["choices"], body["choices"], body.get("usage")])
            if isinstance(target, list) and target and isinstance(target[0], dict):
                target = rng.choice([target[0], target[0].get("message")])
            if isinstance(target, dict) and target:
                key = rng.choice([*target, "error", "tool_calls", "refusal", "images"])
                if not (target is body and key == "choices"):
                    target[key] = copy.deepcopy(rng.choice(values))
        raw = bytearray(json.dumps(body).encode())
        if rng.random() < 0.3:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            reply = decode_reply("m", 200, bytes(raw))
        except ModelError:
            continue
        assert type(reply) is Reply
        repr(reply).encode()


def test_one_try_is_one_request():
    """An odd reply is not asked for again inside `send`."""

    async def go():
        async with chat_server(answering(completion(usage="x"))) as seen:
            await ask_once(seen.spec())
            return len(seen.bodies)

    assert asyncio.run(go()) == 1


def test_the_page_lists_every_finish_reason_that_is_known():
    """docs/replies.md is where one looks a reason up."""
    page = (Path(__file__).parents[2] / "docs" / "replies.md").read_text(encoding="utf-8")
    missing = [reason for reason in finish_reasons.EVERY_REASON if reason and not re.search(rf"[` ]{reason}`", page)]
    assert missing == []
