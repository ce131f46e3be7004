"""The fold does not depend on the order in which segments are read, nor on when its rows are written."""

from __future__ import annotations

import random
import sqlite3

import pytest

from holdfast.journal.frame import Origin
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import Coordinates, Failure, Status, UsageShare
from holdfast.run.fold.entries import AnswerEntry, CallEntry, ScoreEntry, StepEntry, TrialEntry
from holdfast.run.fold.fold_tables import SCHEMA
from holdfast.run.fold.fold_writer import FoldWriter

SEED = 20261118
NAMED = (
    "SELECT s.id, g.task, g.model, g.axes, s.status, s.reason, s.scorers, s.failed, s.hollow, s.trials"
    " FROM standings s LEFT JOIN groups g ON g.id = s.group_"
)
SLOTS = (
    "SELECT key, name, attempt, value, cached, session, writer, seq, place, state, slot_attempt"
    " FROM slots JOIN scorers ON id = scorer"
)


def folded(frames, every: int) -> dict:
    """What the tables hold, without the numbers that they give to names."""
    db = sqlite3.connect("", isolation_level=None)
    db.executescript(f"BEGIN;{SCHEMA}")
    writer = FoldWriter()
    writer.begin(db)
    for number, (frame, records) in enumerate(frames):
        writer.add(frame, 1, frame.seq * 100 + frame.session, records)
        if every and number % every == 0:
            writer.flush()
    writer.flush()
    standings = {number: names for number, *names in db.execute(NAMED)}
    rows = db.execute("SELECT key, standing, counted, answer, moment, row FROM trials")
    return {
        "trials": sorted((key, *map(str, standings[number][:-1]), *rest) for key, number, *rest in rows),
        "totals": sorted(map(str, (names for names in standings.values() if names[-1]))),
        "slots": sorted(map(str, db.execute(SLOTS))),
        "spent": sorted(db.execute("SELECT * FROM spent")),
        "written": sorted(db.execute("SELECT * FROM written")),
    }


def some_record(noise: random.Random, *, earlier: bool):
    key, attempt = f"t{noise.randrange(2)}", noise.randrange(1, 4)
    about = Coordinates("task", "m", f"s{key}", 1, {}) if noise.random() < 0.5 else None
    error = Failure("x", "y") if noise.random() < 0.3 else None
    match noise.randrange(6):
        case 0:
            return CallEntry(key, attempt, "m", about)
        case 1:
            model, source = noise.choice(["m", "m", "judge"]), noise.choice(["", "", "another run"])
            usage = Usage(noise.randrange(9), 1) if noise.random() < 0.7 else None
            cost, role = 0.5 if earlier else 0.0, noise.choice(list(ModelRole))
            return StepEntry(key, attempt, model, source, error, about, usage, cost=cost, role=role)
        case 2:
            return AnswerEntry(key, attempt, about)
        case 3 if earlier and noise.random() < 0.5:
            return ScoreEntry(key, attempt, "exact", None, blob="abc")
        case 3:
            return some_score(noise, key, attempt, error)
    return TrialEntry(
        key,
        noise.choice(list(Status)),
        attempt,
        task="task",
        model="m",
        sample=f"s{key}",
        scores={"exact": noise.choice([None, 0.0, 1.0, 2.0])} if noise.random() < 0.7 else {},
        usage=Usage(noise.randrange(9), 2),
        shares=(UsageShare("judge", Usage(1, 1), noise.random() < 0.5),) if noise.random() < 0.3 else (),
        source=noise.choice(["", "", "another run", "artifact"]),
        calls=1,
        seconds=noise.random(),
        limit="time",
        stage=noise.choice(["solve", "score: exact"]),
        will_retry=noise.random() < 0.3,
    )


def some_score(noise: random.Random, key: str, attempt: int, error: Failure | None) -> ScoreEntry:
    """A slot that is filled, unscored, failed for good, or about to be attempted again."""
    scorer, usage = noise.choice(["exact", "judge"]), Usage(noise.randrange(9), 1) if noise.random() < 0.5 else None
    if error is not None:
        tried, will_retry = noise.randrange(1, 4), noise.random() < 0.5
        return ScoreEntry(key, attempt, scorer, None, False, error, usage, slot_attempt=tried, will_retry=will_retry)
    if noise.random() < 0.3:
        return ScoreEntry(key, attempt, scorer, None, True, usage=usage)
    return ScoreEntry(key, attempt, scorer, float(noise.randrange(3)), usage=usage)


@pytest.mark.parametrize("earlier", [False, True], ids=["records of today", "scores of an earlier version"])
def test_any_order_of_frames_gives_the_same_rows(earlier):
    """Frames of several sessions, taken in in any order and written in batches of any size."""
    print(f"seed {SEED}")
    noise = random.Random(SEED)
    for _ in range(400):
        frames = [
            (Origin(session, 0, seq), [some_record(noise, earlier=earlier) for _ in range(noise.randrange(1, 4))])
            for session in range(1, 4)
            for seq in range(1, noise.randrange(2, 4))
        ]
        expected = folded(frames, 0)
        for every in (0, 1, 2):
            noise.shuffle(frames)
            assert folded(frames, every) == expected
