"""Archives are read without trust and written so that anybody reads them."""

from __future__ import annotations

import json
import random
import tracemalloc
import zipfile

import pytest
import zstandard
from crashed_evals import spec, zip_bytes, zstd_zip

from holdfast.interop.inspect.archive import zip_format as fmt
from holdfast.interop.inspect.archive import zip_reader, zip_writer
from holdfast.interop.inspect.archive.zip_format import ZipEntry
from holdfast.interop.inspect.archive.zip_reader import ArchiveError, ZipReader
from holdfast.interop.inspect.archive.zip_writer import ZipWriter
from holdfast.interop.inspect.eval_archive import EvalArchive
from holdfast.storage.filesystem import RealFileSystem

MOST = 1 << 20


def contents(path) -> dict[str, bytes]:
    with ZipReader(path) as archive:
        return {name: bytes(archive.read(name, MOST)) for name in archive.entries}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_others_are_read(tmp_path, method):
    members = {"a.json": b"", "b/ü.json": b"x" * 300_000, "c": bytes(range(256)) * 99}
    (tmp_path / "a.zip").write_bytes(zip_bytes(members, method))
    assert contents(tmp_path / "a.zip") == members


def test_a_member_of_several_zstd_frames_is_read(tmp_path):
    frames = [b"first " * 1000, b"", b"second " * 1000, random.Random(3).randbytes(700_000)]
    (tmp_path / "a.zip").write_bytes(zstd_zip("a", frames))
    assert contents(tmp_path / "a.zip") == {"a": b"".join(frames)}


def test_a_member_is_written_in_several_zstd_frames(tmp_path, monkeypatch):
    """A decoder in a browser cannot read large frames; ours and the library's read all of them."""
    monkeypatch.setattr(zip_writer, "_FRAME", 1000)
    pieces = [b"abc" * 500] * 5
    with ZipWriter(RealFileSystem(), tmp_path / "a.zip") as archive:
        archive.add("a", pieces)
    assert contents(tmp_path / "a.zip") == {"a": b"".join(pieces)}
    with ZipReader(tmp_path / "a.zip") as archive:
        packed = b"".join(archive.packed_pieces(archive.entries["a"]))
    assert packed.count(zstandard.FRAME_HEADER) == 6


def test_pythons_reader_lists_what_is_written_also_in_zip64(tmp_path):
    """More members than the old format counts."""
    entry = ZipEntry("", fmt.STORED, 0, 0, 0, 0)
    with ZipWriter(RealFileSystem(), tmp_path / "a.zip") as archive:
        for number in range(fmt.MAX16 + 5):
            archive.add_packed(entry._replace(name=str(number)), [])
    with zipfile.ZipFile(tmp_path / "a.zip") as theirs:
        assert len(theirs.namelist()) == fmt.MAX16 + 5
    with ZipReader(tmp_path / "a.zip") as ours:
        assert len(ours.entries) == fmt.MAX16 + 5


@pytest.mark.parametrize(
    "sizes", [(1, 5 << 32, 0), (5 << 32, 5 << 32, 7), (3, 4, 6 << 32), (6 << 32, 7 << 32, 8 << 32)]
)
def test_sizes_and_places_beyond_four_gigabytes_are_kept(tmp_path, sizes):
    packed, size, offset = sizes
    entry = ZipEntry("a", fmt.ZSTD, 7, packed, size, offset, fmt.UTF8_NAME)
    header = zip_writer._central_header(entry)
    assert list(zip_reader._parse_directory(tmp_path, header, 1)) == [entry]


def test_of_two_members_with_one_name_the_last_counts(tmp_path):
    """As for Inspect, which writes a sample that was run again once more."""
    with pytest.warns(UserWarning, match="Duplicate"):
        content = zip_bytes([("a", b"old"), ("b", b"b"), ("a", b"new")])
    (tmp_path / "a.zip").write_bytes(content)
    assert contents(tmp_path / "a.zip") == {"b": b"b", "a": b"new"}


def _patched(field: int, value: bytes, *, local: int | None = None) -> bytes:
    """An archive whose central directory, or local header, says something else."""
    content = bytearray(zip_bytes({"a": b"content " * 100}))
    at = content.index(b"PK\x01\x02") + field if local is None else local
    content[at : at + len(value)] = value
    return bytes(content)


def _overlapping() -> bytes:
    """Two names for the same bytes: how a small archive becomes a very large one."""
    content = bytearray(zip_bytes({"a": b"1" * 50, "b": b"2" * 50}))
    second = content.rindex(b"PK\x01\x02")
    content[second + 42 : second + 46] = (0).to_bytes(4, "little")
    return bytes(content)


HOSTILE = {
    "empty": (b"", "is empty"),
    "not an archive": (b"hello" * 100, "not a ZIP archive"),
    "only an end": (b"PK\x05\x06", "not a ZIP archive"),
    "cut at the end": (zip_bytes({"a": b"x"})[:-1], "not a ZIP archive"),
    "a directory that begins too late": (zip_bytes({"a": b"x"})[40:], "reaches beyond"),
    "a directory with too few entries": (_patched(0, b"PX"), "cut or damaged"),
    "a smaller size": (_patched(24, (5).to_bytes(4, "little")), "more than the 5 bytes"),
    "a larger size": (_patched(24, (900).to_bytes(4, "little")), "has 800 bytes"),
    "a wrong checksum": (_patched(16, b"\1\2\3\4"), "checksum"),
    "a packed size beyond the end": (_patched(20, (10**6).to_bytes(4, "little")), "beyond the end"),
    "a place that is none": (_patched(0, b"PX", local=0), "not where the archive says"),
    "two members on one place": (_overlapping(), "overlaps"),
    "a bomb": (_patched(24, (3 << 30).to_bytes(4, "little")), "would expand"),
    "encrypted": (_patched(8, b"\1\0"), "encrypted"),
    "an unknown method": (_patched(10, (14).to_bytes(2, "little")), "unknown method 14"),
    "a ZIP64 size that is not there": (_patched(24, b"\xff" * 4), "cut or damaged"),
    "up": (zip_bytes({"../a": b""}), "leads out"),
    "absolute": (zip_bytes({"/etc/a": b""}), "leads out"),
    "of Windows": (zip_bytes({"a\\..\\..\\b": b""}), "leads out"),
    "a drive": (zip_bytes({"C:/a": b""}), "leads out"),
}


@pytest.mark.parametrize(("content", "said"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_archives_are_refused(tmp_path, content, said):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ArchiveError, match=said):
        contents(tmp_path / "a.zip")


def test_a_frame_with_a_huge_window_is_refused(tmp_path):
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = compressor.compress(b"x" * 5000) + compressor.flush()
    content = zstd_zip("a", [b"x" * 5000])
    plain = zstandard.ZstdCompressor().compress(b"x" * 5000)
    content = content.replace(plain, packed)
    central = content.index(b"PK\x01\x02")
    grown = len(packed) - len(plain)
    content = bytearray(content)
    for at in (18, central + 20):
        content[at : at + 4] = len(packed).to_bytes(4, "little")
    end = content.index(b"PK\x05\x06")
    content[end + 16 : end + 20] = (int.from_bytes(content[end + 16 : end + 20], "little") + grown).to_bytes(
        4, "little"
    )
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ArchiveError, match="cannot be decompressed"):
        contents(tmp_path / "a.zip")


def test_reading_a_large_member_takes_little_memory(tmp_path):
    """60 MB in 60 kB: allowed, and read in pieces."""
    with ZipWriter(RealFileSystem(), tmp_path / "a.zip") as archive:
        archive.add("a", (bytes(1 << 20) for _ in range(60)))
    tracemalloc.start()
    try:
        with ZipReader(tmp_path / "a.zip") as archive:
            assert sum(map(len, archive.pieces("a"))) == 60 << 20
            with pytest.raises(ArchiveError, match="at most 1,048,576"):
                archive.read("a", MOST)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_no_damage_gives_wrong_bytes(tmp_path):
    """A byte changed anywhere: the members are what they were, or the archive is refused."""
    members = {"a": b"some content " * 20, "b": bytes(range(200))}
    original, draw = zip_bytes(members), random.Random(11)
    refused = 0
    for _ in range(300):
        content = bytearray(original)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        (tmp_path / "a.zip").write_bytes(content)
        try:
            found = contents(tmp_path / "a.zip")
        except ArchiveError:
            refused += 1
        else:
            assert set(found.values()) <= set(members.values())
    print(refused)
    assert refused > 150


START = "_journal/start.json"
WRONG = {
    "neither header nor start": ({"a.json": {}}, "has neither"),
    "a start that is a list": ({START: []}, "not a JSON object"),
    "no eval": ({START: {"eval": "x"}}, "no description of the eval"),
    "not JSON": ({START: b"{"}, "not valid JSON"),
    "not UTF-8": ({START: b'"\xff"'}, "not valid JSON"),
    "nested too deeply": ({START: b"[" * 200_000}, "nested too deeply"),
    "a number of a million digits": ({START: b'{"eval":' + b"9" * 1_000_000 + b"}"}, "no description of the eval"),
    "summaries that are no list": ({START: {"eval": spec()}, "_journal/summaries/1.json": {}}, "not a list"),
    "another sample": ({START: {"eval": spec()}, "samples/1_epoch_1.json": {"id": 2, "epoch": 1}}, "holds sample 2"),
    "no sample": ({START: {"eval": spec()}, "samples/1_epoch_1.json": {"id": {}, "epoch": 1}}, "holds no sample"),
}


@pytest.mark.parametrize(("members", "said"), WRONG.values(), ids=WRONG.keys())
def test_logs_with_wrong_types_are_refused(tmp_path, members, said):
    (tmp_path / "a.eval").write_bytes(zip_bytes(members))
    with pytest.raises(ArchiveError, match=said):
        read_whole(tmp_path / "a.eval")


def read_whole(path):
    with EvalArchive(path) as log:
        log.header()
        list(log.summaries())
        list(map(log.sample, log.sample_members()))


def test_nan_and_half_a_surrogate_pair_are_kept(tmp_path):
    """Python writes both; stricter readers refuse them."""
    (tmp_path / "a.eval").write_bytes(zip_bytes({START: {"eval": {"value": float("nan"), "text": "\ud800"}}}))
    with EvalArchive(tmp_path / "a.eval") as log:
        found = log.header()["eval"]
    assert found["value"] != found["value"]
    assert json.loads(json.dumps(found["text"])) == "\ud800"
