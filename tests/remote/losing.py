"""Losing the machine again and again: killed, and its disk with it, at random moments."""

from __future__ import annotations

import random
import signal
import time
from typing import Any

from evals import http_eval
from observed import Observed
from remote_place import Place


class Losing:
    """One run in a store whose machine is lost so many times; checked from outside after every loss."""

    def __init__(self, program: Observed, server: Any, place: Place, *, trials: int, durability: str, seed: int):
        print(f"seed {seed}")
        self._program, self._server, self._place = program, server, place
        self._rng, self.trials, self._durability = random.Random(seed), trials, durability
        runner = {"upload_interval": 0.15, "durability": durability}
        eval_file = http_eval(program.directory, server.base_url, trials, concurrency_limit=4, runner=runner)
        self._command = ("run", eval_file, "--run-dir", place.url, "--or-resume")
        self.losses = self.lost_trials = 0

    def lose_once(self) -> bool:
        """Starts a session and loses its machine; whether it was still at work."""
        acknowledged = len(self._program.acknowledged())
        process = self._program.start(*self._command)
        wanted = acknowledged + self._rng.randrange(6)
        while process.is_running and len(self._program.acknowledged()) < wanted:
            time.sleep(0.005)
        time.sleep(self._rng.uniform(0.0, 0.3))
        process.send(signal.SIGKILL)
        code = process.wait().code
        up = set(self._place.segments())
        self._place.lose_machine()
        if code != -signal.SIGKILL:
            return False
        self.losses += 1
        self._check(up)
        return True

    def _check(self, up: set[str]) -> None:
        """What is in the store is what is left: under `remote`, all that was ever acknowledged."""
        known = self._kept() if up else set()
        missing = set(self._program.acknowledged()) - known
        if self._durability == "remote":
            assert missing == set()
        self.lost_trials += len(missing)
        assert up <= set(self._place.segments())

    def _kept(self) -> set[str]:
        ended = self._program("cat", self._place.url)
        import json  # noqa: PLC0415 - only here

        records = [json.loads(line) for line in ended.out.splitlines()]
        return {record["trial"] for record in records if record["type"] == "trial"}

    def finish(self) -> None:
        """Recovers once more, completes the grid, and counts."""
        if self._place.segments() and self._rng.random() < 0.5:
            self._program("recover", self._place.url, "--to", "home", code=0)
            self._program("resume", "home", code=0)
            assert self._program("verify", "home").code == 0
        self._program(*self._command, code=0)
        kept = self._kept()
        assert len(kept) == self.trials
        ended = self._program("verify", self._place.url, code=0)
        assert "sound" in ended.out
