"""`holdfast repair EXPERIMENT/checkpoint.json`: what a checkpoint lost, from the results beside it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scylla_trees import TIERS, result, spoil, write_checkpoint, write_result, write_tree

from cli_calls import call
from holdfast.errors import ConfigurationError, StorageFailure, UsageError
from holdfast.interop.scylla.checkpoint import repair_checkpoint
from holdfast.storage import RealFileSystem
from holdfast.testing.faulty_filesystem import FaultyFileSystem, InjectedFault

SMALL = {"T0": 3, "T1": 2}


def completed(root) -> dict:
    return json.loads((root / "checkpoint.json").read_text())["completed_runs"]


def count(runs) -> int:
    return sum(len(found) for subtests in runs.values() for found in subtests.values())


def test_experiments_27_a_checkpoint_that_knows_nothing_gets_all_590_back(tmp_path, capfdbinary):
    """`completed_runs: {}` beside 590 results: 590 of 590, by tier, and nothing else in the file is changed."""
    root = write_tree(tmp_path / "exp")
    before = (root / "checkpoint.json").read_bytes()
    told = call(capfdbinary, "repair", root / "checkpoint.json", "--json")
    found = json.loads(told.out)
    assert told.code == 0 and (found["before"], found["after"], found["difference"]) == (0, 590, 590)
    assert {tier["tier"]: tier["after"] for tier in found["tiers"]} == TIERS
    assert count(completed(root)) == 590
    assert completed(root)["T0"]["00"]["1"] == "failed" and completed(root)["T0"]["00"]["2"] == "passed"
    assert (root / "checkpoint.json.backup-1").read_bytes() == before
    old, new = json.loads(before), json.loads((root / "checkpoint.json").read_text())
    assert list(old) == list(new) and {**old, "completed_runs": 0} == {**new, "completed_runs": 0}


def test_recovery_17_the_second_repair_changes_nothing_and_says_so(tmp_path, capfdbinary):
    root = write_tree(tmp_path / "exp", SMALL)
    call(capfdbinary, "repair", root)
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    told = call(capfdbinary, "repair", root)
    assert told.code == 0 and "nothing to repair" in told.out and "5 before, 5 after, 0 more" in told.out
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == after


def test_recovery_15_what_is_not_whole_is_listed_and_never_counted(tmp_path, capfdbinary):
    """Corrupt, half-written, misplaced, duplicate files and links out of the tree; and files without a verdict."""
    root = write_tree(tmp_path / "exp", SMALL)
    reasons = spoil(root)
    write_result(root, "T1", "80", 1, result(1, judge_passed=None))
    without = result(2)
    del without["judge_passed"]
    write_result(root, "T1", "80", 2, without)
    write_result(root, "T1", "80", 3, result(3, judge_passed="yes"))
    told = call(capfdbinary, "repair", root / "checkpoint.json", "--json")
    found = json.loads(told.out)
    assert told.code == 1
    faults = {fault["where"].removesuffix("/run_result.json"): fault["reason"] for fault in found["faults"]}
    assert faults.keys() == reasons.keys() | {f"T1/80/run_0{run}" for run in (1, 2, 3)}
    assert [place for place, word in reasons.items() if word not in faults[place]] == []
    assert all("no verdict" in faults[f"T1/80/run_0{run}"] for run in (1, 2, 3))
    # Of the two results of one run, the first counts.
    assert found["after"] == 6 and completed(root)["T1"]["90"] == {"1": "passed"}
    assert "80" not in completed(root)["T1"]


def test_recovery_18_every_change_has_a_backup_of_its_own(tmp_path):
    root = write_tree(tmp_path / "exp", SMALL)
    repair_checkpoint(root / "checkpoint.json")
    first, mended = (root / "checkpoint.json.backup-1").read_bytes(), (root / "checkpoint.json").read_bytes()
    write_result(root, "T1", "01", 1, result(1))
    assert repair_checkpoint(root / "checkpoint.json").backup == "checkpoint.json.backup-2"
    assert (root / "checkpoint.json.backup-1").read_bytes() == first
    assert (root / "checkpoint.json.backup-2").read_bytes() == mended


def test_entries_without_a_result_stay_and_wrong_ones_are_corrected(tmp_path):
    """The result decides where there is one; an entry that lost its file is not paid for again."""
    old = {"T0": {"00": {"1": "passed"}}, "T9": {"00": {"7": "failed", "8": "agent_complete"}}}
    root = write_tree(tmp_path / "exp", SMALL, old)
    found = repair_checkpoint(root / "checkpoint.json")
    assert completed(root)["T9"] == old["T9"] and completed(root)["T0"]["00"]["1"] == "failed"
    assert found.corrected == ["T0/00/run 1: passed → failed"]
    assert found.kept == ["T9/00/run 7: failed", "T9/00/run 8: agent_complete"]
    assert (found.before, found.after) == (3, 7)


@pytest.mark.parametrize("odd", [None, [], 7, "x", {"T0": 5}, {"T0": {"00": ["1"]}}, {"T0": {"00": {"1": {"a": 1}}}}])
def test_a_completed_runs_of_any_type_is_mended(tmp_path, odd):
    root = write_tree(tmp_path / "exp", SMALL)
    write_checkpoint(root, odd)
    assert repair_checkpoint(root / "checkpoint.json").after == 5
    assert count(completed(root)) == 5
    assert not repair_checkpoint(root / "checkpoint.json").changed


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff", b"{}", b"[" * 50_000, b'{"completed_runs": NaN'])
def test_a_file_that_is_no_checkpoint_is_refused_and_left_alone(tmp_path, content):
    root = write_tree(tmp_path / "exp", {"T0": 1})
    (root / "checkpoint.json").write_bytes(content)
    with pytest.raises((ConfigurationError, UsageError)) as refused:
        repair_checkpoint(root / "checkpoint.json")
    print(refused.value)
    assert (root / "checkpoint.json").read_bytes() == content and not list(root.glob("*.backup*"))


def test_a_link_is_not_written_through(tmp_path):
    root = write_tree(tmp_path / "exp", {"T0": 1})
    (root / "checkpoint.json").rename(tmp_path / "elsewhere.json")
    (root / "checkpoint.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UsageError, match="is a link"):
        repair_checkpoint(root / "checkpoint.json")


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_full_disk_leaves_the_checkpoint_as_it_was(tmp_path, operation, nth):
    """Whatever fails, before or after the backup: the old file is whole, or the new one is."""
    root = write_tree(tmp_path / "exp", SMALL)
    before = (root / "checkpoint.json").read_bytes()
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, nth, errno.ENOSPC)])
    with pytest.raises(StorageFailure, match="No space left"):
        repair_checkpoint(root / "checkpoint.json", fs)
    now = (root / "checkpoint.json").read_bytes()
    assert now == before or (count(completed(root)) == 5 and (root / "checkpoint.json.backup-1").read_bytes() == before)
    assert repair_checkpoint(root / "checkpoint.json").after == 5
    assert before in [path.read_bytes() for path in root.glob("checkpoint.json.backup-*")]


_KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.interop.scylla import checkpoint
from holdfast.storage import RealFileSystem

class Killed(RealFileSystem):
    left = int(sys.argv[2])
    def _step(self):
        Killed.left -= 1
        if Killed.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def create(self, path):
        self._step(); return super().create(path)
    def rename(self, old, new):
        self._step(); super().rename(old, new); self._step()

checkpoint.repair_checkpoint(Path(sys.argv[1]), Killed())
"""


@pytest.mark.parametrize("moment", range(1, 7))
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path, moment):
    root = write_tree(tmp_path / "exp", SMALL)
    before = (root / "checkpoint.json").read_bytes()
    done = subprocess.run([sys.executable, "-c", _KILLED, root / "checkpoint.json", str(moment)], check=False)
    assert done.returncode == -9
    assert (root / "checkpoint.json").read_bytes() == before or count(completed(root)) == 5
    assert repair_checkpoint(root / "checkpoint.json").after == 5
    assert before in [path.read_bytes() for path in root.glob("checkpoint.json.backup-*")]


@pytest.fixture
def shut(monkeypatch):
    """Makes directories unreadable, also for root."""

    def refuse(*closed):
        for name in ("listdir", "lstat", "stat"):
            real = getattr(os, name)

            def look(path, *args, real=real, name=name, **more):
                above = {Path(path), *Path(path).parents} if name == "listdir" else set(Path(path).parents)
                if above & set(closed):
                    raise PermissionError(errno.EACCES, "Permission denied", str(path))
                return real(path, *args, **more)

            monkeypatch.setattr(os, name, look)

    return refuse


@pytest.mark.parametrize("closed", ["T0", "T0/00", "T0/00/run_02"])
def test_a_directory_that_cannot_be_read_is_named_and_nothing_is_called_intact(tmp_path, capfdbinary, shut, closed):
    """What could not be seen is said by repair and by import, each with the exit code 1."""
    root = write_tree(tmp_path / "exp", SMALL)
    shut(root / closed)
    told = call(capfdbinary, "repair", root / "checkpoint.json")
    seen = 4 if closed.endswith("run_02") else 2
    assert told.code == 1 and f"{closed}/: the directory cannot be read: Permission denied" in told.out
    assert f"1 directory could not be read; of the rest, {seen} of {seen} result files are intact" in told.out
    told = call(capfdbinary, "import", root, "--run-dir", tmp_path / "run")
    assert told.code == 1 and f"skipped: {closed}/: the directory cannot be read" in told.out
    assert "1 directory could not be read; how many results are missing is not known" in told.out


ODD_DIRECTORIES = [
    "run_x",
    "run_-1",
    "run_+4",
    "run_1_0",
    "run_02.bak",
    "run_03 ",
    "run_٣",
    "run_" + "9" * 26,
    "attempt",
]


@pytest.mark.parametrize("place", [*(f"T0/00/{name}" for name in ODD_DIRECTORIES), ".hidden/00/run_01", "T0/00", "T0"])
def test_a_result_that_lies_elsewhere_is_listed(tmp_path, place):
    """Nothing that is called run_result.json is left out of both numbers."""
    root = write_tree(tmp_path / "exp", SMALL)
    (root / place).mkdir(parents=True, exist_ok=True)
    (root / place / "run_result.json").write_text(json.dumps(result(1)))
    found = repair_checkpoint(root / "checkpoint.json")
    assert [fault.where for fault in found.faults] == [f"{place}/run_result.json"]
    assert (found.counted, found.files, found.ok) == (5, 6, False)


def test_a_link_to_another_tier_does_not_count_its_results_again(tmp_path):
    root = write_tree(tmp_path / "exp", SMALL)
    (root / "A").symlink_to(root / "T0")
    (root / "B").symlink_to(root / "gone")
    found = repair_checkpoint(root / "checkpoint.json")
    assert (found.counted, found.files, found.unread_directories) == (5, 8, 1)
    assert found.faults[0].reason == "it is a link to T0/00/run_01/run_result.json, which counts there"


HEAD = b'{"version":"2.0",  "z":1e400,"y":NaN,\t"p":0.12345678901234567890123,"neg":-0.0,"a":1,"a":2,"big":'
KEPT = HEAD + b"1" * 5000 + b',"completed_runs":%s,"e":1E5,"t":"\\ud800\xc3\xa9"}\r\n'


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_every_other_character_of_a_checkpoint_stays(tmp_path, prefix):
    """Numbers of any form, equal keys, white space, a byte order mark: only the one value changes."""
    root = write_tree(tmp_path / "exp", {"T0": 1})
    (root / "checkpoint.json").write_bytes(prefix + KEPT % b' {"T9": {"00": {"1": 1.50}}} ')
    assert repair_checkpoint(root / "checkpoint.json").ok
    new = b' {"T0": {"00": {"1": "failed"}}, "T9": {"00": {"1": 1.50}}} '
    assert (root / "checkpoint.json").read_bytes() == prefix + KEPT % new


@pytest.mark.parametrize("indent", [2, 4])
def test_a_repaired_checkpoint_is_laid_out_as_it_was(tmp_path, indent):
    root = write_tree(tmp_path / "exp", SMALL)
    content = json.loads((root / "checkpoint.json").read_text())
    (root / "checkpoint.json").write_text(json.dumps(content, indent=indent))
    repair_checkpoint(root / "checkpoint.json")
    text = (root / "checkpoint.json").read_text()
    assert text == json.dumps(json.loads(text), indent=indent)


@pytest.mark.parametrize(
    "completed",
    ['{"T0": {}, "T0": {}}', '{"T0": {"00": {"1": "passed", "1": "failed"}}}', '{}, "completed_runs": {"T0": {}}'],
)
def test_equal_names_of_entries_are_refused(tmp_path, completed):
    root = write_tree(tmp_path / "exp", SMALL)
    (root / "checkpoint.json").write_text(f'{{"completed_runs": {completed}}}')
    before = {path: path.read_bytes() for path in root.iterdir() if path.is_file()}
    with pytest.raises(UsageError, match="twice"):
        repair_checkpoint(root / "checkpoint.json")
    assert {path: path.read_bytes() for path in root.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("odd", "lost"),
    [
        ([1], ["completed_runs: [1]"]),
        ({"T6": "weird", "T0": {"00": None, "07": [1]}}, ['T6: "weird"', "T0/00: null", "T0/07: [1]"]),
        (None, []),
    ],
)
def test_what_is_no_entry_is_listed(tmp_path, capfdbinary, odd, lost):
    root = write_tree(tmp_path / "exp", SMALL)
    (root / "checkpoint.json").write_text(json.dumps({"completed_runs": odd}))
    told = call(capfdbinary, "repair", root / "checkpoint.json")
    assert told.code == bool(lost) and all(f"in the backup only: {text}" in told.out for text in lost)


def test_the_permissions_and_the_owner_are_kept(tmp_path):
    root = write_tree(tmp_path / "exp", SMALL)
    (root / "checkpoint.json").chmod(0o600)
    owner = os.getuid()
    if owner == 0:
        owner = 65534
        os.chown(root / "checkpoint.json", owner, owner)
    repair_checkpoint(root / "checkpoint.json")
    for name in ("checkpoint.json", "checkpoint.json.backup-1"):
        found = (root / name).stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o600, owner)


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "judge_passed is null"), ("true", 'judge_passed is "true"'), (1, "judge_passed is 1"), (0, "is 0")],
)
def test_what_stands_in_the_place_of_a_verdict_is_said(tmp_path, value, said):
    root = write_tree(tmp_path / "exp", SMALL)
    write_result(root, "T0", "00", 1, result(1, judge_passed=value))
    (fault,) = repair_checkpoint(root / "checkpoint.json").faults
    assert said in fault.reason and "missing" not in fault.reason


@pytest.mark.parametrize(
    ("status", "is_alive", "warned"), [("running", True, True), ("done", True, False), ("running", False, False)]
)
def test_a_process_that_may_be_alive_is_warned_about(tmp_path, status, is_alive, warned):
    pid = os.getpid() if is_alive else -1
    root = write_tree(tmp_path / "exp", SMALL)
    (root / "checkpoint.json").write_text(json.dumps({"completed_runs": {}, "status": status, "pid": pid}))
    notes = repair_checkpoint(root / "checkpoint.json").notes
    assert any(f"there is a process {pid}" in note for note in notes) is warned
