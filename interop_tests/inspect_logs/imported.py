"""Logs that Inspect wrote, as runs: our metrics beside its own."""

from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log
from inspect_ai.scorer import Score, accuracy, includes, match, mean, model_graded_qa, scorer, stderr
from inspect_ai.solver import generate, solver
from rig import MODEL

from holdfast.api.run import Run
from holdfast.interop.importing.import_run import import_run
from holdfast.interop.importing.kinds import find_reader


@scorer(metrics=[mean(), stderr()])
def length():
    async def score(state, target):
        if state.sample_id == 4:
            return Score(value=float("nan"), explanation="nothing to measure")
        return Score(value=len(state.output.completion) / 7, answer=state.output.completion[:5])

    return score


@scorer(metrics={"first": [mean(), stderr()], "second": [accuracy()]})
def both():
    async def score(state, target):
        number = int(state.sample_id)
        return Score(value={"first": number / 3, "second": "C" if number % 2 else "I"})

    return score


@solver
def failing():
    async def solve(state, generate):
        if state.sample_id == 6:
            raise ValueError("this one fails")
        return state

    return solve


def tasks():
    samples = [
        Sample(id=n, input=f"Question {n}: " + "ü" * 120, target="Default" if n % 3 else "x", choices=None)
        for n in range(1, 13)
    ]
    dataset = MemoryDataset(samples, name="questions")
    return [
        Task(name="plain", dataset=dataset, solver=generate(), scorer=includes()),
        Task(name="epochs", dataset=dataset, solver=generate(), scorer=[includes(), length()], epochs=3),
        Task(name="values", dataset=dataset, solver=generate(), scorer=both()),
        Task(
            name="judged", dataset=dataset, solver=generate(), scorer=model_graded_qa(model=MODEL, partial_credit=True)
        ),
        Task(name="failing", dataset=dataset, solver=[failing(), generate()], scorer=match(), fail_on_error=False),
        Task(name="limited", dataset=dataset, solver=[generate(), generate()], scorer=includes(), message_limit=2),
    ]


def compare_import(place: Path) -> list[str]:
    """The faults that were found in runs imported from Inspect's logs."""
    faults = []
    for kind in ("eval", "json"):
        logs = inspect_eval(
            tasks(), model=MODEL, log_dir=str(place / kind), log_format=kind, display="none", max_tasks=6
        )
        for log in logs:
            path = Path(log.location.removeprefix("file://"))
            faults += [f"{kind} {log.eval.task}: {fault}" for fault in _faults(path, place / f"{kind}-{log.eval.task}")]
    return faults


def _faults(path: Path, root: Path):
    summary = import_run(find_reader(path).read(path), root)
    theirs = read_eval_log(str(path))
    found = [] if summary.imported == len(theirs.samples) else [f"{summary.imported} of {len(theirs.samples)} imported"]
    with Run.open(root) as run:
        rows = {(row.sample, row.epoch): row for row in run.trials()}
        for sample in theirs.samples:
            row = rows[str(sample.id), sample.epoch]
            if (sample.error is None) != (row.state in {"valid", "limited"}):
                found.append(f"{sample.id}: {row.state}, there {sample.error}")
            if sample.error is None and row.answer != sample.output.completion:
                found.append(f"{sample.id}: the answer differs")
        [models] = run.report().tasks.values()
        [report] = models.values()
        found += _metric_faults(theirs, report.metrics, root.name)
    return found


def _metric_faults(log, ours, title):
    found, line = [], []
    for score in log.results.scores:
        name = score.name if score.name == score.scorer else f"{score.scorer}.{score.name}"
        [metric] = ours[name].values()
        for key, theirs in score.metrics.items():
            own = metric.stderr if key == "stderr" else metric.value
            is_equal = own is not None and abs(own - theirs.value) < 1e-12
            line.append(f"{name} {key} {theirs.value:.6f}")
            if not is_equal:
                found.append(f"{name} {key} is {own}, there {theirs.value}")
    print(f"imported {title}: {'; '.join(line)}")
    return found
