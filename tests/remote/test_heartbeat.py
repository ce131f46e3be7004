"""A heartbeat that the store refuses: told in the ledger, and once the lease may have run out, nothing is begun."""

from __future__ import annotations

import json
import time
import uuid

from evals import http_eval
from observed import Observed
from program import until

LEASE = "1.5"


def slow_eval(directory, server, count, **runner):
    """An eval whose trials come one after the other."""
    server.behave(latency=0.05)
    return http_eval(directory, server.base_url, count, concurrency_limit=1, runner={"upload_interval": 0.2, **runner})


def test_recovery_22_a_heartbeat_that_is_refused_is_in_the_ledger(holdfast, place, proxy, server, tmp_path):
    """The store refuses the heartbeat for a while: the run goes on, everything goes up, the ledger names it."""
    eval_file = slow_eval(tmp_path, server, 60)
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--set", "lease=3")
    server.wait_for(answered=3)
    proxy.refuse_writes_of = "/lease.json"
    until(lambda: proxy.refused, "a heartbeat is refused")
    segments = len(place.segments())
    until(lambda: _failures(holdfast, place), "the failure is told while the session runs")
    until(lambda: len(place.segments()) > segments, "segments go up all the same")
    proxy.refuse_writes_of = ""
    ended = started.wait()
    assert (ended.code, "60 of 60" in ended.out) == (0, True), ended
    assert "note: lease.json could not be written" in ended.err
    (failure,) = _failures(holdfast, place)
    assert failure["what"] == "lease.json" and "503" in failure["reason"]
    (end,) = holdfast.records(place.url, "session_end")
    assert end["ledger"]["failures"] == [failure]
    assert server.state()["received"] == 60
    assert holdfast.json("verify", place.url, code=0)["ok"]


def _failures(holdfast, place):
    return holdfast.json("status", place.url, code=0)["sessions"][-1]["failures"]


def test_recovery_22b_admission_stops_and_goes_on_if_nobody_took_the_run(holdfast, place, proxy, server, tmp_path):
    """While the lease cannot be renewed nothing new is sent; once it can, the same session goes on."""
    eval_file = slow_eval(tmp_path, server, 60)
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--set", f"lease={LEASE}")
    server.wait_for(answered=5)
    proxy.mode = "503"
    time.sleep(float(LEASE) + 0.5)
    stood_at = server.wait_until_idle()["received"]
    time.sleep(0.5)
    assert server.state()["received"] == stood_at < 60
    proxy.mode = "pass"
    ended = started.wait()
    assert ended.code == 0, ended
    assert ended.err.count("Paused: the lease could not be renewed since ") == 1
    assert ended.err.count("The lease of the run has been renewed: continuing.") == 1
    assert server.state()["received"] == 60
    assert len(holdfast.records(place.url, "session")) == 1
    assert holdfast.json("verify", place.url, code=0)["ok"]


def test_recovery_22b_a_holder_that_was_cut_off_ends_once_another_has_the_run(
    zygote, place, store, proxy, server, server_process, tmp_path, monkeypatch
):
    """Admission has stopped by the moment another can take the run; after that the first ends with exit code 4."""
    here, there = (Observed(zygote, _made(tmp_path / name)) for name in ("here", "there"))
    first = here.start("run", slow_eval(here.directory, server, 200, lease=float(LEASE)), "--run-dir", place.url)
    server.wait_for(answered=5)
    proxy.mode = "503"
    # The other machine reaches the store, and asks a server of its own, so that each one's calls can be told apart.
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    monkeypatch.setenv("HOLDFAST_SPOOL", str(tmp_path / "elsewhere"))
    other = server_process(uuid.uuid4().hex)
    second = there.start("resume", place.url, "--set", f"models.m.base_url={other.base_url}")
    until(lambda: json.loads(place.read("lease.json"))["holder"]["pid"] == second.pid, "another has the run")
    received, acknowledged = server.state()["received"], here.acknowledged()
    other.wait_for(answered=3)
    proxy.mode = "pass"
    ended = first.wait()
    assert (ended.code, "another session may be using it" in ended.err) == (4, True), ended
    assert (server.state()["received"], here.acknowledged()) == (received, acknowledged)
    assert second.wait().code == 0
    assert {record["trial"] for record in there.records(place.url) if record["type"] == "trial"} >= set(acknowledged)
    assert there("verify", place.url).code == 0
    zygote.kill_all()


def _made(directory):
    directory.mkdir()
    return directory
