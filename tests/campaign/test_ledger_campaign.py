"""Promises 1, 2 and 3 under signals, damage, divergence, failing solvers and a slow disk, by a checker of its own."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import time

import pytest
from evidence import Evidence, read_journal

from evals import python_eval

TASK = """
import random, time
from holdfast import Sample, Task, exact, task

async def solve(trial):
    plan = trial.sample.metadata
    text = ""
    for call in range(plan["calls"]):
        asked = time.time_ns() if plan["shifts"] else 0
        text = (await trial.generate(f"{trial.sample.input}|{call}|{asked}")).text
    if plan["fails"] == "always" or (plan["fails"] == "first" and trial.attempt == 1):
        raise ValueError("as planned")
    return text

@task
def t(seed=0, trials=8, shifts=0.0, failing=0.0):
    noise = random.Random(seed)
    def plan():
        fails = noise.choice(["always", "first"]) if noise.random() < failing else ""
        return {"calls": noise.randrange(1, 5), "shifts": noise.random() < shifts, "fails": fails}
    samples = [Sample(f"s{n}", target="x", metadata=plan()) for n in range(trials)]
    return Task(samples=samples, solver=solve, scorers=[exact()])
"""
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


class Round:
    """One run that is disturbed and resumed until nothing is left to be run."""

    def __init__(self, observed, server, seed: int) -> None:
        self.noise, self.observed, self.server = random.Random(seed), observed, server
        noise, self.seed = self.noise, seed
        self.planned, self.is_damaged = noise.randrange(4, 40), False
        self.shifts, self.failing = noise.choice([0.0, 0.0, 0.5]), noise.choice([0.0, 0.0, 0.3])
        self.disturbances = noise.randrange(5)
        self.slow = noise.choice([0.0, 0.0, 0.1, 0.4])
        self.damages = noise.random() < 0.3

    def run(self) -> list[str]:
        args = {"seed": self.seed, "trials": self.planned, "shifts": self.shifts, "failing": self.failing}
        runner = {
            "concurrency_limit": self.noise.choice([1, 4, 16]),
            "max_retries": 2,
            "fail_fast": self.noise.random() < 0.3,
        }
        eval_file = python_eval(self.observed.directory, self.server.base_url, TASK, **runner)
        data = eval_file.read_text().replace('"use": "task.py:t"', f'"use": "task.py:t", "args": {json.dumps(args)}')
        eval_file.write_text(data)
        self.server.behave(latency=0.02)
        words: tuple[object, ...] = ("run", eval_file, "--run-dir", "r")
        found: list[str] = []
        for _ in range(self.disturbances):
            if not self._disturbed(words):
                break
            if not (self.observed.directory / "r" / "journal").exists():
                continue
            found += self._evidence().violations()
            if self.damages:
                self._damage()
            words = ("resume", "r")
        self.observed(*words)
        if (ended := self.observed("resume", "r")).code not in (0, 1):
            found.append(f"it ended with {ended}")
        return found + self._evidence(is_over=True).violations()

    def _disturbed(self, words) -> bool:
        """A session that gets a signal at a random moment; False if it ended before that."""
        session = self.observed.start(*words, HOLDFAST_TEST_SLOW_SYNC=str(self.slow))
        time.sleep(self.noise.uniform(0.0, 1.5))
        if not session.is_running:
            session.wait()
            return False
        session.send(self.noise.choice(SIGNALS))
        session.wait()
        self.server.wait_until_idle()
        return True

    def _damage(self) -> None:
        """Somebody else cuts off or changes bytes of what was written.

        Not in the segment that a killed session had open: nothing vouches for its end before the next session.
        """
        run = self.observed.directory / "r"
        paths = sorted((run / "journal").glob("*.jsonl.zst"))
        newest = paths[-1].name[:6]
        known = [path for path in paths[1:] if ".open." not in path.name or path.name[:6] != newest]
        path = self.noise.choice([*known, *run.glob("index.sqlite"), None])
        data = bytearray(path.read_bytes()) if path is not None else b""
        if len(data) < 500:
            return
        place = self.noise.randrange(len(data) // 2, len(data))
        data[place:] = b"" if self.noise.random() < 0.5 else bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        path.write_bytes(data)
        self.is_damaged |= path.suffix == ".zst"

    def _evidence(self, *, is_over: bool = False) -> Evidence:
        status = self.observed("status", "r", "--json", code=0).json
        return Evidence(
            planned=self.planned,
            acknowledged=self.observed.acknowledged(),
            records=read_journal(self.observed.directory / "r"),
            prompts=self.server.worked_on(),
            status=status,
            report=self.observed("report", "r", "--json", code=0).json,
            is_over=is_over,
            is_damaged=self.is_damaged,
        )


def check_rounds(observed, server_process, tmp_path, seed: int, rounds: int) -> None:
    for number in range(rounds):
        observed.directory = tmp_path / str(number)
        observed.directory.mkdir()
        observed.acks = observed.directory / ".acks"
        one = Round(observed, server_process(f"ledger-{seed}-{number}"), seed + number)
        found = one.run()
        assert not found, f"seed {seed + number}: {found}"


def test_the_ledger_explains_what_the_server_saw(observed, server_process, tmp_path):
    """A few rounds of the campaign."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    check_rounds(observed, server_process, tmp_path, seed, 6)


@pytest.mark.soak
def test_the_ledger_explains_what_the_server_saw_over_300_rounds(observed, server_process, tmp_path):
    """Acknowledged is recovered, none twice, none invented, and every call is explained."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    check_rounds(observed, server_process, tmp_path, seed, int(os.environ.get("HOLDFAST_ROUNDS", "300")))


# The detectors themselves.


@pytest.fixture(scope="module")
def sound() -> Evidence:
    """What is known of a run of two trials, of which one was tried twice."""
    keys = ("aa", "bb")
    ends = [{"type": "trial", "trial": key, "status": "valid"} for key in keys]
    answers = [{"type": "answer", "trial": key, "text": f"S{n}|0|0"} for n, key in enumerate(keys)]
    states = {"valid": 2, "limited": 0, "blocked": 0, "failed": 0, "unfinished": 0, "not_started": 0}
    counts = {**states, "planned": 2, "finished": 2, "remaining": 0, "remaining_by_reason": {}}
    repeated = {"retried": 1, "diverged": 0, "interrupted": 0, "takeover": 0}
    calls = {"made": 3, "in_flight_at_kill": 0, "repeated": repeated, "refused_model": 0}
    prompts = {"s0|0|0": 1, "s1|0|0": 2}
    status = {**counts, "calls": calls, "damage": []}
    return Evidence(2, [*keys], [*ends, *answers], prompts, status, {"coverage": counts}, is_over=True)


def test_sound_evidence_is_accepted(sound):
    """No detector finds anything."""
    assert sound.violations() == []


def without_an_end(evidence):
    del evidence.records[1]
    evidence.__post_init__()


FAULTS = {
    "lost": without_an_end,
    "states do not add up": lambda evidence: evidence.status.update(valid=3),
    "status and report differ": lambda evidence: evidence.report["coverage"].update(valid=1),
    "finished, 2 in the journal": lambda evidence: evidence.status.update(finished=3),
    "invented": lambda evidence: evidence.records[2].update(text="S9|0|0"),
    "the ledger names 1": lambda evidence: evidence.prompts.update({"s0|0|7": 1}),
    "the ledger names 0": lambda evidence: evidence.status["calls"]["repeated"].update(retried=0),
    "the ledger says 5": lambda evidence: evidence.status["calls"].update(made=5),
    "unfinished": lambda evidence: evidence.status.update(valid=1, unfinished=1),
}


@pytest.mark.parametrize("said", FAULTS)
def test_every_detector_finds_its_fault(sound, said):
    """A fault of each kind, put into sound evidence, is named."""
    evidence = copy.deepcopy(sound)
    FAULTS[said](evidence)
    assert any(said in found for found in evidence.violations()), evidence.violations()


def test_damage_excuses_no_call_that_nobody_saw(sound):
    """With damage fewer calls may be named than were made again, and never more."""
    evidence = copy.deepcopy(sound)
    evidence.is_damaged = True
    evidence.status["calls"]["repeated"]["interrupted"] = 4
    assert any("the ledger names 5" in found for found in evidence.violations())
