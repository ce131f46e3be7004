"""Promise 10 and steps 15: interrupted forty times or never, the report is the same, also with trials that fail."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from evals import python_eval

SOURCE = """
from holdfast import Sample, Task, exact, includes, task
from holdfast.providers import Blocked

def kind_of(number):
    if number < 10:
        return "bad"  # in front of all the others
    return {3: "once", 5: "blocked", 7: "bad", 11: "wrong type"}.get(number % 20, "good")

async def solve(trial):
    kind = kind_of(int(trial.sample.id))
    first = await trial.generate(f"first {trial.sample.id} {trial.attempt}")
    if kind == "blocked":
        raise Blocked("policy")
    if kind == "bad" or (kind == "once" and trial.attempt == 1):
        raise ValueError(f"{kind} {trial.sample.id}")
    second = await trial.generate(f"second {trial.sample.id} {trial.attempt}")
    return 5 if kind == "wrong type" else f"{first.text} {second.text}"

@task
def t():
    samples = [Sample(f"q{n}", target=f"FIRST {n} 1 SECOND {n} 1", id=str(n)) for n in range(COUNT)]
    return Task(samples=samples, solver=solve, scorers=[exact(), includes()])
"""
LIMIT = 4


class Interruptions:
    """One eval, run once without interruption and once with many."""

    def __init__(self, holdfast: Any, server: Any, directory: Path, *, trials: int, seed: int) -> None:
        print(f"seed {seed}")
        self._holdfast, self._server, self._noise = holdfast, server, random.Random(seed)
        source = SOURCE.replace("COUNT", str(trials))
        self._eval = python_eval(directory, server.base_url, source, concurrency_limit=LIMIT, grace_period=20)
        self.kills = self.interrupts = 0

    def whole(self) -> dict[str, Any]:
        """The report of a run that nothing interrupts."""
        self._holdfast("run", self._eval, "--run-dir", "whole", code=1)
        self.asked = self._server.worked_on()
        assert set(self.asked.values()) == {1}
        return self._report("whole")

    def interrupted(self, times: int) -> dict[str, Any]:
        """The report of a run that is interrupted so many times, by a kill or by Ctrl-C, and then finished."""
        while self.kills + self.interrupts < times and self._interrupt_once():
            pass
        self._holdfast("run", self._eval, "--run-dir", "r", "--or-resume", code=1)
        return self._report("r")

    def _interrupt_once(self) -> bool:
        """Whether a session was still at work when it was interrupted."""
        before = self._server.state()["received"]
        started = self._holdfast.start("run", self._eval, "--run-dir", "r", "--or-resume")
        while started.is_running and self._server.state()["received"] == before:
            time.sleep(0.002)
        time.sleep(self._noise.uniform(0.0, 0.2))
        number = self._noise.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT])
        started.send(number)
        code = started.wait().code
        self.kills += code == -signal.SIGKILL
        self.interrupts += code == 130
        return code in {-signal.SIGKILL, 130}

    def _report(self, run: str) -> dict[str, Any]:
        report = json.loads(self._holdfast("report", run, "--json", code=0).out)
        assert report.pop("timing") is not None and len(report.pop("lineage")) >= 1
        self._holdfast("verify", run, code=0)
        return report

    def check_calls(self) -> None:
        """The same calls were made, and no others but those in flight at the kills a second time."""
        asked = self._server.worked_on()
        assert set(asked) == set(self.asked)
        # One for the run without interruptions.
        again = sum(count - 2 for count in asked.values())
        print(f"{self.kills} kills, {self.interrupts} interrupts, {again} calls made again")
        assert again <= self.kills * LIMIT


def check_interruptions(holdfast, server, directory, *, trials: int, times: int, latency: float) -> Interruptions:
    work = Interruptions(holdfast, server, directory, trials=trials, seed=random.SystemRandom().randrange(2**32))
    server.behave(latency=latency)
    whole = work.whole()
    interrupted = work.interrupted(times)
    assert json.dumps(interrupted) == json.dumps(whole)
    assert whole["coverage"]["failed"] > 10 and whole["coverage"]["blocked"] > 0
    assert whole["coverage"]["remaining_by_reason"] == {"task error": whole["coverage"]["failed"]}
    work.check_calls()
    return work


def test_interrupted_eight_times_or_never_the_report_is_the_same(holdfast, server, tmp_path):
    """With trials that always fail, ten of them in front, that fail once, and that are blocked."""
    work = check_interruptions(holdfast, server, tmp_path, trials=80, times=8, latency=0.05)
    assert work.kills + work.interrupts >= 4


@pytest.mark.soak
def test_interrupted_forty_times_or_never_the_report_is_the_same(holdfast, server, tmp_path):
    """The same for longer."""
    work = check_interruptions(holdfast, server, tmp_path, trials=400, times=40, latency=0.1)
    assert work.kills + work.interrupts == 40
