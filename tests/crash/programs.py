"""Starts workloads in processes of their own and holds what they told against the run they left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from account import expect

from holdfast.errors import NotARun
from holdfast.journal import Damage
from holdfast.run import RunReader, verify_run
from holdfast.run.core.codec import decode
from holdfast.run.core.records import SessionEndRecord, SessionRecord, StepRecord, TrialRecord

HERE = Path(__file__).parent
KEYS = [f"t{number}" for number in range(1, 7)]


class Told(NamedTuple):
    """How a workload ended, and what it had told by then."""

    code: int
    lines: list[tuple[str, ...]]
    errors: str

    def of(self, kind: str) -> set[str]:
        return {value for word, value in self.lines if word == kind}


def work(root: Path, *options: str, crash: str = "", before: list[str] | None = None) -> Told:
    """Runs the workload to its end; `crash` names the point at which it dies, `before` a program that starts it."""
    environment = {**os.environ, "HOLDFAST_CRASH_AT": crash, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*(before or []), sys.executable, str(HERE / "workload.py"), str(root), *KEYS, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return Told(done.returncode, read_lines(done.stdout), done.stderr)


def read_lines(text: str) -> list[tuple[str, ...]]:
    """What was told, in words; a last line that was cut off was not."""
    return [tuple(line.split()) for line in text.splitlines(keepends=True) if line.endswith("\n")]


class Held(NamedTuple):
    """What a run holds, each with how often."""

    trials: Counter[str]
    steps: Counter[str]
    sessions: Counter[str]
    ends: Counter[str]
    losses: list[Damage]


def read(root: Path) -> Held:
    """Everything in a run; nothing if there is none."""
    held = Held(Counter(), Counter(), Counter(), Counter(), [])
    try:
        reader = RunReader(root)
    except NotARun:
        return held
    try:
        damage: list[Damage] = []
        for _, line in reader.stream(damage):
            record = decode(line)
            if isinstance(record, TrialRecord | StepRecord):
                (held.trials if isinstance(record, TrialRecord) else held.steps)[record.trial] += 1
            elif isinstance(record, SessionRecord | SessionEndRecord):
                (held.sessions if isinstance(record, SessionRecord) else held.ends)[str(record.number)] += 1
        held.losses.extend(item for item in verify_run(reader).damage if item.is_loss)
    finally:
        reader.close()
    return held


def check_kept(root: Path, told: Told) -> None:
    """What a workload told is in the run, its trials once, and nothing is lost.

    Raises:
        Broken: it is not so.
    """
    held = read(root)
    expect(not held.losses, f"damaged: {held.losses}")
    for kind, found in (("trial", held.trials), ("step", held.steps), ("session", held.sessions), ("end", held.ends)):
        expect(told.of(kind) <= set(found), f"told {kind} {sorted(told.of(kind) - set(found))}, and it is lost")
    _check_once(held)


def _check_once(held: Held) -> None:
    for found in (held.trials, held.sessions, held.ends):
        expect(all(count == 1 for count in found.values()), f"more than once: {found}")


def check_finished(root: Path) -> None:
    """Every trial is there once, and the run is sound.

    Raises:
        Broken: it is not so.
    """
    held = read(root)
    expect(not held.losses, f"damaged: {held.losses}")
    expect(held.trials == Counter(KEYS), f"finished: {held.trials}")
    _check_once(held)
