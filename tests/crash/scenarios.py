"""Short workloads, each a life of one run: created, worked on, left in some way, resumed."""

from __future__ import annotations

import contextlib
from pathlib import Path

from account import Account

from holdfast.errors import StorageFailure
from holdfast.run import (
    JoinedSession,
    RunReader,
    RunSession,
    SessionContents,
    WriterOptions,
    create_run,
    join_session,
    open_session,
    session_record,
)
from holdfast.storage.filesystem import FileSystem

SMALL_SEGMENTS = WriterOptions(segment_bytes=700)
"""Small enough that a session of two trials begins a second segment."""
CONTENTS = SessionContents(name="capitals", config={})
INPUTS = {"capitals.jsonl": b'{"country": "France"}\n'}


def create(fs: FileSystem, root: Path, account: Account) -> RunSession:
    session = create_run(root, CONTENTS, inputs=INPUTS, fs=fs, writer=SMALL_SEGMENTS)
    return account.began(session)


def resume(fs: FileSystem, root: Path, account: Account) -> RunSession:
    def make(reader: RunReader, number: int, pins):
        inputs = reader.sessions[0].inputs if reader.sessions else {}
        return session_record(reader.run.hex(), number, pins, CONTENTS.with_inputs(inputs))

    return account.began(open_session(root, make, fs, writer=SMALL_SEGMENTS))


def create_or_resume(fs: FileSystem, root: Path, account: Account) -> RunSession:
    return resume(fs, root, account) if root.exists() else create(fs, root, account)


def orderly(fs: FileSystem, root: Path, account: Account) -> None:
    """Two trials, an orderly end; a second session with one more, and its end."""
    session = create(fs, root, account)
    account.carry_out(session, "a", long=LONG)
    account.carry_out(session, "b")
    account.close(session)
    session = resume(fs, root, account)
    account.carry_out(session, "c", long=LONG)
    account.close(session)


def abandoned(fs: FileSystem, root: Path, account: Account) -> None:
    """Two sessions that end without a word, and a third that finishes."""
    session = create(fs, root, account)
    account.carry_out(session, "a")
    session.abandon()
    session = resume(fs, root, account)
    account.carry_out(session, "b")
    session.abandon()
    session = resume(fs, root, account)
    account.carry_out(session, "c")
    account.close(session)


def join(fs: FileSystem, root: Path, session: RunSession) -> JoinedSession:
    """One more writer of the session."""
    return join_session(root, session.number, session.admit_writer(), fs, options=SMALL_SEGMENTS)


def joined(fs: FileSystem, root: Path, account: Account) -> None:
    """A session of three writers, one of them killed; one of two, both killed; and a third session that finishes."""
    session = create(fs, root, account)
    first, second = join(fs, root, session), join(fs, root, session)
    account.carry_out(first, "a", long=LONG)
    account.carry_out(session, "b")
    account.carry_out(second, "c")
    first.close()
    second.abandon()
    account.close(session)
    session = resume(fs, root, account)
    other = join(fs, root, session)
    account.carry_out(other, "d")
    account.carry_out(session, "e")
    other.abandon()
    session.abandon()
    session = resume(fs, root, account)
    account.close(session)


def joined_session_of(fs: FileSystem, root: Path, account: Account, *keys: str) -> None:
    """As `session_of`, the first trial by another writer; what that one dies of, the session survives."""
    with contextlib.suppress(StorageFailure):
        session = create_or_resume(fs, root, account)
        try:
            with contextlib.suppress(StorageFailure):
                _carry_out_joined(fs, root, account, session, keys[0])
            for key in keys[1:]:
                account.carry_out(session, key, long=LONG)
            account.close(session)
        finally:
            session.abandon()


def _carry_out_joined(fs: FileSystem, root: Path, account: Account, session: RunSession, key: str) -> None:
    other = join(fs, root, session)
    try:
        account.carry_out(other, key)
        other.close()
    finally:
        other.abandon()


def session_of(fs: FileSystem, root: Path, account: Account, *keys: str) -> None:
    """One session that creates or resumes the run, carries trials out and ends; dies with its disk."""
    with contextlib.suppress(StorageFailure):
        session = create_or_resume(fs, root, account)
        try:
            for key in keys:
                account.carry_out(session, key, long=LONG)
            account.close(session)
        finally:
            session.abandon()


LONG = " and so on" * 40
"""Beyond the size at which the tests store a record as a blob."""
BLOB_BYTES = 300
