"""A real model evaluated on this machine, killed with -9 half-way, and resumed with nothing lost.

    python examples/demo/demo.py [DIRECTORY]

Every line that begins with $ is a command you could type yourself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
HALF_WAY_SECONDS = 600


def holdfast(*words: str, quiet: bool = False) -> str:
    """Runs one command to its end; what it printed."""
    if not quiet:
        print(f"\n$ holdfast {' '.join(words)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        check=False,
    )
    return done.stdout or ""


def status(run: str) -> dict:
    """What `holdfast status --json` says; empty while there is no run yet."""
    text = holdfast("status", run, "--json", quiet=True)
    told = json.loads(text) if text else {}
    return told if "planned" in told else {}


def run_and_kill(eval_file: Path, run: str) -> None:
    """Starts a run and ends its process with SIGKILL when half of it is done."""
    print(f"\n$ holdfast run {eval_file} --run-dir {run}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", "holdfast", "run", str(eval_file), "--run-dir", run])
    deadline = time.monotonic() + HALF_WAY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        told = status(run)
        if told and told["finished"] * 2 >= told["planned"]:
            break
        time.sleep(0.2)
    if process.poll() is None:
        print(f"\n$ kill -9 {process.pid}", flush=True)
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def choose_eval() -> Path:
    """The eval with the real model where it is ready, else the scripted one."""
    providers = json.loads(holdfast("list", "models", "--json", quiet=True))["providers"]
    local = next(provider for provider in providers if provider["name"] == "local")
    if local["ready"]:
        return HERE / "eval.yaml"
    print(f"The real model is not ready here ({local['needs']}); the scripted one is used instead.")
    return HERE / "scripted.yaml"


def main() -> int:
    """Runs the demo; 0 if nothing was lost and nothing was paid for twice but what was in flight."""
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdfast-demo-")
    run = str(Path(directory) / "run")
    try:
        return demonstrate(run)
    finally:
        if len(sys.argv) == 1:
            shutil.rmtree(directory, ignore_errors=True)


def demonstrate(run: str) -> int:
    """Run, kill, resume, report, and count the calls."""
    run_and_kill(choose_eval(), run)
    before = status(run)
    holdfast("status", run)
    holdfast("resume", run)
    holdfast("report", run)
    holdfast("verify", run)
    after = status(run)
    repeated = after["calls"]["made"] - after["planned"]
    print(
        f"\n{before['finished']} trials were finished when the process was killed; {after['finished']} of"
        f" {after['planned']} are now. {after['calls']['made']} calls were made for {after['planned']} replies:"
        f" {repeated} repeated, up to {after['calls']['in_flight_at_kill']} in flight at the kill."
    )
    kept = after["finished"] == after["planned"] and before["finished"] > 0
    return 0 if kept and repeated <= after["calls"]["in_flight_at_kill"] else 1


if __name__ == "__main__":
    sys.exit(main())
