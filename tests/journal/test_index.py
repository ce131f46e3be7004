"""Recovery 5 and 27: the index is a cache, and nothing but a cache."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import sqlite3

import pytest
import zstandard

from durable import (
    begin_run,
    begin_session,
    commit,
    crashed_run,
    data_pieces,
    finish_trials,
    finished_of,
    finished_run,
    read_run,
    segment_paths,
)
from folds import as_told
from holdfast.errors import NotARun
from holdfast.journal import DamageKind
from holdfast.journal.frame import HEADER_SIZE
from holdfast.journal.reader import open_segment
from holdfast.run import RunReader, verify_run
from holdfast.run.core.layout import reader_index_path
from holdfast.run.core.records import Status, TrialRecord
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.rows.fold_tables import pack_place
from holdfast.storage import RealFileSystem
from holdfast.testing import FaultyFileSystem, InjectedFault


def own_index(root):
    """The index that readers of this run keep in their own cache."""
    return reader_index_path(root, RunReader(root).run)


def answers(root, index=None):
    """Everything that is asked of an index, and what it says of itself."""
    reader = RunReader(root, index=index)
    try:
        return {
            "sessions": reader.sessions,
            "fold": as_told(reader),
            "finished": list(reader.fold.finished()),
            "states": reader.index.states(),
            "damage": reader.damage(),
            "doubtful": [doubtful.frame for doubtful in reader.index.doubtful()],
            "records": [record for trial in reader.fold.trials() for record in reader.records_of(trial.key)],
        }, reader.index.note
    finally:
        reader.close()


@pytest.fixture
def run(tmp_path):
    """A run of two sessions, the second of them killed, that has an index of its own."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    second = begin_session(root)
    finish_trials(second, "t3")
    second.reader.refresh()
    second.abandon()
    assert (root / "index.sqlite").is_file()
    return root


def test_recovery_5_a_deleted_index_is_built_again_with_the_same_answers(run):
    """Nothing but time is lost with the run's index or the reader's own."""
    before, _ = answers(run)
    own_index(run).unlink()
    (run / "index.sqlite").unlink()
    assert answers(run) == (before, "")
    assert not (run / "index.sqlite").exists()


@pytest.mark.parametrize("place", ["run", "reader"])
def test_recovery_5_an_index_cut_at_many_lengths_gives_the_same_answers(run, place):
    """Wherever the file was cut, and whichever page is gone, the answers are those of the journal."""
    before, _ = answers(run)
    path = run / "index.sqlite" if place == "run" else own_index(run)
    data = path.read_bytes()
    lengths = {0, 1, 15, 16, 99, 100, 101, *range(512, len(data), 512), len(data) - 1}
    for length in sorted(lengths):
        path.write_bytes(data[:length])
        found, note = answers(run, path)
        assert found == before, length
        assert note or length > len(data) - 4096, length


def test_recovery_5_an_index_with_pages_of_zeros_or_garbage_gives_the_same_answers(run):
    """A page that is not as it was written is found before any answer comes from it."""
    before, _ = answers(run)
    path = own_index(run)
    data = path.read_bytes()
    seed = 20261116
    print(f"seed {seed}")
    noise = random.Random(seed)
    for start in range(0, len(data), 4096):
        for page in (bytes(4096), noise.randbytes(4096)):
            path.write_bytes(data[:start] + page + data[start + 4096 :])
            found, note = answers(run, path)
            assert found == before, start
            assert note or page == data[start : start + 4096], start


@pytest.mark.parametrize("content", [b"garbage", b"SQLite format 3\x00" + bytes(5000), os.urandom(9000)])
def test_recovery_5_garbage_in_the_place_of_an_index_gives_the_same_answers(run, content):
    """A file that is no database is replaced, and the reader says so."""
    before, _ = answers(run)
    for path in (own_index(run), run / "index.sqlite"):
        path.write_bytes(content)
        found, note = answers(run, path)
        assert found == before
        assert note


def test_recovery_5_an_index_of_another_run_gives_the_same_answers(run, tmp_path):
    """An index that belongs to another run is recognised by the run's id, and built anew."""
    before, _ = answers(run)
    other = finished_run(tmp_path / "other", "x1", "x2", "x3")
    for path in (own_index(run), run / "index.sqlite"):
        shutil.copy(other / "index.sqlite", path)
        found, note = answers(run, path)
        assert found == before
        assert "another run" in note


def test_recovery_5_a_database_of_somebody_else_in_its_place_gives_the_same_answers(run):
    """A sound database without our tables is replaced."""
    before, _ = answers(run)
    path = own_index(run)
    path.unlink()
    stranger = sqlite3.connect(path)
    stranger.execute("CREATE TABLE about (name TEXT, value TEXT)")
    stranger.close()
    assert answers(run)[0] == before


def test_recovery_5_an_index_that_breaks_while_it_is_open_is_built_anew(run):
    """A reader that finds its index unusable at a refresh begins again, and says so."""
    reader = RunReader(run)
    reader.index._database.connection.execute("DROP TABLE trials")
    third = begin_session(run)
    finish_trials(third, "t4")
    reader.refresh()
    assert "could not be used" in reader.index.note
    assert list(reader.fold.finished()) == ["t1", "t2", "t3", "t4"]
    reader.close()
    third.abandon()


def test_recovery_5_a_place_that_cannot_hold_an_index_costs_no_answer(run, tmp_path):
    """Where the index cannot be written, a temporary one serves."""
    before, _ = answers(run)
    (tmp_path / "taken").mkdir()
    found, note = answers(run, tmp_path / "taken")
    assert found == before
    assert "cannot be written" in note


def test_recovery_5_a_reader_without_a_home_still_answers(run, monkeypatch):
    """Where no cache can be made at all, the index lives as long as the reader."""
    before, _ = answers(run)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/none")
    assert answers(run) == (before, "")


def test_a_reader_begins_with_the_index_of_the_run(run, monkeypatch):
    """A first look at a run that has an index does not read its segments again."""
    own = own_index(run)
    own.unlink()
    read = []
    monkeypatch.setattr(
        "holdfast.journal.index.builder.IndexBuilder._read_frames", lambda *arguments: read.append(arguments)
    )
    answers(run)
    assert own.exists()
    assert len(read) <= 1


def test_an_unreadable_index_of_the_run_does_not_keep_a_reader_from_its_own(run):
    """What cannot be taken over from the run's index is read from the journal."""
    before, _ = answers(run)
    own_index(run).unlink()
    (run / "index.sqlite").write_bytes(b"no database")
    assert answers(run)[0] == before


@pytest.mark.parametrize("which", ["index of the run", "index of the reader"])
def test_recovery_27_a_segment_damaged_after_it_was_indexed_is_noticed(run, which):
    """Each frame in turn: its trials are owed, its records are not given, whoever had indexed it."""
    index = run / "index.sqlite" if which == "index of the run" else own_index(run)
    for path in segment_paths(run):
        data = path.read_bytes()
        for piece in data_pieces(data):
            path.write_bytes(data)
            assert answers(run, index)[0]["finished"] == ["t1", "t2", "t3"]
            path.write_bytes(data[: piece.end - 1] + bytes([data[piece.end - 1] ^ 0x10]) + data[piece.end :])
            found, _ = answers(run, index)
            now = read_run(run)
            assert found["finished"] == finished_of(now.records)
            assert None not in found["records"]
            assert any(item.is_loss and item.offset == piece.start for item in found["damage"])
        path.write_bytes(data)
    assert answers(run, index)[0]["finished"] == ["t1", "t2", "t3"]


def test_recovery_27_a_segment_damaged_under_an_open_reader_gives_no_score(run):
    """A record whose bytes changed since the last look is not given, and remains at the next look."""
    reader = RunReader(run)
    trial = reader.fold.find("t1")
    path = segment_paths(run)[0]
    path.write_bytes(changed_unnoticeably(path.read_bytes(), trial.places[-1][1]))
    assert reader.lines_of(trial, "trial") == []
    reader.refresh()
    assert list(reader.fold.finished()) == ["t2", "t3"]
    reader.close()


def changed_unnoticeably(data, offset):
    """The segment with one bit of a frame's payload flipped so that it still decompresses, to something else."""
    piece = next(piece for piece in data_pieces(data) if piece.start == offset)
    for place in range(piece.start + HEADER_SIZE, piece.end):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with contextlib.suppress(zstandard.ZstdError, ValueError):
            text = zstandard.ZstdDecompressor().decompress(changed[piece.start + HEADER_SIZE : piece.end])
            if json.loads(text)["type"] == "trial":
                return changed
    raise AssertionError("no such bit")


def test_recovery_27_a_segment_deleted_under_an_open_reader_gives_no_score(run):
    """A record whose file is gone is not given; where only the index has seen the segment, that is a note."""
    reader = RunReader(run)
    segment_paths(run)[-1].unlink()
    assert reader.records_of("t3") == []
    reader.refresh()
    assert list(reader.fold.finished()) == ["t1", "t2"]
    assert reader.damage() == []
    assert any("nothing in the run vouches for it" in note for note in describe_inconsistencies(reader))
    reader.close()


def test_recovery_27_a_segment_replaced_by_a_shorter_sound_one_is_noticed(run):
    """An older copy of a segment put back in its place does not keep the trials that it lacks."""
    path = segment_paths(run)[-1]
    data = path.read_bytes()
    assert read_run(run).finished == ["t1", "t2", "t3"]
    path.write_bytes(data[: data_pieces(data)[-1].start])
    assert read_run(run).finished == ["t1", "t2"]
    path.write_bytes(data)
    assert read_run(run).finished == ["t1", "t2", "t3"]


def test_a_segment_sealed_between_two_looks_is_no_damage(tmp_path):
    """A reader that saw the footer under the open name is content with the same bytes under the sealed one."""
    root = finished_run(tmp_path / "run", "t1")
    sealed = segment_paths(root)[0]
    opened = sealed.with_name(sealed.name.replace(".jsonl", ".open.jsonl"))
    sealed.rename(opened)
    reader = RunReader(root)
    assert reader.damage() == []
    opened.rename(sealed)
    reader.refresh()
    assert reader.damage() == []
    assert [state.sealed for state in reader.index.states()] == [True, True]
    reader.close()


def test_bytes_that_follow_a_footer_are_damage_also_at_a_later_look(tmp_path):
    """What is appended to a sealed segment after it was indexed is reported as at a first look."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    before = read_run(root)
    path.write_bytes(data + data[:92])
    now = read_run(root)
    assert now.records == before.records
    assert [(item.kind, item.offset) for item in now.losses] == [(DamageKind.UNREADABLE, len(data))]


def test_damage_seen_before_the_seal_names_its_trials_after_it(tmp_path):
    """Once a footer tells whom a lost frame concerned, a reader that saw the loss before says so too."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    sealed = segment_paths(root)[0]
    data = sealed.read_bytes()
    piece = data_pieces(data)[2]
    data = data[: piece.start + 95] + b"\x00\x00" + data[piece.start + 97 :]
    opened = sealed.with_name(sealed.name.replace(".jsonl", ".open.jsonl"))
    opened.write_bytes(data[: data_pieces(sealed.read_bytes())[-1].end])
    sealed.unlink()
    (root / "index.sqlite").unlink()
    reader = RunReader(root)
    assert [item.keys for item in reader.damage() if item.kind is DamageKind.UNREADABLE] == [()]
    sealed.write_bytes(data)
    opened.unlink()
    reader.refresh()
    assert [item.keys for item in reader.damage()] == [("t1",)]
    reader.close()


class Meanwhile(RealFileSystem):
    """A disk on which something happens, once, right after a directory was listed or before a file is opened."""

    def __init__(self):
        self.after_listing = self.before_opening = None
        self.opening = ""
        self.listed = 0

    def list(self, path):
        names = super().list(path)
        self.listed += 1
        # A journal is listed twice for one look.
        if self.listed % 2 == 0 and (happens := self.after_listing):
            self.after_listing = None
            happens()
        return names

    def open(self, path):
        if self.opening in path.name and (happens := self.before_opening):
            self.before_opening = None
            happens()
        return super().open(path)


def test_a_live_reader_is_not_misled_by_a_roll_between_listing_and_reading(tmp_path):
    """A segment sealed and succeeded, twice, after the directory was listed is read with its successors."""
    root = tmp_path / "run"
    session = begin_run(root, segment_bytes=1)
    finish_trials(session, "t1")
    disk = Meanwhile()
    reader = RunReader(root, disk)
    for look in (reader.refresh, lambda: verify_run(reader)):
        disk.listed = 0
        disk.after_listing = lambda: finish_trials(session, f"t{len(list(reader.fold.finished())) + 1}")
        before = len(segment_paths(root))
        result = look()
        assert len(segment_paths(root)) > before + 1
        assert [item for item in reader.damage() if item.is_loss] == []
        assert result is None or result.damage == []
    session.abandon()
    reader.close()


@pytest.mark.parametrize("look", ["refresh", "verify"])
def test_a_live_reader_is_not_misled_by_an_end_that_is_written_while_it_reads(tmp_path, no_cache, look):
    """The session seals its segment, and pins it in the next one, between the two that the reader reads."""
    root = finished_run(tmp_path / "run", "t1")
    (root / "index.sqlite").unlink()
    first, second = segment_paths(root)
    sealed = first.read_bytes(), second.read_bytes()
    opened = [path.with_name(path.name.replace(".jsonl", ".open.jsonl")) for path in (first, second)]
    opened[0].write_bytes(sealed[0][: data_pieces(sealed[0])[-1].end])
    opened[1].write_bytes(b"")
    first.unlink()
    second.unlink()

    def end():
        for path, data, old in zip((first, second), sealed, opened, strict=True):
            path.write_bytes(data)
            old.unlink()

    disk = Meanwhile()
    reader = RunReader(root, disk)
    disk.opening, disk.before_opening = "-000002.", end
    damage = verify_run(reader).damage if look == "verify" else (reader.refresh(), reader.damage())[1]
    assert disk.before_opening is None
    assert [str(item) for item in damage] == []
    reader.close()


def test_the_index_asks_for_one_key_without_reading_others(run):
    """Rows of a key come in the order of the run; a copy does not double them."""
    third = begin_session(run)
    commit(third, TrialRecord(trial="t1", attempt=2, status=Status.FAILED))
    third.reader.refresh()
    placed = third.reader.lines_of(third.reader.fold.find("t1"), "trial")
    assert [item.ident.session for item in placed] == [1, 3]
    third.abandon()


def test_rows_that_nobody_reads_on_end_quietly_after_their_index(run):
    """A signal may leave a reader half-way; what is collected after the index was closed has nothing to say."""
    reader = RunReader(run)
    rows = reader.fold.trials()
    next(rows)
    reader.close()
    rows.close()


def test_a_segment_whose_bytes_cannot_be_read_is_damage_and_is_read_again_when_they_can(tmp_path, no_cache):
    """An unreadable sector costs the frames in it, for as long as it cannot be read."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    reader = RunReader(root, FailingReads())
    reader.fs.failing = True
    reader.refresh()
    assert list(reader.fold.finished()) == []
    assert [item for item in reader.damage() if item.is_loss]
    reader.fs.failing = False
    reader.refresh()
    assert list(reader.fold.finished()) == ["t1", "t2"]
    assert reader.damage() == []
    reader.close()


class FailingReads(RealFileSystem):
    """A disk on which the first segment cannot be read while `failing` is set."""

    failing = False

    def open(self, path):
        file = super().open(path)
        return Unreadable(file, self) if path.name.endswith("000001.jsonl.zst") else file


class Unreadable:
    def __init__(self, inner, disk):
        self.inner, self.disk = inner, disk

    def read_at(self, offset, size):
        if self.disk.failing:
            raise OSError(5, "Input/output error")
        return self.inner.read_at(offset, size)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_two_readers_that_refresh_at_once_disturb_neither(run, monkeypatch):
    """One that finds the cache in use takes a copy of what is known; the other keeps its file."""
    real = sqlite3.connect

    def impatient(*arguments, **options):
        return real(*arguments, **{**options, "timeout": 0})

    monkeypatch.setattr("sqlite3.connect", impatient)
    first, second = RunReader(run), RunReader(run)
    path = own_index(run)
    file = path.stat().st_ino
    first.index._database.connection.execute("BEGIN IMMEDIATE")
    assert second.index._database.path not in (None, path)
    second.refresh()
    assert second.index.note == ""
    assert list(second.fold.finished()) == ["t1", "t2", "t3"]
    first.index._database.connection.execute("COMMIT")
    assert path.stat().st_ino == file
    first.refresh()
    assert list(first.fold.finished()) == ["t1", "t2", "t3"]
    assert first.index.note == ""
    private = second.index._database.path
    second.close()
    assert not private.parent.exists()
    first.close()
    third = RunReader(run)
    assert third.index._database.path == path
    third.close()


def test_recovery_22_a_full_disk_for_the_index_costs_no_answer(run, tmp_path, monkeypatch):
    """Neither the old index nor a new one in its place can be written: a temporary one serves."""
    reader = RunReader(run, index=tmp_path / "index.sqlite")
    third = begin_session(run)
    finish_trials(third, "t4")
    real = type(reader.index._builder)._save_seen

    def full(self):
        if self._database.path is not None:
            raise sqlite3.OperationalError("database or disk is full")
        real(self)

    monkeypatch.setattr(type(reader.index._builder), "_save_seen", full)
    reader.refresh()
    assert "disk is full" in reader.index.note
    assert list(reader.fold.finished()) == ["t1", "t2", "t3", "t4"]
    reader.close()
    third.abandon()


def test_rows_are_written_in_batches_with_the_same_answers(run, monkeypatch):
    """A batch of any size indexes every record."""
    before, _ = answers(run)
    for size in (1, 2, 7):
        monkeypatch.setattr("holdfast.run.fold.fold_writer._BATCH_RECORDS", size)
        own_index(run).unlink()
        (run / "index.sqlite").unlink(missing_ok=True)
        assert answers(run)[0] == before


def test_records_are_counted_by_the_session_that_wrote_them_first(run):
    """A copy counts for the session of its origin."""
    begin_session(run).abandon()
    reader = RunReader(run)
    assert reader.fold.written("kept") == {1: 2, 2: 1}
    reader.close()


def test_a_frame_that_cannot_be_read_any_more_gives_no_record(run):
    """An error of the disk, a place beyond the file, and a row that points to another frame."""
    reader = RunReader(run, FailingReads())
    trial = next(reader.fold.trials())
    segment, offset = trial.places[0]
    assert reader.lines_of(trial)
    for wrong in (10**9, 3):
        assert reader.lines_of(trial._replace(placed=pack_place(segment, wrong))) == []
    assert reader.lines_of(trial._replace(placed=pack_place(99, offset))) == []
    reader.forget()
    reader.fs.failing = True
    assert reader.lines_of(trial) == []
    reader.close()


def test_a_doubtful_frame_that_was_damaged_since_is_not_written_again(run):
    """What cannot be read cannot be vouched for."""
    reader = RunReader(run)
    path = segment_paths(run)[-1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    assert reader.index.doubtful() == []
    reader.close()


def test_a_segment_that_shrinks_while_it_is_read_gives_what_is_left(run):
    """Bytes that are not there any more are missing, not an endless wait."""

    class Shrinking(RealFileSystem):
        def open(self, path):
            file = super().open(path)
            size = file.size()
            file.size = lambda: size + 5000
            return file

    reader = RunReader(run, Shrinking())
    assert list(reader.fold.finished()) == ["t1", "t2", "t3"]
    reader.close()


def test_a_journal_that_cannot_be_read_at_all_is_no_run(tmp_path):
    """Where not one header can be read, nothing is said to be there."""
    root = crashed_run(tmp_path / "run", "t1")
    unreadable = FaultyFileSystem(RealFileSystem(), [InjectedFault("read", 0, errno.EIO)])
    with pytest.raises(NotARun):
        RunReader(root, unreadable)


def test_a_segment_that_is_sealed_after_it_was_listed_is_opened_under_its_new_name(tmp_path):
    """A reader that comes between the listing and the renaming finds the file; one that is gone is gone."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    listed = path.with_name(path.name.replace(".jsonl", ".open.jsonl"))
    file = open_segment(RealFileSystem(), listed)
    assert file.size() == path.stat().st_size
    file.close()
    path.unlink()
    for name in (listed, path, path.with_name("other")):
        with pytest.raises(FileNotFoundError):
            open_segment(RealFileSystem(), name)


def test_a_run_tells_when_it_was_last_written(run):
    """For people, from the clock of the filesystem."""
    reader = RunReader(run)
    assert reader.last_written_at().startswith("20")
    for path in segment_paths(run):
        path.unlink()
    assert reader.last_written_at() == ""
    reader.close()
