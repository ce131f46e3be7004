"""An agent's loop: tool calls side by side, each a durable step; whatever a model sends, it gets a result."""

from __future__ import annotations

import asyncio
import errno

import pytest

from engine.rig import Actor, Rig, Solver, State, said, simple_task
from holdfast import ConfigurationError, RawPart, Reply, TextPart, ToolCall, Usage, agent, tool
from holdfast.models.message import Message
from holdfast.run.core.records import Status, StepRecord
from holdfast.sampling import Rejection
from holdfast.spec import TrialLimits
from holdfast.tasks.tools.called_tool import MOST_ARGUMENTS, MOST_CALLS, answerable_calls, answerable_message

WEATHER = {"Paris": 21, "Oslo": 3}


def calling(*calls: ToolCall, text: str = "") -> Reply:
    return Reply(text, "tool_calls", Usage(1, 1), tool_calls=calls)


def call(id_: str, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id_, name, arguments)


def scripted(*turns: Reply) -> Actor:
    """A model that gives these replies in turn, the last one from then on."""

    async def behave(request, _):
        turn = sum(message.role == "assistant" for message in request.messages)
        return turns[min(turn, len(turns) - 1)]

    return Actor(behave)


def results(actor: Actor) -> list[str]:
    """What the model reads of its tools, in its last request."""
    return [message.text for message in actor.requests[-1].messages if message.role == "tool"]


def tool_steps(rig: Rig) -> list[StepRecord]:
    return [step for step in rig.records(StepRecord) if not step.model]


def degrees(city: str) -> int:
    """How warm it is."""
    return WEATHER[city]


async def slowly(city: str, seconds: float) -> dict[str, float]:
    await asyncio.sleep(seconds)
    return {city: seconds}


def test_a_two_turn_agent(tmp_path):
    """The schemas are offered, results come back in the order of the calls, and the last text is the answer."""
    first = calling(call("a", "slowly", '{"city": "Oslo", "seconds": 30}'), call("b", "degrees", '{"city": "Paris"}'))
    actor = scripted(first, said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent("{input}!", tools=[degrees, slowly], system="S")), {"m": actor})
    assert rig.session().ended.exit_code == 0
    assert rig.statuses() == {"s0": "valid"}
    asked = actor.requests[1]
    assert [message.role for message in asked.messages] == ["system", "user", "assistant", "tool", "tool"]
    assert [message.tool_call_id for message in asked.messages[3:]] == ["a", "b"]
    assert results(actor) == ['{"Oslo":30.0}', "21"]
    offered = asked.generation.extra_body["tools"]
    assert [one["function"]["name"] for one in offered] == ["degrees", "slowly"]
    assert offered[0]["function"]["description"] == "How warm it is."
    assert sorted(step.step.partition(" ")[0] for step in tool_steps(rig)) == ["/tool-1", "/tool-2"]


def test_steps_1_results_belong_to_their_calls_whatever_was_faster(tmp_path):
    """Three equal calls that draw something different, killed when the last of them was the only one to have ended: it
    keeps its own result, the others run again, and the model is asked once for each turn.
    """
    state, ran = State([90.0, 60.0, 10.0]), []

    async def draw(place: int) -> str:
        await asyncio.sleep(state.value[place])
        ran.append(place)
        return f"{place} after {state.value[place]}"

    sent = calling(*[call(f"c{place}", "draw", f'{{"place": {place}}}') for place in range(3)])
    actor = scripted(sent, said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, Solver(agent(tools=[draw]))), {"m": actor})
    rig.killed_session(30.0)
    assert (ran, actor.calls) == ([2], 1)
    state.value = [5.0, 20.0, 1.0]
    rig.session()
    assert (ran, actor.calls) == ([2, 0, 1], 2)
    assert results(actor) == ["0 after 5.0", "1 after 20.0", "2 after 10.0"]
    assert rig.statuses() == {"s0": "valid"}


@pytest.mark.parametrize(("parallel", "seconds"), [(True, 30.0), (False, 60.0)])
def test_calls_of_a_reply_run_side_by_side_unless_they_must_not(tmp_path, parallel, seconds):
    """In virtual time: two tools of half a minute take half a minute."""
    wait = '{"city": "Oslo", "seconds": 30}'
    actor = scripted(calling(call("a", "slowly", wait), call("b", "slowly", wait)), said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[slowly], parallel=parallel)), {"m": actor})
    assert rig.session().seconds == pytest.approx(seconds)
    assert len(tool_steps(rig)) == 2


HOSTILE = [
    (call("a", "nowhere"), "there is no tool 'nowhere'; the tools are: degrees"),
    (call("a", "deg\x00\x1b[31mrees"), "there is no tool "),
    (call("a", ""), "there is no tool ''"),
    (call("a", "degrees", '{"city": '), "are not a JSON object: {"),
    (call("a", "degrees", "[1]"), "are not a JSON object"),
    (call("a", "degrees", "null"), "are not a JSON object"),
    (call("a", "degrees", "[" * 5000), "are not a JSON object"),
    (call("a", "degrees", "{}"), "do not fit: Object missing required field `city`"),
    (call("a", "degrees", '{"city": 3, "x": 1}'), "do not fit"),
    (call("a", "degrees", '{"city": "Paris", "unit": "C"}'), "unknown field `unit`"),
    (call("a", "degrees", '{"city": "\\ud800"}'), "are not a JSON object"),
    (call("a", "degrees", '{"city": "' + "x" * 50_000_000 + '"}'), "have 50,000,012 characters"),
]


@pytest.mark.parametrize(("sent", "words"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_call_that_cannot_be_carried_out_is_a_result_and_never_an_exception(tmp_path, sent, words):
    """The model reads what is wrong; nothing runs; the trial continues, and the next request is one that APIs take."""
    actor = scripted(calling(sent), said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[degrees])), {"m": actor})
    rig.session()
    assert rig.statuses() == {"s0": "valid"}
    (told,) = results(actor)
    assert told.startswith("Error: ") and words in told
    assert len(told) < 1000 and told.isprintable()
    assert tool_steps(rig) == []
    (kept,) = actor.requests[-1].messages[1].tool_calls
    assert len(kept.arguments) <= MOST_ARGUMENTS and kept.name.isprintable()
    # The reply itself is recorded as it was.
    replied = next(step for step in rig.records(StepRecord) if step.model)
    assert replied.result["tool_calls"][0]["name"] == sent.name


def test_ids_that_are_missing_or_given_twice_become_different_ones(tmp_path):
    """Every call has its own result, under an id that the next request has too."""
    paris, oslo = '{"city": "Paris"}', '{"city": "Oslo"}'
    sent = [call("x", "degrees", paris), call("x", "degrees", oslo), call("", "degrees", paris), call("call_2", "no")]
    actor = scripted(calling(*sent), said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[degrees])), {"m": actor})
    rig.session()
    messages = actor.requests[-1].messages
    ids = [one.id for one in messages[1].tool_calls]
    assert ids == [message.tool_call_id for message in messages[2:]]
    assert len(set(ids)) == 4 and ids[0] == "x" and all(ids)
    assert results(actor)[:3] == ["21", "3", "21"]
    assert rig.statuses() == {"s0": "valid"}


def test_a_thousand_calls_in_one_reply_are_bounded(tmp_path):
    """The first ones run; the others get a result that says so."""
    actor = scripted(calling(*[call(f"c{n}", "degrees", '{"city": "Oslo"}') for n in range(1000)]), said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[degrees])), {"m": actor})
    rig.session()
    told = results(actor)
    assert told[:MOST_CALLS] == ["3"] * MOST_CALLS
    assert len(told) == 1000 and all("only the first" in text for text in told[MOST_CALLS:])
    assert len(tool_steps(rig)) == MOST_CALLS


def test_calls_that_are_as_they_should_be_go_back_as_they_came():
    """Also those with more in them than the usual fields."""
    message = Message(
        "assistant", "", tool_calls=(ToolCall("a", "b", '{"c":  1}', {"index": 0}), ToolCall("b", "b", ""))
    )
    assert answerable_message(message) is message
    placed = (TextPart("so"), RawPart({"type": "tool_use", "id": "a"}), TextPart("on"))
    mended = answerable_message(Message("assistant", placed, tool_calls=(call("a", "b"), call("a", "b"))))
    assert mended.content == (TextPart("so"), TextPart("on"))
    assert [one.id for one in mended.tool_calls] == ["a", "call_2"]
    assert [one.id for one in answerable_calls((call("call_2", "b"), call("call_2", "b")))] == ["call_2", "call_2_2"]


def test_what_a_tool_raises_is_reported_or_fails_the_attempt(tmp_path):
    """By `on_tool_error`; recorded as raised either way."""

    def broken(city: str) -> str:
        raise KeyError(city)

    turns = calling(call("a", "broken", '{"city": "Rome"}'), call("b", "degrees", '{"city": "Oslo"}')), said("Q0")
    actor = scripted(*turns)
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[broken, degrees])), {"m": actor})
    rig.session()
    assert results(actor) == ["Error: KeyError: 'Rome'", "3"]
    raised = [step.raised.type for step in tool_steps(rig) if step.raised]
    assert raised == ["builtins:KeyError"]
    failing = agent(tools=[broken, degrees], on_tool_error="fail")
    rig = Rig(tmp_path / "f", simple_task(1, failing), {"m": scripted(*turns)}, settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.error.kind) == (Status.FAILED, "KeyError")
    assert len(tool_steps(rig)) == 2


def test_a_result_that_cannot_be_recorded_is_an_error_of_the_task(tmp_path):
    """The model is not the one to mend it."""

    def opaque(city: str) -> object:
        return object()

    actor = scripted(calling(call("a", "opaque", '{"city": "Rome"}')), said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[opaque])), {"m": actor}, settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    assert end.status is Status.FAILED and "The result of the tool 'opaque'" in end.error.message
    assert actor.calls == 1


def test_a_huge_result_is_cut_with_a_note(tmp_path):
    """In the record as well: what the model reads is what is replayed."""

    @tool(max_characters=10)
    def long(city: str) -> str:
        return city * 1000

    actor = scripted(calling(call("a", "long", '{"city": "Rome"}')), said("Q0"))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[long])), {"m": actor})
    rig.session()
    assert results(actor) == ["RomeRomeRo\n[cut: 10 of 4,000 characters are shown]"]
    assert [step.result for step in tool_steps(rig)] == results(actor)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), MemoryError()], ids=["full disk", "memory"])
def test_an_outage_in_a_tool_is_no_result(tmp_path, error):
    """Steps 5: not recorded and not told to the model; what other tools have done is kept."""
    state = State(error)

    def fragile(city: str) -> str:
        if state.value is not None:
            raise state.value
        return city

    turns = calling(call("a", "fragile", '{"city": "Rome"}'), call("b", "degrees", '{"city": "Oslo"}')), said("Q0")
    actor = scripted(*turns)
    solver = Solver(agent(tools=[fragile, degrees]))
    rig = Rig(tmp_path / "r", simple_task(1, solver), {"m": actor}, settings={"max_retries": 0})
    rig.session()
    assert actor.calls == 1
    assert [step.name for step in tool_steps(rig)] == ["degrees"]


@pytest.mark.parametrize("turns", [1, 3])
def test_a_model_that_never_answers_ends_as_limited_by_turns(tmp_path, turns):
    """The tools of the last turn do not run; the trial is kept, unscored, and not tried again."""
    actor = scripted(calling(call("a", "degrees", '{"city": "Oslo"}')))
    rig = Rig(tmp_path / "r", simple_task(1, agent(tools=[degrees], max_turns=turns)), {"m": actor})
    assert rig.session().ended.exit_code == 0
    (end,) = rig.ends()
    assert (end.status, end.limit, end.calls, end.scores) == (Status.LIMITED, "turns", turns, {})
    assert len(tool_steps(rig)) == turns - 1
    assert rig.session().ended.exit_code == 0
    assert actor.calls == turns


def test_max_iterations_bounds_the_calls_of_an_attempt(tmp_path):
    """The call beyond it is not made, also where the solver catches the error; as many as it are valid."""

    async def ask_for_ever(trial):
        for number in range(100):
            try:
                await trial.generate(f"q{number}")
            except Exception:  # noqa: BLE001 - as a careless solver would
                return "Q0"
        return "never"

    actor = Actor()
    rig = Rig(tmp_path / "r", simple_task(1, ask_for_ever, max_iterations=4), {"m": actor})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.limit, actor.calls) == (Status.LIMITED, "iterations", 4)

    async def ask_four_times(trial):
        for number in range(4):
            await trial.generate(f"q{number}")
        return "Q0"

    rig = Rig(tmp_path / "v", simple_task(1, ask_four_times, max_iterations=4), {"m": Actor()})
    rig.session()
    assert rig.statuses() == {"s0": "valid"}


def test_max_iterations_counts_replayed_calls_like_live_ones(tmp_path):
    """A trial that is interrupted ends as one that is not: limited after the same number of calls."""

    async def ask_for_ever(trial):
        number = 0
        while True:
            number += 1
            await trial.generate(f"q{number}")

    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(1, ask_for_ever, max_iterations=5), {"m": actor})
    rig.killed_session(25.0)
    assert actor.calls == 3
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.limit, end.replayed) == (Status.LIMITED, "iterations", 2)
    # The third was in flight, and is made again.
    assert actor.calls == 6


def test_a_sampling_is_one_iteration_and_branches_share_them(tmp_path):
    """However many candidates it draws; of three branches with two iterations, two are asked."""

    async def sample_once(trial):
        found = await trial.generate("q0", strategy=Rejection(loop_budget=3), requirements=[lambda text: text == "no"])
        return found.candidates[-1].text

    actor = Actor()
    rig = Rig(tmp_path / "s", simple_task(1, sample_once, max_iterations=1), {"m": actor})
    rig.session()
    assert (rig.statuses(), actor.calls) == ({"s0": "valid"}, 3)

    async def branch(trial):
        await asyncio.gather(*[trial.generate(f"q{number}") for number in range(3)], return_exceptions=True)
        return "Q0"

    actor = Actor(seconds=1.0)
    rig = Rig(tmp_path / "r", simple_task(1, branch, max_iterations=2), {"m": actor})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.limit, actor.calls) == (Status.LIMITED, "iterations", 2)


@pytest.mark.parametrize("given", [0, -1, True, 1.5, "3"])
def test_max_iterations_has_to_be_a_count(given):
    with pytest.raises(ConfigurationError, match="max_iterations"):
        simple_task(1, max_iterations=given)


def test_tokens_limit_an_agent_too(tmp_path):
    """The usual limits apply between turns."""
    actor = scripted(calling(call("a", "degrees", '{"city": "Oslo"}')))
    task = simple_task(1, agent(tools=[degrees]), limits=TrialLimits(tokens=5))
    rig = Rig(tmp_path / "r", task, {"m": actor})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.limit, actor.calls) == (Status.LIMITED, "tokens", 3)


def test_a_solver_of_ones_own_offers_tools_and_runs_them(tmp_path):
    """`trial.generate(tools=…)`, `trial.call_tools`, in a named scope as well, and a bound of its own."""

    async def solve(trial):
        place = trial.scope("weather")
        reply = await trial.generate("q", tools=[degrees], temperature=0.5, extra_body={"seed": 3})
        told = await place.call_tools(reply, [degrees])
        assert [message.text for message in told] == ["21"]
        reply = await trial.generate([*trial.messages, *told], tools=[degrees])
        if reply.tool_calls:
            trial.reach_limit("patience")
        return reply

    actor = scripted(calling(call("a", "degrees", '{"city": "Paris"}')))
    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": actor})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.limit) == (Status.LIMITED, "patience")
    assert [*actor.requests[0].generation.extra_body] == ["seed", "tools"]
    assert [step.step.partition(" ")[0] for step in tool_steps(rig)] == ["/weather/tool-1"]


def test_tools_in_extra_body_as_well_are_refused(tmp_path):
    """One of them would be lost; and a sampling runs none."""

    async def twice(trial):
        return await trial.generate("q", tools=[degrees], extra_body={"tools": []})

    async def sampled(trial):
        return await trial.generate("q", tools=[degrees], requirements=[{"regex": "a"}])

    for number, (solve, words) in enumerate(
        [(twice, "extra_body sets 'tools'"), (sampled, "offers the model no tools")]
    ):
        actor = Actor()
        rig = Rig(tmp_path / str(number), simple_task(1, solve), {"m": actor}, settings={"max_retries": 0})
        rig.session()
        (end,) = rig.ends()
        assert end.status is Status.FAILED and words in end.error.message
        assert actor.calls == 0
