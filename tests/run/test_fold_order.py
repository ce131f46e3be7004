"""The fold does not depend on the order in which segments are read, nor on when its rows are written."""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3

import msgspec
import pytest

from holdfast.journal.frame import Origin
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import Coordinates, Failure, SamplingSummary, Status, UsageShare
from holdfast.run.fold.entries import AnswerEntry, CallEntry, ScoreEntry, StepEntry, TrialEntry
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.fold.rows.fold_tables import SCHEMA

SEED = 20261118
NAMED = (
    "SELECT s.id, g.task, g.model, g.axes, s.status, s.reason, s.scorers, s.failed, s.hollow, s.trials"
    " FROM standings s LEFT JOIN groups g ON g.id = s.group_"
)
SLOTS = (
    "SELECT key, name, attempt, value, cached, session, writer, seq, place, state, slot_attempt"
    " FROM slots JOIN scorers ON id = scorer"
)
SPENT = "SELECT g.task, g.model, g.axes, s.model, reused, figures FROM spent s LEFT JOIN groups g ON g.id = s.group_"


LEDGER = "SELECT session, task, model, kind, calls FROM ledger LEFT JOIN groups ON id = group_"
SAMPLED = "SELECT task, model, kind, name, figure FROM sampled JOIN groups ON id = group_ WHERE figure"


def filled_tables(frames, every: int) -> sqlite3.Connection:
    """The tables, written after every so many frames, or at the end."""
    db = sqlite3.connect("", isolation_level=None)
    db.executescript(f"BEGIN;{SCHEMA}")
    writer = FoldWriter()
    writer.begin(db)
    for number, (frame, records) in enumerate(frames):
        writer.add(frame, 1, frame.seq * 100 + frame.session, records)
        if every and number % every == 0:
            writer.flush()
    writer.flush()
    return db


def places_of(frames, every: int) -> list:
    with contextlib.closing(filled_tables(frames, every)) as db:
        return sorted(db.execute("SELECT key, places FROM trials"), key=str)


def folded(frames, every: int) -> dict:
    """What the tables hold, without the numbers that they give to names."""
    with contextlib.closing(filled_tables(frames, every)) as db:
        standings = {number: names for number, *names in db.execute(NAMED)}
        rows = db.execute("SELECT key, standing, counted, answer, moment, row FROM trials")
        return {
            "trials": sorted((str(key), *map(str, standings[number][:-1]), *rest) for key, number, *rest in rows),
            "totals": sorted(map(str, (names for names in standings.values() if names[-1]))),
            "slots": sorted(map(str, db.execute(SLOTS))),
            "spent": sorted(db.execute(SPENT), key=str),
            "sampled": sorted(db.execute(SAMPLED)),
            "written": sorted(db.execute("SELECT * FROM written")),
            "ledger": sorted(db.execute(LEDGER), key=str),
        }


def some_record(noise: random.Random, *, earlier: bool):
    key, attempt = f"t{noise.randrange(2)}", noise.randrange(1, 4)
    about = Coordinates("task", "m", f"s{key}", 1, {}) if noise.random() < 0.5 else None
    error = Failure("x", "y") if noise.random() < 0.3 else None
    match noise.randrange(6):
        case 0:
            return CallEntry(key, attempt, "m", about, noise.choice(["", "", "retried", "diverged", "interrupted"]))
        case 1:
            model, source = noise.choice(["m", "m", "judge"]), noise.choice(["", "", "another run"])
            usage = Usage(noise.randrange(9), 1) if noise.random() < 0.7 else None
            cost, role = 0.5 if earlier else 0.0, noise.choice(list(ModelRole))
            return StepEntry(
                key, attempt, model, source, error, about, usage, cost=cost, role=role, tries=noise.randrange(3)
            )
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
        unused=noise.choice([0, 0, 2]),
        seconds=noise.random(),
        limit="time",
        stage=noise.choice(["solve", "score: exact"]),
        will_retry=noise.random() < 0.3,
        samplings=tuple(some_sampling(noise) for _ in range(noise.choice([0, 0, 1, 2]))),
    )


def some_sampling(noise: random.Random) -> SamplingSummary:
    """A success or a failure, with or without losers."""
    success, turns = noise.random() < 0.5, noise.randrange(1, 4)
    lost = UsageShare(noise.choice(["", "m", "judge"]), Usage(noise.randrange(9), 3), noise.random() < 0.3)
    return SamplingSummary(
        strategy="repair",
        success=success,
        lane=0 if success else -1,
        turn=turns - 1 if success else -1,
        turns=turns,
        calls=noise.randrange(1, 9),
        candidates={"valid": int(success), "invalid": noise.randrange(4)},
        wasted=(lost,) if noise.random() < 0.7 else (),
        capped=noise.choice(["", "tokens"]),
    )


def some_score(noise: random.Random, key: str, attempt: int, error: Failure | None) -> ScoreEntry:
    """A slot that is filled, unscored, failed for good, or about to be attempted again."""
    scorer, usage = noise.choice(["exact", "judge"]), Usage(noise.randrange(9), 1) if noise.random() < 0.5 else None
    if error is not None:
        tried, will_retry = noise.randrange(1, 4), noise.random() < 0.5
        return ScoreEntry(key, attempt, scorer, None, False, error, usage, slot_attempt=tried, will_retry=will_retry)
    if noise.random() < 0.3:
        return ScoreEntry(key, attempt, scorer, None, True, usage=usage)
    return ScoreEntry(key, attempt, scorer, float(noise.randrange(3)), usage=usage, unused=noise.choice([0, 0, 1]))


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


USUAL = Usage(5, 7)


def usual_records(key: str) -> list:
    """What a session writes about a trial that goes well."""
    about = Coordinates("task", "m", f"s{key}", 2, {"prompt": "long"} if key == "t1" else {})
    return [
        CallEntry(key, 1, "m", about),
        StepEntry(key, 1, "m", usage=USUAL),
        AnswerEntry(key, 1),
        ScoreEntry(key, 1, "exact", 1.0),
        ScoreEntry(key, 1, "close", 0.25),
        TrialEntry(
            key,
            Status.VALID,
            task="task",
            model="m",
            sample=about.sample,
            epoch=2,
            axes=about.axes,
            scores={"exact": 1.0, "close": 0.25},
            usage=USUAL,
            calls=1,
            seconds=0.5,
        ),
    ]


UNUSUAL = {
    "as usual": {},
    "a second attempt": {place: {"attempt": 2} for place in range(6)},
    "a call that does not say what it is for": {0: {"about": None}},
    "a call of another attempt": {0: {"attempt": 2}},
    "a call that repeats another": {0: {"repeats": "retried"}},
    "a call of three requests": {1: {"tries": 3}},
    "less than no request": {1: {"tries": -3}},
    "more requests than can be stored": {1: {"tries": 1 << 63}},
    "replies that the solver left": {5: {"unused": 2}},
    "fewer than no replies left": {5: {"unused": -2}},
    "replies that a scorer left": {3: {"unused": 1}},
    "a reply from another run": {1: {"source": "another run"}},
    "a reply of another branch": {1: {"lender": "generate:1#1"}},
    "a reply of another model": {1: {"model": "other"}},
    "a reply to a judge": {1: {"role": ModelRole.JUDGE}},
    "a failed call": {1: {"error": Failure("x", "y")}},
    "a reply without usage": {1: {"usage": None}},
    "no usage": {1: {"usage": None}, 5: {"usage": None}},
    "a reply that took less": {1: {"usage": Usage(5, 6)}},
    "less than nothing": {1: {"usage": Usage(-5, 7)}, 5: {"usage": Usage(-5, 7)}},
    "more than can be stored": {1: {"usage": Usage(1 << 63, 7)}, 5: {"usage": Usage(1 << 63, 7)}},
    "an answer of another attempt": {2: {"attempt": 2}},
    "a score of another attempt": {3: {"attempt": 2}},
    "no score, for a reason": {3: {"value": None, "unscored": True}},
    "no score": {3: {"value": None}},
    "a number that is no score": {3: {"unscored": True}},
    "a number and an error": {3: {"error": Failure("x", "y")}},
    "a score that failed": {3: {"value": None, "error": Failure("x", "y")}},
    "a score that was paid for": {3: {"usage": Usage(1, 1)}},
    "a score at the second attempt": {3: {"slot_attempt": 2}},
    "a score that the end does not name": {5: {"scores": {"exact": 1.0}}},
    "a score that only the end names": {5: {"scores": {"exact": 1.0, "close": 0.25, "far": 0.0}}},
    "another score at the end": {5: {"scores": {"exact": 1.0, "far": 0.25}}},
    "two scores of a scorer": {4: {"scorer": "exact"}},
    "other scores at the end": {5: {"scores": {"exact": 0.0, "close": None}}},
    "a limited end": {5: {"status": Status.LIMITED, "limit": "time"}},
    "an end from another run": {5: {"source": "another run"}},
    "an end with shares": {5: {"shares": (UsageShare("judge", Usage(1, 1)),)}},
    "an end of two calls": {5: {"calls": 2}},
    "an end of a replayed call": {5: {"calls": 0, "replayed": 1}},
    "an end of another model": {5: {"model": "other"}},
    "less than no time": {5: {"seconds": -1.0}},
    "more time than can be stored": {5: {"seconds": 1e300}},
    "an end that says another follows": {5: {"will_retry": True}},
}


@pytest.mark.parametrize("change", UNUSUAL.values(), ids=UNUSUAL)
@pytest.mark.parametrize("cuts", [(), (2,), (1, 2), (2, 3), (5,)], ids=str)
def test_a_trial_taken_in_at_once_has_the_rows_of_one_merged_record_by_record(change, cuts):
    """A usual trial, and others that differ from one in a single thing; in one frame or in several."""
    frames = []
    for number, key in enumerate(("t1", "t2", "0123456789abcdef0123")):
        records = usual_records(key)
        for place, fields in change.items():
            records[place] = msgspec.structs.replace(records[place], **fields)
        frames += [(Origin(1, 0, 10 * number + seq), part) for seq, part in enumerate(in_parts(records, cuts))]
    check_batches(frames)


@pytest.mark.parametrize(
    "origin",
    [lambda seq: Origin(seq, 0, 1), lambda seq: Origin(1, seq, 1), lambda seq: Origin(1, 0, 9 - seq)],
    ids=["of several sessions", "of several writers", "the newest first"],
)
def test_frames_of_a_trial_from_anywhere_give_the_same_rows(origin):
    """Also where its records are those of a usual one."""
    check_batches([(origin(seq), part) for seq, part in enumerate(in_parts(usual_records("t1"), (1, 2)), start=1)])


def test_records_of_a_trial_in_any_order_give_the_same_rows():
    """Also where they are those of a usual one."""
    print(f"seed {SEED}")
    noise, records = random.Random(SEED), usual_records("t1")
    for _ in range(100):
        noise.shuffle(records)
        check_batches([(Origin(1, 0, 1), records[:3]), (Origin(1, 0, 2), records[3:])])


def in_parts(records: list, cuts: tuple[int, ...]) -> list[list]:
    return [records[first:last] for first, last in itertools.pairwise([0, *cuts, len(records)])]


def check_batches(frames) -> None:
    assert places_of(frames, 0) == places_of(frames, 1)
    assert folded(frames, 0) == folded(one_record_each(frames), 1)


def one_record_each(frames) -> list:
    """Every record by itself, at its place in its frame."""
    return [(frame, [None] * place + [record]) for frame, records in frames for place, record in enumerate(records)]


def test_a_usual_trial_is_taken_in_at_once(monkeypatch):
    """Nothing of it is merged."""
    monkeypatch.setattr("holdfast.run.fold.rows.open_trial.OpenTrial.take_in", None)
    assert len(folded([(Origin(1, 0, 1), usual_records("t1")[:2]), (Origin(1, 0, 2), usual_records("t1")[2:])], 0)) == 7
