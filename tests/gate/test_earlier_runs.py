"""Runs of the commit before the keys `deadline` and `grace` were renamed, each killed at another point, go on as ever.

`tests/data/earlier/make.py` made them, and recorded what that commit's own program makes of them. Their saved keys are
read under their new names, and their digests of code, which name the modules of that time, are compared by the rule of
that time. A copy of each is resumed here, compared, forked, and offered code that was edited.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_calls import call
from durable import snapshot

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
REASONS = {"not scored": "not yet scored", "task error": "failed before"}


def with_earlier_words(value: Any) -> Any:
    """What the program says, as the earlier one said it.

    That one took a trial that only lacks the score of an added scorer for finished in reports and in `verify`, and
    for unfinished in `status`.
    """
    if isinstance(value, list):
        return [with_earlier_words(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {KEYS.get(key, key): with_earlier_words(item) for key, item in value.items()}
    if isinstance(found.get("usage"), dict):
        # Figures that are 0 were left out.
        found["usage"] = {name: count for name, count in found["usage"].items() if count}
    if "cost" in found:
        # It was 0 where no price is known, and was added up in another way.
        found["cost"] = pytest.approx(found["cost"] or 0.0)
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

    def refused(self, *words: object) -> str:
        """A resume that is refused and leaves every file as it was; what it said."""
        before = snapshot(self.run)
        told = self.resume(*words, code=3)
        assert snapshot(self.run) == before
        assert "Resume aborted: " in told.err and told.out == ""
        return told.err

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

    def check_kept(self, before: list[dict[str, Any]]) -> None:
        """Every record of before is there unchanged, and no trial that was finished then was asked again."""
        now = {tuple(record["id"]): record for record in self.records()}
        assert [record for record in before if now.get(tuple(record["id"])) != record] == []
        known = {tuple(record["id"]) for record in before}
        later = [record for place, record in now.items() if place not in known]
        ended = {record["trial"] for record in before if record["type"] == "trial"}
        assert not ended & {record["trial"] for record in later if record["type"] in {"call", "step", "trial"}}
        keys = [record["trial"] for record in now.values() if record["type"] == "trial"]
        assert len(keys) == len(set(keys)) == self.expected["after"]["status"]["planned"]


@pytest.fixture
def earlier(tmp_path, monkeypatch, holdfast, capfdbinary):
    """Makes the copy of a run."""
    monkeypatch.chdir(tmp_path)

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
def test_an_earlier_run_goes_on(earlier, name):
    """It completes; what was finished is unchanged and not asked again; its report is the earlier program's."""
    run = earlier(name)
    before = run.records()
    run.resume(code=0)
    run.check(run.expected["after"])
    run.check_kept(before)
    journal = run.records()
    told = run.resume(code=0)
    planned = run.expected["after"]["status"]["planned"]
    assert f"complete, {planned} of {planned}" in told.out and "edited" not in told.err
    assert run.records() == journal


@pytest.mark.parametrize("name", OWED)
def test_saved_keys_are_read_under_their_new_names(earlier, name):
    """The next session has the saved values under the new names; that is no change, and nobody is told of one."""
    run = earlier(name)
    saved = saved_keys(run.of_type("session")[-1]["config"], RENAMED)
    assert {"all retry_deadline", "all grace_period"} < set(saved)
    told = run.resume(code=0)
    session = run.of_type("session")[-1]
    assert saved_keys(session["config"], {new: new for new in RENAMED.values()}) == saved
    assert saved_keys(session["config"], {old: old for old in GONE}) == {}
    changed = [change["path"] for change in session.get("changes", [])]
    assert changed == (["directory"] if name == "moved" else [])
    assert "deadline" not in told.err and "grace" not in told.err


@pytest.mark.parametrize("name", WITH_EVAL)
def test_an_eval_with_the_new_names_is_the_same_eval(earlier, name):
    """`diff` shows what the earlier program shows for the earlier names: nothing where nothing differs."""
    run = earlier(name)
    before = snapshot(run.run)
    told = json.loads(run.program("diff", "run", run.eval_file, "--json", code=0).out)
    expected = {
        ".".join(RENAMED.get(part, part) for part in path.split(".")): verdict
        for path, verdict in run.expected["diff"].items()
    }
    assert {item["path"]: item["verdict"] for item in told["differences"]} == expected
    assert snapshot(run.run) == before


@pytest.mark.parametrize("name", ["keys-at-the-top", "keys-in-runner", "closures", "named-by-path"])
def test_the_command_that_began_an_earlier_run_goes_on_with_it(earlier, name):
    """`run --or-resume` passes the same gate, once the eval has the new names."""
    run = earlier(name)
    before = run.records()
    run.program("run", run.eval_file, "--run-dir", "run", "--or-resume", code=0)
    run.check(run.expected["after"])
    run.check_kept(before)


@pytest.mark.parametrize("name", RUNS)
def test_a_fork_of_an_earlier_run_keeps_what_is_finished(earlier, name):
    """A fork takes over every finished trial, and comes to the same report."""
    run = earlier(name)
    before = snapshot(run.run)
    told = json.loads(run.program("fork", "run", "--run-dir", "forked", *run.words, "--json", code=0).out)
    assert told["taken"] == run.expected["before"]["status"]["finished"]
    told["owed"] = told["remaining_by_reason"]
    assert {key: told[key] for key in run.expected["fork"]} == run.expected["fork"]
    assert snapshot(run.run) == before
    run.program("resume", "forked", code=0)
    run.check_report(run.expected["after"]["report"], "forked")
    config = run.of_type("session", "forked")[-1]["config"]
    assert saved_keys(config, {old: old for old in GONE}) == {}
    assert run.json("verify", "forked")["ok"]


# config.yaml, and settings that are offered.


@pytest.mark.parametrize("name", ["keys-at-the-top", "keys-in-runner", "keys-changed", "closures"])
def test_a_saved_value_that_is_edited_by_hand_is_refused(earlier, name):
    """In the config.yaml of an earlier run comments may be edited, and values may not, whatever they are called.

    That holds before a session of this version and after it.
    """
    run = earlier(name)
    config = run.run / "config.yaml"
    text = config.read_text().replace("# Created by", "# Once created by")
    edited = [re.sub(rf"^  {key}: .*$", f"  {key}: 1234.5", text, flags=re.MULTILINE) for key in RENAMED]
    for _ in ("before", "after"):
        for other in edited:
            assert other != text
            config.write_text(other)
            assert "edited by hand" in run.refused()
        config.write_text(text)
        run.resume(code=0)
        run.check(run.expected["after"])


@pytest.mark.parametrize("name", ["keys-at-the-top", "keys-in-runner", "config-behind"])
def test_config_yaml_with_the_new_names_says_the_same(earlier, name):
    """Keys that a person renames in config.yaml are no edited values; a file that is gone is written with them."""
    run = earlier(name)
    config = run.run / "config.yaml"
    text = config.read_text()
    if name != "config-behind":
        for old, new in RENAMED.items():
            text = re.sub(rf"\b{old}: ", f"{new}: ", text)
        config.write_text(text)
    run.resume(code=0)
    run.check(run.expected["after"])
    config.unlink()
    assert "config.yaml was missing" in run.resume(code=0).err
    keys = re.findall(r"^ +(\w+): ", config.read_text(), flags=re.MULTILINE)
    assert set(RENAMED.values()) <= set(keys) and not GONE & set(keys)
    assert "config.yaml" not in run.resume(code=0).err


def test_settings_that_are_offered_have_the_new_names(earlier):
    """A change of the one is refused and a change of the other is applied, against the values that were saved."""
    run = earlier("keys-at-the-top")
    assert "runner.retry_deadline (recorded): 120.0 → 60.0" in run.refused("--set", "retry_deadline=60")
    run.resume("--set", "retry_deadline=120", "--set", "grace_period=1.5", code=0)
    assert run.of_type("session")[-1]["changes"] == [{"path": "runner.grace_period", "old": 7.0, "new": 1.5}]
    assert "#   - runner.grace_period: 7.0 → 1.5\n" in (run.run / "config.yaml").read_text()
    run.check(run.expected["after"])


# The code of tasks in Python.


@pytest.mark.parametrize("name", IN_PYTHON)
def test_code_that_asks_otherwise_is_refused(earlier, name):
    """By the rule of that time, another text in a prompt is another solver; another comment is none."""
    run = earlier(name)
    run.edit("in one word", "in two words")
    told = run.refused()
    assert "(identity): " in told and "tasks.py" in told and "`holdfast fork`" in told
    run.edit("in two words", "in one word")
    run.edit("# As a clerk would.", "# As anybody would.\n\n")
    before = run.records()
    run.resume(code=0)
    run.check(run.expected["after"])
    run.check_kept(before)


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
def test_code_that_judges_otherwise_is_refused(earlier, name, old, new, scorer):
    """By the rule of that time, a scorer over other parts is another scorer, and is named; the solver is the same."""
    run = earlier(name)
    run.edit(old, new)
    told = run.refused()
    assert f".scorers.{scorer} (scoring): scorer → {scorer} changed in tasks.py" in told
    assert "(identity)" not in told
    run.edit(new, old)
    run.resume(code=0)
    run.check(run.expected["after"])


@pytest.mark.parametrize("name", sorted(set(IN_PYTHON) & set(OWED) - {"moved"}))
def test_code_is_compared_after_a_session_of_this_version(earlier, name):
    """An earlier run that is resumed and killed again goes on with the same code, and with no other."""
    run = earlier(name)
    before = run.records()
    run.resume(code=-9, HOLDFAST_CRASH_AT="session.opened")
    assert len(run.of_type("session")) == 1 + len([item for item in before if item["type"] == "session"])
    run.edit("in one word", "in two words")
    assert "(identity): " in run.refused()
    run.edit("in two words", "in one word")
    run.edit("# As a clerk would.", "# As anybody would.")
    run.resume(code=0)
    run.check_kept(before)
    report = with_earlier_words(run.json("report", "run"))
    assert {key: report[key] for key in run.expected["after"]["report"]} == run.expected["after"]["report"]
    assert run.json("verify", "run", "--deep")["ok"]


def test_a_task_file_that_imports_what_has_moved(earlier):
    """It is told in one sentence, and the run stays as it is; once the import is mended, the code is the same."""
    run = earlier("inner-imports", mended=False)
    before = snapshot(run.run)
    told = run.resume(code=2)
    assert "holdfast.spec.task" in told.err and "tasks.py line " in told.err
    assert snapshot(run.run) == before
    run.mend()
    run.resume(code=0)
    run.check(run.expected["after"])


def test_an_eval_in_another_place(earlier):
    """A run that knows where its task file was says so where it is gone, and goes on with the file as it is now."""
    run = earlier("moved")
    shutil.move(run.directory / "code", run.directory / "elsewhere")
    assert "code/tasks.py" in run.resume(code=2).err
    eval_file = run.directory / "eval.yaml"
    eval_file.write_text(eval_file.read_text().replace("code/tasks.py", "elsewhere/tasks.py"))
    run.resume(code=0)
    changes = {change["path"] for change in run.of_type("session")[-1]["changes"]}
    assert changes == {"directory", "tasks.asked.use"}
    run.check(run.expected["after"])


def test_a_script_goes_on_with_its_earlier_run(earlier):
    """The call of evaluate() that began a run goes on with it, once its keys have the new names."""
    run = earlier("script")
    before = run.records()
    command = [sys.executable, "/proc/self/cwd/tasks.py"]
    done = subprocess.run(command, cwd=run.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run.check_kept(before)
    run.check(run.expected["after"])
