"""Recovery 33: under `durability: remote` only what the store has confirmed counts, whoever asks, and whenever."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time

import pytest

from evals import http_eval
from holdfast.journal.segment import parse_name
from holdfast.run.remote.upload_watermark import confirmed_segments, read_watermark, write_watermark
from program import until


def remote_eval(directory, server, count, **runner):
    runner = {"upload_interval": 0.2, "durability": "remote", "lease": "10m", **runner}
    return http_eval(directory, server.base_url, count, concurrency_limit=2, runner=runner)


@pytest.fixture
def behind(observed, place, proxy, server, tmp_path):
    """A run of 10 trials, all answered, of which the store has the first four; its session was killed."""
    server.behave(hold=True, **{"pass": 4})
    started = observed.start("run", remote_eval(tmp_path, server, 10), "--run-dir", place.url)
    server.wait_for(answered=4)
    until(lambda: len(observed.acknowledged()) == 4, "four are acknowledged")
    proxy.mode = "503"
    server.behave()
    server.wait_for(answered=10)
    (spool,) = place.spool.iterdir()
    until(lambda: ended(observed, spool) == 10, "all are on disk")
    started.send(signal.SIGKILL)
    started.wait()
    assert len(observed.acknowledged()) == 4
    return spool


def ended(program, spool):
    records = map(json.loads, program("cat", spool).out.splitlines())
    return len({record["trial"] for record in records if record["type"] == "trial"})


@pytest.mark.parametrize("reachable", [True, False], ids=["store answers", "store fails"])
@pytest.mark.parametrize("by", ["url", "spool"])
def test_recovery_33_status_and_report_count_what_the_store_has(behind, holdfast, place, proxy, reachable, by):
    """What is only here is `not uploaded`; where the store does not answer, it is said of which moment that is."""
    proxy.mode = "pass" if reachable else "503"
    run = place.url if by == "url" else behind
    status = holdfast.json("status", run, code=0)
    assert (status["finished"], status["remaining_by_reason"], status["state"]) == (
        4,
        {"not uploaded": 6},
        "incomplete",
    )
    assert status["calls"]["made"] == 10
    (note,) = [note for note in status["notes"] if "runs none of" in note]
    assert ("as of 20" in note) == (by == "spool" or not reachable)
    report = holdfast.json("report", run, code=0)
    assert report["coverage"]["finished"] == 4
    metrics = report["tasks"]["t"]["m"]["metrics"]["exact"]
    assert {one["n_trials"] for one in metrics.values()} == {4}
    assert "6 not uploaded" in holdfast("status", run).out


def test_recovery_33_a_resume_uploads_it_and_runs_none_of_it(behind, holdfast, place, proxy, server):
    """Nothing is asked again, and what was not uploaded counts from then on, for every reader."""
    proxy.mode = "pass"
    found = holdfast.json("resume", place.url, code=0)
    assert (found["finished"], found["uploaded"]) == (10, True)
    assert server.state()["received"] == 10
    assert holdfast.json("status", behind)["finished"] == 10
    place.lose_machine()
    assert holdfast.json("status", place.url)["remaining"] == 0


def test_recovery_33_a_segment_that_is_gone_from_the_store_does_not_count(behind, holdfast, place, proxy):
    """The store itself is asked, not what was confirmed once."""
    proxy.mode = "pass"
    for key in place.segments()[1:]:
        place.delete(key)
    assert holdfast.json("status", place.url)["finished"] < 4
    assert "10 of 10" in holdfast("resume", place.url, code=0).out


def test_recovery_33_of_a_run_that_counts_locally_everything_counts(holdfast, place, proxy, server, tmp_path):
    """Under `local` a trial is finished once it is on this machine's disk."""
    eval_file = remote_eval(tmp_path, server, 4, durability="local", upload_interval=3600)
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    server.wait_for(answered=4)
    proxy.mode = "read-only"
    started.wait()
    assert holdfast.json("status", place.url)["finished"] == 4


@pytest.mark.parametrize("seed", [3, 17, 88])
def test_recovery_33_a_kill_never_leaves_the_watermark_ahead_of_the_store(observed, place, server, tmp_path, seed):
    """Nor behind what was acknowledged: killed at a random moment, several times."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    server.behave(latency=0.005)
    eval_file = remote_eval(tmp_path, server, 400, upload_interval=0.02)
    for _ in range(3):
        before = len(observed.acknowledged())
        started = observed.start("run", eval_file, "--run-dir", place.url, "--or-resume")
        until(lambda: len(observed.acknowledged()) > before or not started.is_running, "it is at work")  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.3))
        started.send(signal.SIGKILL)
        started.wait()
        (spool,) = place.spool.iterdir()
        there = {key.rpartition("/")[2] for key in place.segments()}
        confirmed = read_watermark(spool).confirmed()
        for path in (spool / "journal").iterdir():
            ident = parse_name(path.name)[0]
            if ident.number <= confirmed.get((ident.session, ident.writer), 0):
                assert path.name in there
        status = observed("status", spool, "--json").json
        assert status["finished"] >= len(set(observed.acknowledged()))


def test_the_watermark_is_the_last_segment_with_all_before_it(tmp_path):
    """A gap ends it; an empty segment, of which nothing can be uploaded, does not."""
    journal = tmp_path / "journal"
    journal.mkdir()
    names = ["000001-0000-000001", "000001-0000-000002", "000001-0000-000003", "000002-0000-000001"]
    for name in names:
        (journal / f"{name}.jsonl.zst").write_bytes(b"x")
    up = {f"{names[0]}.jsonl.zst", f"{names[2]}.jsonl.zst"}
    found = confirmed_segments(journal, lambda path: path.name in up)
    assert found == {(1, 0): 1, (2, 0): 0}
    (journal / f"{names[1]}.jsonl.zst").write_bytes(b"")
    assert confirmed_segments(journal, lambda path: path.name in up) == {(1, 0): 3, (2, 0): 0}
    write_watermark(tmp_path, found)
    assert read_watermark(tmp_path).confirmed() == found
    shutil.rmtree(journal)
    (tmp_path / "uploaded.json").write_bytes(b"{")
    assert read_watermark(tmp_path).confirmed() == {}
