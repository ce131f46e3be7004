"""A server that reports another model than before is refused: a change of address must not mix models."""

from __future__ import annotations

import uuid

import pytest

from holdfast import ResumeAborted, Sample, Task, evaluate, exact, generate


@pytest.fixture
def other(server_process):
    """Another server."""
    return server_process(uuid.uuid4().hex)


def begun(holdfast, world, server, *, answered=1):
    """A run killed with some replies on record and others in flight."""
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.data["concurrency_limit"] = 2
    world.task["target"] = "x"
    server.behave(hold=True, **{"pass": answered})
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(answered=answered, in_flight=2)
    started.kill()
    server.behave()
    assert len(world.records("step")) == answered


def moved(server):
    return ("resume", "r", "--set", f"models.m.base_url={server.base_url}")


def test_another_model_at_a_new_address_stops_the_session(holdfast, server, other, world):
    """Exit 3 with both names and the way out; no reply of the other model becomes a step, an answer or a score."""
    begun(holdfast, world, server)
    other.behave(model="impostor")
    steps = world.records("step")
    ended = holdfast(*moved(other), code=3)
    assert "Resume aborted: The server at " in ended.err
    assert "reports the model 'impostor'; the replies on record are from 'counting'" in ended.err
    assert "--set models.m.base_url=URL" in ended.err
    assert other.state()["received"] <= 2
    replies = [step for step in world.records("step") if step.get("result")]
    assert replies == steps
    assert [trial["status"] for trial in world.trials()].count("valid") == 1
    status = world.status()
    assert (status["state"], status["sessions"][1]["ended_as"], status["sessions"][1]["exit_code"]) == (
        "incomplete",
        "refused",
        3,
    )
    assert status["sessions"][1]["changes"][0]["path"] == "models.m.base_url"


def test_the_refusal_stands_until_the_address_is_right(holdfast, server, other, world):
    """A plain resume is refused again; with the first server the run is finished, and nothing was asked twice."""
    begun(holdfast, world, server)
    other.behave(model="impostor")
    for command in (moved(other), ("resume", "r")):
        assert holdfast(*command).code == 3
    holdfast(*moved(server), code=0)
    status = world.status()
    assert (status["state"], status["finished"]) == ("complete", 4)
    assert set(server.worked_on().values()) <= {1, 2}
    assert world.json("verify", "r", code=0)["ok"]
    assert {step["result"]["model"] for step in world.records("step") if step.get("result")} == {"counting"}


def test_the_same_model_at_a_new_address_goes_on(holdfast, server, other, world):
    """A server that reports the same name is the same one elsewhere; what it says later is its own affair."""
    begun(holdfast, world, server)
    holdfast(*moved(other), code=0)
    assert world.status()["state"] == "complete"


@pytest.mark.parametrize("named", ["", None])
def test_a_server_that_does_not_say_is_not_doubted(holdfast, server, other, world, named):
    """Where either side gives no name there is nothing to compare."""
    begun(holdfast, world, server)
    other.behave(model=named)
    holdfast(*moved(other), code=0)
    assert world.status()["state"] == "complete"


def test_the_same_address_is_not_doubted(holdfast, server, world):
    """A provider may give its model a new date: at the same address that is no other server."""
    begun(holdfast, world, server)
    server.behave(model="counting-2026-01-01")
    holdfast("resume", "r", code=0)
    assert world.status()["state"] == "complete"


SWALLOWING = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    try:
        return (await trial.generate(trial.sample.input)).text
    except Exception:
        return "nothing"

@task
def t():
    return Task(samples=[Sample(f"q{number}", id=f"s{number}") for number in range(4)], solver=solve, scorers=SCORE)
""".replace("SCORE", "lambda answer, sample: True")


def test_a_solver_that_swallows_the_refusal_is_not_scored(holdfast, server, other, world):
    """Whatever a solver makes of it, a trial whose reply was refused remains."""
    (world.directory / "task.py").write_text(SWALLOWING)
    begun_python(holdfast, world, server)
    other.behave(model="impostor")
    holdfast(*moved(other), code=3)
    assert [trial["status"] for trial in world.trials()].count("valid") == 1


def begun_python(holdfast, world, server):
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}, "concurrency_limit": 1}
    server.behave(hold=True, **{"pass": 1})
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(answered=1, in_flight=1)
    started.kill()
    server.behave()


def test_in_python_it_is_resume_aborted(server, other, world):
    """evaluate() raises, and the run can go on with the right server."""

    def go(base_url, **keys):
        models = {"m": {"provider": "openai", "model": "counting", "base_url": base_url}}
        samples = [Sample("q", target="Q")]
        return evaluate(Task(name="t", samples=samples, solver=generate(), scorers=exact(), **keys), models, run="r")

    go(server.base_url).close()
    other.behave(model="impostor")
    with pytest.raises(ResumeAborted, match="reports the model 'impostor'"):
        go(other.base_url, epochs=2)
    with go(server.base_url) as run:
        assert run.is_complete and run.finished == 2
