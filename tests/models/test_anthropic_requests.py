"""The Messages API on the wire: what is sent for a conversation, its tools and its settings."""

import base64

import pytest
from messages_server import exchange, sent_to_claude

from holdfast.errors import ConfigurationError
from holdfast.models import Message, Rejected, Request, open_provider
from holdfast.models.content import ImagePart, RawPart, TextPart, ToolCall
from holdfast.spec import Generation, ModelSpec

KEY = "sk-ant-0123456789abcdef"
PIXEL = base64.b64encode(b"not really a picture").decode()
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


def turns(*messages: Message) -> list[dict]:
    return sent_to_claude(Request(messages))["messages"]


def test_a_request_looks_as_the_api_wants_it(monkeypatch):
    """Target, headers and body are exactly those of the API."""
    monkeypatch.setenv("MY_KEY", KEY)
    seen = exchange(api_key_env="MY_KEY")
    assert seen.targets == ["POST /v1/messages"]
    assert seen.headers[0]["x-api-key"] == KEY
    assert seen.headers[0]["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in seen.headers[0]
    assert seen.body == {
        "model": "claude-tiny",
        "max_tokens": 8,
        "messages": [{"role": "user", "content": "Capital of France?"}],
        "temperature": 0.0,
    }


def test_another_version_of_the_api_is_a_header_of_the_model():
    """However its name is written, it takes the place of the usual one."""
    seen = exchange(headers={"Anthropic-Version": "2026-10-21"})
    sent = [value for name, value in seen.headers[0].items() if name.lower() == "anthropic-version"]
    assert sent == ["2026-10-21"]


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        (None, "https://api.anthropic.com"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com"),
        ("https://host/anthropic", "https://host/anthropic"),
        ("https://host/v1/messages", "https://host"),
    ],
)
def test_an_address_is_taken_with_and_without_the_version(base_url, url, monkeypatch):
    """As the official clients take it, and as other providers here do; a key goes to the service's own address only."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    provider = open_provider(ModelSpec(provider="anthropic", model="m", base_url=base_url))
    assert provider.address == url
    assert ("x-api-key" in provider._endpoint.headers) == (url == "https://api.anthropic.com")


def test_a_missing_key_is_named(monkeypatch):
    """The message names the variable, and how to set it."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        open_provider(ModelSpec(provider="anthropic", model="m"))


def test_max_tokens_is_always_sent():
    """The API needs one: that of the request, else the option, with the budget of thinking on top."""
    plain = Request((Message("user", "q"),))
    assert sent_to_claude(plain)["max_tokens"] == 8192
    assert sent_to_claude(plain, args={"default_max_tokens": 100})["max_tokens"] == 100
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    asked = Request(plain.messages, Generation(extra_body=thinking))
    body = sent_to_claude(asked, args={"default_max_tokens": 100})
    assert (body["max_tokens"], body["thinking"]) == (2100, thinking["thinking"])
    adaptive = Request(plain.messages, Generation(max_tokens=50, extra_body={"thinking": {"type": "adaptive"}}))
    assert sent_to_claude(adaptive)["max_tokens"] == 50


def test_a_system_text_is_apart():
    """One is a text, several are blocks; one in the middle of a conversation stays in its place."""
    user = Message("user", "q")
    assert sent_to_claude(Request((Message("system", "Be brief."), user)))["system"] == "Be brief."
    body = sent_to_claude(Request((Message("system", "a"), Message("developer", "b"), user)))
    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert body["messages"] == [{"role": "user", "content": "q"}]
    assert turns(user, Message("assistant", "a"), Message("system", "Now in French."), user)[2] == {
        "role": "system",
        "content": "Now in French.",
    }
    assert "system" not in sent_to_claude()


def test_generation_has_the_names_of_the_api():
    """Stops are stop sequences; other members of the body stand beside them."""
    generation = Generation(temperature=1.0, top_p=0.9, stop=["END"], seed=7, extra_body={"top_k": 5})
    body = sent_to_claude(Request((Message("user", "q"),), generation))
    assert {name: body[name] for name in ("temperature", "top_p", "stop_sequences", "top_k")} == {
        "temperature": 1.0,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "top_k": 5,
    }
    assert "seed" not in body


@pytest.mark.parametrize(
    "generation",
    [{"logprobs": True}, {"top_logprobs": 2}, {"presence_penalty": 0.5}, {"frequency_penalty": 0.5}],
    ids=lambda generation: next(iter(generation)),
)
def test_a_setting_that_the_api_lacks_is_refused(generation):
    """When the model is opened, and again where a call sets it."""
    (name,) = generation
    with pytest.raises(ConfigurationError, match=f"the Messages API has no {name}"):
        sent_to_claude(generation=Generation(**generation))
    with pytest.raises(ConfigurationError, match=f"the Messages API has no {name}"):
        sent_to_claude(Request((Message("user", "q"),), Generation(**generation)))


@pytest.mark.parametrize("name", ["model", "messages", "system", "stream", "max_tokens", "stop_sequences"])
def test_what_holdfast_sets_cannot_be_set_beside_it(name):
    """Two values of one member would be a guess."""
    with pytest.raises(ConfigurationError, match=f"extra_body sets '{name}'"):
        sent_to_claude(Request((Message("user", "q"),), Generation(extra_body={name: 1})))


def test_a_seed_is_said_not_to_be_sent():
    """A deterministic eval sets one for each call; its report names the models that take none."""
    provider = open_provider(ModelSpec(provider="anthropic", model="m", base_url="http://127.0.0.1:1"))
    assert provider.takes_seed is False


def test_calls_of_tools_and_their_results_are_blocks():
    """Arguments are an object, and results that follow one another are one message of the user."""
    calls = (ToolCall("t1", "add", '{"a": 1}'), ToolCall("t2", "now", ""))
    sent = turns(
        Message("user", "q"),
        Message("assistant", "Let me see.", tool_calls=calls),
        Message("tool", "3", tool_call_id="t1"),
        Message("tool", (TextPart("noon"), ImagePart("https://host/clock.png")), tool_call_id="t2"),
    )
    assert sent[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [
                        {"type": "text", "text": "noon"},
                        {"type": "image", "source": {"type": "url", "url": "https://host/clock.png"}},
                    ],
                },
            ],
        },
    ]


def test_thinking_goes_back_as_it_came():
    """With its signature, before the calls; an empty text is not sent, for the API refuses one."""
    called = Message("assistant", (RawPart(THINKING),), tool_calls=(ToolCall("t1", "add", "{}"),), reasoning="Hm.")
    assert turns(Message("user", "q"), called)[1]["content"] == [
        THINKING,
        {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
    ]
    silent = Message("assistant", "", tool_calls=(ToolCall("t1", "add", "{}"),))
    assert len(turns(Message("user", "q"), silent)[1]["content"]) == 1


def test_images_are_blocks():
    """An address, or the image itself in base64."""
    sent = turns(
        Message("user", (TextPart("?"), ImagePart(f"data:image/png;base64,{PIXEL}"), ImagePart("https://h/i")))
    )
    assert sent[0]["content"] == [
        {"type": "text", "text": "?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "image", "source": {"type": "url", "url": "https://h/i"}},
    ]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("user", (ImagePart("data:image/svg+xml,%3Csvg%3E"),)), "takes base64 only"),
        (Message("user", (ImagePart("data:image/png;base64,A"),)), "not valid base64"),
        (Message("user", "q", name="ann"), "takes no names"),
        (Message("assistant", "", tool_calls=(ToolCall("t", "add", "[1]"),)), "not a JSON object"),
        (Message("assistant", "", tool_calls=(ToolCall("t", "add", "{nope"),)), "not a JSON object"),
    ],
)
def test_what_the_api_cannot_take_is_refused(message, words):
    """Nothing is left out of a message in silence."""
    with pytest.raises(Rejected, match=words):
        turns(message)


def test_tools_of_the_chat_protocol_are_rewritten():
    """One solver serves both APIs; tools in the form of this one are sent as they are."""
    function = {"name": "add", "description": "Adds.", "parameters": SCHEMA, "strict": True}
    native = {"type": "web_search_20250305", "name": "web_search"}
    extra = {
        "tools": [{"type": "function", "function": function}, {"type": "function", "function": {"name": "now"}}, native]
    }
    body = sent_to_claude(Request((Message("user", "q"),), Generation(extra_body={**extra, "tool_choice": "required"})))
    assert body["tools"] == [
        {"name": "add", "description": "Adds.", "strict": True, "input_schema": SCHEMA},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
        native,
    ]
    assert body["tool_choice"] == {"type": "any"}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": {"type": "function", "function": {"name": "add"}}}, {"type": "tool", "name": "add"}),
        ({"tool_choice": {"type": "tool", "name": "add"}}, {"type": "tool", "name": "add"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"tool_choice": "required", "parallel_tool_calls": False}, {"type": "any", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": True}, None),
    ],
    ids=str,
)
def test_a_choice_of_tools_is_rewritten(given, sent):
    """In either form, and with the setting for parallel calls inside it."""
    body = sent_to_claude(Request((Message("user", "q"),), Generation(extra_body=given)))
    assert body.get("tool_choice") == sent
    assert "parallel_tool_calls" not in body


def test_a_schema_is_the_format_of_the_output():
    """Beside what else configures the output; a second format is refused."""
    asked = Request((Message("user", "q"),), Generation(extra_body={"output_config": {"effort": "low"}}), SCHEMA)
    format_ = {"type": "json_schema", "schema": SCHEMA}
    assert sent_to_claude(asked)["output_config"] == {"effort": "low", "format": format_}
    assert sent_to_claude(asked, args={"takes_response_schema": False})["output_config"] == {"effort": "low"}
    twice = Request(asked.messages, Generation(extra_body={"output_config": {"format": format_}}), SCHEMA)
    with pytest.raises(ConfigurationError, match="response_schema"):
        sent_to_claude(twice)


def test_text_that_utf_8_cannot_carry_is_sent():
    """With U+FFFD in its place, as to every server."""
    assert turns(Message("user", "a\ud800"))[0]["content"] == "a\ufffd"
