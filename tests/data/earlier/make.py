"""Makes the runs beside this file, each killed at another point, and says what is expected of them.

They are made with commit 642771f: the last one whose runs have the keys `deadline` and `grace`, and digests of code
that name the modules of Holdfast as they were and the place of a task's file. Run it with the Python that has the
Holdfast of that commit; it refuses any other:

    .venv/bin/python tests/data/earlier/make.py [NAME ...]

Each directory has an eval as a person wrote it; `run`, its run, without what is derived (the index) and without the
lease, which names a machine; and `expected.json`. That holds what the same program says of the run before and after
it is resumed, from a copy in another directory. All but `moved` are run from the directory that they are in, whichever
it is: they know it as /proc/self/cwd. So a copy of them is gone on with by a plain `holdfast resume run`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SEED = 642771
PROGRAM = "import sys; sys.argv[0] = 'holdfast'; from holdfast.cli import main; main()"
DERIVED = ("lease", "index.sqlite*", ".shelf", "__pycache__")
NOT_WRITTEN = ("run", "expected.json", "__pycache__")
COUNTED = ("state", "planned", "finished", "failed", "owed", "calls", "usage", "cost", "why", "notes")
CHECKED = ("ok", "frames", "records", "by_type", "trials", "planned", "sessions", "inputs", "torn_bytes", "damage")
REPORTED = ("name", "complete", "tasks", "coverage", "usage", "cost")
EVAL = "/proc/self/cwd/eval.yaml"


class Place:
    """A directory with an eval, where the program is called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ends: list[str] = []

    def start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        environment |= {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *(words if words[0].endswith(".py") else ("-c", PROGRAM, *words))]
        return subprocess.Popen(
            command, cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __call__(self, *words: str, code: int = 0, **environment: str) -> bytes:
        process = self.start(*words, **environment)
        out, err = process.communicate()
        assert process.returncode == code, (words, process.returncode, err.decode())
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    # How a session ends.

    def crash(self, point: str, *words: str) -> None:
        """A session that is killed at one of the program's own crash points."""
        self(*words, code=-signal.SIGKILL, HOLDFAST_CRASH_AT=point)
        self.ends.append(point)

    def signalled(self, number: signal.Signals, seconds: float, *words: str, code: int) -> None:
        """A session that gets a signal so long after its run has its name."""
        process = self.start(*words)
        while not (self.directory / "run").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(number)
        process.communicate()
        assert process.returncode == code, process.returncode
        self.ends.append(number.name)

    def complete(self, *words: str) -> None:
        self(*words)
        self.ends.append("completed")

    def edited(self, old: str, new: str, name: str = "tasks.py") -> None:
        path = self.directory / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


RUN = ("run", EVAL, "--run-dir", "run")
RESUME = ("resume", "run")


def crashing(point: str, *words: str) -> Callable[[Place], None]:
    return lambda place: place.crash(point, *(words or RUN))


def crashing_twice(first: str, second: str) -> Callable[[Place], None]:
    """Killed at work, and again when it was resumed, before anything was done."""

    def make(place: Place) -> None:
        place.crash(first, *RUN)
        place.crash(second, *RESUME)

    return make


def keys_changed(place: Place) -> None:
    """Ctrl-C, then a resume with recorded changes."""
    place.signalled(signal.SIGINT, 0.5, *RUN, code=130)
    place.crash("frame.synced:5", *RESUME, "--set", "concurrency_limit=3", "--set", "grace=2.5")


def config_behind(place: Place) -> None:
    """Killed after a change was recorded, and before config.yaml told it."""
    place.crash("frame.acknowledged:9", *RUN)
    place.crash("config.before-write", *RESUME, "--set", "grace=2", "--set", "concurrency_limit=2")


def scorer_added(place: Place) -> None:
    """A run that is complete is gone on with by a task that has a scorer more."""
    place.edited("score=[first, second]", "score=[first]")
    place.complete(*RUN)
    place.edited("score=[first]", "score=[first, second]")
    place.crash("frame.acknowledged:4", *RESUME)


def classes(place: Place) -> None:
    """A kill from outside, at a random moment."""
    print(f"seed {SEED}")
    seconds = random.Random(SEED).uniform(0.1, 0.6)
    place.signalled(signal.SIGKILL, seconds, *RUN, code=-signal.SIGKILL)


def interrupted(place: Place) -> None:
    """Ctrl-C, and nothing after it."""
    place.signalled(signal.SIGINT, 0.5, *RUN, code=130)


def forked(place: Place) -> None:
    """A fork of a run that was killed: it takes over what is there, asks for more, and is killed in turn."""
    place.edited("epochs: 3", "epochs: 2", "eval.yaml")
    place("run", EVAL, "--run-dir", "first", code=-signal.SIGKILL, HOLDFAST_CRASH_AT="frame.acknowledged:16")
    place.edited("epochs: 2", "epochs: 3", "eval.yaml")
    place("fork", "first", "--config", EVAL, "--run-dir", "run")
    place.ends.append("forked")
    place.crash("frame.acknowledged:9", *RESUME)


class Made(NamedTuple):
    """How a run is made, and where."""

    make: Callable[[Place], None]
    words: tuple[str, ...] = ()
    """What a resume and a fork have to be told if they go on from another directory."""


RUNS = {
    "keys-at-the-top": Made(crashing("frame.acknowledged:24")),
    "keys-in-runner": Made(crashing("frame.half-written:9")),
    "keys-left-out": Made(crashing("run.renamed")),
    "keys-changed": Made(keys_changed),
    "config-behind": Made(config_behind),
    "not-ended": Made(crashing("segment.footer-synced:2")),
    "closures": Made(crashing_twice("frame.acknowledged:31", "index.committed")),
    "partials": Made(crashing("frame.written:17")),
    "solver-object": Made(crashing("frame.before-write:18")),
    "scorers": Made(crashing_twice("frame.acknowledged:9", "index.rows-written")),
    "scorer-added": Made(scorer_added),
    "classes": Made(classes),
    "inner-imports": Made(crashing_twice("frame.acknowledged:14", "session.opened")),
    "named-by-path": Made(crashing("frame.synced:12")),
    "interrupted": Made(interrupted),
    "complete": Made(lambda place: place.complete(*RUN)),
    "moved": Made(crashing("frame.written:9", "run", "eval.yaml", "--run-dir", "run"), ("--config", "eval.yaml")),
    "forked": Made(forked),
    "script": Made(crashing("frame.synced:13", "/proc/self/cwd/tasks.py")),
}


def make(name: str) -> None:
    """Makes one run anew, and writes it and what is expected of it beside this file."""
    home, made = HERE / name, RUNS[name]
    place = Place(Path("/tmp/evals") / name)
    shutil.rmtree(place.directory, ignore_errors=True)
    shutil.copytree(home, place.directory, ignore=shutil.ignore_patterns(*NOT_WRITTEN))
    made.make(place)
    shutil.rmtree(home / "run", ignore_errors=True)
    shutil.copytree(place.directory / "run", home / "run", ignore=shutil.ignore_patterns(*DERIVED))
    expected = {"ends": place.ends, "words": made.words, "names": sorted(names(place.directory)), "before": told(place)}
    shutil.rmtree(place.directory)
    with tempfile.TemporaryDirectory() as elsewhere:
        expected |= told_elsewhere(Place(Path(elsewhere)), home, made.words, expected["before"])
    (home / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    before, after = expected["before"]["status"], expected["after"]["status"]
    print(f"{name}: {', '.join(place.ends)}: {before['finished']} of {before['planned']}, then {after['state']}")


def told_elsewhere(place: Place, home: Path, words: tuple[str, ...], before: Any) -> dict[str, Any]:
    """What becomes of a copy of the run in another directory: when it is compared, forked and resumed."""
    shutil.copytree(home, place.directory, dirs_exist_ok=True)
    assert told(place) == before
    taken = place.json("fork", "run", "--run-dir", "forked", *words)
    place("resume", "forked")
    expected: dict[str, Any] = {"fork": {key: taken[key] for key in ("planned", "taken", "rescored", "owed")}}
    if (place.directory / "eval.yaml").exists():
        differences = place.json("diff", "run", words[-1] if words else EVAL)["differences"]
        expected["diff"] = {item["path"]: item["verdict"] for item in differences}
    place(*RESUME, *words)
    after = told(place)
    assert told(place, "forked")["report"] == after["report"]
    return expected | {"after": after}


def told(place: Place, run: str = "run") -> dict[str, Any]:
    """What the program says of a run, as far as it is the same wherever and whenever it is said."""
    status, verified, report = (place.json(verb, run) for verb in ("status", "verify", "report"))
    sessions = [{key: item[key] for key in ("how", "calls", "finished")} for item in status["sessions"]]
    return {
        "status": {key: status[key] for key in COUNTED} | {"sessions": sessions},
        "verify": {key: verified[key] for key in CHECKED},
        "report": {key: report[key] for key in REPORTED},
    }


def names(directory: Path) -> set[str]:
    """What the digests of the run's code hold that names a module of Holdfast or the place of a file."""
    command = [sys.executable, __file__, "--names"]
    out = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, check=True).stdout
    return set(json.loads(out))


def print_names() -> None:
    """Prints those of the run in the working directory."""
    from holdfast.run import RunReader  # noqa: PLC0415 - of the earlier commit
    from holdfast.tasks import load_use, source  # noqa: PLC0415
    from holdfast.tasks.solver import Generate  # noqa: PLC0415

    found = set()
    config = RunReader(Path("run")).sessions[-1].config
    for entry in config["tasks"].values():
        if "use" in entry:
            task = load_use(entry["use"], Path(config.get("directory", ".")), entry.get("args"))
            solver = () if isinstance(task.solve, Generate) else (task.solve,)
            functions = (scorer.function for scorer in task.scorers if hasattr(scorer, "function"))
            for item in (*solver, *functions):
                reached = source._Reached()
                reached.add(item)
                found |= {part for part in reached.parts if not part.startswith("code ")}
    print(json.dumps([part for part in found if part.startswith("holdfast") or "/proc/self" in part]))


def refuse_other_versions() -> None:
    from holdfast.spec import RunnerSpec  # noqa: PLC0415 - whichever is installed

    if not {"deadline", "grace"} <= set(RunnerSpec.__struct_fields__):
        sys.exit("This Holdfast is a later one: the runs have to be made by commit 642771f.")


if __name__ == "__main__":
    refuse_other_versions()
    if sys.argv[1:] == ["--names"]:
        print_names()
    else:
        for chosen in sys.argv[1:] or RUNS:
            make(chosen)
