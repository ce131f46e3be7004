"""A run in an object store: made, executed, killed, resumed and read by its URL."""

from __future__ import annotations

import base64
import json
import random
import signal

from evals import fast_eval as fast
from evals import http_eval
from object_store import BUCKET, KEYS, forgetful_store
from program import until

MEGABYTE = 2**20


def test_a_run_is_executed_and_read_by_its_url(holdfast, place, server, tmp_path):
    """A run at a URL is complete in the store, and every reading verb takes the URL."""
    holdfast("run", fast(tmp_path, server, 6), "--run-dir", place.url, code=0)
    place.lose_machine()
    assert holdfast.json("status", place.url, code=0)["finished"] == 6
    assert holdfast.json("report", place.url, code=0)["coverage"]["valid"] == 6
    assert holdfast.json("verify", place.url, code=0)["ok"]
    assert len([r for r in holdfast.records(place.url) if r["type"] == "trial"]) == 6


def test_a_store_that_ignores_conditions_is_refused(holdfast, server, tmp_path, tmp_path_factory, monkeypatch):
    """A store that ignores conditions on writes is refused by name, before anything is written."""
    with forgetful_store(tmp_path_factory.mktemp("forgetful")) as endpoint:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint, "HOLDFAST_SPOOL": str(tmp_path / "spool")}.items():
            monkeypatch.setenv(name, value)
        url = f"s3://{BUCKET}/r"
        ended = holdfast("run", fast(tmp_path, server, 2), "--run-dir", url, code=2)
        assert "does not support conditional writes" in ended.err
        assert not (tmp_path / "spool").exists()
        assert server.state()["received"] == 0


def test_a_second_run_at_the_same_url_is_refused(holdfast, place, server, tmp_path):
    """A URL that holds a run is not given to another, and --or-resume goes on with it."""
    eval_file = fast(tmp_path, server, 2)
    holdfast("run", eval_file, "--run-dir", place.url, code=0)
    assert "already holds a run" in holdfast("run", eval_file, "--run-dir", place.url, code=2).err
    place.lose_machine()
    assert "already holds a run" in holdfast("run", eval_file, "--run-dir", place.url, code=2).err
    holdfast("run", eval_file, "--run-dir", place.url, "--or-resume", code=0)
    assert server.state()["received"] == 2


def test_killed_and_resumed_with_its_spool_nothing_is_paid_twice(holdfast, place, server, tmp_path):
    """With the spool still there, a killed run goes on from it, and what was not up yet goes up (recovery 7)."""
    eval_file = http_eval(tmp_path, server.base_url, 8, runner={"upload_interval": 3600})
    server.behave(hold=True, **{"pass": 5})
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    server.wait_for(answered=5)
    until(lambda: _recorded(holdfast, place, "trial") >= 5, "five trials on record")
    started.send(signal.SIGKILL)
    started.wait()
    before = place.segments()
    server.behave()
    holdfast("resume", place.url, code=0)
    assert set(before) < set(place.segments())
    records = holdfast.records(place.url)
    ids = [tuple(record["id"]) for record in records]
    assert len(ids) == len(set(ids))
    assert len({r["trial"] for r in records if r["type"] == "trial"}) == 8
    assert all(count == 1 for prompt, count in server.worked_on().items() if prompt in _first(records, 5))
    place.lose_machine()
    assert holdfast.json("status", place.url)["finished"] == 8
    assert holdfast.json("verify", place.url, code=0)["ok"]


def test_a_full_segment_goes_up_before_the_interval_is_over(holdfast, place, server, tmp_path):
    """What has come to 16 MB goes up at once, however long the interval is."""
    noise = base64.b64encode(random.Random(7).randbytes(MEGABYTE)).decode()
    server.behave(hold=True, reply=noise, **{"pass": 20})
    settings = {"concurrency_limit": 1, "runner": {"upload_interval": 3600}}
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 30, **settings), "--run-dir", place.url)
    until(lambda: len(place.segments()) >= 2, "a segment that was filled")
    assert sum(len(place.read(key)) for key in place.segments()) > 16 * MEGABYTE
    server.behave()
    assert started.wait().code == 0


def _recorded(holdfast, place, kind):
    spools = list(place.spool.glob("*/journal"))
    ended = holdfast("cat", spools[0].parent) if spools else None
    return sum(json.loads(line)["type"] == kind for line in ended.out.splitlines()) if ended else 0


def _first(records, count):
    steps = [record for record in records if record["type"] == "step" and record["id"][0] == 1]
    return {record["request"]["messages"][-1]["content"] for record in steps[:count]}


def test_many_look_at_a_run_while_it_is_executed(holdfast, place, server, tmp_path, zygote):
    """Segments are sealed, and readers come and go, all the time: nobody takes away what another is reading."""
    server.behave(latency=0.02)
    eval_file = http_eval(tmp_path, server.base_url, 250, concurrency_limit=4, runner={"upload_interval": 0.02})
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    until(place.segments, "there is something to read")
    looks = 0
    while started.is_running:
        looking = [zygote.start(("cat", place.url), tmp_path, {}) for _ in range(3)]
        ended = [look.wait() for look in looking]
        assert [(look.code, look.err) for look in ended] == [(0, "")] * 3
        looks += 3
    assert started.wait().code == 0
    print(f"{looks} looks")
    assert looks > 3
