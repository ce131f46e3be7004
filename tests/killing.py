"""Killing a run again and again, and holding the server's own count against what the run says."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from counting_server import CountingServer
from evals import http_eval
from observed import Observed


class Campaign:
    """One run over HTTP, killed at random moments; every claim is checked after every kill."""

    def __init__(
        self, program: Observed, server: CountingServer, directory: Path, *, trials: int, limit: int, seed: int
    ) -> None:
        print(f"seed {seed}")
        self._program, self._server, self._rng = program, server, random.Random(seed)
        self.trials, self.limit = trials, limit
        eval_file = http_eval(directory, server.base_url, trials, concurrency_limit=limit)
        self._command = ("run", eval_file, "--run-dir", "r", "--or-resume")
        self.kills = self.in_flight = 0
        self.ran_out_of_time = False

    def run(self, *, kills: int, most_seconds: float, **behaviour: Any) -> None:
        """Kills so many times, or for so long, then finishes the run and checks everything."""
        self._server.behave(**behaviour)
        end = time.monotonic() + most_seconds
        while self.kills < kills and not self.ran_out_of_time and self._kill_once():
            self.ran_out_of_time = time.monotonic() > end
        print(f"{self.kills} kills, {self.in_flight} calls in flight at them, {self._repeated()} repeated")
        self._finish()

    def _kill_once(self) -> bool:
        """Starts a session and kills it; whether it was still at work."""
        before = self._server.worked_on()
        process = self._program.start(*self._command)
        if self._rng.random() < 0.8:
            self._wait_for_a_call(process, self._server.state()["received"])
        time.sleep(self._rng.uniform(0.0, 0.08))
        process.send(signal.SIGKILL)
        if process.wait().code != -signal.SIGKILL:
            return False
        self.kills += 1
        self._check_after_kill(before)
        return True

    def _wait_for_a_call(self, process: Any, before: int) -> None:
        while process.is_running and self._server.state()["received"] == before:
            time.sleep(0.002)

    def _check_after_kill(self, before: dict[str, int]) -> None:
        self._server.wait_until_idle()
        received = {prompt for prompt, count in self._server.worked_on().items() if count > before.get(prompt, 0)}
        records = self._records()
        kept = Counter(record["trial"] for record in records if record["type"] == "trial")
        assert set(self._program.acknowledged()) <= set(kept)
        assert set(kept.values()) <= {1}
        answered = {
            record["request"]["messages"][-1]["content"]
            for record in records
            if record["type"] == "step" and "error" not in record
        }
        in_flight = len(received - answered)
        assert in_flight <= self.limit
        assert in_flight <= self._bound()
        self.in_flight += in_flight
        assert self._repeated() <= self.in_flight

    def _records(self) -> list[dict[str, Any]]:
        if not (self._program.directory / "r").exists():
            return []
        return self._program.records("r")

    def _bound(self) -> int:
        """How many calls may have been in flight when the last session was killed, as `status` says it."""
        if not (self._program.directory / "r").exists():
            return 0
        return json.loads(self._program("status", "r", "--json").out)["sessions"][-1]["in_flight_at_kill"]

    def _repeated(self) -> int:
        """How many requests the server worked on that it had worked on before."""
        return sum(count - 1 for count in self._server.worked_on().values())

    def _finish(self) -> None:
        ended = self._program(*self._command, code=0)
        assert f"{self.trials} of {self.trials}" in ended.out
        acks = self._program.acknowledged()
        kept = [record["trial"] for record in self._records() if record["type"] == "trial"]
        assert len(kept) == len(set(kept)) == self.trials
        assert len(acks) == len(set(acks)) and set(acks) <= set(kept)
        assert len(self._server.worked_on()) == self.trials
        assert self._repeated() <= self.in_flight
        status = json.loads(self._program("status", "r", "--json").out)
        assert (status["state"], status["finished"]) == ("complete", self.trials)
        assert self._repeated() <= status["calls"]["in_flight_at_kill"] <= self.kills * self.limit
        assert status["calls"]["made"] >= self.trials
