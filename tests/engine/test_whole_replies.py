"""Row 20 of steps: a reply is recorded whole and replayed as it was, and one without text fails the attempt at once."""

from __future__ import annotations

import asyncio
import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.rig import Actor, Rig, Solver, said, simple_task
from holdfast import (
    ImagePart,
    Message,
    RawPart,
    Reply,
    Sample,
    Task,
    TextPart,
    ToolCall,
    ToolCallReply,
    Usage,
    exact,
    generate,
)
from holdfast.engine.trials.steps import record_reply, recordable_reply, replay_reply, request_fingerprint
from holdfast.models.errors import Rejected
from holdfast.models.message import Request
from holdfast.run.core.codec import decode, encode
from holdfast.run.core.records import Status, StepRecord

CALLS = (ToolCall("call_1", "weather", '{"city": "Paris"}'), ToolCall("", "odd", "", {"odd": [1, None]}))
CALLING = Reply("", "tool_calls", Usage(1, 1), "m", "i", None, "hm", "", CALLS, {"annotations": [1]})

TEXTS = st.text(max_size=8)
WILD_TEXTS = st.text(st.characters(codec=None, categories=None), max_size=8)


def values(texts, *, wild: bool):
    """Any JSON value; wild ones hold what JSON cannot."""
    scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts
    scalars |= st.floats(allow_nan=wild, allow_infinity=wild)
    return st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def replies(texts=TEXTS, *, wild: bool = False):
    """Any reply."""
    json_values = values(texts, wild=wild)
    parts = st.one_of(st.builds(TextPart, texts), st.builds(ImagePart, texts, texts), st.builds(RawPart, json_values))
    calls = st.builds(ToolCall, texts, texts, texts, json_values)
    return st.builds(
        Reply,
        texts | st.lists(parts, max_size=3).map(tuple),
        texts,
        st.none() | st.builds(Usage, *[st.integers(0, 2**40)] * 4),
        texts,
        texts,
        json_values,
        texts,
        texts,
        st.lists(calls, max_size=3).map(tuple),
        st.dictionaries(texts, json_values, max_size=3),
    )


def recorded(reply: Reply) -> Reply:
    """The reply as it is read back from the journal."""
    step = StepRecord(trial="t", attempt=1, step="s", result=record_reply(reply), usage=reply.usage)
    return replay_reply(decode(encode(step)))


@given(replies())
def test_a_replayed_reply_equals_the_one_that_was_recorded(reply):
    """Parts, calls, raw JSON, refusal and reasoning come back as they were, and so does what is asked next."""
    again = recorded(reply)
    assert again == reply
    asked = [Request((Message("user", "x"), one.message, Message("tool", "y"))) for one in (reply, again)]
    assert len({*map(request_fingerprint, asked)}) == 1


@given(replies(WILD_TEXTS, wild=True))
def test_a_reply_that_json_cannot_hold_is_recorded_as_it_will_be_read(reply):
    """Lone surrogates, NaN and infinities are replaced once, before anybody has seen the reply."""
    kept = recordable_reply(reply)
    assert recorded(kept) == kept


def test_a_plain_reply_is_recorded_as_it_always_was():
    """A text without parts or calls has the bytes of earlier versions, and so has the message that follows it."""
    plain = Reply("Paris", "stop", Usage(1, 2), "m", "i", None, "hm")
    assert msgspec.json.encode(record_reply(plain)) == b'{"text":"Paris","model":"m","id":"i","reasoning":"hm"}'
    assert msgspec.json.encode(plain.message) == b'{"role":"assistant","content":"Paris"}'
    assert msgspec.json.encode(record_reply(Reply("", "length"))) == b'{"text":"","finish":"length"}'


def answering(*given_replies: Reply) -> Actor:
    """A model that gives these replies one after the other."""
    waiting = list(given_replies)

    async def behave(request, number):
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return Actor(behave)


async def ask(trial):
    return await trial.generate(trial.sample.input)


async def ask_for_text(trial):
    return (await trial.generate(trial.sample.input)).text.strip()


@pytest.mark.parametrize("solve", [ask, ask_for_text], ids=["returned", "text"])
def test_a_reply_that_calls_tools_fails_the_attempt_without_a_retry(tmp_path, solve):
    """A solver that knows nothing of tools: one call, one failed attempt that names the tools, no score."""
    actor = answering(CALLING)
    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": actor}, settings={"max_retries": 3})
    assert rig.session().ended.exit_code == 1
    assert actor.calls == 1
    (end,) = rig.ends()
    assert (end.status, end.will_retry, end.scores) == (Status.FAILED, False, {})
    assert end.error.kind == "ToolCallReply"
    assert "calls 'weather', 'odd' and holds no text" in end.error.message
    assert "reply.tool_calls" in end.error.message
    (step,) = rig.records(StepRecord)
    assert replay_reply(step) == CALLING
    assert rig.report().coverage.failed == 1
    assert rig.is_sound()


def test_a_reply_of_other_parts_fails_the_attempt_without_a_retry(tmp_path):
    """The same for a reply that holds only what this version cannot read as text."""
    actor = answering(Reply((RawPart({"type": "hologram"}),), "stop"))
    rig = Rig(tmp_path / "r", simple_task(1, ask), {"m": actor}, settings={"max_retries": 3})
    assert rig.session().ended.exit_code == 1
    assert [(end.status, end.error.kind) for end in rig.ends()] == [(Status.FAILED, "ReplyWithoutText")]
    assert actor.calls == 1


async def forget_to_return(trial):
    await trial.generate(trial.sample.input)


async def forget_generate(trial):
    await trial.generate(trial.sample.input)
    return trial.generate(trial.sample.input)


async def forget_a_sampling(trial):
    await trial.generate(trial.sample.input)
    return trial.generate(trial.sample.input, requirements=["short"])


async def forget_to_await(trial):
    await trial.generate(trial.sample.input)
    return ask_for_text(trial)


@pytest.mark.parametrize(
    ("solve", "told"),
    [
        (forget_to_return, "The solver returned NoneType. It must return an Answer, a Reply or a text."),
        (forget_generate, "The solver returned a coroutine of generate(). Write `await` before the call."),
        (forget_a_sampling, "The solver returned a coroutine of generate(). Write `await` before the call."),
        (forget_to_await, "The solver returned a coroutine of ask_for_text(). Write `await` before the call."),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_solver_that_returns_a_wrong_type_fails_without_a_retry(tmp_path, solve, told):
    """Another attempt would return the same, and be paid for."""
    actor = answering(Reply("Q0", "stop"))
    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": actor}, settings={"max_retries": 3})
    assert rig.session().ended.exit_code == 1
    (end,) = rig.ends()
    assert (end.status, end.will_retry, end.error.message) == (Status.FAILED, False, told)
    assert actor.calls == 1


def test_an_error_of_the_task_is_still_retried(tmp_path):
    """Only the reply without text spares the retries."""

    async def solve(trial):
        await trial.generate(trial.sample.input)
        raise ValueError("no")

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 2, "fail_fast": False})
    rig.session()
    assert [end.attempt for end in rig.ends()] == [1, 2, 3]


def test_a_solver_may_catch_it(tmp_path):
    """What it makes of the reply is its answer."""

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        try:
            return reply.text
        except ToolCallReply:
            return "Q0"

    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": answering(CALLING)})
    assert rig.session().ended.exit_code == 0


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply("Q0", "tool_calls", tool_calls=CALLS), "Q0"),
        (Reply((TextPart("Q"), RawPart({"type": "thinking", "thinking": "hm"}), TextPart("0")), "stop"), "Q0"),
        (Reply("", "stop", refusal="Q0"), "Q0"),
        (Reply("", "stop"), ""),
    ],
    ids=["text and calls", "parts", "refusal", "nothing"],
)
def test_a_reply_with_words_is_the_answer(tmp_path, reply, text):
    """Text beside calls, joined parts and a refusal are scored; a reply that holds nothing is an empty answer."""
    rig = Rig(tmp_path / "r", simple_task(1, ask), {"m": answering(reply)})
    assert rig.session().ended.exit_code == 0
    assert rig.ends()[0].scores == {"exact": float(text == "Q0")}


def test_a_conversation_goes_on_with_the_calls_also_after_a_kill(tmp_path):
    """The next request holds the calls and their results, in the first session and after every kill; nothing is asked
    or run twice.
    """
    ran = []

    async def tool(name, arguments):
        ran.append(name)
        return {"degrees": 21}

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        while reply.tool_calls:
            results = []
            for call in reply.tool_calls:
                result = await trial.step(call.name, tool, call.name, call.arguments)
                results.append(Message("tool", json.dumps(result), tool_call_id=call.id))
                await asyncio.sleep(1.0)
            reply = await trial.generate([*trial.messages, *results])
        return reply

    actor = answering(CALLING, CALLING, said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, Solver(solve)), {"m": actor})
    for seconds in (0.5, 1.5, 2.5, 3.5):
        rig.killed_session(seconds)
    assert rig.session().ended.exit_code == 0
    assert actor.calls == 3
    assert ran == ["weather", "odd"] * 2
    assistant = Message("assistant", "", None, CALLS, None, "hm")
    results = tuple(Message("tool", '{"degrees": 21}', tool_call_id=call.id) for call in CALLS)
    turn = (assistant, *results)
    assert actor.requests[-1].messages == (Message("user", "q0"), *turn, *turn)
    steps = [step for step in rig.records(StepRecord) if step.name == "generate"]
    assert [len(step.request["messages"]) for step in steps] == [1, 2, 2]
    assert rig.is_sound()


def test_a_sample_may_be_a_conversation_with_parts_and_calls(tmp_path):
    """It is kept in the run, and asked with after a kill as before."""
    picture = Message("user", (TextPart("What?"), ImagePart("data:image/png;base64,AAAA"), RawPart({"type": "x"})))
    turns = [picture, CALLING.message, Message("tool", "21", tool_call_id="call_1")]

    async def behave(request, number):
        await asyncio.sleep(10.0)
        return said("Q0")

    task = Task(name="t", samples=[Sample(turns, target="Q0", id="s")], solver=generate(), scorers=exact())
    actor = Actor(behave)
    rig = Rig(tmp_path / "r", task, {"m": actor})
    rig.killed_session(5.0)
    assert rig.session().ended.exit_code == 0
    assert [request.messages for request in actor.requests] == [tuple(turns)] * 2


def test_one_result_continues_the_conversation(tmp_path):
    """A tool's message alone goes behind the call that it answers."""

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        return await trial.generate(Message("tool", "21", tool_call_id=reply.tool_calls[0].id))

    actor = answering(CALLING, said("Q0"))
    Rig(tmp_path / "r", simple_task(1, solve), {"m": actor}).session()
    assert [message.role for message in actor.requests[-1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    "broken",
    [
        Reply(5, "stop"),
        Reply("x", "stop", tool_calls="weather"),
        Reply("x", "stop", tool_calls=(3,)),
        Reply(("bare",), "stop"),
        Reply("x", "stop", other={"x": object()}),
        Reply("x", "stop", usage=7),
    ],
    ids=["content", "calls", "a call", "a part", "other", "usage"],
)
def test_a_plug_in_that_returns_nonsense_is_told_so(tmp_path, broken):
    """A reply with a field of a wrong type is refused in a sentence, and never scored."""
    rig = Rig(tmp_path / "r", simple_task(1, ask), {"m": answering(broken)})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.error.kind) == (Status.UNFINISHED, Rejected.kind)
    assert "a field of a wrong type" in end.error.message


@pytest.mark.parametrize(
    ("other", "kept"),
    [({"x": (math.nan, "\udfff")}, {"x": [None, "\ufffd"]}), ({"x": ({3: (1, 2)},)}, {"x": [{"3": [1, 2]}]})],
    ids=["not JSON", "other types"],
)
def test_a_plug_in_may_give_lists_and_what_json_cannot_hold(tmp_path, other, kept):
    """What a provider gives is seen as it is recorded, in the first session as in the next."""
    seen = []

    async def solve(trial):
        seen.append(await trial.generate(trial.sample.input))
        await asyncio.sleep(10.0)
        return "Q0"

    given_reply = Reply([TextPart("Q0")], "stop", tool_calls=[CALLS[0]], other=other)
    rig = Rig(tmp_path / "r", simple_task(1, Solver(solve)), {"m": answering(given_reply)})
    rig.killed_session(5.0)
    rig.session()
    assert seen[0] == seen[1]
    assert seen[0] == Reply((TextPart("Q0"),), "stop", tool_calls=CALLS[:1], other=kept)
