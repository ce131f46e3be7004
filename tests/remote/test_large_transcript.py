"""A transcript of 200 MB in one trial: recorded, recovered and shown without holding copies of it (recovery 25)."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from holdfast.cli.ui.large_records import with_line_breaks
from remote_runs import send_away

MB = 2**20
SENTENCE = 'He said: "all work\tand no play".\n' + "And so it went on, day after day. " * 30
COUNT = 200 * MB // len(SENTENCE)
KEY = "0" * 31 + "1"
# Not what getrusage says, which begins with the memory of the process that started this one.
PEAK = """
import re, sys
from pathlib import Path
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
"""
RECORD = f"""{PEAK}
from holdfast.run import SessionContents, create_run
from holdfast.run.core.records import Status, StepRecord, TrialRecord
session = create_run(Path(sys.argv[1]), SessionContents(name="long", config={{}}, planned=1))
text = {SENTENCE!r} * {COUNT}
before = peak()
session.sink.append(StepRecord(trial={KEY!r}, attempt=1, step="generate:x#1", name="generate", result={{"text": text}}))
end = TrialRecord(trial={KEY!r}, attempt=1, status=Status.VALID, task="t", model="m", scores={{"s": 1.0}})
session.sink.append(end)
session.close("completed")
sys.stderr.write(str(peak() - before))
"""
PROGRAM = f"""{PEAK}
from holdfast.cli import main
try:
    main()
finally:
    sys.stderr.write(f" {{peak()}}")
"""


def peak_of(source, *words, out=subprocess.DEVNULL):
    """The number that a process of its own prints last."""
    command = [sys.executable, "-c", source, *map(str, words)]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=True, timeout=120)
    return int(done.stderr.split()[-1])


def shown(path, *words):
    """Runs a verb with its output in a file; its peak."""
    with path.open("wb") as stream:
        return peak_of(PROGRAM, *words, out=stream)


def test_recovery_25_a_transcript_of_200_mb_is_recorded_recovered_and_shown(place, tmp_path):
    """Recording holds its encoded form and no other copy; recovering and showing it hold a few pieces."""
    extra = peak_of(RECORD, tmp_path / "made")
    size = send_away(place, tmp_path / "made")
    peaks = {"recover": peak_of(PROGRAM, "recover", place.url, "--to", tmp_path / "home")}
    peaks["show"] = shown(tmp_path / "list", "show", tmp_path / "home")
    peaks["show TRIAL"] = shown(tmp_path / "text", "show", tmp_path / "home", KEY)
    peaks["show TRIAL --json"] = shown(tmp_path / "json", "show", tmp_path / "home", KEY, "--json")
    print(f"recording {extra / MB:.0f} MB more, {[f'{name} {peak / MB:.0f} MB' for name, peak in peaks.items()]}")
    assert extra < 1.25 * size
    assert max(peaks.values()) < 100 * MB
    assert KEY in (tmp_path / "list").read_text()
    # A person gets the beginning, and is told where the rest is.
    text = (tmp_path / "text").read_bytes()
    assert 1 < text.count(rb"and no play\".%c" % 10) < COUNT and b"bytes more; --json has all of them" in text
    step, end = json.loads((tmp_path / "json").read_bytes())["records"]
    assert (step["result"]["text"], end["status"]) == (SENTENCE * COUNT, "valid")


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 1000])
def test_recovery_25_pieces_do_not_show(piece):
    """Wherever a record is cut into pieces, its line ends stand in their places and nothing else changes."""
    text = json.dumps({"a": "one\ntwo \\n three\\\n", "b": 'ünï\t\u202e"', "c": "\\\\"}, ensure_ascii=False)
    data = text.encode()
    pieces = iter([data[at : at + piece] for at in range(0, len(data), piece)])
    expected = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[0], text)
    assert "".join(with_line_breaks(pieces)) == expected
    assert expected.count("\n") == 2
