"""The example experiment under random signals, held against a run of it that nothing interrupts.

The agents log outside of their workspaces when they start and end, so what they cost is known from outside the
product; requests of judges, answers and scores are read from the journal.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from evidence import read_journal

from agents.agent_evals import processes_below
from program import Program, Started, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "experiment"
TRIALS = 12
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL)
ENDS = {0, 130, 143, -signal.SIGKILL}
SLOW = """
import os, time
def note(what):
    with open({log!r}, "a") as file:
        file.write(json.dumps([what, Path.cwd().parent.name]) + "\\n")
note("start")
time.sleep({seconds})
"""


class SignalledExperiment:
    """The experiment in a directory, and what is known of its agents."""

    def __init__(self, holdfast: Program, directory: Path, seed: int) -> None:
        print(f"seed {seed}")
        self._holdfast, self._random = holdfast, random.Random(seed)
        self.place, self._log, self._temporary = directory / "experiment", directory / "log", directory / "tmp"
        self._temporary.mkdir()
        shutil.copytree(EXAMPLE, self.place)
        subprocess.run(["sh", "make_repository.sh"], cwd=self.place, check=True, capture_output=True)
        self._slow_down()
        self.sent: Counter[str] = Counter()
        self.cut_off = self.unrecorded = self.again = self.runs = 0
        self.whole: dict[str, Any] = {}

    def _slow_down(self) -> None:
        """Every stage takes long enough to be hit."""
        agent = self.place / "agent.py"
        head, _, rest = agent.read_text().partition("FIXES = ")
        slow = SLOW.format(log=str(self._log), seconds=0.5)
        agent.write_text(f'{head}{slow}FIXES = {rest}note("end")\n')
        path = self.place / "eval.yaml"
        eval_ = yaml.safe_load(path.read_text())
        for judge in ("strict", "careful", "kind"):
            eval_["models"][judge]["args"]["latency"] = 0.2
        workspace = eval_["tasks"]["fix"]["workspace"]
        workspace["setup"] = "sleep 0.2"
        workspace["checks"] = ["sleep 0.2 && python3 -B -m unittest -q test_shop"]
        path.write_text(yaml.safe_dump({**eval_, "grace_period": 0.3, "concurrency_limits": {"solve": 3}}))

    # A run that nothing interrupts.

    def run_whole(self) -> None:
        self._holdfast("run", self.place / "eval.yaml", "--run-dir", "whole", code=0)
        assert Counter(self._agents("start").values()) == {1: TRIALS}
        self.whole = self._seen("whole")
        assert len(self.whole["judges"]) == TRIALS * 3

    def _agents(self, what: str) -> Counter[str]:
        """How often the agent of each trial has logged this."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []
        return Counter(key for kind, key in lines if kind == what)

    def _seen(self, run: str) -> dict[str, Any]:
        """What must not depend on interruptions."""
        records = read_journal(self._holdfast.directory / run)
        report = self._holdfast.json("report", run, code=0)
        for name in ("timing", "lineage"):
            report.pop(name)
        finished = {(one["trial"], one["scorer"]): one["value"] for one in records if one["type"] == "score"}
        answers = {one["trial"]: (one["text"], one["value"]["diff"]) for one in records if one["type"] == "answer"}
        return {"report": report, "judges": _judges(records), "scores": finished, "answers": answers}

    # Runs that are interrupted.

    def signal_runs(self, signals: int) -> None:
        """Sends so many signals, to as many runs as that takes, and checks each run when it is complete."""
        while self.sent.total() < signals:
            self._interrupted_run(signals)
        print(f"{self.sent.total()} signals over {self.runs} runs: {dict(self.sent)}")
        print(f"{self.cut_off} agents were cut off, {self.unrecorded} had just ended; {self.again} were started again")

    def _interrupted_run(self, signals: int) -> None:
        self.runs += 1
        self._log.unlink(missing_ok=True)
        name, done, cut_off, unrecorded = f"run-{self.runs}", set[str](), 0, 0
        code: int | None = None
        while code != 0:
            before, ended = self._agents("start"), self._agents("end")
            code = self._session(name, is_left_alone=self.sent.total() >= signals)
            started = self._agents("start") - before
            assert not done & started.keys(), "an agent that had finished was started again"
            records = read_journal(self._holdfast.directory / name)
            done = _agents_on_record(records)
            ended = self._agents("end") - ended
            cut_off += sum(count - ended[key] for key, count in started.items() if key not in done)
            unrecorded += sum(count for key, count in ended.items() if key not in done)
            self._check_scored(records, done)
        assert len(done) == TRIALS
        # An agent that ended by itself while nobody could record it is used, unless it was ended on its last lines.
        again = self._agents("start").total() - TRIALS
        assert cut_off <= again <= cut_off + unrecorded
        self.unrecorded += unrecorded
        self.again += again
        self.cut_off += cut_off
        self._check_complete(name)

    def _session(self, name: str, *, is_left_alone: bool) -> int:
        """Starts a session and interrupts it; the code with which it ended."""
        eval_ = self.place / "eval.yaml"
        started = self._holdfast.start("run", eval_, "--run-dir", name, "--or-resume", TMPDIR=str(self._temporary))
        if not is_left_alone:
            self._interrupt(started, self._holdfast.directory / name)
        code = started.wait().code
        assert code in ENDS, (code, started.told())
        if code == -signal.SIGKILL:
            until(lambda: not self._processes(), "nothing is left of a killed session")
        assert self._processes() == []
        return code

    def _interrupt(self, started: Started, run: Path) -> None:
        """Sends a signal at a random moment, and sometimes one more: while it starts, or in any stage."""
        is_early = self._random.random() < 0.15
        if not is_early:
            before = _size(run / "journal")
            while started.is_running and _size(run / "journal") == before:
                time.sleep(0.01)
        time.sleep(self._random.uniform(0.0, 1.6))
        for _ in range(self._random.choice([1, 1, 1, 2])):
            if not started.is_running:
                return
            # Before our code is loaded, other signals end the interpreter as they end any program.
            number = signal.SIGKILL if is_early else self._random.choice(SIGNALS)
            to_group = self._random.random() < 0.5
            (started.send_group if to_group else started.send)(number)
            self.sent[f"{number.name} to the {'group' if to_group else 'process'}"] += 1
            time.sleep(self._random.uniform(0.0, 0.3))

    def _processes(self) -> list[int]:
        return processes_below(self._holdfast.directory)

    # What has to hold.

    def _check_scored(self, records: list[dict[str, Any]], done: set[str]) -> None:
        """No work is scored that was cut off."""
        ended = self._agents("end")
        for one in records:
            if one["type"] in {"score", "answer"}:
                assert one["trial"] in done and ended[one["trial"]], "an agent that was cut off was scored"

    def _check_complete(self, name: str) -> None:
        found, run = self._seen(name), self._holdfast.directory / name
        assert found == self.whole
        assert self._holdfast.json("status", name)["state"] == "complete"
        assert [path.name for path in (run / "workspaces").iterdir()] == [".repositories"]
        assert list(self._temporary.iterdir()) == []
        git = subprocess.run(["git", "worktree", "list"], cwd=self.place / "shop", capture_output=True, check=True)
        assert len(git.stdout.splitlines()) == 1
        assert not [path for path in self._holdfast.directory.iterdir() if path.name.startswith(f".{name}")]
        self._holdfast("verify", name, code=0)
        shutil.rmtree(run)


def _agents_on_record(records: list[dict[str, Any]]) -> set[str]:
    """The trials whose agents have ended, and whose replies are durable."""
    steps = [one for one in records if one["type"] == "step" and "error" not in one]
    return {one["trial"] for one in steps if "request" in one and one.get("role") != "judge"}


def _judges(records: list[dict[str, Any]]) -> dict[tuple[str, str], bytes]:
    """By trial and step, what a judge was asked."""
    steps = [one for one in records if one["type"] == "step" and one.get("role") == "judge"]
    return {(one["trial"], one["step"]): json.dumps(one["request"]).encode() for one in steps}


def _size(place: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in os.scandir(place))
    except OSError:
        return -1
