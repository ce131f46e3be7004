"""Row 23 for scorers and solvers named in an eval file: what may change, what is refused, and files that are gone."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from holdfast.models import redaction
from holdfast.run.fold.reader import RunReader

MY = '''
"""Scorers and a solver."""
from helpers import folded

import unused_helper

LEAST = 1


def strict(answer, sample):
    # Whether it is right.
    return folded(answer.text) == folded(sample.target)


def long(answer, sample, threshold: float = 1.0):
    return len(answer.text) >= max(threshold, LEAST)


async def solve(trial):
    reply = await trial.generate(trial.sample.input)
    return reply.text


def second(answer, sample):
    return True
'''
HELPERS = "def folded(text):\n    return str(text).strip().lower()\n"


@pytest.fixture
def own(world):
    """An eval whose scorers and solver are in a file beside it, which imports two others."""
    directory = world.directory
    (directory / "my.py").write_text(MY)
    (directory / "helpers.py").write_text(HELPERS)
    (directory / "unused_helper.py").write_text("")
    world.task.update(scorers=["my.py:strict", {"my.py:long": {"threshold": 2}}], solver="my.py:solve")
    return world


def edited(world, old, new, name="my.py"):
    path = world.directory / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_scorers_and_a_solver_from_a_file_are_run(own):
    """Their scores have the names of the functions, also in --dry-run, and the rendered prompt is what is asked."""
    planned = own("run", own.write(), "--dry-run", code=0).out
    assert "scorers: strict, long" in planned and "as many calls as the task's own code makes" in planned
    own.run()
    own.check_complete(4)
    metrics = own.report()["tasks"]["t"]["m"]["metrics"]
    assert metrics["strict"]["mean"]["value"] == 0.75 and metrics["long"]["mean"]["value"] == 1.0
    assert own.json("show", "r", code=0)["trials"][0]["input"] == "q1"


HARMLESS = {
    "comment": ("# Whether it is right.", "# Something else."),
    "docstring": ('"""Scorers and a solver."""', '"""Other words."""'),
    "formatting": ("== folded(sample.target)", "== folded(\n        sample.target\n    )"),
    "what nothing uses": ("def second", "def third():\n    return 1\n\n\ndef second"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_resume_23_comments_and_formatting(own, name):
    """What does not change the code is no change."""
    own.begin()
    edited(own, *HARMLESS[name])
    assert "No difference." in own("diff", "r", own.write(), code=0).out
    own.resume(code=0)
    assert own.entries == []
    own.check_complete(4)


REFUSED = {
    "scorer": ("return folded(answer.text) ==", "return folded(answer.text) !=", "my.py", "scorers.strict (scoring)"),
    "constant of a scorer": ("LEAST = 1", "LEAST = 3", "my.py", "scorers.long (scoring)"),
    "solver": ("return reply.text", "return reply.text * 2", "my.py", "solver (identity)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_resume_23_code(own, name):
    """The code of a scorer and of the solver, and what they call, are refused by name, class and file."""
    own.begin()
    old, new, file, field = REFUSED[name]
    edited(own, old, new, file)
    for given in (True, False):
        told = own.refused(given=given)
        assert f"tasks.t.{field}: " in told and f" in {file} has changed" in told
        assert ("scores them again" in told) == ("scoring" in field)
        assert told.count("(identity)") + told.count("(scoring)") == 1
    assert own.json("diff", "r", own.write(), code=3)["refused"]


def test_resume_23_code_in_a_file_beside_the_scorer(holdfast, own):
    """Code that a scorer imports from beside its file is its own; the file that changed is named."""
    own.begin()
    edited(own, ".lower()", ".upper()", "helpers.py")
    told = holdfast("resume", "r", code=3)
    assert "tasks.t.scorers.strict (scoring): the code of helpers.folded() in helpers.py has changed\n" in told.err


def test_resume_23_arguments_and_references(own):
    """Other arguments of a scorer, another function and another solver are refused."""
    own.begin()
    own.task["scorers"][1] = {"my.py:long": {"threshold": 3}}
    assert 'tasks.t.scorers.long (scoring): {"threshold":2} → {"threshold":3}' in own.refused()
    own.task["scorers"][1] = {"my.py:second": {"name": "long", "threshold": 2}}
    assert "tasks.t.scorers.long (scoring): " in own.refused()
    own.task["scorers"][1] = {"my.py:long": {"threshold": 2}}
    own.task["solver"] = "my.py:other"
    assert "tasks.t.solver (identity): my.py:solve → my.py:other" in own.refused()
    del own.task["solver"]
    assert "tasks.t.solver (identity): my.py:solve → unset" in own.refused()


def test_resume_23_a_generated_solver_is_compared_by_what_it_asks(own):
    """The prompt of `solve = generate(...)` in a file is code too."""
    (own.directory / "ask.py").write_text('from holdfast import generate\n\nask = generate("{input}")\n')
    own.task["solver"] = "ask.py:ask"
    own.begin()
    edited(own, '"{input}"', '"Well: {input}"', "ask.py")
    assert "tasks.t.solver (identity): prompt in " in own.refused()


def test_resume_16_a_scorer_is_added(own):
    """The new scorer judges the answers on record, and its file is kept: a later resume needs no other."""
    own.run()
    edited(own, "def second", "def third(answer, sample):\n    return False\n\n\ndef second")
    own.task["scorers"].append("my.py:third")
    own.resume(code=0)
    assert own.entries == ["tasks.t.scorers.third: unset → added"]
    own.check_complete(4)
    assert own.report()["tasks"]["t"]["m"]["metrics"]["third"]["mean"]["value"] == 0.0
    for path in own.directory.glob("*.py"):
        path.unlink()
    own("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    own.check_complete(8)


def test_a_file_that_moved_is_a_change_of_place(own):
    """The same code at another path is applied and noted; other code there is refused as code."""
    own.begin()
    (own.directory / "code").mkdir()
    for name in ("my.py", "helpers.py", "unused_helper.py"):
        (own.directory / name).rename(own.directory / "code" / name)
    own.task.update(scorers=["code/my.py:strict", {"code/my.py:long": {"threshold": 2}}], solver="code/my.py:solve")
    own.resume(code=0)
    assert sorted(own.entries) == [
        "tasks.t.scorers.long: my.py:long → code/my.py:long",
        "tasks.t.scorers.strict: my.py:strict → code/my.py:strict",
        "tasks.t.solver: my.py:solve → code/my.py:solve",
    ]
    own.check_complete(4)
    edited(own, "answer.text) ==", "answer.text) !=", "code/my.py")
    assert "the code of strict() in my.py has changed" in own.refused()


def test_a_fork_scores_again_what_a_changed_scorer_has_scored(own):
    """The answers are kept, only the changed scorer judges them again, and no model is asked."""
    own.run()
    edited(own, "answer.text) ==", "answer.text) !=")
    told = own("fork", "r", "--run-dir", "f", code=0).out
    assert "4 planned, 0 kept" in told.replace("trials ", "") and "4 kept with their answers" in told
    own("resume", "f", code=0)
    metrics = own.json("report", "f", code=0)["tasks"]["t"]["m"]["metrics"]
    assert metrics["strict"]["mean"]["value"] == 0.25 and metrics["long"]["mean"]["value"] == 1.0
    assert own.json("status", "f", code=0)["calls"]["made"] == 0


def test_a_fork_asks_again_what_a_changed_solver_would_answer(own):
    """Nothing is kept where the code that asks has changed; all of it is where only a comment has."""
    own.run()
    edited(own, "# Whether it is right.", "# Or not.")
    assert own.json("fork", "r", "--run-dir", "same", code=0)["taken"] == 4
    edited(own, "return reply.text", "return reply.text.upper()")
    assert own.json("fork", "r", "--run-dir", "f", code=0)["taken"] == 0
    own.task["prompt"] = "Well: {question}"
    edited(own, "return reply.text.upper()", "return reply.text")
    assert own.json("fork", "r", "--config", own.write(), "--run-dir", "g", code=0)["taken"] == 0


def test_a_fork_needs_no_code_of_before(own):
    """A scorer whose file is gone can be replaced in a fork."""
    own.run()
    (own.directory / "new.py").write_text("def strict(answer, sample):\n    return True\n")
    edited(own, "def strict", "def gone")
    own.task["scorers"] = ["new.py:strict"]
    assert own.json("fork", "r", "--config", own.write(), "--run-dir", "f", code=0)["rescored"] == 4


def test_a_killed_run_needs_nothing_but_itself(holdfast, own, tmp_path):
    """Killed, moved away from its eval, and resumed from another directory after everything else was deleted."""
    own.data["concurrency_limit"] = 1
    assert holdfast("run", own.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(own.run_dir, elsewhere / "moved")
    for path in [*own.directory.glob("*.py"), own.directory / "eval.yaml", own.directory / "rows.jsonl"]:
        path.unlink()
    told = holdfast("resume", "elsewhere/moved", code=0)
    assert "tasks.t.solver: my.py → no longer exists; the run's own copy is used" in told.err
    shutil.move(elsewhere / "moved", own.run_dir)
    own.check_complete(4)
    assert own.report()["tasks"]["t"]["m"]["metrics"]["strict"]["mean"]["value"] == 0.75
    holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    own.check_complete(8)


def test_a_killed_run_in_real_processes_sees_changed_code(holdfast, own):
    """A killed run: a scorer may be formatted, and may not be changed; the deleted file is as good as the one kept."""
    own.data["concurrency_limit"] = 1
    assert holdfast("run", own.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    edited(own, "answer.text) ==", "answer.text) !=")
    before = own.everything()
    told = holdfast("resume", "r", code=3)
    assert "tasks.t.scorers.strict (scoring): the code of strict() in my.py has changed" in told.err
    assert own.everything() == before
    (own.directory / "my.py").unlink()
    holdfast("resume", "r", code=0)
    own.check_complete(4)


def test_a_copy_that_was_tampered_with_is_not_loaded(holdfast, own):
    """Code runs from a run only if it is what the run recorded; a process that has not read it before reads it."""
    own.begin()
    with_copy = RunReader(own.run_dir)
    copy = with_copy.layout.inputs / with_copy.sessions[-1].inputs["sources/t/my.py"].digest
    with_copy.close()
    copy.write_text(copy.read_text() + "\nprint('tampered')\n")
    (own.directory / "my.py").unlink()
    told = holdfast("resume", "r")
    assert told.code != 0 and "has changed" in told.err and "tampered" not in told.out


def test_a_module_is_kept_with_the_packages_around_it(holdfast, own):
    """`package.module:name` is loaded from the run's copies as well."""
    package = own.directory / "checks_in_package"
    package.mkdir()
    (package / "__init__.py").write_text("MEANING = True\n")
    (package / "rules.py").write_text(
        "from . import MEANING\nfrom .words import word\n\ndef right(answer, sample):\n    return MEANING and word()\n"
    )
    (package / "words.py").write_text("def word():\n    return True\n")
    own.task.update(scorers=["checks_in_package.rules:right"])
    own.data["concurrency_limit"] = 1
    assert holdfast("run", own.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    shutil.rmtree(package)
    holdfast("resume", "r", code=0)
    own.check_complete(4)
    assert own.report()["tasks"]["t"]["m"]["metrics"]["right"]["mean"]["value"] == 1.0


def test_a_file_that_only_passes_on_is_kept_too(holdfast, own):
    """The file that is named is needed, also where it defines nothing itself."""
    (own.directory / "index.py").write_text("from my import strict\nfrom holdfast import exact\n\nplain = exact()\n")
    own.task.update(scorers=["index.py:strict", "index.py:plain"])
    own.data["concurrency_limit"] = 1
    assert holdfast("run", own.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    for path in own.directory.glob("*.py"):
        path.unlink()
    holdfast("resume", "r", code=0)
    own.check_complete(4)


def test_a_scorer_that_fails_fails_alone(own):
    """What a scorer of one's own raises is its slot's, and names the line."""
    edited(own, "    return True", "    raise ValueError('my bug')")
    own.task["scorers"].append("my.py:second")
    told = own.run(code=1)
    assert "my bug" in told.err
    edited(own, "    raise ValueError('my bug')", "    return True")
    assert "the code of second() in my.py has changed" in own.refused()


LOOKS = (["show", "r"], ["report", "r"], ["status", "r"], ["verify", "r", "--deep"], ["repair", "r"])


@pytest.mark.parametrize("is_gone", [True, False])
def test_looking_at_a_run_executes_no_code_of_it(holdfast, own, is_gone):
    """Neither copies nor the files where they are, are loaded: whoever is given a run can look at it."""
    own.write()
    edited(own, "LEAST = 1", "LEAST = 1\nopen('loaded', 'w').close()")
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    (own.directory / "loaded").unlink()
    for path in own.directory.glob("*.py") if is_gone else ():
        path.unlink()
    for words in LOOKS:
        told = holdfast(*words, code=0)
        assert not (own.directory / "loaded").exists(), words
        assert "could not be made again" not in told.out, words


def test_the_grid_of_a_solver_with_several_prompts_needs_no_code(holdfast, own):
    """The prompts of a solver in a file are an axis, which the run has recorded."""
    (own.directory / "ask.py").write_text(
        'from holdfast import generate\n\nask = generate({"plain": "{input}", "loud": "{input}!"})\n'
    )
    own.data["datasets"]["rows"]["fields"] = {"input": "question"}
    own.task.update(solver="ask.py:ask", scorers=["exact"])
    own.task.pop("prompt", None)
    own.run()
    (own.directory / "ask.py").unlink()
    assert "8 trials in the planned grid" in holdfast("verify", "r", "--deep", code=0).out


KEY = "sk-proj-abcdefghijklmnop1234567890"


QUOTED = f'KEY = "{KEY}"'


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("my.py", QUOTED),
        ("helpers.py", QUOTED),
        ("unused_helper.py", QUOTED),
        ("my.py", f"# {KEY}"),
        ("helpers.py", f"KEY = f'{KEY}{{1}}'"),
    ],
)
def test_a_file_with_a_key_is_not_copied(own, name, line):
    """The key is nowhere in the run; the file that holds it is named once, and the others are copied."""
    with (own.directory / name).open("a") as file:
        file.write(f"\n{line}\n")
    warning = (
        f"{name} holds something that looks like a key, so no copy of it is kept in the run; resume needs the file."
    )
    assert own("run", own.write(), "--dry-run", code=0).err.count(warning) == 1
    told = own.run()
    assert told.err.count(warning) == 2, "before the start, and once more at the end"
    assert KEY not in told.err + told.out
    with contextlib.closing(RunReader(own.run_dir)) as reader:
        inputs = reader.sessions[-1].inputs
    assert {path for path in ("my.py", "helpers.py", "unused_helper.py") if f"sources/t/{path}" not in inputs} == {name}
    assert not any(KEY.encode() in path.read_bytes() for path in own.run_dir.rglob("*") if path.is_file())


def test_a_resume_needs_a_file_with_a_key(holdfast, own):
    """While the file exists the run is resumed as any other; once it is gone, the message names it."""
    edited(own, HELPERS, f"{HELPERS}{QUOTED}\n", "helpers.py")
    own.run()
    holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    own.check_complete(8)
    (own.directory / "helpers.py").unlink()
    (own.directory / "my.py").unlink()
    assert "helpers" in holdfast("resume", "r", "--set", "tasks.t.epochs=3", code=2).err


def test_a_known_secret_is_a_key_in_whatever_form(own, monkeypatch):
    """The value of a key that the process has read is not copied either."""
    monkeypatch.setattr(redaction, "known_secrets", redaction.Secrets())
    redaction.known_secrets.remember("MY_KEY", "correct horse battery")
    (own.directory / "unused_helper.py").write_text('PASSWORD = "correct horse battery"\n')
    assert "unused_helper.py holds something that looks like a key" in own.run().err


def test_names_are_not_keys(own):
    """A function whose name has the form of a key does not keep its file from being copied."""
    (own.directory / "unused_helper.py").write_text("def hf_hub_download_file():\n    pass\n")
    assert "looks like a key" not in own.run().err
