"""Which model answered: a resumed session keeps out the replies of a model that is not on record."""

from __future__ import annotations

import signal
import uuid

import pytest

from evals import http_eval, python_eval, write_dataset, write_eval
from holdfast import ResumeAborted, Sample, Task, evaluate, exact, generate
from holdfast.engine.model_calls.served_model import ServedModels
from program import until


@pytest.fixture
def other(server_process):
    """Another server."""
    return server_process(uuid.uuid4().hex)


def killed(holdfast, server, eval_file, *, answered=1, in_flight=2, **environment):
    """A run killed with some replies on record and others in flight; nothing is held any more."""
    server.behave(hold=True, **{"pass": answered})
    started = holdfast.start("run", eval_file, "--run-dir", "r", **environment)
    server.wait_for(answered=answered, in_flight=in_flight)
    until(lambda: len(replies(holdfast)) == answered, "the replies are on record")
    started.kill()
    server.behave()
    server.wait_until_idle()


def begun(holdfast, tmp_path, server, *, count=4, at_once=2, **keys):
    killed(
        holdfast,
        server,
        http_eval(tmp_path, server.base_url, count, concurrency_limit=at_once, **keys),
        in_flight=at_once,
    )


def replies(holdfast, run="r"):
    return [one for one in holdfast.records(run, "step") if one.get("model") and one.get("result")]


def names(holdfast, run="r"):
    return {one["result"]["model"] for one in replies(holdfast, run)}


def moved(server):
    return ("resume", "r", "--set", f"models.m.base_url={server.base_url}")


def added(before, after):
    """The types of the records that came to those before, without what every session has."""
    kinds = [one["type"] for one in after[len(before) :]]
    return [kind for kind in kinds if kind not in {"session", "mark", "session_end"}]


def test_resume_63_a_wrong_server_gets_exactly_one_call(holdfast, server, other, tmp_path):
    """Resume 63: with 64 at once one call is made there; exit 3; config.yaml and its time are as they were."""
    begun(holdfast, tmp_path, server, count=200, at_once=64)
    other.behave(model="impostor", latency=0.2)
    config, before = tmp_path / "r" / "config.yaml", holdfast.records("r")
    was = config.read_bytes(), config.stat().st_mtime_ns
    ended = holdfast(*moved(other), code=3)
    assert other.state()["received"] == 1
    assert (config.read_bytes(), config.stat().st_mtime_ns) == was
    assert (
        f"Resume aborted: The server at {other.base_url} reports the model 'impostor'; the replies on record are"
        in ended.err
    )
    assert "from 'counting'. Its reply was kept out, and no address was saved." in ended.err
    assert "--set models.m.base_url=URL" in ended.err and "holdfast fork" in ended.err
    after = holdfast.records("r")
    assert added(before, after) == ["call", "refused", "trial"]
    session = next(one for one in after if one["type"] == "session" and one["number"] == 2)
    assert session["config"]["models"]["m"]["base_url"] == server.base_url and not session.get("changes")
    # Nor does any other record have it: not even the command line that it was typed in.
    assert session["invocation"][-1] == "models.m.base_url=[address]"
    assert not [one for one in after[len(before) :] if other.base_url in str(one)]
    refused = next(one for one in after if one["type"] == "refused")
    assert (refused["name"], refused["model"], refused["usage"]["output_tokens"]) == ("impostor", "m", 1)
    assert [one["status"] for one in holdfast.records("r", "trial")] == ["valid", "unfinished"]


def test_resume_63_the_ledger_names_the_call_that_was_kept_out(holdfast, server, other, tmp_path):
    """Resume 63: in status, at the end of resume, in their JSON; afterwards every call of both servers is explained."""
    begun(holdfast, tmp_path, server)
    other.behave(model="impostor")
    ended = holdfast.json(*moved(other), code=3)
    assert ended["calls"]["refused_model"] == 1 and ended["ended_as"] == "refused"
    sentence = "1 call was answered by a model that is not on record; its reply was kept out."
    assert sentence in " ".join(holdfast("status", "r", code=0).out.split())
    assert sentence in holdfast(*moved(other), code=3).err
    status = holdfast.json("status", "r")
    assert [(one["refused_model"], one["unanswered"], one["changes"]) for one in status["sessions"][1:]] == [
        (1, 1, [])
    ] * 2
    assert (status["calls"]["refused_model"], status["calls"]["unanswered"]) == (2, 2)
    tokens = status["usage"]["output_tokens"]
    # Without the change the saved address stands, and the run is finished with the first server.
    holdfast("resume", "r", code=0)
    status = holdfast.json("status", "r")
    calls = status["calls"]
    assert status["state"] == "complete" and status["usage"]["output_tokens"] == tokens + 3
    assert calls["made"] == server.state()["received"] + other.state()["received"] == 4 + 2 + 2
    assert {kind: count for kind, count in calls["repeated"].items() if count} == {"interrupted": 2}
    assert calls["answered"] + calls["unanswered"] + 2 == calls["made"]
    assert names(holdfast) == {"counting"} and holdfast.json("verify", "r", code=0)["ok"]


def test_resume_62_another_model_at_the_same_address(holdfast, server, tmp_path):
    """Resume 62: the address is the same and the model behind it another: one call, and nothing of it is used."""
    begun(holdfast, tmp_path, server, count=40, at_once=16)
    received, before = server.state()["received"], holdfast.records("r")
    server.behave(model="counting-2026-01-01")
    ended = holdfast("resume", "r", code=3)
    assert "reports the model 'counting-2026-01-01'" in ended.err
    assert server.state()["received"] == received + 1
    assert added(before, holdfast.records("r")) == ["call", "refused", "trial"]
    server.behave()
    holdfast("resume", "r", code=0)
    assert names(holdfast) == {"counting"} and holdfast.json("status", "r")["state"] == "complete"


def azure_eval(tmp_path, provider="azure"):
    write_dataset(tmp_path, 20)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    model = {"provider": provider, "model": "counting"}
    data = {"name": "env", "models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    return write_eval(tmp_path, {**data, "concurrency_limit": 8})


def test_resume_62_an_address_from_the_environment(holdfast, server, other, tmp_path):
    """Resume 62: where a variable names the address, the session notes it, and another model there is refused."""
    key = {"AZURE_OPENAI_API_KEY": "azure-key-0123456789"}
    here, there = ({**key, "AZURE_OPENAI_ENDPOINT": one.base_url} for one in (server, other))
    killed(holdfast, server, azure_eval(tmp_path), in_flight=8, **here)
    other.behave(model="impostor")
    ended = holdfast("resume", "r", code=3, **there)
    assert f"The server at {other.base_url} reports the model 'impostor'" in ended.err
    assert other.state()["received"] == 1
    other.behave()
    holdfast("resume", "r", code=0, **there)
    served = [one["data"] for one in holdfast.records("r", "note") if one["kind"] == "served"]
    assert served == [{"model": "m", "name": "counting", "address": one.base_url} for one in (server, other)]
    assert "azure-key-0123456789" not in "".join(map(str, holdfast.records("r")))


def test_resume_62_the_address_of_openai_from_the_environment(holdfast, server, other, tmp_path):
    """Resume 62: OPENAI_BASE_URL is an address like another: noted with its key hidden, and another model refused."""
    eval_file = azure_eval(tmp_path, "openai")
    key = {"OPENAI_API_KEY": "openai-key-0123456789"}
    here, there = ({**key, "OPENAI_BASE_URL": one.base_url} for one in (server, other))
    killed(holdfast, server, eval_file, in_flight=8, **here)
    other.behave(model="impostor")
    before = holdfast.records("r")
    assert f"The server at {other.base_url} reports" in holdfast("resume", "r", code=3, **there).err
    assert not [one for one in holdfast.records("r")[len(before) :] if other.base_url in str(one)]
    other.behave()
    holdfast("resume", "r", code=0, **there)
    served = [one["data"]["address"] for one in holdfast.records("r", "note") if one["kind"] == "served"]
    assert served == [server.base_url, other.base_url]
    assert "openai-key-0123456789" not in "".join(map(str, holdfast.records("r")))


def test_resume_62_a_router_is_counted_and_a_third_name_refused(holdfast, server, tmp_path):
    """Resume 62: several names from the start: one warning, each with its count in the report; no other later."""
    eval_file = http_eval(tmp_path, server.base_url, 6, concurrency_limit=1)
    server.behave(models=["small", "large"])
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert (
        ended.err.count("warning: m: several models reply: 'large', 'small'. The report counts the replies of each.")
        == 1
    )
    assert holdfast.json("report", "r", code=0)["served"] == {"m": {"large": 3, "small": 3}}
    assert "m: replies of several models: large (3), small (3)" in holdfast("report", "r", code=0).out
    grown = ("resume", "r", "--set", "tasks.t.epochs=2")
    server.behave(models=["large", "small", "huge"])
    ended = holdfast(*grown, code=3)
    assert "reports the model 'huge'; the replies on record are from 'large', 'small'" in ended.err
    assert len(replies(holdfast)) == 8 and "several models reply" not in ended.err
    server.behave(model="small")
    holdfast("resume", "r", code=0)
    report = holdfast.json("report", "r", code=0)
    assert report["served"] == {"m": {"large": 4, "small": 8}}
    holdfast("clean", "r", "--steps", code=0)
    assert holdfast.json("report", "r", code=0)["served"] == report["served"]


def test_replies_in_flight_with_other_names_are_all_kept_out(holdfast, server, tmp_path):
    """A model that is exchanged later in a resumed session: what is in flight is judged by its own name."""
    begun(holdfast, tmp_path, server, count=40, at_once=16)
    before = server.state()["answered"]
    server.behave(hold=True, **{"pass": 1})
    resumed = holdfast.start("resume", "r")
    server.wait_for(answered=before + 1, in_flight=16)
    server.behave(models=["counting", "impostor"])
    ended = resumed.wait()
    assert ended.code == 3
    refused = [one["name"] for one in holdfast.records("r", "refused")]
    assert set(refused) == {"impostor"} and 1 <= len(refused) <= 16
    assert names(holdfast) == {"counting"} and len(replies(holdfast)) > 2
    status = holdfast.json("status", "r")
    assert status["calls"]["refused_model"] == len(refused)
    assert status["sessions"][1]["in_flight_at_kill"] == 0
    holdfast("resume", "r", code=3)
    server.behave()
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["calls"]["made"] == server.state()["received"]


@pytest.mark.parametrize("named", ["", None])
def test_a_server_without_a_name_cannot_be_compared(holdfast, server, tmp_path, named):
    """One line says so, in the session that cannot compare; the run is finished."""
    begun(holdfast, tmp_path, server)
    server.behave(model=named)
    ended = holdfast("resume", "r", code=0)
    line = "m: its server reports no model name, so whether it is still the same one cannot be compared."
    assert ended.err.count(line) == 1
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    assert ended.err.count(line) == 1


def test_a_name_cannot_be_compared_with_none(holdfast, server, tmp_path):
    """The first session got no names: a name that comes later is said to be incomparable, and is not refused."""
    eval_file = http_eval(tmp_path, server.base_url, 2)
    server.behave(model="")
    assert "cannot be compared" not in holdfast("run", eval_file, "--run-dir", "r", code=0).err
    server.behave(model="other")
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    assert ended.err.count("m: earlier replies have no model name, so whether it is still the same one cannot be") == 1


def test_the_same_model_at_a_new_address_is_saved_with_its_first_reply(holdfast, server, other, tmp_path):
    """The address is in config.yaml while the session still runs, and stays there when the session is killed."""
    begun(holdfast, tmp_path, server)
    other.behave(hold=True, **{"pass": 1})
    config = tmp_path / "r" / "config.yaml"
    resumed = holdfast.start(*moved(other))
    other.wait_for(in_flight=1)
    until(lambda: other.base_url in config.read_text(), "the address is saved")
    assert f"#   - models.m.base_url: {server.base_url} → {other.base_url}" in config.read_text()
    resumed.kill()
    other.behave()
    assert holdfast.json("status", "r")["sessions"][1]["changes"][0]["path"] == "models.m.base_url"
    text = config.read_text()
    ended = holdfast("resume", "r", code=0)
    assert config.read_text() == text and "config.yaml" not in ended.err
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_an_address_is_rolled_forward_after_a_kill_before_config_yaml(holdfast, server, other, tmp_path):
    """Resume 24c, of an address that was confirmed: killed before config.yaml was written, it is written later."""
    begun(holdfast, tmp_path, server)
    text = (tmp_path / "r" / "config.yaml").read_text()
    # The file is written when a session starts only if it changed something, which it has not yet.
    holdfast(*moved(other), HOLDFAST_CRASH_AT="config.before-write")
    assert (tmp_path / "r" / "config.yaml").read_text() == text
    ended = holdfast("resume", "r", code=0)
    assert "config.yaml was older than the journal; it is updated." in ended.err
    assert f"{server.base_url} → {other.base_url}" in (tmp_path / "r" / "config.yaml").read_text()


def test_an_address_that_nobody_was_asked_at_is_saved_at_the_end(holdfast, server, other, tmp_path):
    """Ctrl-C before the first reply: the next resume goes where this one was told to; killed, it does not."""
    begun(holdfast, tmp_path, server, runner={"grace_period": 0.2})
    other.behave(hold=True)
    for number, saved in ((signal.SIGKILL, False), (signal.SIGINT, True)):
        resumed = holdfast.start(*moved(other))
        other.wait_for(in_flight=1)
        resumed.send(number)
        resumed.wait()
        assert (other.base_url in (tmp_path / "r" / "config.yaml").read_text()) is saved
        other.wait_until_idle()
    other.behave()
    seen = server.state()["received"]
    holdfast("resume", "r", code=0)
    assert server.state()["received"] == seen


def test_other_changes_are_saved_at_once(holdfast, server, other, tmp_path):
    """What has nothing to do with the address is applied and recorded, whoever answers."""
    begun(holdfast, tmp_path, server)
    other.behave(model="impostor")
    holdfast(
        *moved(other), "--set", "models.m.api_key_env=OTHER", "--set", "concurrency_limit=3", code=3, OTHER="x" * 20
    )
    text = (tmp_path / "r" / "config.yaml").read_text()
    assert "runner.concurrency_limit: 2 → 3" in text and "OTHER" not in text and other.base_url not in text


def test_the_first_call_goes_alone_and_progress_says_so(holdfast, server, tmp_path):
    """The others wait for its reply, then all go; Ctrl-C meanwhile ends them at once."""
    begun(holdfast, tmp_path, server, count=40, at_once=16, runner={"log_interval": 0.05})
    server.behave(hold=True)
    received = server.state()["received"]
    resumed = holdfast.start("resume", "r", "--log-file", "log")
    log = tmp_path / "log"
    until(lambda: log.exists() and "waiting for the first reply of m" in log.read_text(), "progress says so")
    assert server.state()["received"] == received + 1
    resumed.send(signal.SIGINT)
    until(lambda: "waiting for 1 in-flight call" in resumed.told(), "the call is waited for")
    server.behave()
    ended = resumed.wait()
    assert ended.code == 130 and server.state()["received"] == received + 1
    assert len(replies(holdfast)) == 2
    server.behave(hold=True)
    resumed = holdfast.start("resume", "r")
    server.wait_for(in_flight=1)
    resumed.send(signal.SIGINT)
    until(lambda: "Ctrl-C" in resumed.told(), "the first signal has an answer")
    resumed.send(signal.SIGINT)
    assert resumed.wait().code == 130 and server.state()["received"] == received + 2
    server.behave()
    holdfast("resume", "r", code=0)


@pytest.mark.parametrize("status", [429, 500])
def test_if_the_first_call_fails_the_next_takes_its_place(holdfast, server, tmp_path, status):
    """One prompt is refused again and again: the others do not wait for its retries."""
    begun(holdfast, tmp_path, server, count=12, at_once=4)
    left = {f"q{number}" for number in range(1, 13)} - {
        one["request"]["messages"][-1]["content"] for one in replies(holdfast)
    }
    first = min(left)
    server.behave(refuse_only=[first], refuse_status=status, refuse_times=3, retry_after=0.3)
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["state"] == "complete"
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_a_first_call_that_times_out_lets_the_next_go(holdfast, server, other, tmp_path):
    """A server that accepts and never answers: one call at a time, each for its time, and the run stays resumable."""
    begun(holdfast, tmp_path, server, count=6, at_once=3)
    server.behave(hold=True)
    most = server.state()["most_in_flight"]
    received = server.state()["received"]
    limits = ("--set", "models.m.timeouts.read=0.3", "--set", "models.m.timeouts.total=0.3")
    resumed = holdfast.start("resume", "r", *limits)
    server.wait_for(received=received + 3)
    assert server.state()["in_flight"] <= 1 and server.state()["most_in_flight"] == most
    server.behave()
    assert resumed.wait().code == 0
    assert holdfast.json("status", "r")["state"] == "complete"


def test_killed_while_the_first_call_is_out(holdfast, server, tmp_path):
    """The fold after a kill then: one call is in flight, the next session repeats it, alone again."""
    begun(holdfast, tmp_path, server, count=20, at_once=8)
    server.behave(hold=True)
    received = server.state()["received"]
    resumed = holdfast.start("resume", "r")
    server.wait_for(in_flight=1)
    until(lambda: len(holdfast.records("r", "call")) > 9, "its sending is on record")
    resumed.kill()
    server.behave()
    holdfast("resume", "r", code=0)
    status = holdfast.json("status", "r")
    assert status["state"] == "complete" and status["calls"]["made"] == server.state()["received"]
    assert status["calls"]["repeated"]["interrupted"] == 8 + 1
    assert received + 1 + 19 == status["calls"]["made"]


def test_a_session_killed_before_any_reply_leaves_nothing_to_compare(holdfast, server, tmp_path):
    """The first session that gets replies forms the set on record, whichever that is."""
    eval_file = http_eval(tmp_path, server.base_url, 8, concurrency_limit=4)
    server.behave(hold=True)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=4)
    started.kill()
    server.behave(model="second")
    holdfast("resume", "r", code=0)
    server.behave(model="third")
    assert "from 'second'" in holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=3).err


def test_what_is_replayed_needs_no_model(holdfast, server, tmp_path):
    """Every reply is on record: nothing is sent, whoever answers there by now."""
    source = """
from holdfast import Sample, Task, exact, task
import os, signal

async def solve(trial):
    reply = await trial.generate(trial.sample.input)
    if not os.path.exists("again"):
        os.kill(os.getpid(), signal.SIGKILL)
    return reply.text

@task
def t():
    return Task(samples=[Sample("q", target="Q")], solver=solve, scorers=exact())
"""
    holdfast.start("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r").wait()
    (tmp_path / "again").touch()
    server.behave(model="impostor")
    holdfast("resume", "r", code=0)
    assert server.state()["received"] == 1


def test_a_model_that_comes_later_has_its_own_first_session(holdfast, server, other, tmp_path):
    """A model added on resume has nothing on record: its names are those of the session that brought it."""
    eval_file = http_eval(tmp_path, server.base_url, 3)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    other.behave(model="newcomer")
    models = {
        "m": {"provider": "openai", "model": "counting", "base_url": server.base_url},
        "n": {"provider": "openai", "model": "counting", "base_url": other.base_url},
    }
    eval_file = http_eval(tmp_path, server.base_url, 3, models=models)
    holdfast("resume", "r", "--config", eval_file, code=0)
    other.behave(model="somebody")
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=3)
    assert "reports the model 'somebody'; the replies on record are from 'newcomer'" in ended.err


JUDGED = """
from holdfast import Sample, Task, generate, task

async def judged(answer, sample, scope):
    verdict = await scope.generate(f"judge {answer.text}", model="judge")
    return bool(verdict.text)

@task
def t():
    samples = [Sample(f"q{number}", id=f"s{number}") for number in range(6)]
    return Task(samples=samples, solver=generate(), scorers=judged)
"""


def test_a_judge_is_compared_too(holdfast, server, other, tmp_path):
    """The live calls of scorers pass the same check; no score comes from another judge."""
    models = {
        name: {"provider": "openai", "model": "counting", "base_url": one.base_url}
        for name, one in (("m", server), ("judge", other))
    }
    eval_file = python_eval(
        tmp_path, server.base_url, JUDGED, models=models, tasks={"t": {"use": "task.py:t", "models": ["m"]}}
    )
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    scores, received = len(holdfast.records("r", "score")), other.state()["received"]
    other.behave(model="lenient", latency=0.2)
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=3)
    assert "reports the model 'lenient'" in ended.err
    assert other.state()["received"] == received + 1
    assert not [one for one in holdfast.records("r", "score")[scores:] if one.get("value") is not None]
    other.behave()
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["calls"]["refused_model"] == 1


def test_a_model_to_escalate_to_is_compared_too(holdfast, server, other, tmp_path):
    """Sampling: the stronger model is asked live and is another one; no candidate of it counts."""
    models = {
        name: {"provider": "openai", "model": "counting", "base_url": one.base_url}
        for name, one in (("m", server), ("large", other))
    }
    sampling = {
        "strategy": "escalate",
        "loop_budget": 3,
        "escalate_to": ["large"],
        "requirements": [{"regex": "^never$"}],
    }
    task = {"sampling": sampling, "models": ["m"]}
    eval_file = http_eval(tmp_path, server.base_url, 4, models=models, task=task)
    holdfast("run", eval_file, "--run-dir", "r")
    received, steps = other.state()["received"], len(holdfast.records("r", "step"))
    assert received
    other.behave(model="larger", latency=0.2)
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=3)
    assert "models.large" in ended.err or "reports the model 'larger'" in ended.err
    assert other.state()["received"] == received + 1
    assert "larger" not in names(holdfast)
    assert all(one.get("result") for one in holdfast.records("r", "step")[steps:])
    other.behave()
    holdfast("resume", "r")
    assert holdfast.json("status", "r")["state"] == "complete"


def test_a_fork_has_names_of_its_own_and_names_both(holdfast, server, tmp_path):
    """What is kept is from the old run's model; the new run may ask another one, and its report counts both."""
    begun(holdfast, tmp_path, server)
    server.behave(model="newer")
    holdfast("resume", "r", code=3)
    holdfast("fork", "r", "--run-dir", "f", code=0)
    ended = holdfast("resume", "f", code=0)
    assert "warning: m: several models reply: 'counting', 'newer'." in ended.err
    assert holdfast.json("report", "f", code=0)["served"] == {"m": {"counting": 1, "newer": 3}}
    server.behave()
    assert "from 'newer'" in holdfast("resume", "f", "--set", "tasks.t.epochs=2", code=3).err


def test_reused_replies_are_named_beside_those_of_the_run(holdfast, server, tmp_path):
    """`--reuse` of a run that another model answered: one warning, and the report counts both."""
    begun(holdfast, tmp_path, server)
    server.behave(model="newer")
    ended = holdfast("run", tmp_path / "eval.yaml", "--run-dir", "n", "--reuse", "r", code=0)
    assert ended.err.count("several models reply: 'counting', 'newer'.") == 1
    assert holdfast.json("report", "n", code=0)["served"] == {"m": {"counting": 1, "newer": 3}}


SWALLOWING = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    try:
        return (await trial.generate(trial.sample.input)).text
    except Exception:
        return "nothing"

@task
def t():
    samples = [Sample(f"q{number}", id=f"s{number}") for number in range(4)]
    return Task(samples=samples, solver=solve, scorers=lambda answer, sample: True)
"""


def test_a_solver_that_swallows_the_refusal_is_not_scored(holdfast, server, other, tmp_path):
    """Whatever a solver makes of it, a trial whose reply was refused remains."""
    eval_file = python_eval(tmp_path, server.base_url, SWALLOWING, concurrency_limit=1)
    killed(holdfast, server, eval_file, in_flight=1)
    other.behave(model="impostor")
    holdfast(*moved(other), code=3)
    assert [trial["status"] for trial in holdfast.records("r", "trial")].count("valid") == 1


def test_in_python_it_is_resume_aborted(server, other, world):
    """evaluate() raises, and the run can be resumed with the right server."""

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


def test_those_who_wait_and_those_who_retry_do_not_wait_for_one_another(holdfast, server, tmp_path):
    """Every request fails twice, under a limit of the model: whoever goes alone never needs what a waiting one has."""
    begun(holdfast, tmp_path, server, count=40, at_once=4, retry_deadline=60)
    server.behave(refuse_status=503, refuse_times=2, retry_after=0.01)
    holdfast("resume", "r", "--set", "models.m.concurrency_limit=4", "--set", "concurrency_limit=16", code=0)
    status = holdfast.json("status", "r")
    assert status["state"] == "complete" and status["requests"]["sent"] == server.state()["received"]


def test_a_server_that_stays_silent_is_given_up_for_all_who_wait(holdfast, server, tmp_path):
    """They are unfinished, without a call each; the next resume runs them."""
    begun(holdfast, tmp_path, server, count=60, at_once=30, retry_deadline=0.6)
    received = server.state()["received"]
    server.behave(hold=True)
    limits = ("--set", "models.m.timeouts.read=0.4", "--set", "models.m.timeouts.total=0.4")
    holdfast("resume", "r", *limits, code=1)
    assert server.state()["received"] - received < 30
    server.behave()
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["state"] == "complete"


def test_rate_limits_hold_while_the_first_call_is_out(holdfast, server, tmp_path):
    """A limit of requests per minute is kept to, and nobody is stuck behind the call that went alone."""
    begun(holdfast, tmp_path, server, count=12, at_once=6, model={"rate_limit": {"requests_per_minute": 6000}})
    server.behave(latency=0.1)
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["state"] == "complete"


def test_a_name_of_any_length_and_kind_is_compared_whole(holdfast, server, tmp_path):
    """Two long names that begin alike are two; a name may hold anything that JSON can."""
    eval_file = http_eval(tmp_path, server.base_url, 2)
    server.behave(model="x" * 5000 + "\x1b[31m\ud800 one")
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    grown = ("resume", "r", "--set", "tasks.t.epochs=2")
    server.behave(model="x" * 5000 + "\x1b[31m\ud800 two")
    ended = holdfast(*grown, code=3)
    assert "\x1b" not in ended.err
    server.behave(model="x" * 5000 + "\x1b[31m\ud800 one")
    holdfast(*grown, code=0)
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_a_server_with_a_new_name_for_every_reply_cannot_be_compared(holdfast, server, tmp_path):
    """Notes and report stay bounded; a resume says so and refuses nothing."""
    eval_file = http_eval(tmp_path, server.base_url, 80, concurrency_limit=1)
    server.behave(models=[f"replica-{number}" for number in range(200)])
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert ended.err.count("several models reply") == 1
    served = holdfast.json("report", "r", code=0)["served"]["m"]
    assert len(served) == 51 and served["…"] == 30
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    assert ended.err.count("m: its server reports a new model name with every reply, so whether") == 1


def test_the_names_of_a_run_that_noted_none_are_read_from_its_replies(server, world, monkeypatch):
    """A run of an earlier version: compared all the same, and noted by the first session that resumes it."""
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    monkeypatch.setattr(ServedModels, "_put", lambda *_: None)
    server.behave(models=["one", "two"])
    world.run()
    monkeypatch.undo()
    monkeypatch.chdir(world.directory)
    assert not [note for note in world.records("note") if note["kind"] == "served"]
    server.behave(model="three")
    world("resume", "r", "--set", "tasks.t.epochs=2", code=3)
    noted = [note["data"]["name"] for note in world.records("note") if note["kind"] == "served"]
    assert noted == ["one", "two"]
    server.behave(model="two")
    world("resume", "r", code=0)
    server.behave(model="one")
    world("resume", "r", "--set", "tasks.t.epochs=3", code=0)
