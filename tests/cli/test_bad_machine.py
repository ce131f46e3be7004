"""Steps 26 and recovery 29: what a bad machine does to a run in mid-run, and a transcript that is lost in part."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time

import pytest

from cli_calls import call
from durable import begin_run, begin_session, commit, data_pieces, finish_trials, segment_paths
from evals import http_eval
from holdfast.run import RunReader, verify_run
from holdfast.run.core.records import AnswerRecord, ScoreRecord, Status, StepRecord, TrialRecord
from holdfast.storage.filesystem import RealFileSystem
from program import until


def test_steps_26_garbage_in_the_index_in_mid_run_is_rebuilt_and_nothing_is_lost(holdfast, server, tmp_path):
    """Another process writes over every file of the index again and again; exit 0, and each call was made once."""
    eval_file = http_eval(tmp_path, server.base_url, 60, concurrency_limit=4)
    server.behave(latency=0.03)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=4)
    deeds = 0
    while started.is_running:
        for path in [*(tmp_path / "r").glob(".index.sqlite*"), *(tmp_path / "r").glob("index.sqlite*")]:
            try:
                with path.open("r+b") as file:
                    file.write(os.urandom(8192))
            except OSError:
                continue
            deeds += 1
        time.sleep(0.02)
    ended = started.wait()
    assert deeds and ended.code == 0, ended
    assert set(server.worked_on().values()) == {1}
    assert holdfast.json("verify", "r", "--deep", code=0)["ok"]
    assert holdfast.json("status", "r")["finished"] == 60


class CountingFileSystem(RealFileSystem):
    """Counts what is opened and read."""

    def __init__(self):
        self.opened = self.read = 0

    def open(self, path):
        self.opened += 1
        inner, counted = super().open(path), self

        class File:
            size, sync, close = inner.size, inner.sync, inner.close

            def read_at(self, offset, size):
                data = inner.read_at(offset, size)
                counted.read += len(data)
                return data

        return File()


def opening_work(root):
    """How many files and bytes are read to open a run from nothing."""
    fs = CountingFileSystem()
    reader = RunReader(root, fs)
    assert len(reader.sessions)
    assert reader.damage() == []
    reader.close()
    return fs.opened, fs.read


def test_steps_26_a_thousand_sessions_on_one_run_open_with_work_that_grows_linearly(tmp_path, no_cache):
    """Ten times the sessions need about ten times the work, in files and in bytes; not a hundred times.

    Counted at 30 and 300 sessions, because what is linear there is linear at a thousand.
    """
    session = begin_run(tmp_path / "run", planned=3)
    finish_trials(session, "t1")
    session.abandon()
    work = {}
    for number in range(2, 301):
        begin_session(tmp_path / "run", planned=3).abandon()
        if number in {30, 300}:
            shutil.copytree(tmp_path / "run", tmp_path / f"copy-{number}")
            for path in (tmp_path / f"copy-{number}").glob("*index.sqlite*"):
                path.unlink()
            work[number] = opening_work(tmp_path / f"copy-{number}")
    assert work[300][0] <= work[30][0] * 13
    assert work[300][1] <= work[30][1] * 13, work


def read_only_place(directory):
    """A filesystem of its own, or None where this user may not mount one."""
    directory.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", str(directory)], capture_output=True, check=False)
    return directory if done.returncode == 0 else None


def test_steps_26_a_read_only_remount_in_mid_run_ends_the_session_with_exit_5(holdfast, server, tmp_path):
    """What was acknowledged before is there afterwards, and the run resumes once the disk can be written again."""
    place = read_only_place(tmp_path / "disk")
    if place is None:
        pytest.skip("no filesystem can be mounted here; tests/crash injects EROFS instead")
    try:
        eval_file = http_eval(tmp_path, server.base_url, 6, concurrency_limit=2)
        server.behave(hold=True, **{"pass": 2})
        started = holdfast.start("run", eval_file, "--run-dir", place / "r", "--json")
        server.wait_for(received=4, in_flight=2)
        # A descriptor that is open for writing forbids an ordinary remount; a disk that fails asks nobody.
        done = subprocess.run(["mount", "-o", "remount,ro", str(place)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("the kernel refuses to remount a filesystem that is in use; tests/crash injects EROFS instead")
        server.behave()
        ended = started.wait()
        assert ended.code == 5, ended
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        assert holdfast.json("status", place / "r")["finished"] >= json.loads(ended.out)["finished"]
        holdfast("resume", place / "r", code=0)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def lose_a_step(root):
    """Flips a bit in the frame with the reply of the first trial; the frame with its end is whole."""
    reader = RunReader(root)
    trial = reader.fold.find(next(iter(reader.fold.finished())))
    (step,), (end,) = reader.lines_of(trial, "step"), reader.lines_of(trial, "trial")
    reader.close()
    assert step.ident.seq < end.ident.seq
    path = segment_paths(root)[0]
    data = path.read_bytes()
    piece = next(piece for piece in data_pieces(data) if piece.seq == step.ident.seq)
    path.write_bytes(data[: piece.end - 1] + bytes([data[piece.end - 1] ^ 1]) + data[piece.end :])


def test_recovery_29_a_transcript_that_is_lost_in_part_is_counted_and_nothing_remains(tmp_path, capfdbinary):
    """status, report and verify say "transcript lost: 1 trial", as text and as JSON; the scores stand."""
    session = begin_run(tmp_path / "run", planned=2)
    for key in ("t1", "t2"):
        commit(session, StepRecord(trial=key, attempt=1, step="solve/1", result="reply"))
        commit(session, AnswerRecord(trial=key, attempt=1, text="answer"))
        commit(session, ScoreRecord(trial=key, attempt=1, scorer="exact", value=1.0))
        commit(session, TrialRecord(trial=key, attempt=1, status=Status.VALID, scores={"exact": 1.0}, calls=1))
    session.close("complete")
    lose_a_step(tmp_path / "run")
    for verb in ("status", "report", "verify"):
        text = call(capfdbinary, verb, tmp_path / "run")
        assert "transcript lost: 1 trial" in text.out, (verb, text)
        found = json.loads(call(capfdbinary, verb, tmp_path / "run", "--json").out)
        assert found["transcripts_lost"] == 1
        coverage = found.get("coverage", found)
        assert (coverage["valid"], coverage["remaining"]) == (2, 0)
    reader = RunReader(tmp_path / "run")
    assert len([item for item in verify_run(reader).damage if item.is_loss]) == 1
    reader.close()


def test_recovery_29_a_lost_transcript_is_made_again_on_request_and_only_then(holdfast, server, tmp_path):
    """A resume makes no call; `--redo 'transcript=lost'` makes those of the trial that has lost part of its own."""
    eval_file = http_eval(tmp_path, server.base_url, 3, concurrency_limit=1)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    lose_a_step(tmp_path / "r")
    lost = holdfast.json("status", "r")["transcripts_lost"]
    assert lost >= 1 and holdfast.json("status", "r")["remaining"] == 0
    holdfast("resume", "r", code=0)
    assert server.state()["received"] == 3
    holdfast("resume", "r", "--redo", "transcript=lost", code=0)
    assert server.state()["received"] == 3 + lost
    assert holdfast.json("status", "r")["transcripts_lost"] == 0


def test_a_session_at_work_is_not_taken_for_damaged(holdfast, server, tmp_path):
    """What it publishes while somebody reads is further than what was read."""
    server.behave(latency=0.02)
    session = holdfast.start("run", http_eval(tmp_path, server.base_url, 400, concurrency_limit=4), "--run-dir", "r")
    until((tmp_path / "r" / "journal").exists, "the run is there")
    looks = 0
    while session.is_running and looks < 25:
        holdfast("verify", "r", code=0)
        looks += 1
    assert session.wait().code == 0 and looks
