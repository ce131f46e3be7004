"""Losing the machine again and again: killed, and its disk with it, at random moments.

What is left is counted in the bucket, with nothing of the program's own: the objects are plain zstd and JSON lines.
"""

from __future__ import annotations

import json
import random
import signal
import time
from typing import Any, NamedTuple

from zstandard import ZstdDecompressor

from evals import http_eval
from observed import Observed
from remote_place import Place


class Seen(NamedTuple):
    """The store at a moment, as a watcher beside the program saw it."""

    acknowledged: int
    """How many trials had been acknowledged before the store was listed."""
    segments: int


class Losing:
    """One run in a store whose machine is lost so many times; checked from outside after every loss."""

    def __init__(self, program: Observed, server: Any, place: Place, *, trials: int, durability: str, seed: int):
        print(f"seed {seed}")
        self._program, self._server, self._place = program, server, place
        self._rng, self.trials, self._durability = random.Random(seed), trials, durability
        runner = {"upload_interval": 0.15, "durability": durability}
        eval_file = http_eval(program.directory, server.base_url, trials, concurrency_limit=4, runner=runner)
        self._command = ("run", eval_file, "--run-dir", place.url, "--or-resume")
        self.losses = self.lost_trials = self.most_lost = self.bounded = 0

    def lose_once(self) -> bool:
        """Starts a session and loses its machine; whether it was still at work."""
        before = len(self._program.acknowledged())
        process = self._program.start(*self._command)
        watched = self._watch(process, before + self._rng.randrange(1, 30), self._rng.uniform(0.0, 0.3))
        process.send(signal.SIGKILL)
        code = process.wait().code
        sealed = {path.name for path in self._place.spool.glob("*/journal/*[0-9].jsonl.zst")}
        self._place.lose_machine()
        if code != -signal.SIGKILL:
            return False
        self.losses += 1
        # The store takes whatever it is given, so only what was on its way just then is sealed and not up.
        assert len(sealed - {key.rpartition("/")[2] for key in self._place.segments()}) <= 1
        self._check(self._program.acknowledged()[before:], [seen for seen in watched if seen.acknowledged > before])
        return True

    def _watch(self, process: Any, wanted: int, seconds: float) -> list[Seen]:
        """Looks at the store until so many trials are acknowledged, and a while longer."""
        watched: list[Seen] = []
        end = float("inf")
        while process.is_running and time.monotonic() < end:
            acknowledged = len(self._program.acknowledged())
            if acknowledged >= wanted:
                end = min(end, time.monotonic() + seconds)
            watched.append(Seen(acknowledged, len(self._place.segments())))
            time.sleep(0.005)
        return watched

    def _check(self, acknowledged: list[str], watched: list[Seen]) -> None:
        """What is in the store is what is left: under `remote`, all that was ever acknowledged."""
        segments, kept = self._place.segments(), self._kept()
        assert {record["trial"] for record in self._records_of_program() if record["type"] == "trial"} == kept
        lost = [trial for trial in acknowledged if trial not in kept]
        if self._durability == "remote":
            assert set(self._program.acknowledged()) <= kept
        # Nothing is lost that was acknowledged before something that is kept.
        assert acknowledged[len(acknowledged) - len(lost) :] == lost
        self._check_against_uploads(len(self._program.acknowledged()) - len(lost), len(segments), watched)
        self.lost_trials += len(lost)
        self.most_lost = max(self.most_lost, len(lost))

    def _check_against_uploads(self, kept: int, segments: int, watched: list[Seen]) -> None:
        """A segment that came up two after a moment was sealed after that moment, for they go up one by one: so
        whatever had been acknowledged by then has to be up.
        """
        covered = [seen.acknowledged for seen in watched if seen.segments + 2 <= segments]
        if covered:
            self.bounded += 1
            assert kept >= max(covered)

    def _kept(self) -> set[str]:
        """The finished trials in the bucket."""
        found = set()
        for key in self._place.segments():
            with ZstdDecompressor().stream_reader(self._place.read(key), read_across_frames=True) as stream:
                records = [json.loads(line) for line in stream.read().splitlines()]
            found |= {record["trial"] for record in records if record["type"] == "trial"}
        return found

    def _records_of_program(self) -> list[dict[str, Any]]:
        """What the program itself recovers, on a machine that has nothing of the run."""
        if not self._place.segments():
            return []
        home = f"home-{self.losses}"
        self._program("recover", self._place.url, "--to", home, code=0)
        # The last segment of a machine that is lost is often vouched for and not there, which `cat` says.
        return [json.loads(line) for line in self._program("cat", home).out.splitlines()]

    def finish(self) -> None:
        """Recovers once more, completes the grid both there and by the URL, and counts."""
        if self._place.segments():
            self._program("recover", self._place.url, "--to", "home", code=0)
            self._program("resume", "home", code=0)
            assert self._program("verify", "home").code == 0
        self._program(*self._command, code=0)
        assert len(self._kept()) == self.trials
        ended = self._program("verify", self._place.url, code=0)
        assert ": OK" in ended.out
