"""Scopes: each branch of a solver gets its own replies back. The numbers in names are rows of the table of steps."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
import sys

import pytest

from engine.rig import Actor, Rig, said
from engine.test_durable_steps import KILL, Stopper, killed_and_resumed, simple_task
from engine.virtual import seeded
from holdfast import Message, Sample, Task, evaluate, exact, generate, scorer
from holdfast.engine.trials.scopes import family_of, scope_in_key
from holdfast.errors import UsageError
from holdfast.run.core.records import StepRecord

SAME = [Message("user", "the same question")]


def drawing() -> Actor:
    """A model that never gives the same reply twice."""
    count = itertools.count(1)

    async def behave(request, number):
        return said(f"draw {next(count)}")

    return Actor(behave)


class Delays:
    """How long each branch waits before it asks: in the order of the branches first, in the other order afterwards."""

    def __init__(self) -> None:
        self.session = 0

    async def wait(self, number: int, branches: int) -> None:
        await asyncio.sleep(float(number if self.session % 2 else branches - number))


async def follow(trial, delays, number, branches):
    """A branch: the same question as all others, then one that depends on its reply."""
    await delays.wait(number, branches)
    first = (await trial.generate(SAME)).text
    await delays.wait(number, branches)
    return first, (await trial.generate([Message("user", f"more about {first}")])).text


async def by_gather(trial, delays):
    return await asyncio.gather(*(follow(trial, delays, number, 3) for number in range(3)))


async def by_group(trial, delays):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(trial, delays, number, 3)) for number in range(3)]
    return [task.result() for task in tasks]


async def by_tasks(trial, delays):
    tasks = [asyncio.create_task(follow(trial, delays, number, 3)) for number in range(3)]
    return [await task for task in reversed(tasks)]


async def nested(trial, delays):
    async def outer(number):
        await delays.wait(number, 2)
        return await asyncio.gather(*(follow(trial, delays, inner, 2) for inner in range(2)))

    return await asyncio.gather(*(outer(number) for number in range(2)))


async def in_a_loop(trial, delays):
    rounds = [[follow(trial, delays, number, 2) for number in range(2)] for _ in range(2)]
    return [await asyncio.gather(*branches) for branches in rounds]


async def by_wait_for(trial, delays):
    return await asyncio.gather(*(asyncio.wait_for(follow(trial, delays, number, 3), 1000) for number in range(3)))


async def in_contexts(trial, delays):
    """Tasks that are given a context of their own, or one that they share."""
    shared = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    contexts = [None, shared, shared]
    tasks = [
        loop.create_task(follow(trial, delays, number, 3), context=context) for number, context in enumerate(contexts)
    ]
    return [await task for task in tasks]


async def with_steps_that_start_tasks(trial, delays):
    """What a step function starts takes no number, on replay or before."""

    async def busy(number):
        return sum(await asyncio.gather(*(asyncio.sleep(0, result=number) for _ in range(number))))

    async def branch(number):
        await trial.step("busy", busy, number + 1)
        return await follow(trial, delays, number, 3)

    return await asyncio.gather(*(branch(number) for number in range(3)))


SHAPES = [
    by_gather,
    by_group,
    by_tasks,
    nested,
    in_a_loop,
    by_wait_for,
    in_contexts,
    with_steps_that_start_tasks,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_1_and_2_branches_that_ask_the_same_get_their_own_replies_back(tmp_path, shape):
    """In the other order on resume: 0 calls, and every branch has what it had."""
    delays = Delays()

    async def work(trial):
        delays.session += 1
        return await shape(trial, delays)

    solver, actor, rig = killed_and_resumed(tmp_path, work, drawing())
    assert actor.calls == 0
    assert solver.results[0] == solver.results[1]
    assert rig.is_sound()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("moment", [2.5, 4.5, 6.5])
def test_steps_2_half_of_the_calls_recorded(tmp_path, shape, moment):
    """Killed at several moments: no reply on record is bought again, and each stays with its branch."""
    delays = Delays()

    async def work(trial):
        delays.session += 1
        return await shape(trial, delays)

    solver, actor = Stopper(work), drawing()
    rig = Rig(tmp_path / "r", simple_task(1, solver), {"m": actor})
    rig.killed_session(moment)
    solver.is_stopped = False
    before = {step.step: step.result for step in rig.records(StepRecord)}
    bought = actor.calls
    rig.session()
    after = {step.step: step.result for step in rig.records(StepRecord) if not step.lender}
    assert {key: after[key] for key in before} == before
    assert actor.calls == bought + len(after) - len(before)
    assert rig.ends()[-1].replayed == len(before)


def test_steps_2_an_outer_factory_and_eager_tasks_still_make_the_tasks(tmp_path):
    """A loop's own factory is wrapped, gets every task, and is the loop's again afterwards."""
    made = []

    def plain(loop, work):
        made.append(work.__name__)
        return asyncio.Task(work, loop=loop)

    delays = Delays()

    async def work(trial):
        delays.session += 1
        return await by_gather(trial, delays)

    solver, actor = Stopper(work), drawing()
    rig = Rig(tmp_path / "r", simple_task(1, solver), {"m": actor})
    execution_of = rig._execution

    def with_factory(loop):
        loop.set_task_factory(plain if sys.version_info < (3, 12) else asyncio.eager_task_factory)
        return execution_of(loop)

    rig._execution = with_factory
    rig.killed_session(KILL)
    solver.is_stopped = False
    actor.tries.clear()
    rig.session()
    assert (actor.calls, solver.results[0]) == (0, solver.results[1])
    assert sys.version_info >= (3, 12) or made.count("follow") == 6


@pytest.mark.parametrize("seed", range(12))
def test_steps_3_branches_started_as_others_complete(tmp_path, seed):
    """The order of creation depends on timing: no reply is bought again while an identical one is unused."""
    rng = seeded(seed)

    async def work(trial):
        async def branch(number):
            await asyncio.sleep(rng.random() * 5)
            first = (await trial.generate(SAME)).text
            await asyncio.sleep(rng.random() * 5)
            return first

        found, pending = [], {asyncio.create_task(branch(number)) for number in range(3)}
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            found += [task.result() for task in done]
            if len(found) + len(pending) < 6:
                pending |= {asyncio.create_task(branch(len(found)))}
        return sorted(found)

    solver, actor, _ = killed_and_resumed(tmp_path, work, drawing())
    assert actor.calls == 0
    assert solver.results[0] == solver.results[1]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_steps_3_branches_started_in_another_order_borrow_from_each_other(tmp_path, order):
    """Each with requests of its own: no call, whatever the order of creation is now."""
    orders = iter(["abc", order])

    async def branch(trial, name):
        return name, [(await trial.generate(f"{name} {number}")).text for number in (1, 2, 3)]

    async def work(trial):
        return sorted(await asyncio.gather(*(branch(trial, name) for name in next(orders))))

    solver, actor, rig = killed_and_resumed(tmp_path, work, drawing())
    assert (actor.calls, solver.results[0]) == (0, solver.results[1])
    assert rig.ends()[-1].replayed == 9 and rig.is_sound()


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_steps_3_a_scope_that_is_named_inside_its_task_is_found_again_by_its_name(tmp_path, order):
    """The same question in all of them, and branches below the name; the tasks are started in another order."""
    orders = iter(["abc", order])

    async def branch(trial, name):
        with trial.scope(name):
            first = (await trial.generate(SAME)).text
            more = await asyncio.gather(*(trial.generate(f"more about {first}, {number}") for number in (1, 2)))
            return name, first, [reply.text for reply in more]

    async def work(trial):
        return sorted(await asyncio.gather(*(branch(trial, name) for name in next(orders))))

    solver, actor, rig = killed_and_resumed(tmp_path, work, drawing())
    assert (actor.calls, solver.results[0]) == (0, solver.results[1])
    assert rig.ends()[-1].replayed == 9 and rig.is_sound()


def test_steps_3_one_name_in_two_tasks_stays_with_its_task(tmp_path):
    """Where two branches use one name, each below its own number, neither takes what the other has on record."""
    delays = Delays()

    async def branch(trial, number):
        await delays.wait(number, 2)
        with trial.scope("draft"):
            return (await trial.generate(SAME)).text

    async def work(trial):
        delays.session += 1
        return await asyncio.gather(*(branch(trial, number) for number in range(2)))

    solver, actor, _ = killed_and_resumed(tmp_path, work, drawing())
    assert (actor.calls, solver.results[0]) == (0, solver.results[1])


def test_steps_3_what_another_python_numbers_otherwise_is_borrowed(tmp_path):
    """With a child task first and without one afterwards, and the other way round, as wait_for differs."""
    for place, wrapped in enumerate([(True, False), (False, True)]):
        sessions = iter(wrapped)

        async def work(trial, sessions=sessions):
            ask = trial.generate
            first = await (asyncio.create_task(ask(SAME)) if next(sessions) else ask(SAME))
            with trial.scope("inner"):
                second = await ask([Message("user", f"more about {first.text}")])
            return first.text, second.text

        solver, actor, rig = killed_and_resumed(tmp_path / str(place), work, drawing())
        assert (actor.calls, solver.results[0]) == (0, solver.results[1])
        borrowed = [step for step in rig.records(StepRecord) if step.lender]
        assert len(borrowed) == 1 and rig.ends()[-1].replayed == 2
        assert rig.status().usage.input_tokens == 2 and rig.is_sound()


def test_steps_3_a_borrowed_reply_is_not_lent_again(tmp_path):
    """Killed once more after it was borrowed: it stays with the branch that borrowed it."""
    session = [0]

    async def work(trial):
        session[0] += 1
        if session[0] == 1:
            return [(await asyncio.create_task(trial.generate(SAME))).text]
        mine = (await trial.generate(SAME)).text
        other = (await asyncio.create_task(trial.generate(SAME))).text
        return [mine, other]

    solver, actor = Stopper(work), drawing()
    rig = Rig(tmp_path / "r", simple_task(1, solver), {"m": actor})
    for _ in range(3):
        rig.killed_session(KILL)
    assert solver.results == [["draw 1"], ["draw 1", "draw 2"], ["draw 1", "draw 2"]]
    assert actor.calls == 2


def test_steps_3b_a_call_that_was_in_flight_is_its_own(tmp_path):
    """A in flight at the kill, B recorded with a follow-up: exactly one call, A's; B replays its own."""
    count, is_slow = itertools.count(1), [True]

    async def behave(request, number):
        mine = next(count)
        if mine == 1 and is_slow[0]:
            await asyncio.sleep(10_000.0)
        return said(f"draw {mine}")

    async def branch(trial, delay):
        await asyncio.sleep(delay)
        first = (await trial.generate(SAME)).text
        return first, (await trial.generate([Message("user", f"more about {first}")])).text

    async def work(trial):
        return await asyncio.gather(branch(trial, 0.0), branch(trial, 1.0))

    solver, actor = Stopper(work), Actor(behave)
    rig = Rig(tmp_path / "r", simple_task(1, solver), {"m": actor})
    rig.killed_session(KILL)
    solver.is_stopped = is_slow[0] = False
    recorded = [step.result["text"] for step in rig.records(StepRecord)]
    actor.tries.clear()
    rig.session()
    assert [prompt for _, prompt in actor.tries].count("the same question") == 1
    assert solver.results[0][1] == tuple(recorded)


def test_steps_4_a_named_scope_used_twice_in_turn_counts_on(tmp_path):
    """One path; the conversation inside stays inside, and names nest."""

    async def work(trial):
        found = []
        for _ in range(2):
            with trial.scope("a/b"):
                found.append((await trial.generate(SAME)).text)
                found.append((await trial.generate("and?")).text)
                assert len(trial.messages) == 4
            assert trial.messages == ()
        found.append((await trial.scope("c").generate(SAME)).text)
        found.append(await trial.scope("c").step("shout", str.upper, "x"))
        return found

    solver, actor, rig = killed_and_resumed(tmp_path, work, drawing())
    assert (actor.calls, solver.results[0]) == (0, solver.results[1])
    keys = [step.step for step in rig.records(StepRecord)]
    assert {scope_in_key(key) for key in keys} == {"a/b", "c"}
    assert sorted(key.rpartition("#")[2] for key in keys if key.startswith("/a/b generate:")) == ["1", "1", "1", "2"]


def test_steps_4b_one_named_scope_used_by_two_branches_at_once_is_refused(tmp_path):
    """With a way out; the same in turn is not."""
    errors = []

    async def branch(scope):
        try:
            return await scope.generate(SAME)
        except UsageError as error:
            errors.append(error)

    async def work(trial):
        scope = trial.scope("a")
        await asyncio.gather(branch(scope), branch(scope))
        await branch(scope)
        await asyncio.gather(*(trial.scope(f"b {number}").generate(SAME) for number in range(3)))
        return "done"

    killed_and_resumed(tmp_path, work, Actor(seconds=1.0))
    assert len(errors) == 1 and all(
        "in use by another branch" in str(error) and "trial.scope" in error.hint for error in errors
    )


async def in_an_executor(trial):
    return await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(ask_same(trial)))


async def in_a_thread_with_the_scope(trial):
    return await asyncio.to_thread(lambda: asyncio.run(ask_same(trial)))


async def outside_any_scope(trial):
    return await contextvars.Context().run(asyncio.create_task, ask_same(trial))


async def in_a_step(trial):
    return await trial.step("s", lambda: asyncio.run(ask_same(trial)))


async def in_an_async_step(trial):
    async def inner():
        return await ask_same(trial)

    return await trial.step("s", inner)


async def ask_same(trial):
    return (await trial.generate(SAME)).text


def evaluated(tmp_path, solve):
    """A run of one trial in real time: threads do not know of a virtual clock."""
    task = Task(name="t", samples=[Sample("q", target="q")], solver=solve, scorers=exact())
    return evaluate(task, models=["scripted/echo"], run=tmp_path / "r", max_retries=0, show_progress=False)


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        (in_an_executor, "the branch of the solver is not known"),
        (in_a_thread_with_the_scope, "another event loop"),
        (outside_any_scope, "the branch of the solver is not known"),
        (in_a_step, "trial.generate was called inside the step 's'"),
        (in_an_async_step, "trial.generate was called inside the step 's'"),
    ],
)
def test_steps_4c_and_9_where_no_scope_is_found_the_call_is_refused(tmp_path, way, sentence):
    """In a sentence that names the way out; nothing is asked."""
    run = evaluated(tmp_path, way)
    (row,) = run.trials()
    assert row.state == "failed" and sentence in row.error.message
    assert not [step for step in run.steps() if step.model]


async def in_a_scope_of_another_branch(scope):
    held = scope.scope("part")
    with held:
        return await asyncio.create_task(held.generate(SAME))


async def without_a_name(scope):
    return scope.scope("")


async def as_a_step_without_a_function(scope):
    return await scope.step("s", 3)


@pytest.mark.parametrize(
    ("way", "sentences"),
    [
        (in_an_executor, ["scope.generate was called", "branch of the scorer", 'scope.scope("NAME").generate']),
        (in_a_thread_with_the_scope, ["another event loop than the scorer's", 'scope.scope("NAME")']),
        (in_a_step, ["scope.generate was called inside the step 's'", "in the scorer itself"]),
        (in_a_scope_of_another_branch, ["another branch of the scorer", "as in scope.scope("]),
        (without_a_name, ["is not a valid scope name", "as in scope.scope("]),
        (as_a_step_without_a_function, ["needs a name and a function", "As in scope.step("]),
    ],
)
def test_a_scorer_is_told_of_its_scope_and_of_no_solver(tmp_path, way, sentences):
    """The same refusals, in the words of the function that is to be mended."""

    async def judge(answer, sample, scope):
        await way(scope)
        return True

    task = Task(name="t", samples=[Sample("q", target="q")], solver=generate(), scorers=scorer(judge))
    run = evaluate(task, models=["scripted/echo"], run=tmp_path / "r", max_retries=0, show_progress=False)
    (row,) = run.trials()
    assert all(sentence in row.error.message for sentence in sentences), row.error.message
    assert "trial" not in row.error.message and "solver" not in row.error.message
    assert len([step for step in run.steps() if step.model]) == 1


def test_a_named_scope_works_from_a_thread(tmp_path):
    """As the refusal says: through the loop of the solver, with a name."""

    async def work(trial):
        loop, ask = asyncio.get_running_loop(), trial.scope("from a thread").generate
        waiting = await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(ask(SAME), loop))
        return (await asyncio.wrap_future(waiting)).text

    run = evaluated(tmp_path, work)
    assert [scope_in_key(step.step) for step in run.steps()] == ["from%20a%20thread"]


@pytest.mark.parametrize("name", ["", "a//b", "/a", 3, None])
def test_what_is_no_name_of_a_scope_is_refused(tmp_path, name):
    async def work(trial):
        with trial.scope(name):
            return "x"

    rig = Rig(tmp_path / "r", simple_task(1, work), {"m": Actor()}, settings={"max_retries": 0})
    rig.session()
    assert "is not a valid scope name" in rig.ends()[0].error.message


def test_names_of_any_characters_are_kept_apart(tmp_path):
    """Spaces, signs that mean something in a key, and what looks like a number."""
    names = ["a b", "a%20b", "~1", "%7E1", "ü", "x:y#1", "\ud800", "generate:1 2"]

    async def work(trial):
        found = [await asyncio.create_task(trial.generate(SAME))]
        found += [await trial.scope(name).generate(SAME) for name in names]
        return [reply.text for reply in found]

    solver, actor, rig = killed_and_resumed(tmp_path, work, drawing())
    assert (actor.calls, solver.results[0]) == (0, solver.results[1])
    scopes = {scope_in_key(step.step) for step in rig.records(StepRecord)}
    assert len(scopes) == len(names) + 1 and sum(family_of(scope) == "" for scope in scopes) == 1


@pytest.mark.parametrize("seed", range(30))
def test_random_trees_of_branches_replay_without_a_call(tmp_path, seed):
    """Branches, named scopes and steps, nested at random; delays drawn anew in every session."""
    shape_seed, rng = random.Random(seed).random(), random.Random(seed + 1000)

    async def grow(trial, tree, depth):
        await asyncio.sleep(rng.random() * 3)
        found = [(await trial.generate(SAME)).text]
        kind = tree.choice(["gather", "named", "step", "leaf"]) if depth else "leaf"
        parts = [random.Random(tree.random()) for _ in range(tree.randint(1, 3))]
        if kind == "gather":
            found += await asyncio.gather(*(grow(trial, part, depth - 1) for part in parts))
        elif kind == "named":
            for number, part in enumerate(parts):
                with trial.scope(f"part {number}"):
                    found.append(await grow(trial, part, depth - 1))
        elif kind == "step":
            found.append(await trial.step("s", lambda: depth))
        return [*found, (await trial.generate([Message("user", f"after {found[0]}")])).text]

    async def work(trial):
        return await grow(trial, random.Random(shape_seed), 3)

    print("seed", seed)
    solver, actor, rig = killed_and_resumed(tmp_path, work, drawing())
    assert actor.calls == 0
    assert solver.results[0] == solver.results[1]
    assert rig.is_sound()
