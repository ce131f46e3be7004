"""Secrets stay out: a key that a server throws back at us is not passed on in any form."""

import asyncio
import json
import random
import string
import sys
import traceback
from urllib.parse import quote, quote_plus

import pytest
from aiohttp import web
from chat_server import answering, ask_once, chat_server, completion, raw_server

from holdfast.models import ModelError, Rejected, Unavailable, redaction
from holdfast.models.errors import excerpt
from holdfast.models.redaction import Secrets, known_secrets
from holdfast.run import SessionContents
from holdfast.run.core.session_contents import session_record

KEY = 'sk-a/b+c"d\\e=f&0123456789'
FORMS = [
    KEY,
    json.dumps(KEY)[1:-1],
    json.dumps(KEY)[1:-1].replace("/", "\\/").replace("&", "\\u0026"),
    quote(KEY),
    quote(KEY, safe=""),
    quote_plus(KEY),
]


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)


def answer_with(body, status: int = 200):
    async def go():
        async with chat_server(answering(body, status)) as seen:
            return await ask_once(seen.spec(api_key_env="MY_KEY"))

    return asyncio.run(go())


@pytest.mark.parametrize("form", FORMS)
def test_a_reply_that_repeats_the_key_is_redacted(form):
    """Text and reasoning come back with the variable's name where the key stood."""
    message = {"role": "assistant", "content": f"Your key is {form}.", "reasoning_content": f"{form}{form}"}
    reply = answer_with(completion(message=message, model=f"m-{form}", id=form))
    assert reply.text.startswith("Your key is [MY_KEY]")
    assert "0123456789" not in repr(reply)


def test_logprobs_of_a_redacted_reply_are_left_out():
    """Tokens that would spell the key are not passed on; those of other replies are."""
    logprobs = {"content": [{"token": KEY[:5]}, {"token": KEY[5:]}]}
    assert answer_with(completion(KEY, logprobs=logprobs)).logprobs is None
    assert answer_with(completion("fine", logprobs={"content": []})).logprobs == {"content": []}


def test_no_other_field_of_a_reply_carries_the_key():
    """The reason why it ended, and tokens of a reply whose text is harmless."""
    body = completion("fine", logprobs={"content": [{"token": KEY}]})
    body["choices"][0]["finish_reason"] = KEY
    reply = answer_with(body)
    assert "0123456789" not in repr(reply) and reply.logprobs is None


@pytest.mark.parametrize("status", [200, 302, 400, 401, 429, 500])
@pytest.mark.parametrize("form", FORMS)
def test_an_error_that_repeats_the_key_is_redacted(form, status):
    """Neither the sentence nor the detail nor the traceback of an error holds the key."""
    for body in (f"Incorrect API key provided: {form}.", {"error": {"message": f"Incorrect key {form}"}}):
        with pytest.raises(ModelError) as caught:
            answer_with(body, status)
        shown = "".join(traceback.format_exception(caught.value)) + caught.value.detail + str(caught.value)
        assert "0123456789" not in shown
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_a_redirect_that_repeats_the_key_is_redacted():
    """The address a redirect names is shown without the key."""

    async def go():
        headers = {"Location": f"/?key={quote(KEY)}"}
        async with chat_server(answering("", 302, headers)) as seen:
            await ask_once(seen.spec(api_key_env="MY_KEY"))

    with pytest.raises(Rejected) as caught:
        asyncio.run(go())
    assert "[MY_KEY]" in str(caught.value)


def test_a_broken_answer_that_repeats_the_key_is_redacted(monkeypatch):
    """Bytes that are not HTTP are quoted without the key."""

    async def go():
        async with raw_server([b"key-0123456789-abcdef is not HTTP\r\n\r\n"]) as seen:
            await ask_once(seen.spec(api_key_env="MY_KEY"))

    monkeypatch.setenv("MY_KEY", "key-0123456789-abcdef")
    with pytest.raises(Unavailable) as caught:
        asyncio.run(go())
    assert "[MY_KEY]" in str(caught.value)


def test_a_key_of_one_model_is_redacted_from_another():
    """Keys are known to the whole process: whoever repeats one, it goes."""
    known_secrets.remember("OTHER_KEY", "other-key-0123456789")
    assert answer_with(completion("other-key-0123456789")).text == "[OTHER_KEY]"


def test_a_server_that_echoes_headers_learns_nothing_to_tell(monkeypatch):
    """A debugging server that sends our own headers back does not get the key into the reply."""

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.json_response(completion(str(dict(request.headers))))

    async def go():
        async with chat_server(echo) as seen:
            return (await ask_once(seen.spec(api_key_env="PLAIN_KEY"))).text

    monkeypatch.setenv("PLAIN_KEY", "sk-proj-0123456789abcdef")
    assert "'Authorization': 'Bearer [PLAIN_KEY]'" in asyncio.run(go())


def test_control_characters_do_not_hide_a_key():
    """A key that is broken up by invisible characters is found once they are gone."""
    known_secrets.remember("MY_KEY", "sk-hidden-0123456789")
    assert excerpt("key sk-hid\x00den-\u200b0123456789!") == "key [MY_KEY]!"


def test_a_cut_never_leaves_half_a_key():
    """Wherever an excerpt is cut, no part of the key is left at its end."""
    secret = "".join(random.Random(1).choices(string.ascii_letters, k=40))
    known_secrets.remember("CUT_KEY", secret)
    for padding in (0, 470, 490, 499, 65_500, 65_520, 65_535):
        for filler in ("x", " "):
            shown = excerpt(filler * padding + secret * 3)
            assert secret[:8] not in shown
            assert len(shown) <= 500


def test_a_short_value_is_left_alone():
    """A value of fewer than twelve characters would also hit innocent text."""
    secrets = Secrets()
    secrets.remember("SHORT", "elevenchars")
    assert secrets.redact("elevenchars") == "elevenchars"
    secrets.remember("LONG", "twelve-chars")
    assert secrets.redact("a twelve-chars b") == "a [LONG] b"


def test_a_key_within_a_key_leaves_nothing_behind():
    """Where one secret contains another, the longer one goes as a whole."""
    secrets = Secrets()
    secrets.remember("SHORT", "abcdefghijkl")
    secrets.remember("LONG", "abcdefghijkl-mnop")
    assert secrets.redact("abcdefghijkl-mnop abcdefghijkl") == "[LONG] [SHORT]"


def test_text_without_a_secret_is_the_same_object():
    """Looking for secrets copies nothing."""
    secrets = Secrets()
    secrets.remember("LONG", "abcdefghijkl-mnop")
    text = "an ordinary reply"
    assert secrets.redact(text) is text


def test_a_hint_that_repeats_the_key_is_redacted():
    """Every text of an error is looked through, whoever wrote it."""
    known_secrets.remember("HINT_KEY", "sk-hint-0123456789")
    error = Rejected("refused", status=401, hint="the key sk-hint-0123456789 is bad")
    assert error.hint == "the key [HINT_KEY] is bad" and "sk-hint" not in str(error)


def test_a_key_on_the_command_line_is_not_recorded(monkeypatch):
    """A script that takes its key as an argument is named in the run without it."""
    monkeypatch.setenv("MY_KEY", "sk-recognisable-0123456789")
    monkeypatch.setattr(sys, "argv", ["script.py", "--key=sk-recognisable-0123456789"])
    contents = SessionContents(name="n", config={"models": {"m": {"api_key_env": "MY_KEY"}}})
    assert session_record("00", 1, [], contents).invocation == ["script.py", "--key=[MY_KEY]"]


def test_what_may_be_a_key_is_hidden_in_errors_only(monkeypatch):
    """What is a key only by a wide reading of its name may stand in a reply by chance; in an error it is replaced."""
    monkeypatch.setattr(redaction, "environment_secrets", Secrets())
    redaction.environment_secrets.remember("SOME_TOKEN", "truncate-left")
    assert redaction.redact("cut: truncate-left") == "cut: truncate-left"
    assert redaction.redact_json({"a": "truncate-left"}) == {"a": "truncate-left"}
    assert redaction.redact_error("cut: truncate-left") == "cut: [SOME_TOKEN]"
    assert redaction.redact_error_json({"truncate-left": ["truncate-left"]}) == {"[SOME_TOKEN]": ["[SOME_TOKEN]"]}
