"""Processes write for one session, each its own segments, and any of them is killed: the holder, another, or all."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from pathlib import Path

import mutants
import pytest
from account import Broken, expect
from programs import read
from scribes import check, new_run

from folds import check_fold
from holdfast.journal.frame import COPY, FOOTER, HEADER_SIZE, decode_header
from holdfast.journal.segment import SegmentId, parse_name
from holdfast.run import RunReader, verify_run

SEED = 20261121


def start_session(scribes, root: Path, writers: int, *options: str) -> list:
    """A holder and the processes that have joined it, all at work."""
    holder = scribes(root, 0, 0, "--admits", str(writers), *options)
    session = int(holder.wait_for("session")[1])
    started = [holder, *(scribes(root, number, session) for number in range(1, writers + 1))]
    for scribe in started:
        scribe.wait_for("trial", 3)
    return started


def check_session(root: Path, scribes: list, *, ended: bool) -> None:
    """What was told is kept, once and sound, the fold is that of the frames, and an end vouches for every segment."""
    check(root, {name for scribe in scribes for name in scribe.names()})
    with contextlib.closing(RunReader(root)) as reader:
        check_fold(reader)
        expect(verify_run(reader).ok, "verify finds damage")
        expect(reader.marks()[2] == 8 * len(scribes), f"each writer has its own mark: {reader.marks()}")
        if ended:
            check_pinned(reader)


def check_pinned(reader: RunReader) -> None:
    (end,) = [end for end in reader.ends if end.number == 2]
    there = {state.ident for state in reader.index.states() if state.ident.session == 2}
    unpinned = there - {SegmentId(*pin[:3]) for pin in end.pins}
    # The end has a segment of its own, for which the footer before it vouches.
    own = max(ident for ident in there if ident.writer == 0)
    expect(unpinned == {own}, f"the end vouches for none of {sorted(unpinned - {own})}")
    expect(end.finished == reader.fold.kept, f"the end counts {end.finished}, the journal has {reader.fold.kept}")


def frames_of(root: Path, writer: int) -> list[tuple[Path, int, int]]:
    """The frames with records that a writer of session 2 has written: file, start, end."""
    found = []
    for path in sorted((root / "journal").iterdir()):
        parsed = parse_name(path.name)
        if parsed and parsed[0][:2] == (2, writer):
            data, offset = path.read_bytes(), 0
            while (header := decode_header(data, offset)) is not None and offset + header.size <= len(data):
                if header.kind not in {FOOTER, COPY}:
                    found.append((path, offset + HEADER_SIZE, offset + header.size))
                offset += header.size
    return found


def check_damage_is_seen(root: Path, writers: int, chance: random.Random) -> None:
    """A byte of any writer's frame that changes, and a segment of any writer that vanishes, is damage."""
    for writer in range(writers + 1):
        path, start, end = chance.choice(frames_of(root, writer))
        copy = root.with_name(f"damaged-{writer}")
        shutil.copytree(root, copy)
        damaged = copy / "journal" / path.name
        data = bytearray(damaged.read_bytes())
        data[chance.randrange(start, end)] ^= 1 << chance.randrange(8)
        damaged.write_bytes(data)
        expect(read(copy).losses, f"a changed byte in {path.name} is not seen")
        shutil.copy(path, damaged)
        expect(not read(copy).losses, "the copy is not as it was")
        damaged.unlink()
        expect(read(copy).losses, f"{path.name} is gone, and that is not seen")
        shutil.rmtree(copy)


@pytest.mark.parametrize("writers", [1, 2])
def test_a_joined_process_is_killed_and_the_end_vouches_for_what_it_left(tmp_path, scribes, writers):
    """Two and three processes; one that has joined is killed at a random moment, the others end."""
    print(f"seed {SEED + writers}")
    chance, root = random.Random(SEED + writers), new_run(tmp_path)
    started = start_session(scribes, root, writers)
    time.sleep(chance.random() * 0.3)
    started[1].kill()
    for scribe in reversed([started[0], *started[2:]]):
        scribe.wait_for("trial", len(scribe.lines()) + 2)
        scribe.end()
    check_session(root, started, ended=True)
    check_damage_is_seen(root, writers, chance)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_the_holder_is_killed_and_those_who_have_joined_stop_by_themselves(tmp_path, scribes, all_of_them):
    """Whatever any of them acknowledged is kept, and the next session writes their last frames again."""
    print(f"seed {SEED}")
    chance, root = random.Random(SEED), new_run(tmp_path)
    started = start_session(scribes, root, 2)
    time.sleep(chance.random() * 0.3)
    for scribe in started if all_of_them else started[:1]:
        scribe.kill()
    for scribe in started[1:]:
        scribe.process.wait(timeout=60)
        assert all_of_them or "nothing more can be recorded" in scribe.errors_at.read_text()
    left_open = {
        parse_name(path.name)[0][:2]: path.read_bytes() for path in (root / "journal").glob("000002-*.open.jsonl.zst")
    }
    following = scribes(root, 0)
    following.wait_for("trial")
    following.end()
    check_session(root, started, ended=False)
    assert set(left_open) == {(2, 0), (2, 1), (2, 2)}
    # Every segment that was left open has its last frame written again by the session after it; one that was only just
    # created, or whose first frame is torn, has none.
    assert copied_by(root, 3) == {writer for writer, data in left_open.items() if has_a_frame(data)}


def has_a_frame(data: bytes) -> bool:
    """Whether the first frame of a segment is whole."""
    header = decode_header(data, 0)
    return header is not None and header.size <= len(data)


def copied_by(root: Path, session: int) -> set[tuple[int, int]]:
    """The writers whose frames this session has written again."""
    found = set()
    for path in (root / "journal").glob(f"{session:06}-0000-*.zst"):
        data, offset = path.read_bytes(), 0
        while (header := decode_header(data, offset)) is not None:
            if header.kind == COPY:
                found.add((header.origin.session, header.origin.writer))
            offset += header.size
    return found


def test_no_session_opens_beside_a_process_that_still_writes_for_the_one_before(tmp_path, scribes):
    """A process that is stopped cannot notice that its holder is gone: the next session waits, and then is refused."""
    root = new_run(tmp_path)
    holder, joined = start_session(scribes, root, 1)
    joined.stop()
    holder.kill()
    following = scribes(root, 0)
    following.process.wait(timeout=60)
    assert following.process.returncode == 4
    assert "A process that wrote for an earlier session" in following.errors_at.read_text()
    joined.let_go()
    joined.process.wait(timeout=60)
    last = scribes(root, 0)
    last.wait_for("trial")
    last.end()
    check_session(root, [holder, joined], ended=False)


def test_a_session_that_ends_stops_those_who_write_for_it(tmp_path, scribes):
    """They are refused what they have not written yet; the end counts all that they were told is durable."""
    root = new_run(tmp_path)
    started = start_session(scribes, root, 2)
    started[0].end()
    for joined in started[1:]:
        joined.process.wait(timeout=60)
        assert "nothing more can be recorded" in joined.errors_at.read_text()
    check_session(root, started, ended=True)


def test_the_check_betrays_an_end_that_vouches_for_its_own_segments_only(tmp_path, scribes):
    """Without the pins of the others, a segment of theirs could vanish unnoticed."""
    root = new_run(tmp_path)
    started = start_session(scribes, root, 1, "--mutant", mutants.own_pins_only.__name__)
    started[1].end()
    started[0].end()
    with pytest.raises(Broken, match="vouches for none"):
        check_session(root, started, ended=True)
