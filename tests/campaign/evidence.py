"""What a campaign knows of a run from outside the product, and what must not be true of it.

The journal is read by its documented format alone, calls are counted by the server that got them, and trials that the
program acknowledged were written down by a witness. Every detector names what it found; `test_ledger_campaign.py` has a
case for each in which it must find something.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

KEPT = {"valid", "limited", "blocked"}
REPEATED = ("retried", "diverged", "interrupted", "takeover")


def read_journal(run: Path) -> list[dict[str, Any]]:
    """Every record that the bytes hold, each once; of a segment with a damaged frame, those before it."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((run / "journal").glob("*.jsonl.zst")):
        for line in _lines(path.read_bytes()):
            found.setdefault(line.decode(), json.loads(line))
    return list(found.values())


def _lines(data: bytes) -> Iterator[bytes]:
    reader, whole, is_whole = (
        zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True),
        b"",
        True,
    )
    try:
        while part := reader.read(1 << 16):
            whole += part
    except zstandard.ZstdError:
        is_whole = False  # a torn or damaged frame: what comes before it counts
    lines = (line for line in whole.splitlines() if line.endswith(b"}"))
    # Part of such a frame may come out before its checksum is looked at: a line may be cut where it ends with a brace.
    yield from lines if is_whole else itertools.takewhile(_is_json, lines)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@dataclass
class Evidence:
    """What is known at one moment."""

    planned: int
    acknowledged: list[str]
    """The keys of trials, as the witness wrote them down."""
    records: list[dict[str, Any]]
    prompts: dict[str, int]
    """How often the server worked on each prompt: `TRIAL|CALL|…`."""
    status: dict[str, Any]
    report: dict[str, Any]
    is_over: bool = False
    """Whether nothing is to be run any more."""
    is_damaged: bool = False
    """Whether bytes were changed by somebody else."""
    ended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ended = {one["trial"] for one in self.records if one["type"] == "trial" and one["status"] in KEPT}

    # What the server knows.

    @property
    def bought(self) -> int:
        return sum(self.prompts.values())

    @property
    def bought_again(self) -> int:
        """Calls beyond the first in the same place of the same trial, whatever they asked."""
        return self.bought - len({prompt.rsplit("|", 1)[0] for prompt in self.prompts})

    # What the ledger says.

    @property
    def named(self) -> int:
        calls = self.status["calls"]
        return sum(calls["repeated"][kind] for kind in REPEATED) + calls["refused_model"]

    @property
    def in_flight(self) -> int:
        return self.status["calls"]["in_flight_at_kill"]

    def violations(self) -> list[str]:
        """What must not be; empty if all is well."""
        return [said for detect in DETECTORS for said in detect(self)]


def lost(evidence: Evidence) -> Iterator[str]:
    """Acknowledged and not in the journal."""
    missing = set(evidence.acknowledged) - evidence.ended
    if missing and not (evidence.is_damaged and evidence.status["damage"]):
        yield f"lost: {sorted(missing)}"


def counted_twice(evidence: Evidence) -> Iterator[str]:
    """More results than trials, or states that do not add up."""
    status, coverage = evidence.status, evidence.report["coverage"]
    states = [status[name] for name in ("valid", "limited", "blocked", "failed", "unfinished", "not_started")]
    if sum(states) != evidence.planned or status["planned"] != evidence.planned:
        yield f"states do not add up: {states} of {evidence.planned}"
    if any(status[name] != coverage[name] for name in ("valid", "failed", "finished", "remaining")):
        yield f"status and report differ: {status} {coverage}"
    if not evidence.is_damaged and status["finished"] != len(evidence.ended):
        yield f"{status['finished']} finished, {len(evidence.ended)} in the journal"


def invented(evidence: Evidence) -> Iterator[str]:
    """An answer of a finished trial that no reply of the server gave."""
    replies = {prompt.upper() for prompt in evidence.prompts}
    for one in evidence.records:
        if one["type"] == "answer" and one["trial"] in evidence.ended and one["text"] not in replies:
            yield f"invented: {one['text']!r}"


def unexplained(evidence: Evidence) -> Iterator[str]:
    """Calls that the ledger does not name, or names and nobody saw: beyond those in flight at a kill."""
    again, named, doubt = evidence.bought_again, evidence.named, evidence.in_flight
    made, bought = evidence.status["calls"]["made"], evidence.bought
    if not evidence.is_damaged and not (again - doubt <= named <= again + doubt):
        yield f"{again} calls were made again, the ledger names {named}, up to {doubt} in flight"
    if evidence.is_damaged and named > again + doubt:
        yield f"the ledger names {named} calls made again, the server saw {again}, up to {doubt} in flight"
    if not evidence.is_damaged and not (bought - doubt <= made <= bought + doubt):
        yield f"{bought} calls were made, the ledger says {made}, up to {doubt} in flight"


def unfinished(evidence: Evidence) -> Iterator[str]:
    """Something remains that a resume would run, although nothing is to be run any more."""
    status = evidence.status
    if evidence.is_over and (status["unfinished"] or status["not_started"]):
        yield f"unfinished: {status['remaining_by_reason']}"


DETECTORS = (lost, counted_twice, invented, unexplained, unfinished)
