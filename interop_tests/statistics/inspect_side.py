"""Inspect on our records: its scorer looks every score up, and its own reducer and metrics do the rest."""

from pathlib import Path

from inspect_ai import Epochs, Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import generate
from our_side import Recorded


def inspect_metrics(recorded: Recorded, epochs: int, logs: Path) -> dict[str, float]:
    """The metrics of Inspect by name."""

    @scorer(metrics=[mean(), stderr()])
    def on_record():
        async def score(state, target):
            return Score(value=recorded.scores[str(state.sample_id), state.epoch])

        return score

    names = sorted({name for name, _ in recorded.scores})
    samples = [Sample(input=name, target="x", id=name) for name in names]
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=on_record(), epochs=Epochs(epochs, "mean"))
    (log,) = inspect_eval(task, model="mockllm/model", log_dir=str(logs), display="none")
    if log.status != "success":
        raise SystemExit(f"Inspect could not evaluate the records: {log.error}")
    (scores,) = log.results.scores
    return {name: metric.value for name, metric in scores.metrics.items()}
