"""Runs to be measured, written the ordinary way: through a session, by many producers at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.material import Prose, step_record, transcript_records, trial_key, trial_records
from holdfast.run import SessionContents, create_run
from holdfast.run.session.session import RunSession

PRODUCERS = 64


def write_trials(root: Path, count: int, prose: Prose) -> None:
    """A run with `count` finished trials, five records each."""
    rest = iter(range(count))

    async def produce(session: RunSession) -> None:
        for number in rest:
            call, *records = trial_records(prose, number)
            session.sink.put(call)
            for record in records:
                await session.sink.keep(record)

    _write(root, produce, count)


def write_steps(root: Path, stored_bytes: int) -> None:
    """A run with step records of 1 to 3 KB, until its journal has grown to `stored_bytes`."""
    prose, rest = Prose(), _numbers_until(root / "journal", stored_bytes)

    async def produce(session: RunSession) -> None:
        for number in rest:
            await session.sink.keep(step_record(prose, trial_key(number), 1000, 3000))

    _write(root, produce, 0)


def write_transcripts(root: Path, stored_bytes: int) -> int:
    """A run with finished trials of several long replies each, until its journal has grown so far; their number."""
    prose, count = Prose(), 0
    session = create_run(root, SessionContents(name="bench", config={}, planned=1))
    for number in _numbers_until(root / "journal", stored_bytes):
        for record in transcript_records(prose, number):
            session.sink.append(record)
        count += 1
    session.close("complete")
    return count


def _write(root: Path, produce: Callable[[RunSession], Awaitable[None]], finished: int) -> None:
    session = create_run(root, SessionContents(name="bench", config={}, planned=finished))

    async def work() -> None:
        await asyncio.gather(*(produce(session) for _ in range(PRODUCERS)))

    asyncio.run(work())
    session.close("complete")


def _numbers_until(journal: Path, stored_bytes: int) -> Iterator[int]:
    number = 0
    while number % 1000 or journal_bytes(journal) < stored_bytes:
        yield number
        number += 1


def journal_bytes(journal: Path) -> int:
    """How many bytes a journal has on disk; its writer may be sealing a segment, which then has another name."""
    total = 0
    for path in journal.iterdir() if journal.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def segments(root: Path) -> list[Path]:
    return sorted((root / "journal").iterdir())
