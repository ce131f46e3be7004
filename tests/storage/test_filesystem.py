"""The one door to the disk: what every FileSystem keeps, and what the failing and the remembering one add."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.storage import RealFileSystem, crashpoints, write_atomically
from holdfast.storage.filesystem import read_bytes, sync_name
from holdfast.testing import (
    FILESYSTEM_OPERATIONS,
    FaultyFileSystem,
    FileNode,
    InjectedFault,
    RecordingFileSystem,
    crash_states,
    file_states,
    random_crash_state,
    torn_forms,
)


@pytest.fixture(params=["real", "faulty", "recording"])
def fs(request, tmp_path):
    real = RealFileSystem()
    wrapped = {"faulty": FaultyFileSystem(real, []), "recording": RecordingFileSystem(real, tmp_path)}
    return wrapped.get(request.param, real)


def put(fs, path, data):
    file = fs.create(path)
    file.write(data)
    file.sync()
    file.close()


def test_a_file_holds_what_was_written_and_is_created_once(fs, tmp_path):
    """Nothing is ever opened to be changed: a second creation is refused."""
    path = tmp_path / "file"
    file = fs.create(path)
    file.write(b"one ")
    file.write(b"two")
    file.sync()
    file.close()
    assert read_bytes(fs, path) == b"one two"
    with pytest.raises(FileExistsError):
        fs.create(path)
    reading = fs.open(path)
    assert (reading.size(), reading.read_at(4, 100), reading.read_at(9, 1)) == (7, b"two", b"")
    reading.sync()
    reading.close()


def test_names_are_made_listed_changed_and_removed(fs, tmp_path):
    """Directories are made with their parents; a listing is sorted."""
    fs.make_directory(tmp_path / "a" / "b")
    for name in ("z", "m", "c"):
        put(fs, tmp_path / "a" / name, b"x")
    fs.sync_directory(tmp_path / "a")
    assert fs.list(tmp_path / "a") == ["b", "c", "m", "z"]
    fs.rename(tmp_path / "a" / "m", tmp_path / "a" / "n")
    fs.remove(tmp_path / "a" / "z")
    assert fs.list(tmp_path / "a") == ["b", "c", "n"]
    fs.remove_tree(tmp_path / "a")
    assert fs.list(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        fs.open(tmp_path / "a" / "n")


def test_a_lock_is_held_by_one(fs, tmp_path):
    """A second taker gets nothing until the first lets go; a place that cannot be opened raises."""
    first = fs.lock(tmp_path / "lock")
    assert fs.lock(tmp_path / "lock") is None
    os.close(first)
    second = fs.lock(tmp_path / "lock")
    assert second is not None
    os.close(second)
    with pytest.raises(OSError, match="No such file"):
        fs.lock(tmp_path / "none" / "lock")


def test_a_filesystem_without_locks_says_so(tmp_path, monkeypatch):
    """The error is the kernel's, and no descriptor is left open."""

    def refuse(fd, flags):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("holdfast.storage.filesystem.fcntl.flock", refuse)
    before = open_files()
    with pytest.raises(OSError, match="No locks available"):
        RealFileSystem().lock(tmp_path / "lock")
    assert open_files() == before


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_write_goes_on_where_the_kernel_stopped(tmp_path, monkeypatch):
    """A short write is continued until every byte is in the file."""
    real = os.write
    monkeypatch.setattr("holdfast.storage.filesystem.os.write", lambda fd, data: real(fd, bytes(data)[:3]))
    put(RealFileSystem(), tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_file_is_replaced_whole_or_not_at_all(fs, tmp_path):
    """Whatever fails, the old content or the new is there; a leftover of this process is no obstacle."""
    path = tmp_path / "config.yaml"
    write_atomically(fs, path, b"old")
    put(fs, tmp_path / f".config.yaml.{os.getpid()}.tmp", b"leftover")
    write_atomically(fs, path, b"new")
    assert path.read_bytes() == b"new"
    assert fs.list(tmp_path) == ["config.yaml"]


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_replacement_that_fails_keeps_the_old_content(tmp_path, operation):
    """A full disk on the way changes nothing, and nothing half-written stays on it."""
    path = tmp_path / "config.yaml"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        write_atomically(FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, 1, errno.ENOSPC)]), path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["config.yaml"]


def test_a_file_that_shrinks_while_it_is_read_gives_what_is_left(tmp_path):
    """Reading ends where the bytes end."""
    (tmp_path / "file").write_bytes(b"12345")

    class Lying(RealFileSystem):
        def open(self, path):
            file = super().open(path)
            file.size = lambda: 100
            return file

    assert read_bytes(Lying(), tmp_path / "file") == b"12345"


def test_a_name_is_synced_unless_its_directory_is_not_ours(tmp_path):
    """An error of the disk is told; a directory that this user may not open is left alone."""
    sync_name(FaultyFileSystem(RealFileSystem(), [InjectedFault("sync_directory", 1, errno.EACCES)]), tmp_path / "x")
    with pytest.raises(OSError, match="Input/output"):
        sync_name(FaultyFileSystem(RealFileSystem(), [InjectedFault("sync_directory", 1, errno.EIO)]), tmp_path / "x")


@pytest.mark.parametrize("operation", FILESYSTEM_OPERATIONS)
def test_a_fault_strikes_the_nth_call_on_its_paths_and_no_other(tmp_path, operation):
    """Counted per fault, on paths that contain its word."""
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, 2, errno.EIO, "struck")])
    spared, struck = tmp_path / "spared", tmp_path / "struck"
    spared.mkdir()
    struck.mkdir()
    act(fs, operation, spared / "1")
    act(fs, operation, spared / "2")
    act(fs, operation, struck / "3")
    with pytest.raises(OSError, match="Input/output error"):
        act(fs, operation, struck / "4")
    act(fs, operation, struck / "5")
    if operation == "write":
        assert (struck / "4").read_bytes() == b"12"


def act(fs, operation, path):
    """Does one thing of each kind at a path that is used once."""
    old = path.with_name(f"old{path.name}")
    old.write_bytes(b"x")
    acts = {
        "create": lambda: fs.create(path).close(),
        "write": lambda: put(fs, path, b"1234"),
        "sync": lambda: put(fs, path, b"1234"),
        "rename": lambda: fs.rename(old, path),
        "remove": lambda: fs.remove(old),
        "make_directory": lambda: fs.make_directory(path),
        "sync_directory": lambda: fs.sync_directory(path.parent),
        "open": lambda: fs.open(old).close(),
        "read": lambda: fs.open(old).read_at(0, 1),
        "settle": lambda: fs.open(old).sync(),
        "list": lambda: fs.list(path.parent),
        "lock": lambda: os.close(fs.lock(path)),
    }
    acts[operation]()


def test_a_fault_may_strike_every_call(tmp_path):
    """Number 0 means always; an operation that does not exist is refused."""
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault("list", 0, errno.EIO)])
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            fs.list(tmp_path)
    (tmp_path / "tree").mkdir()
    fs.remove_tree(tmp_path / "tree")
    with pytest.raises(ValueError, match="no operation 'explode'"):
        FaultyFileSystem(RealFileSystem(), [InjectedFault("explode", 1, errno.EIO)])


@pytest.fixture
def recorded(tmp_path):
    return RecordingFileSystem(RealFileSystem(), tmp_path)


def states(fs):
    """Every state that a power loss may leave, in a comparable form."""
    return {tuple(sorted(state.items())) for state in crash_states(fs.tree)}


def test_a_power_loss_may_take_what_was_not_synced(recorded, tmp_path):
    """A file whose name is not synced may be gone; one whose bytes are not synced may hold any part of them."""
    file = recorded.create(tmp_path / "f")
    assert states(recorded) == {(), (("f", b""),)}
    recorded.sync_directory(tmp_path)
    assert states(recorded) == {(("f", b""),)}
    file.write(b"abcdef")
    contents = {dict(state)["f"] for state in states(recorded)}
    assert {b"", b"a", b"abcdef", bytes(6)} <= contents
    assert contents == set(file_states(recorded.tree.entries["f"]))
    file.sync()
    assert states(recorded) == {(("f", b"abcdef"),)}
    file.close()


def test_a_later_write_may_survive_an_earlier_one(recorded, tmp_path):
    """Over zeros, as on a real disk."""
    node = FileNode()
    node.durable = b"s"
    node.pending = [b"12", b"34"]
    found = set(file_states(node))
    assert {b"s", b"s12", b"s1234", b"s\x00\x0034", b"s1\x0034"} <= found
    assert b"s34" not in found
    assert all(state.startswith(b"s") for state in found)


def test_a_rename_that_is_not_synced_may_leave_either_name_or_both(recorded, tmp_path):
    """A file under two names has one content."""
    put(recorded, tmp_path / "old", b"x")
    recorded.sync_directory(tmp_path)
    recorded.rename(tmp_path / "old", tmp_path / "new")
    assert states(recorded) == {(("old", b"x"),), (("new", b"x"),), (("new", b"x"), ("old", b"x"))}
    recorded.sync_directory(tmp_path)
    assert states(recorded) == {(("new", b"x"),)}
    recorded.remove(tmp_path / "new")
    assert states(recorded) == {(), (("new", b"x"),)}


def test_a_directory_survives_with_what_is_in_it(recorded, tmp_path):
    """Names below a directory are its own to sync."""
    recorded.make_directory(tmp_path / "a" / "b")
    put(recorded, tmp_path / "a" / "b" / "f", b"x")
    assert () in states(recorded)
    for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        recorded.sync_directory(path)
    whole = (("a", None), ("a/b", None), ("a/b/f", b"x"))
    assert states(recorded) == {whole}
    recorded.make_directory(tmp_path / "a" / "c")
    recorded.remove_tree(tmp_path / "a")
    assert states(recorded) >= {(), whole}


def test_bytes_whose_sync_failed_are_never_vouched_for(tmp_path):
    """A later sync succeeds and makes nothing durable: the kernel has told its one error."""
    recorded = RecordingFileSystem(FaultyFileSystem(RealFileSystem(), [InjectedFault("sync", 1, errno.EIO)]), tmp_path)
    file = recorded.create(tmp_path / "f")
    recorded.sync_directory(tmp_path)
    file.write(b"ab")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert (("f", b""),) in states(recorded)
    file.close()


def test_a_reader_that_syncs_makes_bytes_durable(recorded, tmp_path):
    """A sync by somebody who only reads counts like the writer's."""
    file = recorded.create(tmp_path / "f")
    file.write(b"ab")
    recorded.sync_directory(tmp_path)
    reading = recorded.open(tmp_path / "f")
    reading.sync()
    assert states(recorded) == {(("f", b"ab"),)}
    reading.close()
    file.close()


def test_a_watcher_sees_every_operation(recorded, tmp_path):
    """Each moment can be looked at."""
    seen = []
    recorded.watch = lambda: seen.append(recorded.operations)
    recorded.make_directory(tmp_path / "d")
    put(recorded, tmp_path / "d" / "f", b"x")
    assert seen == list(range(1, recorded.operations + 1))


def test_what_lies_outside_the_model_is_passed_through(recorded, tmp_path):
    """A file that was there before is read, and leaves no trace in the model."""
    (tmp_path / "before").write_bytes(b"x")
    file = recorded.open(tmp_path / "before")
    assert file.read_at(0, 1) == b"x"
    file.close()
    recorded.sync_directory(tmp_path.parent)
    put(recorded, tmp_path / "f", b"x")
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="across directories"):
        recorded.rename(tmp_path / "f", tmp_path / "other" / "f")


def test_a_file_is_no_directory(recorded, tmp_path):
    """The model refuses what the disk would."""
    put(recorded, tmp_path / "f", b"x")
    with pytest.raises(NotADirectoryError):
        recorded._node_at(tmp_path / "f" / "g")
    with pytest.raises(NotADirectoryError):
        recorded._directory(tmp_path / "f")
    with pytest.raises(OSError, match="Not a directory"):
        recorded.make_directory(tmp_path / "f" / "g")


def test_a_state_chosen_by_chance_is_one_of_all(recorded, tmp_path):
    """The shorter way to one state gives nothing that the enumeration does not."""
    seed = 7
    print(f"seed {seed}")
    recorded.make_directory(tmp_path / "d")
    put(recorded, tmp_path / "d" / "f", b"abc")
    recorded.rename(tmp_path / "d" / "f", tmp_path / "d" / "g")
    file = recorded.create(tmp_path / "h")
    file.write(b"de")
    everything = states(recorded)
    chance = random.Random(seed)
    found = {tuple(sorted(random_crash_state(recorded.tree, chance).items())) for _ in range(200)}
    assert found <= everything
    assert len(found) > 5
    file.close()


def test_the_forms_of_a_torn_write_are_within_its_length():
    """Nothing, a beginning, zeros or all of it; never a byte that was not written."""
    for data in (b"a", b"ab", b"abcdefgh"):
        forms = torn_forms(data)
        assert forms[0] is None and forms[-1] == data
        for form in forms[1:]:
            assert len(form) <= len(data)
            assert all(byte in (0, data[place]) for place, byte in enumerate(form))


@pytest.mark.parametrize(("order", "arrivals"), [("frame.synced", 1), ("frame.synced:3", 3)])
def test_a_crash_point_kills_at_the_ordered_arrival(order, arrivals):
    """The process dies there by SIGKILL, and not before."""
    code = (
        "from holdfast.storage import crashpoints\n"
        "for number in range(5):\n"
        "    print(number, flush=True)\n"
        "    crashpoints.reach('frame.written')\n"
        "    crashpoints.reach('frame.synced')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOLDFAST_CRASH_AT": order},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == [str(number) for number in range(arrivals)]


def test_a_crash_point_that_does_not_exist_is_refused(monkeypatch):
    """A misspelt order is told at once, with the points there are."""
    with pytest.raises(ValueError, match=r"not a crash point; points are: .*frame\.synced"):
        crashpoints._ArmedCrash("frame.sunk")


def test_crash_points_do_nothing_unless_ordered(monkeypatch):
    """In an ordinary process, and at any point but the ordered one."""
    crashpoints.reach("frame.synced")
    assert not crashpoints.is_armed("frame.synced")
    killed = []
    monkeypatch.setattr(crashpoints, "_armed", crashpoints._ArmedCrash("frame.synced:2"))
    monkeypatch.setattr(crashpoints.os, "kill", lambda *arguments: killed.append(arguments))
    assert crashpoints.is_armed("frame.synced") and not crashpoints.is_armed("frame.written")
    crashpoints.reach("frame.written")
    crashpoints.reach("frame.synced")
    assert killed == []
    crashpoints.reach("frame.synced")
    assert killed == [(os.getpid(), signal.SIGKILL)]
