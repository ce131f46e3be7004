"""Durable steps: what is on record is replayed, whatever order it is asked for in, and nothing else is."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import math
import time
from collections import Counter

import msgspec
import pytest

from engine.rig import Actor, Rig, State, said, simple_task
from holdfast import Answer, Message, Reply, Usage
from holdfast.models import fingerprints
from holdfast.run.core.records import Status, StepRecord

KILL = 50.0


class Stopper(State):
    """A solver that works, and then, until it is told otherwise, waits for a kill instead of answering."""

    def __init__(self, work) -> None:
        super().__init__(work)
        self.is_stopped = True
        self.results: list = []

    async def __call__(self, trial):
        self.results.append(await self.value(trial))
        if self.is_stopped:
            await asyncio.sleep(10_000.0)
        return "done"


def killed_and_resumed(tmp_path, work, actor: Actor | None = None, **options) -> tuple[Stopper, Actor, Rig]:
    """Kills a session after everything it asked for was recorded, and resumes it with a model that has forgotten."""
    solver, actor = Stopper(work), actor or Actor()
    rig = Rig(tmp_path / "r", simple_task(1, solver), {"m": actor}, **options)
    rig.killed_session(KILL)
    solver.is_stopped = False
    actor.tries.clear()
    rig.session()
    return solver, actor, rig


def in_order(order: list[str]):
    """A solver with one branch for each name, which begin in this order the second time."""
    times = [0]

    async def branch(trial, name):
        await asyncio.sleep((times[0] == 2) * order.index(name) * 1.0)
        return [(await trial.generate(f"{name} {number}")).text for number in (1, 2, 3)]

    async def by_gather(trial):
        times[0] += 1
        return sorted(await asyncio.gather(*(branch(trial, name) for name in sorted(order))))

    async def by_group(trial):
        times[0] += 1
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch(trial, name)) for name in sorted(order)]
        return sorted(task.result() for task in tasks)

    return by_gather, by_group


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"], ["c", "a", "b"]], ids="".join)
@pytest.mark.parametrize("way", [0, 1], ids=["gather", "TaskGroup"])
def test_resume_50_branches_find_their_replies_in_whatever_order_they_arrive(tmp_path, order, way):
    """Three calls in each of several branches, all recorded, killed before the answer: a resume makes no call."""
    solver, actor, rig = killed_and_resumed(tmp_path, in_order(order)[way])
    assert actor.calls == 0
    assert solver.results[0] == solver.results[1]
    assert rig.ends()[-1].replayed == 3 * len(order)
    assert rig.is_sound()


def test_the_same_request_asked_twice_is_two_steps(tmp_path):
    """Repetitions are draws of their own, and each is replayed as itself."""
    count = [0]

    async def behave(request, number):
        count[0] += 1
        return said(f"draw {count[0]}")

    async def work(trial):
        ask = [Message("user", "the same")]
        return [(await trial.generate(ask)).text for _ in range(3)]

    solver, actor, rig = killed_and_resumed(tmp_path, work, Actor(behave))
    assert solver.results == [["draw 1", "draw 2", "draw 3"]] * 2
    assert actor.calls == 0
    assert [step.step.rpartition("#")[2] for step in rig.records(StepRecord)] == ["1", "2", "3"]


def test_a_request_that_is_not_on_record_runs_live_and_disables_no_other_replay(tmp_path):
    """A solver that asks for something else meanwhile gets its other replies all the same, and the ledger says so."""
    times = [0]

    async def work(trial):
        times[0] += 1
        names = ["one", "two", "three"] if times[0] == 1 else ["one", "other", "three"]
        return [(await trial.generate([Message("user", name)])).text for name in names]

    solver, actor, rig = killed_and_resumed(tmp_path, work, models={"m": {"price": {"input": 1e6, "output": 0.0}}})
    assert [prompt for _, prompt in actor.tries] == ["other"]
    assert solver.results[1] == ["ONE", "OTHER", "THREE"]
    assert rig.ledger() == [(2, "t", "diverged", 1, "m"), (2, "t", "unused", 1, "m")]
    assert rig.report().cost == 4.0


def test_an_unchanged_resume_repeats_nothing(tmp_path):
    """Where every request is on record, the ledger is empty."""
    _, _, rig = killed_and_resumed(tmp_path, in_order(["a", "b"])[0])
    assert rig.ledger() == []


@dataclasses.dataclass
class Outcome:
    ok: bool
    log: str


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: tuple[int, int]


def run_tests(code: str) -> Outcome:
    return Outcome(ok=True, log=code)


async def count(words: list[str]) -> dict[int, str]:
    return dict(enumerate(words))


def point() -> Point:
    return Point(1, (2, 3))


def moment() -> dt.datetime:
    return dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)


def colour() -> Colour:
    return Colour.RED


def untyped():
    return (1, Point(1, (2, 3)))


def raw() -> bytes:
    return b"\x00\xff"


def wrongly_typed() -> str:
    return 5  # type: ignore[return-value]


def nothing() -> None:
    return None


RESULTS = [
    (run_tests, ["x"], Outcome(ok=True, log="x")),
    (count, [["a", "b"]], {0: "a", 1: "b"}),
    (point, [], Point(1, (2, 3))),
    (moment, [], moment()),
    (colour, [], Colour.RED),
    (untyped, [], [1, {"x": 1, "y": [2, 3]}]),
    (raw, [], b"\x00\xff"),
    (wrongly_typed, [], 5),
    (nothing, [], None),
]


@pytest.mark.parametrize(("function", "args", "expected"), RESULTS, ids=[case[0].__name__ for case in RESULTS])
def test_a_steps_result_is_of_its_declared_type_live_and_replayed(tmp_path, function, args, expected):
    """What the first session got is what every later one gets, as the type that the function says it returns."""

    async def work(trial):
        return await trial.step("work", function, *args)

    solver, _, rig = killed_and_resumed(tmp_path, work)
    assert solver.results == [expected, expected]
    assert [type(result) for result in solver.results] == [type(expected)] * 2
    assert len(rig.records(StepRecord)) == 1


def test_a_step_is_done_once_and_a_step_killed_half_way_again(tmp_path):
    """A side effect that has returned is never repeated; one that has not is."""
    done: list[str] = []

    async def effect(name: str) -> str:
        done.append(name)
        if name == "slow" and len(done) < 3:
            await asyncio.sleep(1_000.0)
        return name

    async def work(trial):
        return [await trial.step("effect", effect, name) for name in ("quick", "slow")]

    solver = Stopper(work)
    rig = Rig(tmp_path / "r", simple_task(1, solver))
    rig.killed_session(KILL)
    solver.is_stopped = False
    rig.session()
    assert done == ["quick", "slow", "slow"]
    assert solver.results == [["quick", "slow"]]


def test_plain_functions_run_beside_each_other_in_threads(tmp_path):
    """Twenty steps that block do not wait for one another, nor does the loop wait for them."""
    together, most = [0], [0]

    def block() -> None:
        together[0] += 1
        most[0] = max(most[0], together[0])
        deadline = time.monotonic() + 20.0
        while most[0] < 20 and time.monotonic() < deadline:
            time.sleep(0.001)
        together[0] -= 1

    async def solve(trial):
        await trial.step("block", block)
        return "done"

    Rig(tmp_path / "r", simple_task(20, solve)).session()
    assert most[0] == 20


def test_a_step_may_be_anything_that_can_be_called(tmp_path):
    """A lambda around a coroutine, and an object whose call is one, are awaited."""

    async def double(number):
        return 2 * number

    class Doubler:
        async def __call__(self, number):
            return 2 * number

    async def work(trial):
        return [await trial.step("lambda", lambda: double(2)), await trial.step("object", Doubler(), 3)]

    solver, _, _ = killed_and_resumed(tmp_path, work)
    assert solver.results == [[4, 6], [4, 6]]


CYCLE: list = []
CYCLE.append(CYCLE)
BAD = {
    "object": object(),
    "NaN": math.nan,
    "infinity": {"deep": [math.inf]},
    "surrogate": "\ud800",
    "cycle": CYCLE,
    "map by tuple": {(1, 2): 3},
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("part", ["arguments", "result"])
def test_what_a_step_cannot_record_is_a_clear_error(tmp_path, part, value):
    """The step is named, and what is wrong with its arguments or its result; the attempt fails, and nothing else."""
    ran = []

    def work(*args):
        ran.append(args)
        return value

    async def solve(trial):
        return Answer("x", await trial.step("my step", work, *([value] if part == "arguments" else [])))

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 0})
    assert rig.session().ended.exit_code == 1
    (end,) = rig.ends()
    assert end.status is Status.FAILED
    assert end.error.message.startswith(f"The {part} of the step 'my step' ")
    assert len(ran) == (part == "result")
    assert rig.is_sound()


@pytest.mark.parametrize("call", [("name",), (print, "x"), ("name", "not callable")])
def test_a_step_without_a_name_or_a_function_is_refused(tmp_path, call):
    """A slip in the order of arguments does not become a key that changes with every process."""

    async def solve(trial):
        return await trial.step(*call)

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 0})
    rig.session()
    assert rig.ends()[0].status is Status.FAILED


class Fatal(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize(
    "error", [StopIteration("over"), SystemExit(3), GeneratorExit(), Fatal("no"), KeyError("k")], ids=repr
)
@pytest.mark.parametrize("in_thread", [True, False])
def test_whatever_a_step_raises_fails_the_attempt_and_not_the_session(tmp_path, error, in_thread):
    """A step cannot end the session, hang it, or hide what happened."""

    def plain():
        raise error

    async def awaited():
        raise error

    async def solve(trial):
        return await trial.step("raise", plain if in_thread else awaited)

    rig = Rig(tmp_path / "r", [simple_task(1, solve), simple_task(3, name="other")], settings={"max_retries": 0})
    session = rig.session()
    assert session.ended.counts.finished == 3
    failed = [end for end in rig.ends() if end.task == "t"]
    assert [end.status for end in failed] == [Status.FAILED]
    assert rig.is_sound()


def test_a_text_continues_the_conversation_and_a_list_is_one_of_its_own(tmp_path):
    """What is sent is what was said so far and the new text; a list of messages stands alone, and is then continued."""

    async def solve(trial):
        await trial.generate("one")
        await trial.generate(Message("user", "two"))
        await trial.generate([Message("user", "fresh")])
        await trial.generate("three")
        assert [message.content for message in trial.messages] == ["be brief", "fresh", "FRESH", "three", "THREE"]
        return "done"

    actor = Actor()
    Rig(tmp_path / "r", simple_task(1, solve, system="be brief"), {"m": actor}).session()
    assert [[message.content for message in request.messages] for request in actor.requests] == [
        ["be brief", "one"],
        ["be brief", "one", "ONE", "two"],
        ["be brief", "fresh"],
        ["be brief", "fresh", "FRESH", "three"],
    ]


def test_branches_begin_with_what_was_said_and_then_go_their_own_ways(tmp_path):
    """No branch sees what another said, however they interleave; what follows them goes on from before them."""

    async def branch(trial, name):
        await trial.generate(name)
        await asyncio.sleep(1.0)
        await trial.generate(f"{name} again")
        return [message.content for message in trial.messages]

    async def solve(trial):
        await trial.generate("start")
        found = await asyncio.gather(branch(trial, "a"), branch(trial, "b"))
        assert found[0] == ["start", "START", "a", "A", "a again", "A AGAIN"]
        assert found[1] == ["start", "START", "b", "B", "b again", "B AGAIN"]
        await trial.generate("end")
        assert [message.content for message in trial.messages] == ["start", "START", "end", "END"]
        return "done"

    rig = Rig(tmp_path / "r", simple_task(1, solve), settings={"max_retries": 0})
    rig.session()
    assert rig.statuses() == {"s0": "valid"}


def test_a_new_attempt_begins_with_no_conversation(tmp_path):
    """What a failed attempt said is not in the next one's mouth."""
    seen = []

    async def solve(trial):
        seen.append(trial.messages)
        await trial.generate("hello")
        if len(seen) == 1:
            raise ValueError("once")
        return "done"

    actor = Actor()
    Rig(tmp_path / "r", simple_task(1, solve), {"m": actor}, settings={"fail_fast": False}).session()
    assert seen == [(), ()]
    assert [len(request.messages) for request in actor.requests] == [1, 1]


def test_trials_do_not_hear_each_other(tmp_path):
    """The conversation of one trial is never part of another's."""
    actor = Actor()

    async def twice(trial):
        await trial.generate(trial.sample.input)
        await asyncio.sleep(1.0)
        return await trial.generate("and?")

    Rig(tmp_path / "r", simple_task(20, twice), {"m": actor}, settings={"concurrency_limit": 3}).session()
    assert sorted({len(request.messages) for request in actor.requests}) == [1, 3]


async def by_text(trial, turns):
    for turn in range(turns):
        await trial.generate(f"{turn} " + "question " * 100)


async def by_list(trial, turns):
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(Message("user", f"{turn} " + "question " * 100))
        reply = await trial.generate(messages)
        messages.append(Message("assistant", reply.text))


@pytest.mark.parametrize("talk", [by_text, by_list])
def test_transcripts_grow_linearly(tmp_path, talk):
    """Each turn records only what it added, also where a solver hands the whole conversation in every time."""
    sizes = {}
    for turns in (10, 50):

        async def solve(trial, turns=turns):
            await talk(trial, turns)
            return "done"

        rig = Rig(tmp_path / str(turns), simple_task(1, solve))
        rig.session()
        steps = rig.records(StepRecord)
        sizes[turns] = sum(len(msgspec.json.encode(step)) for step in steps)
        assert [step.parent for step in steps] == ["", *(step.step for step in steps[:-1])]
    assert sizes[50] < 5.5 * sizes[10]


@pytest.mark.parametrize("talk", [by_text, by_list])
def test_a_fingerprint_costs_the_added_messages_only(tmp_path, monkeypatch, talk):
    """Every message of a conversation is looked at once, however many turns follow."""
    spelled, encode = Counter(), fingerprints._encode
    monkeypatch.setattr(fingerprints, "_encode", lambda value: spelled.update([type(value)]) or encode(value))

    async def solve(trial):
        await talk(trial, 50)
        return "done"

    rig = Rig(tmp_path, simple_task(1, solve))
    rig.session()
    assert len(rig.records(StepRecord)) == 50
    # The last reply was not asked with.
    assert spelled[Message] == 2 * 50 - 1


def test_a_whole_transcript_can_be_put_together_from_the_steps(tmp_path):
    """Following the parents gives every message that was sent, in order."""

    async def solve(trial):
        await by_list(trial, 5)
        return "done"

    actor = Actor()
    rig = Rig(tmp_path / "r", simple_task(1, solve, system="be brief"), {"m": actor})
    rig.session()
    steps = {step.step: step for step in rig.records(StepRecord)}

    def sent(step: StepRecord) -> list[dict]:
        before = []
        if step.parent:
            parent = steps[step.parent]
            before = [*sent(parent), {"role": "assistant", "content": parent.result["text"]}]
        return before + step.request["messages"]

    last = list(steps.values())[-1]
    assert sent(last) == list(msgspec.to_builtins(actor.requests[-1].messages))


@pytest.mark.parametrize("logprobs", [None, [{"token": "\ud800", "logprob": -math.inf}]], ids=["text", "logprobs"])
def test_a_reply_that_json_cannot_hold_is_kept_as_well_as_it_can_be(tmp_path, logprobs):
    """It was paid for: what cannot be written is replaced, and the first session sees what the second will."""

    async def behave(request, number):
        return Reply("a\ud800b", "stop", Usage(1, 1), logprobs=logprobs)

    async def work(trial):
        return await trial.generate("x\udfff")

    solver, actor, _ = killed_and_resumed(tmp_path, work, Actor(behave))
    first, second = solver.results
    assert actor.calls == 0
    assert first == second
    assert first.text == "a\ufffdb"
    assert first.logprobs == (logprobs and [{"token": "\ufffd", "logprob": None}])


def test_every_field_of_a_reply_survives(tmp_path):
    """A replayed reply equals the one that was given."""
    given = Reply(
        "text",
        "length",
        Usage(1, 2, 3, 4),
        "model-x",
        "id-7",
        {"content": [{"token": "t", "logprob": -0.5}]},
        "thought",
    )

    async def behave(request, number):
        return given

    async def work(trial):
        return await trial.generate("x")

    solver, _, _ = killed_and_resumed(tmp_path, work, Actor(behave))
    assert solver.results == [given, given]


def test_nothing_can_be_asked_of_a_trial_that_has_ended(tmp_path):
    """A branch that outlives its solver is stopped at its next call; it cannot spend behind the trial's back."""
    orphans, errors = [], []

    async def orphan(trial):
        await asyncio.sleep(5.0)
        try:
            await trial.generate("late")
        except Exception as error:  # noqa: BLE001 - whatever it is
            errors.append(str(error))

    async def solve(trial):
        orphans.append(asyncio.ensure_future(orphan(trial)))
        return "done"

    async def patient(trial):
        await asyncio.sleep(20.0)
        return "done"

    actor = Actor()
    Rig(tmp_path / "r", [simple_task(1, solve), simple_task(1, patient, name="u")], {"m": actor}).session()
    assert actor.calls == 0
    assert errors == [
        "generate was called after the solver had returned. Await everything that a solver starts before it returns."
    ]


def test_a_reply_that_is_complete_is_kept_though_the_trial_is_cancelled_in_that_moment(tmp_path):
    """Between a reply and its record there is no gap, not even where the journal's queue is full."""
    stopped = []

    async def behave(request, number):
        await asyncio.sleep(5.0)
        if not stopped:
            # In the next turn of the loop, when all ten replies have come and wait for their records.
            stopped.append(asyncio.get_running_loop().call_soon(execution.value._scheduler.cancel))
        return said("Q")

    actor, execution = Actor(behave), State(None)
    rig = Rig(tmp_path / "r", simple_task(10), {"m": actor})

    def begin(found):
        execution.value = found
        found._session.sink.journal.queue._queue_bytes = 1

    rig.at = {1.0: begin}
    rig.session()
    assert (actor.calls, actor.cancelled) == (10, 0)
    assert len(rig.records(StepRecord)) == 10
    assert rig.ends() == []
    rig.session()
    assert actor.calls == 10
    assert rig.is_sound()
