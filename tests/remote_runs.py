"""Runs in a store for the tests to recover: cut short with their machine, or large."""

from __future__ import annotations

import base64
import hashlib
import random
import shutil
import signal

import pytest

from durable import commit
from evals import fast_eval as fast
from holdfast.run import SessionContents, create_run
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Status, StepRecord, TrialRecord
from holdfast.run.remote.upload_set import UploadSet
from holdfast.storage.object_store import ObjectStore
from program import until


def tree(root):
    """Every file below a directory, with its bytes and the time it was written."""
    return {
        str(path.relative_to(root)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def cut_short(holdfast, place, server, tmp_path):
    """A run of 8 trials whose machine is lost after 5, once those are up."""
    server.behave(hold=True, **{"pass": 5})
    started = holdfast.start("run", fast(tmp_path, server, 8), "--run-dir", place.url, "--set", "lease=1.5")
    until(lambda: place.published() == 5, "the count is published")
    until(place.is_up_to_date, "five are up")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    place.lose_machine()
    return place


def upload(place, root, transcripts):
    """A run of one trial for each transcript, made here, uploaded, and deleted here."""
    session = create_run(root, SessionContents(name="large", config={}, planned=len(transcripts)))
    for number, size in enumerate(transcripts):
        noise = random.Random(number).randbytes(size * 3 // 4)
        text = base64.b64encode(noise).decode()
        trial = f"{number:020x}"
        session.sink.append(
            StepRecord(trial=trial, attempt=1, step="generate:x#1", name="generate", result={"text": text})
        )
        commit(
            session, TrialRecord(trial=trial, attempt=1, status=Status.VALID, task="t", model="m", scores={"s": 1.0})
        )
    session.close("completed")
    return send_away(place, root)


def send_away(place, root):
    """Uploads a run and deletes it here; its size."""
    UploadSet(ObjectStore(place.url), Layout(root)).upload(everything=True)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    shutil.rmtree(root)
    return size
