"""Evals of Inspect's, killed with SIGKILL at random: what each recovery makes of what is left."""

import json
import os
import random
import shutil
import time
from pathlib import Path

from inspect_ai.log import read_eval_log, recover_eval_log
from inspect_ai.log._recover import RecoveryNotAvailable
from rig import environment, retry, start_eval, the_log

from holdfast.interop.inspect.archive.zip_reader import ArchiveError
from holdfast.interop.inspect.eval_archive import EvalArchive, key_of
from holdfast.interop.inspect.recovering.recovery import COMPLETE, HOLLOW, recover_log

SAMPLES = 200
PATIENCE = 60
VARIANTS = [
    ("local", "kept"),
    ("shared", "kept"),
    ("shared", "deleted"),
    ("local", "deleted"),
    ("shared", "deleted, one segment truncated"),
]
SHARED = ["--log-shared", "2"]
HEADER = f"{'eval':>4}  {'logging':<7} {'database':<31} {'in log':>6} {'Inspect':>8} {'ours':>5} {'hollow':>6}  faults"


def run_crashes(place: Path, plugin: Path, seed: int, kills: int = 10):
    """The faults that were found, each as a sentence."""
    draw = random.Random(seed)
    faults, retried = [], set()
    print(HEADER)
    for number in range(kills):
        logging, database = VARIANTS[number % len(VARIANTS)]
        found = _Crash(place / f"crash-{number}", plugin, logging, database, draw)
        wrong = found.faults()
        # One log of each kind is continued by Inspect.
        if (logging, database) not in retried and number < 3:
            retried.add((logging, database))
            wrong += found.retry_faults()
        faults += [f"eval {number + 1}: {fault}" for fault in wrong]
        print(f"{number + 1:>4}  {logging:<7} {database:<31} {found.row()}  {len(wrong)}", flush=True)
    return faults


class _Crash:
    """One eval that was killed, and the two recoveries."""

    def __init__(self, place: Path, plugin: Path, logging: str, database: str, draw: random.Random):
        self.place, self.env = place, environment(place, plugin)
        process = start_eval(place, self.env, *(SHARED if logging == "shared" else []))
        # With segments there is something to truncate only after the first few.
        time.sleep(draw.uniform(5, 9) if logging == "shared" else draw.uniform(1, 7))
        if "truncated" in database:
            self._wait_for_segments()
        process.kill()
        process.wait()
        self.log = the_log(place)
        self.original = self.log.read_bytes()
        if database != "kept":
            shutil.rmtree(place / "data/inspect_ai/samplebuffer")
        self.is_truncated = "truncated" in database and self._truncate(draw)
        self.ours = self._recover_ours()
        self.theirs = self._recover_theirs()

    def _wait_for_segments(self):
        """Waits until samples that are complete are in segments and not in the log."""
        deadline = time.monotonic() + PATIENCE
        while not self._needed_segments() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _needed_segments(self):
        """The segments without which a sample would be lost that the log does not have."""
        log = the_log(self.place)
        manifest = next(log.parent.glob(".buffer/*/manifest.json"), None)
        try:
            listed = json.loads(manifest.read_bytes())["samples"] if manifest else []
            with EvalArchive(log) as archive:
                flushed = set(archive.sample_members())
        except (OSError, ValueError, ArchiveError):
            # Inspect is writing it.
            return []
        return sorted(
            manifest.with_name(f"segment.{segment['id']}.zip")
            for sample in listed
            for segment in sample["segments"]
            if sample["summary"].get("completed_at") and key_of(sample["summary"]).member not in flushed
        )

    def _truncate(self, draw):
        segments = self._needed_segments()
        if not segments:
            return False
        chosen = draw.choice(segments)
        content = chosen.read_bytes()
        chosen.write_bytes(content[: draw.randrange(len(content))])
        return True

    def _recover_ours(self):
        os.environ["XDG_DATA_HOME"] = self.env["XDG_DATA_HOME"]
        self.output = self.place / "ours.eval"
        self.told = recover_log(self.log, self.output)
        return _samples(self.output)

    def _recover_theirs(self):
        """What Inspect recovers; without a buffer it recovers nothing, and reads what is in the log."""
        output = self.place / "theirs" / self.log.name
        output.parent.mkdir()
        try:
            recover_eval_log(str(self.log), output=str(output), cleanup=False)
        except RecoveryNotAvailable:
            return _samples(self.log)
        return _samples(output)

    def row(self):
        done = [sum(sample.error is None for sample in side.values()) for side in (self.theirs, self.ours)]
        in_log = sum(sample.source == "log" for sample in self.told.samples)
        hollow = sum(sample.state == HOLLOW for sample in self.told.samples)
        return f"{in_log:>6} {done[0]:>8} {done[1]:>5} {hollow:>6}"

    def faults(self):
        found = []
        hollow = {(sample.id, sample.epoch) for sample in self.told.samples if sample.state == HOLLOW}
        for key, theirs in self.theirs.items():
            ours = self.ours.get(key)
            if ours is None:
                found.append(f"{key} is missing")
            elif (str(key[0]), key[1]) in hollow:
                found += [] if ours.error is not None else [f"{key} is hollow, and has no error"]
                found += [] if self.is_truncated else [f"{key} is called hollow, and nothing was truncated"]
            elif theirs.error is None:
                found += [f"{key}: {part} differ" for part in _different(ours, theirs)]
        complete = sum(sample.state == COMPLETE for sample in self.told.samples)
        if complete != sum(sample.error is None for sample in self.ours.values()):
            found.append("the counts of complete samples differ")
        successes = {(str(key[0]), key[1]) for key, sample in self.theirs.items() if sample.error is None}
        if self.is_truncated and not hollow & successes:
            found.append("a segment was truncated, and no sample is hollow that Inspect calls a success")
        if self.log.read_bytes() != self.original:
            found.append("the original was changed")
        return found

    def retry_faults(self):
        """Inspect continues from our log: what is complete in it is kept, the rest is run."""
        done = _samples(retry(self.output, self.place, self.env))
        found = [] if len(done) == SAMPLES else [f"after the retry there are {len(done)} samples"]
        found += [f"{key} failed after the retry" for key, sample in done.items() if sample.error is not None]
        for key, sample in self.ours.items():
            is_kept = done[key].uuid == sample.uuid
            if is_kept != (sample.error is None):
                found.append(f"{key} was {'kept' if is_kept else 'run again'} by the retry")
        return found


def _samples(log: Path):
    return {(sample.id, sample.epoch): sample for sample in read_eval_log(str(log)).samples or []}


def _different(ours, theirs):
    parts = ("input", "target", "messages", "scores", "metadata", "model_usage", "uuid", "started_at", "completed_at")
    found = [part for part in parts if getattr(ours, part) != getattr(theirs, part)]
    if ours.output.completion != theirs.output.completion:
        found.append("output")
    ours_events = [event for event in ours.events if getattr(event, "source", None) != "holdfast"]
    if len(ours_events) != len(theirs.events):
        found.append("events")
    return found
