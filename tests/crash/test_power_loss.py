"""A power loss at any moment, leaving anything that the filesystem may leave, loses nothing that was acknowledged."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path

import pytest
import scenarios
from account import Account, examine
from gates import GatedFileSystem, Life
from power import PowerLoss

from holdfast.errors import StorageFailure
from holdfast.run import RunReader
from holdfast.run.core import codec
from holdfast.run.core.codec import encode
from holdfast.run.core.records import NoteRecord
from holdfast.storage.filesystem import RealFileSystem
from holdfast.testing import FaultyFileSystem, InjectedFault

SEED = 20261104


@pytest.fixture(autouse=True)
def small_blobs(monkeypatch, no_cache):
    """Records of a few hundred bytes are stored as blobs, and readers keep no index between two states."""
    monkeypatch.setattr(codec, "BLOB_BYTES", scenarios.BLOB_BYTES)


@pytest.mark.parametrize("workload", [scenarios.orderly, scenarios.abandoned, scenarios.joined])
def test_every_state_a_power_loss_may_leave_opens_with_all_that_was_acknowledged(memory_path, workload):
    """At every moment of two or three sessions, every legal state of the disk holds what was acknowledged, once."""
    loss = PowerLoss(memory_path, seed=SEED)
    workload(loss.fs, loss.root, loss.account)
    loss.check()
    operations = Counter(operation for operation, _ in loss.operations)
    print(f"{loss.moments} moments, {loss.examined} states; before {operations}")
    assert loss.moments > 60
    assert loss.examined > 200


def operations_of_a_session(directory: Path, work=scenarios.session_of) -> list[tuple[str, str]]:
    """What a session does to the disk, and to which file, in order; the same each time."""
    loss = PowerLoss(directory, seed=SEED, rate=0.0)
    work(loss.fs, loss.root, loss.account, "a", "b")
    return loss.operations


def kill_then_lose_power(
    directory: Path, operations: int, *, rate: float, per_moment: int, work=scenarios.session_of
) -> int:
    """A session dies after so many operations, and the next loses power at any of its own."""
    loss = PowerLoss(directory, seed=SEED + operations, per_moment=per_moment, rate=rate)
    loss.watching = False
    work(GatedFileSystem(loss.fs, Life(operations)), loss.root, loss.account, "a", "b")
    assert not loss.account.ends
    loss.watching = True
    work(loss.fs, loss.root, loss.account, "b", "c")
    loss.check()
    assert len(loss.account.ends) == 1
    return loss.examined


def kill_everywhere(directory: Path, **options) -> int:
    """As above, after every operation that a session has; how many states were examined."""
    work = options.get("work", scenarios.session_of)
    kills = range(len(operations_of_a_session(directory / "whole", work)) - 1)
    states = [kill_then_lose_power(directory / str(kill), kill, **options) for kill in kills]
    print(f"{len(states)} kills, {sum(states)} states")
    return sum(states)


def test_a_process_killed_at_any_operation_and_resumed_may_lose_power_at_any_later_one(memory_path):
    """What a killed process left unsynced, and the next one counted, is there after a power loss too."""
    assert kill_everywhere(memory_path, rate=0.04, per_moment=2) > 100


def test_a_session_of_two_writers_killed_at_any_operation_may_lose_power_at_any_later_one(memory_path):
    """As above, where each session has another writer beside its own."""
    assert kill_everywhere(memory_path, rate=0.04, per_moment=2, work=scenarios.joined_session_of) > 100


@pytest.mark.soak
def test_soak_a_process_killed_at_any_operation_may_lose_power_at_any_later_one_in_every_way(memory_path):
    """As above, at every moment, in many more ways."""
    assert kill_everywhere(memory_path, rate=1.0, per_moment=100) > 5000
    assert kill_everywhere(memory_path / "joined", rate=0.5, per_moment=30, work=scenarios.joined_session_of) > 2000


def fail_then_lose_power(directory: Path, nth: int, *, rate: float, per_moment: int, work=scenarios.session_of) -> int:
    """The n-th sync of a session fails; it and the next lose power at any moment."""
    loss = PowerLoss(directory, seed=SEED + nth, per_moment=per_moment, rate=rate)
    loss.missed = True
    fs = loss.over(lambda inner: FaultyFileSystem(inner, [InjectedFault("sync", nth, errno.EIO)]))
    work(fs, loss.root, loss.account, "a", "b")
    work(fs, loss.root, loss.account, "b", "c")
    loss.check()
    # A session outlives the disk of another writer, not that of its own.
    assert len(loss.account.ends) in ({1} if work is scenarios.session_of else {1, 2})
    return loss.examined


def fail_everywhere(directory: Path, **options) -> int:
    """As above, for every sync that a session has."""
    operations = operations_of_a_session(directory / "whole", options.get("work", scenarios.session_of))
    failures = range(1, sum(1 for operation, _ in operations if operation == "sync") + 1)
    states = [fail_then_lose_power(directory / str(nth), nth, **options) for nth in failures]
    print(f"{len(states)} failed syncs, {sum(states)} states")
    return sum(states)


def test_resume_51_frames_whose_sync_failed_are_counted_only_after_they_were_written_again(memory_path):
    """Any sync fails, a resume finds the bytes in memory and goes on, the power fails: nothing counted is lost."""
    assert fail_everywhere(memory_path, rate=0.07, per_moment=2) > 80


def test_frames_of_another_writer_whose_sync_failed_are_counted_only_after_they_were_written_again(memory_path):
    """Any sync of two writers fails; the end of their session counts what the other left, and the power fails."""
    assert fail_everywhere(memory_path, rate=0.1, per_moment=2, work=scenarios.joined_session_of) > 80


@pytest.mark.soak
def test_soak_any_sync_fails_and_the_power_at_any_later_moment(memory_path):
    """As above, at every moment, in many more ways."""
    assert fail_everywhere(memory_path, rate=1.0, per_moment=25) > 1000


def test_an_empty_segment_that_a_reader_saw_and_the_power_took_is_not_missed(memory_path, cache_home, monkeypatch):
    """Its name was not durable yet, and nothing was recorded in it: a reader that indexed it reports no loss."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    account = Account()
    root = memory_path / "run"
    session = scenarios.create(RealFileSystem(), root, account)
    account.carry_out(session, "a")
    session.abandon()
    segment = root / "journal" / "000001-0000-000009.open.jsonl.zst"
    segment.touch()
    RunReader(root).close()
    segment.unlink()
    examine(root, account)


def test_a_session_that_was_abandoned_writes_nothing_more(memory_path):
    """What still waited is dropped, and the next session finds a journal that nobody changes under it."""
    account = Account()
    root = memory_path / "run"
    session = scenarios.create(RealFileSystem(), root, account)
    for number in range(2000):
        session.sink.append(NoteRecord(kind="waiting", text=f"{number}"))
    session.abandon()
    before = {path.name: path.read_bytes() for path in (root / "journal").iterdir()}
    scenarios.resume(RealFileSystem(), root, account).abandon()
    after = {path.name: path.read_bytes() for path in (root / "journal").iterdir()}
    assert before.items() <= after.items()
    with pytest.raises(StorageFailure, match="released"):
        session.sink.journal.queue.commit(encode(NoteRecord(kind="late", text="too late")))
