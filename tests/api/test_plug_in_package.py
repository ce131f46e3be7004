"""A plug-in package that is written from the documentation alone, outside the tree, installs and works."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from program import until

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("providers.md", "api.md"))
KEY = "key-0123456789-abcdef"


def printed_files() -> dict[str, str]:
    """The files that the page prints, by the name in their first line."""
    found = re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")


def with_site(site: Path, **environment: str) -> dict[str, str]:
    """The environment in which the packages of a directory are installed."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}


def run(command: list[str], directory: Path, site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env=with_site(site, **environment),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> tuple[Path, Path]:
    """The package, built and installed by pip, and a directory with an eval that uses it."""
    pytest.importorskip("hatchling")
    root = tmp_path_factory.mktemp("plug_in")
    files = printed_files()
    package = {name: text for name, text in files.items() if name == "pyproject.toml" or name.startswith("src/")}
    write(root / "package", {**package, "src/holdfast_shout/__init__.py": ""})
    words = '{"id": "a", "word": "hello", "loud": "HELLO!!"}\n{"id": "b", "word": "moin", "loud": "no"}\n'
    write(root / "work", {name: files[name] for name in files if name not in package} | {"words.jsonl": words})
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    done = run(
        ["-m", "pip", "install", *offline, "--target", str(root / "site"), str(root / "package")], root, root / "site"
    )
    assert done.returncode == 0, done.stderr
    return root / "work", root / "site"


def test_the_page_prints_a_whole_package():
    """The files that a reader has to write are all on the page."""
    assert set(printed_files()) == {
        "pyproject.toml",
        "src/holdfast_shout/observer.py",
        "src/holdfast_shout/provider.py",
        "src/holdfast_shout/scorers.py",
        "task.py",
        "test_provider.py",
        "eval.yaml",
    }


def test_an_installed_provider_is_listed(installed):
    """`holdfast list models` names it, with the first line of its description."""
    done = run(["-m", "holdfast", "list", "models"], *installed)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^shout +ready +Repeats what it is asked, in capitals$", done.stdout, re.MULTILINE)


OWN = """
def strict(answer, sample):
    return answer.text == sample.target


async def solve(trial):
    return await trial.generate(trial.sample.input)
"""


def test_an_eval_names_the_scorer_of_the_package_and_code_of_its_own(installed):
    """The block about scorers in an eval file is a task that runs."""
    work, site = installed
    (tasks,) = re.findall(r"^```yaml\n(tasks:\n  greetings:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (work / "my.py").write_text(OWN)
    (work / "own.yaml").write_text("models: {m: scripted/echo}\ndatasets: {words: words.jsonl}\n" + tasks)
    done = run(["-m", "holdfast", "run", "own.yaml", "--run-dir", "own"], work, site)
    assert done.returncode == 0, done.stderr
    told = run(["-m", "holdfast", "report", "own", "--json"], work, site)
    assert set(json.loads(told.stdout)["tasks"]["greetings"]["m"]["metrics"]) == {"exact", "loud", "strict"}


def test_an_eval_uses_the_provider_and_a_task_the_scorer(installed):
    """The provider answers with its options, the scorer judges, and the key is nowhere in the run."""
    done = run(["-m", "holdfast", "run", "eval.yaml", "--run-dir", "r"], *installed, SHOUT_KEY=KEY)
    assert done.returncode == 0, done.stderr
    told = run(["-m", "holdfast", "report", "r", "--json"], *installed)
    tasks = json.loads(told.stdout)["tasks"]
    assert tasks["words"]["shouter"]["metrics"]["exact"]["accuracy"]["value"] == 0.5
    assert tasks["greetings"]["shouter"]["metrics"]["loud"]["mean"]["value"] == 1.0
    records = run(["-m", "holdfast", "cat", "r"], *installed).stdout
    assert "HELLO!!" in records
    assert KEY not in records


@pytest.mark.parametrize(
    ("args", "environment", "said"),
    [
        ("{mark: '!!'}", {}, "shout/any needs a key, and the environment variable SHOUT_KEY is not set."),
        ("{marc: '!!'}", {"SHOUT_KEY": KEY}, "Model shout/any has no option 'marc'. Did you mean 'mark'?"),
        ("{mark: 5}", {"SHOUT_KEY": KEY}, "Model shout/any: its args are not valid: Expected `str`, got `int`"),
    ],
    ids=["no key", "unknown option", "wrong option"],
)
def test_what_a_plug_in_refuses_is_one_sentence(installed, args, environment, said):
    """A missing key or a wrong option ends with exit code 2 before anything is written."""
    work, site = installed
    text = (work / "eval.yaml").read_text(encoding="utf-8")
    (work / "wrong.yaml").write_text(text.replace('{mark: "!!"}', args), encoding="utf-8")
    done = run(["-m", "holdfast", "run", "wrong.yaml", "--run-dir", "w"], work, site, **environment)
    assert (done.returncode, (work / "w").exists()) == (2, False)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# The observer of the package.


def traced(path: Path) -> list[dict]:
    """The events that the package's observer has written down; the last line may be half written."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def kinds(events: list[dict]) -> list[str]:
    return [event["type"] for event in events]


def test_an_installed_observer_gets_the_events_of_a_run(installed):
    """`holdfast run` tells it everything: what it was told of trials is what the report says."""
    work, site = installed
    trace = work / "trace.jsonl"
    command = ["-m", "holdfast", "run", "eval.yaml", "--run-dir", "traced"]
    done = run(command, work, site, SHOUT_KEY=KEY, SHOUT_TRACE=str(trace))
    assert done.returncode == 0, done.stderr
    events = traced(trace)
    assert (events[0]["type"], events[-1]["type"]) == ("SessionStarted", "SessionEnded")
    assert (events[0]["planned"], events[-1]["counts"]["valid"], events[-1]["exit_code"]) == (4, 4, 0)
    for kind, count in {"TrialStarted": 4, "StepRecorded": 4, "AttemptEnded": 4, "TrialLeft": 4}.items():
        assert kinds(events).count(kind) == count
    scores = sorted(score for event in events for score in event.get("record", {}).get("scores", {}).items())
    assert scores == [("exact", 0.0), ("exact", 1.0), ("loud", 1.0), ("loud", 1.0)]
    assert KEY not in trace.read_text()
    again = run(["-m", "holdfast", "resume", "traced"], work, site, SHOUT_KEY=KEY, SHOUT_TRACE=str(trace))
    assert again.returncode == 0
    # Nothing remained, so there was no session.
    assert traced(trace) == events


WAITING = """
from pathlib import Path
from holdfast import Sample, Task, exact, task

async def wait(path):
    import asyncio
    while not Path(path).exists():
        await asyncio.sleep(0.01)
    return path

async def solve(trial):
    reply = await trial.generate(trial.sample.input)
    await trial.step("length", len, reply.text)
    await trial.step("wait", wait, "go")
    return await trial.generate("more")

@task
def waiting() -> Task:
    samples = [Sample(f"q{number}", target="MORE!", id=f"s{number}") for number in range(3)]
    return Task(samples=samples, solver=solve, scorers=exact())
"""


def test_what_an_installed_observer_was_told_survives_a_kill(installed, tmp_path):
    """After SIGKILL the resumed session replays exactly the steps that the killed one told of, and tells so."""
    _, site = installed
    write(tmp_path, {"waiting.py": WAITING})
    trace = tmp_path / "trace.jsonl"
    environment = with_site(site, SHOUT_TRACE=str(trace))
    command = [sys.executable, "-m", "holdfast", "run", "waiting.py", "--model", "shout/any", "--run-dir", "r"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        until(lambda: kinds(traced(trace)).count("StepRecorded") == 6, "two steps of each trial are told")
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed = traced(trace)
    assert "SessionEnded" not in kinds(killed) and "AttemptEnded" not in kinds(killed)
    (tmp_path / "go").touch()
    done = run(["-m", "holdfast", "resume", "r"], tmp_path, site, SHOUT_TRACE=str(trace))
    assert done.returncode == 0, done.stderr
    resumed = traced(trace)[len(killed) :]
    assert (resumed[0]["session"], resumed[-1]["counts"]["valid"]) == (2, 3)
    steps = [(event["trial"], event["step"], event["replayed"]) for event in resumed if "step" in event]
    told = {(event["trial"], event["step"]) for event in killed if "step" in event}
    assert {step[:2] for step in steps if step[2]} == told
    assert len(steps) == 12 and sum(not replayed for *_, replayed in steps) == 6


BROKEN = {
    "raises when it is loaded": "raise RuntimeError('no library')",
    "raises when it is made": "def make():\n    raise SystemExit('no server')",
    "is missing": "other = 1",
    "is no function": "make = 5",
    "makes no function": "def make():\n    return 5",
    "makes a coroutine function": "def make():\n    async def observe(event): ...\n    return observe",
}


def broken_site(directory: Path, source: str) -> Path:
    """A directory with an installed package whose observer is this."""
    information = "holdfast_broken-1.0.dist-info"
    files = {
        "holdfast_broken.py": source,
        f"{information}/METADATA": "Metadata-Version: 2.1\nName: holdfast-broken\nVersion: 1.0\n",
        f"{information}/entry_points.txt": "[holdfast.observers]\nbroken = holdfast_broken:make\n",
    }
    write(directory, files)
    return directory


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_an_observer_that_cannot_be_had_is_refused_before_anything_is_written(tmp_path, source):
    """One sentence that names it and its package, exit code 2, and no run; other verbs do not load it."""
    site = broken_site(tmp_path / "site", source)
    write(tmp_path, {"waiting.py": WAITING})
    command = ["-m", "holdfast", "run", "waiting.py", "--model", "scripted/echo", "--run-dir", "r"]
    done = run(command, tmp_path, site)
    assert (done.returncode, (tmp_path / "r").exists()) == (2, False), done.stderr
    assert done.stderr.startswith("holdfast: The observer 'broken' (holdfast_broken:make) cannot be ")
    assert "holdfast-broken" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(["-m", "holdfast", "--help"], tmp_path, site).returncode == 0
    assert run(["-m", "holdfast", "list", "models"], tmp_path, site).returncode == 0


def test_an_installed_observer_that_raises_is_told_and_the_run_is_complete(tmp_path):
    """A line names it; the exit code is that of the run."""
    source = "def observe(event):\n    raise ValueError('my bug')\n\ndef make():\n    return observe\n"
    site = broken_site(tmp_path / "site", source)
    write(tmp_path, {"waiting.py": WAITING, "go": ""})
    command = ["-m", "holdfast", "run", "waiting.py", "--model", "scripted/echo", "--run-dir", "r"]
    done = run(command, tmp_path, site)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("my bug") == 1
    assert "The observer holdfast_broken.observe is disabled for this session: ValueError: my bug" in done.stderr
    assert "3 of 3" in done.stdout
