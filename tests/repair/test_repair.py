"""Recovery 13 to 18: what the journal lost is recorded again from result files; nothing is invented."""

from __future__ import annotations

import errno
import json

import msgspec
import pytest
from workspaces import (
    GROUPS,
    begin_session_like,
    edit_result,
    ends_on_record,
    leave_results,
    lose_journal,
    planned_run,
    result_path,
    workspace_eval,
)

from durable import begin_session, commit, data_pieces, segment_paths, snapshot
from holdfast.engine.opening.repair_planner import RepairPlanner
from holdfast.errors import RunHeld, StorageFailure
from holdfast.journal.index.database import remove_index
from holdfast.models.message import Usage
from holdfast.run.core import result_file
from holdfast.run.core.records import Failure, Status, UsageShare
from holdfast.run.repair.repair import repair_run
from holdfast.storage import RealFileSystem
from holdfast.testing import FaultyFileSystem, InjectedFault


def by_task(result):
    return {group["value"]: group for group in result["groups"] if group["by"] == "task"}


def files_of(root):
    """Everything in a run but its lease, which is written by whoever looks."""
    return {name: data for name, data in snapshot(root).items() if name != "lease"}


@pytest.fixture
def small(tmp_path):
    """A run of six planned trials whose journal says nothing of them, and its ends."""
    ends = planned_run(workspace_eval(tmp_path, {"code": 4, "docs": 2}), tmp_path / "run")
    return tmp_path / "run", ends


def test_recovery_13_all_results_are_found_after_the_journal_is_lost(tmp_path, told, text):
    """590 of 590 over five groups; before, after and difference are told, in all and for each group."""
    root = tmp_path / "run"
    ends = planned_run(workspace_eval(tmp_path, GROUPS), root)
    leave_results(root, ends)
    lose_journal(root)
    code, result = told("repair", root)
    assert code == 0
    assert (result["sound"], result["files"]) == (590, 590)
    assert (result["before"], result["after"], result["difference"]) == (0, 590, 590)
    groups = {name: (group["before"], group["after"], group["difference"]) for name, group in by_task(result).items()}
    assert groups == {name: (0, count, count) for name, count in GROUPS.items()}
    code, said = text("repair", root)
    assert code == 0
    assert "590 of 590 result files are intact" in said
    assert "590 before, 590 after, 0 more" in said
    assert "task third: 102 files, 102 before, 102 after, 0 more" in said


def test_recovery_13_a_rebuilt_run_is_sound_complete_and_scored_as_before(tmp_path, told, text):
    """A run carried out for real gives the same scores after its journal was lost and rebuilt."""
    eval_file, root = workspace_eval(tmp_path, {"code": 7, "docs": 3}, epochs=2), tmp_path / "run"
    assert text("run", eval_file, "--run-dir", root)[0] == 0
    _, before = told("report", root)
    leave_results(root, ends_on_record(root))
    lose_journal(root)
    code, result = told("repair", root)
    assert (code, result["difference"]) == (0, 20)
    assert "new id" in " ".join(result["changes"])
    _, after = told("report", root)
    same = ("name", "complete", "tasks", "coverage", "usage", "cost")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert told("verify", root, "--deep")[0] == 0
    assert told("status", root)[1]["state"] == "complete"
    assert text("resume", root)[0] == 0


def test_recovery_13_records_from_files_say_that_they_are(small, told):
    """Every trial and score that was recorded again is marked; the session's end says how it came about."""
    root, ends = small
    leave_results(root, ends)
    lose_journal(root)
    told("repair", root)
    recorded = ends_on_record(root)
    assert {trial.source for trial in recorded} == {"artifact"}
    plain = [msgspec.structs.replace(trial, source="", artifacts={}) for trial in recorded]
    assert sorted(plain, key=lambda trial: trial.trial) == sorted(ends, key=lambda trial: trial.trial)
    _, status = told("status", root)
    assert [session["ended_as"] for session in status["sessions"]] == ["repaired"]


def test_recovery_13_groups_are_told_by_axis_as_well(tmp_path, told):
    """The breakdown is by task, by model and by the value on each axis."""
    root = tmp_path / "run"
    ends = planned_run(workspace_eval(tmp_path, {"code": 3}, variants=["short", "long"]), root)
    leave_results(root, [end for end in ends if end.axes["prompt"] == "long" or end.sample == "s1"])
    lose_journal(root)
    _, result = told("repair", root)
    groups = {(group["by"], group["value"]): group["difference"] for group in result["groups"]}
    assert groups == {("task", "code"): 4, ("model", "m"): 4, ("axis prompt", "long"): 3, ("axis prompt", "short"): 1}


def test_recovery_13_what_is_missing_remains_and_a_resume_does_only_that(tmp_path, told, text):
    """Results of some trials: those are kept, the others carried out."""
    eval_file, root = workspace_eval(tmp_path, {"code": 6}), tmp_path / "run"
    text("run", eval_file, "--run-dir", root)
    leave_results(root, ends_on_record(root)[:4])
    lose_journal(root)
    assert told("repair", root)[1]["after"] == 4
    code, result = told("resume", root)
    assert (code, result["finished"], result["planned"]) == (0, 6, 6)
    assert sum(trial.source == "artifact" for trial in ends_on_record(root)) == 4
    assert told("status", root)[1]["calls"]["made"] == 2


def test_recovery_13_frames_lost_from_the_middle_are_made_good_from_files(tmp_path, told, text):
    """A damaged journal keeps what it has; results fill the rest, in a session of their own."""
    eval_file, root = workspace_eval(tmp_path, {"code": 8}), tmp_path / "run"
    text("run", eval_file, "--run-dir", root)
    leave_results(root, ends_on_record(root))
    path = segment_paths(root)[0]
    data = path.read_bytes()
    first, last = data_pieces(data)[1], data_pieces(data)[-1]
    path.write_bytes(data[: first.start] + bytes(last.end - first.start) + data[last.end :])
    code, result = told("repair", root)
    assert (code, result["before"], result["after"], result["session"]) == (0, 0, 8, 2)
    assert [change for change in result["changes"] if "Noted in the journal" in change]
    assert told("status", root)[1]["state"] == "complete"


@pytest.mark.parametrize("left", ["nothing", "an empty directory", "garbage", "a file"])
def test_recovery_13_whatever_is_left_of_the_journal_is_put_aside(small, told, left):
    """No legible segment: what lies there goes to the backup, byte for byte, and the run is rebuilt."""
    root, ends = small
    leave_results(root, ends)
    lose_journal(root)
    journal = root / "journal"
    if left == "a file":
        journal.write_bytes(b"no directory")
    elif left != "nothing":
        journal.mkdir()
    if left == "garbage":
        (journal / "000001-0000-000001.jsonl.zst").write_bytes(b"\0" * 500)
    remove_index(root / "index.sqlite")
    before = snapshot(root).get("journal/000001-0000-000001.jsonl.zst")
    code, result = told("repair", root)
    assert (code, result["after"]) == (0, 6)
    assert result["backup"] == ("backup-1" if left in {"garbage", "a file"} else "")
    if left == "garbage":
        assert (root / "backup-1" / "journal" / "000001-0000-000001.jsonl.zst").read_bytes() == before
    assert told("verify", root, "--deep")[0] == 0


def test_recovery_14_many_results_are_recorded_with_few_syncs_and_one_look_at_each(tmp_path, monkeypatch):
    """10,000 files: each is opened once, and syncs do not grow with their number."""
    root = tmp_path / "run"
    ends = planned_run(workspace_eval(tmp_path, {"code": 10_000}), root)
    leave_results(root, ends)
    lose_journal(root)
    syncs, looks = CountingFileSystem(RealFileSystem(), []), []
    read = result_file._read_regular_file
    monkeypatch.setattr(result_file, "_read_regular_file", lambda path: looks.append(path) or read(path))
    result = repair_run(root, RepairPlanner(), syncs)
    assert (result.sound, result.difference) == (10_000, 10_000)
    print(len(looks), syncs.counts)
    # One more, to see whether there is any.
    assert len(looks) == 10_001
    assert syncs.counts["sync"] < 200
    assert syncs.counts["create"] < 20


class CountingFileSystem(FaultyFileSystem):
    """Counts what is done to the disk; nothing fails."""

    def __init__(self, inner, faults):
        super().__init__(inner, faults)
        self.counts = {}

    def check(self, operation, path):  # noqa: ARG002 - the signature of the one that fails
        self.counts[operation] = self.counts.get(operation, 0) + 1


DEFECTS = {
    "corrupt": lambda path: edit_result(path, lambda content: content.update(seconds=9.0)),
    "half-written": lambda path: path.write_bytes(path.read_bytes()[:80]),
    "checksum-less": lambda path: edit_result(path, lambda content: content.pop("checksum")),
    "status-less": lambda path: edit_result(path, lambda content: content.pop("status")),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("journal", ["lost", "there"])
def test_recovery_15_defective_files_are_listed_and_count_for_nothing(small, told, text, journal):
    """Each is named with a reason; exit 1; none is recorded as anything, also by a second repair."""
    root, ends = small
    leave_results(root, ends)
    if journal == "lost":
        lose_journal(root)
    bad = dict(zip(DEFECTS, ends, strict=False))
    for name, trial in bad.items():
        DEFECTS[name](result_path(root, trial))
    code, result = told("repair", root)
    assert (code, result["files"], result["sound"], result["after"]) == (1, 6, 1, 1)
    assert {fault["where"] for fault in result["faults"]} == {f"artifacts/{t.trial}/result.json" for t in bad.values()}
    assert all(fault["reason"] for fault in result["faults"])
    assert [trial.trial for trial in ends_on_record(root)] == [ends[5].trial]
    code, said = text("repair", root)
    assert code == 1
    assert said.count("not counted: artifacts/") == 5
    assert len(ends_on_record(root)) == 1


def test_recovery_15_a_valid_result_that_lacks_a_planned_score_is_no_verdict(small, told):
    """The file is whole; what it says is not enough to count."""
    root, ends = small
    leave_results(root, [msgspec.structs.replace(ends[0], scores={}), *ends[1:]])
    code, result = told("repair", root)
    assert (code, result["after"]) == (1, 5)
    assert result["faults"][0]["reason"] == "it holds no verdict: the score of exact is missing"


def test_recovery_15_results_of_trials_that_are_not_planned_are_listed(small, tmp_path, told):
    """Files that were copied in from elsewhere do not fill a run."""
    root, ends = small
    (tmp_path / "other").mkdir()
    strangers = planned_run(workspace_eval(tmp_path / "other", {"code": 9, "essays": 1}), tmp_path / "other" / "run")
    leave_results(root, [*ends[:2], strangers[8], strangers[9]])
    forged = root / "artifacts" / ("0" * 20)
    leave_results(root, [msgspec.structs.replace(ends[3], trial=forged.name)])
    code, result = told("repair", root)
    assert (code, result["sound"], result["after"]) == (1, 2, 2)
    assert len(result["faults"]) == 3
    assert told("status", root)[1]["finished"] == 2


def test_failed_and_unfinished_results_are_not_taken_for_finished(small, told):
    """A failed attempt is recorded as that, once; an unfinished one remains and is recorded not at all."""
    root, ends = small
    failed = msgspec.structs.replace(ends[0], status=Status.FAILED, scores={}, error=Failure("ValueError", "no"))
    unfinished = msgspec.structs.replace(ends[1], status=Status.UNFINISHED, scores={})
    leave_results(root, [failed, unfinished, ends[2]])
    code, result = told("repair", root)
    assert (code, result["sound"], result["after"], result["difference"]) == (0, 3, 1, 1)
    assert [trial.status for trial in ends_on_record(root)].count(Status.FAILED) == 1
    assert len(ends_on_record(root)) == 2
    code, again = told("repair", root)
    assert (code, again["session"], again["changes"]) == (0, 0, [])


CONTRADICTIONS = {
    "another score": {"scores": {"exact": 0.75}},
    "another status": {"status": Status.LIMITED, "limit": "time"},
    "another attempt": {"attempt": 7},
    "another usage": {"usage": Usage(99, 0)},
    "another share": {"shares": (UsageShare("judge", Usage(1, 0)),)},
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_recovery_16_a_result_that_contradicts_the_journal_is_a_conflict(small, told, text, what):
    """It is named with both values; the journal's stands; exit 1, every time."""
    root, ends = small
    session = begin_session_like(root)
    commit(session, ends[0])
    session.close("interrupted", 130)
    leave_results(root, [msgspec.structs.replace(ends[0], **CONTRADICTIONS[what]), ends[1]])
    code, result = told("repair", root)
    assert (code, result["after"]) == (1, 2)
    (conflict,) = result["conflicts"]
    assert conflict["trial"] == ends[0].trial
    assert "in the journal" in conflict["detail"]
    kept = [trial for trial in ends_on_record(root) if trial.trial == ends[0].trial]
    assert kept == [ends[0]]
    code, said = text("repair", root)
    assert (code, said.count("conflict: ")) == (1, 1)
    assert told("verify", root, "--deep")[0] == 1


def test_recovery_16_a_failed_attempt_on_record_is_not_made_valid_by_a_file(small, told):
    """The same attempt cannot have ended twice; a later attempt can."""
    root, ends = small
    session = begin_session_like(root)
    for end in ends[:2]:
        commit(session, msgspec.structs.replace(end, status=Status.FAILED, scores={}))
    session.close("interrupted", 130)
    leave_results(root, [ends[0], msgspec.structs.replace(ends[1], attempt=2)])
    code, result = told("repair", root)
    assert (code, result["after"], len(result["conflicts"])) == (1, 1, 1)
    assert "status is valid, in the journal failed" in result["conflicts"][0]["detail"]


def test_recovery_16_files_of_earlier_attempts_are_no_conflict(small, told):
    """A failed attempt that was followed by a kept one agrees with the journal; one that has not ended there waits."""
    root, ends = small
    session = begin_session_like(root)
    commit(session, msgspec.structs.replace(ends[0], attempt=2))
    commit(session, msgspec.structs.replace(ends[1], status=Status.UNFINISHED, scores={}))
    session.close("interrupted", 130)
    leave_results(root, [msgspec.structs.replace(ends[0], status=Status.FAILED, scores={}), ends[1]])
    code, result = told("repair", root)
    assert (code, result["conflicts"], result["before"], result["after"]) == (0, [], 1, 1)


@pytest.mark.parametrize("journal", ["lost", "there"])
def test_recovery_17_a_second_repair_changes_nothing(small, told, journal):
    """No new session, and no byte of the run is other than before."""
    root, ends = small
    leave_results(root, ends)
    if journal == "lost":
        lose_journal(root)
    assert told("repair", root)[1]["session"] > 0
    before = files_of(root)
    for _ in range(2):
        code, result = told("repair", root)
        assert (code, result["session"], result["changes"], result["backup"]) == (0, 0, [], "")
        assert (result["before"], result["after"], result["difference"]) == (6, 6, 0)
    assert files_of(root) == before


def test_recovery_17_a_repair_of_a_sound_run_changes_nothing(tmp_path, told, text):
    """A run without result files, complete or killed."""
    eval_file, root = workspace_eval(tmp_path, {"code": 3}), tmp_path / "run"
    text("run", eval_file, "--run-dir", root)
    before = files_of(root)
    code, result = told("repair", root)
    assert (code, result["changes"]) == (0, [])
    assert files_of(root) == before


def test_recovery_18_every_repair_has_a_backup_of_its_own(small, told):
    """What is replaced is kept byte for byte; a later repair never touches it."""
    root, _ = small
    (root / "config.yaml").write_bytes(b"first: [\n")
    assert told("repair", root)[1]["backup"] == "backup-1"
    (root / "config.yaml").write_bytes(b"second: [\n")
    (root / "index.sqlite").write_bytes(b"no database at all" * 100)
    assert told("repair", root)[1]["backup"] == "backup-2"
    assert (root / "backup-1" / "config.yaml").read_bytes() == b"first: [\n"
    assert (root / "backup-2" / "config.yaml").read_bytes() == b"second: [\n"
    assert (root / "backup-2" / "index.sqlite").read_bytes() == b"no database at all" * 100
    assert told("verify", root)[0] == 0


def test_recovery_18_nothing_is_replaced_where_the_backup_cannot_be_written(small):
    """A full disk leaves the damaged file as it is, and says so."""
    root, _ = small
    (root / "config.yaml").write_bytes(b"first: [\n")
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault("write", 1, errno.ENOSPC, "backup-1")])
    with pytest.raises(StorageFailure, match=r"could not be repaired: .*No space left"):
        repair_run(root, RepairPlanner(), fs)
    assert (root / "config.yaml").read_bytes() == b"first: [\n"


def test_a_run_that_is_being_executed_is_not_repaired(small, told):
    """Exit 4; nothing is changed."""
    root, ends = small
    leave_results(root, ends)
    session = begin_session(root, planned=6)
    before = files_of(root)
    code, result = told("repair", root)
    assert (code, result["kind"]) == (4, "held")
    assert files_of(root) == before
    session.abandon()


@pytest.mark.parametrize("what", ["nothing", "a directory", "a foreign directory", "a file"])
def test_recovery_28_what_is_no_run_is_not_made_one(tmp_path, told, what):
    """A directory without a single sound result is no lost run, whatever else lies in it; exit 2, nothing written."""
    place = tmp_path / "place"
    if what == "a file":
        place.write_text("hello")
    elif what != "nothing":
        place.mkdir()
    if what == "a foreign directory":
        (place / "config.yaml").write_text("name: x\n")
        (place / "artifacts" / "a").mkdir(parents=True)
        (place / "artifacts" / "a" / "result.json").write_text(json.dumps({"status": "valid", "scores": {"exact": 1}}))
    before = snapshot(tmp_path)
    code, result = told("repair", place)
    assert (code, result["kind"]) == (2, "not_a_run")
    assert snapshot(tmp_path) == before


def test_recovery_13_without_the_inputs_results_are_held_against_their_own_keys(small, told):
    """The copy of the dataset is gone: what fits the plan is recorded, and it is said what it was held against."""
    root, ends = small
    forged = msgspec.structs.replace(ends[3], sample="s1")
    unplanned = msgspec.structs.replace(ends[4], task="essays")
    leave_results(root, [*ends[:3], forged, unplanned])
    for copy in (root / "inputs").iterdir():
        copy.unlink()
    code, result = told("repair", root)
    assert (code, result["sound"], result["after"], len(result["faults"])) == (1, 3, 3, 2)
    assert "planned trials could not be listed" in result["notes"][0]


def test_a_run_that_another_session_worked_on_meanwhile_is_not_written_to(small, monkeypatch):
    """What was found may be true no longer; nothing is recorded."""
    root, ends = small
    leave_results(root, ends)
    planner = RepairPlanner()
    grid = planner.grid

    def meanwhile(reader):
        session = begin_session_like(root)
        commit(session, ends[0])
        session.close("interrupted", 130)
        return grid(reader)

    planner.grid = meanwhile
    with pytest.raises(RunHeld, match="Another session wrote to"):
        repair_run(root, planner)
    assert [trial.trial for trial in ends_on_record(root)] == [ends[0].trial]
    assert repair_run(root, RepairPlanner()).after == 6
