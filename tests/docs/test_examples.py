"""The examples that print something can be run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_trade_off_of_lanes_is_printed():
    """More lanes make more calls for the same answers; what it prints of them does not depend on timing alone."""
    program = ROOT / "examples" / "sampling" / "tradeoff.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split() for line in done.stdout.splitlines()[1:5]]
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    assert {row[1] for row in rows} == {"20"}
    calls = [int(row[3]) for row in rows]
    assert calls == sorted(calls) and calls[-1] > 2 * calls[0]


def test_the_demo_loses_nothing(tmp_path):
    """The first command of the README: killed half-way, resumed, counted; with the real model where it is installed."""
    program = ROOT / "examples" / "demo" / "demo.py"
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trials were finished when the process was killed; 48 of 48 are now." in done.stdout
