"""Inspect as a program, with a model of ours, in a directory of its own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("inspect")
MODEL = "slow/m"
_PATIENCE = 240


def install_model(place: Path) -> Path:
    """Makes the model known to every Inspect that has the returned directory on its path."""
    folder = place / "plugin"
    about = folder / "slow_model-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(HERE / "slow_model.py", folder)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-model\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[inspect_ai]\nslow_model = slow_model\n")
    return folder


def environment(place: Path, plugin: Path) -> dict[str, str]:
    """An environment in which nothing of this user's is read or written."""
    data = place / "data"
    data.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "XDG_DATA_HOME": str(data), "HOME": str(place), "PYTHONPATH": str(plugin)}


def start_eval(place: Path, env: dict[str, str], *options: str) -> subprocess.Popen:
    """An eval of the slow task that has begun to run samples."""
    # Inspect takes paths below the current directory only.
    shutil.copy(HERE / "slow_task.py", place)
    command = [PROGRAM, "eval", "slow_task.py", "--model", MODEL, "--log-dir", place / "logs"]
    command += ["--display", "none", "--max-samples", "4", *options]
    process = subprocess.Popen(
        list(map(str, command)), env=env, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + _PATIENCE
    while not list((place / "data").glob("inspect_ai/samplebuffer/*/*.db")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"Inspect did not start its eval in {place}.")
        time.sleep(0.05)
    return process


def the_log(place: Path) -> Path:
    """The log of the eval."""
    [log] = (place / "logs").glob("*.eval")
    return log


def retry(log: Path, place: Path, env: dict[str, str]) -> Path:
    """What `inspect eval-retry` makes of a log."""
    target = place / "retried"
    command = [PROGRAM, "eval-retry", log, "--log-dir", target, "--display", "none"]
    done = subprocess.run(
        list(map(str, command)), env=env, cwd=place, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    found = list(target.glob("*.eval"))
    if done.returncode or len(found) != 1:
        raise SystemExit(f"inspect eval-retry failed: {done.stdout}{done.stderr}")
    return found[0]


@contextmanager
def viewer(logs: Path, env: dict[str, str]):
    """The API behind `inspect view`: a function from a path to what it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [PROGRAM, "view", "start", "--log-dir", logs, "--host", "127.0.0.1", "--port", port]
    process = subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(path: str):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                get("/api/logs")
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("inspect view did not start.") from None
                time.sleep(0.2)
        yield get
    finally:
        process.terminate()
        process.wait()
