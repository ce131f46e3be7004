"""Bytes that nobody wrote in good faith: reading them ends soon, takes bounded memory, and invents nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
import zstandard

from durable import (
    compressed,
    crashed_run,
    data_pieces,
    finished_run,
    pieces,
    read_run,
    reframed,
    run_id,
    segment_paths,
    verified,
)
from holdfast.errors import NewerFormat, NotARun, UsageError
from holdfast.journal import DamageKind, JournalWriter
from holdfast.journal.frame import (
    COPY,
    DATA,
    FOOTER,
    FORMAT,
    HEADER_SIZE,
    MAGIC,
    RAW_LIMIT,
    Header,
    Origin,
    decode_header,
    encode_header,
    payload_digest,
)
from holdfast.journal.segment import SegmentId, parse_name
from holdfast.run import RunReader
from holdfast.storage import RealFileSystem


def add_segment(root, data, number=2, *, sealed=False):
    """Puts a further segment of the first session into a run."""
    path = root / "journal" / SegmentId(1, 0, number).filename(sealed=sealed)
    path.write_bytes(data)
    return path


def header(run, **fields):
    """A sound header of the second segment of the first session."""
    values = {"kind": DATA, "records": 1, "seq": 50, "stored": 0, "raw": 0, "digest": bytes(16), **fields}
    return encode_header(Header(1, values.pop("kind"), run, 1, 0, 2, origin=Origin(0, 0, 0), **values))


def test_an_empty_segment_is_passed_over(tmp_path, no_cache):
    """A file of no bytes holds nothing and is no damage while its name says that it is open."""
    root = crashed_run(tmp_path / "run", "t1")
    before = read_run(root)
    add_segment(root, b"")
    assert read_run(root) == before


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", [MAGIC, MAGIC + bytes(4) + b"HDFT"], ids=["magic", "magic and tag"])
def test_four_megabytes_of_magic_numbers_are_read_in_linear_time(tmp_path, no_cache, unit):
    """Nothing that looks like the beginning of a header makes the reader start over."""
    root = crashed_run(tmp_path / "run", "t1")
    before = read_run(root)
    add_segment(root, unit * ((4 << 20) // len(unit)))
    now = read_run(root)
    assert now.records == before.records
    assert [(item.kind, item.offset) for item in now.losses] == [(DamageKind.UNREADABLE, 0)]


@pytest.mark.timeout(60)
def test_a_journal_of_nothing_but_magic_numbers_is_no_run(tmp_path):
    """Looking for the run's id in megabytes of headers that are none ends, and says so."""
    root = tmp_path / "run"
    (root / "journal").mkdir(parents=True)
    add_segment(root, (MAGIC + bytes(4) + b"HDFT") * 300_000)
    with pytest.raises(NotARun):
        RunReader(root)


def test_a_header_that_claims_four_gigabytes_costs_no_memory(tmp_path, no_cache):
    """The payload of a sound header that is longer than the file is not read, and not made room for."""
    root = crashed_run(tmp_path / "run", "t1")
    before = read_run(root)
    add_segment(root, header(run_id(root), stored=0xFFFFFFFF, raw=0xFFFFFFFF) + bytes(100))
    now = read_run(root)
    assert now.records == before.records
    assert [item.kind for item in now.torn] == [DamageKind.TORN]


def test_the_frame_after_a_header_that_claims_too_much_is_found(tmp_path, no_cache):
    """A header whose length is wrong, but within the file, costs its own frame only."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    second, third = data_pieces(data)[1:3]
    claims = encode_header(decode_header(data, second.start)._replace(stored=third.end - second.start))
    path.write_bytes(data[: second.start] + claims + data[second.start + HEADER_SIZE :])
    assert read_run(root).records == [record for record in before.records if record[0].seq != second.seq]


BOMB = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
sys.path.insert(0, sys.argv[2])
from durable import read_run, verified
now = read_run(Path(sys.argv[1]))
print([item.kind.value for item in now.losses], verified(Path(sys.argv[1])).ok)
"""


@pytest.mark.parametrize("kind", [DATA, COPY, FOOTER])
@pytest.mark.parametrize("claim", ["true", "small", "unknown"])
def test_a_decompression_bomb_is_refused_in_bounded_memory(tmp_path, kind, claim):
    """A sound frame of a few kilobytes that stands for gigabytes is reported as unreadable, within 600 MB of memory."""
    root = crashed_run(tmp_path / "run", "t1")
    size = 3 << 30
    payload = bomb(size, known=claim != "unknown")
    frame = header(
        run_id(root),
        kind=kind,
        stored=len(payload),
        raw=size if claim == "true" else 1000,
        digest=payload_digest(payload),
    )
    add_segment(root, frame + payload)
    tests = str((__import__("pathlib").Path(__file__)).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(root), tests], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "['unreadable'] False\n"), done.stderr


BLOCK = zstandard.ZstdCompressor(level=1).compress(bytes(128 << 10))


def bomb(size, *, known):
    """A zstd frame of `size` zeros, made by hand: one run-length block for every 128 KiB."""
    blocks = size // (128 << 10)
    head = b"\x28\xb5\x2f\xfd" + (b"\xe0" + size.to_bytes(8, "little") if known else b"\x00\x38")
    block = (2 | (128 << 10) << 3).to_bytes(3, "little") + b"\x00"
    last = (3 | (128 << 10) << 3).to_bytes(3, "little") + b"\x00"
    return head + block * (blocks - 1) + last


def test_a_frame_whose_payload_is_no_zstd_is_lost_and_reported(tmp_path, no_cache):
    """A digest over nonsense proves that the nonsense was written; the records in it are owed."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    piece = data_pieces(data)[-1]
    for payload, raw in ((b"nonsense", 8), (b"", 0), (compressed(b"{}"), 4), (compressed(b"{}", b"{}", b"{}"), 9)):
        path.write_bytes(data[: piece.start] + reframed(data, piece, payload, raw=raw) + data[piece.end :])
        now = read_run(root)
        assert now.records == [record for record in before.records if record[0].seq != piece.seq]
        assert now.finished == []
        assert (now.losses[0].kind, now.losses[0].lost, now.losses[0].keys) == (
            DamageKind.UNREADABLE,
            (piece.seq, piece.seq),
            ("t1",),
        )
        assert not verified(root).ok


@pytest.mark.parametrize("payload", [b"nonsense", compressed(b'{"frames":"many"}'), compressed(b"[" * 100_000)])
def test_a_footer_that_cannot_be_decoded_is_reported(tmp_path, no_cache, payload):
    """The frames before such a footer are read; the segment counts as truncated."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    footer = pieces(data)[-1]
    raw = zstandard.frame_content_size(payload) if payload.startswith(b"\x28") else 8
    path.write_bytes(data[: footer.start] + reframed(data, footer, payload, raw=raw))
    now = read_run(root)
    assert now.records == before.records
    (loss,) = now.losses
    assert loss.kind is DamageKind.UNREADABLE
    assert "it was sealed, but its footer is missing" in loss.consequences


@pytest.mark.parametrize("line", [b"[" * 100_000, b"\xff\xfe", b"{", b"5", b"{}", b'{"type":7}', b""])
def test_a_line_that_is_no_record_is_passed_over(tmp_path, no_cache, line):
    """A sound frame with lines that are no records harms nothing: neither the index nor verify fails on it."""
    root = crashed_run(tmp_path / "run", "t1")
    payload = compressed(line)
    frame = header(run_id(root), stored=len(payload), raw=len(line) + 1, digest=payload_digest(payload))
    add_segment(root, frame + payload)
    now = read_run(root)
    assert now.finished == ["t1"]
    assert now.records[-1][1] == line
    assert verified(root).by_type["unknown"] == 1


def test_a_frame_of_an_unknown_kind_is_damage_and_no_newer_format(tmp_path, no_cache):
    """A kind that this format does not have is reported; the run is not said to need another version."""
    root = crashed_run(tmp_path / "run", "t1")
    payload = compressed(b"{}")
    add_segment(
        root, header(run_id(root), kind=9, stored=len(payload), raw=3, digest=payload_digest(payload)) + payload
    )
    now = read_run(root)
    assert [item.kind for item in now.losses] == [DamageKind.UNREADABLE]
    assert "unknown kind (9)" in now.losses[0].detail


@pytest.mark.parametrize("kind", [DATA, FOOTER])
def test_resume_27_a_frame_of_a_newer_format_is_refused_by_name(tmp_path, kind):
    """A newer version's data or footer is not guessed at; the format that is needed is named."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    payload = compressed(b"{}")
    newer = reframed(data, data_pieces(data)[-1], payload, format=7, kind=kind, raw=3)
    path.write_bytes(data + newer)
    with pytest.raises(NewerFormat, match=f"written in format 7; this version reads up to {FORMAT}"):
        RunReader(root)
    path.write_bytes(data)
    assert read_run(root).finished == ["t1"]


@pytest.mark.timeout(60)
def test_a_segment_with_a_huge_number_in_its_name_is_reported_in_bounded_time(tmp_path, no_cache):
    """A file may bear any name; the segments before it are not all listed as missing."""
    root = crashed_run(tmp_path / "run", "t1")
    add_segment(root, b"", number=2_000_000_000)
    assert len(read_run(root).losses) < 1001


def test_a_record_that_no_frame_could_hold_is_refused_to_its_maker(tmp_path):
    """What a reader would not read is not written; the writer goes on."""
    writer = JournalWriter(RealFileSystem(), tmp_path, bytes(16), 1)
    with pytest.raises(UsageError, match="more than a frame holds"):
        writer.queue.commit(bytes(RAW_LIMIT))
    writer.queue.commit(b"{}")
    writer.close()


@pytest.mark.parametrize(
    "name",
    [
        "0000001-0000-000001.jsonl.zst",
        "1-0-1.jsonl.zst",
        "\u0660" * 6 + "-0000-000001.jsonl.zst",
        "9" * 100 + "-0000-000001.jsonl.zst",
        "000001-0000-000001.closed.jsonl.zst",
        "000001-0000-000001.jsonl.zst.bak",
    ],
)
def test_a_file_with_another_name_is_no_segment(tmp_path, no_cache, name):
    """A segment has one name; whatever is called otherwise is left alone."""
    root = crashed_run(tmp_path / "run", "t1")
    before = read_run(root)
    (root / "journal" / name).write_bytes(segment_paths(root)[0].read_bytes())
    assert parse_name(name) is None
    assert read_run(root) == before
    assert verified(root).ok
