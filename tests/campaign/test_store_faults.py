"""Lost machines over failing stores: what was acknowledged is there, and every advice that is printed loses nothing.

100 machines are lost at random moments while they work: killed, and their disks with them. Meanwhile the store answers
404, 403 or 503, closes connections, is slow, flaps or takes no writes. Sessions that end by themselves say what to do:
the checker does it.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import signal
import time

import pytest

from evals import http_eval
from fault_proxy import FAULTS
from store_fixtures import place, proxy, store

__all__ = ["place", "proxy", "store"]

TRIALS, LOSSES, SEEDS = 400, 5, 10
_ADVISED = re.compile(
    r"holdfast (?:resume|recover|repair|status|verify|show) [^`\n]*?(?=[.`]?(?:\s*$|\s[A-Z(])|`)", re.MULTILINE
)
_MOVED = re.compile(r"\bmove (\S+) away")


class FaultyStore:
    """One run in a store that fails again and again, with machines that are lost."""

    def __init__(self, program, server, place, proxy, *, durability: str, seed: int) -> None:
        self._program, self._server, self._place, self._proxy = program, server, place, proxy
        self._chance, self._durability = random.Random(seed), durability
        proxy.chance = random.Random(seed)
        self.trials = 0
        self._grow()
        self._may_be_lost: set[str] = set()
        """Acknowledged under `local`, and lost with a machine before they were uploaded."""
        self.losses = self.followed = self.lost_trials = 0
        self.codes: list[int] = []

    def _grow(self) -> None:
        """There is work for more sessions: the eval has more samples than before."""
        self.trials += TRIALS
        runner = {"upload_interval": 0.1, "durability": self._durability, "lease": 1.0, "grace_period": 2}
        directory, url = self._program.directory, self._server.base_url
        eval_file = http_eval(directory, url, self.trials, concurrency_limit=4, runner=runner)
        self._command = ("run", eval_file, "--run-dir", self._place.url, "--or-resume")

    def lose_machines(self) -> None:
        while self.losses < LOSSES:
            self._proxy.mode = self._chance.choice(("pass",) * 6 + FAULTS[:1])
            process = self._program.start(*self._command)
            self._wait_for_work(process)
            self._trouble(process)
            if process.is_running and self._chance.random() < 0.8:
                self._kill(process, with_disk=self._chance.random() < 0.8)
            else:
                self._let_end(process)
            self._proxy.mode = "pass"
            self._check()
            if len(self._finished()) == self.trials:
                self._grow()

    def _wait_for_work(self, process) -> None:
        """Mostly the faults come once a session is at work, sometimes while it starts."""
        before = len(self._program.acknowledged())
        while process.is_running and self._proxy.mode == "pass" and len(self._program.acknowledged()) == before:
            time.sleep(0.02)
            if self._chance.random() < 0.002:
                return

    def _trouble(self, process) -> None:
        """Faults come and go while the session is at work."""
        end = time.monotonic() + self._chance.uniform(0.2, 4.0)
        while process.is_running and time.monotonic() < end:
            time.sleep(self._chance.uniform(0.05, 0.6))
            self._proxy.mode = self._chance.choice(("pass", *FAULTS))

    def _kill(self, process, *, with_disk: bool) -> None:
        process.send(signal.SIGKILL)
        process.wait()
        if with_disk:
            self._lose_machine()

    def _lose_machine(self) -> None:
        before = self._finished()
        self._place.lose_machine()
        self.losses += 1
        lost = before - self._finished()
        self.lost_trials += len(lost & set(self._program.acknowledged()))
        self._may_be_lost |= lost if self._durability == "local" else set()

    def _let_end(self, process) -> None:
        """It ends by Ctrl-C while the store fails, or by itself once the store answers; then its advice is followed."""
        if self._chance.random() < 0.7:
            self._proxy.mode = self._chance.choice(FAULTS)
            time.sleep(self._chance.uniform(0.0, 2.0))
            process.send(signal.SIGINT)
        else:
            self._proxy.mode = "pass"
        ended = process.wait()
        self.codes.append(ended.code)
        assert ended.code in {0, 1, 5, 130}, ended
        said = ended.out + ended.err
        assert "another session may be" not in said and "in use by" not in said and "holds other bytes" not in said, (
            said
        )
        assert not _MOVED.search(said), said
        self._proxy.mode = "pass"
        for command in dict.fromkeys(_ADVISED.findall(said)):
            self.followed += 1
            result = self._program(*shlex.split(command)[1:])
            assert result.code == 0, (command, result)
            self._check()

    def _finished(self) -> set[str]:
        """The trials with a result, by what the program reads here and in the store."""
        if not self._place.segments() and not list(self._place.spool.glob("*/journal/*")):
            return set()
        mode, self._proxy.mode = self._proxy.mode, "pass"
        lines = self._program("cat", self._place.url).out.splitlines()
        self._proxy.mode = mode
        records = map(json.loads, lines)
        return {one["trial"] for one in records if one["type"] == "trial" and one["status"] == "valid"}

    def _check(self) -> None:
        missing = set(self._program.acknowledged()) - self._finished() - self._may_be_lost
        assert not missing, missing

    def finish(self) -> None:
        """The store is well: the same command completes the run, and another machine finds all of it."""
        self._proxy.mode = "pass"
        assert f"{self.trials:,} of {self.trials:,}" in self._program(*self._command, code=0).out
        self._place.lose_machine()
        assert len(self._finished()) == self.trials
        assert self._program("verify", self._place.url).code == 0


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["local", "remote"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_recovery_30_to_33_lost_machines_over_failing_stores(observed, server, place, proxy, durability, seed):
    """Under `remote` nothing that was acknowledged is lost with a machine; under `local` only what was not uploaded."""
    print(f"seed {seed}")
    server.behave(latency=0.05)
    faulty = FaultyStore(observed, server, place, proxy, durability=durability, seed=seed)
    faulty.lose_machines()
    faulty.finish()
    print(f"{durability}: {faulty.losses} lost machines, with {faulty.lost_trials} acknowledged trials;")
    print(f"{faulty.followed} printed commands followed in {faulty.trials} trials;")
    print(f"exit codes of sessions that ended: {faulty.codes}")
    if durability == "remote":
        assert faulty.lost_trials == 0
