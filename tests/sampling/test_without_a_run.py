"""`sample` in a plain script: the same semantics, against a real server, and nothing written."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import pairwise

import pytest

from holdfast import ModelSet, Reply, Usage, sample
from holdfast.errors import ConfigurationError, UsageError
from holdfast.sampling import CandidateStatus, Escalate, MultiTurn, Rejection, Repair, SamplingBudget, includes, judge
from sampling.drawing import run


def model_of(server) -> dict[str, object]:
    return {"provider": "openai", "model": "counting", "base_url": server.base_url}


def test_losers_are_disconnected_when_one_has_succeeded(server):
    """Row 3: at return nothing is in flight, and the server has seen the disconnects."""
    server.behave(hold=True, **{"pass": 1}, reply="yes")
    strategy = Rejection(loop_budget=3, concurrency_budget=5, requirements=[includes("yes")])
    result = run(sample(model_of(server), "Say yes.", strategy=strategy))
    assert result.success and result.counts == {CandidateStatus.VALID: 1, CandidateStatus.CANCELLED: 4}
    state = server.wait_for(aborted=4)
    assert (state["received"], state["answered"], state["in_flight"]) == (5, 1, 0)


def test_a_deadline_disconnects_all(server):
    """Row 3: an outer deadline, and a cap on time."""
    server.behave(hold=True)

    async def in_time() -> None:
        async with asyncio.timeout(1.0):
            await sample(model_of(server), "x", strategy=Rejection(concurrency_budget=3))

    with pytest.raises(TimeoutError):
        run(in_time())
    assert server.wait_for(aborted=3)["in_flight"] == 0
    budget = SamplingBudget(time=0.5)
    result = run(sample(model_of(server), "y", strategy=Rejection(concurrency_budget=2, budget=budget)))
    assert result.capped == "time" and result.chosen is None
    assert server.wait_for(aborted=5)["in_flight"] == 0


def test_a_429_is_waited_out_and_uses_up_no_turn(server):
    """Row 19."""
    server.behave(refuse_status=429, refuse_times=2, retry_after=0.02, reply="yes")
    strategy = Rejection(loop_budget=1, concurrency_budget=2, selection="best", requirements=[includes("yes")])
    result = run(sample(model_of(server), "Say yes.", strategy=strategy))
    assert result.counts == {CandidateStatus.VALID: 2}
    assert server.state()["refused"] == 4


def test_a_limit_is_shared_by_all_samplings_of_a_set(server):
    """Row 19: the model's own limit, for all lanes of all samplings."""
    server.behave(latency=0.01)

    async def several() -> None:
        async with ModelSet({"one": {**model_of(server), "concurrency_limit": 2}}) as models:
            strategy = Rejection(loop_budget=2, concurrency_budget=3, requirements=[includes("never")])
            await asyncio.gather(*(sample(models, f"q{number}", strategy=strategy) for number in range(3)))

    run(several())
    assert server.state()["most_in_flight"] == 2 and server.state()["answered"] == 18


def test_judges_and_larger_models_are_asked_by_name(server):
    """A judge of a requirement and the model of an escalation."""
    verdict = '{"explanation": "fine", "met": true}'
    judging = {"provider": "scripted", "model": "judge", "args": {"default": verdict}}
    requirement = judge(model="strict", criterion="The answer is polite.")
    result = run(sample("scripted/echo", "Hello!", models={"strict": judging}, requirements=[requirement]))
    assert result.success and result.calls == 2 and result.chosen.judging is not None
    with pytest.raises(UsageError, match="There is no model 'large'"):
        run(sample("scripted/echo", "x", requirements=[includes("y")], strategy=Escalate(to=["large"], loop_budget=3)))


def test_a_judge_is_shown_the_question_without_what_repairs_added():
    """The judge of a later turn sees what the sampling was asked for, and the answer of that turn."""
    verdict = '{"explanation": "no", "met": false}'
    asked = []

    class Judging:
        async def send(self, request):
            asked.append(request.messages[-1].text)
            return Reply(verdict, "stop", Usage(1, 1))

        async def close(self):
            """Nothing is held."""

    requirement = judge(model="strict", criterion="It is kind.")
    for strategy in (MultiTurn(loop_budget=3), Repair(loop_budget=3)):
        asked.clear()
        run(
            sample(
                "scripted/echo", "Hello!", models={"strict": Judging()}, requirements=[requirement], strategy=strategy
            )
        )
        questions = [text.partition("The question:")[2].partition("The answer:")[0] for text in asked]
        assert len(questions) == 3 and len(set(questions)) == 1 and "Hello!" in questions[0]


def test_wrong_arguments_are_refused_before_anything_is_asked(server):
    """They name what is wrong."""
    with pytest.raises(ConfigurationError, match="takes no parameter 'temprature'"):
        run(sample(model_of(server), "x", temprature=1.0))
    with pytest.raises(ConfigurationError, match="There is no provider 'opena'"):
        run(sample("opena/gpt", "x"))
    assert server.state()["received"] == 0


def test_nothing_is_written(tmp_path):
    """Row 32: in a plain script, in an empty directory with a home of its own."""
    program = """
import asyncio
from holdfast import sample
from holdfast.sampling import Rejection, includes
strategy = Rejection(loop_budget=2, concurrency_budget=2, requirements=[includes("missing")])
result = asyncio.run(sample("scripted/echo", "Say it.", strategy=strategy))
print(result.success, result.calls, result.deepest_turn)
"""
    environment = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("False 4 1\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_grows_turn_by_turn(server):
    """Multi-turn over HTTP: every request is the one before with the reply and what was wrong."""
    server.behave(reply="no")
    result = run(
        sample(model_of(server), "Say yes.", strategy=MultiTurn(loop_budget=3, requirements=[includes("yes")]))
    )
    for before, after in pairwise(result.candidates):
        assert after.messages[: len(before.messages) + 1] == (*before.messages, before.reply.message)
        assert after.messages[-1].role == "user" and "yes" in after.messages[-1].text
