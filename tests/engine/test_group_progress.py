"""The progress of each task and model: scores, tokens, retries and time left, over sessions and beside judges."""

from __future__ import annotations

import contextlib

from engine.rig import Actor, Rig, said, simple_task
from holdfast import exact, scorer
from holdfast.engine.group_progress import RateMeter
from holdfast.models.errors import Rejected, Unavailable
from holdfast.run.fold.reader import RunReader


def two_tasks(count=4):
    return [simple_task(count, name="a"), simple_task(count, name="b")]


def test_each_group_has_its_own_counts_scores_and_tokens(tmp_path):
    """What one task does is not seen in the other."""

    async def behave(request, number):
        text = request.messages[-1].content
        return said("wrong" if text == "q1" else text.upper(), (3, 2))

    rig = Rig(tmp_path / "r", two_tasks(), {"m": Actor(behave), "n": Actor()})
    progress = rig.session().execution.progress
    assert list(progress.groups) == [("a", "m"), ("a", "n"), ("b", "m"), ("b", "n")]
    assert progress.groups["a", "m"].scores() == {"exact": (0.75, 4)}
    assert progress.groups["a", "n"].scores() == {"exact": (1.0, 4)}
    assert progress.groups["a", "m"].tokens == 4 * 5 and progress.groups["b", "n"].tokens == 4 * 2
    assert progress.tokens == sum(group.tokens for group in progress.groups.values())
    assert all(group.left == 0 and group.done == 4 for group in progress.groups.values())


def test_a_later_session_adds_to_what_is_on_record(tmp_path):
    """Score, tokens and counts are those of the run; retries are those of the session."""
    refused = {"q1"}

    async def behave(request, number):
        text = request.messages[-1].content
        if text in refused:
            raise Rejected("no", status=400)
        if text == "q2" and number < 3:
            raise Unavailable("busy", retry_after=0.1)
        return said("wrong" if text == "q3" else text.upper(), (3, 2))

    rig = Rig(tmp_path / "r", [simple_task(4)], {"m": Actor(behave)})
    group = rig.session().execution.progress.groups["t", "m"]
    assert (group.done, group.unfinished, group.retries, group.tokens) == (3, 1, 2, 15)
    refused.clear()
    group = rig.session().execution.progress.groups["t", "m"]
    assert (group.before.finished, group.done, group.ended, group.left) == (3, 4, 1, 0)
    assert (group.retries, group.tokens) == (0, 20)
    assert group.scores() == {"exact": (0.75, 4)}


def test_the_tokens_of_a_judge_are_those_of_the_group_that_asked(tmp_path):
    """A group has what its trials took, whichever model they asked."""

    @scorer(name="graded")
    async def graded(answer, sample, scope):
        return bool(await scope.generate("grade", model="m"))

    tasks = [simple_task(3, score=[exact(), graded], name="judged"), simple_task(3, name="plain")]
    progress = Rig(tmp_path / "r", tasks, {"m": Actor()}).session().execution.progress
    judge = progress.groups["judged", "m"].tokens - progress.groups["plain", "m"].tokens
    assert judge == 3 * 2
    assert list(progress.groups["judged", "m"].scores()) == ["exact", "graded"]


def test_sums_of_scores_are_those_of_the_slots(tmp_path):
    """What the running score starts from is what the report computes from."""

    async def behave(request, number):
        text = request.messages[-1].content
        return said("wrong" if text in {"q1", "q4"} else text.upper())

    rig = Rig(tmp_path / "r", two_tasks(6), {"m": Actor(behave)})
    rig.session()
    with contextlib.closing(RunReader(rig.root)) as reader:
        found = {}
        for slot in reader.fold.slots():
            count, total = found.get((slot.standing.group[:2], slot.scorer), (0, 0.0))
            found[slot.standing.group[:2], slot.scorer] = count + 1, total + slot.value
        sums = reader.fold.score_sums()
    assert {(group, name): figures for group, by in sums.items() for name, figures in by.items()} == found
    assert sums["a", "m"] == {"exact": (6, 4.0)}


def test_the_rate_is_that_of_the_last_minute():
    """What was done long ago counts no more."""
    meter = RateMeter(0.0)
    assert meter.rate(0.0, 0) == 0.0
    assert meter.rate(10.0, 100) == 10.0
    for second in range(11, 200):
        meter.rate(float(second), 100)
    assert meter.rate(200.0, 100) == 0.0
