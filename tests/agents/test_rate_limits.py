"""Rate limits of agents: experiments 7 and 21."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from agents.agent_evals import agent_eval, make_template
from program import until

LIMITED = """
log, key = Path({log!r}), Path(sys.argv[1]).read_text() if os.path.exists(sys.argv[1]) else sys.argv[1]
with log.open("a") as file: file.write(json.dumps([time.time(), sys.argv[1:], os.listdir(".")]) + "\\n")
until = Path({until!r})
if not until.exists():
    Path("half").touch()
    until.write_text(str(time.time() + {seconds}))
    print(json.dumps({{"type": "result", "is_error": True, "session_id": "s-9", "result": "You've hit your limit",
        "api_error_status": 429, "resetsAt": float(until.read_text()),
        "usage": {{"input_tokens": 3, "output_tokens": 1}}}}))
    sys.exit(1)
if time.time() < float(until.read_text()):
    print(json.dumps({{"type": "result", "is_error": True, "result": "too early"}})); sys.exit(1)
usage = {{"input_tokens": 4, "output_tokens": 2}}
print(json.dumps({{"type": "result", "is_error": False, "result": "done", "usage": usage}}))
"""


def limited(tmp_path, seconds, **agent):
    make_template(tmp_path)
    script = LIMITED.format(log=str(tmp_path / "log"), until=str(tmp_path / "until"), seconds=seconds)
    return agent_eval(
        tmp_path, script, samples=3, agent={"output": "json", **agent}, runner={"max_retries": 0}, concurrency_limit=1
    )


def starts(tmp_path):
    path = tmp_path / "log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_rate_limit_is_waited_for_by_all_and_uses_no_attempt(holdfast, tmp_path):
    """Experiments 7."""
    eval_ = limited(tmp_path, 2.5)
    holdfast("run", eval_, "--run-dir", "r", code=0)
    trials = holdfast.records("r", "trial")
    assert [(trial["status"], trial["attempt"]) for trial in trials] == [("valid", 1)] * 3
    until_ = float((tmp_path / "until").read_text())
    assert sum(at < until_ for at, *_ in starts(tmp_path)) == 1
    assert len(starts(tmp_path)) == 4
    assert holdfast.json("status", "r")["usage"]["input_tokens"] == 3 + 3 * 4


def test_the_wait_survives_a_restart_and_is_shared(holdfast, tmp_path):
    """Experiments 7: killed while it waits; the next session starts no agent before the time."""
    eval_ = limited(tmp_path, 8)
    started = holdfast.start("run", eval_, "--run-dir", "r")
    until(lambda: list((tmp_path / "r").glob("workspaces/.waits/*.json")), "the wait is on disk")
    started.kill()
    started.wait()
    holdfast("resume", "r", "--set", "concurrency_limit=3", code=0)
    until_ = float((tmp_path / "until").read_text())
    assert sum(at < until_ for at, *_ in starts(tmp_path)) == 1
    assert len(starts(tmp_path)) == 4
    assert holdfast.json("status", "r")["valid"] == 3


def test_after_a_rate_limit_the_session_continues_in_place(holdfast, tmp_path):
    """Experiments 7, 21."""
    resume = [sys.executable, str(tmp_path / "agent.py"), "--resume", "{session}"]
    eval_ = limited(tmp_path, 1.5, resume_command=resume)
    holdfast("run", eval_, "--run-dir", "r", code=0)
    _, arguments, there = starts(tmp_path)[1]
    assert arguments == ["--resume", "s-9"]
    assert "half" in there


def test_a_wait_ends_at_once_when_it_is_interrupted(holdfast, tmp_path):
    """Experiments 7, 18."""
    started = holdfast.start("run", limited(tmp_path, 3600), "--run-dir", "r")
    until(lambda: list((tmp_path / "r").glob("workspaces/.waits/*.json")), "the wait is on disk")
    started.send_group(signal.SIGINT)
    assert started.wait().code == 130
    status = holdfast.json("status", "r")
    assert (status["valid"], status["failed"]) == (0, 0)


@pytest.mark.parametrize("output", ["json", "text"])
def test_an_answer_that_speaks_of_limits_is_an_answer(holdfast, tmp_path, output):
    """Experiments 7."""
    make_template(tmp_path)
    said = "done: usage limit reached, it resets at 4pm (Europe/Berlin), 429 too many requests"
    script = f"""
said = {said!r}
print(json.dumps({{"type": "result", "is_error": False, "result": said}}) if {output == "json"} else said)
"""
    holdfast("run", agent_eval(tmp_path, script, agent={"output": output}), "--run-dir", "r", code=0)
    assert holdfast.records("r", "answer")[0]["text"] == said
    assert not list((tmp_path / "r").glob("workspaces/.waits/*"))
