"""A session from Python is the session of the command line: in a directory or a store, new, resumed or refused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from durable import snapshot
from engine.rig import Solver
from evals import write_dataset, write_eval
from holdfast import NotARun, ResumeAborted, Run, RunHeld, Sample, Task, UsageError, evaluate, exact, generate
from holdfast.api import start
from holdfast.api.start import RunRequest, resume_session, start_session
from holdfast.engine.opening import remote_run
from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.run.fold.reader import RunReader
from holdfast.run.session import open as session_open
from holdfast.spec import load_eval, resolve
from holdfast.spec.override import override
from program import until
from store_fixtures import new_place

ECHO = ["scripted/echo"]
OWN_OF_EACH_RUN = {"run", "at", "source", "invocation"}
OWN_OF_EACH_RECORD = {"id", "at", "seconds"}
"""Times, and which records happened to be written in one frame."""
CODE = """
import asyncio, os, sys
from holdfast import Sample, Task, evaluate, exact, task

async def solve(trial):
    while trial.sample.input == "b" and os.path.exists("hold"):
        await asyncio.sleep(0.05)
    return await trial.generate(trial.sample.input)

@task
def letters(last: str = "c") -> Task:
    return Task(samples=[Sample(x, target=x) for x in ("a", "b", last)], solver=solve, scorers=exact())

if __name__ == "__main__":
    runner = {"concurrency_limit": 1, "upload_interval": 0.2, "lease": 1.5}
    run = evaluate(letters(last="c"), ["scripted/echo"], run=sys.argv[1], runner=runner)
    print(run.place, run.ended.how, run.ended.counts.finished, len(run.sessions))
"""
FLAGS = ["--model", *ECHO, "-T", "last=c", "--set", "concurrency_limit=1", "--set", "upload_interval=0.2"]
FLAGS += ["--set", "lease=1.5"]


def letters(inputs: str = "abc", **keys) -> Task:
    samples = [Sample(x, target=x) for x in inputs]
    return Task(name="letters", samples=samples, solver=generate(), scorers=exact(), **keys)


def declared(directory: Path):
    """An eval that needs nothing of this process."""
    write_dataset(directory, 3)
    data = {
        "name": "declared",
        "lease": 1.5,
        "models": {"m": "scripted/echo"},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}},
    }
    return resolve(load_eval(write_eval(directory, data)), "eval.yaml")


def objects(place) -> dict[str, bytes]:
    return {key: place.read(key) for key in place.keys()}  # noqa: SIM118 - a method of its own


def layout(place) -> set[str]:
    """The objects of a run; into how many segments its records were cut is a matter of time."""
    return {"journal" if key.startswith("journal/") else key for key in objects(place)}


def settings_in(place) -> list[bytes]:
    """What config.yaml says, without the comments that say when it was written."""
    return [line for line in place.read("config.yaml").splitlines() if not line.startswith(b"#")]


def without(names: set[str], record: dict) -> dict:
    return {key: value for key, value in record.items() if key not in names}


def without_salt(session: dict) -> list[list[str]]:
    """What the code reaches, and of what kinds it is; takes the tree out of the record, as its digests are salted."""
    trees = [code.pop("tree") for code in session["code"].values()]
    return [
        [f"{root} {name} {node[0]}" for root in sorted(tree["roots"]) for name, node in tree["roots"][root].items()]
        for tree in trees
    ]


def evaluated(directory: Path, url: str) -> list[str]:
    """What a process tells that calls evaluate(): the run, how it ended, and how many trials and sessions it has."""
    command = [sys.executable, "code.py", url]
    return subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


@pytest.fixture
def code(tmp_path) -> Path:
    (tmp_path / "code.py").write_text(CODE)
    return tmp_path / "code.py"


# A run in a store.


def test_evaluate_and_the_command_line_make_the_same_run(holdfast, store, place, code, tmp_path):
    """Configuration, plan, code, records and objects are the same; only what names the origin and the time differs."""
    other = new_place(store, place.spool)
    assert evaluated(tmp_path, place.url) == [place.url, "completed", "3", "1"]
    holdfast("run", f"{code}:letters", *FLAGS, "--run-dir", other.url, code=0)
    ours, theirs = holdfast.records(place.url), holdfast.records(other.url)
    assert without_salt(ours[0]) == without_salt(theirs[0])
    assert without(OWN_OF_EACH_RUN, ours[0]) == without(OWN_OF_EACH_RUN, theirs[0])
    assert ours[0]["source"] == "Python" and theirs[0]["source"] == f"{code}:letters"
    assert [without(OWN_OF_EACH_RECORD, r) for r in ours[1:-1]] == [
        without(OWN_OF_EACH_RECORD, r) for r in theirs[1:-1]
    ]
    assert without({"id", "at", "pins"}, ours[-1]) == without({"id", "at", "pins"}, theirs[-1])
    assert layout(place) == layout(other)
    assert settings_in(place) == settings_in(other)
    assert place.is_up_to_date()


def test_a_run_of_the_command_line_is_complete_for_evaluate(holdfast, place, code, tmp_path):
    """The same eval from Python finds the run by its URL, and opens no session."""
    holdfast("run", f"{code}:letters", *FLAGS, "--run-dir", place.url, code=0)
    assert evaluated(tmp_path, place.url) == [place.url, "completed", "3", "1"]


def test_a_killed_evaluation_resumes_from_the_store(place, code, tmp_path, monkeypatch):
    """The machine is lost with the process: what was up is kept, and only the rest is asked."""
    (tmp_path / "hold").touch()
    killed = subprocess.Popen([sys.executable, "code.py", place.url], cwd=tmp_path)
    until(lambda: place.published() == 1 and place.is_up_to_date(), "the first trial is up")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    place.lose_machine()
    (tmp_path / "hold").unlink()
    assert evaluated(tmp_path, place.url) == [place.url, "completed", "3", "2"]
    with Run.open(place.url) as run:
        assert sorted(trial.trial for trial in run.trials()) == sorted({step.trial for step in run.steps()})
        assert [session.calls for session in run.lineage][1] == 2


def test_a_complete_run_at_a_url_opens_no_session(place):
    """From another machine too; nothing in the store changes."""
    evaluate(letters(), ECHO, run=place.url)
    place.lose_machine()
    before = objects(place)
    again = evaluate(letters(), ECHO, run=place.url)
    assert (again.is_complete, again.ended.how, len(again.sessions)) == (True, "completed", 1)
    assert objects(place) == before
    assert not place.spool.exists()


def test_a_complete_run_uploads_what_is_only_here(place):
    """Objects that the store has lost come back from this machine, without a session."""
    evaluate(letters(), ECHO, run=place.url)
    lost = place.segments()[0]
    place.delete(lost)
    assert len(evaluate(letters(), ECHO, run=place.url).sessions) == 1
    assert lost in place.segments()


def test_a_refused_resume_changes_nothing_in_the_store(place):
    """Another seed would be another run."""
    evaluate(letters(), ECHO, run=place.url)
    before, here = objects(place), snapshot(place.spool)
    with pytest.raises(ResumeAborted, match="seed"):
        evaluate(letters(), ECHO, run=place.url, seed=5)
    assert (objects(place), snapshot(place.spool)) == (before, here)


def test_a_run_in_a_store_that_is_held_is_refused(place, tmp_path, monkeypatch):
    """On this machine and on any other."""
    started = start_session(RunRequest(declared(tmp_path), place.url))
    try:
        with pytest.raises(RunHeld):
            resume_session(place.url)
        monkeypatch.setenv("HOLDFAST_SPOOL", str(tmp_path / "elsewhere"))
        with pytest.raises(RunHeld):
            start_session(RunRequest(declared(tmp_path), place.url, or_resume=True))
    finally:
        started.session.abandon()


def test_what_is_not_in_the_store_is_the_warning_of_the_end(place):
    """The store holds other bytes in the place of a segment: the run is finished here, and the caller learns of it."""

    async def solve(trial):
        place.write("journal/000001-0000-000002.jsonl.zst", b"other")
        return trial.sample.input

    made = Task(name="t", samples=[Sample("a", target="a")], solver=Solver(solve), scorers=exact())
    run = evaluate(made, ECHO, run=place.url)
    assert (run.ended.exit_code, run.ended.uploaded) == (5, False)
    assert f"Not in {place.url} yet" in run.ended.warning


def test_an_unknown_kind_of_url_is_refused_and_nothing_is_left(tmp_path, monkeypatch):
    """A URL is never taken for the name of a directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="not a URL of a supported object store"):
        evaluate(letters(), ECHO, run="ftp://host/run")
    for collapsed in (Path("s3://bucket/run"), "s3:/bucket/run", "gs:bucket"):
        with pytest.raises(UsageError, match="is not a valid URL"):
            evaluate(letters(), ECHO, run=collapsed)
    assert list(tmp_path.iterdir()) == []


# Replies of other runs.


def test_replies_of_another_run_are_used_again(tmp_path):
    """An identical request is answered from the other run; the step says so."""
    first = evaluate(letters("ab"), ECHO, run=tmp_path / "first")
    second = evaluate(letters(), ECHO, run=tmp_path / "second", reuse=first.place)
    assert [session.calls for session in second.lineage] == [1]
    sources = {step.request["messages"][0]["content"]: bool(step.source) for step in second.steps()}
    assert sources == {"a": True, "b": True, "c": False}


def test_a_reply_is_used_once_over_all_sessions(tmp_path):
    """A resumed run does not take a second time what an earlier session took: repetitions are different draws."""
    evaluate(letters("a"), ECHO, run=tmp_path / "first")
    evaluate(letters("a"), ECHO, run=tmp_path / "second", reuse=[tmp_path / "first"])
    grown = evaluate(letters("a", epochs=2), ECHO, run=tmp_path / "second", reuse=[tmp_path / "first"])
    assert [session.calls for session in grown.lineage] == [0, 1]


def test_a_run_to_reuse_that_does_not_exist_leaves_nothing(tmp_path, monkeypatch):
    """It is named before anything is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotARun, match="nowhere"):
        evaluate(letters(), ECHO, run="r", reuse=["nowhere"])
    assert list(tmp_path.iterdir()) == []


# How often a run is opened.


@pytest.fixture
def events(monkeypatch) -> list[str]:
    """What happens to a run, in order: it is opened, its lease is taken."""
    found: list[str] = []

    def noting(module, name: str, event: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **keys: (found.append(event), real(*args, **keys))[1])

    opened = RunReader.__init__
    monkeypatch.setattr(RunReader, "__init__", lambda *args, **keys: (found.append("opened"), opened(*args, **keys))[1])
    noting(session_open, "take_lease", "lease")
    noting(remote_run, "take_run_lease", "remote lease")
    return found


RESUMES = {
    "resume": lambda _spec, place: resume_session(place),
    "resume with a setting": lambda _spec, place: resume_session(
        place, lambda saved: Offer(override(saved, {"seed": 0}))
    ),
    "run or resume": lambda spec, place: start_session(RunRequest(spec, place, or_resume=True)),
}


@pytest.mark.parametrize("resume", RESUMES.values(), ids=RESUMES)
def test_a_run_is_opened_once_before_its_lease_and_once_under_it(tmp_path, events, resume):
    """However it is resumed."""
    spec, root = declared(tmp_path), str(tmp_path / "r")
    start_session(RunRequest(spec, root)).session.abandon()
    events.clear()
    started = resume(spec, root)
    started.session.abandon()
    assert started.is_resumed
    assert events == ["opened", "lease", "opened"]


def test_a_run_in_a_store_is_opened_as_rarely(place, tmp_path, events):
    """Merged for reading before its leases, and from the spool under both."""
    spec = declared(tmp_path)
    start_session(RunRequest(spec, place.url)).session.abandon()
    events.clear()
    resume_session(place.url).session.abandon()
    assert events == ["opened", "remote lease", "lease", "opened"]


def test_a_complete_run_is_opened_once(tmp_path, events):
    """And no lease is taken."""
    evaluate(letters(), ECHO, run=tmp_path / "r").close()
    events.clear()
    evaluate(letters(), ECHO, run=tmp_path / "r").close()
    assert events == ["opened", "opened"]  # the second is the run that is returned


# Beside other processes.


def test_a_held_run_is_refused(tmp_path):
    """Whoever asks for it while a session executes it is told so."""
    spec, root = declared(tmp_path), str(tmp_path / "r")
    started = start_session(RunRequest(spec, root))
    try:
        for resume in RESUMES.values():
            with pytest.raises(RunHeld):
                resume(spec, root)
    finally:
        started.session.abandon()


def test_a_run_that_appears_meanwhile_is_resumed_where_that_is_allowed(tmp_path, monkeypatch):
    """Another process makes it between the look and the creation."""
    real = start.start_run

    def beaten(spec, root, **keys):
        if not root.exists():
            real(spec, root, **keys).session.abandon()
        return real(spec, root, **keys)

    monkeypatch.setattr(start, "start_run", beaten)
    run = evaluate(letters(), ECHO, run=tmp_path / "r")
    assert (run.is_complete, len(run.sessions)) == (True, 2)
    with pytest.raises(UsageError, match="already holds a run"):
        start_session(RunRequest(declared(tmp_path), str(tmp_path / "s")))


def test_nothing_remains_is_an_answer_of_its_own(tmp_path):
    """It names the run, and says how many trials it has."""
    evaluate(letters(), ECHO, run=tmp_path / "r")
    complete = resume_session(str(tmp_path / "r"))
    assert isinstance(complete, CompleteRun)
    assert (complete.place, complete.counts.planned, complete.exit_code) == (str(tmp_path / "r"), 3, 0)


# Interrupts.


def test_ctrl_c_does_not_wait_for_the_commands_of_solvers(tmp_path):
    """The command is ended, and with it the thread that waits for it; a command from before is left alone."""
    older = subprocess.Popen(["sleep", "60"])
    commands: list[subprocess.Popen[bytes]] = []

    async def solve(trial):
        commands.append(subprocess.Popen(["sleep", "60"]))  # noqa: ASYNC220 - as users write it
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        await asyncio.to_thread(commands[0].wait)
        return trial.sample.input

    made = Task(name="t", samples=[Sample("a", target="a")], solver=Solver(solve), scorers=exact())
    before = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            evaluate(made, ECHO, run=tmp_path / "r")
        assert time.monotonic() - before < 30
        assert commands[0].wait() == -signal.SIGTERM
        assert older.poll() is None
    finally:
        older.kill()
        older.wait()
    with Run.open(tmp_path / "r") as run:
        assert (run.finished, run.lineage[-1].ended_as) == (0, "interrupted")
