"""What is said of a run in a store is what the store has: damaged, foreign, altered and missing objects."""

from __future__ import annotations

import errno
import json
import signal
import time
from datetime import datetime

import pytest

import holdfast as api
from cli_calls import call
from durable import commit
from evals import http_eval
from holdfast.digests import file_digest
from holdfast.engine.opening.remote_run import refuse_existing_remote
from holdfast.errors import ConfigurationError, StorageFailure, UsageError
from holdfast.journal.blobs import BLOB_BYTES
from holdfast.run import SessionContents, create_run
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.core.records import Status, StepRecord, TrialRecord
from holdfast.run.locate import find_local_run
from holdfast.run.remote.healing import heal_store
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.repair.repair_store import repair_stored_run
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.object_store import ObjectStore
from program import until
from remote_runs import cut_short

__all__ = ["cut_short"]


@pytest.fixture
def complete(holdfast, place, server, tmp_path):
    """A complete run of 12 trials in several segments; its machine is still there."""
    server.behave(latency=0.05)
    eval_file = http_eval(tmp_path, server.base_url, 12, concurrency_limit=2, runner={"upload_interval": 0.1})
    holdfast("run", eval_file, "--run-dir", place.url, code=0)
    assert len(place.segments()) >= 4
    return place


def flip(place, key, at=200):
    data = bytearray(place.read(key))
    data[at] ^= 0xFF
    place.write(key, bytes(data))


def test_recovery_34_verify_reads_the_store_and_not_the_spool(holdfast, complete):
    """With an intact spool on this machine, damage in the bucket is found; what is here only is counted."""
    assert holdfast.json("verify", complete.url, code=0)["ok"]
    flip(complete, complete.segments()[1])
    verified = holdfast.json("verify", complete.url, code=1)
    assert [item["where"] for item in verified["damage"]] == [complete.segments()[1]]
    last = complete.segments()[-1]
    complete.delete(last)
    verified = holdfast.json("verify", complete.url, code=1)
    assert [note for note in verified["notes"] if "1 file on this machine only" in note and last in note]


def test_recovery_36_a_foreign_object_does_not_decide_which_run_it_is(holdfast, complete, tmp_path):
    """In the place of the first segment: it is named, the others are recovered, with the lease object and without."""
    first = complete.segments()[0]
    foreign = foreign_segment(holdfast, tmp_path)
    complete.write(first, foreign)
    complete.lose_machine()
    for to in ("by-lease", "by-majority"):
        ended = holdfast("recover", complete.url, "--to", to, code=0)
        assert f"{first} was skipped: it belongs to another run (" in ended.err
        present = {path.name for path in (tmp_path / to / "journal").iterdir()}
        assert present == {key.rpartition("/")[2] for key in complete.segments()[1:]}
        complete.delete("lease.json")


def test_recovery_36_a_tie_is_refused_and_names_both(holdfast, complete, tmp_path):
    """Two runs with as many segments each: nothing is guessed."""
    foreign = foreign_segment(holdfast, tmp_path)
    complete.delete("lease.json")
    for key in complete.segments()[2:]:
        complete.delete(key)
    first, second = (complete.read(key)[16:32].hex() for key in complete.segments())
    complete.write(complete.segments()[0], foreign)
    complete.lose_machine()
    ended = holdfast("recover", complete.url, "--to", "home", code=2)
    assert first == second and second in ended.err and foreign[16:32].hex() in ended.err
    assert not (tmp_path / "home").exists()


def foreign_segment(holdfast, tmp_path):
    """The first segment of another run."""
    eval_file = tmp_path / "foreign.yaml"
    eval_file.write_text(
        "models: {m: {provider: scripted, model: echo}}\n"
        "datasets: {rows: {path: rows.jsonl}}\n"
        "tasks: {t: {dataset: rows, limit: 1, prompt: '{question}', target: '{answer}', scorers: [exact]}}\n"
    )
    holdfast("run", eval_file, "--run-dir", "foreign", code=0)
    return min((tmp_path / "foreign" / "journal").iterdir()).read_bytes()


@pytest.mark.parametrize("which", ["last", "middle"])
def test_recovery_37_a_loss_that_was_made_good_is_noted_once(holdfast, complete, which):
    """A segment is lost after its work is done, or done again: repair notes it, then verify is OK and clean works."""
    chosen = complete.segments()[-1 if which == "last" else 1]
    complete.delete(chosen)
    complete.lose_machine()
    holdfast("recover", complete.url, "--to", "home", code=0)
    if which == "middle":
        holdfast("resume", "home", code=0)
    ended = holdfast("recover", complete.url, "--to", "again", code=0)
    assert which == "middle" or "holdfast resume" not in ended.out
    verified = holdfast.json("verify", "home", code=1)
    assert [note for note in verified["notes"] if "holdfast repair home" in note]
    assert "holdfast repair home" in (resumed := holdfast("resume", "home", code=0)).out + resumed.err
    holdfast("clean", "home", "--steps", code=1)
    assert [text for text in holdfast.json("repair", "home", code=0)["changes"] if "Noted in the journal" in text]
    verified = holdfast.json("verify", "home", "--deep", code=0)
    assert verified["ok"] and [note for note in verified["notes"] if "noted by session" in note]
    assert holdfast.json("repair", "home", code=0)["changes"] == []
    holdfast("clean", "home", "--steps", code=0)
    assert holdfast.json("verify", "home", code=0)["ok"]
    assert holdfast.json("status", "home")["state"] == "complete"


def test_recovery_37_damage_inside_a_segment_is_noted_until_more_is_lost(holdfast, complete, tmp_path):
    """Frames that were lost and done again are a note; what is damaged after that is damage."""
    flip(complete, complete.segments()[1])
    complete.lose_machine()
    holdfast("recover", complete.url, "--to", "home", code=0)
    holdfast("resume", "home", code=0)
    assert holdfast("verify", "home", code=1)
    holdfast("repair", "home", code=0)
    assert holdfast.json("verify", "home", code=0)["ok"]
    path = sorted((tmp_path / "home" / "journal").iterdir())[1]
    path.write_bytes(path.read_bytes()[:-40])
    assert not holdfast.json("verify", "home", code=1)["ok"]


def test_recovery_38_a_run_that_is_alive_is_not_called_lost(holdfast, place, server, tmp_path):
    """Its copy is downloaded, who holds it and since when is said, and nobody is told to resume the copy."""
    server.behave(hold=True, **{"pass": 3})
    eval_file = http_eval(tmp_path, server.base_url, 8, runner={"upload_interval": 0.1})
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    until(lambda: place.segments() and place.is_up_to_date(), "something is up")
    ended = holdfast("recover", place.url, "--to", "copy", code=0)
    assert f"in use by process {started.pid} on" in ended.out and " since " in ended.out
    assert "holdfast resume" not in ended.out and "last reported" not in ended.out
    assert f"process {started.pid} " in holdfast.json("recover", place.url, "--to", "copy2", code=0)["held_by"]
    started.send(signal.SIGKILL)
    started.wait()


def test_recovery_38_what_a_live_run_has_not_uploaded_is_no_damage(holdfast, place, server, tmp_path):
    """From another machine: a note, while the lease is alive; once its session is dead, a loss."""
    server.behave(hold=True, **{"pass": 3})
    eval_file = http_eval(tmp_path, server.base_url, 8, runner={"upload_interval": 0.1, "lease": 1.5})
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    until(lambda: place.published() == 3 and place.is_up_to_date() and len(place.segments()) > 1, "something is up")
    elsewhere = {"HOLDFAST_SPOOL": str(tmp_path / "elsewhere"), "XDG_CACHE_HOME": str(tmp_path / "cache elsewhere")}
    notes = " ".join(holdfast.json("status", place.url, **elsewhere)["notes"])
    verified = holdfast("verify", place.url, code=0, **elsewhere)
    recovered = holdfast("recover", place.url, "--to", "copy", code=0, **elsewhere)
    assert "damaged" not in notes and "is not uploaded yet" in notes
    assert "OK" in verified.out and "is not uploaded yet" in verified.out
    assert "lost" not in recovered.out + recovered.err
    started.send(signal.SIGKILL)
    started.wait()
    assert "DAMAGED" in holdfast("verify", place.url, code=1, **elsewhere).out


def test_recovery_39_inputs_are_named_healed_and_fetched_again(holdfast, complete, tmp_path):
    """An altered input in the store is named; a good local copy heals it; a bad copy here is fetched again."""
    (key,) = complete.keys("inputs")
    good = complete.read(key)
    complete.write(key, good[:-5])
    ended = holdfast("recover", complete.url, "--to", "home", code=0)
    assert f"{key} was skipped: it is damaged in the store" in ended.err
    assert not (tmp_path / "home" / key).exists()
    assert f"{key} was altered in" in holdfast("repair", complete.url, code=0).out
    assert complete.read(key) == good
    complete.delete(key)
    assert f"{key} was missing in" in holdfast("repair", complete.url, code=0).out
    assert complete.read(key) == good
    holdfast("recover", complete.url, "--to", "home", "--merge", code=0)
    assert (tmp_path / "home" / key).read_bytes() == good
    (tmp_path / "home" / key).write_bytes(b"bad")
    holdfast("recover", complete.url, "--to", "home", "--merge", code=0)
    assert (tmp_path / "home" / key).read_bytes() == good


def test_recovery_40_a_repair_that_has_lost_its_lease_writes_nothing(complete, tmp_path, monkeypatch):
    """The download may take longer than the lease lives: another session may have the run by then."""
    monkeypatch.setenv("HOLDFAST_SPOOL", str(tmp_path / "another-spool"))
    monkeypatch.setattr(RemoteLease, "is_held", lambda _: False)
    complete.write("config.yaml", b"altered")
    before = {key: complete.read(key) for key in complete.keys("") if key != "lease.json"}
    with pytest.raises(StorageFailure, match="its lease could not be renewed"):
        repair_stored_run(complete.url, no_planner)
    assert {key: complete.read(key) for key in complete.keys("") if key != "lease.json"} == before


def no_planner(*_given, **_named):
    raise AssertionError("nothing is planned")


@pytest.mark.parametrize("machine", ["here", "lost"])
def test_recovery_40_a_truncated_config_is_written_again(holdfast, complete, machine):
    """By its URL, with a backup of what was there; a second repair changes nothing."""
    good = complete.read("config.yaml")
    complete.write("config.yaml", good[: len(good) // 2])
    if machine == "lost":
        complete.lose_machine()
    repaired = holdfast.json("repair", complete.url, code=0)
    assert [text for text in repaired["changes"] if "config.yaml" in text and "backup-1/config.yaml" in text]
    assert complete.read("config.yaml") == good
    assert complete.read("backup-1/config.yaml") == good[: len(good) // 2]
    assert holdfast.json("repair", complete.url, code=0)["changes"] == []
    assert holdfast.json("verify", complete.url, code=0)["ok"]
    complete.lose_machine()
    complete.write("config.yaml", good[: len(good) // 2])
    assert "config.yaml" in holdfast("recover", complete.url, "--to", "home", code=0).err
    holdfast("resume", "home", code=0)


@pytest.mark.parametrize("how", ["flipped", "foreign", "truncated"])
def test_recovery_39_a_segment_is_written_again_from_the_intact_one_here(holdfast, complete, tmp_path, how):
    """Verify names the copy here and the command; what was replaced is kept; a second repair changes nothing."""
    key = complete.segments()[0 if how == "foreign" else 1]
    good = complete.read(key)
    if how == "flipped":
        flip(complete, key)
    else:
        complete.write(key, foreign_segment(holdfast, tmp_path) if how == "foreign" else good[:-30])
    bad = complete.read(key)
    verified = holdfast.json("verify", complete.url, code=1)
    (note,) = [note for note in verified["notes"] if "This machine has an intact copy" in note]
    assert key in note and f"holdfast repair {complete.url}" in note
    refused = holdfast("resume", complete.url, code=5)
    assert f"holdfast repair {complete.url}" in refused.err and "move" not in refused.err
    ended = holdfast("repair", complete.url, code=0)
    assert f"{key} was damaged in {complete.url}; it was written again" in ended.out + ended.err
    assert complete.read(key) == good and complete.read(f"backup-1/{key.rpartition('/')[2]}") == bad
    assert holdfast.json("verify", complete.url, code=0)["ok"]
    assert holdfast.json("repair", complete.url, code=0)["changes"] == []


def test_recovery_39_a_resume_writes_a_segment_again(holdfast, place, server, tmp_path):
    """Of a run in which trials remain: said, and the run is completed."""
    server.behave(hold=True, **{"pass": 3})
    eval_file = http_eval(tmp_path, server.base_url, 6, runner={"upload_interval": 0.1, "lease": 1.5})
    started = holdfast.start("run", eval_file, "--run-dir", place.url)
    until(lambda: place.published() == 3 and place.is_up_to_date(), "three are up")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    key = place.segments()[0]
    good = place.read(key)
    flip(place, key)
    ended = holdfast("resume", place.url, code=0)
    assert f"{key} was damaged in {place.url}; it was written again" in ended.out + ended.err
    assert place.read(key) == good and holdfast.json("verify", place.url, code=0)["ok"]


def test_recovery_48_a_segment_that_is_intact_nowhere_is_not_repaired(holdfast, complete):
    """Repair names it and exits with 1; the store keeps what it has."""
    key = complete.segments()[1]
    flip(complete, key)
    path = spool_root(complete.url) / key
    path.write_bytes(path.read_bytes()[:-30])
    bad = complete.read(key)
    ended = holdfast("repair", complete.url, code=1)
    assert key in ended.out and "nothing to repair" not in ended.out and "not intact either" in ended.out
    assert complete.read(key) == bad


def listed(place):
    above = place.url.rpartition("/")[0]
    (found,) = [item for item in api.list_recoverable(above) if item.run == place.url]
    return found


def test_recovery_41_a_list_says_what_it_has_not_checked(holdfast, complete):
    """The end of a session is believed for the state, and it is said that nothing was checked."""
    found = listed(complete)
    assert (found.state, found.finished, found.planned) == ("complete", 12, 12)
    assert found.note == "Ended complete, not checked."
    complete.delete(complete.segments()[1])
    assert "Missing: 1 segment" in listed(complete).note
    assert "ot checked" in holdfast("recover", "--list", complete.url.rpartition("/")[0], code=0).out


@pytest.mark.parametrize("by", ["this version", "an earlier one"])
def test_recovery_41_a_resume_that_only_uploads_publishes_true_counts(holdfast, complete, by):
    """A complete run whose rest is uploaded is listed as complete, whatever an earlier holder had counted."""
    lease = json.loads(complete.read("lease.json"))
    complete.write("lease.json", json.dumps(lease | {"finished": 0, "session": 2}).encode())
    if by == "this version":
        complete.delete(complete.segments()[-1])
        holdfast("resume", complete.url, code=0)
        lease = json.loads(complete.read("lease.json"))
        assert (lease["finished"], lease["planned"], lease["behind"]) == (12, 12, 0)
        assert "last reported 12" in holdfast("recover", complete.url, "--to", "home", code=0).out
    found = listed(complete)
    assert (found.state, found.finished, found.planned) == ("complete", 12, 12)


def test_recovery_45_what_is_in_the_store_is_counted(holdfast, cut_short):
    """A session that was killed before it could publish a count: the store is counted, not 0/0."""
    lease = json.loads(cut_short.read("lease.json"))
    cut_short.write("lease.json", json.dumps(lease | {"finished": 0, "planned": 0}).encode())
    found = listed(cut_short)
    assert (found.finished, found.planned) == (5, 8)
    assert "what is in the store" in found.note


@pytest.mark.parametrize("how", ["lost", "cut"])
def test_recovery_46_without_the_first_segment_the_way_on_is_said(holdfast, complete, how):
    """Nothing is counted "of 0 trials": recover, then repair."""
    first = complete.segments()[0]
    data = complete.read(first)
    complete.lose_machine()
    complete.delete(first) if how == "lost" else complete.write(first, data[:150])
    for command in ("status", "report", "show"):
        ended = holdfast(command, complete.url)
        said = ended.out + ended.err
        assert "of 0 trials" not in said and "/0" not in said
        assert f"holdfast recover {complete.url}" in said and "holdfast repair" in said
    holdfast("recover", complete.url, "--to", "home", code=0)
    holdfast("repair", "home")
    holdfast("resume", "home", code=0)
    assert holdfast.json("status", "home")["planned"] == 12


def test_recovery_46_a_foreign_first_segment_and_no_copy(holdfast, complete, tmp_path):
    """What is unknown is said to be unknown, and the commands lead on."""
    complete.write(complete.segments()[0], foreign_segment(holdfast, tmp_path))
    complete.lose_machine()
    ended = holdfast("recover", complete.url, "--to", "home", code=0)
    assert "planned trials is unknown" in ended.out and "holdfast repair home" in ended.out
    assert "of 0" not in ended.out and "holdfast resume" not in ended.out
    for command in ("verify", "status"):
        said = " ".join(holdfast(command, complete.url).out.split())
        assert "0 remaining" not in said and "how many remain is unknown" in said
    refused = holdfast("resume", complete.url, code=2)
    assert f"left in {complete.url}." in refused.err and f"holdfast repair {complete.url}" in refused.err
    holdfast("repair", complete.url)
    holdfast("resume", complete.url, code=0)
    assert holdfast.json("status", complete.url)["planned"] == 12


def test_recovery_47_one_damage_is_reported_once(holdfast, complete):
    """By recover as by verify."""
    chosen = complete.segments()[1]
    flip(complete, chosen)
    complete.lose_machine()
    ended = holdfast("recover", complete.url, "--to", "home", code=0)
    assert ended.err.count(chosen) == 1
    assert holdfast("verify", "home", code=1).out.count(f"journal/{chosen.rpartition('/')[2]}") == 1


def test_recovery_48_a_repair_that_cannot_repair_says_so(holdfast, complete):
    """Lost frames whose trials remain are not "nothing to repair"."""
    for key in complete.segments()[1:-1]:
        complete.delete(key)
    complete.lose_machine()
    holdfast("recover", complete.url, "--to", "home", code=0)
    holdfast("repair", "home", code=1)
    ended = holdfast("repair", "home", code=1)
    assert "home: not repaired" in ended.out and "cannot be repaired: missing" in ended.out
    assert "nothing to repair" not in ended.out and "holdfast resume home" in ended.out


def test_clean_spool_is_called_local(holdfast, complete):
    """The old name gives an answer that names the new one."""
    ended = holdfast("clean", complete.url, "--spool", code=2)
    assert "--local" in ended.err
    assert holdfast.json("clean", complete.url, "--local", code=0)["files"] > 4


@pytest.fixture
def with_files(place, tmp_path):
    """A run in the store whose trial has a blob and an artifact, with its spool on this machine."""
    root = spool_root(place.url)
    session = create_run(root, SessionContents(name="files", config={}, planned=1))
    (root / "artifacts" / "t1").mkdir(parents=True)
    (root / "artifacts" / "t1" / "log.txt").write_text("what happened")
    files = {"log.txt": file_digest(root / "artifacts" / "t1" / "log.txt")}
    commit(session, StepRecord(trial="t1", attempt=1, step="long", result="x" * BLOB_BYTES))
    commit(session, TrialRecord(trial="t1", attempt=1, status=Status.VALID, scores={"s": 1.0}, artifacts=files))
    session.close("completed")
    Layout(root).remote.write_text(place.url)
    UploadSet(ObjectStore(place.url), Layout(root)).upload(everything=True)
    return place


@pytest.mark.parametrize("how", ["missing", "altered"])
@pytest.mark.parametrize("below", ["blobs", "artifacts"])
def test_recovery_39_blobs_and_artifacts_are_named_and_healed(with_files, tmp_path, below, how):
    """One that is missing or altered in the store is named by recover; the intact copy here is written again."""
    (key,) = with_files.keys(below)
    good = with_files.read(key)
    with_files.delete(key) if how == "missing" else with_files.write(key, b"X" + good[1:])
    recovered = api.recover(with_files.url, tmp_path / "home")
    assert [text for text in recovered.warnings if key in text] and recovered.finished == 1
    assert len([text for text in recovered.warnings if key in text]) == 1
    told = heal_store(ObjectStore(with_files.url), Layout(spool_root(with_files.url)))
    assert [text for text in told if text.startswith(f"{key} was {how} in")] and with_files.read(key) == good
    assert heal_store(ObjectStore(with_files.url), Layout(spool_root(with_files.url))) == []
    again = api.recover(with_files.url, tmp_path / "again")
    assert again.warnings == [] and (tmp_path / "again" / key).read_bytes() == good


def test_recovery_39_a_bad_copy_here_heals_nothing(with_files):
    """The store keeps what it has where the copy here is not intact either."""
    (key,) = with_files.keys("artifacts")
    with_files.write(key, b"altered")
    (spool_root(with_files.url) / key).write_text("altered too")
    (told,) = heal_store(ObjectStore(with_files.url), Layout(spool_root(with_files.url)))
    assert "not intact either" in told and with_files.read(key) == b"altered"


def test_recovering_in_python_leaves_the_allocator_of_the_process_alone(with_files, tmp_path, monkeypatch, capfdbinary):
    """It is the caller's; the command line sets its own."""
    set_ = []
    for module in ("holdfast.storage.operating_system", "holdfast.run.remote.recover", "holdfast.cli.move.recover"):
        monkeypatch.setattr(f"{module}.return_large_buffers", lambda: set_.append(1), raising=False)
    api.recover(with_files.url, tmp_path / "home")
    assert set_ == []
    assert call(capfdbinary, "recover", with_files.url, "--to", tmp_path / "other").code == 0
    assert set_ == [1]


@pytest.fixture
def with_attempts(place):
    """A run in the store whose trial has failed once: each attempt has left a file of its own, and one is not cited."""
    root = spool_root(place.url)
    session = create_run(root, SessionContents(name="files", config={}, planned=1))
    (root / "artifacts" / "t1").mkdir(parents=True)
    for name in ("first.txt", "second.txt", "uncited.txt"):
        (root / "artifacts" / "t1" / name).write_text(name)
    for attempt, (name, status) in enumerate([("first.txt", Status.FAILED), ("second.txt", Status.VALID)], 1):
        files = {name: file_digest(root / "artifacts" / "t1" / name)}
        commit(session, TrialRecord(trial="t1", attempt=attempt, status=status, artifacts=files))
    session.close("completed")
    Layout(root).remote.write_text(place.url)
    UploadSet(ObjectStore(place.url), Layout(root)).upload(everything=True)
    return place


def test_recovery_39_the_file_of_an_earlier_attempt_is_healed_as_well(with_attempts):
    """The end of that attempt has its digest: the copy here is known to be intact."""
    key = "artifacts/t1/first.txt"
    with_attempts.write(key, b"altered.txt"[: len("first.txt")])
    (told,) = heal_store(ObjectStore(with_attempts.url), Layout(spool_root(with_attempts.url)))
    assert f"{key} was altered in" in told and "written again" in told
    assert with_attempts.read(key) == b"first.txt"


def test_recovery_39_a_file_without_a_record_is_not_said_to_be_damaged(with_attempts):
    """Which of the two is right is unknown, and is said to be."""
    key = "artifacts/t1/uncited.txt"
    with_attempts.write(key, b"altered.txt")
    (told,) = heal_store(ObjectStore(with_attempts.url), Layout(spool_root(with_attempts.url)))
    assert "not intact" not in told and "no record says which of them is right" in told
    assert with_attempts.read(key) == b"altered.txt"


NAMES = ["run@1", "läufe/über", "run", "run/nested", "run-2"]


def test_recovery_49_names_and_prefixes_are_not_mixed(place, tmp_path, store):
    """Keys with @, %40, ü, and prefixes that look alike or lie in one another: each run is its own."""
    above = place.url.rpartition("/")[0]
    for number, name in enumerate(NAMES, 1):
        url = f"{above}/{name}"
        make_run(tmp_path / f"made{number}", url, number)
    found = {item.run: item.planned for item in api.list_recoverable(above)}
    assert found == {f"{above}/{name}": number for number, name in enumerate(NAMES, 1)}
    for number, name in enumerate(NAMES, 1):
        recovered = api.recover(f"{above}/{name}", tmp_path / f"home{number}")
        assert (recovered.finished, recovered.planned, recovered.warnings) == (number, number, [])
        assert not list((tmp_path / f"home{number}").rglob("nested"))
    assert len({spool_root(f"{above}/{name}") for name in NAMES}) == len(NAMES)
    with pytest.raises(ConfigurationError, match="%40"):
        api.recover(f"{above}/run%401", tmp_path / "other")


def make_run(root, url, trials):
    """A complete run of so many trials, made here and uploaded."""
    session = create_run(root, SessionContents(name="made", config={}, planned=trials))
    for number in range(trials):
        commit(session, TrialRecord(trial=f"t{number}", attempt=1, status=Status.VALID, scores={"s": 1.0}))
    session.close("completed")
    UploadSet(ObjectStore(url), Layout(root)).upload(everything=True)


def test_recovery_49_two_halves_are_merged(holdfast, complete, tmp_path):
    """What each side has lost the other has: nothing is lost, and a damaged segment is made whole."""
    holdfast("recover", complete.url, "--to", "home", code=0)
    complete.lose_machine()
    keys = complete.segments()
    for key in keys[::2]:
        (tmp_path / "home" / key).unlink()
    for key in keys[1::2]:
        flip(complete, key)
    holdfast("recover", complete.url, "--to", "home", "--merge", code=0)
    assert holdfast.json("verify", "home", "--deep", code=0)["ok"]
    assert holdfast.json("status", "home")["finished"] == 12


def test_recovery_49_a_full_disk_ends_a_recovery_and_the_next_one_continues(complete, tmp_path, monkeypatch):
    """The error says so, nothing is under the name, and what was downloaded is used."""
    real, left = ObjectStore.fetch, [2]

    def fetch(self, key, path):
        left[0] -= 1
        if left[0] < 0:
            path.write_bytes(b"a part")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(self, key, path)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "fetch", fetch)
        with pytest.raises(StorageFailure, match="No space left"):
            api.recover(complete.url, tmp_path / "home")
    assert not (tmp_path / "home").exists()
    recovered = api.recover(complete.url, tmp_path / "home")
    assert (recovered.finished, recovered.warnings) == (12, [])


@pytest.mark.parametrize("name", ["run#1", "run?x=1", "a/../run", "a/./run", "a//run", "run\t1", "run "], ids=repr)
def test_recovery_49_a_url_that_would_be_read_as_another_is_refused(name):
    """One place has one name, and one spool: what would be cut off or resolved is refused, wherever it is given."""
    url = f"s3://evals/{name}"
    for refused in (ObjectStore, spool_root, api.recover, api.list_recoverable):
        with pytest.raises(ConfigurationError, match=r"contains|control"):
            refused(url)


def test_recovery_49_a_refused_url_has_its_own_exit_code(holdfast, place, tmp_path):
    """By each command, and nothing is written."""
    for command in ("status", "verify", "resume", "repair", "recover"):
        ended = holdfast(command, f"{place.url}#1", code=2)
        assert "contains '#'" in ended.err
    assert not (tmp_path / "spool").exists()


def test_recovery_49_advised_commands_quote_the_url(place, tmp_path):
    """A run whose URL has a space: what is advised can be typed as it is."""
    url = f"{place.url}/ü@x y"
    make_run(tmp_path / "made", url, 1)
    with pytest.raises(UsageError) as refused:
        refuse_existing_remote(url)
    assert f"holdfast resume '{url}'" in str(refused.value)
    with pytest.raises(UsageError) as refused:
        find_local_run(url, "changed")
    assert f"holdfast recover '{url}'" in str(refused.value)


def test_recovery_39_cleaning_advises_what_helps(holdfast, complete):
    """A file that differs from its copy in the store is kept, and nobody is sent to a resume that refuses it."""
    flip(complete, complete.segments()[1])
    ended = holdfast("clean", complete.url, "--local")
    assert f"holdfast repair {complete.url}" in ended.out and "holdfast resume" not in ended.out
    holdfast("repair", complete.url, code=0)
    assert holdfast.json("verify", complete.url, code=0)["ok"]


def test_recovery_38_a_run_was_last_written_when_its_objects_were(holdfast, complete):
    """From another machine: not the time of the command."""
    complete.lose_machine()
    newest = max(entry.at for entry in ObjectStore(complete.url).list("journal"))
    time.sleep(2)
    said = holdfast.json("status", complete.url)["last_updated_at"]
    assert datetime.fromisoformat(said).timestamp() <= newest + 1


def test_recovery_30_a_store_that_refuses_every_write_is_a_failing_store(place, monkeypatch):
    """409 to each write, from the first on: to be tried again, and not a store without conditional writes."""
    store = ObjectStore(place.url)
    error = store._obstore.exceptions.GenericError(
        "Error performing PUT http://127.0.0.1/x in 1ms - Server returned non-2xx status code: 409 Conflict: "
    )

    def put(*_, **__):
        raise error

    monkeypatch.setattr(store._obstore, "put", put)
    with pytest.raises(StorageFailure, match="refuses to store new objects") as refused:
        store.probe()
    assert "Try again" in str(refused.value)


# 47: one damage, one line.


def verified(holdfast, place):
    """The lines of `verify` that name something wrong, and the notes, without what other places say about it."""
    lines = holdfast("verify", place.url).out.splitlines()
    return [line.strip() for line in lines[4:] if not line.strip().startswith("therefore:")]


def test_recovery_47_a_segment_that_cannot_be_read_is_one_line(holdfast, complete):
    """That the object was skipped is said where the segment is missing."""
    key = complete.segments()[1]
    complete.lose_machine()
    complete.write(key, b"junk" * 100)
    (line,) = [line for line in verified(holdfast, complete) if key in line]
    assert line.startswith(f"missing: {key}: ")
    assert line.endswith("; the object in the store was skipped: nothing in it can be read")


def test_recovery_47_a_damaged_segment_is_one_line(holdfast, complete):
    """And one line says how to mend it: what is intact on this machine need not be noted as lost."""
    key = complete.segments()[1]
    data = complete.read(key)
    complete.write(key, data[:-40] + bytes(40))
    copy, damage = [line for line in verified(holdfast, complete) if key in line or "holdfast repair" in line]
    assert damage.startswith(f"unreadable: {key}") and copy.startswith("note: This machine has an intact copy of")


def test_recovery_47_a_damaged_input_is_one_line(holdfast, complete):
    (key,) = complete.keys("inputs")
    complete.lose_machine()
    complete.write(key, b"junk")
    (line,) = [line for line in verified(holdfast, complete) if key in line]
    assert line.startswith("missing: ") and "was skipped: it is damaged in the store" in line


def test_recovery_47_a_junk_configuration_is_one_note_that_names_the_object(holdfast, complete):
    """Not the copy of it in the cache of this machine; the command that is named mends it."""
    complete.lose_machine()
    complete.write("config.yaml", b"\x00junk: [")
    (line,) = verified(holdfast, complete)
    assert line.startswith(f"note: A resume would be refused: {complete.url}/config.yaml is not valid YAML")
    refused = holdfast("resume", complete.url, code=3)
    assert f"{complete.url}/config.yaml is not valid YAML" in refused.err and "/view/" not in refused.err
    assert f"`holdfast repair {complete.url}`" in line
    holdfast("repair", complete.url, code=0)
    assert verified(holdfast, complete) == []
