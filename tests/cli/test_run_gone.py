"""Resume 77 and 78: a session notices that its lease or its run was moved, deleted or replaced, and stops.

Never two writers in silence; nothing of what took the old place is touched; nothing that is gone is called intact.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from evals import http_eval
from holdfast.errors import RunGone
from holdfast.run import create_run
from holdfast.run.core.records import NoteRecord
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.session.writer_options import WriterOptions
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.leases.holder import decode_holder
from program import stop_process, until


def holding(holdfast, server, directory, *, trials=8, finished=2, **keys):
    """A run with two finished trials and two calls in flight, and the process that executes it."""
    eval_file = http_eval(directory, server.base_url, trials, concurrency_limit=2, **keys)
    server.behave(hold=True, **{"pass": finished})
    started = holdfast.start("run", eval_file, "--run-dir", "r", "--json")
    server.wait_for(received=finished + 2, in_flight=2)
    return started


def content(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a directory: its bytes, and when it was last changed."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def ended_object(ended):
    return json.loads(ended.out)


@pytest.mark.parametrize("replies", ["held back", "flowing"])
@pytest.mark.parametrize("deed", ["deleted", "replaced"])
def test_resume_77_a_holder_whose_lease_file_is_gone_stops(holdfast, server, tmp_path, deed, replies):
    """Exit 5 with the reason, whether it waits for replies or is acknowledging; the run resumes, and loses nothing."""
    started = holding(holdfast, server, tmp_path)
    (tmp_path / "r" / "lease").unlink()
    if deed == "replaced":
        (tmp_path / "r" / "lease").write_bytes(b"")
    if replies == "flowing":
        server.behave()
    ended = started.wait()
    assert ended.code == 5, ended
    assert f"r/lease was {deed} while this session held its lock" in ended.err
    assert "intact" not in ended.err + ended.out
    server.behave()
    before = holdfast.json("status", "r")["finished"]
    assert before >= ended_object(ended)["finished"] >= 2
    holdfast("resume", "r", code=0)
    assert holdfast.json("verify", "r", code=0)["ok"]
    assert holdfast.json("status", "r")["finished"] == 8


def test_resume_77_a_second_session_beside_a_holder_without_its_lease_file_is_not_silent(holdfast, server, tmp_path):
    """The second takes the run, the first stops with exit 5; each trial counts once, and all are there."""
    started = holding(holdfast, server, tmp_path)
    (tmp_path / "r" / "lease").unlink()
    server.behave(latency=0.02)
    second = holdfast("resume", "r")
    first = started.wait()
    assert first.code == 5 and "another may be using the run" in first.err, first
    assert second.code == 0, second
    assert holdfast.json("verify", "r", "--deep", code=0)["ok"]
    status = holdfast.json("status", "r")
    assert (status["state"], status["finished"]) == ("complete", 8)


@pytest.mark.parametrize("content_", [b"", b"\xff\x00 garbage", b'{"host":"elsewhere"}\n'])
def test_resume_77_a_lease_file_with_other_content_still_keeps_the_run(holdfast, server, tmp_path, content_):
    """The lock counts, not the text: the second is refused with exit 4, and the holder is not disturbed."""
    started = holding(holdfast, server, tmp_path)
    (tmp_path / "r" / "lease").write_bytes(content_)
    assert holdfast.json("resume", "r", code=4)["kind"] == "held"
    server.behave()
    assert started.wait().code == 0
    assert set(server.worked_on().values()) == {1}


def test_resume_77_a_lease_file_that_nobody_may_open_any_more_does_not_stop_its_holder(holdfast, server, tmp_path):
    """Permissions were taken from the file: it is still the one that is locked."""
    started = holding(holdfast, server, tmp_path)
    (tmp_path / "r" / "lease").chmod(0)
    server.behave()
    assert started.wait().code == 0


def test_resume_78_a_run_that_was_moved_and_linked_back_is_still_there(holdfast, server, tmp_path):
    """A path that leads to the same files is the same place."""
    started = holding(holdfast, server, tmp_path)
    (tmp_path / "r").rename(tmp_path / "elsewhere")
    (tmp_path / "r").symlink_to(tmp_path / "elsewhere")
    server.behave()
    ended = started.wait()
    # In the instant between the two the session may have looked.
    assert ended.code in {0, 5}, ended
    holdfast("resume", "r")
    assert holdfast.json("status", "r")["finished"] == 8


@pytest.mark.parametrize("replies", ["held back", "flowing"])
def test_resume_78_a_run_that_was_moved_away_stops_and_names_its_new_place(holdfast, server, tmp_path, replies):
    """Exit 5; the message and the command name the new path, where everything that was synced is."""
    started = holding(holdfast, server, tmp_path)
    (tmp_path / "r").rename(tmp_path / "new place")
    if replies == "flowing":
        server.behave()
    ended = started.wait()
    assert ended.code == 5, ended
    assert f"was moved to {tmp_path}/new place while this session was using it" in ended.err
    assert not (tmp_path / "r").exists()
    assert ended_object(ended)["resume"] == f"holdfast resume '{tmp_path}/new place'"
    finished = holdfast.json("status", "new place")["finished"]
    assert finished >= ended_object(ended)["finished"]
    server.behave()
    holdfast("resume", "new place", code=0)
    assert holdfast.json("verify", "new place", "--deep", code=0)["ok"]


@pytest.mark.parametrize("replies", ["held back", "flowing"])
def test_resume_78_a_run_that_was_deleted_stops_and_calls_nothing_intact(holdfast, server, tmp_path, replies):
    """Exit 5; nothing is made in its place, no command to resume it is given, and its results are called lost."""
    started = holding(holdfast, server, tmp_path)
    shutil.rmtree(tmp_path / "r")
    if replies == "flowing":
        server.behave()
    ended = started.wait()
    assert ended.code == 5, ended
    assert "was deleted while this session was using it" in ended.err and "lost" in ended.err
    assert "intact" not in ended.err + ended.out and "holdfast resume" not in ended.err
    assert ended_object(ended)["resume"] is None
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("was", ["moved", "deleted"])
@pytest.mark.parametrize("other", ["complete", "running"])
def test_resume_78_another_run_at_the_old_path_is_not_touched(holdfast, server, tmp_path, was, other):
    """No byte and no time of any file of it changes by the session before, and its scores are not printed as theirs."""
    started = holding(holdfast, server, tmp_path)
    place = tmp_path / "r"
    stop_process(started.pid)  # so that it notices nothing before the other run is there
    if was == "moved":
        place.rename(tmp_path / "away")
    else:
        shutil.rmtree(place)
    server.behave()
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    if other == "running":
        # Held by a process of its own, as far as locks can say.
        import fcntl  # noqa: PLC0415

        lease = (place / "lease").open("rb")
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    before = content(place)
    started.send(18)
    ended = started.wait()
    assert ended.code == 5, ended
    assert f"Something else is at {place} now; nothing more is written there." in ended.err
    assert content(place) == before
    assert ended_object(ended)["tasks"] is None
    assert ended_object(ended)["finished"] < 8
    if other == "running":
        lease.close()
    assert holdfast.json("verify", "r", code=0)["ok"]


@pytest.mark.parametrize("replies", ["held back", "flowing"])
@pytest.mark.parametrize("deed", ["journal deleted", "segment deleted", "another journal", "empty journal"])
def test_resume_78_a_journal_that_is_gone_under_its_writer_stops_it(holdfast, server, tmp_path, deed, replies):
    """Nothing is acknowledged into a file that has no name; the counts are the session's own, and nothing is promised.

    Another run's journal in its place is neither counted nor changed.
    """
    create_run(tmp_path / "other", SessionContents(name="other", config={}, planned=5)).close("completed")
    started = holding(holdfast, server, tmp_path)
    journal = tmp_path / "r" / "journal"
    segment = next(journal.glob("*.open.jsonl.zst"))
    if deed == "segment deleted":
        segment.unlink()
    else:
        journal.rename(tmp_path / "gone")
    if deed == "another journal":
        shutil.copytree(tmp_path / "other" / "journal", journal)
    elif deed == "empty journal":
        journal.mkdir()
    before = content(journal)
    if replies == "flowing":
        server.behave()
    ended = started.wait()
    assert ended.code == 5, ended
    assert f"{segment} was moved, deleted or replaced while it was being written" in ended.err
    assert "intact" not in ended.err and "holdfast resume" not in ended.err
    result = ended_object(ended)
    assert (result["ended_as"], result["resume"], result["tasks"]) == ("run gone", None, None)
    assert (result["planned"], result["finished"]) == (8, 2)
    assert content(journal) == before


@pytest.mark.parametrize("pause", [0, 0.002, 0.01, 0.03, 0.1])
def test_resume_78_a_run_that_is_swapped_as_its_next_session_starts_is_not_written_to(
    holdfast, server, tmp_path, pause
):
    """Another run takes the path as soon as the lease names the process: exit 5, in words, at whatever moment."""
    holding(holdfast, server, tmp_path).kill()
    create_run(tmp_path / "other", SessionContents(name="other", config={}, planned=5)).close("completed")
    before = content(tmp_path / "other")
    server.wait_until_idle()
    server.behave(hold=True)
    started = holdfast.start("resume", "r", "--json")
    lease = tmp_path / "r" / "lease"
    until(lambda: f'"pid":{started.pid},'.encode() in lease.read_bytes(), "the run is held")
    time.sleep(pause)
    (tmp_path / "r").rename(tmp_path / "away")
    (tmp_path / "other").rename(tmp_path / "r")
    ended = started.wait()
    assert ended.code == 5 and "Traceback" not in ended.err, ended
    assert f"was moved to {tmp_path}/away" in ended.err + ended.out
    assert content(tmp_path / "r") == before
    assert holdfast.json("verify", "away", code=0)["ok"]


def test_resume_78_no_segment_blob_or_index_is_made_in_another_run(tmp_path):
    """Whatever a session does by name is done at its own place only: a new segment, a large record, the index."""
    root = tmp_path / "r"
    session = create_run(root, SessionContents(name="t", config={}, planned=1), writer=WriterOptions(segment_bytes=1))
    session.sink.append(NoteRecord(kind="k", text="kept"))
    root.rename(tmp_path / "away")
    create_run(root, SessionContents(name="other", config={}, planned=1)).close("completed")
    before = content(root)
    with pytest.raises(RunGone, match="was moved to"):
        session.sink.append(NoteRecord(kind="k", text="x" * (9 << 20)))
    with pytest.raises(RunGone):
        session.close("completed")
    session.abandon()
    assert content(root) == before
    take_lease(RealFileSystem(), tmp_path / "away").release()


def test_resume_78_evaluate_in_python_raises_what_happened(server, tmp_path):
    """The error is a storage failure that says where the run is."""
    import threading  # noqa: PLC0415

    from holdfast import Sample, Task, evaluate, generate  # noqa: PLC0415
    from holdfast.errors import StorageFailure  # noqa: PLC0415

    server.behave(hold=True)
    model = {"provider": "openai", "model": "counting", "base_url": server.base_url}

    def move():
        server.wait_for(in_flight=1)
        (tmp_path / "r").rename(tmp_path / "moved")

    mover = threading.Thread(target=move)
    mover.start()
    with pytest.raises(StorageFailure, match="was moved to"):
        evaluate(Task(samples=[Sample("q")], solver=generate(), scorers=[]), models={"m": model}, run=tmp_path / "r")
    mover.join()
    until(lambda: decode_holder((tmp_path / "moved" / "lease").read_bytes()) is None, "it was let go")
