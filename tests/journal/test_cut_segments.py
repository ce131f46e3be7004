"""Recovery 1 and 26: what is left of a segment that was cut off."""

from __future__ import annotations

import pytest

from durable import (
    begin_run,
    begin_session,
    compressed,
    crashed_run,
    data_pieces,
    finish_trials,
    finished_of,
    finished_run,
    pieces,
    read_run,
    reframed,
    run_id,
    scan_bytes,
    segment_paths,
    verified,
)
from holdfast.errors import NotARun
from holdfast.journal import DamageKind
from holdfast.run import RunReader


def whole_before(data, cut):
    """The sequence numbers of the frames that end at or before `cut`."""
    return {piece.seq for piece in data_pieces(data) if piece.end <= cut}


def test_recovery_1_an_unsealed_segment_cut_at_every_byte_keeps_every_whole_frame(tmp_path):
    """Every record whose frame is whole is read, none beyond, and nothing but a torn tail is reported."""
    root = crashed_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[-1]
    data = path.read_bytes()
    run = run_id(root)
    everything, _ = scan_bytes(path, data, run)
    ends = {piece.end for piece in data_pieces(data)}
    for cut in range(len(data) + 1):
        records, damage = scan_bytes(path, data[:cut], run)
        kept = whole_before(data, cut)
        assert records == [record for record in everything if record[0].seq in kept], cut
        expected = [] if cut in ends | {0} else [DamageKind.TORN]
        assert [item.kind for item in damage] == expected, cut


def test_recovery_1_a_run_opens_wherever_its_last_segment_was_cut(tmp_path, no_cache):
    """A reader gives the records and the finished trials of the whole frames; verify calls it an ordinary crash."""
    root = tmp_path / "run"
    session = begin_run(root, planned=4, segment_bytes=900)
    finish_trials(session, "t1", "t2", "t3", "t4")
    session.abandon()
    assert len(segment_paths(root)) > 1
    path = segment_paths(root)[-1]
    data = path.read_bytes()
    before = read_run(root)
    numbers = {piece.seq for piece in data_pieces(data)}
    for cut in interesting_cuts(data):
        path.write_bytes(data[:cut])
        kept = whole_before(data, cut)
        now = read_run(root)
        assert now.records == [record for record in before.records if record[0].seq not in numbers - kept], cut
        assert now.finished == finished_of(now.records), cut
        assert now.losses == [], cut
        assert verified(root).ok, cut


def test_recovery_1_a_sealed_segment_cut_at_every_byte_keeps_every_whole_frame_and_says_so(tmp_path):
    """A sealed segment that is cut anywhere is damage; the whole frames in it are read."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    run = run_id(root)
    everything, _ = scan_bytes(path, data, run)
    for cut in range(len(data) + 1):
        records, _ = scan_bytes(path, data[:cut], run)
        assert records == [record for record in everything if record[0].seq in whole_before(data, cut)], cut


@pytest.mark.parametrize("which", [0, -1], ids=["of records", "of the session's end"])
def test_recovery_26_a_sealed_segment_cut_anywhere_is_damage(tmp_path, no_cache, which):
    """However short a sealed segment has become, it is named as truncated and verify is not satisfied."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[which]
    data = path.read_bytes()
    before = read_run(root)
    numbers = {piece.seq for piece in data_pieces(data)}
    for cut in interesting_cuts(data, step=61):
        path.write_bytes(data[:cut])
        lost = numbers - whole_before(data, cut)
        now = read_run(root)
        assert now.records == [record for record in before.records if record[0].seq not in lost], cut
        assert now.finished == finished_of(now.records), cut
        assert [(item.kind, item.where) for item in now.losses][:1] == [
            (DamageKind.TRUNCATED, f"journal/{path.name}")
        ], cut
        assert not verified(root).ok, cut


def test_recovery_26_the_newest_segment_of_a_finished_session_is_missed(tmp_path, no_cache):
    """Deleting the last segment of the first session, and of the second, is damage, also for who never saw it."""
    root = finished_run(tmp_path / "run", "t1")
    second = begin_session(root)
    finish_trials(second, "t2")
    second.close("complete")
    (root / "index.sqlite").unlink()
    for path in [path for path in segment_paths(root) if path.name.endswith("000002.jsonl.zst")]:
        data = path.read_bytes()
        path.unlink()
        losses = read_run(root).losses
        assert [(item.kind, item.where) for item in losses] == [(DamageKind.MISSING, f"journal/{path.name}")]
        assert not verified(root).ok
        path.write_bytes(data)
    assert read_run(root).losses == []


def test_recovery_26_the_only_segment_of_a_killed_session_is_missed_once_another_session_has_seen_it(tmp_path):
    """A pin of a later session vouches for an unsealed segment that nothing else vouches for."""
    root = crashed_run(tmp_path / "run", "t1")
    begin_session(root).close("complete")
    path = segment_paths(root)[0]
    path.unlink()
    (root / "index.sqlite").unlink()
    losses = read_run(root).losses
    assert [(item.kind, item.where) for item in losses] == [
        (DamageKind.MISSING, "journal/000001-0000-000001.jsonl.zst")
    ]


def test_recovery_26_a_pinned_segment_that_lost_its_last_frames_is_truncated(tmp_path, no_cache):
    """An unsealed segment shorter than a later session saw it is damage; the lost frames are numbered."""
    root = crashed_run(tmp_path / "run", "t1", "t2")
    begin_session(root).close("complete")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    parts = data_pieces(data)
    for cut in (parts[-1].start, parts[-3].start, parts[-3].start + 7, 0):
        path.write_bytes(data[:cut])
        kept = whole_before(data, cut)
        (loss,) = read_run(root).losses
        assert (loss.kind, loss.where) == (DamageKind.TRUNCATED, f"journal/{path.name}")
        assert loss.lost == (max(kept, default=0) + 1, parts[-1].seq)


def test_recovery_26_a_pinned_segment_whose_last_frame_was_exchanged_is_changed(tmp_path, no_cache):
    """A sound last frame that is not the one a later session saw is damage."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    begin_session(root).close("complete")
    last = data_pieces(data)[-1]
    line = b'{"type":"note","kind":"forged","text":"other"}'
    forged = reframed(data, last, compressed(line), raw=len(line) + 1, records=1)
    path.write_bytes(data[: last.start] + forged)
    (loss,) = read_run(root).losses
    assert loss.kind is DamageKind.CHANGED


def test_a_run_of_one_segment_without_a_whole_header_is_said_to_hold_nothing(tmp_path):
    """A journal cut down to less than one header is no run any more, and that is said plainly."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(NotARun, match="nothing in its journal can be read"):
        RunReader(root)


def interesting_cuts(data, step=23):
    """Every frame's edges with their neighbours, and places between."""
    edges = {edge + near for piece in pieces(data) for edge in (piece.start, piece.end) for near in (-1, 0, 1)}
    return sorted(cut for cut in edges | set(range(0, len(data), step)) if 0 <= cut < len(data))
