"""The scripted model: its replies depend on the request alone."""

import asyncio
import random

import pytest

from holdfast import ImagePart, TextPart, ToolCall
from holdfast.errors import ConfigurationError
from holdfast.models import (
    Blocked,
    Message,
    ModelError,
    RateLimited,
    Rejected,
    Request,
    Unavailable,
    Usage,
    open_provider,
)
from holdfast.models.scripted.provider import ScriptedProvider
from holdfast.models.scripted.script import read_script
from holdfast.spec import Generation, ModelSpec


def asking(text: str, **generation) -> Request:
    return Request((Message("system", "Be brief."), Message("user", text)), Generation(**generation))


def model(name: str = "table", **args):
    return open_provider(ModelSpec(provider="scripted", model=name, args=args))


def text_of(provider, request: Request | str) -> str:
    request = asking(request) if isinstance(request, str) else request
    return asyncio.run(provider.send(request)).text


def test_echo_repeats_the_last_user_message():
    """scripted/echo answers with what the user said last, and counts words as tokens."""
    reply = asyncio.run(model("echo").send(asking("one two three")))
    assert reply.text == "one two three"
    assert reply.finish == "stop"
    assert reply.model == "echo"
    assert reply.usage == Usage(input_tokens=5, output_tokens=3)


def test_echo_looks_past_what_the_assistant_said():
    """The last user message counts, also where an assistant message follows it."""
    request = Request((Message("user", "first"), Message("user", "second"), Message("assistant", "third")))
    assert text_of(model("echo"), request) == "second"
    assert text_of(model("echo"), Request((Message("system", "only"),))) == "only"
    assert text_of(model("echo"), Request(())) == ""


def test_replies_are_found_by_prompt_part_and_pattern():
    """The exact prompt comes first, then the rules in their order, then the default."""
    provider = model(
        replies={"Capital of France?": "Paris"},
        rules=[
            {"contains": "France", "reply": "somewhere in France"},
            {"matches": "^[0-9]+$", "reply": "a number"},
            {"exact": "Hi", "reply": {"text": "Hello", "finish": "length", "reasoning": "Be polite."}},
            {"contains": "a", "matches": "z$", "reply": "from a to z"},
        ],
        default="I do not know.",
    )
    asked = ["Capital of France?", "Where is France", "42", "42 x", "abcz", "abc"]
    assert [text_of(provider, prompt) for prompt in asked] == [
        "Paris",
        "somewhere in France",
        "a number",
        "I do not know.",
        "from a to z",
        "I do not know.",
    ]
    reply = asyncio.run(provider.send(asking("Hi")))
    assert (reply.text, reply.finish, reply.reasoning) == ("Hello", "length", "Be polite.")


def test_a_prompt_without_a_reply_is_rejected():
    """Without a default, an unforeseen prompt is an error that shows it."""
    with pytest.raises(Rejected, match="no reply for this prompt") as caught:
        text_of(model(replies={"a": "b"}), "something else")
    assert caught.value.detail == "something else"


def test_a_table_may_stand_before_the_echo():
    """scripted/echo with replies echoes only what the table leaves."""
    provider = model("echo", replies={"a": "b"})
    assert [text_of(provider, "a"), text_of(provider, "c")] == ["b", "c"]


def test_a_list_is_drawn_from_by_the_request_and_not_by_order():
    """The same requests in any order, by any instance, get the same replies; all of the list is used."""
    requests = [asking(f"question {n}") for n in range(200)]
    first = model(default=["red", "green", "blue"])
    replies = [text_of(first, request) for request in requests]
    seed = 11
    print("seed", seed)
    order = random.Random(seed).sample(range(200), 200)
    second = model(default=["red", "green", "blue"])
    again = {n: text_of(second, requests[n]) for n in order}
    assert [again[n] for n in range(200)] == replies
    assert set(replies) == {"red", "green", "blue"}


def test_a_list_is_drawn_from_the_same_way_in_every_version():
    """The draw is part of what makes an interrupted run repeat itself: it does not change between releases."""
    provider = model(default=["red", "green", "blue"])
    assert [text_of(provider, f"question {n}") for n in range(8)] == [
        "blue",
        "green",
        "green",
        "blue",
        "blue",
        "blue",
        "green",
        "blue",
    ]


def test_the_seed_is_part_of_the_request():
    """Epochs that ask with different seeds get different draws."""
    provider = model(default=[str(n) for n in range(1000)])
    replies = {text_of(provider, asking("same", seed=seed)) for seed in range(20)}
    assert len(replies) > 10


def test_turns_follow_the_conversation():
    """The n-th turn of a conversation gets the n-th reply, and the last one stays."""
    provider = model(turns=["draft", "better", "best"])
    conversation = (Message("user", "Write."),)
    said = []
    for _ in range(4):
        said.append(text_of(provider, Request(conversation)))
        conversation += (Message("assistant", said[-1]), Message("user", "Again."))
    assert said == ["draft", "better", "best", "best"]


def test_errors_come_before_the_reply_and_are_counted_by_request():
    """Each matching request fails as often as the script says, then succeeds; others never fail."""
    provider = model("echo", errors=[{"contains": "Spain", "rate_limited": {"times": 2, "retry_after": 0.01}}])

    def outcome(text: str) -> str:
        try:
            return text_of(provider, text)
        except RateLimited as error:
            return f"429 {error.retry_after}"

    asked = ["Spain 1", "France", "Spain 2", "Spain 1", "Spain 1", "Spain 2", "Spain 2", "Spain 1"]
    assert [outcome(text) for text in asked] == [
        "429 0.01",
        "France",
        "429 0.01",
        "429 0.01",
        "Spain 1",
        "429 0.01",
        "Spain 2",
        "Spain 1",
    ]


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("rate_limited", RateLimited, 429),
        ("unavailable", Unavailable, 503),
        ("rejected", Rejected, 400),
        ("blocked", Blocked, 400),
    ],
)
def test_every_kind_of_error_can_be_scripted(kind, error, status):
    """Each error of a real provider can be had, for ever or with its own status and words."""
    always = model("echo", errors=[{kind: {}}])
    for _ in range(3):
        with pytest.raises(error) as caught:
            text_of(always, "x")
        assert caught.value.status == status
    special = model("echo", errors=[{kind: {"status": 418, "message": "I am a teapot."}}])
    with pytest.raises(error, match="teapot") as caught:
        text_of(special, "x")
    assert caught.value.status == 418


def test_errors_follow_each_other_in_the_order_of_the_script():
    """A later rule has its turn when an earlier one is used up."""
    provider = model("echo", errors=[{"rate_limited": {"times": 1}}, {"unavailable": {"times": 1}}])
    kinds = []
    for _ in range(3):
        try:
            kinds.append(text_of(provider, "x"))
        except ModelError as error:
            kinds.append(error.kind)
    assert kinds == ["rate_limited", "unavailable", "x"]


def test_a_share_of_the_requests_can_fail():
    """A share picks the same requests in every session, about as many as it says."""

    def failing() -> list[int]:
        provider = model("echo", errors=[{"share": 0.2, "unavailable": {}}])
        failed = []
        for n in range(500):
            try:
                text_of(provider, f"question {n}")
            except Unavailable:
                failed.append(n)
        return failed

    failed = failing()
    assert failing() == failed
    assert 60 < len(failed) < 140


def waits(latency) -> list[float]:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    provider = ScriptedProvider("echo", read_script("echo", {"latency": latency}), sleep)
    for n in range(50):
        asyncio.run(provider.send(asking(f"question {n}")))
    return slept


def test_latency_is_fixed_or_drawn_by_the_request():
    """A number is the time; jitter adds to it by request and seed, the same in every session."""
    assert waits(0) == []
    assert waits(0.5) == [0.5] * 50
    jittered = waits({"seconds": 1, "jitter": 2, "seed": 3})
    assert all(1 <= seconds < 3 for seconds in jittered)
    assert len(set(jittered)) == 50
    assert waits({"seconds": 1, "jitter": 2, "seed": 3}) == jittered
    assert waits({"seconds": 1, "jitter": 2, "seed": 4}) != jittered


def test_latency_is_spent_in_the_event_loop():
    """Waiting requests wait side by side, and a cancelled one ends at once."""

    async def go():
        provider = model("echo", latency=3600)
        tasks = [asyncio.create_task(provider.send(asking(f"{n}"))) for n in range(100)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in asyncio.run(go()))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"reply": {}}, "no option 'reply'.*Did you mean 'replies'"),
        ({"rules": [{"contain": "x", "reply": "y"}]}, r"rules\[0\] has no option 'contain'.*'contains'"),
        ({"errors": [{"ratelimited": {}}]}, r"errors\[0\] has no option 'ratelimited'.*'rate_limited'"),
        ({"errors": [{"contains": "x"}]}, r"errors\[0\] must state one error"),
        ({"errors": [{"blocked": {}, "rejected": {}}]}, r"errors\[0\] must state one error"),
        ({"errors": [{"blocked": {"times": 0}}]}, "not valid"),
        ({"errors": [{"blocked": {"time": 1}}]}, "unknown field `time`"),
        ({"rules": [{"matches": "(", "reply": "x"}]}, "not a valid regular expression"),
        ({"rules": [{"contains": "x"}]}, r"rules\[0\] has no reply"),
        ({"default": []}, "length >= 1"),
        ({"default": 5}, "not valid"),
        ({"latency": -1}, "not valid"),
        ({"latency": {"second": 1}}, "unknown field `second`"),
        ({}, "has no replies"),
    ],
)
def test_a_script_with_a_mistake_is_refused_at_opening(args, words):
    """A mistake is named with its place before the first request."""
    with pytest.raises(ConfigurationError, match=words):
        model("table", **args)


def test_a_script_may_call_tools_and_refuse():
    """Calls get an id by their place and arguments as text; the turn after the results is another."""
    calls = [{"name": "look", "arguments": {"at": 1}}, {"name": "sum", "arguments": "1 2", "id": "own"}]
    provider = model(turns=[{"tool_calls": calls}, {"refusal": "No."}])
    reply = asyncio.run(provider.send(asking("x")))
    assert reply.tool_calls == (ToolCall("call_1", "look", '{"at":1}'), ToolCall("own", "sum", "1 2"))
    assert (reply.content, reply.finish) == ("", "tool_calls")
    results = [Message("tool", "21", tool_call_id=call.id) for call in reply.tool_calls]
    after = asyncio.run(provider.send(Request((*asking("x").messages, reply.message, *results))))
    assert (after.text, after.refusal, after.finish) == ("No.", "No.", "stop")


def test_a_script_line_that_says_nothing_is_refused():
    """A reply without a text, a refusal or a call is a slip."""
    with pytest.raises(ConfigurationError, match="needs a text, a refusal or tool_calls"):
        model(default={"finish": "stop"})


def test_parts_are_prompts_by_their_text():
    """A script finds its reply by the text of the last user message, whatever else is in it."""
    request = Request((Message("user", (TextPart("Capital of "), ImagePart("https://x/a.png"), TextPart("France?"))),))
    assert text_of(model(replies={"Capital of France?": "Paris"}), request) == "Paris"


def test_a_rule_without_a_reply_is_a_sentence():
    with pytest.raises(ConfigurationError, match=r"m: rules\[0\] has no reply\. Write it as \{contains: France, reply"):
        read_script("m", {"rules": [{"contains": "France"}]})
