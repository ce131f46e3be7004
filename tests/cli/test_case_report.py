"""Experiments 28: the two tests that a report about another harness asks for, by the names it gives them."""

from __future__ import annotations

import json
import signal

from evals import http_eval
from program import until


def files_of(run):
    """Every byte of a run, with the times at which its files were last written."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(run.rglob("*")) if path.is_file()}


def temperatures(holdfast):
    """The temperatures that the replies of a run were asked with."""
    steps = holdfast.records("r", "step")
    return {step["request"].get("generation", {}).get("temperature") for step in steps}


def test_checkpoint_config_overrides_cli(holdfast, server, tmp_path):
    """A resume completes with the saved values, whatever the eval file says now; other values are refused by name."""
    cold = {"model": {"generation": {"temperature": 0.25}}, "concurrency_limit": 2, "grace_period": 0}
    eval_file = http_eval(tmp_path, server.base_url, 6, **cold)
    server.behave(hold=True, **{"pass": 2})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=2, in_flight=2)
    started.send(signal.SIGINT)
    assert started.wait().code == 130
    server.behave()
    hot = {**cold, "model": {"generation": {"temperature": 0.75}}, "task": {"epochs": 1}}
    http_eval(tmp_path, server.base_url, 6, **hot)
    before, asked = files_of(tmp_path / "r"), server.state()["received"]
    for words in (["resume", "r", "--config", eval_file], ["run", eval_file, "--run-dir", "r", "--or-resume"]):
        refused = holdfast(*words, code=3)
        assert "0.25 → 0.75" in refused.err and "temperature" in refused.err
        first, *_ = refused.err.partition("Ways out, cheapest first:\n")[2].splitlines()
        assert first.endswith("holdfast resume r")
    assert files_of(tmp_path / "r") == before and server.state()["received"] == asked
    ended = holdfast("resume", "r", code=0)
    assert "6 of 6" in ended.out + ended.err
    assert temperatures(holdfast) == {0.25}
    saved = json.dumps(holdfast.records("r", "session")[-1]["config"])
    assert "0.25" in saved and "0.75" not in saved


def test_interrupt_preserves_worker_completions(holdfast, server, tmp_path):
    """An interrupt while replies arrive loses none of them: what the server answered is on record, and is paid once."""
    eval_file = http_eval(tmp_path, server.base_url, 40, concurrency_limit=8, grace_period=60)
    server.behave(hold=True, **{"pass": 11})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=11, in_flight=8)
    started.send_group(signal.SIGINT)
    until(lambda: "to stop immediately" in started.told(), "the signal was taken")
    # The workers that were waiting get their replies now, after the signal.
    server.behave()
    ended = started.wait()
    assert ended.code == 130
    answered = server.state()["answered"]
    assert answered == server.state()["received"] == 19
    ends = holdfast.records("r", "trial")
    assert len(ends) == answered and {end["status"] for end in ends} == {"valid"}
    status = holdfast.json("status", "r")
    assert (status["finished"], status["remaining"]) == (19, 21)
    holdfast("resume", "r", code=0)
    assert set(server.worked_on().values()) == {1}
    assert len({end["trial"] for end in holdfast.records("r", "trial")}) == 40
