"""Neighbouring versions of real files: the gate's verdict beside that of a traced call and equal syntax trees."""

from __future__ import annotations

import ast
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from gate_campaign import Bench
from real_versions import MISSING, VersionPair, compare, compare_all, fetch

OLD = '''\
LIMIT = 3


def used(text):
    """Cuts."""
    short = text[:LIMIT]
    return short


def rare(text):
    return used(text) if text else other()


def other():
    return 1
'''
LOCAL = '(text):\n    """Cuts."""\n    short'
HAND_MADE = {
    "same": ("both accept", "# a comment\n", ""),
    "docstring, local and annotation": ("both accept", LOCAL, "(text: str):\n    brief"),
    "unused": ("both accept", "return 1", "return 2"),
    "code": ("both refuse", "text[:LIMIT]", "text[1:LIMIT]"),
    "constant": ("both refuse", "LIMIT = 3", "LIMIT = 2"),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_the_expected_verdict_of_a_hand_made_pair(name, tmp_path):
    """The traced call tells what was reached from what was not, and the gate agrees."""
    outcome, old, new = HAND_MADE[name]
    text = OLD.replace(old, new).replace("return short", f"return {'brief' if 'brief' in new else 'short'}")
    for version, content in (("1", OLD), ("2", text)):
        package = tmp_path / version / "inspect_evals"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "cut.py").write_text(content)
        (package.parent / "missing_packages.py").write_text(MISSING.read_text())
        ast.parse(content)
    bench = Bench()
    pair = VersionPair("1", "2", "inspect_evals/cut.py", "used", '["abcdef"]')
    found = compare(pair, tmp_path, MISSING.read_text(), tmp_path, bench)
    bench.zygote.end()
    assert found.outcome == outcome, found


def test_a_branch_that_was_not_executed_is_told_apart(tmp_path):
    """`rare` mentions `other`, which this call does not reach: a gate that refuses is stricter, and explicably so."""
    place = tmp_path / "inspect_evals"
    place.mkdir()
    (place / "__init__.py").touch()
    (place / "cut.py").write_text(OLD)
    (tmp_path / "missing_packages.py").write_text(MISSING.read_text())
    tracer = Path(__file__).with_name("traced_call.py")
    words = [sys.executable, str(tracer), str(tmp_path), "inspect_evals.cut", "rare", '["abc"]']
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.removeprefix("TRACED ")
    found = json.loads(told)
    assert "code other" not in found["items"] and "code other" in found["mentioned"]
    assert {"code rare", "code used", "name LIMIT"} <= set(found["items"])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_pairs_of_neighbouring_versions():
    """Resume 23, 60: no change of code that a call reaches is accepted; refusals beyond that are explicable."""
    directory = Path(os.environ.get("HOLDFAST_TEST_VERSIONS", tempfile.gettempdir())) / "inspect-evals-versions"
    problem = fetch(directory)
    if problem:
        pytest.skip(problem)
    done = compare_all(directory, 100)
    counts = collections.Counter(one.outcome for one in done)
    files = {(one.pair.old, one.pair.file) for one in done if one.outcome != "skipped"}
    print(f"{len(files)} pairs of files: {dict(counts)}")
    told = "\n".join(
        f"{one.outcome}: {one.pair}\n    {one.detail}" for one in done if one.outcome in {"hole", "over-strict"}
    )
    assert len(files) >= 100
    assert counts["hole"] == 0, told
    assert counts["both refuse"] >= 20 and counts["both accept"] >= 20
    assert counts["over-strict"] <= 3, told
