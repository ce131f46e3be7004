"""Ten thousand trials in stages: what a trial costs does not grow with their number, and neither does a repair."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import subprocess
import sys

import pytest

TRIALS, STEP = 10_000, 1000
SOURCE = f"""
import json, os, time
from holdfast import Answer, Sample, Stage, Task, exact

class Agent:
    def __init__(self):
        self.ended = 0
        self.stages = (Stage("prepare", self.prepare), Stage("solve", self.work), Stage("capture", self.capture))

    async def prepare(self, trial, outcomes):
        return {{"files": 3}}

    async def work(self, trial, outcomes):
        return {{"text": (await trial.generate(trial.sample.input)).text}}

    async def capture(self, trial, outcomes):
        return {{"diff": outcomes["solve"]["text"]}}

    def answer(self, trial, outcomes):
        return Answer(outcomes["capture"]["diff"])

    async def clean_up(self, trial, status):
        self.ended += 1
        if self.ended % {STEP} == 0:
            with open(os.environ["CPU_LOG"], "a") as file:
                file.write(json.dumps(time.process_time()) + "\\n")

samples = [Sample(f"q{{number}}", target=f"q{{number}}", id=f"s{{number}}") for number in range({TRIALS})]
task = Task(samples=samples, solver=Agent(), scorers=exact())
"""


def holdfast(directory, *words):
    """Runs the program; what it printed, and its seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "holdfast", *words]
    environment = {**os.environ, "CPU_LOG": str(directory / "cpu")}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_recovery_14_the_cost_of_a_stage_does_not_grow_and_all_results_are_repaired(tmp_path):
    """Processor time of the first and the last thousand trials; 10,000 of 10,000 files within 5 seconds of it."""
    (tmp_path / "staged.py").write_text(SOURCE)
    holdfast(tmp_path, "run", "staged.py", "--model", "scripted/echo", "--run-dir", "r")
    ends = [json.loads(line) for line in (tmp_path / "cpu").read_text().splitlines()]
    each = [after - before for before, after in itertools.pairwise(ends)]
    print("seconds of processor time for each thousand:", [round(seconds, 2) for seconds in each])
    assert len(ends) == TRIALS // STEP
    assert each[-1] < 1.5 * each[0]
    shutil.rmtree(tmp_path / "r" / "journal")
    said, seconds = holdfast(tmp_path, "repair", "r", "--json")
    print(f"repair of {TRIALS} files: {seconds:.2f} s of processor time")
    result = json.loads(said)
    assert (result["sound"], result["after"]) == (TRIALS, TRIALS)
    assert seconds < 5.0
