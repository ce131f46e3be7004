"""The floor for trials: an asyncio loop that asks as many at a time and writes the same records with the same waits.

It reads the rows, asks, compares and records. Nothing is planned, limited, tried again, replayed or checked, and a
crash would lose the overview.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from bench.evals import PROMPT
from bench.floor import FloorWriter
from holdfast.models.message import Usage
from holdfast.run.core.records import AnswerRecord, CallRecord, ScoreRecord, Status, StepRecord, TrialRecord

Ask = Callable[[str], Awaitable[tuple[str, Usage]]]
"""Puts one question to a model: the text of its reply, and the tokens."""

_encode = msgspec.json.Encoder().encode


async def carry_out_bare(journal: Path, dataset: Path, ask: Ask, in_flight: int) -> None:
    """Every row of the dataset, `in_flight` at a time."""
    writer = FloorWriter(journal)
    with dataset.open("rb") as stream:
        rest = enumerate(stream)

        async def work() -> None:
            for number, line in rest:
                await _trial(writer, ask, f"{number:020x}", msgspec.json.decode(line))

        await asyncio.gather(*(work() for _ in range(in_flight)))
    writer.close()


async def _trial(writer: FloorWriter, ask: Ask, key: str, row: dict[str, Any]) -> None:
    """Five records and two waits: for the reply, and for the end."""
    at, began = time.time(), time.monotonic()
    prompt, name = PROMPT.format(question=row["question"]), f"generate:{key}#1"
    writer.append(_encode(CallRecord(trial=key, attempt=1, step=name, model="small")))
    text, usage = await ask(prompt)
    step = StepRecord(
        trial=key,
        attempt=1,
        step=name,
        name="generate",
        request={"messages": [{"role": "user", "content": prompt}]},
        result={"text": text, "finish": "stop", "model": "echo"},
        model="small",
        usage=usage,
        tries=1,
        at=at,
        seconds=time.monotonic() - began,
    )
    await writer.commit(_encode(step))
    writer.append(_encode(AnswerRecord(trial=key, attempt=1, text=text)))
    value = float(text == row["answer"])
    writer.append(_encode(ScoreRecord(trial=key, attempt=1, scorer="exact", value=value, answer=text)))
    end = TrialRecord(
        trial=key,
        attempt=1,
        status=Status.VALID,
        task="again",
        model="small",
        sample=row["id"],
        scores={"exact": value},
        usage=usage,
        calls=1,
        tries=1,
        at=at,
        seconds=time.monotonic() - began,
    )
    await writer.commit(_encode(end))
