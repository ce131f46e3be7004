"""Rows 20 to 24 and 26 of steps, through the command line and a server: what becomes of a reply that is no answer."""

from __future__ import annotations

import base64
import json
import signal

import pytest

from counting_server import completion, sent
from evals import http_eval, python_eval
from program import until

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
PRICE = {"price": {"input": 1.0, "output": 1.0}}


def body(text: str | None = "Q1", *, reason: str | dict | None = "stop", **fields) -> dict:
    """A whole answer; further fields stand beside its choices."""
    whole = completion(text or "", "q1")
    whole["choices"][0]["finish_reason"] = reason
    whole["choices"][0]["message"]["content"] = text
    return {**whole, **fields}


def calling(text: str | None) -> dict:
    whole = body(text, reason="tool_calls")
    whole["choices"][0]["message"]["tool_calls"] = [CALL]
    return whole


def statuses(holdfast, run: str = "r") -> list[str]:
    return [end["status"] for end in holdfast.records(run, "trial")]


# Row 20


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_tool_calls_fail_the_declarative_solver_once(holdfast, server, tmp_path, text):
    """Steps 20: no empty answer is scored, the attempt is not retried, and the reply is on record whole."""
    server.behave(bodies=[sent(calling(text))])
    eval_file = http_eval(tmp_path, server.base_url, 1, max_retries=2)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "ToolCallReply" in ended.err and "calls 'weather' and holds no text" in ended.err
    (end,) = holdfast.records("r", "trial")
    assert (end["status"], end["attempt"], end.get("scores")) == ("failed", 1, None)
    (step,) = holdfast.records("r", "step")
    assert step["result"]["tool_calls"] == [{"id": "c1", "name": "weather", "arguments": "{}"}]
    assert server.state()["received"] == 1
    assert holdfast.json("report", "r")["tasks"]["t"]["m"]["metrics"] == {}


def beside(fields: dict, message: dict, reason: str = "stop") -> dict:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": reason, **fields}]}


EMPTIED = {
    "refusal": beside({}, {"content": None, "refusal": {"reason": "policy"}}),
    "tool_use": beside({}, {"content": ""}, "tool_use"),
    "calls": beside({"tool_calls": [CALL]}, {"content": ""}),
    "thinking": beside({}, {"content": [{"type": "thinking", "thinking": "hm"}]}),
}


@pytest.mark.parametrize("kind", EMPTIED)
def test_an_emptied_reply_is_not_an_empty_answer(holdfast, server, tmp_path, kind):
    """Steps 20: failed once, nothing is scored, and the same after a resume, which does not buy it again."""
    server.behave(bodies=[sent(EMPTIED[kind])])
    holdfast("run", http_eval(tmp_path, server.base_url, 1, max_retries=2), "--run-dir", "r", code=1)
    assert statuses(holdfast) == ["failed"] and server.state()["received"] == 1
    assert holdfast.json("report", "r")["tasks"]["t"]["m"]["metrics"] == {}
    holdfast("resume", "r", code=1)
    assert server.state()["received"] == 1
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_text_beside_tool_calls_is_the_answer(holdfast, server, tmp_path):
    """Steps 20: a solver that knows nothing of tools gets the text where there is one."""
    server.behave(bodies=[sent(calling("Q1"))])
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    assert statuses(holdfast) == ["valid"]


# Row 21

OUTAGES = {
    "reason": body("Par", reason="insufficient_system_resource"),
    "network": body("Par", reason="network_error"),
    "abort": body("Par", reason="abort"),
    "error": body("Par", reason="error"),
    "beside": body("Par", error={"message": "upstream", "code": 502}),
    "canceled": body("Par", reason="canceled"),
    "failed": body("Par", reason="failed"),
    "map": body("Par", reason={"type": "abort"}),
    "list of errors": body("Par", errors=[{"message": "upstream", "code": 502}]),
    "message": {"choices": [{"message": {"content": "Par", "error": "upstream"}, "finish_reason": "stop"}]},
    "choice": {"choices": [{"error": {"message": "upstream", "code": 502}, "finish_reason": "error"}]},
}


@pytest.mark.parametrize("kind", OUTAGES)
def test_an_outage_behind_200_is_asked_again(holdfast, server, tmp_path, kind):
    """Steps 21: within the deadline the trial is asked again, and gets its answer in its first attempt."""
    server.behave(bodies=[sent(OUTAGES[kind]), sent(body())])
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    (end,) = holdfast.records("r", "trial")
    assert (end["status"], end["attempt"], end["tries"]) == ("valid", 1, 2)


@pytest.mark.parametrize("kind", OUTAGES)
def test_an_outage_behind_200_leaves_the_trial_unfinished(holdfast, server, tmp_path, kind):
    """Steps 21: after the deadline it is unfinished, never scored, and a resume asks once more."""
    server.behave(bodies=[sent(OUTAGES[kind])])
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 2, retry_deadline=0.01), "--run-dir", "r", code=1)
    assert "0 of 2 valid; 2 got no reply: " in ended.out
    assert statuses(holdfast) == ["unfinished"] * 2
    server.behave()
    holdfast("resume", "r", code=0)


def test_a_missing_reason_is_an_outage_where_others_have_one(holdfast, server, tmp_path):
    """Steps 21: the first reply gives a reason, so a later one without is broken off, and asked again."""
    server.behave(bodies=[sent(body("Q1")), sent(body("Q", reason=None)), sent(body("Q1"))])
    source = """
from holdfast import Message, Sample, Task, exact, task

async def solve(trial):
    await trial.generate([Message("user", "a")])
    return await trial.generate([Message("user", "a")])

@task
def t():
    return Task(samples=[Sample("a", target="Q1")], solver=solve, scorers=exact())
"""
    holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", code=0)
    assert [step["result"]["text"] for step in holdfast.records("r", "step")] == ["Q1", "Q1"]
    assert server.state()["received"] == 3


def test_no_reason_at_all_is_fine_where_no_reply_has_one(holdfast, server, tmp_path):
    """Steps 21: a server that never gives one has replied."""
    server.behave(bodies=[sent(body(reason=None))])
    holdfast("run", http_eval(tmp_path, server.base_url, 5), "--run-dir", "r", code=0)


@pytest.mark.parametrize("reason", ["sensitive", "content_filter"])
def test_a_policy_blocks_the_trial(holdfast, server, tmp_path, reason):
    """Steps 21: blocked, kept, not asked again."""
    server.behave(bodies=[sent(body("Par", reason=reason))])
    holdfast("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "r", code=1)
    assert statuses(holdfast) == ["blocked"] * 2
    assert server.state()["received"] == 2


def test_an_unknown_reason_is_kept_counted_and_said_once(holdfast, server, tmp_path):
    """Steps 21: the replies are answers; one warning for all of them, and their number in the session's end."""
    server.behave(bodies=[sent(body("Q1", reason="\x1b[31mnovel"))])
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 20), "--run-dir", "r", code=0)
    assert ended.err.count("unknown finish_reason '[31mnovel'") == 1 and "\x1b" not in ended.err
    assert {step["result"]["finish"] for step in holdfast.records("r", "step")} == {"\x1b[31mnovel"}
    (end,) = holdfast.records("r", "session_end")
    assert end["ledger"]["odd_replies"] == {"m": {"finish [31mnovel": 20}}
    assert len([note for note in holdfast.records("r", "note") if note["kind"] == "reply"]) == 1
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_new_reasons_with_every_reply_are_not_all_said(holdfast, server, tmp_path):
    """Steps 21: a server that makes them up does not fill the terminal."""
    source = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    return await trial.generate(trial.sample.input)

@task
def t():
    return Task(samples=[Sample(f"q{n}", target="x", id=str(n)) for n in range(30)], solver=solve, scorers=exact())
"""
    replies = {f"q{number}": {"text": "x", "finish": f"reason {number}"} for number in range(30)}
    eval_file = python_eval(tmp_path, "http://127.0.0.1:9", source)
    data = json.loads(eval_file.read_text())
    data["models"]["m"] = {"provider": "scripted", "model": "s", "args": {"replies": replies}}
    eval_file.write_text(json.dumps(data))
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert ended.err.count("unknown finish_reason") == 11


# Row 22

NO_CREDIT = {
    "quota": (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
    "billing": (429, {"message": "hard limit", "code": "billing_hard_limit_reached"}),
    "words": (429, {"message": "This account is out of credit"}),
    "payment": (402, {"message": "Payment Required"}),
    "balance": (400, {"type": "invalid_request_error", "message": "Your credit balance is too low to access"}),
    "forbidden": (403, {"message": "Insufficient balance"}),
    "code as words": (429, "insufficient_quota"),
    "behind 200": (200, {"message": "Insufficient credits", "code": 402}),
}


@pytest.mark.parametrize("kind", NO_CREDIT)
def test_no_credit_disables_the_model(holdfast, server, tmp_path, kind):
    """Steps 22: not waited out, said once, nothing else is started, exit code 1, and a resume asks again."""
    status, error = NO_CREDIT[kind]
    server.behave(bodies=[sent({"error": error}, status, Retry_After=3600)])
    eval_file = http_eval(tmp_path, server.base_url, 50, concurrency_limit=2)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    asked = server.state()["received"]
    assert 1 <= asked <= 2
    assert ended.err.count("disabled for this session") == 1 and "is out of credit" in ended.err
    assert f"50 remaining: {asked} model disabled, {50 - asked} not started." in ended.out
    assert "Resume with: holdfast resume r" in ended.out
    server.behave()
    holdfast("resume", "r", code=0)


def test_no_credit_after_replies_disables_the_model_too(holdfast, server, tmp_path):
    """Steps 22: credit runs out in the middle of a run, also where a 403 says so; what was answered is kept."""
    error = {"error": {"message": "Insufficient balance"}}
    server.behave(refuse_status=403, refuse_times=99, refuse_only=["q5"], said="Insufficient balance")
    eval_file = http_eval(tmp_path, server.base_url, 40, concurrency_limit=1)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "4 of 40 trials finished" in ended.out and error["error"]["message"] in ended.err
    assert server.state()["received"] == 5


# Row 23

USAGES = [
    *("twelve", 2.5, [7, 2], {"prompt_tokens": -1}, True, {"prompt_tokens": 10**30, "completion_tokens": 1}),
    *({}, {"prompt_tokens": None, "completion_tokens": None}, {"total_tokens": 6}, {"prompt_tokens": 5}),
]


@pytest.mark.parametrize("usage", USAGES, ids=str)
def test_unknown_usage_leaves_the_reply_and_no_cost(holdfast, server, tmp_path, usage):
    """Steps 23: valid, one warning, no cost is made of the rest; limits and sums hold."""
    server.behave(bodies=[sent(body(usage=usage))])
    eval_file = http_eval(
        tmp_path, server.base_url, 6, model=PRICE, task={"limits": {"tokens": 1000, "cost": 5.0}}, concurrency_limit=2
    )
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert statuses(holdfast) == ["valid"] * 6
    assert ended.err.count("The usage of the reply cannot be read") == 1
    report = holdfast.json("report", "r")
    assert report["cost"] is None and report["tasks"]["t"]["m"]["cost"] is None
    assert report["notes"] == ["The cost is unknown: not every reply of models.m has a usage that can be read."]
    assert holdfast.json("status", "r")["cost"] is None
    assert holdfast.json("verify", "r", code=0)["ok"]
    assert "usage" not in holdfast.records("r", "step")[0]


def test_some_usage_is_not_taken_for_all_of_it(holdfast, server, tmp_path):
    """Steps 23: one unknown usage among others makes the cost unknown in every session, and after a resume."""
    server.behave(refuse_status=503, refuse_times=99, refuse_only=["q2"])
    eval_file = http_eval(tmp_path, server.base_url, 3, model=PRICE, retry_deadline=0.01)
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert holdfast.json("report", "r")["cost"] > 0
    server.behave(bodies=[sent(body(usage="?"))])
    holdfast("resume", "r", code=0)
    assert holdfast.json("report", "r")["cost"] is None


@pytest.mark.parametrize("has_key", [True, False])
def test_no_usage_at_all_costs_nothing_known(holdfast, server, tmp_path, has_key):
    """Steps 23: a priced model whose server counts nothing has an unknown cost, and not one of 0."""
    uncounted = body(usage=None)
    if not has_key:
        del uncounted["usage"]
    server.behave(bodies=[sent(uncounted)])
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 3, model=PRICE), "--run-dir", "r", code=0)
    assert ended.err.count("came without usage") == 1
    assert holdfast.json("report", "r")["cost"] is None


# Row 24


def test_bytes_that_are_not_text_are_never_scored(holdfast, server, tmp_path):
    """Steps 24: failed without a retry, one warning, the bytes on record; a resume does not buy them again."""
    raw = json.dumps(body("Z@rich")).encode().replace(b"@", b"\xfc")
    server.behave(bodies=[sent(raw)])
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 3, max_retries=2), "--run-dir", "r", code=1)
    assert statuses(holdfast) == ["failed"] * 3
    assert ended.err.count("1 bytes of the answer are not valid UTF-8; the reply is not scored.") == 1
    step, *_ = holdfast.records("r", "step")
    assert base64.b64decode(step["result"]["undecoded"]) == b"Z\xfcrich"
    assert step["result"]["text"] == "Z\ufffdrich"
    assert "UndecodableReply" in holdfast("show", "r", "--failed").out
    assert holdfast.json("report", "r")["tasks"]["t"]["m"]["metrics"] == {}
    assert server.state()["received"] == 3
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_utf_16_is_read(holdfast, server, tmp_path):
    """Steps 24: what can be known is known."""
    raw = json.dumps(body("Q1")).encode("utf-16")
    server.behave(bodies=[sent(raw)])
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    assert holdfast.records("r", "step")[0]["result"]["text"] == "Q1"


def test_half_a_character_in_utf_16_is_never_scored(holdfast, server, tmp_path):
    """Steps 24: failed and kept, not asked again."""
    raw = json.dumps(body("Q\ud800"), ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    server.behave(bodies=[sent(raw)])
    holdfast("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=1)
    assert statuses(holdfast) == ["failed"]
    assert base64.b64decode(holdfast.records("r", "step")[0]["result"]["undecoded"]) == b"Q\xed\xa0\x80"
    assert server.state()["received"] == 1


# Row 26


def test_an_absurd_retry_after_is_capped_and_said(holdfast, server, tmp_path):
    """Steps 26: the run says how long it waits, which is about an hour and not for ever, and Ctrl-C ends it."""
    server.behave(bodies=[sent({"error": "slow"}, 429, Retry_After="Fri, 31 Dec 9999 23:59:59 GMT")])
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 1), "--run-dir", "r")
    server.wait_for(received=1)
    until(lambda: "retrying in 1h0" in started.told(), "it says how long it waits")
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130 and "holdfast resume r" in ended.out
    server.behave()
    holdfast("resume", "r", code=0)
