"""Steps 25: after any history, everybody who counts the trials of a run gives the same numbers, and they add up."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest

from engine.rig import Actor, Rig, State, interrupt, prompt_of, said, samples
from folds import check_fold
from holdfast import Run, Task, exact
from holdfast.models.errors import Blocked, Unavailable
from holdfast.run import RunReader
from holdfast.run.remote.list_runs import list_recoverable
from holdfast.run.verify.verify import verify_run
from holdfast.spec import TrialLimits

SEED = 20261117
KINDS = ("good", "bug", "other bug", "once", "wrong type", "blocked", "down", "large", "unscored")


class Samples(State):
    """What becomes of every sample; no part of the code that a resume compares."""

    def __init__(self, noise: random.Random, count: int) -> None:
        super().__init__(None)
        most = noise.choice(["good", "bug", "bug", "down"])
        self.kinds = [noise.choice([most, most, *KINDS]) for _ in range(count)]
        if noise.random() < 0.4:
            self.kinds = ["bug"] * count

    def kind(self, text: str) -> str:
        return self.kinds[int(text.split(maxsplit=1)[0][1:])]


def make_task(name: str, plan: Samples) -> Task:
    async def solve(trial):
        kind = plan.kind(trial.sample.input)
        reply = await trial.generate(f"{trial.sample.input} {name}")
        if kind == "bug":
            raise ValueError(trial.sample.id)
        if kind == "other bug":
            raise KeyError(trial.sample.id)
        if kind == "once" and trial.attempt == 1:
            raise ValueError("once")
        return 5 if kind == "wrong type" else reply

    def judged(answer, sample):
        if plan.kind(sample.input) == "unscored":
            raise ValueError("scorer")
        return True

    return Task(
        name=name,
        samples=samples(len(plan.kinds)),
        solver=solve,
        scorers=[exact(), judged],
        limits=TrialLimits(tokens=50),
    )


class History:
    """A run of one or two tasks that is started, killed, interrupted, resumed and redone at random."""

    def __init__(self, directory, seed: int) -> None:
        noise = self.noise = random.Random(seed)
        plans = {name: Samples(noise, noise.choice([2, 7, 25, 40])) for name in noise.choice([("t",), ("t", "u")])}

        async def behave(request, number):
            text = prompt_of(request)
            kind = plans[text.split()[1]].kind(text)
            if kind == "blocked":
                raise Blocked("policy")
            if kind == "down":
                raise Unavailable("down")
            return said("x", (99, 1) if kind == "large" else (1, 1))

        settings = {
            "concurrency_limit": noise.choice([1, 3, 16, 64]),
            "max_retries": noise.choice([0, 1, 2]),
            "fail_fast": noise.random() < 0.8,
            "retry_deadline": 0.001,
        }
        actors = {name: Actor(behave, seconds=1.0) for name in noise.choice([("m",), ("m", "n")])}
        tasks = [make_task(name, plan) for name, plan in plans.items()]
        self.rig = Rig(directory / "r", tasks, actors, settings=settings, seed=seed)

    def go_on(self) -> None:
        """One more session, of any kind."""
        noise, rig = self.noise, self.rig
        rig.redo = None
        if (rig.root / "journal").is_dir() and noise.random() < 0.3:
            with contextlib.closing(RunReader(rig.root)) as reader:
                failed = ["status=failed", "status=failed or status=blocked"] if reader.fold.counts.failed else []
            rig.redo = noise.choice([*failed, *failed, "task=t", "sample=s1"])
        turn = noise.random()
        if turn < 0.5:
            rig.killed_session(noise.uniform(0.2, 9.0))
        elif turn < 0.7:
            rig.at = {noise.uniform(0.2, 9.0): interrupt}
            rig.session()
        else:
            rig.session()

    def check(self) -> None:
        rig = self.rig
        with contextlib.closing(RunReader(rig.root)) as reader:
            check_fold(reader)
            counts, groups = reader.fold.counts, reader.fold.counts_by_group()
            verification = verify_run(reader)
        assert verification.ok, verification.damage
        assert verification.counts == rig.status().counts == counts
        report = rig.report()
        assert report.coverage == counts
        with Run.open(rig.root) as run:
            told = run.counts
            rows = Counter(row["state"] for row in run.to_dicts())
        assert all(getattr(told, name) == getattr(counts, name) for name in counts.__struct_fields__)
        (listed,) = list_recoverable(rig.root)
        assert listed.states == counts.states() and listed.planned == counts.planned
        states = counts.states()
        assert sum(states.values()) == counts.planned == sum(group.planned for group in groups.values())
        assert counts.remaining == counts.failed + counts.unfinished + counts.not_started
        assert counts.remaining == sum(counts.remaining_by_reason.values())
        assert all(rows[name] == count for name, count in states.items() if name != "not_started")
        for name in (*states, "remaining"):
            assert getattr(counts, name) == sum(getattr(group, name) for group in groups.values()), name


@pytest.mark.parametrize("number", range(24))
def test_steps_25_after_any_history_all_counts_agree_and_add_up(tmp_path, number):
    """Planned = valid + limited + blocked + failed + unfinished + not started: everywhere, by task and model too."""
    print(f"seed {SEED + number}")
    history = History(tmp_path, SEED + number)
    for _ in range(history.noise.randrange(2, 7)):
        history.go_on()
        history.check()
