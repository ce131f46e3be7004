"""The store holds other bytes under a segment's name: neither is changed, nothing is taken for uploaded, and a person
is told which object it is and what to do.
"""

from __future__ import annotations

import shutil
import signal

import pytest

from evals import fast_eval, http_eval
from program import until

TRIALS = 80
OTHER = b"these are somebody else's bytes"
TAKEN = "journal/000001-0000-000003.jsonl.zst"


def begun(observed, server, place, tmp_path, **runner):
    """A session at work, whose third segment will find its name taken."""
    server.behave(hold=True, **{"pass": 4})
    eval_file = http_eval(
        tmp_path, server.base_url, TRIALS, concurrency_limit=4, runner={"upload_interval": 0.1, **runner}
    )
    started = observed.start("run", eval_file, "--run-dir", place.url)
    until(place.segments, "the session is known to the store")
    place.write(TAKEN, OTHER)
    server.behave(latency=0.05)
    return started


def test_under_local_the_run_goes_on_and_the_end_says_what_is_not_up(observed, holdfast, server, place, tmp_path):
    """The run is finished, all other segments go up, and the end names the object and the way out; as does resume.

    Recovery 32: what is not in the store is exit code 5.
    """
    ended = begun(observed, server, place, tmp_path).wait()
    assert (ended.code, f"{TRIALS} of {TRIALS}" in ended.out) == (5, True), ended
    check_told(ended.err, place)
    assert f"Not in {place.url} yet, but safe in {place.spool}" in ended.err and ": 1 segment." in ended.err
    (spool,) = place.spool.iterdir()
    assert place.read(TAKEN) == OTHER
    assert {path.name for path in (spool / "journal").iterdir()} == {key.rpartition("/")[2] for key in place.segments()}
    remote = holdfast.json("status", place.url)["remote"]
    assert remote["lag"]["segments"] == 1 and TAKEN in remote["lag"]["reason"]
    assert (remote["published"]["behind"], remote["published"]["finished"]) == (1, TRIALS)
    check_told(holdfast("resume", place.url, code=5).err, place)
    # The way out: make room, and the same command; or repair.
    place.delete(TAKEN)
    holdfast("resume", place.url, code=0)
    assert place.read(TAKEN) == (spool / TAKEN).read_bytes()
    place.lose_machine()
    assert holdfast.json("verify", place.url, code=0)["ok"]
    assert holdfast.json("status", place.url)["finished"] == TRIALS


def check_told(err, place):
    assert f"{place.url}/{TAKEN} is damaged; {place.spool}" in err
    assert f"holdfast repair {place.url}" in err


def test_under_remote_nothing_is_acknowledged_and_the_run_stops(observed, holdfast, server, place, tmp_path):
    """What cannot get up does not count: the session ends with exit code 5 and says why; then it goes on."""
    ended = begun(observed, server, place, tmp_path, durability="remote").wait()
    assert ended.code == 5, ended
    check_told(ended.err, place)
    assert server.state()["received"] < TRIALS
    acknowledged = set(observed.acknowledged())
    assert acknowledged <= in_objects(holdfast, place, tmp_path)
    observed("resume", place.url, code=0)
    place.lose_machine()
    assert len(in_objects(holdfast, place, tmp_path)) == TRIALS
    assert holdfast.json("verify", place.url, code=0)["ok"]


def in_objects(holdfast, place, tmp_path):
    """The finished trials that are in the store, without this machine's spool."""
    elsewhere = {"HOLDFAST_SPOOL": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path / "other-cache")}
    out = holdfast("cat", place.url, **elsewhere).out
    return {line.split('"trial":"')[1][:20] for line in out.splitlines() if '"type":"trial"' in line}


def test_a_name_alone_does_not_count_as_uploaded(holdfast, server, place, tmp_path):
    """An object of the same name and size with other bytes is found by a resume, and written again."""
    server.behave(hold=True, **{"pass": 3})
    started = holdfast.start("run", fast_eval(tmp_path, server, 8), "--run-dir", place.url)
    server.wait_for(answered=3)
    until(place.is_up_to_date, "three are up")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    changed = place.segments()[1]
    good = place.read(changed)
    data = bytearray(good)
    data[-200] ^= 0xFF
    place.write(changed, bytes(data))
    ended = holdfast("resume", place.url, code=0)
    assert f"warning: {changed} was damaged in {place.url}; it was written again" in ended.err
    assert place.read(changed) == good


def objects(place):
    found = place.keys()
    return {key: place.read(key) for key in found}


@pytest.mark.parametrize("verb", ["resume", "run"])
def test_two_runs_never_become_one_heap(holdfast, server, place, tmp_path, verb):
    """A URL that has been given to another run since is refused from the spool of the old one; nothing is uploaded."""
    eval_file = fast_eval(tmp_path, server, 4)
    holdfast("run", eval_file, "--run-dir", place.url, code=0)
    for key in objects(place):
        place.delete(key)
    other = {"HOLDFAST_SPOOL": str(tmp_path / "elsewhere"), "XDG_CACHE_HOME": str(tmp_path / "other-cache")}
    holdfast("run", eval_file, "--run-dir", place.url, code=0, **other)
    before = objects(place)
    command = ("resume", place.url) if verb == "resume" else ("run", eval_file, "--run-dir", place.url, "--or-resume")
    ended = holdfast(*command, code=2)
    assert f"{place.url} is not the same run as the spool" in ended.err
    assert objects(place) == before
    shutil.rmtree(place.spool)
    holdfast(*command, code=0)
