"""Generated code, run in a process of its own. What came of it is recorded: after a kill it is not run again."""

import re
import subprocess
import sys

from holdfast import Answer, Sample, Score, Trial

TIMEOUT_SECONDS = 5


def run_checks(code: str, checks: list[str]) -> dict[str, str]:
    """By check, "passed" or what was wrong; one process for each, so that none can disturb another."""
    return {check: run_check(code, check) for check in checks}


def run_check(code: str, check: str) -> str:
    """What came of one check."""
    program = f"{code}\nassert {check}"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {TIMEOUT_SECONDS} seconds"
    return "passed" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


async def write_and_run(trial: Trial) -> Answer:
    """Ask for code and run it; a step returns what was recorded when the trial is resumed."""
    reply = await trial.generate(trial.sample.input)
    found = re.search(r"```python\n(.*?)```", reply.text, re.DOTALL)
    if found is None:
        return Answer(reply.text)
    results = await trial.step("run", run_checks, found[1], trial.sample.metadata["checks"])
    return Answer(found[1], results)


def passes(answer: Answer, sample: Sample) -> Score:
    """The share of checks that passed, and what was wrong with the first that did not."""
    if answer.value is None:
        return Score(0.0, explanation="There is no code in the reply.")
    failed = [f"{check}: {result}" for check, result in answer.value.items() if result != "passed"]
    return Score(1 - len(failed) / len(sample.metadata["checks"]), explanation="; ".join(failed))
