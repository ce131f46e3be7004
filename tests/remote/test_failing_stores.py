"""Stores that fail while a session runs: retried, named, and never mistaken for anything else."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import signal
import threading
import time

import msgspec
import obstore
import pytest

from cli_calls import call
from evals import fast_eval, http_eval
from holdfast import Sample, Task, evaluate, exact
from holdfast.errors import RunHeld, StorageFailure
from holdfast.journal import SegmentId
from holdfast.run.core.layout import Layout
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.remote.spool import take_run_lease
from holdfast.run.remote.upload_schedule import UploadSchedule
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.remote.uploader import Uploader
from holdfast.run.session.create import create_run
from holdfast.storage.leases.remote import LEASE_KEY, PublishedLease, RemoteLease, RenewalPauses
from holdfast.storage.object_store import ObjectStore
from program import until

LEASE = 1.5
PAUSED = "the lease could not be renewed since "


def steady(directory, server, count, **runner):
    """An eval whose trials come two at a time, slowly enough to fail between them."""
    server.behave(latency=0.05)
    runner = {"upload_interval": 0.2, **runner}
    return http_eval(directory, server.base_url, count, concurrency_limit=2, runner=runner)


def spool_of(place):
    (found,) = until(lambda: list(place.spool.glob("*/journal")), "there is a spool")
    return found.parent


def lag_of(holdfast, spool):
    return holdfast.json("status", spool, code=0)["remote"]["lag"]


# 30: 404 for everything.


@pytest.mark.parametrize("mode", ["404", "no-bucket"])
@pytest.mark.parametrize("durability", ["local", "remote"])
def test_recovery_30_a_bucket_that_answers_404_is_a_failing_store(
    holdfast, place, proxy, server, tmp_path, mode, durability
):
    """For longer than a lease: nobody else has the run, no bytes differ, and the same session finishes it."""
    eval_file = steady(tmp_path, server, 60, durability=durability, lease=LEASE)
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    server.wait_for(answered=6)
    spool = spool_of(place)
    until(place.segments, "something is up")
    proxy.mode = mode
    until(lambda: lag_of(holdfast, spool)["paused_since"], "it pauses")
    assert "the store answers 404" in lag_of(holdfast, spool)["reason"]
    proxy.mode = "pass"
    ended = started.wait()
    assert (ended.code, "60 of 60" in ended.out) == (0, True), ended
    assert "could not be written" in ended.err and "the store answers 404" in ended.err
    for wrong in ("in use by", "another session", "holds other bytes", "move "):
        assert wrong not in ended.err
    assert server.state()["received"] == 60
    place.lose_machine()
    assert holdfast.json("verify", place.url, code=0)["ok"]
    assert holdfast.json("status", place.url)["finished"] == 60


def test_recovery_30_one_object_that_is_listed_and_answers_404(place, proxy):
    """An object that the store lists is not missing, whatever its 404 says; one that it does not list is."""
    store = ObjectStore(place.url)
    store.put_new("journal/one", b"1")
    assert store.get("journal/two") is None
    proxy.mode, proxy.only = "404", "/journal/one"
    for ask in (lambda: store.get("journal/one"), lambda: store.head("journal/one", 1)):
        with pytest.raises(StorageFailure, match=r"answers 404 for .*journal/one, which it lists"):
            ask()
    with pytest.raises(StorageFailure, match="404"):
        store.put_over("journal/one", b"2", '"0"')


@pytest.mark.parametrize("verb", ["resume", "status", "run"])
def test_recovery_30_commands_that_begin_while_it_answers_404(holdfast, place, proxy, server, tmp_path, verb):
    """A session does not start (exit code 5), `status` shows what is here, and nobody is told to move anything."""
    eval_file = fast_eval(tmp_path, server, 4)
    server.behave(refuse_status=400, refuse_times=1)
    holdfast("run", eval_file, "--run-dir", place.url)
    proxy.mode = "404"
    words = {"resume": ("resume", place.url), "status": ("status", place.url)}
    ended = holdfast(*words.get(verb, ("run", eval_file, "--run-dir", place.url, "--or-resume")))
    assert ended.code == (0 if verb == "status" else 5), ended
    assert "move" not in ended.err and "in use by" not in ended.err
    if verb != "status":
        assert "the store answers 404" in ended.err


def test_recovery_30_a_deleted_lease_is_written_again(place):
    """Nobody else has the run, so its holder keeps it, and says what it found."""
    lease = RemoteLease(ObjectStore(place.url), lifetime=60)
    try:
        place.delete(LEASE_KEY)
        lease.renew()
        assert lease.is_held() and not lease.is_lost()
        assert json.loads(place.read(LEASE_KEY))["lifetime"] == 60
        assert [failure.reason for failure in lease.failures.all()] == [
            "the object was deleted; it has been written again."
        ]
    finally:
        lease.release()


def test_recovery_30_a_deleted_lease_that_another_took_is_lost(place):
    """Whoever writes the object first has the run."""
    lease = RemoteLease(ObjectStore(place.url), lifetime=60)
    published = msgspec.json.decode(place.read(LEASE_KEY), type=PublishedLease)
    other = msgspec.structs.replace(published.holder, pid=1, host="elsewhere", boot="another")
    place.write(LEASE_KEY, msgspec.json.encode(msgspec.structs.replace(published, holder=other)))
    lease.renew()
    assert lease.is_lost() and not lease.is_held()
    lease.release()


def test_recovery_30_a_deleted_lease_is_not_taken_from_a_holder_with_a_longer_one(place, tmp_path):
    """Whoever takes it watches for the lifetime in the run's configuration, however short his own is."""
    place.write("config.yaml", b"runner:\n  lease: 3\n")
    place.write(f"journal/{SegmentId(1, 0, 1).filename(sealed=True)}", b"")
    holder = RemoteLease(ObjectStore(place.url), lifetime=3)
    try:
        place.delete(LEASE_KEY)
        with pytest.raises(RunHeld):
            take_run_lease(ObjectStore(place.url), tmp_path / "no-spool", 0.3)
        assert holder.is_held()
    finally:
        holder.release()


def test_recovery_30_a_junk_lease_is_not_taken_at_once(place, tmp_path, monkeypatch):
    """It tells of no holder, and there may be one."""
    watched = []
    monkeypatch.setattr(RemoteLease, "_watch", lambda _, tag, lifetime, __: watched.append((bool(tag), lifetime)))
    place.write(f"journal/{SegmentId(1, 0, 1).filename(sealed=True)}", b"")
    place.write(LEASE_KEY, b"{")
    take_run_lease(ObjectStore(place.url), tmp_path / "no-spool").release()
    assert watched == [(True, 30.0)]


def test_recovery_30_every_command_takes_the_lease_for_the_lifetime_that_the_run_has(
    holdfast, place, server, tmp_path, monkeypatch, capfdbinary
):
    """Also where the object is gone: `repair`, `clean` and the upload of a rest ask the configuration."""
    holdfast("run", steady(tmp_path, server, 2, lease="2m"), "--run-dir", place.url, code=0)
    watched = []
    monkeypatch.setattr(RemoteLease, "_watch", lambda _, __, lifetime, ___: watched.append(lifetime))
    rest = max(place.segments())
    commands = {
        "repair": ("repair", place.url),
        "rest": ("resume", place.url),
        "clean": ("clean", place.url, "--local"),
    }
    for name, words in commands.items():
        if name == "rest":
            place.delete(rest)
        place.delete(LEASE_KEY)
        watched.clear()
        assert call(capfdbinary, *words).code == 0, name
        assert (name, watched[:1]) == (name, [120.0])
        assert (name, json.loads(place.read(LEASE_KEY))["lifetime"]) == (name, 120.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_recovery_30_an_error_of_our_own_in_the_lease_ends_the_session(place, monkeypatch):
    """Nobody would renew it any more: a pause would last for ever."""
    real = RemoteLease._renewed_tag

    def renewed_tag(self):
        if threading.current_thread().name == "holdfast-lease":
            raise TypeError("None is not a lease")
        return real(self)

    async def solve(_):
        await asyncio.sleep(20)
        return "done"

    monkeypatch.setattr(RemoteLease, "_renewed_tag", renewed_tag)
    task = Task(name="t", samples=[Sample("q", target="done")], solver=solve, scorers=exact())
    with pytest.raises(StorageFailure, match="error in holdfast: TypeError: None is not a lease"):
        evaluate(task, ["scripted/echo"], run=place.url, runner={"lease": 1.5})


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("panicked"),
        ValueError("not a date"),
        KeyError("e_tag"),
        TypeError("None"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        TimeoutError(),
        obstore.exceptions.JoinError("cancelled"),
        obstore.exceptions.NotSupportedError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_recovery_30_the_uploader_survives_what_its_library_raises(place, tmp_path, monkeypatch, error):
    """Whatever it is: the reason is noted, and the next round uploads."""
    session = create_run(tmp_path / "r", SessionContents(name="r", config={}, planned=1))
    store = ObjectStore(place.url)
    uploads = UploadSet(store, Layout(tmp_path / "r"))
    uploader = Uploader(uploads, UploadSchedule(0.05))

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(store._obstore, "put", fail)
    uploader.start(session.sink.journal)
    until(uploader.failures.all, "a failure is noted")
    assert uploader._thread.is_alive() and uploader.lag.reason
    monkeypatch.undo()
    assert uploader.flush(30)
    uploader.stop()
    session.abandon()
    assert place.segments()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("durability", ["local", "remote"])
def test_recovery_30_an_error_of_our_own_ends_the_session(place, monkeypatch, durability):
    """It is no failing store, and would come again for ever: the message names it, and where the records are."""
    real, rounds = UploadSet.upload, []

    def upload(self, **how):
        rounds.append(1)
        if len(rounds) > 1:
            raise TypeError("None is not a segment")
        real(self, **how)

    async def solve(trial):
        await asyncio.sleep(30 if trial.sample.id == "late" else 0)
        return "done"

    monkeypatch.setattr(UploadSet, "upload", upload)
    task = Task(
        name="t",
        samples=[Sample("q", target="done", id=name) for name in ("first", "late")],
        solver=solve,
        scorers=exact(),
    )
    with pytest.raises(StorageFailure, match="error in holdfast: TypeError: None is not a segment") as ended:
        evaluate(task, ["scripted/echo"], run=place.url, runner={"upload_interval": 0.2, "durability": durability})
    assert len(rounds) == 2
    assert str(spool_of(place)) in str(ended.value) and f"holdfast resume {place.url}" in str(ended.value)


# 31, 22b: the pause.


@pytest.mark.parametrize(("lifetime", "tries"), [(1.5, 22), (30.0, 20), (600.0, 46)])
def test_recovery_31_renewals_that_fail_come_in_growing_pauses(lifetime, tries):
    """Never longer than 15 seconds or a third of the lifetime, and once shortly before the deadline."""
    pauses, at, seen = RenewalPauses(lifetime), 0.0, []
    at += pauses.usual
    while at < lifetime + (9 if lifetime < 10 else 120):
        seen.append(at)
        at += pauses.after_failure(lifetime - at)
    steps = [later - earlier for earlier, later in itertools.pairwise(seen)]
    assert all(step > 0 for step in steps) and max(steps) <= 15.0
    assert any(0.8 * lifetime <= moment < lifetime for moment in seen)
    assert len(seen) <= tries
    assert pauses.after_success() == pauses.usual and pauses.after_failure(lifetime) == min(0.5, lifetime / 3)


@pytest.mark.parametrize("durability", ["local", "remote"])
@pytest.mark.parametrize("mode", ["dead", "503"])
def test_recovery_31_a_session_pauses_at_the_end_of_its_lease(
    holdfast, place, proxy, server, tmp_path, mode, durability
):
    """Nothing new is sent, calls in flight are kept, `status` and progress say since when, and it resumes by itself."""
    runner = {"lease": LEASE, "durability": durability, "log_interval": 0.2}
    started = holdfast.start("run", steady(tmp_path, server, 60, **runner), "--run-dir", place.url)
    server.wait_for(answered=6)
    spool = spool_of(place)
    proxy.mode = mode
    until(lambda: "Paused: " + PAUSED in started.told(), "it pauses")
    stopped_at = server.wait_until_idle()["received"]
    until(lambda: lag_of(holdfast, spool)["paused_since"], "other processes know")
    said = " ".join(holdfast("status", spool, code=0).out.split())
    assert "resumes when the store answers" in said and "UTC" in said.partition(PAUSED)[2]
    assert f"paused: {PAUSED}" in started.told()
    assert server.state()["received"] == stopped_at < 60
    proxy.mode = "pass"
    ended = started.wait()
    assert (ended.code, "60 of 60" in ended.out) == (0, True), ended
    assert server.state()["received"] == 60
    assert lag_of(holdfast, spool)["paused_since"] == ""
    assert len(holdfast.records(place.url, "session")) == 1


@pytest.mark.parametrize("durability", ["local", "remote"])
def test_recovery_31_ctrl_c_while_it_is_paused(holdfast, place, proxy, server, tmp_path, durability):
    """It ends at once, with 130; what was in flight is in the spool, the words say so, and a resume asks none of it."""
    eval_file = steady(tmp_path, server, 20, lease=LEASE, durability=durability)
    server.behave(hold=True, **{"pass": 4})
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--json")
    server.wait_for(answered=4, in_flight=2)
    spool = spool_of(place)
    proxy.mode = "dead"
    until(lambda: "Paused: " + PAUSED in started.told(), "it pauses")
    server.behave()
    server.wait_for(answered=6)
    time.sleep(0.3)
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130, ended
    found = ended.json
    assert (found["uploaded"], found["ended_as"], found["exit_code"]) == (False, "interrupted", 130)
    assert f"safe in {spool}" in found["not_uploaded"] and f"holdfast resume {place.url}" in found["not_uploaded"]
    assert "results since then are in the spool" in ended.err
    assert server.state()["received"] == 6
    proxy.mode = "pass"
    assert "20 of 20" in holdfast("resume", place.url, code=0).out
    assert server.state()["received"] == 20


def test_recovery_31_the_lease_says_how_long_it_lasts(place):
    """A taker waits for the lifetime in the object, not for its own."""
    first = RemoteLease(ObjectStore(place.url), lifetime=2.0)
    published = msgspec.json.decode(place.read(LEASE_KEY), type=PublishedLease)
    first._stop.set()
    other = msgspec.structs.replace(published.holder, boot="another")
    place.write(LEASE_KEY, msgspec.json.encode(msgspec.structs.replace(published, holder=other)))
    began = time.monotonic()
    # A minute of its own, of which nothing is waited.
    second = RemoteLease(ObjectStore(place.url), above=1, lifetime=60.0)
    assert time.monotonic() - began >= 2.0
    assert json.loads(place.read(LEASE_KEY))["lifetime"] == 60.0
    assert second.session == 2
    second.release()


def test_recovery_31_a_taker_outlasts_a_store_that_fails_for_a_moment(place, proxy):
    """What it did not see it does not count as silence; once the store answers, it looks again."""
    first = RemoteLease(ObjectStore(place.url), lifetime=1.0)
    first._stop.set()
    published = msgspec.json.decode(place.read(LEASE_KEY), type=PublishedLease)
    other = msgspec.structs.replace(published.holder, boot="another")
    place.write(LEASE_KEY, msgspec.json.encode(msgspec.structs.replace(published, holder=other)))
    asked = len(proxy.requests)

    def fault(method, _path):
        return "404" if method == "GET" and asked + 3 <= len(proxy.requests) <= asked + 9 else ""

    proxy.fault = fault
    second = RemoteLease(ObjectStore(place.url), above=1, lifetime=1.0)
    assert second.is_held()
    second.release()


# 32: not uploaded.


def test_recovery_32_what_is_not_uploaded_is_exit_code_5(holdfast, place, proxy, server, tmp_path):
    """The scores are printed, where the rest is and how to upload it; so does a resume that cannot; then one can."""
    eval_file = steady(tmp_path, server, 12, lease="10m", upload_interval=3600)
    started = holdfast.start("run", eval_file, "--run-dir", place.url, "--json")
    server.wait_for(answered=2)
    until(place.segments, "the session is known to the store")
    spool = spool_of(place)
    proxy.mode = "read-only"
    until(lambda: "session_end" in _types(holdfast, spool), "all are finished")
    ended = started.wait()
    found = ended.json
    assert (ended.code, found["exit_code"], found["uploaded"], found["state"]) == (5, 5, False, "complete"), ended
    assert found["finished"] == 12 and found["tasks"]["t"]["m"]["metrics"]["exact"]
    said = f"safe in {spool}: 2 segments"
    assert said in ended.err and f"Upload them with: holdfast resume {place.url}" in ended.err
    again = holdfast("resume", place.url, code=5)
    assert "safe in" in again.err and f"holdfast resume {place.url}" in again.err
    proxy.mode = "pass"
    assert holdfast.json("resume", place.url, code=0)["uploaded"] is True
    assert server.state()["received"] == 12
    place.lose_machine()
    assert holdfast.json("status", place.url)["finished"] == 12


def _types(holdfast, spool):
    return {record["type"] for record in map(json.loads, holdfast("cat", spool).out.splitlines())}


# 42: pauses grow at the end.


def test_recovery_42_a_store_that_refuses_at_the_end_is_not_hammered(place, proxy, tmp_path):
    """Ten seconds of refusals: a few dozen requests at most."""
    session = create_run(tmp_path / "r", SessionContents(name="r", config={}, planned=1))
    uploader = Uploader(UploadSet(ObjectStore(place.url), Layout(tmp_path / "r")), UploadSchedule(0.1))
    proxy.mode = "read-only"
    uploader.start(session.sink.journal)
    until(lambda: uploader.lag.reason, "it fails")
    session.sink.journal.close()
    asked = len(proxy.requests)
    uploader.finish(10)
    uploader.stop()
    assert 3 <= len(proxy.requests) - asked <= 36
    assert "403" in uploader.left_text() and "safe in" in uploader.left_text()
    session.abandon()


# 43: the clock.


def test_recovery_43_a_clock_that_the_store_refuses_is_named(holdfast, place, proxy, server, tmp_path):
    """S3 answers 403, which would be the keys otherwise: the clock is named, and by how much it differs."""
    proxy.mode = "skewed"
    ended = holdfast("run", fast_eval(tmp_path, server, 2), "--run-dir", place.url, code=5)
    assert "the clock of this machine differs from the store's by 2h00m" in ended.err
    assert "Set the clock of this machine." in ended.err and "keys" not in ended.err


@pytest.mark.parametrize(("apart", "words"), [(7230, "2h00m ahead of"), (-7230, "2h00m behind"), (20, "")])
def test_recovery_43_a_clock_that_a_store_accepts_is_named_too(place, monkeypatch, apart, words):
    """Ages of runs would be wrong: a warning says so. The lease itself rests on no wall clock."""
    lease = RemoteLease(ObjectStore(place.url), lifetime=60)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + apart)
    said = lease.clock_warning()
    assert (words in said) if words else not said
    lease.renew()
    assert lease.is_held()
    lease.release()


# 45: killed before the first renewal.


def test_recovery_45_a_session_killed_at_once_has_published_what_it_began_with(holdfast, place, server, tmp_path):
    """Its lease says how many trials are finished and planned, not 0 of 0."""
    server.behave(refuse_status=400, refuse_times=1, refuse_only=["q1"])
    holdfast("run", fast_eval(tmp_path, server, 8), "--run-dir", place.url, code=1)
    server.behave(hold=True)
    started = holdfast.start("resume", place.url)
    until(lambda: json.loads(place.read(LEASE_KEY))["session"] == 2, "it has the lease")
    server.wait_for(in_flight=1)
    started.send(signal.SIGKILL)
    started.wait()
    published = json.loads(place.read(LEASE_KEY))
    assert (published["finished"], published["planned"]) == (7, 8)
    shutil.rmtree(place.spool)
    (listed,) = holdfast.json("recover", "--list", place.url.rpartition("/")[0])["runs"]
    assert (listed["finished"], listed["planned"]) == (7, 8)
