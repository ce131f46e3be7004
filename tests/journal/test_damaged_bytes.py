"""Recovery 2, 3 and 4: bytes that changed, vanished or were added."""

from __future__ import annotations

import random

import pytest

from durable import (
    begin_run,
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
from holdfast.journal import DamageKind
from holdfast.journal.frame import HEADER_SIZE


def flipped(data, place, mask=0xFF):
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


@pytest.mark.parametrize("make", [finished_run, crashed_run], ids=["sealed", "unsealed"])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_recovery_2_every_flipped_byte_loses_its_frame_and_no_other(tmp_path, make, mask):
    """The frame a flipped byte stands in is lost and reported where it lies; all others are read as written."""
    root = make(tmp_path / "run", "t1", "t2")
    path, run = segment_paths(root)[0], run_id(root)
    data = path.read_bytes()
    everything, _ = scan_bytes(path, data, run)
    for piece in pieces(data):
        for place in range(piece.start, piece.end):
            records, damage = scan_bytes(path, flipped(data, place, mask), run)
            expected = everything if piece.kind == 3 else [item for item in everything if item[0].seq != piece.seq]
            assert records == expected, place
            assert [(item.kind, item.offset, item.length) for item in damage] == [
                (DamageKind.UNREADABLE, piece.start, piece.end - piece.start)
            ], place


def test_recovery_2_a_run_with_a_flipped_byte_names_the_frame_and_owes_its_trials(tmp_path, no_cache):
    """In each frame of a sealed segment: the reader, the finished trials and verify agree about what is lost."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    for piece in data_pieces(data):
        for place in (piece.start, piece.start + 30, piece.start + HEADER_SIZE + 9, piece.end - 1):
            path.write_bytes(flipped(data, place))
            now = read_run(root)
            lost = [record for record in before.records if record[0].seq == piece.seq]
            assert now.records == [record for record in before.records if record[0].seq != piece.seq]
            assert now.finished == finished_of(now.records)
            (loss,) = now.losses
            assert (loss.lost, loss.keys) == ((piece.seq, piece.seq), keys_of(lost))
            assert verified(root).damage == [loss]


def keys_of(records):
    """The trials that these records belong to."""
    lines = b"".join(line for _, line in records)
    return tuple(key for key in ("t1", "t2", "t3", "t4") if f'"trial":"{key}"'.encode() in lines)


@pytest.mark.parametrize("make", [finished_run, crashed_run], ids=["sealed", "unsealed"])
def test_recovery_3_a_missing_frame_is_a_gap_and_its_trials_are_owed(tmp_path, no_cache, make):
    """Each frame in turn taken out: numbers are named, trials too where a footer knows them; the rest counts."""
    root = make(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    for piece in data_pieces(data)[1:-1]:
        path.write_bytes(data[: piece.start] + data[piece.end :])
        now = read_run(root)
        assert now.records == [record for record in before.records if record[0].seq != piece.seq]
        assert now.finished == finished_of(now.records)
        (loss,) = now.losses
        assert (loss.kind, loss.lost, loss.offset) == (DamageKind.GAP, (piece.seq, piece.seq), piece.start)
        if make is finished_run:
            assert loss.keys == keys_of([record for record in before.records if record[0].seq == piece.seq])
        assert not verified(root).ok


def test_recovery_3_the_first_and_the_last_frame_of_a_sealed_segment_are_missed(tmp_path, no_cache):
    """A footer vouches for the beginning and the end of its segment too."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    for piece in (data_pieces(data)[0], data_pieces(data)[-1]):
        path.write_bytes(data[: piece.start] + data[piece.end :])
        (loss,) = read_run(root).losses
        assert (loss.kind, loss.lost) == (DamageKind.GAP, (piece.seq, piece.seq))
        assert not verified(root).ok


def test_recovery_3_bytes_missing_inside_a_frame_cost_that_frame_only(tmp_path):
    """Wherever some bytes of a frame are cut out, the frame after it is found, though it begins early."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path, run = segment_paths(root)[0], run_id(root)
    data = path.read_bytes()
    everything, _ = scan_bytes(path, data, run)
    for piece in data_pieces(data):
        for place in range(piece.start, piece.end - 3, 5):
            records, damage = scan_bytes(path, data[:place] + data[place + 3 :], run)
            assert records == [item for item in everything if item[0].seq != piece.seq], place
            assert [item.kind for item in damage] == [DamageKind.UNREADABLE], place


def test_recovery_3_a_missing_segment_is_reported_with_its_frames_and_its_trials_are_owed(tmp_path, no_cache):
    """Each segment in turn taken away: named with the numbers of its frames; what the others hold counts."""
    root = tmp_path / "run"
    session = begin_run(root, planned=4, segment_bytes=700)
    finish_trials(session, "t1", "t2", "t3", "t4")
    session.close("complete")
    before = read_run(root)
    assert len(segment_paths(root)) >= 4
    for path in segment_paths(root)[:-1]:
        data = path.read_bytes()
        numbers = [piece.seq for piece in data_pieces(data)]
        path.unlink()
        (root / "index.sqlite").unlink(missing_ok=True)
        now = read_run(root)
        assert now.records == [record for record in before.records if record[0].seq not in numbers]
        assert now.finished == finished_of(now.records)
        (loss,) = now.losses
        assert (loss.kind, loss.where, loss.lost) == (
            DamageKind.MISSING,
            f"journal/{path.name}",
            (numbers[0], numbers[-1]),
        )
        assert not verified(root).ok
        path.write_bytes(data)


def test_recovery_3_whoever_had_indexed_a_missing_segment_names_its_trials(tmp_path):
    """An index that knew the segment tells which trials were in it."""
    root = tmp_path / "run"
    session = begin_run(root, planned=4, segment_bytes=700)
    finish_trials(session, "t1", "t2", "t3", "t4")
    session.close("complete")
    before = read_run(root)
    path = segment_paths(root)[1]
    numbers = [piece.seq for piece in data_pieces(path.read_bytes())]
    path.unlink()
    keys = keys_of([record for record in before.records if record[0].seq in numbers])
    assert [loss.keys for loss in read_run(root).losses] == [keys]
    assert [loss.keys for loss in verified(root).damage] == [keys]


@pytest.mark.parametrize("make", [finished_run, crashed_run], ids=["sealed", "unsealed"])
@pytest.mark.parametrize("what", ["zeros", "garbage", "magic", "own frames", "another segment", "another run"])
def test_recovery_4_bytes_appended_to_a_segment_are_reported_and_the_rest_is_read(tmp_path, no_cache, make, what):
    """Zero bytes, garbage, and frames of this and of other segments behind the end change no record."""
    root = make(tmp_path / "run", "t1", "t2")
    other = crashed_run(tmp_path / "other", "x1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    seed = 20261115
    print(f"seed {seed}")
    added = {
        "zeros": bytes(512),
        "garbage": random.Random(seed).randbytes(700),
        "magic": bytes.fromhex("582a4d18") * 40,
        "own frames": data[: data_pieces(data)[1].end],
        "another segment": segment_paths(root)[-1].read_bytes(),
        "another run": segment_paths(other)[0].read_bytes(),
    }[what]
    before = read_run(root)
    path.write_bytes(data + added)
    now = read_run(root)
    assert now.records == before.records
    assert now.finished == before.finished == ["t1", "t2"]
    assert [item.where for item in now.losses] == [f"journal/{path.name}"] * len(now.losses)
    assert now.losses
    assert sum(item.length for item in now.losses) == len(added)
    assert not verified(root).ok


def test_recovery_4_foreign_frames_in_the_middle_are_passed_over(tmp_path, no_cache):
    """Frames of another run between our own are named as such, and every one of ours is read."""
    root = crashed_run(tmp_path / "run", "t1", "t2")
    other = crashed_run(tmp_path / "other", "x1")
    path = segment_paths(root)[0]
    data, foreign = path.read_bytes(), segment_paths(other)[0].read_bytes()
    before = read_run(root)
    middle = data_pieces(data)[3].start
    path.write_bytes(data[:middle] + foreign + data[middle:])
    now = read_run(root)
    assert now.records == before.records
    (loss,) = now.losses
    assert loss.kind is DamageKind.FOREIGN
    assert run_id(other).hex() in loss.detail


def test_a_frame_that_stands_in_its_segment_twice_counts_once(tmp_path, no_cache):
    """A repeated frame is reported and its records are given once."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    piece = data_pieces(data)[1]
    path.write_bytes(data[: piece.end] + data[piece.start :])
    now = read_run(root)
    assert now.records == before.records
    assert [item.kind for item in now.losses] == [DamageKind.REPEATED]


def test_a_footer_that_counts_other_frames_than_are_there_is_damage(tmp_path, no_cache):
    """A sound frame that takes the place of another is noticed by the footer's chain of digests."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    piece = data_pieces(data)[1]
    forged = reframed(data, piece, compressed(b'{"type":"note","kind":"k","text":"t"}'), raw=38, records=1)
    path.write_bytes(data[: piece.start] + forged + data[piece.end :])
    (loss,) = read_run(root).losses
    assert loss.kind is DamageKind.COUNT
    assert "not those that the footer" in loss.detail


def test_several_damaged_frames_are_named_one_by_one(tmp_path, no_cache):
    """Two frames flipped far apart are two findings with their own trials."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    parts = data_pieces(data)
    broken = flipped(flipped(data, parts[2].start + 95), parts[-1].start + 95)
    path.write_bytes(broken)
    losses = read_run(root).losses
    assert [loss.lost for loss in losses] == [(parts[2].seq,) * 2, (parts[-1].seq,) * 2]
    assert [loss.keys for loss in losses] == [("t1",), ("t2",)]
