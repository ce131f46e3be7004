"""Recovery 44: how many objects a long run has."""

from __future__ import annotations

import resource
import shutil

import pytest

from durable import commit
from holdfast.run import SessionContents, create_run
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Status, TrialRecord
from holdfast.run.remote.upload_schedule import UploadSchedule
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.remote.uploader import Uploader
from holdfast.run.session.writer_options import WriterOptions
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.object_store import ObjectStore
from object_store import BUCKET

DAY = 24 * 3600


class Simulated:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rounds(seconds, *arguments, **options):
    """When a session that uploads without failures does so, in this many seconds."""
    clock = Simulated()
    schedule = UploadSchedule(*arguments, clock=clock, **options)
    found = []
    while clock.now - 1000.0 < seconds:
        found.append(clock.now - 1000.0)
        clock.now += schedule.pause(succeeded=True)
    return found


@pytest.mark.parametrize(
    ("interval", "grows", "expected"),
    [(None, True, 120 + (DAY - 600) // 60), (None, False, DAY // 5), (5.0, True, DAY // 5), (30.0, True, DAY // 30)],
    ids=["local", "remote", "set to 5", "set to 30"],
)
def test_recovery_44_the_interval_grows_unless_it_is_set(interval, grows, expected):
    """5 s in the first ten minutes, then a minute, where a trial counts once it is on this machine's disk."""
    found = rounds(DAY, interval, grows=grows)
    assert len(found) == expected
    assert found[:3] == [0.0, interval or 5.0, 2 * (interval or 5.0)]


def test_recovery_42_the_pauses_after_failures_grow():
    """From half a second to half a minute; a success ends that."""
    schedule = UploadSchedule(5.0)
    pauses = [schedule.pause(succeeded=False) for _ in range(9)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert schedule.pause(succeeded=True) == 5.0
    assert schedule.pause(succeeded=False) == 0.5


def simulate_day(place, root, *, most=None):
    """A session of 24 hours that finishes a trial between any two uploads, uploaded to the real server; its rounds."""
    clock, sealed = Simulated(), []
    writer = WriterOptions(on_sealed=lambda *segment: sealed.append(segment))
    session = create_run(root, SessionContents(name="day", config={}, planned=DAY), writer=writer)
    uploader = Uploader(UploadSet(ObjectStore(place.url), Layout(root)), UploadSchedule(grows=True, clock=clock))
    uploader._journal = session.sink.journal
    number = 0
    while clock.now < 1000.0 + DAY and (most is None or number < most):
        number += 1
        record = TrialRecord(trial=f"{number:020x}", attempt=1, status=Status.VALID, task="t", model="m")
        commit(session, record)
        assert uploader._round()
        clock.now += uploader._schedule.pause(succeeded=True)
    uploader._journal = None
    session.close("completed")
    uploader._uploads.upload(everything=True)
    return number


def test_recovery_44_one_object_for_each_upload(holdfast, place, proxy, tmp_path):
    """The first hour of a day: as many objects as uploads, and one for the end. A reader lists them once."""
    count = simulate_day(place, tmp_path / "r", most=170)
    assert count == 170
    assert len(place.segments()) == count + 1
    shutil.rmtree(tmp_path / "r")
    # That a lease is missing would be looked up in a listing of its own.
    RemoteLease(ObjectStore(place.url)).release()
    proxy.requests.clear()
    assert holdfast.json("status", place.url)["finished"] == count
    listings = [path for _, method, path in proxy.requests if method == "GET" and path == f"/{BUCKET}"]
    assert len(listings) == 1


@pytest.mark.soak
def test_recovery_44_a_day_has_about_1500_objects_and_status_is_quick(holdfast, place, tmp_path):
    """24 hours at the defaults: the objects of the run, and the CPU seconds of a cold `status` by its URL."""
    count = simulate_day(place, tmp_path / "r")
    assert 1500 <= len(place.segments()) <= 1600, count
    shutil.rmtree(tmp_path / "r")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = holdfast.start("status", place.url, "--json").wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.json["finished"] == count
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{len(place.segments())} objects: a cold status took {spent:.2f} s of CPU")
