"""Makes the stored run of format 2 anew, to the last byte: `python tests/data/format-2/make.py [DIRECTORY]`.

It holds every type of record, replies with tool calls and parts, marks, scopes, a loan between two branches, a judge
beside the model under test, replies of another run, a corrected price, a blob, an input, a result file, the copy of a
frame that was in doubt, and a torn one. To be run by the version whose records are to be kept: a later one may read
the run, and must not write it again.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine.opening.new_run import planned_contents
from holdfast.engine.planning.inputs import FreshInputs
from holdfast.engine.planning.plan import TrialSequence
from holdfast.engine.planning.prepared_eval import PreparedEval, prepare_eval
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.trials.steps import record_reply, request_fingerprint
from holdfast.journal import BlobStore, SegmentId, SegmentPin
from holdfast.journal.frame import FORMAT, decode_header, encode_header
from holdfast.journal.segment import SegmentWriter
from holdfast.models.content import ImagePart, RawPart, TextPart
from holdfast.models.message import Message, Reply, Request, ToolCall, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core import codec
from holdfast.run.core.config_file import write_config
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import (
    AnswerRecord,
    CallRecord,
    Change,
    Coordinates,
    Failure,
    Input,
    MarkRecord,
    NoteRecord,
    Record,
    ScoreRecord,
    SessionEndRecord,
    SessionRecord,
    Status,
    StepRecord,
    TrialRecord,
    UsageShare,
)
from holdfast.run.core.result_file import write_result_file
from holdfast.spec import load_eval, plain_data, resolve
from holdfast.storage import RealFileSystem

HERE = Path(__file__).parent
RUN, OTHER_RUN = bytes(range(16)), "f" * 32
PRICES = {"input": 1.0, "output": 2.0}, {"input": 3.0, "output": 4.0}
JUDGED = "/score/exact generate@judge:0b#1"
_FS = RealFileSystem()


class Trials:
    """The planned trials by sample, and the records that are written about them."""

    def __init__(self, prepared: PreparedEval) -> None:
        (task,) = prepared.tasks
        planned = TrialSequence(task, "m", KeySet([]), KeySet([])).trials()
        self.keys = {task.dataset.key(trial.position): trial.key for trial in planned}

    def about(self, sample: str) -> Coordinates:
        return Coordinates("t", "m", sample, 1, {})

    def call(self, sample: str, step: str, *, attempt: int = 1) -> CallRecord:
        return CallRecord(trial=self.keys[sample], attempt=attempt, step=step, model="m", about=self.about(sample))

    def step(self, sample: str, step: str, reply: Reply, *, attempt: int = 1, **fields: Any) -> StepRecord:
        return StepRecord(
            trial=self.keys[sample],
            attempt=attempt,
            step=step,
            name="generate",
            result=record_reply(reply),
            usage=reply.usage,
            at=1794787200.5,
            seconds=0.125,
            **{"model": "m", "tries": 1, "request": {"messages": [Message("user", question(sample))]}} | fields,
        )

    def answer(self, sample: str, text: str, *, attempt: int = 1) -> AnswerRecord:
        return AnswerRecord(trial=self.keys[sample], attempt=attempt, text=text, value={"large": 1 << 70})

    def score(self, sample: str, value: float | None, *, attempt: int = 1, **fields: Any) -> ScoreRecord:
        return ScoreRecord(trial=self.keys[sample], attempt=attempt, scorer="exact", value=value, **fields)

    def end(self, sample: str, status: Status, *, attempt: int = 1, **fields: Any) -> TrialRecord:
        return TrialRecord(
            trial=self.keys[sample],
            attempt=attempt,
            status=status,
            task="t",
            model="m",
            sample=sample,
            at=1794787200.5,
            seconds=0.25,
            **fields,
        )


def question(sample: str) -> str:
    rows = (msgspec.json.decode(line) for line in (HERE / "rows.jsonl").read_bytes().splitlines())
    return next(str(row["question"]) for row in rows if row["id"] == sample)


def step_key(sample: str, scope: str = "", number: int = 1) -> str:
    asked = request_fingerprint(Request((Message("user", question(sample)),)))
    return f"{f'/{scope} ' if scope else ''}generate:{asked}#{number}"


def first_session(trials: Trials) -> Iterator[list[Record]]:
    """Frames: a plain trial, one of several models, one that failed first, and one that a limit stopped."""
    yield [trials.call("fr", step_key("fr"))]
    yield [trials.step("fr", step_key("fr"), said("fr"))]
    yield [
        trials.answer("fr", question("fr")),
        trials.score("fr", 1.0, answer="Paris — «Париж» 巴黎 \x00\u2028", explanation="the same", metadata={"n": [1]}),
        trials.end("fr", Status.VALID, scores={"exact": 1.0}, usage=Usage(10, 5), calls=1, tries=1),
    ]
    yield [MarkRecord(calls=32)]
    yield from two_models(trials)
    refusal = Failure("Blocked", "against the rules")
    failed = StepRecord(
        trial=trials.keys["de"], attempt=1, step=step_key("de"), model="m", usage=Usage(10, 0), error=refusal
    )
    yield [trials.call("de", step_key("de")), failed]
    error = Failure("ValueError", "my bug", "Traceback …")
    yield [
        trials.end("de", Status.FAILED, usage=Usage(10, 0), stage="solve", error=error, will_retry=True),
        trials.step("de", step_key("de"), said("de"), attempt=2),
        trials.answer("de", question("de"), attempt=2),
        trials.score("de", None, attempt=2, error=Failure("KeyError", "'verdict'"), will_retry=True),
        trials.score("de", 0.5, attempt=2, slot_attempt=2),
        trials.end("de", Status.VALID, attempt=2, scores={"exact": 0.5}, usage=Usage(10, 5), calls=1, tries=2),
    ]
    yield [trials.end("it", Status.LIMITED, usage=Usage(100, 50), limit="tokens")]
    yield [NoteRecord(kind="drift", text="concurrency_limit: 8 → 2", data={"old": 8, "new": 2})]


def two_models(trials: Trials) -> Iterator[list[Record]]:
    """A trial in two branches: a reply of another run, a loan, tools, and a judge; its end names the shares."""
    reused = trials.step("pe", step_key("pe", "~1"), said("pe"), source=OTHER_RUN, tries=0, about=trials.about("pe"))
    lent = msgspec.structs.replace(reused, step=step_key("pe", "draft/~2"), lender=step_key("pe", "~1"), about=None)
    call = ToolCall("c1", "look_up", '{"country":"Peru"}')
    parts = (
        TextPart("Lima"),
        ImagePart("data:image/png;base64,AA=="),
        RawPart({"type": "audio", "audio": {"id": "a"}}),
    )
    tools = Reply("", "tool_calls", Usage(20, 10, 8, 4), "echo-1", "r1", None, "hm", "", (call,), {"annotations": []})
    spoken = Reply(parts, "stop", Usage(30, 15), "echo-1", "r2")
    judged = Reply("5", "stop", Usage(7, 1))
    action = StepRecord(
        trial=trials.keys["pe"],
        attempt=1,
        step="step/look%20up:0a#1",
        name="look up",
        request=["Peru"],
        result={"x": 1},
    )
    yield [reused, lent]
    yield [trials.step("pe", step_key("pe", number=2), tools), action]
    yield [trials.step("pe", step_key("pe", number=3), spoken, parent=step_key("pe", number=2))]
    yield [trials.answer("pe", "Lima")]
    asked = msgspec.structs.replace(trials.call("pe", JUDGED), model="judge", role=ModelRole.JUDGE, about=None)
    yield [asked]
    yield [trials.step("pe", JUDGED, judged, model="judge", role=ModelRole.JUDGE)]
    share = UsageShare("judge", Usage(7, 1))
    yield [trials.score("pe", None, unscored=True, explanation="no verdict", usage=Usage(7, 1), shares=(share,))]
    shares = (UsageShare("m", Usage(10, 5), reused=True),)
    end = trials.end(
        "pe", Status.VALID, scores={"exact": None}, usage=Usage(60, 30, 8, 4), shares=shares, calls=3, replayed=1
    )
    yield [end]


def second_session(trials: Trials) -> Iterator[list[Record]]:
    """Frames: one that was blocked, one kept from another run, a late score, and one that was cut short."""
    yield [
        trials.end(
            "es", Status.BLOCKED, error=Failure("Blocked", "content policy"), source=OTHER_RUN, usage=Usage(9, 0)
        )
    ]
    yield [trials.score("de", 0.5, attempt=2, task="t", model="m", axes={})]
    long = msgspec.structs.replace(said("jp"), content="Tokyo " * 40)
    yield [trials.step("jp", step_key("jp", "~1"), long, about=trials.about("jp"))]


def said(sample: str) -> Reply:
    return Reply(question(sample), "stop", Usage(10, 5), "echo-1")


class Journal:
    """Writes segments with these frames; what is over 900 bytes becomes a blob."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self.pins, self.lines = layout, list[SegmentPin](), list[bytes]()
        self.last: SegmentWriter

    def write(self, session: int, number: int, first_seq: int, frames: list[list[Record]], copy: bytes = b"") -> None:
        self.last = SegmentWriter(_FS, self._layout.journal, RUN, SegmentId(session, 0, number), first_seq, FORMAT)
        if copy:
            header = decode_header(copy)
            assert header is not None
            self.last.append_copy(header, copy[-header.stored :], [])
        for frame in frames:
            keys = [key for record in frame if (key := getattr(record, "trial", ""))]
            self.last.append([self._line(record) for record in frame], keys)

    def _line(self, record: Record) -> bytes:
        line = codec.encode(record)
        large = isinstance(record, StepRecord) and len(line) > 600
        kept, codec.BLOB_BYTES = codec.BLOB_BYTES, 600 if large else codec.BLOB_BYTES
        try:
            return codec.outsource(line, BlobStore(_FS, self._layout.blobs))
        finally:
            codec.BLOB_BYTES = kept

    def seal(self, *, successor: bool) -> int:
        self.last.seal(successor=successor)
        self.pins.append(self.last.pin())
        return self.last.next_seq

    def leave(self) -> None:
        """As a kill leaves it."""
        self.last.close()
        pin = SegmentPin(*self.last.ident, self.last.frames, self.last.last_digest.hex(), sealed=False)
        self.pins.append(pin)


def make(root: Path) -> None:
    """Makes the run in a directory that is not there yet."""
    layout = Layout(root)
    for directory in (layout.journal, layout.blobs, layout.inputs, layout.artifacts):
        directory.mkdir(parents=True)
    os.chdir(HERE)
    inputs = FreshInputs()
    prepared = prepare_eval(resolve(load_eval(Path("eval.yaml")), "eval.yaml"), inputs)
    config = plain_data(prepared.spec, explicit=True)
    # The same wherever the file lies.
    config["datasets"]["rows"]["path"] = "rows.jsonl"
    contents = planned_contents("capitals", {**config, "directory": "."}, prepared)
    copied: dict[str, Input] = {}
    for name, path in inputs.files.items():
        digest, size = BlobStore(_FS, layout.inputs).put_file(path)
        copied[name] = Input(digest, size, "rows.jsonl", raw=prepared_digest())
    trials, journal = Trials(prepared), Journal(layout)

    def session(number: int, price: dict[str, float], **fields: Any) -> SessionRecord:
        models = {**contents.config["models"], "m": {**contents.config["models"]["m"], "price": price}}
        return SessionRecord(
            number=number,
            run=RUN.hex(),
            name="capitals",
            at=f"2026-11-1{number}T00:00:00+00:00",
            version="0.1.0",
            config={**contents.config, "models": models},
            inputs=copied,
            environment={"python": "3.11.7", "platform": "linux"},
            packages={"msgspec": "0.19.0"},
            invocation=["holdfast", "run", "eval.yaml"],
            source="eval.yaml",
            planned=contents.planned,
            plan=contents.plan,
            code=contents.code,
            pins=list(journal.pins),
            mark=16,
            **fields,
        )

    first = [[session(1, PRICES[0])], *map(list, first_session(trials))]
    journal.write(1, 1, 1, first[:6])
    seq = journal.seal(successor=True)
    journal.write(1, 2, seq, first[6:])
    seq = journal.seal(successor=True)
    end = SessionEndRecord(
        number=1,
        how="interrupted",
        exit_code=130,
        at="2026-11-11T01:00:00+00:00",
        finished=4,
        planned=contents.planned,
        ledger={"kept": 0, "replayed": 1, "failures": []},
        states={"valid": 3, "limited": 1, "not_started": 2},
        pins=list(journal.pins),
    )
    journal.write(1, 3, seq, [[end]])
    journal.seal(successor=False)
    changes = [Change(f"models.m.price.{kind}", PRICES[0][kind], PRICES[1][kind]) for kind in PRICES[0]]
    begun = session(2, PRICES[1], changes=changes)
    journal.write(2, 1, 1, [[begun], *second_session(trials)])
    journal.leave()
    path = layout.journal / SegmentId(2, 0, 1).filename(sealed=False)
    data = path.read_bytes()
    doubtful = data[data.rindex(b"HDFT") - 8 :]
    telepathy = b'{"type":"telepathy","from":"a newer version","trial":"fr-1"}'
    resumed = session(3, PRICES[1], lost=[])
    journal.write(3, 1, 1, [[resumed]], doubtful)
    journal.last.append([telepathy], [])
    journal.leave()
    with (layout.journal / SegmentId(3, 0, 1).filename(sealed=False)).open("ab") as torn:
        torn.write(encode_header(decode_header(doubtful)._replace(session=3, seq=4, stored=5000))[:100] + b"half")  # type: ignore[union-attr]
    write_result_file(
        _FS, layout, trials.end("fr", Status.VALID, scores={"exact": 1.0}, usage=Usage(10, 5), calls=1, tries=1)
    )
    write_config(_FS, layout.config, [session(1, PRICES[0]), begun, resumed])
    inputs.close()


def prepared_digest() -> str:
    from holdfast.engine.opening.resume_plan import raw_digest  # noqa: PLC0415

    return raw_digest(HERE / "rows.jsonl")


if __name__ == "__main__":
    target = Path(sys.argv[1] if sys.argv[1:] else HERE / "run").absolute()
    shutil.rmtree(target, ignore_errors=True)
    make(target)
