"""A program that is one of many writers of a run, and tells each record's name after it was committed.

    python scribe.py RUN 0                     opens a session, and writes as its writer 0
    python scribe.py RUN NUMBER SESSION        joins that session, and writes as another writer of it

It goes on until it is killed, or until its standard input ends: then it ends in an orderly way. `--bare` writes without
having joined, and does not notice when the session is over; `--admits N` hands out so many numbers.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.run import JoinedSession, RunSession, WriterOptions, join_session, open_session
from holdfast.run.core.codec import encode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import MarkRecord, Record, Status, TrialRecord
from holdfast.run.core.run_id import find_run_id
from holdfast.storage.filesystem import RealFileSystem
from workload import apply_mutant, commit, make_session, take_option, tell

SMALL_SEGMENTS = WriterOptions(segment_bytes=4000)


class BareWriter:
    """A writer that has not joined its session."""

    def __init__(self, root: Path, session: int, number: int) -> None:
        fs = RealFileSystem()
        run = find_run_id(fs, Layout(root))
        self.number = session
        self._writer = SMALL_SEGMENTS.open(fs, Layout(root).journal, run, session, writer=number)
        self.close = self._writer.close

    def hand_in(self, record: TrialRecord, *, wait: bool) -> None:
        (self._writer.queue.commit if wait else self._writer.queue.append)(encode(record), record.trial)


def hand_in(session: RunSession | JoinedSession | BareWriter, record: Record, *, wait: bool) -> None:
    if isinstance(session, BareWriter):
        session.hand_in(record, wait=wait)
    elif wait:
        commit(session, record)
    else:
        session.sink.append(record)


def write(session: RunSession | JoinedSession | BareWriter, name: str) -> None:
    """Frames of one to three records, until it is time to end."""
    count = 0
    while not select.select([0], [], [], 0)[0]:
        names = [f"{name}-{session.number}-{count + place}" for place in range(1 + count % 3)]
        count += len(names)
        for each in names:
            record = TrialRecord(trial=each, attempt=session.number, status=Status.VALID)
            hand_in(session, record, wait=each is names[-1])
        tell("trial", *names)
        # Eight of these share the machine with others.
        time.sleep(0.003)


def open_writer(root: Path, number: int, session: int, *, bare: bool) -> RunSession | JoinedSession | BareWriter:
    if not number:
        return open_session(root, make_session, writer=SMALL_SEGMENTS)
    if bare:
        return BareWriter(root, session, number)
    return join_session(root, session, number, options=SMALL_SEGMENTS)


def end(session: RunSession | JoinedSession | BareWriter) -> None:
    session.close("complete") if isinstance(session, RunSession) else session.close()


def main(arguments: list[str]) -> int:
    if mutant := take_option(arguments, "--mutant"):
        apply_mutant(mutant)
    admits = int(take_option(arguments, "--admits") or 0)
    bare = "--bare" in arguments
    root, number = Path(arguments[0]), int(arguments[1])
    try:
        session = open_writer(root, number, int(arguments[2]) if number else 0, bare=bare)
        if isinstance(session, RunSession):
            for _ in range(admits):
                session.admit_writer()
        if not bare:
            # Of several writers each has its own mark.
            commit(session, MarkRecord(calls=8))
        tell("session", session.number)
        write(session, f"w{number}-{os.getpid()}")
        end(session)
        tell("end", number)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
