"""Resume 79 and recovery 47: what is lost is named once, by bytes of the run; no verdict depends on a cache."""

from __future__ import annotations

import contextlib
import os
import random
import shutil

import pytest

from durable import begin_run, begin_session, finish_trials, segment_paths, verified
from holdfast.analysis.report import make_report
from holdfast.analysis.status import run_status
from holdfast.errors import HoldfastError
from holdfast.run import RunReader
from holdfast.storage.leases.holder import AcknowledgedFrames, this_process

SEED = 79


def kill(session):
    """Lets go of a session as SIGKILL does: its name and how far it had come stay in the file `lease`."""
    session.lease.publish(session.acknowledged_frames())
    text = (session.layout.root / "lease").read_bytes()
    session.abandon()
    (session.layout.root / "lease").write_bytes(text)


def make_run(root):
    """Three sessions: killed, ended in order, killed; several segments in each."""
    session = begin_run(root, planned=7, segment_bytes=700)
    finish_trials(session, "t1", "t2")
    kill(session)
    session = begin_session(root, planned=7, segment_bytes=700)
    finish_trials(session, "t3", "t4")
    session.close("interrupted", 130)
    session = begin_session(root, planned=7)
    finish_trials(session, "t5", "t6")
    kill(session)
    return root


def forms(data, rng):
    """What may become of a file: gone, empty, cut, a flipped bit, garbage behind it."""
    place = rng.randrange(max(len(data), 1))
    yield None
    yield b""
    yield data[: len(data) // 2]
    yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] if data else b"x"
    yield data + os.urandom(0) + rng.randbytes(40)


def verdict(root):
    """What verify, status and report say, without notes for people and names of trials."""
    try:
        found = verified(root)
        with contextlib.closing(RunReader(root)) as reader:
            status, report = run_status(reader), make_report(reader)
            return (
                found.ok,
                sorted((item.kind.value, item.where, item.detail) for item in found.damage),
                sorted((item.kind.value, item.where, item.detail) for item in status.damage),
                (found.counts, status.counts, report.coverage),
                (found.transcripts_lost, status.transcripts_lost, report.transcripts_lost),
            )
    except HoldfastError as error:
        return type(error).__name__, str(error)


def without_caches(root, cache_home):
    for path in [*root.glob("index.sqlite*"), *root.glob(".index.sqlite*")]:
        path.unlink()
    shutil.rmtree(cache_home)
    cache_home.mkdir()


def test_resume_79_a_verdict_is_the_same_with_and_without_caches(tmp_path, cache_home):
    """Any one file of the journal, or the lease, is damaged in any way after the run was read and indexed."""
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    whole = make_run(tmp_path / "whole")
    names = [path.relative_to(whole) for path in [*segment_paths(whole), whole / "lease", whole / "config.yaml"]]
    assert len(names) > 7
    for number, name in enumerate(names):
        for form, data in enumerate(forms((whole / name).read_bytes(), rng)):
            root = tmp_path / f"run-{number}-{form}"
            shutil.copytree(whole, root)
            assert verdict(root)[0] is True
            if data is None:
                (root / name).unlink()
            else:
                (root / name).write_bytes(data)
            with_caches = verdict(root)
            without_caches(root, cache_home)
            assert verdict(root) == with_caches, (name, form)
            shutil.rmtree(root)


def test_resume_79_the_newest_segment_of_a_killed_session_is_named_by_its_lease(tmp_path, cache_home):
    """Before any later session: the file `lease` says how far it had come. A cut below that is damage too."""
    root = make_run(tmp_path / "run")
    newest = segment_paths(root)[-1]
    data = newest.read_bytes()
    for left in (None, data[: len(data) // 2]):
        newest.unlink() if left is None else newest.write_bytes(left)
        without_caches(root, cache_home)
        found = verified(root)
        (damage,) = [item for item in found.damage if item.is_loss]
        assert (damage.kind.value, damage.where) == (
            "missing" if left is None else "truncated",
            f"journal/{newest.name}",
        )
        assert "had acknowledged frames up to" in damage.detail


def test_resume_79_the_next_session_s_pins_name_a_segment_that_is_deleted_later(tmp_path, cache_home):
    """Once a session has opened the run, it vouches for everything that it found."""
    root = make_run(tmp_path / "run")
    newest = segment_paths(root)[-1]
    begin_session(root, planned=7).close("interrupted", 130)
    newest.unlink()
    without_caches(root, cache_home)
    (damage,) = [item for item in verified(root).damage if item.is_loss]
    assert (damage.kind.value, damage.where) == ("missing", f"journal/{newest.name.replace('.open', '')}")


def test_resume_79_what_no_byte_can_tell_is_no_damage_and_is_noted_where_a_cache_has_seen_it(tmp_path, cache_home):
    """A lease that says nothing, a deleted segment: OK with and without the cache; with it, a note."""
    root = make_run(tmp_path / "run")
    newest = segment_paths(root)[-1]
    without_caches(root, cache_home)
    assert verified(root).ok
    (root / "lease").write_bytes(b"")
    newest.unlink()
    seen = verified(root)
    assert seen.ok
    assert any(newest.name.partition(".")[0] in note for note in seen.notes)
    without_caches(root, cache_home)
    assert verified(root).ok


@pytest.mark.parametrize("text", [b"x", b"{}\n[1]", b"{}\n[1,0,1,1e9]", b"{}\n" + b"[" * 5000])
def test_a_lease_with_any_text_says_nothing(tmp_path, text):
    """Only what is readable is believed."""
    root = make_run(tmp_path / "run")
    (root / "lease").write_bytes(text)
    assert verified(root).ok


def test_a_lease_that_claims_more_than_there_ever_was_is_named_once(tmp_path):
    """One finding, in one place."""
    import msgspec  # noqa: PLC0415

    root = make_run(tmp_path / "run")
    claim = AcknowledgedFrames(9, 0, 4, 1000)
    (root / "lease").write_bytes(msgspec.json.encode(this_process()) + b"\n" + msgspec.json.encode(claim))
    found = [item for item in verified(root).damage if item.is_loss]
    assert [(item.kind.value, item.where) for item in found] == [
        ("missing", "journal/000009-0000-000004.open.jsonl.zst")
    ]


def test_recovery_47_one_damage_is_one_finding(tmp_path):
    """A flipped bit in each frame, and each segment deleted, in turn: what follows from it is no second finding."""
    whole = make_run(tmp_path / "whole")
    for number, path in enumerate(segment_paths(whole)):
        for form in ("flipped", "deleted", "cut"):
            root = tmp_path / f"run-{number}-{form}"
            shutil.copytree(whole, root)
            target, data = root / "journal" / path.name, path.read_bytes()
            if form == "deleted":
                target.unlink()
            elif form == "cut":
                target.write_bytes(data[: len(data) // 2])
            else:
                target.write_bytes(data[:70] + bytes([data[70] ^ 1]) + data[71:])
            found = [item for item in verified(root).damage if item.is_loss]
            assert len(found) == 1, (path.name, form, list(map(str, found)))
            shutil.rmtree(root)


def test_recovery_47_a_cut_below_what_was_pinned_is_one_damage_and_no_torn_tail(tmp_path):
    """Any segment for which a later record, its name or the lease vouches, cut at any place: told once, as cut."""
    root = make_run(tmp_path / "run")
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    for path in segment_paths(root):
        data = path.read_bytes()
        for size in {0, len(data) // 2, len(data) - 1, *rng.sample(range(len(data)), min(len(data), 12))}:
            path.write_bytes(data[:size])
            found = verified(root)
            (damage,) = found.damage
            assert (damage.kind.value, damage.where) == ("truncated", f"journal/{path.name}"), (size, damage)
            assert "never acknowledged" not in " ".join((str(damage), *damage.consequences))
            assert found.torn_bytes == 0
        path.write_bytes(data)
    assert verified(root).ok


@pytest.mark.parametrize("name", ["000003-0000-000011.open", "000003-0000-000011", "000009-0003-000007.open"])
def test_recovery_47_a_foreign_file_vouches_for_nothing(tmp_path, name):
    """A copy of a segment under a number that was never given is one damage: what it implies never existed."""
    root = make_run(tmp_path / "run")
    shutil.copy(segment_paths(root)[-1], root / "journal" / f"{name}.jsonl.zst")
    found = verified(root)
    assert [(item.kind.value, item.where) for item in found.damage] == [("foreign", f"journal/{name}.jsonl.zst")]
