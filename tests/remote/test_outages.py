"""A store that is gone, slow or refusing for a while: the run goes on and catches up."""

from __future__ import annotations

import time

import pytest

from evals import http_eval
from fault_proxy import Proxy
from object_store import BUCKET, KEYS, StoreServer
from program import until
from remote_place import Place

LEASE = "60"


@pytest.fixture
def own_store(tmp_path_factory, monkeypatch, tmp_path):
    """A server of this test's own, which it may kill."""
    made = StoreServer(tmp_path_factory.mktemp("own"))
    names = {**KEYS, "AWS_ENDPOINT_URL": made.endpoint, "HOLDFAST_SPOOL": str(tmp_path / "spool")}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    yield made
    made.kill()


def steady(directory, server, count, **runner):
    """An eval whose trials take a while, one after the other."""
    server.behave(latency=0.02)
    return http_eval(directory, server.base_url, count, concurrency_limit=2, runner={"upload_interval": 0.2, **runner})


def test_the_server_is_killed_and_restarted(holdfast, own_store, server, tmp_path):
    """Under `local`, a store that is killed stops nothing; once it is back, everything goes up."""
    place = Place(f"s3://{BUCKET}/r", own_store.bucket("r"), tmp_path / "spool")
    eval_file = steady(tmp_path, server, 150)
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--set", f"lease={LEASE}")
    server.wait_for(answered=10)
    own_store.kill()
    before = server.state()["answered"]
    server.wait_for(answered=before + 60)
    own_store.start()
    ended = started.wait()
    assert (ended.code, "150 of 150" in ended.out) == (0, True), ended
    place.lose_machine()
    assert holdfast.json("status", place.url, code=0)["finished"] == 150
    assert holdfast.json("verify", place.url, code=0)["ok"]


@pytest.mark.parametrize("mode", ["503", "slow"])
def test_the_store_refuses_or_is_slow_for_a_while(holdfast, place, proxy, server, tmp_path, mode):
    """Under `local`, a store that refuses or is slow stops nothing, the lag is shown, and it is made good."""
    eval_file = steady(tmp_path, server, 150)
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--set", f"lease={LEASE}")
    server.wait_for(answered=10)
    proxy.mode = mode
    (spool,) = until(lambda: list(place.spool.glob("*/journal")), "there is a spool")
    if mode == "503":
        lag = until(lambda: _failing(holdfast, spool.parent), "the lag is told")
        assert lag["segments"] > 0 and lag["reason"]
    else:
        before = len(place.segments())
        until(lambda: len(place.segments()) > before, "segments go up, slowly")
    server.wait_for(answered=80)
    assert proxy.slowed if mode == "slow" else proxy.refused
    proxy.mode = "pass"
    ended = started.wait()
    assert (ended.code, "150 of 150" in ended.out) == (0, True), ended
    place.lose_machine()
    assert holdfast.json("status", place.url, code=0)["finished"] == 150


def _failing(holdfast, spool):
    remote = holdfast.json("status", spool)["remote"]
    return remote["lag"] if remote["lag"]["reason"] else None


def test_under_remote_durability_nothing_counts_before_it_is_up(observed, place, proxy, server, tmp_path):
    """Under `remote`, a trial is acknowledged only once its segment is in the store."""
    eval_file = steady(tmp_path, server, 40, durability="remote")
    started = observed.start("run", eval_file, "--run-dir", place.url)
    until(lambda: len(observed.acknowledged()) >= 3, "some are acknowledged")
    proxy.mode = "503"
    time.sleep(0.5)
    stood_at = len(observed.acknowledged())
    server.wait_for(answered=40)
    time.sleep(1.0)
    assert len(observed.acknowledged()) == stood_at < 40
    proxy.mode = "pass"
    assert started.wait().code == 0
    assert len(set(observed.acknowledged())) == 40


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["503", "slow", "killed"])
def test_a_minute_of_trouble(holdfast, own_store, server, tmp_path, monkeypatch, mode):
    """A minute is longer than a lease: the run goes on while it may, stands still, goes on, and everything is up."""
    proxy = Proxy(own_store.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    place = Place(f"s3://{BUCKET}/minute", own_store.bucket("minute"), tmp_path / "spool")
    eval_file = steady(tmp_path, server, 160)
    server.behave(latency=0.5)
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    server.wait_for(answered=6)
    _begin_trouble(mode, proxy, own_store)
    server.wait_for(answered=60)
    assert started.is_running
    time.sleep(60 - 14)
    stood_at = server.state()["answered"]
    assert stood_at < 160 or mode == "slow"
    proxy.mode = "pass"
    if mode == "killed":
        own_store.start()
    ended = started.wait()
    print(f"{mode}: {stood_at} of 160 were answered when the minute was over")
    assert (ended.code, "160 of 160" in ended.out) == (0, True), ended
    assert server.state()["received"] == 160
    proxy.close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", own_store.endpoint)
    place.lose_machine()
    assert holdfast.json("status", place.url, code=0)["finished"] == 160
    assert holdfast.json("verify", place.url, code=0)["ok"]


def _begin_trouble(mode, proxy, own_store):
    if mode == "killed":
        own_store.kill()
    else:
        proxy.mode = mode
