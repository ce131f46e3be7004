"""Several processes write for a session whose run is in a store: the holder uploads for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from durable import commit, finish_trials, verified
from holdfast.run import (
    RunReader,
    SessionContents,
    WriterOptions,
    create_run,
    join_session,
    open_session,
    session_record,
)
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.core.records import PlanEntry, ScoreRecord, Status, TrialRecord
from holdfast.run.remote.recover import recover
from holdfast.run.remote.upload_schedule import UploadSchedule
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.remote.uploader import Uploader
from holdfast.run.session.store_copy import StoreCopy
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.object_store import ObjectStore
from program import until

SCRIBE = Path(__file__).parent.parent / "crash" / "scribe.py"


@pytest.fixture
def plan():
    """No plan at all."""
    return []


def in_store(place, begin):
    """A session of a run in the store, in which trials count only once they are there; `begin` gives it its writer."""
    store, root = ObjectStore(place.url), spool_root(place.url)
    lease = RemoteLease(store)
    uploader = Uploader(UploadSet(store, Layout(root)), UploadSchedule(0.1))
    begun = begin(root, writer=WriterOptions(on_sealed=uploader.sealed))
    Layout(root).remote.write_text(place.url + "\n")
    begun.attach_store(StoreCopy(lease, uploader, counts_when_uploaded=True))
    return begun


def contents_of(plan):
    return SessionContents(name="r", config={}, plan=plan, planned=sum(entry.planned for entry in plan))


@pytest.fixture
def session(place, plan):
    """The first session of a run in the store."""
    begun = in_store(place, partial(create_run, contents=contents_of(plan)))
    yield begun
    begun.abandon()


def test_a_trial_of_another_writer_counts_when_the_segment_of_that_writer_is_up(session, monkeypatch):
    """Whatever the store has of the holder's own frames; the writer and the holder say the same."""
    joined = join_session(session.layout.root, 1, session.admit_writer())
    sealing = joined._journal.roll
    monkeypatch.setattr(joined._journal, "roll", lambda: None)
    counted = []
    events = {"of-0": asyncio.Event(), "of-1": asyncio.Event()}

    def count(name):
        counted.append(name)
        events[name].set()

    async def work():
        await joined.sink.keep(TrialRecord(trial="of-1", attempt=1, status=Status.VALID))
        joined.sink.when_counted(partial(count, "of-1"))
        for place in range(5):
            await session.sink.keep(TrialRecord(trial=f"of-0-{place}", attempt=1, status=Status.VALID))
        session.sink.when_counted(partial(count, "of-0"))
        await events["of-0"].wait()
        assert session.uploader.uploaded_seq(0) > joined.sink.journal.last_seq
        assert session.uploader.uploaded_seq(1) == 0
        counts = session.counts.now()
        assert (counts.valid, counts.remaining_by_reason.get("not uploaded")) == (5, 1)
        assert session.counts.finished_among(lambda _: True) == 5
        assert counted == ["of-0"]
        monkeypatch.setattr(joined._journal, "roll", sealing)
        await events["of-1"].wait()

    asyncio.run(asyncio.wait_for(work(), 60))
    assert session.uploader.uploaded_seq(1) == joined.sink.journal.last_seq
    assert session.counts.now().valid == 6
    joined.close()
    assert session.close("complete").valid == 6


def trial_end(attempt=1, **scores):
    return TrialRecord(trial="t1", attempt=attempt, status=Status.VALID, task="t", model="m", scores=scores)


def late_score():
    return ScoreRecord(trial="t1", attempt=1, scorer="added", task="t", model="m", value=1.0)


def until_confirmed(session, ident):
    until(lambda: session.uploader.uploaded_seq(ident.writer) >= ident.seq, "it is in the store")


SCORED_TWICE = pytest.mark.parametrize("plan", [[PlanEntry("t", "m", 1, ["exact", "added"])]], ids=["two scorers"])


@SCORED_TWICE
@pytest.mark.parametrize("by", ["holder", "joined"])
def test_a_trial_that_an_added_scorer_completes_counts_when_that_score_is_up(session, monkeypatch, by):
    """Its end has been in the store for long; without the score it is not finished there."""
    until_confirmed(session, commit(session, trial_end(exact=1.0)))
    assert session.counts.now().remaining_by_reason == {"not scored": 1}
    scoring = session if by == "holder" else join_session(session.layout.root, 1, session.admit_writer())
    with monkeypatch.context() as patch:
        patch.setattr(scoring.sink.journal, "roll", lambda: None)
        score = commit(scoring, late_score())
        counts = session.counts.now()
        assert (counts.valid, counts.remaining_by_reason) == (0, {"not uploaded": 1})
        assert session.counts.finished_among(lambda _: True) == 0
    until_confirmed(session, score)
    assert (session.counts.now().valid, session.counts.finished_among(lambda _: True)) == (1, 1)


@SCORED_TWICE
@pytest.mark.parametrize("is_scored", [True, False])
def test_a_further_attempt_counts_before_it_is_up_if_the_one_before_has_every_score(
    place, plan, monkeypatch, is_scored
):
    """A result that the store has is not lost to one that it has not; half a result is none."""

    def next_record(reader, number, pins):
        return session_record(reader.run.hex(), number, pins, contents_of(plan))

    def begin(root, writer):
        first = create_run(root, contents_of(plan))
        commit(first, trial_end(exact=1.0))
        if is_scored:
            commit(first, late_score())
        first.close("complete")
        return open_session(root, next_record, writer=writer)

    session = in_store(place, begin)
    with contextlib.ExitStack() as undo:
        undo.callback(session.abandon)
        monkeypatch.setattr(session.sink.journal, "roll", lambda: None)
        commit(session, trial_end(2, exact=1.0, added=0.0))
        assert session.counts.now().valid == (1 if is_scored else 0)
        assert session.counts.on_record()[0].valid == 1


def test_what_a_killed_process_left_is_up_when_the_session_has_ended(session, place, tmp_path):
    """Also the segment that it had not sealed: the session's end, in the store, vouches for it."""
    number = session.admit_writer()
    told = tmp_path / "told"
    with told.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(SCRIBE), str(session.layout.root), str(number), "1"], stdin=subprocess.PIPE, stdout=out
        )
    try:
        until(lambda: told.read_text().count("trial ") > 20, "the process has written")
        finish_trials(session, "own")
    finally:
        process.kill()
        process.communicate()
    names = {
        name for line in told.read_text().splitlines(keepends=True) if line.endswith("\n") for name in line.split()
    }
    names -= {"trial", "session", "1"}
    session.close("complete")
    assert list((session.layout.root / "journal").glob("000001-0001-*.open.jsonl.zst"))
    place.lose_machine()
    recovered = recover(place.url, tmp_path / "home")
    assert not recovered.warnings
    assert verified(tmp_path / "home").ok
    with contextlib.closing(RunReader(tmp_path / "home")) as reader:
        finished = set(reader.fold.finished())
        assert reader.ends[0].finished == len(finished)
    assert {"own", *names} <= finished


def test_the_end_of_a_session_goes_up_after_all_that_it_vouches_for(session, place):
    """A machine that is lost between two uploads leaves nothing that vouches for what is not there."""
    joined = join_session(session.layout.root, 1, session.admit_writer(), options=WriterOptions(segment_bytes=100))
    for place_ in range(3):
        commit(joined, TrialRecord(trial=f"t{place_}", attempt=1, status=Status.VALID))
    joined.close()
    session.close("complete")
    uploads = UploadSet(ObjectStore(place.url), session.layout)
    uploads._uploaded.clear()
    order = [path.name.split(".")[0][7:] for path in uploads.missing()]
    assert order[:3] == ["0001-000001", "0001-000002", "0001-000003"]
    assert order[-1] == max(name for name in order if name.startswith("0000"))


def test_the_end_is_not_satisfied_by_a_round_that_began_before_it(session, place, monkeypatch):
    """Such a round has left out what was not sealed; nothing of that is missing when the uploads are finished."""
    joined = join_session(session.layout.root, 1, session.admit_writer())
    finish_trials(joined, "t1")
    joined.abandon()
    uploader, has_begun = session.uploader, threading.Event()
    upload = uploader._uploads.upload

    def upload_then_wait(*, everything):
        upload(everything=everything)
        if not everything:
            has_begun.set()
            until(uploader._wake.is_set, "somebody waits for this round")

    monkeypatch.setattr(uploader._uploads, "upload", upload_then_wait)
    assert has_begun.wait(30)
    uploader.finish()
    (left,) = (session.layout.root / "journal").glob("000001-0001-*.open.jsonl.zst")
    assert f"journal/{left.name}" in place.keys("")


def test_what_was_uploaded_before_anybody_listens_is_in_the_first_report(session, place):
    """The first round may be over before the engine asks for reports; no segment is left out of their sum."""
    until(place.segments, "the first segment is in the store")
    assert session.uploader.flush(60)
    reports = []
    session.uploader.report_uploads(lambda uploaded, behind, failure: reports.append((uploaded, behind, failure)))
    asyncio.run(asyncio.wait_for(session.sink.keep(TrialRecord(trial="t", attempt=1, status=Status.VALID)), 60))
    assert session.uploader.flush(60)
    assert sum(uploaded for uploaded, _, _ in reports) == len(place.segments())
