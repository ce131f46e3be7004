"""Servers that answer badly, refuse, or are not there: told in a sentence, never scored, nothing lost."""

from __future__ import annotations

import re
import socket

import pytest

from evals import http_eval, python_eval

BROKEN = {
    "not_json": "not JSON",
    "html": 'an HTML page ("Gateway problem")',
    "empty": "an empty body",
    "wrong_shape": "unexpected shape",
    "no_choices": "no choices",
    "a_list": "unexpected shape",
    "nul": "not JSON",
    "half": "half-way",
}
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eevil\r\x08\x00 \ud800 end"


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_reply_leaves_the_trial_unfinished(holdfast, server, tmp_path, kind):
    """An answer that holds no reply is named and tried again on resume; it is no score."""
    eval_file = http_eval(tmp_path, server.base_url, 3, retry_deadline=0.01)
    server.behave(broken=kind)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "0 of 3 valid; 3 got no reply: openai/counting " in ended.out
    assert ". They are retried on resume." in ended.out
    # Equal errors are printed once, and counted at the end.
    assert ended.err.count("unfinished: ") == 1 and BROKEN[kind] in ended.err, ended.err
    assert "t: 2 more with the same error: " in ended.err
    report = holdfast.json("report", "r")
    assert report["coverage"]["valid"] == 0 and report["tasks"]["t"]["m"]["metrics"] == {}
    server.behave()
    holdfast("resume", "r", code=0)
    ends = [end["status"] for end in holdfast.records("r", "trial")]
    assert ends == ["unfinished"] * 3 + ["valid"] * 3


def test_reply_of_50_mb_is_kept_and_read_again(holdfast, server, tmp_path):
    """A huge reply is data: kept whole beside the journal, scored, and proven by verify."""
    server.behave(broken="huge")
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    assert holdfast.json("verify", "r", code=0)["ok"]
    assert holdfast.json("report", "r")["coverage"]["valid"] == 1
    assert sum(path.stat().st_size for path in (tmp_path / "r/blobs").iterdir()) > 50 * 2**20
    assert "complete, 1 of 1" in holdfast("resume", "r", code=0).out


def test_reply_beyond_the_cap_is_refused_and_not_asked_again(holdfast, server, tmp_path):
    """A reply larger than allowed names both sizes; asking again would only cost as much again."""
    server.behave(broken="huge")
    model = {"args": {"max_reply_bytes": 1_000_000}}
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 1, model=model), "--run-dir", "r", code=1)
    assert "a reply may have 1,000,000" in ended.err
    assert server.state()["received"] == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refused_key_is_not_tried_by_every_trial(holdfast, server, tmp_path, status):
    """A server that refuses the key is asked by those already on their way and by nobody else."""
    eval_file = http_eval(tmp_path, server.base_url, 300, concurrency_limit=4)
    server.behave(refuse_status=status, refuse_times=99, said="who are you")
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert f"answered {status}" in ended.err and "who are you" in ended.err
    asked = server.state()["received"]
    assert 1 <= asked <= 4
    told = f"300 remaining: {asked} model disabled, {300 - asked} not started.\n"
    assert f"0 of 300 trials finished, {told}" in ended.out
    server.behave()
    holdfast("resume", "r", code=0)


def test_no_credit_is_not_waited_out(holdfast, server, tmp_path):
    """A 429 for an account without credit disables the model, as a refused key does; a resume asks it again."""
    server.behave(refuse_status=429, refuse_times=99, said="You exceeded your quota", error_code="insufficient_quota")
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 30, concurrency_limit=2), "--run-dir", "r", code=1)
    assert "is out of credit (insufficient_quota): You exceeded your quota. Add credit, then resume." in ended.err
    assert "disabled for this session" in ended.err and 1 <= server.state()["received"] <= 2
    server.behave()
    holdfast("resume", "r", code=0)


def test_one_refused_request_does_not_condemn_a_model_that_replies(holdfast, server, tmp_path):
    """A 403 for one prompt leaves that trial unfinished; the others go on."""
    eval_file = http_eval(tmp_path, server.base_url, 20, concurrency_limit=1)
    server.behave(refuse_status=403, refuse_times=99, refuse_only=["q5"])
    told = "19 of 20 valid; 1 was refused: "
    assert told in holdfast("run", eval_file, "--run-dir", "r", code=1).out


def test_dead_endpoint_is_waited_for_once(holdfast, tmp_path):
    """Where nobody listens the run ends after its deadline, not after one for every trial."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        eval_file = http_eval(tmp_path, address, 200, retry_deadline=0.6, concurrency_limit=2)
        ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "cannot be reached" in ended.err and "connection refused" in ended.err
    assert "0 of 200 valid; 200 got no reply: " in ended.out
    failures = [step for step in holdfast.records("r", "step") if "error" in step]
    assert len(failures) == 200
    calls = holdfast.json("status", "r")["calls"]
    assert (calls["made"], calls["unanswered"], calls["replayed"], calls["in_flight_at_kill"]) == (200, 200, 0, 0)


def test_rate_limits_are_waited_out_and_cost_no_attempt(holdfast, server, tmp_path):
    """A 429 is never a failure: the run is complete, each trial in its first attempt."""
    eval_file = http_eval(
        tmp_path, server.base_url, 10, max_retries=0, retry_deadline=0.01, task={"limits": {"time": 0.2}}
    )
    server.behave(refuse_status=429, refuse_times=3, retry_after=0.15)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    ends = holdfast.records("r", "trial")
    assert [(end["status"], end["attempt"], end["tries"]) for end in ends] == [("valid", 1, 4)] * 10


def test_failures_that_pass_are_tried_again_within_the_deadline(holdfast, server, tmp_path):
    """A server that fails twice and then answers costs pauses, nothing else."""
    eval_file = http_eval(tmp_path, server.base_url, 4)
    server.behave(refuse_status=503, refuse_times=2, retry_after=0.05)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert "8 retries" in ended.err
    assert ended.err.count("m: retrying for up to 1h (retry_deadline): ") == 1
    assert "503" in ended.err
    assert set(server.worked_on().values()) == {1}


SWALLOWING = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    try:
        return await trial.generate(trial.sample.input)
    except Exception:
        return "I do not know"

@task
def t():
    return Task(samples=[Sample("a", target="A"), Sample("b", target="B")], solver=solve, scorers=exact())
"""


def test_failure_that_a_solver_swallows_is_not_scored(holdfast, server, tmp_path):
    """What a solver makes of a server's failure is no answer: the trial remains, and is not scored 0."""
    eval_file = python_eval(tmp_path, server.base_url, SWALLOWING, retry_deadline=0.01)
    server.behave(refuse_status=503, refuse_times=1, refuse_only=["a"])
    told = "1 of 2 valid; 1 got no reply: "
    assert told in holdfast("run", eval_file, "--run-dir", "r", code=1).out
    server.behave()
    holdfast("resume", "r", code=0)
    report = holdfast.json("report", "r")
    accuracy = report["tasks"]["t"]["m"]["metrics"]["exact"]["accuracy"]
    assert (accuracy["value"], accuracy["stderr"], accuracy["n_trials"]) == (1.0, 0.0, 2)


def printed_controls(text):
    """Control characters in what was printed, but for line ends and tabs."""
    return re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_hostile_replies_do_not_reach_the_terminal(holdfast, server, tmp_path):
    """Terminal sequences in replies and error messages are not printed; the reply itself is kept."""
    server.behave(reply=HOSTILE)
    eval_file = http_eval(tmp_path, server.base_url, 2, retry_deadline=0.01)
    run = holdfast("run", eval_file, "--run-dir", "r", code=0)
    trial = holdfast.json("show", "r")["trials"][0]["trial"]
    commands = (["show", "r", trial], ["show", "r", trial, "--json"], ["status", "r"], ["report", "r"], ["show", "r"])
    texts = [holdfast(*command, code=0).out for command in commands]
    assert "red" in texts[0] and "evil" in texts[0]
    assert [printed_controls(text) for text in [*texts, run.out, run.err]] == [[]] * 7
    reply = next(step["result"]["text"] for step in holdfast.records("r", "step"))
    assert reply == HOSTILE.replace("\ud800", "\ufffd")


def test_hostile_errors_do_not_reach_the_terminal(holdfast, server, tmp_path):
    """What a server says in an error is printed without anything that acts on a terminal."""
    server.behave(refuse_status=400, refuse_times=9, said=HOSTILE)
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=1)
    assert "red" in ended.err
    shown = holdfast("show", "r", code=0).out
    assert printed_controls(ended.err + ended.out + shown) == []
