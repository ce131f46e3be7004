"""The trials of a task are the same whether their keys were kept from an earlier session or are worked out now."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from engine.rig import simple_task
from holdfast.engine.planning import plan
from holdfast.engine.planning.plan import PlannedTask, TrialSequence, axis_values
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.spec import Operation, Shuffle, TrialLimits
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.derived_cache import DerivedCache
from holdfast.tasks.datasets.row_file import Rows

SEED = 20261116
NOTHING = KeySet([])


class Growing:
    """An eval whose data, epochs, axes, models and limit change from session to session."""

    def __init__(self, directory: Path, noise: random.Random) -> None:
        self._directory, self._noise = directory, noise
        self._cache = directory / "cache"
        self.rows: list[dict] = [{"input": f"q{number}"} for number in range(6)]
        self.axes: dict[str, list[str]] = {}
        self.models, self.epochs = ["small"], 1
        self.limit: int | None = None
        self.is_shuffled = False

    def change(self) -> None:
        noise, turn = self._noise, self._noise.randrange(9)
        if turn == 0:
            self.rows.append({"input": f"q{noise.randrange(9)}"})
        elif turn == 1:
            noise.shuffle(self.rows)
        elif turn == 2:
            self.rows.insert(0, {"id": f"i{len(self.rows)}", "input": "asked"})
        elif turn == 3:
            self.epochs += 1
        elif turn == 4:
            self.axes.setdefault(noise.choice("ab"), ["1"]).append(str(noise.randrange(10**6)))
        elif turn == 5:
            noise.shuffle(self.axes.get("a", []))
        elif turn == 6:
            self.models.append(f"m{len(self.models)}")
        elif turn == 7:
            self.limit = noise.randrange(1, len(self.rows) + 3)
        else:
            self.is_shuffled = not self.is_shuffled

    def spoil(self) -> None:
        """Cuts, changes or exchanges what is in the cache."""
        paths = sorted(self._cache.iterdir()) if self._cache.is_dir() else []
        for path in self._noise.sample(paths, min(len(paths), 2)):
            data, other = path.read_bytes(), self._noise.choice(paths).read_bytes()
            place = self._noise.randrange(len(data))
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            path.write_bytes(self._noise.choice([data[:place], changed, other]))

    def task(self) -> PlannedTask:
        path = self._directory / "rows.jsonl"
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in self.rows))
        rows = Rows.open(path, cache=DerivedCache(self._cache))
        rows.cache.keep(self._cache)
        operations = [Operation(shuffle=Shuffle(seed=1))] if self.is_shuffled else []
        dataset = Dataset(rows, None, operations, limit=self.limit)
        axes = axis_values(self.axes)
        return PlannedTask("t", simple_task(1), dataset, tuple(self.models), axes, self.epochs, TrialLimits(), 0, 9.0)


@pytest.mark.parametrize("seed", range(SEED, SEED + 12))
def test_trials_from_the_cache_are_the_trials_without_it(tmp_path, monkeypatch, seed):
    """Whatever grew, was reordered or was damaged since: no trial is missing, and none is started twice."""
    print(f"seed {seed}")
    noise = random.Random(seed)
    monkeypatch.setattr(plan, "_CACHED_FROM", 1)
    monkeypatch.setattr("holdfast.tasks.datasets.row_identity._CACHED_FROM", 1)
    growing, finished = Growing(tmp_path, noise), set()
    for turn in range(12):
        task, keys = growing.task(), KeySet(sorted(finished))
        for model in task.models:
            sequences = (
                TrialSequence(task, model, keys, NOTHING),
                TrialSequence(task, model, keys, NOTHING, task.dataset.rows.cache),
            )
            computed, cached = (list(sequence.trials()) for sequence in sequences)
            assert cached == computed, (turn, model)
            assert sequences[0].skipped == sequences[1].skipped == task.planned_of(model) - len(computed)
            finished.update(trial.key for trial in computed if noise.random() < 0.6)
        task.dataset.rows.close()
        growing.change()
        if noise.random() < 0.3:
            growing.spoil()


def test_the_cache_is_used(tmp_path, monkeypatch):
    """The test above would say nothing if it were not."""
    monkeypatch.setattr(plan, "_CACHED_FROM", 1)
    task = Growing(tmp_path, random.Random(1)).task()
    trials = list(TrialSequence(task, "small", KeySet(["00" * 10]), NOTHING, task.dataset.rows.cache).trials())
    monkeypatch.setattr(plan, "trial_digest", None)
    again = TrialSequence(task, "small", KeySet([trials[0].key]), NOTHING, task.dataset.rows.cache)
    assert list(again.trials()) == trials[1:]
    task.dataset.rows.close()
