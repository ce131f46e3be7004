"""A program that is one of many writers of a run, and tells each record's name after it was committed.

    python scribe.py RUN 0                     opens a session, and writes as its writer 0
    python scribe.py RUN NUMBER SESSION        writes as another writer of that session

It goes on until it is killed, or until its standard input ends: then it ends its segments in an orderly way.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.journal import JournalWriter
from holdfast.run import RunReader, RunSession, WriterOptions, open_session
from holdfast.run.core.codec import encode
from holdfast.run.core.records import Status, TrialRecord
from holdfast.storage.filesystem import RealFileSystem
from workload import apply_mutant, make_session, take_option, tell

SEGMENT_BYTES = 4000


def is_told_to_end() -> bool:
    return bool(select.select([0], [], [], 0)[0])


def write(writer: JournalWriter, name: str, session: int) -> None:
    """Frames of one to three records, until it is time to end."""
    count = 0
    while not is_told_to_end():
        names = [f"{name}-{session}-{count + place}" for place in range(1 + count % 3)]
        count += len(names)
        lines = [encode(TrialRecord(trial=each, attempt=session, status=Status.VALID)) for each in names]
        for each, line in zip(names[:-1], lines[:-1], strict=True):
            writer.queue.append(line, each)
        writer.queue.commit(lines[-1], names[-1])
        tell("trial", *names)
        # Eight of these share the machine with others.
        time.sleep(0.003)


def open_writer(root: Path, number: int, session: int) -> tuple[JournalWriter, RunSession | None, int]:
    if not number:
        opened = open_session(root, make_session, writer=WriterOptions(segment_bytes=SEGMENT_BYTES))
        return opened.sink.journal, opened, opened.number
    reader = RunReader(root)
    reader.close()
    fs, journal = RealFileSystem(), root / "journal"
    return JournalWriter(fs, journal, reader.run, session, writer=number, segment_bytes=SEGMENT_BYTES), None, session


def main(arguments: list[str]) -> int:
    if mutant := take_option(arguments, "--mutant"):
        apply_mutant(mutant)
    root, number = Path(arguments[0]), int(arguments[1])
    try:
        writer, opened, session = open_writer(root, number, int(arguments[2]) if number else 0)
        tell("session", session)
        write(writer, f"w{number}-{os.getpid()}", session)
        opened.abandon() if opened else writer.close()
        tell("end", number)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
