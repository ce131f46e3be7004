"""A program that works on a run and tells, line by line and unbuffered, what was acknowledged to it.

    python workload.py RUN KEY... [--mutant NAME] [--bulk BYTES]

It creates the run or resumes it, carries out the trials that are not finished, lets go of the run half-way as a crash
would, resumes it and ends in an orderly way. Each line is written after the call that it speaks of has returned:

    session 1    the session is open
    step t1      the step of the trial is durable
    trial t1     the trial is finished
    end 2        the session has ended

It exits with the code of the error that ended it.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.run import (
    JoinedSession,
    RunReader,
    RunSession,
    SessionContents,
    WriterOptions,
    create_run,
    open_session,
    session_record,
)
from holdfast.run.core import codec
from holdfast.run.core.records import (
    AnswerRecord,
    CallRecord,
    MarkRecord,
    Record,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
)

SMALL_SEGMENTS = WriterOptions(segment_bytes=1000)
BLOB_BYTES = 600


def tell(*words: object) -> None:
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def open_run(root: Path, planned: int) -> RunSession:
    if root.exists():
        return open_session(root, make_session, writer=SMALL_SEGMENTS)
    inputs = {"questions.jsonl": b'{"question": 1}\n'}
    contents = SessionContents(name="w", config={}, planned=planned)
    return create_run(root, contents, inputs=inputs, writer=SMALL_SEGMENTS)


def make_session(reader: RunReader, number: int, pins):
    first = reader.sessions[0]
    contents = SessionContents(name="w", config=first.config, inputs=first.inputs, planned=first.planned)
    return session_record(reader.run.hex(), number, pins, contents)


def commit(session: RunSession | JoinedSession, record: Record) -> None:
    """Returns once the record is durable."""
    asyncio.run(session.sink.keep(record))


def carry_out(session: RunSession, key: str, bulk: int) -> None:
    """One trial; every third has a reply so long that it is stored as a blob."""
    length = 3 if int(key[1:]) % 3 else 300
    reply = f"reply {key} " * length + random.Random(key).randbytes(bulk // 2).hex()
    session.sink.append(MarkRecord(calls=16))
    session.sink.append(CallRecord(trial=key, attempt=session.number, step="solve/1"))
    commit(session, StepRecord(trial=key, attempt=session.number, step="solve/1", result=reply))
    tell("step", key)
    session.sink.append(AnswerRecord(trial=key, attempt=session.number, text=key))
    session.sink.append(ScoreRecord(trial=key, attempt=session.number, scorer="exact", value=1.0))
    commit(session, TrialRecord(trial=key, attempt=session.number, status=Status.VALID))
    tell("trial", key)


def work(root: Path, keys: list[str], limit: int | None, bulk: int) -> None:
    """One session, ended in an orderly way unless a limit to its trials is given."""
    session = open_run(root, len(keys))
    try:
        tell("session", session.number)
        finished = set(session.reader.fold.finished())
        owed = [key for key in keys if key not in finished]
        for key in owed[:limit]:
            carry_out(session, key, bulk)
        if limit is None:
            session.close("complete")
            tell("end", session.number)
    finally:
        session.abandon()


def main(arguments: list[str]) -> int:
    codec.BLOB_BYTES = BLOB_BYTES
    if mutant := take_option(arguments, "--mutant"):
        apply_mutant(mutant)
    bulk = int(take_option(arguments, "--bulk") or 0)
    root, keys = Path(arguments[0]), arguments[1:]
    try:
        work(root, keys, len(keys) // 2, bulk)
        work(root, keys, None, bulk)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def take_option(arguments: list[str], name: str) -> str:
    if name not in arguments:
        return ""
    place = arguments.index(name)
    _, value = arguments.pop(place), arguments.pop(place)
    return value


def apply_mutant(name: str) -> None:
    import mutants  # noqa: PLC0415 - a healthy workload needs none

    class Patch:
        setattr = staticmethod(setattr)

    mutants.ALL[name](Patch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
