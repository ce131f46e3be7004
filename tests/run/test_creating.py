"""Creating a run: all of it is there, or nothing is; resume 29."""

from __future__ import annotations

import errno
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from durable import begin_run, begin_session, finish_trials, read_run, verified
from held_disk import PATIENCE_SECONDS, HeldDisk
from holdfast.errors import RunHeld, StorageFailure, UsageError
from holdfast.journal import BLOB_BYTES, BlobStore
from holdfast.run import RunReader, SessionContents, create_run
from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.records import NoteRecord, Status, StepRecord, TrialRecord
from holdfast.storage import RealFileSystem, take_lease
from holdfast.testing import FILESYSTEM_OPERATIONS, FaultyFileSystem, InjectedFault


def test_a_new_run_holds_its_session_and_its_inputs(tmp_path):
    """Configuration, inputs and plan are in the first record; the inputs are stored by their content."""
    source = tmp_path / "data.jsonl"
    source.write_bytes(b"x" * 3_000_000)
    session = create_run(
        tmp_path / "deep" / "er" / "run",
        SessionContents(name="capitals", config={"seed": 7}, planned=3),
        inputs={"prompt": b"hello", "data": SourceFile(source, raw="d1")},
    )
    record = RunReader(session.layout.root).sessions[0]
    assert (record.number, record.name, record.config, record.planned) == (1, "capitals", {"seed": 7}, 3)
    assert record.run == session.run.hex()
    assert {name: (item.size, item.raw) for name, item in record.inputs.items()} == {
        "prompt": (5, ""),
        "data": (3_000_000, "d1"),
    }
    for item in record.inputs.values():
        assert session.reader.inputs.check(item.digest, item.size) is None
    assert (session.layout.inputs / record.inputs["data"].digest).read_bytes() == source.read_bytes()
    with pytest.raises(RunHeld):
        take_lease(RealFileSystem(), session.layout.root)
    session.close("complete")
    assert verified(session.layout.root).inputs == 2


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_run_may_begin_with_records(tmp_path, count):
    """What it begins with is durable, in order and behind its session, before it has its name; large records too."""
    records = [
        StepRecord(trial="t1", attempt=1, step="s", result="x" * BLOB_BYTES),
        TrialRecord(trial="t1", attempt=1, status=Status.VALID),
        NoteRecord(kind="k", text="last"),
    ][3 - count :]
    disk = HeldDisk()
    session = create_run(tmp_path / "run", SessionContents(name="n", config={}), preload=iter(records), fs=disk)
    found = [*session.reader.records_of("t1"), *(note for _, note in session.reader.notes())]
    assert found == records
    session.abandon()
    ids = [ident for ident, _ in read_run(tmp_path / "run").records]
    assert len(ids) == count + 1 and ids == sorted(ids)


def test_resume_29_a_directory_that_holds_a_run_is_refused_before_any_write(tmp_path):
    """The way out is named."""
    begin_run(tmp_path / "run").close("complete")
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*"))
    with pytest.raises(UsageError, match=r"already holds a run.*holdfast resume .*--or-resume") as refused:
        begin_run(tmp_path / "run")
    assert refused.value.exit_code == 2
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")) == before


def test_a_place_that_is_taken_is_refused_and_an_empty_directory_is_used(tmp_path):
    """Files of somebody else are never mixed with a run."""
    (tmp_path / "file").write_text("hello")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").write_text("hello")
    (tmp_path / "empty").mkdir()
    for name in ("file", "full"):
        with pytest.raises(UsageError, match="exists and is not an empty directory"):
            begin_run(tmp_path / name)
    begin_run(tmp_path / "empty").abandon()
    assert read_run(tmp_path / "empty").finished == []


def test_a_run_is_named_only_after_its_session_is_synced(tmp_path):
    """Bytes, then the directory, then the name, then the parent."""
    disk = HeldDisk()
    begin_run(tmp_path / "run", fs=disk).abandon()
    acts = disk.operations
    segment = "000001-0000-000001.open.jsonl.zst"
    named = acts.index(("rename", "run"))
    assert acts.index(("sync", segment)) < named
    assert [act for act in acts[:named] if act[0] == "sync_directory" and act[1].startswith(".run.creating-")]
    assert acts[named + 1] == ("sync_directory", tmp_path.name)


def test_a_run_has_no_name_while_its_session_is_being_synced(tmp_path):
    """Whoever looks at that moment finds nothing; afterwards a run."""
    disk = HeldDisk()
    disk.hold()
    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(begin_run, tmp_path / "run", fs=disk)
        disk.wait_for_sync()
        time.sleep(0.1)
        assert not (tmp_path / "run").exists()
        disk.let_through()
        creating.result(PATIENCE_SECONDS).abandon()
    assert read_run(tmp_path / "run").finished == []


@pytest.mark.parametrize("operation", sorted(set(FILESYSTEM_OPERATIONS) - {"remove", "read", "settle"}))
def test_whatever_fails_during_creation_leaves_nothing_or_a_run(tmp_path, operation):
    """Each operation in turn fails once: nothing under the run's name, or a run that opens; the next creation works."""
    for nth in range(1, 60):
        root = tmp_path / f"run-{operation}-{nth}"
        fault = InjectedFault(operation, nth, errno.ENOSPC)
        disk = FaultyFileSystem(RealFileSystem(), [fault])
        hint = "holdfast resume"
        try:
            create_run(root, SessionContents(name="n", config={}), inputs={"a": b"1"}, fs=disk).abandon()
        except StorageFailure as failure:
            hint = failure.hint
        if root.exists():
            assert "holdfast resume" in hint
            begin_session(root).abandon()
        else:
            begin_run(root).abandon()
            assert [path.name for path in tmp_path.iterdir() if path.name.startswith(f".{root.name}.")] == []
        if disk._counts[fault] < nth:
            break
    assert 1 < nth < 59


def test_what_a_killed_creation_left_is_removed_by_the_next(tmp_path):
    """Only what nobody is still building."""
    dead = tmp_path / ".run.creating-dead"
    dead.mkdir()
    alive = tmp_path / ".run.creating-alive"
    alive.mkdir()
    other = tmp_path / ".other.creating-dead"
    other.mkdir()
    lease = take_lease(RealFileSystem(), alive)
    begin_run(tmp_path / "run").abandon()
    assert (dead.exists(), alive.exists(), other.exists()) == (False, True, True)
    lease.release()


@pytest.mark.parametrize("before", ["journal", "blobs", "inputs", "artifacts"])
def test_a_place_that_another_creation_removes_while_it_is_made_is_made_again(tmp_path, before):
    """Resume 43: it has no lease yet, so another takes it for one that was killed; what is left of it is not used."""
    removed = []

    class Removed(RealFileSystem):
        def make_directory(self, path):
            if path.name == before and not removed:
                removed.append(path.parent)
                begin_run(tmp_path / "run", fs=RealFileSystem()).abandon()
                shutil.rmtree(tmp_path / "run")
                assert not path.parent.exists()
            super().make_directory(path)

    begin_run(tmp_path / "run", fs=Removed()).abandon()
    assert removed and [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_removed_creation_loses_its_name_first(tmp_path):
    """Resume 43: what its maker puts there while its files are deleted is not deleted with them."""
    dead = tmp_path / ".run.creating-dead"
    (dead / "journal").mkdir(parents=True)

    class MadeAgain(RealFileSystem):
        def remove_tree(self, path):
            if path.name.startswith(dead.name):
                (dead / "journal").mkdir(parents=True)
            super().remove_tree(path)

    begin_run(tmp_path / "run", fs=MadeAgain()).abandon()
    assert sorted(path.name for path in tmp_path.iterdir()) == [dead.name, "run"]
    assert (dead / "journal").exists()


def test_a_run_that_appears_meanwhile_is_not_overwritten(tmp_path):
    """Two creations of one run: the second is told that there is a run."""

    class Overtaken(RealFileSystem):
        def rename(self, old, new):
            if new == tmp_path / "run" and not new.exists():
                first = begin_run(new)
                finish_trials(first, "t1")
                first.abandon()
            super().rename(old, new)

    with pytest.raises(UsageError, match="already holds a run"):
        begin_run(tmp_path / "run", fs=Overtaken())
    assert read_run(tmp_path / "run").finished == ["t1"]


def test_the_same_content_is_stored_once(tmp_path):
    """A blob that is there and sound is not written again; a damaged one is."""
    disk = HeldDisk()
    store = BlobStore(disk, tmp_path)
    digest = store.put(b"content")
    created = disk.operations.count(("rename", digest))
    assert store.put(b"content") == digest
    assert disk.operations.count(("rename", digest)) == created == 1
    (tmp_path / digest).write_bytes(b"damaged")
    assert store.check(digest, 7) is not None
    store.put(b"content")
    assert store.check(digest, 7) is None
    assert disk.operations[-1] == ("sync_directory", tmp_path.name)


def test_a_file_is_stored_like_its_content(tmp_path):
    """A copy made a piece at a time has the same name, and its name is durable."""
    disk = HeldDisk()
    (tmp_path / "inputs").mkdir()
    store = BlobStore(disk, tmp_path / "inputs")
    source = tmp_path / "source"
    source.write_bytes(b"abc" * 1_000_000)
    assert store.put_file(source) == (store.put(source.read_bytes()), 3_000_000)
    again = len(disk.operations)
    store.put_file(source)
    assert disk.operations[again:] == [("sync_directory", "inputs")]


def test_a_blob_that_cannot_be_read_is_told(tmp_path):
    """An unreadable blob is damage, not an exception."""
    store = BlobStore(RealFileSystem(), tmp_path)
    digest = store.put(b"content")
    failing = BlobStore(FaultyFileSystem(RealFileSystem(), [InjectedFault("read", 1, errno.EIO)]), tmp_path)
    assert "cannot be read: Input/output error" in failing.check(digest, 7).detail
