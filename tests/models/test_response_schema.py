"""A JSON Schema for the reply: what is sent for it, and what it is part of."""

import asyncio

import pytest
from chat_server import QUESTION, answering, ask_once, chat_server, completion

from holdfast.errors import ConfigurationError
from holdfast.models import Message, Request, fingerprint
from holdfast.spec import Generation

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
ASKED = Request(QUESTION.messages, QUESTION.generation, SCHEMA)


def body_of(request: Request, **fields) -> dict:
    async def go():
        async with chat_server(answering(completion('{"verdict": "yes"}'))) as seen:
            await ask_once(seen.spec(**fields), request)
            return seen.body

    return asyncio.run(go())


def test_a_schema_is_sent_as_response_format():
    """Exactly as the protocol has it, and nothing else changes."""
    body = body_of(ASKED)
    assert body.pop("response_format") == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }
    assert body == body_of(QUESTION)


def test_a_schema_is_sent_where_nothing_else_is_set():
    """The body is whole JSON without any generation parameter too."""
    body = body_of(Request((Message("user", "q"),), Generation(), SCHEMA))
    assert list(body) == ["model", "messages", "response_format"]


def test_a_schema_that_changed_in_place_is_sent_as_it_is_now():
    """One map, changed between two calls with the same generation: nothing is kept of the first."""
    schema = {"type": "string"}
    request = Request(QUESTION.messages, QUESTION.generation, schema)
    first = body_of(request)
    schema["type"] = "number"
    assert first != body_of(request)


def test_a_schema_is_not_sent_to_a_server_that_takes_none():
    """As the option says; the engine warns about it."""
    assert "response_format" not in body_of(ASKED, args={"takes_response_schema": False})


def test_two_formats_are_refused():
    """Nobody guesses which of them counts."""
    generation = Generation(extra_body={"response_format": {"type": "json_object"}})
    with pytest.raises(ConfigurationError, match=r"response_format.*response_schema"):
        body_of(Request(QUESTION.messages, generation, SCHEMA))


def test_a_schema_is_part_of_the_fingerprint_only_where_it_is_given():
    """So every fingerprint on record is still that of its request."""
    plain = Request((Message("user", "Capital of France?"),))
    assert fingerprint(plain).hex() == "93e2d40b97c2714299e989109af3a1a9"
    schemas = [None, {}, {"type": "object"}, {"type": "string"}]
    assert len({fingerprint(Request(plain.messages, plain.generation, schema)) for schema in schemas}) == 4
    ordered = [{"type": "string", "title": "t"}, {"title": "t", "type": "string"}]
    assert len({fingerprint(Request(plain.messages, plain.generation, schema)) for schema in ordered}) == 1


def test_a_fingerprint_takes_any_text_in_a_schema():
    """Also what UTF-8 cannot carry; and without a schema such a request has the one that it always had."""
    odd = Message("user", "a\ud800")
    assert fingerprint(Request((odd,))).hex() == "dd578662f46d607d40b3dd657e0544d1"
    assert len(fingerprint(Request((odd,), Generation(), {"title": "\ud800"}))) == 16
