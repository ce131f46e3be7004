"""Many processes write one run, each its own segments, and any of them may be killed at any moment."""

from __future__ import annotations

import random
import time
from pathlib import Path

import mutants
import pytest
from account import Broken
from scribes import Scribe, check, new_run

WRITERS = 8
SEED = 20261107


def write_together(start, root: Path, chance: random.Random) -> set[str]:
    """One session of many writers: some are killed, in any order, and the others end; what they told."""
    holder = start(root, 0, 0, "--admits", str(WRITERS))
    session = int(holder.wait_for("session")[1])
    scribes = [holder, *(start(root, number, session) for number in range(1, WRITERS))]
    for scribe in scribes:
        scribe.wait_for("trial")
    chance.shuffle(scribes)
    for scribe in scribes:
        time.sleep(chance.random() * 0.08)
        scribe.kill() if chance.random() < 0.75 else scribe.end(may_be_over=scribe is not holder)
    return {name for scribe in scribes for name in scribe.names()}


def write_in_rounds(start, directory: Path, rounds: int, seed: int) -> None:
    print(f"seed {seed}")
    chance, root = random.Random(seed), new_run(directory)
    told: set[str] = set()
    for _ in range(rounds):
        told |= write_together(start, root, chance)
        check(root, told)
    print(f"{len(told)} records in {rounds} rounds")
    assert len(told) > rounds * WRITERS


def test_resume_42_every_record_of_every_writer_is_kept_whoever_is_killed(tmp_path, scribes):
    """Eight processes write at once and are killed at random, round after round."""
    write_in_rounds(scribes, tmp_path, 2, SEED)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 9))
def test_soak_every_record_of_every_writer_is_kept(tmp_path, scribes, seed):
    """As above, many rounds."""
    write_in_rounds(scribes, tmp_path, 25, seed)


def test_a_writer_that_outlives_its_session_loses_nothing_and_repeats_nothing(tmp_path, scribes):
    """The next session copies the last frame of a writer that is still at work; its records are given once."""
    root = new_run(tmp_path)
    holder = scribes(root, 0)
    session = int(holder.wait_for("session")[1])
    late = scribes(root, 1, session, "--bare")
    late.wait_for("trial", 5)
    holder.kill()
    following = scribes(root, 0)
    following.wait_for("trial", 3)
    late.wait_for("trial", len(late.lines()) + 50)
    check(root, holder.names() | following.names() | late.names())
    late.end()
    following.kill()
    last = scribes(root, 0)
    last.wait_for("trial")
    last.end()
    check(root, holder.names() | following.names() | late.names() | last.names())


def share_a_number(start, directory: Path, *options: str) -> tuple[Path, Scribe, Scribe]:
    """A writer's number is taken a second time while the first is at work in a later segment."""
    root = new_run(directory)
    holder = start(root, 0, 0, "--admits", "3")
    session = int(holder.wait_for("session")[1])
    first = start(root, 3, session, *options)
    while not list(root.glob("journal/*-0003-000002.open.jsonl.zst")):
        time.sleep(0.01)
    second = start(root, 3, session, *options)
    second.process.wait(timeout=60) if not options else second.wait_for("trial", 10)
    first.wait_for("trial", 30)
    for scribe in (first, second, holder):
        scribe.kill()
    return root, first, second


def test_of_two_writers_with_one_number_the_second_is_told(tmp_path, scribes):
    """It writes nothing, says why and how to do it right, and the first is not disturbed."""
    root, first, second = share_a_number(scribes, tmp_path)
    assert second.process.returncode == 2
    assert second.lines() == []
    message = second.errors_at.read_text()
    assert "Writer 3 of session 2 has already written" in message
    assert "a writer number of its own" in message
    check(root, first.names())


def test_two_writers_that_begin_at_once_with_one_number_are_told_apart(tmp_path, scribes):
    """Of four processes that take the number at the same moment, one gets it."""
    root = new_run(tmp_path)
    holder = scribes(root, 0, 0, "--admits", "3")
    session = int(holder.wait_for("session")[1])
    rivals = [scribes(root, 3, session) for _ in range(4)]
    deadline = time.monotonic() + 60
    while sum(rival.process.poll() is not None for rival in rivals) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    winners = [rival for rival in rivals if rival.process.poll() is None]
    assert len(winners) == 1
    winners[0].wait_for("trial")
    for scribe in (*winners, holder):
        scribe.kill()
    assert [rival.process.returncode for rival in rivals if rival not in winners] == [2, 2, 2]
    check(root, winners[0].names() | holder.names())


def test_the_check_betrays_writers_that_share_a_number(tmp_path, scribes):
    """Without that refusal, what the second was told is lost."""
    root, first, second = share_a_number(scribes, tmp_path, "--mutant", mutants.shared_number.__name__)
    with pytest.raises(Broken, match="told and lost"):
        check(root, first.names() | second.names())


def test_the_check_betrays_writers_that_buffer(tmp_path, scribes):
    """Records that were told from a buffer of a process are lost when it is killed."""
    root = new_run(tmp_path)
    holder = scribes(root, 0, 0, "--mutant", mutants.buffered.__name__)
    holder.wait_for("trial", 3)
    holder.kill()
    with pytest.raises(Broken, match="told and lost"):
        check(root, holder.names())
