"""A million trials: the counts, the fold and the memory of the verbs that look at all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench.evals import carry_out, echo_eval, write_dataset

TRIALS = 1_000_000
VERIFY_MEGABYTES = 250
# Not getrusage: there a child begins with the peak of the process that started it.
PEAK = """
import re, sys
from holdfast.cli import main
try:
    main(sys.argv[1:])
finally:
    with open("/proc/self/status") as status:
        print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]) // 1024, file=sys.stderr)
"""


def asked(verb: str, root) -> tuple[dict, int]:
    """The JSON of a verb, and the most memory that its process had, in megabytes."""
    command = [sys.executable, "-c", PEAK, verb, str(root), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ}, timeout=3600)
    return json.loads(done.stdout), int(done.stderr.splitlines()[-1])


@pytest.mark.soak
def test_a_million_trials_are_counted_alike(tmp_path):
    """Three verbs agree; the index is smaller than the journal; memory does not follow the trials."""
    root = tmp_path / "run"
    carry_out(echo_eval(write_dataset(tmp_path / "questions.jsonl", TRIALS), 256), root)
    journal = sum(path.stat().st_size for path in (root / "journal").iterdir())
    assert (root / "index.sqlite").stat().st_size < journal
    for verb in ("status", "report", "verify"):
        told, megabytes = asked(verb, root)
        print(verb, megabytes, "MB")
        counts = told["coverage"] if verb == "report" else told
        assert counts["valid"] == counts["planned"] == TRIALS
        assert megabytes < VERIFY_MEGABYTES
