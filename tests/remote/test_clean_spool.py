"""`clean --local`: what the store has, byte for byte, goes from this machine; nothing else ever does."""

from __future__ import annotations

import signal

import pytest

from evals import fast_eval, http_eval
from program import until


def files(spool):
    """Every file of a spool, and its bytes."""
    return {str(path.relative_to(spool)): path.read_bytes() for path in spool.rglob("*") if path.is_file()}


@pytest.fixture
def finished(holdfast, place, server, tmp_path):
    """The spool of a run that is complete, here and in the store."""
    server.behave(latency=0.02)
    eval_file = http_eval(tmp_path, server.base_url, 12, concurrency_limit=2, runner={"upload_interval": 0.1})
    holdfast("run", eval_file, "--run-dir", place.url, code=0)
    (spool,) = place.spool.iterdir()
    return spool


@pytest.mark.parametrize("named", ["url", "path"])
def test_what_the_store_has_goes_and_the_run_is_whole(holdfast, finished, place, named):
    """A dry run deletes nothing and says the same; then the spool is gone, and the run is as it was, by its URL."""
    run = place.url if named == "url" else finished
    before, report = files(finished), holdfast.json("report", place.url)
    dry = holdfast.json("clean", run, "--local", "--dry-run", code=0)
    assert files(finished) == before
    told = holdfast.json("clean", run, "--local", code=0)
    assert not finished.exists()
    assert told == {**dry, "dry_run": False}
    assert (told["run"], told["spool"], told["kept"]) == (place.url, str(finished), [])
    stored = {name for name in before if name.startswith(("journal/", "inputs/", "blobs/", "config.yaml"))}
    assert (told["files"], told["bytes"]) == (len(stored), sum(len(before[name]) for name in stored))
    assert holdfast.json("verify", place.url, code=0)["ok"]
    assert holdfast.json("report", place.url) == report
    assert "nothing to delete" in holdfast("clean", place.url, "--local", code=0).out


def test_what_is_not_the_same_in_the_store_stays(holdfast, finished, place):
    """An object that is gone, cut or has a byte changed, and a file nobody knows: each is kept, and named with why."""
    gone, cut, changed = sorted(path.name for path in (finished / "journal").iterdir())[:3]
    place.delete(f"journal/{gone}")
    place.write(f"journal/{cut}", place.read(f"journal/{cut}")[:-1])
    data = bytearray(place.read(f"journal/{changed}"))
    data[50] ^= 1
    place.write(f"journal/{changed}", bytes(data))
    (finished / "mine.txt").write_text("mine")
    before = files(finished)
    ended = holdfast("clean", place.url, "--local", code=0)
    for name in (gone, cut, changed):
        assert f"kept: journal/{name}: " in ended.out
    assert f"holdfast resume {place.url}" in ended.out
    left = files(finished)
    kept = {f"journal/{gone}", f"journal/{cut}", f"journal/{changed}", "mine.txt"}
    assert {name: before[name] for name in kept}.items() <= left.items()
    assert set(left) - kept == {"remote.url", "lease"}
    assert holdfast.json("status", place.url)["finished"] == 12


def test_a_run_that_is_executed_is_refused(holdfast, place, server, tmp_path):
    """While a session works, here or on another machine, nothing is deleted."""
    server.behave(hold=True, **{"pass": 2})
    started = holdfast.start("run", fast_eval(tmp_path, server, 6), "--run-dir", place.url)
    server.wait_for(received=6)
    until(place.is_up_to_date, "two are up")
    (spool,) = place.spool.iterdir()
    before = {name for name in files(spool) if name.startswith("journal/")}
    for words in (["--dry-run"], []):
        for elsewhere in ({}, {"HOLDFAST_SPOOL": str(tmp_path / "elsewhere")}):
            ended = holdfast("clean", place.url, "--local", *words, code=4, **elsewhere)
            assert f"process {started.pid}" in ended.err
    assert before <= set(files(spool)) | {name.replace(".open", "") for name in before}
    server.behave()
    assert started.wait().code == 0


def test_what_was_never_uploaded_stays_and_the_run_goes_on(holdfast, place, server, tmp_path):
    """The last segment of a killed session is only here: it is kept, and the next session has everything."""
    server.behave(hold=True, **{"pass": 3})
    eval_file = http_eval(tmp_path, server.base_url, 6, runner={"upload_interval": 3600})
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    until(lambda: place.segments() and len(trials(holdfast, place)) == 3, "three are on record")
    started.send(signal.SIGKILL)
    started.wait()
    told = holdfast.json("clean", place.url, "--local", code=0)
    (kept,) = told["kept"]
    assert ".open." in kept["where"] and kept["reason"] == "it is not in the store"
    assert told["files"] > 0
    assert len(trials(holdfast, place)) == 3
    server.behave()
    holdfast("resume", place.url, code=0)
    assert len(trials(holdfast, place)) == 6
    assert holdfast.json("verify", place.url, code=0)["ok"]
    # Three were in flight at the kill.
    assert server.state()["received"] == 9


def trials(holdfast, place):
    return {line for line in holdfast("cat", place.url).out.splitlines() if '"type":"trial"' in line}


@pytest.mark.parametrize("point", ["spool.derived-removed", "spool.file-removed:1", "spool.file-removed:4"])
def test_killed_in_the_middle_nothing_is_lost(holdfast, finished, place, point):
    """Whenever it is killed, the run is whole by its URL, a resume needs nothing, and the next cleaning finishes."""
    before = files(finished)
    assert holdfast("clean", place.url, "--local", HOLDFAST_CRASH_AT=point).code == -signal.SIGKILL
    assert files(finished).items() <= {**before, "lease": (finished / "lease").read_bytes()}.items()
    assert holdfast.json("verify", place.url, code=0)["ok"]
    assert len(trials(holdfast, place)) == 12
    holdfast("resume", place.url, code=0)
    holdfast("clean", place.url, "--local", code=0)
    assert not finished.exists()
    assert holdfast.json("verify", place.url, code=0)["ok"]


def test_a_store_that_does_not_answer_deletes_nothing(holdfast, finished, place, proxy):
    """Nothing goes that could not be compared."""
    before = files(finished)
    proxy.mode = "503"
    assert "failed to" in holdfast("clean", place.url, "--local", code=5).err
    assert files(finished) == before


def test_a_run_in_a_directory_has_no_spool(holdfast, server, tmp_path):
    """A local run is refused, and so is a command that does not say what is to go."""
    holdfast("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "r", code=0)
    assert "has no spool" in holdfast("clean", "r", "--local", code=2).err
    for words in ([], ["--local", "--steps"]):
        assert "either --steps or --local" in holdfast("clean", "r", *words, code=2).err
