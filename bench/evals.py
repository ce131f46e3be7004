"""Evals to be measured: a dataset of short questions, a declarative task, the exact scorer; carried out by the engine.

The questions follow from a seed. Every third one is its own answer, so that a model which repeats what it is asked is
right about a third of the time.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from bench.material import Prose
from holdfast.engine.execution import Execution, SessionOutcome
from holdfast.engine.opening.new_run import StartedSession, start_run
from holdfast.spec import EvalSpec, resolve, typed_eval

PROMPT = "Say this again, and nothing else: {question}"


def write_dataset(path: Path, count: int) -> Path:
    """A JSONL file of `count` rows with ids; written once."""
    if not path.exists():
        prose, encode = Prose(), msgspec.json.encode
        with path.open("wb") as stream:
            for number in range(count):
                stream.write(encode(_row(number, prose.passage(40, 120))) + b"\n")
    return path


def _row(number: int, question: str) -> dict[str, str]:
    answer = PROMPT.format(question=question) if number % 3 == 0 else question[:20]
    return {"id": f"question-{number}", "question": question, "answer": answer}


def echo_eval(dataset: Path, in_flight: int, model: dict[str, Any] | None = None, **keys: Any) -> EvalSpec:
    """One task on one model, by default the scripted one that repeats what it is asked."""
    data = {
        "name": "bench",
        "concurrency_limit": in_flight,
        "models": {"small": model or {"provider": "scripted", "model": "echo"}},
        "datasets": {"questions": {"path": str(dataset)}},
        "tasks": {
            "again": {"dataset": "questions", "prompt": PROMPT, "target": "{answer}", "scorers": ["exact"]},
        },
        **keys,
    }
    return resolve(typed_eval(data, "the benchmark"), "the benchmark")


def owing_eval(dataset: Path, count: int, in_flight: int) -> EvalSpec:
    """As `echo_eval`, of which one trial, the last of `count`, never gets its reply."""
    unavailable = {"exact": PROMPT.format(question=_last_question(dataset, count)), "unavailable": {}}
    model = {"provider": "scripted", "model": "echo", "args": {"errors": [unavailable]}}
    return echo_eval(dataset, in_flight, model, retry_deadline=0.001)


def _last_question(dataset: Path, count: int) -> str:
    with dataset.open("rb") as stream:
        line = next(islice(stream, count - 1, None))
    question: str = msgspec.json.decode(line)["question"]
    return question


def carry_out(spec: EvalSpec, root: Path) -> SessionOutcome:
    """A whole run: from an eval to the end of its first session."""
    return asyncio.run(execute(start_run(spec, root)))


async def execute(started: StartedSession) -> SessionOutcome:
    return await Execution(started.session, started.prepared).run(signals=False)
