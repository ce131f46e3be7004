"""Statuses and error bodies: each becomes the one error that says what to do."""

import asyncio
import pickle

import pytest
from chat_server import answering, ask, ask_once, chat_server, completion

from holdfast.models import Blocked, ModelError, RateLimited, Rejected, Unavailable, Usage
from holdfast.models.http.error_responses import retry_after

SAID = {"error": {"message": "The model `tiny` does not exist", "type": "invalid_request_error", "code": None}}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, Rejected) for status in (400, 401, 402, 403, 404, 405, 413, 418, 422)),
        *((status, Unavailable) for status in (408, 409, 425, 500, 501, 502, 503, 504, 520, 529)),
        (429, RateLimited),
    ],
)
def test_a_status_decides_what_to_do(status, kind):
    """Each status becomes its error, with the server's own words in the sentence and in the detail."""
    with pytest.raises(ModelError) as caught:
        ask(answering(SAID, status))
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.detail == "The model `tiny` does not exist"
    said = "is out of credit (402 Payment Required)" if status == 402 else f"answered {status}"
    assert caught.value.message.startswith(f"openai/tiny {said}")
    assert "The model `tiny` does not exist" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no such thing"}}, "no such thing"),
        ({"error": "no such thing"}, "no such thing"),
        ({"message": "no such thing", "code": 3}, "no such thing"),
        ({"object": "error", "message": "no such thing", "type": "BadRequestError"}, "no such thing"),
        ({"detail": "no such thing"}, "no such thing"),
        ({"detail": [{"loc": ["body"], "msg": "no such thing"}]}, "no such thing"),
        ([{"error": {"code": 400, "message": "no such thing", "status": "INVALID_ARGUMENT"}}], "no such thing"),
        ("no such thing", "no such thing"),
        ("<html><title>no such\n thing</title></html>", "no such thing"),
        (b"no \x00such\x1b[2J \xffthing", "no such[2J \ufffdthing"),
        (b"", "no explanation"),
        ({"error": None}, '{"error": null}'),
        ({"error": 5}, '{"error": 5}'),
        ([], "[]"),
        ("no such thing. " * 10_000, "no such thing. no such thing"),
        ({"error": {"message": "no such thing", "padding": "x" * 2_000_000}}, '{"error": {"message": "no such thing"'),
        (b'{"error": ' + b"[" * 50_000, '{"error": [[['),
    ],
)
def test_the_words_of_the_server_are_found_in_any_shape(body, words):
    """Whatever shape an error body has, its words end up in one clean, short sentence."""
    with pytest.raises(Rejected) as caught:
        ask(answering(body, 400))
    assert words in str(caught.value)
    assert len(caught.value.detail) <= 500
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ({"retry-after-ms": "soon", "Retry-After": "9"}, 9.0),
        ({"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:00:00 GMT"}, 0.0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 99 Oct 99999 07:28:30 GMT"}, None),
    ],
)
def test_the_wait_the_server_asks_for_is_told(status, headers, seconds):
    """Seconds, milliseconds and dates are understood; what cannot be a time is none."""
    with pytest.raises(ModelError) as caught:
        ask(answering(SAID, status, headers))
    assert caught.value.retry_after == seconds


def test_without_the_servers_clock_a_date_is_measured_on_ours():
    """A date without a Date header counts from our own time, which is passed in."""
    headers = {"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}
    assert retry_after(headers, now=lambda: 60.0) == 40.0


@pytest.mark.parametrize(
    "error",
    [
        {"message": "flagged", "code": "content_filter"},
        {"message": "flagged", "code": "content_policy_violation"},
        {"message": "flagged", "type": "content_policy_violation", "code": None},
        {"message": "flagged", "code": "400", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
    ],
)
def test_a_prompt_against_policy_is_blocked(error):
    """A policy's refusal is told apart from a malformed request."""
    with pytest.raises(Blocked, match="flagged") as caught:
        ask(answering({"error": error}, 400))
    assert caught.value.status == 400


def test_a_reply_against_policy_is_blocked_with_its_cost():
    """A reply that the filter cut is not scored, and its tokens are known."""
    with pytest.raises(Blocked, match="content_filter") as caught:
        ask(answering(completion("The first step is", finish_reason="content_filter")))
    assert caught.value.usage == Usage(7, 2)
    assert caught.value.detail == "The first step is"


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"message": "slow down", "code": 429}, RateLimited, 429),
        ({"message": "overloaded", "code": "503"}, Unavailable, 503),
        ({"message": "bad field", "code": 400}, Rejected, 400),
        ({"message": "flagged", "code": "content_filter"}, Blocked, 400),
        ({"message": "upstream", "code": "oops"}, Unavailable, None),
        ({"message": "upstream", "code": 99999999999999999999999}, Unavailable, None),
        ("upstream", Unavailable, None),
        ([1], Unavailable, None),
    ],
)
def test_an_error_behind_status_200_is_an_error(error, kind, status):
    """A server that says 200 and sends an error is taken at the code it sends."""
    with pytest.raises(ModelError) as caught:
        ask(answering({"error": error, "choices": None}))
    assert type(caught.value) is kind
    assert caught.value.status == status


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status):
    """One send is one request: a redirect is refused, and the address it names is told."""

    async def go():
        async with chat_server(answering("", status, {"Location": "/v2/chat/completions"})) as seen:
            with pytest.raises(Rejected, match="redirects to /v2/chat/completions"):
                await ask_once(seen.spec())
            return seen.targets

    assert asyncio.run(go()) == ["POST /v1/chat/completions"]


@pytest.mark.parametrize("answer", [answering(SAID, 503), answering(SAID, 429), answering("<html>"), answering("")])
def test_a_failed_try_is_one_request(answer):
    """Nothing is tried again inside send, whatever went wrong."""

    async def go():
        async with chat_server(answer) as seen:
            with pytest.raises(ModelError):
                await ask_once(seen.spec())
            return len(seen.bodies)

    assert asyncio.run(go()) == 1


def test_an_error_survives_pickling():
    """An error that crosses a process boundary keeps everything that is known about it."""
    with pytest.raises(RateLimited) as caught:
        ask(answering(SAID, 429, {"Retry-After": "3"}))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is RateLimited
    assert (str(copy), copy.status, copy.detail, copy.retry_after) == (
        str(caught.value),
        429,
        "The model `tiny` does not exist",
        3.0,
    )
