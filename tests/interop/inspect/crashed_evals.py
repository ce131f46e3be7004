"""Crashed evals of Inspect's in small: a log, the database and the segments, written here by means of their own.

The writer of archives is Python's, with zstd put in by hand: what is tested never tests itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import zipfile
import zlib
from pathlib import Path

import zstandard

NAME = "2026-11-18T01-00-00-00-00_task_abc.eval"
START = "2026-11-18T01:00:{:02d}+00:00"
HASH = "0123456789abcdef0123456789abcdef"
LONG = "a long question " * 20
DEAD_PROCESS = 999_999_999
"""Larger than any process number."""


def spec(count: int = 5, **more) -> dict:
    dataset = {"name": "d", "samples": count, "sample_ids": list(range(1, count + 1)), "shuffled": False}
    return {
        "created": START.format(0),
        "task": "task",
        "task_id": "abc",
        "model": "m/x",
        "dataset": dataset,
        "config": {},
        **more,
    }


def summary(ident: int | str = 1, *, complete: bool = True, at: int = 1, **more) -> dict:
    found = {
        "id": ident,
        "epoch": 1,
        "input": "short",
        "target": "t",
        "metadata": {},
        "started_at": START.format(at),
        "uuid": f"u{ident}",
    }
    if complete:
        used = {"m/x": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
        found |= {"completed_at": START.format(at + 1), "scores": {"exact": {"value": "C"}}, "model_usage": used}
    return {**found, "completed": complete, **more}


def sample(ident: int | str = 1, text: str = "from the log", **more) -> dict:
    message = {"role": "assistant", "content": text}
    return {
        "id": ident, "epoch": 1, "input": "short", "target": "t", "messages": [message],
        "scores": {"exact": {"value": "C"}},
        "output": {"model": "m/x", "choices": [{"message": message, "stop_reason": "stop"}], "completion": text},
        "events": [{"event": "info", "data": {}}], **more,
    }  # fmt: skip


def events(text: str = "from the buffer") -> list[dict]:
    """The transcript of a sample: its beginning, a call that was written twice, a score."""
    asked = {
        "event": "model",
        "uuid": "e2",
        "model": "m/x",
        "input": [],
        "input_refs": [[0, 2]],
        "tools": [],
        "tool_choice": "auto",
        "config": {},
    }
    answer = {"role": "assistant", "content": text}
    done = {"model": "m/x", "choices": [{"message": answer, "stop_reason": "stop"}]}
    origin = {"input": f"attachment://{HASH}", "target": "t", "id": 1}
    score = {"value": "C", "explanation": "in full"}
    return [
        {"event": "sample_init", "uuid": "e1", "sample": origin, "state": {}},
        {**asked, "pending": True, "output": {"model": "m/x", "choices": []}},
        {**asked, "output": done},
        {"event": "score", "uuid": "e3", "scorer": "exact", "score": score, "intermediate": False},
    ]


def pool() -> list[dict]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"attachment://{HASH}"}]


def zip_bytes(members: dict[str, object] | list[tuple[str, object]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive by Python's own writer; values that are not bytes are JSON."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", method) as archive:
        for name, value in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return found.getvalue()


def zstd_zip(name: str, frames: list[bytes]) -> bytes:
    """An archive with one member of several zstd frames."""
    packed = b"".join(zstandard.ZstdCompressor().compress(frame) for frame in frames)
    content = b"".join(frames)
    stored = bytearray(zip_bytes({name: packed}, zipfile.ZIP_STORED))
    central = stored.index(b"PK\x01\x02")
    for at, crc_at, size_at in ((8, 14, 22), (central + 10, central + 16, central + 24)):
        stored[at : at + 2] = (93).to_bytes(2, "little")
        stored[crc_at : crc_at + 4] = zlib.crc32(content).to_bytes(4, "little")
        stored[size_at : size_at + 4] = len(content).to_bytes(4, "little")
    return bytes(stored)


class CrashedEval:
    """A crashed eval in a directory, with its buffers."""

    def __init__(self, place: Path, monkeypatch, **more) -> None:
        self.place, self.data = place / "logs", place / "data"
        self.place.mkdir()
        monkeypatch.setenv("XDG_DATA_HOME", str(self.data))
        self.log = self.place / NAME
        self.spec = spec(**more)
        self.write_log({})

    def write_log(self, samples: dict[str, tuple[dict, dict]], *, method: int = zipfile.ZIP_DEFLATED) -> None:
        """Samples with their summaries, in the order of flushes of one each."""
        members: list[tuple[str, object]] = [("_journal/start.json", {"version": 2, "eval": self.spec, "plan": {}})]
        for number, (name, (body, short)) in enumerate(samples.items(), 1):
            members += [(f"samples/{name}_epoch_1.json", body), (f"_journal/summaries/{number}.json", [short])]
        self.log.write_bytes(zip_bytes(members, method))

    def write_database(self, *summaries: dict, rows: dict | None = None, process: int = DEAD_PROCESS) -> Path:
        """A database with these samples; `rows` replaces the rows that each has."""
        folder = self.data / "inspect_ai/samplebuffer" / hashlib.sha256(f"file://{self.place}".encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{NAME}.{process}.db"
        base = sqlite3.connect(path)
        base.execute("CREATE TABLE samples (id TEXT, epoch INTEGER, data TEXT, sample_metadata TEXT)")
        of_sample = "id INTEGER PRIMARY KEY, {} sample_id TEXT, sample_epoch INTEGER, {} TEXT"
        base.execute(f"CREATE TABLE events ({of_sample.format('event_id TEXT,', 'data')})")
        base.execute(f"CREATE TABLE attachments ({of_sample.format('', 'hash TEXT, content')})")
        base.execute(f"CREATE TABLE message_pool ({of_sample.format('', 'msg_id TEXT, data')})")
        base.execute(f"CREATE TABLE call_pool ({of_sample.format('', 'hash TEXT, data')})")
        for short in summaries:
            own = {"events": events(), "attachments": {HASH: LONG}, "pool": pool(), **(rows or {})}
            key = (str(short["id"]), short["epoch"])
            base.execute(
                "INSERT INTO samples VALUES (?, ?, ?, ?)", (*key, json.dumps(short), json.dumps({"whole": True}))
            )
            base.executemany(
                "INSERT INTO events VALUES (NULL, ?, ?, ?, ?)",
                [(event.get("uuid"), *key, json.dumps(event)) for event in own["events"]],
            )
            base.executemany(
                "INSERT INTO attachments VALUES (NULL, ?, ?, ?, ?)",
                [(*key, *item) for item in own["attachments"].items()],
            )
            base.executemany(
                "INSERT INTO message_pool VALUES (NULL, ?, ?, '', ?)",
                [(*key, json.dumps(message)) for message in own["pool"]],
            )
        base.commit()
        base.close()
        return path

    def write_segments(self, *summaries: dict, text: str = "from segments") -> Path:
        """The same in two segments: the first has the beginning of each sample, the second its end."""
        folder = self.place / ".buffer" / self.log.stem
        folder.mkdir(parents=True, exist_ok=True)
        parts: dict[int, dict[str, object]] = {1: {}, 2: {}}
        listed = []
        for short in summaries:
            name, rows = (
                f"{short['id']}_{short['epoch']}.json",
                [{"id": n, "event_id": event.get("uuid"), "event": event} for n, event in enumerate(events(text), 1)],
            )
            shared = [{"id": n, "msg_id": str(n), "data": json.dumps(message)} for n, message in enumerate(pool(), 1)]
            parts[1][name] = {
                "events": rows[:2],
                "attachments": [{"id": 1, "hash": HASH, "content": LONG}],
                "message_pool": shared,
                "call_pool": [],
            }
            parts[2][name] = {"events": rows[2:], "attachments": [], "message_pool": [], "call_pool": []}
            cursors = {"last_attachment_id": 0, "last_message_pool_id": 0, "last_call_pool_id": 0}
            listed.append(
                {
                    "summary": short,
                    "segments": [
                        {**cursors, "id": 1, "last_event_id": 2, "last_attachment_id": 1, "last_message_pool_id": 2},
                        {**cursors, "id": 2, "last_event_id": 4},
                    ],
                }
            )
        for number, members in parts.items():
            (folder / f"segment.{number}.zip").write_bytes(zip_bytes(members))
        (folder / "manifest.json").write_text(
            json.dumps({"metrics": [], "samples": listed, "segments": [{"id": 1}, {"id": 2}]})
        )
        return folder
