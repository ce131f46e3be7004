"""Runs the suite on Mellea's strategies and on ours, and prints where they differ and why.

Fails on a case of ours that does not show what it has to, on a difference that is not listed, and on a listed one that
is gone.
"""

import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from rig import CASES, Listed  # noqa: E402 - it lies beside this file

SIDES = {"mellea": ("mellea", []), "ours": ("holdfast", []), "ours -O": ("holdfast", ["-O"])}


def run_side(side: str, flags: list[str]) -> dict[str, Any]:
    """What each case shows on that side, from a process of its own."""
    settings = {"SAMPLING_SIDE": side, "PYTHONPATH": str(HERE), "MELLEA_LOGS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, *flags, str(HERE / "run_side.py")],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"The suite could not run on {side}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def fault_of(case: Listed, shown: dict[str, Any], listed: dict[str, Any]) -> str:
    """What is wrong with a case, or nothing."""
    expected = json.loads(json.dumps(case.expected))
    if shown["ours"] != expected:
        return f"ours has to show {json.dumps(expected)}"
    if shown["ours -O"] != shown["ours"]:
        return f"under python -O ours shows {json.dumps(shown['ours -O'])}"
    if case.name not in listed:
        return "" if shown["mellea"] == expected else "a difference that is not listed"
    if shown["mellea"] == expected:
        return "listed as a difference, and there is none"
    return "" if shown["mellea"] == listed[case.name]["mellea"] else "Mellea shows something else than is listed"


def row_of(case: Listed, shown: dict[str, Any], listed: dict[str, Any]) -> tuple[str, str, str, str]:
    """A line of the table: equal sides are not spelled out."""
    if shown["mellea"] == shown["ours"]:
        return case.name, "same", "same", ""
    reason = listed.get(case.name, {}).get("reason", "")
    return case.name, json.dumps(shown["mellea"]), json.dumps(shown["ours"]), reason


def main() -> int:
    """Prints the table; 1 if a case has a fault."""
    for path in sorted((HERE / "cases").glob("[!_]*.py")):
        importlib.import_module(f"cases.{path.stem}")
    listed = tomllib.loads((HERE / "differences.toml").read_text())
    sides = {name: run_side(side, flags) for name, (side, flags) in SIDES.items()}
    faults = [f"differences.toml lists {name}, which is no case" for name in listed.keys() - {c.name for c in CASES}]
    print("| case | mellea | ours | why |\n|---|---|---|---|")
    for case in CASES:
        shown = {name: side[case.name] for name, side in sides.items()}
        print("| " + " | ".join(row_of(case, shown, listed)) + " |")
        fault = fault_of(case, shown, listed)
        faults += [f"{case.name}: {fault}; {case.promise}"] if fault else []
    print(f"\n{len(CASES)} cases, {len(listed)} listed differences, {len(faults)} faults.")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
