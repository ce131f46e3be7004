"""Rows 20 to 26 of steps with a provider of anybody's own: the engine treats its replies as those of a server."""

from __future__ import annotations

import math

import pytest

from engine.rig import Actor, Rig, ask, simple_task
from holdfast import Message, Reply, Usage
from holdfast.engine.events import CallRetried, Note
from holdfast.models.errors import RateLimited
from holdfast.run.core.records import REPLY_NOTE, NoteRecord, Status, StepRecord

PRICED = {"m": {"price": {"input": 1.0, "output": 1.0}}}


def replying(*replies) -> Actor:
    """A provider whose n-th try of a request gets the n-th of these, and then the last one."""

    async def behave(request, number):
        found = replies[min(number, len(replies)) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    return Actor(behave)


@pytest.mark.parametrize("finish", ["abort", "network_error", "ERROR"])
def test_an_outage_in_a_finish_reason_is_retried(tmp_path, finish):
    """Steps 21: whoever makes the reply."""
    rig = Rig(tmp_path / "r", simple_task(1, ask), {"m": replying(Reply("Q", finish), Reply("Q0", "stop"))})
    session = rig.session()
    assert (session.ended.exit_code, len(session.of(CallRetried))) == (0, 1)


def test_a_policy_in_a_finish_reason_blocks(tmp_path):
    """Steps 21: whoever makes the reply; what it took is on record."""
    rig = Rig(tmp_path / "r", simple_task(1, ask), {"m": replying(Reply("Q", "content_filter", Usage(3, 4)))})
    rig.session()
    (end,) = rig.ends()
    assert (end.status, end.usage) == (Status.BLOCKED, Usage(3, 4))


@pytest.mark.parametrize(
    "usage",
    [Usage(-1), Usage(10**30), Usage("5"), Usage(2.5), Usage(True), Usage(1, 1, None), Usage(math.nan)],
    ids=str,
)
def test_nonsense_for_usage_is_no_usage(tmp_path, usage):
    """Steps 23: the reply counts, its usage is unknown, and one warning says so for all of them."""
    rig = Rig(tmp_path / "r", simple_task(5, ask), {"m": replying(Reply("x", "stop", usage))}, PRICED)
    session = rig.session()
    assert session.ended.exit_code == 0
    assert [step.usage for step in rig.records(StepRecord)] == [None] * 5
    notes = [note for note in rig.records(NoteRecord) if note.kind == REPLY_NOTE]
    assert len(session.of(Note)) == len(notes) == 1
    assert session.execution.progress.cost is None
    assert rig.report().cost is None


def test_a_text_that_is_not_text_is_replayed_as_such(tmp_path):
    """Steps 24: after a resume as before, and never as part of an answer by mistake."""
    reply = Reply("Z\ufffd", "stop", undecoded="Wvw=", warnings={"encoding": "1 byte"})
    seen = []

    async def solve(trial):
        seen.append(await trial.generate([Message("user", "q")]))
        return "Q0"

    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": replying(reply)})
    assert rig.session().ended.exit_code == 0
    assert seen == [reply]
    (step,) = rig.records(StepRecord)
    assert (step.result["undecoded"], step.result["warnings"]) == ("Wvw=", {"encoding": "1 byte"})


@pytest.mark.parametrize(
    ("wait", "longest"), [(1e18, 3960.0), (86_400 * 365 * 8000, 3960.0), (math.nan, 1.0), (-5, 1.0), ("soon", 1.0)]
)
def test_an_absurd_wait_is_capped(tmp_path, wait, longest):
    """Steps 26: about an hour at the most; what is not a time is the usual pause."""
    actor = replying(RateLimited("slow", retry_after=wait), Reply("Q0", "stop"))
    session = Rig(tmp_path / "r", simple_task(1, ask), {"m": actor}).session()
    (retried,) = session.of(CallRetried)
    assert session.ended.exit_code == 0
    assert longest / 4 <= retried.pause <= longest
