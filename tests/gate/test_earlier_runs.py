"""Runs of format 1, made before the keys `deadline` and `grace` were renamed, killed at many points: read and forked.

`tests/data/earlier/make.py` made them, and recorded what that commit's own program makes of them. Their saved keys are
read under their new names, and their digests of code, which name the modules of that time, are compared by the rule of
that time. A copy of each is read here, compared, refused to be resumed, forked, and offered code that was edited.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from cli_calls import call
from durable import formats_of, snapshot
from holdfast.journal import FORMAT
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import TrialRecord
from holdfast.run.core.result_file import write_result_file
from holdfast.storage import RealFileSystem
from observed import FIRST_NUMBERS

EARLIER = Path(__file__).parents[1] / "data" / "earlier"
RENAMED = {"deadline": "retry_deadline", "grace": "grace_period"}
GONE = {*RENAMED} - {*RENAMED.values()}
MOVED = {
    "holdfast.spec.task import Limits,": "holdfast.spec.schema.task import TrialLimits as Limits,",
}
"""What a task file of these imports from inner modules, and where it is now."""

RUNS = sorted(path.parent.name for path in EARLIER.glob("*/expected.json"))
EXPECTED: dict[str, Any] = {name: json.loads((EARLIER / name / "expected.json").read_text()) for name in RUNS}
IN_PYTHON = [name for name in RUNS if list((EARLIER / name).rglob("tasks.py"))]
WITH_EVAL = [name for name in RUNS if (EARLIER / name / "eval.yaml").exists()]
OWED = [name for name in RUNS if EXPECTED[name]["before"]["status"]["owed"]]
COUNTS = {"ok", "trials", "planned", "damage"}


KEYS = {"ended_as": "how", "in_flight_at_kill": "in_flight_at_death", "remaining_by_reason": "why"}
LATER_KEYS = {"by_axis", "cost_is_lower_bound", "has_price", "usage_is_partial"}
BINARY = {"choice", "exact", "includes"}
"""The scorers of these runs that are built in; the others are functions that do not say what they return."""
REASONS = {"not scored": "not yet scored", "task error": "failed before"}


SCORES_OTHERWISE = {"inner-imports": ["tasks.lettered.scorers.choice"]}
"""By run, the built-in scorers whose behaviour number was raised since: their answers are kept and scored again."""


def with_all_answers(forked: dict[str, Any], name: str) -> dict[str, Any]:
    """What a fork says, where trials that are only scored again count as kept with their scores."""
    if name not in SCORES_OTHERWISE:
        return forked
    reasons = {reason: count for reason, count in forked["remaining_by_reason"].items() if reason != "not scored"}
    taken = forked["taken"] + forked["rescored"]
    return {**forked, "taken": taken, "rescored": 0, "remaining_by_reason": reasons}


def with_earlier_words(value: Any) -> Any:
    """What the program says, as the earlier one said it.

    That one took a trial that only lacks the score of an added scorer for finished in reports and in `verify`, and
    for unfinished in `status`.
    """
    if isinstance(value, list):
        return [with_earlier_words(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "n_samples" in value:
        # The figures were over trials, whatever their samples.
        if value["n_samples"] != value["n_trials"]:
            return {"value": ANY, "stderr": ANY, "n": value["n_trials"]}
        return {"value": value["value"], "stderr": value["stderr"], "n": value["n_trials"]}
    found = {KEYS.get(key, key): with_earlier_words(item) for key, item in value.items() if key not in LATER_KEYS}
    if isinstance(found.get("usage"), dict):
        # Figures that are 0 were left out.
        found["usage"] = {name: count for name, count in found["usage"].items() if count}
    if found.get("cost") is not None:
        # It was added up in another way.
        found["cost"] = pytest.approx(found["cost"])
    if "notes" in found:
        # It was a part of the cost where some models have no price.
        found["notes"] = [note for note in found["notes"] if "The cost is unknown" not in note]
    if "repeated" in found and "made" in found:
        # Nothing else was counted.
        found = {name: found[name] for name in ("made", "replayed", "in_flight_at_death")}
    if "why" in found:
        unscored = found["why"].get("not scored", 0)
        found["owed"], found["trials"] = found["remaining"], found["finished"] + unscored
        found["why"] = {REASONS.get(reason, reason): count for reason, count in found["why"].items()}
        if "damage" not in found and "state" not in found:
            # The coverage of a report.
            names = ("planned", "valid", "failed", "limited", "blocked", "owed")
            found |= {"valid": found["valid"] + unscored, "owed": found["owed"] - unscored}
            return {name: found[name] for name in names}
    return found


def with_present_metrics(value: Any, scorer: str = "") -> Any:
    """What the earlier program says of a run, as it is said of a new one: only some scorers have an accuracy.

    The earlier one decided by the scores.
    """
    if not isinstance(value, dict):
        return value
    found = {key: with_present_metrics(item, key) for key, item in value.items()}
    if "accuracy" in found and scorer not in BINARY:
        found["mean"] = found.pop("accuracy")
    return found


def without_spending(value: Any) -> Any:
    """The same without tokens and cost."""
    if isinstance(value, list):
        return [without_spending(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: without_spending(item) for key, item in value.items() if key not in {"usage", "cost"}}


class Earlier:
    """A copy of one of these runs and of its eval, in a directory of the test's own, which is the working directory."""

    def __init__(self, name: str, directory: Path, program: Any, capture: Any) -> None:
        self.directory, self.run = directory, directory / "run"
        self.expected = EXPECTED[name]
        self.words = self.expected["words"]
        self.program, self._capture = program, capture
        shutil.copytree(EARLIER / name, directory, dirs_exist_ok=True)

    @property
    def eval_file(self) -> str:
        """The eval, by the path that it was run with."""
        return self.words[-1] if self.words else "/proc/self/cwd/eval.yaml"

    @property
    def tasks(self) -> Path:
        return next(self.directory.rglob("tasks.py"))

    # What a person does.

    def mend(self) -> None:
        """Brings the eval up to date: the keys have their new names, and modules are imported from where they are."""
        for path in (*self.directory.glob("eval.yaml"), *self.directory.rglob("tasks.py")):
            text = path.read_text()
            for old, new in RENAMED.items():
                text = re.sub(rf"\b{old}(?=: |=)", new, text)
            for old, new in MOVED.items():
                text = text.replace(old, new)
            path.write_text(text)

    def edit(self, old: str, new: str) -> None:
        text = self.tasks.read_text()
        assert old in text
        self.tasks.write_text(text.replace(old, new))

    def resume(self, *words: object, code: int, **environment: str) -> Any:
        return self.program("resume", "run", *self.words, *words, code=code, **environment)

    def fork(self, code: int = 0) -> Any:
        return self.program("fork", "run", "--run-dir", "forked", *self.words, "--json", code=code)

    def diff(self) -> str:
        """What differs; a run of an older format is refused, whatever differs."""
        return str(self.program("diff", "run", self.eval_file, code=3).out)

    def check_refused(self, told: Any) -> None:
        """It says that the run has an older format, and how to continue."""
        assert "Resume aborted: run was written in format 1" in told.err and told.out == ""
        assert "holdfast fork run" in told.err

    # What is there.

    def json(self, *words: object) -> Any:
        told = call(self._capture, *words, "--json")
        assert told.code == 0, told
        return json.loads(told.out)

    def records(self, run: str = "run") -> list[dict[str, Any]]:
        told = call(self._capture, "cat", run)
        assert told.code == 0, told
        return [json.loads(line) for line in told.out.splitlines()]

    def of_type(self, type_: str, run: str = "run") -> list[dict[str, Any]]:
        return [record for record in self.records(run) if record["type"] == type_]

    def check(self, expected: dict[str, Any], run: str = "run", *, exactly: bool = False) -> None:
        """The run is sound, and its status and its report are as the earlier program tells them."""
        verified = with_earlier_words(self.json("verify", run, "--deep"))
        kept = expected["verify"] if exactly else COUNTS
        assert {key: verified[key] for key in kept} == {key: expected["verify"][key] for key in kept}
        status = with_earlier_words(self.json("status", run))
        sessions = [{key: item[key] for key in ("how", "calls", "finished")} for item in status["sessions"]]
        told = {key: status[key] for key in expected["status"]} | {"sessions": sessions}
        assert without_spending(told) == without_spending(expected["status"])
        self.check_spending(told, expected["status"], run)
        self.check_report(expected["report"], run)

    def check_report(self, expected: dict[str, Any], run: str) -> None:
        report = with_earlier_words(self.json("report", run))
        told = {key: report[key] for key in expected}
        assert without_spending(told) == without_spending(expected)
        self.check_spending(told, expected, run)

    def check_spending(self, told: dict[str, Any], expected: dict[str, Any], run: str) -> None:
        """As the earlier program has it where every attempt has ended; that one left out what was cut short."""
        if "usage" not in expected:
            return
        is_whole = self.json("status", run)["unfinished"] == 0
        for name, count in expected["usage"].items():
            assert told["usage"][name] == count if is_whole else told["usage"][name] >= count
        if run == "run" and is_whole and told["cost"] is not None:
            assert told["cost"] == expected["cost"]


@pytest.fixture
def earlier(tmp_path, monkeypatch, holdfast, capfdbinary):
    """Makes the copy of a run; what a raised behaviour number of a scorer means is shown by `choice` alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FIRST_NUMBERS, "1")

    def copied(name: str, *, mended: bool = True) -> Earlier:
        copy = Earlier(name, tmp_path, holdfast, capfdbinary)
        if mended:
            copy.mend()
        return copy

    return copied


def saved_keys(config: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The values under these keys, by the place of their block and the name that they are called here."""
    blocks = {f"tasks.{name}": task.get("runner", {}) for name, task in config["tasks"].items()}
    blocks["all"] = config["runner"]
    return {
        f"{place} {called}": block[name]
        for place, block in blocks.items()
        for name, called in names.items()
        if name in block
    }


def test_there_are_ten_kill_points():
    """The runs were killed at ten different points and more, from within and from outside, or were not killed."""
    points = {end.partition(":")[0] for name in RUNS for end in EXPECTED[name]["ends"]}
    assert len({point for point in points if "." in point}) >= 10
    assert {"SIGKILL", "SIGINT", "completed"} <= points
    assert sum(file.stat().st_size for file in EARLIER.rglob("*") if file.is_file()) < 1_000_000


@pytest.mark.parametrize("name", RUNS)
def test_an_earlier_run_is_sound_and_counted_as_before(earlier, name):
    """`verify`, `status` and `report` say of it what the earlier program says."""
    run = earlier(name)
    before = snapshot(run.run)
    run.check(run.expected["before"], exactly=True)
    assert snapshot(run.run) == before


@pytest.mark.parametrize("name", RUNS)
def test_an_earlier_run_is_not_resumed(earlier, name):
    """It is refused with the command that continues it, and no byte of it changes, complete or not."""
    run = earlier(name)
    before = snapshot(run.run)
    run.check_refused(run.resume(code=3))
    assert run.program.json("resume", "run", code=3)["kind"] == "older_format"
    assert snapshot(run.run) == before


@pytest.mark.parametrize("name", WITH_EVAL)
def test_an_eval_with_the_new_names_is_the_same_eval(earlier, name):
    """`diff` shows what the earlier program shows for the earlier names: nothing where nothing differs."""
    run = earlier(name)
    before = snapshot(run.run)
    told = json.loads(run.program("diff", "run", run.eval_file, "--json", code=3).out)
    expected = {
        ".".join(RENAMED.get(part, part) for part in path.split(".")): verdict
        for path, verdict in run.expected["diff"].items()
    }
    expected |= dict.fromkeys(SCORES_OTHERWISE.get(name, ()), "refused")
    assert {item["path"]: item["verdict"] for item in told["differences"]} == expected
    assert "A run of format 1 cannot be resumed. Continue in a new run with: holdfast fork run\n" in run.diff()
    assert snapshot(run.run) == before


@pytest.mark.parametrize("name", ["keys-at-the-top", "keys-in-runner", "closures", "named-by-path"])
def test_the_command_that_began_an_earlier_run_does_not_resume_it(earlier, name):
    """`run --or-resume` meets the same refusal."""
    run = earlier(name)
    before = snapshot(run.run)
    run.check_refused(run.program("run", run.eval_file, "--run-dir", "run", "--or-resume", code=3))
    assert snapshot(run.run) == before


def test_a_script_does_not_resume_its_earlier_run(earlier):
    """The call of evaluate() that began a run is refused too."""
    run = earlier("script")
    before = snapshot(run.run)
    command = [sys.executable, "/proc/self/cwd/tasks.py"]
    done = subprocess.run(command, cwd=run.directory, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "OlderFormat: Resume aborted: " in done.stderr and "holdfast fork " in done.stderr
    assert snapshot(run.run) == before


@pytest.mark.parametrize("name", RUNS)
def test_a_fork_of_an_earlier_run_keeps_what_is_finished(earlier, name):
    """A fork is a run of the present format: it keeps every finished trial, completes, and has the same report.

    What it kept was paid for by the earlier run, and costs nothing here.
    """
    run = earlier(name)
    before = snapshot(run.run)
    told = with_all_answers(json.loads(run.fork().out), name)
    assert told["taken"] == run.expected["before"]["status"]["finished"]
    told["owed"] = told["remaining_by_reason"]
    assert {key: told[key] for key in run.expected["fork"]} == run.expected["fork"]
    assert snapshot(run.run) == before
    if told["taken"] == told["planned"]:
        assert run.json("report", "forked")["cost"] in {0.0, None}
    run.program("resume", "forked", code=0)
    run.check_report(with_present_metrics(run.expected["after"]["report"]), "forked")
    assert run.json("status", "forked")["format"] == FORMAT
    assert not any("cost" in record for record in run.records("forked"))
    assert run.json("verify", "forked", "--deep")["ok"]


@pytest.mark.parametrize("name", RUNS)
def test_saved_keys_are_read_under_their_new_names(earlier, name):
    """A fork has the saved values under the new names."""
    run = earlier(name)
    saved = saved_keys(run.of_type("session")[-1]["config"], RENAMED)
    assert {"all retry_deadline", "all grace_period"} <= set(saved)
    run.fork()
    config = run.of_type("session", "forked")[-1]["config"]
    assert saved_keys(config, {new: new for new in RENAMED.values()}) == saved
    assert saved_keys(config, {old: old for old in GONE}) == {}


# The code of tasks in Python.


@pytest.mark.parametrize("name", sorted(set(IN_PYTHON) & set(WITH_EVAL)))
def test_code_that_asks_otherwise_is_noticed(earlier, name):
    """By the rule of that time, another text in a prompt is another solver; another comment is none."""
    run = earlier(name)
    run.edit("in one word", "in two words")
    told = run.diff()
    assert "(identity): " in told and "tasks.py" in told and "`holdfast fork`" in told
    run.edit("in two words", "in one word")
    run.edit("# As a clerk would.", "# As anybody would.\n\n")
    assert "(identity)" not in run.diff()


@pytest.mark.parametrize(
    ("name", "old", "new", "scorer"),
    [
        ("scorers", 'regex(r"answer is: (', 'regex(r"answer was: (', "stated"),
        ("scorers", "ignore_case=True", "ignore_case=False", "either"),
        ("scorers", "average([includes(), choice()])", "average([choice(), includes()])", "averaged"),
        ("scorers", "Limits(tokens=10)", "Limits(tokens=11)", "length"),
        ("scorers", "compare=False", "compare=True", "judge"),
        ("scorers", "absolute=1.0", "absolute=2.0", "average"),
        ("scorer-added", 'regex(r"answer is: (', 'regex(r"answer was: (', "stated"),
        ("scorer-added", "absolute=1.0", "absolute=2.0", "near"),
        ("interrupted", 'regex(r"answer is: (', 'regex(r"answer was: (', "found"),
    ],
)
def test_code_that_judges_otherwise_is_noticed(earlier, name, old, new, scorer):
    """By the rule of that time, a scorer over other parts is another scorer, and is named; the solver is the same."""
    run = earlier(name)
    run.edit(old, new)
    told = run.diff()
    assert f".scorers.{scorer} (scoring): the code of the scorer {scorer} in tasks.py has changed" in told
    assert "(identity)" not in told
    run.edit(new, old)
    assert "(scoring)" not in run.diff()


@pytest.mark.parametrize("name", sorted(set(IN_PYTHON) & set(OWED) - {"moved"}))
def test_code_is_compared_after_a_fork(earlier, name):
    """A fork of an earlier run is resumed with the same code, and with no other."""
    run = earlier(name)
    run.fork()
    run.edit("in one word", "in two words")
    before = snapshot(run.directory / "forked")
    assert "(identity): " in run.program("resume", "forked", code=3).err
    assert snapshot(run.directory / "forked") == before
    run.edit("in two words", "in one word")
    run.edit("# As a clerk would.", "# As anybody would.")
    run.program("resume", "forked", code=0)
    run.check_report(with_present_metrics(run.expected["after"]["report"]), "forked")


def test_a_task_file_that_imports_what_has_moved(earlier):
    """It is told in one sentence, and nothing is made; once the import is mended, the trials are kept."""
    run = earlier("inner-imports", mended=False)
    before = snapshot(run.run)
    told = run.fork(code=2)
    assert "holdfast.spec.task" in told.out and "tasks.py line " in told.out
    assert snapshot(run.run) == before and not (run.directory / "forked").exists()
    run.mend()
    told = with_all_answers(json.loads(run.fork().out), "inner-imports")
    assert told["taken"] == run.expected["fork"]["taken"]


def test_an_eval_in_another_place(earlier):
    """A run whose task file is gone says so when it is forked, and is forked with the file as it is now."""
    run = earlier("moved")
    shutil.move(run.directory / "code", run.directory / "elsewhere")
    assert "code/tasks.py" in run.fork(code=2).out
    eval_file = run.directory / "eval.yaml"
    eval_file.write_text(eval_file.read_text().replace("code/tasks.py", "elsewhere/tasks.py"))
    assert json.loads(run.fork().out)["taken"] == run.expected["fork"]["taken"]
    run.program("resume", "forked", code=0)
    run.check_report(with_present_metrics(run.expected["after"]["report"]), "forked")


# What else is written into such a run.


@pytest.mark.parametrize("name", ["keys-at-the-top", "interrupted"])
def test_a_repair_of_an_earlier_run_keeps_its_format(earlier, name):
    """A result that its journal lacks is recorded in frames of format 1; what was there stays, and is still forked."""
    run = earlier(name)
    run.fork()
    run.program("resume", "forked", code=0)
    known = {record["trial"] for record in run.of_type("trial")}
    new = next(record for record in run.of_type("trial", "forked") if record["trial"] not in known)
    fields = {key: value for key, value in new.items() if key not in {"id", "type"}}
    write_result_file(RealFileSystem(), Layout(run.run), msgspec.convert({"type": "trial", **fields}, TrialRecord))
    before, finished = snapshot(run.run / "journal"), run.json("status", "run")["finished"]
    repaired = run.json("repair", "run")
    assert (repaired["difference"], repaired["session"] > 0) == (1, True)
    after = snapshot(run.run / "journal")
    assert {place: after[place] for place in before} == before
    assert formats_of(run.run) == {1}
    status = run.json("status", "run")
    assert (status["format"], status["finished"]) == (1, finished + 1)
    assert run.json("verify", "run", "--deep")["ok"]
    run.check_refused(run.resume(code=3))
    shutil.rmtree(run.directory / "forked")
    assert json.loads(run.fork().out)["taken"] == finished + 1


def test_cleaning_an_earlier_run_keeps_its_format(earlier):
    """Steps that do not lead to an answer are deleted, its frames are of format 1, and its report is the same."""
    run = earlier("solver-object")
    before = run.json("report", "run")
    assert run.json("clean", "run", "--steps")["steps"] > 0
    assert formats_of(run.run) == {1}
    assert run.json("report", "run") == before
    assert run.json("verify", "run", "--deep")["ok"]


@pytest.mark.parametrize("name", ["complete", "interrupted", "forked"])
def test_replies_of_an_earlier_run_are_reused(earlier, name):
    """By a new run of the same eval, which asks for nothing that is on record there, and pays for nothing of it."""
    run = earlier(name)
    before = snapshot(run.run)
    run.program("run", run.eval_file, "--run-dir", "again", "--reuse", "run", code=0)
    steps = run.of_type("step", "again")
    assert len([step for step in steps if step.get("source")]) >= run.expected["before"]["status"]["finished"]
    assert run.json("verify", "again", "--deep")["ok"]
    assert snapshot(run.run) == before
