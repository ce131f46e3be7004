"""Runs of ours as logs: what the real Inspect reads of them."""

import math
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

from inspect_ai.analysis import evals_df, samples_df
from inspect_ai.log import (
    list_eval_logs,
    read_eval_log,
    read_eval_log_sample,
    read_eval_log_sample_summaries,
    read_eval_log_samples,
)
from rig import viewer

from holdfast import Message, Sample, Task, evaluate, exact, includes
from holdfast.api.export_inspect import export_inspect
from holdfast.api.run import Run

SAMPLES = [
    Sample(
        f"Say {number} ü \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        target=f"{number}",
        id=f"s/{number}",
    )
    for number in range(7)
]


def make_run(place: Path) -> Path:
    """A run with two tasks, two models, axes-free, several turns, epochs, failures and scores without a number."""

    async def talk(trial):
        first = await trial.generate(trial.sample.input)
        if trial.sample.id == "s/5":
            raise ValueError("this one fails")
        await trial.step("note", lambda: {"length": len(first.text)})
        return await trial.generate([Message("system", "Be brief."), Message("user", f"Again: {first.text}")])

    async def half(trial, answer):
        return 0.5 if trial.sample.id == "s/1" else float(len(answer.text) % 2)

    talking = Task(name="talking", samples=SAMPLES, solver=talk, scorers=[exact(), includes()], epochs=2)
    short = Task(name="short", samples=SAMPLES[:3], scorers=[includes()])
    models = {
        "small": "scripted/echo",
        "large": {"provider": "scripted", "model": "other", "args": {"default": "3 and 4"}},
    }
    with evaluate([talking, short], models=models, run=place, progress=False):
        return place


def make_interrupted(place: Path) -> Path:
    """A run whose process was killed."""
    code = (
        "import asyncio, sys\nfrom holdfast import Sample, Task, evaluate, exact\n"
        "async def solve(trial):\n    reply = await trial.generate('Say ' + trial.sample.input)\n"
        "    await asyncio.sleep(0 if trial.sample.id < '3' else 600)\n    return reply\n"
        "samples = [Sample(str(n), target=str(n), id=str(n)) for n in range(6)]\n"
        "task = Task(name='slow', samples=samples, solver=solve, scorers=[exact()])\n"
        "evaluate(task, models=['scripted/echo'], run=sys.argv[1], progress=False)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(place)], cwd=place.parent)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.2)
        if place.exists():
            with Run.open(place) as run:
                if run.finished == 3:
                    break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return place


def compare_export(place: Path, env: dict[str, str]) -> list[str]:
    """The faults that were found in what Inspect reads."""
    faults = []
    for name, make in (("whole", make_run), ("interrupted", make_interrupted)):
        place.mkdir(exist_ok=True)
        with Run.open(make(place / name)) as run:
            logs = place / f"{name}-logs"
            written = export_inspect(run, logs)
            faults += [f"{name}: {fault}" for fault in _faults(run, written, logs, env)]
            states, samples = [log.status for log in written], sum(log.samples for log in written)
            print(f"exported {name}: {len(written)} logs, {samples} samples, {states}")
    return faults


def _faults(run, written, logs, env):
    found = []
    rows = {(row.task, row.model, row.sample, row.epoch): row for row in run.trials()}
    if len(list_eval_logs(str(logs))) != len(written):
        found.append("list_eval_logs counts differently")
    count = sum(log.samples for log in written)
    if not count == len(rows) == len(samples_df(str(logs))):
        found.append(f"{count} samples, {len(rows)} trials, {len(samples_df(str(logs)))} rows of samples_df")
    if len(evals_df(str(logs))) != len(written):
        found.append("evals_df counts differently")
    for log in written:
        found += _log_faults(run, rows, log)
    with viewer(logs, env) as get:
        found += _viewer_faults(get, written)
    return found


def _log_faults(run, rows, log):
    found = []
    whole = read_eval_log(log.log)
    summaries = read_eval_log_sample_summaries(log.log)
    streamed = list(read_eval_log_samples(log.log, all_samples_required=False))
    if not len(whole.samples) == len(summaries) == len(streamed) == log.samples:
        found.append(f"{log.log}: {len(whole.samples)}, {len(summaries)}, {len(streamed)} of {log.samples} samples")
    if whole.status != log.status or read_eval_log(log.log, header_only=True).status != log.status:
        found.append(f"{log.log}: the status is {whole.status}")
    for sample in whole.samples:
        row = rows[log.task, log.model, sample.id, sample.epoch]
        if read_eval_log_sample(log.log, sample.id, sample.epoch) != sample:
            found.append(f"{sample.id}: read alone it differs")
        found += [f"{log.task} {sample.id}#{sample.epoch}: {part} differ" for part in _different(run, row, sample)]
    report = run.report().tasks[log.task][log.model].metrics
    for score in whole.results.scores:
        for name, metric in report[score.name].items():
            if metric.value is not None and score.metrics[name].value != metric.value:
                found.append(f"{log.log}: {score.name} {name} is {score.metrics[name].value}, here {metric.value}")
    return found


def _different(run, row, sample):
    found = []
    if sample.input != row.input or sample.target != row.target:
        found.append("input or target")
    scores = {name: score.value for name, score in (sample.scores or {}).items()}
    if {name: None if math.isnan(value) else value for name, value in scores.items()} != row.scores:
        found.append("scores")
    if (sample.error is None) != (row.state in {"valid", "limited"}):
        found.append("state and error")
    if row.answer is not None and sample.output.completion != row.answer:
        found.append("answer")
    said = _last_conversation(run, row)
    if [(message.role, message.text) for message in sample.messages] != said:
        found.append("messages")
    used = next(iter(sample.model_usage.values()))
    if (used.input_tokens, used.output_tokens) != (row.usage.input_tokens, row.usage.output_tokens):
        found.append("usage")
    return found


def _last_conversation(run, row):
    """The messages of the last call, from the records."""
    steps = {step.step: step for step in run.steps(row.trial) if step.attempt == row.attempt}
    calls = [step for step in steps.values() if step.name == "generate" and step.error is None]
    said: list = []
    step = calls[-1] if calls else None
    while step is not None:
        own = [(message["role"], message["content"]) for message in step.request["messages"]]
        said = [*own, ("assistant", step.result["text"]), *said]
        step = steps.get(step.parent) if step.parent else None
    return said


def _viewer_faults(get, written):
    found = []
    listed = get("/api/logs")
    files = listed if isinstance(listed, list) else listed["files"]
    if len(files) != len(written):
        found.append(f"the viewer lists {len(files)} logs")
    for entry in files:
        name = urllib.parse.quote(entry["name"], safe="")
        header = get(f"/api/logs/{name}?header-only=100")
        if header["status"] not in {"success", "error"} or "results" not in header:
            found.append(f"the viewer's header of {name} is not whole")
    return found
