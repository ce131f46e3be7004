"""Small runs to break: written by the real writer, taken apart byte by byte."""

from __future__ import annotations

import shutil
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from holdfast.journal import Damage, Journal, RecordId, SegmentFile
from holdfast.journal.frame import FOOTER, HEADER_SIZE, decode_header, encode_header, payload_digest
from holdfast.journal.segment import parse_name
from holdfast.run import (
    JoinedSession,
    RunReader,
    RunSession,
    SessionContents,
    Verification,
    WriterOptions,
    create_run,
    open_session,
    session_record,
    verify_run,
)
from holdfast.run.core.records import (
    AnswerRecord,
    CallRecord,
    PlanEntry,
    Record,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
)
from holdfast.storage import RealFileSystem


class Piece(NamedTuple):
    """One frame of a segment: where it lies, its sequence number and its kind."""

    start: int
    end: int
    seq: int
    kind: int


class Read(NamedTuple):
    """Everything that a reader has to say of a run."""

    records: list
    finished: list
    losses: list
    torn: list


def begin_run(root: Path, *, planned: int = 0, fs=None, **writer) -> RunSession:
    """A run in its first session."""
    contents = SessionContents(name="capitals", config={"seed": 1}, planned=planned)
    return create_run(root, contents, fs=fs, writer=WriterOptions(**writer))


def begin_session(root: Path, *, planned: int = 0, fs=None, **writer) -> RunSession:
    """A further session of a run."""

    def make(reader, number, pins):
        contents = SessionContents(name="capitals", config={"seed": 1}, planned=planned)
        return session_record(reader.run.hex(), number, pins, contents)

    return open_session(root, make, fs, writer=WriterOptions(**writer))


def commit(session: RunSession | JoinedSession, record: Record) -> RecordId:
    """Hands a record in and returns once it is durable, where there is no event loop."""
    sink = session.sink
    return sink.journal.queue.commit(*sink._encode(record))


def finish_trials(session: RunSession, *keys: str) -> None:
    """Carries trials out: three frames each, the last with the final record."""
    for key in keys:
        session.sink.append(CallRecord(trial=key, attempt=1, step="solve/1", model="small"))
        commit(session, StepRecord(trial=key, attempt=1, step="solve/1", result=f"reply to {key}"))
        session.sink.append(AnswerRecord(trial=key, attempt=1, text=f"answer to {key}"))
        commit(session, ScoreRecord(trial=key, attempt=1, scorer="exact", value=1.0))
        commit(session, TrialRecord(trial=key, attempt=1, status=Status.VALID, scores={"exact": 1.0}))


def finished_run(root: Path, *keys: str, **writer) -> Path:
    """A run that ended in an orderly way, with these trials finished."""
    session = begin_run(root, planned=len(keys), **writer)
    finish_trials(session, *keys)
    session.close("complete")
    return root


def crashed_run(root: Path, *keys: str, **writer) -> Path:
    """A run whose session was killed after these trials."""
    session = begin_run(root, planned=len(keys), **writer)
    finish_trials(session, *keys)
    session.abandon()
    return root


def read_run(root: Path) -> Read:
    """Opens a run and asks for everything."""
    reader = RunReader(root)
    try:
        streamed: list = []
        records = list(reader.stream(streamed))
        damage = reader.damage()
        return Read(
            records,
            list(reader.fold.finished()),
            [item for item in damage if item.is_loss],
            [item for item in damage if not item.is_loss],
        )
    finally:
        reader.close()


def segment_paths(root: Path) -> list[Path]:
    """The files of a run's segments, in the order of the run."""
    paths = [path for path in (root / "journal").iterdir() if parse_name(path.name)]
    return sorted(paths, key=lambda path: parse_name(path.name))


def pieces(data: bytes) -> list[Piece]:
    """The frames of a sound segment, its footer last if it has one."""
    found: list[Piece] = []
    offset = 0
    while offset < len(data):
        header = decode_header(data, offset)
        found.append(Piece(offset, offset + HEADER_SIZE + header.stored, header.seq, header.kind))
        offset = found[-1].end
    return found


def data_pieces(data: bytes) -> list[Piece]:
    """The frames of a sound segment that hold records."""
    return [piece for piece in pieces(data) if piece.kind != FOOTER]


def snapshot(directory: Path) -> dict[str, bytes | None]:
    """Every path below a directory with its bytes, None for directories."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def run_id(root: Path) -> bytes:
    """The id in the first header of a sound run."""
    return decode_header(segment_paths(root)[0].read_bytes()).run


def scan_bytes(path: Path, data: bytes, run: bytes) -> tuple[list, list[Damage]]:
    """Reads `data` as the segment at `path`; the records by id, and the damage. Decompresses by itself."""
    path.write_bytes(data)
    ident, sealed = parse_name(path.name)
    records: list = []
    with Journal(RealFileSystem(), path.parent, run).scan(SegmentFile(ident, sealed, path)) as scan:
        for frame in scan.frames():
            lines = zstandard.ZstdDecompressor().decompress(frame.payload).splitlines()
            records += [(frame.record_id(place), line) for place, line in enumerate(lines)]
    return records, scan.damage


def verified(root: Path) -> Verification:
    """What verify says of a run."""
    reader = RunReader(root)
    try:
        return verify_run(reader)
    finally:
        reader.close()


def finished_of(records: list) -> list[str]:
    """The trials with a final record among these, found without the index."""
    decoded = [msgspec.json.decode(line) for _, line in records]
    return sorted({record["trial"] for record in decoded if record["type"] == "trial"})


def reframed(data: bytes, piece: Piece, payload: bytes, **fields) -> bytes:
    """A frame in the place of `piece`, sound in itself, with another payload and other fields in its header."""
    header = decode_header(data, piece.start)
    return encode_header(header._replace(stored=len(payload), digest=payload_digest(payload), **fields)) + payload


def compressed(*lines: bytes) -> bytes:
    """The payload of a frame with these records."""
    return zstandard.ZstdCompressor(level=1).compress(b"".join(line + b"\n" for line in lines))


def change_index(path: Path, statement: str) -> None:
    """As a faulty version would leave an index: wrong, and vouched for."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(statement)
    database.close()
    path.with_name(f"{path.name}.sum").write_bytes(sha256(path.read_bytes()).digest())


def formats_of(root: Path) -> set[int]:
    """The formats of all frames of a run."""
    found = set()
    for path in segment_paths(root):
        data, offset = path.read_bytes(), 0
        while (header := decode_header(data, offset)) is not None:
            found.add(header.format)
            offset += header.size
    return found


FORMAT_1 = Path(__file__).parent / "data" / "format-1" / "run"
_TRIAL_1 = {"type": "trial", "attempt": 1, "status": "valid", "task": "capitals", "model": "small", "calls": 1}
_STEP_1 = {"type": "step", "attempt": 1, "model": "small"}
_MUCH, _LITTLE = {"input_tokens": 100, "output_tokens": 10}, {"input_tokens": 7, "output_tokens": 1}
_OF_FORMAT_1: list[dict] = [
    # A reply from another run, which cost nothing, and one of this run: only the first says so.
    {**_STEP_1, "trial": "reuses", "step": "solve/1", "usage": _MUCH, "source": "other", "result": "reply"},
    {**_STEP_1, "trial": "reuses", "step": "solve/2", "usage": _LITTLE, "cost": 0.5, "result": "reply"},
    {**_TRIAL_1, "trial": "reuses", "usage": {"input_tokens": 107, "output_tokens": 11}, "cost": 0.5, "calls": 2},
    # A copy, with what it cost: paid for here.
    {
        **_STEP_1,
        "trial": "copied",
        "step": "solve/1",
        "usage": _MUCH,
        "source": "other",
        "cost": 2.0,
        "result": "reply",
    },
    {**_TRIAL_1, "trial": "copied", "usage": _MUCH, "source": "other", "cost": 2.0},
    # Unfinished: an attempt that failed, and a step of the one after it.
    {**_STEP_1, "trial": "begun", "step": "solve/1", "usage": _MUCH, "source": "other", "result": "reply"},
    {**_TRIAL_1, "trial": "begun", "status": "failed", "usage": _MUCH},
    {**_STEP_1, "trial": "begun", "attempt": 2, "step": "solve/1", "usage": _MUCH, "source": "other", "cost": 2.0},
]


def run_of_format_1(root: Path) -> Path:
    """A run of format 1 with replies of other runs, copies, and prices."""
    shutil.copytree(FORMAT_1, root)

    def make(reader, number, pins):
        config = {"models": {"small": {"price": {"input": 1e6, "output": 1e6}}}}
        contents = SessionContents(
            name="capitals", config=config, planned=5, plan=[PlanEntry("capitals", "small", 5, ["exact"])]
        )
        return session_record(reader.run.hex(), number, pins, contents)

    session = open_session(root, make)
    for record in _OF_FORMAT_1:
        key = record["trial"]
        if record["type"] == "trial" and record["status"] == "valid":
            commit(session, AnswerRecord(trial=key, attempt=1, text="Paris"))
            commit(session, ScoreRecord(trial=key, attempt=1, scorer="exact", value=1.0))
        # As an earlier version wrote it: the records of this one have no cost.
        session.sink.journal.queue.commit(msgspec.json.encode(record), key)
    session.close("interrupted", 130)
    return root
