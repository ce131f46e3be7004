"""Row 23: tasks in Python whose files are edited between a run and its resume; evaluate() on a run that is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from holdfast import ResumeAborted, Sample, Task, evaluate, exact, generate
from holdfast.run.fold.reader import RunReader
from program import until

SOURCE = '''
"""A task."""
from helpers import polite
from holdfast import Sample, Task, scorer, task

SUFFIX = "!"


def ending(text):
    return text + SUFFIX


async def solve(trial):
    # What is asked.
    reply = await trial.generate(polite(ending(trial.sample.input)))
    return reply.text


def right(text):
    return text.endswith("!")


@scorer
def judged(answer, sample):
    return right(answer.text)


@task
def t():
    return Task(samples=[Sample("a", id="s1"), Sample("b", id="s2")], solver=solve, scorers=judged, system="Be kind.",
                epochs=2)
'''
LENGTH = """@scorer
def length(answer, sample):
    return float(len(answer.text))


"""
HELPERS = 'def polite(text):\n    return f"Please: {text}"\n'


def prepared(world, source=SOURCE, **entry):
    """An eval of a task in Python."""
    (world.directory / "task.py").write_text(source)
    (world.directory / "helpers.py").write_text(HELPERS)
    world.data["tasks"] = {"t": {"use": "task.py:t", **entry}}
    world.data["datasets"] = {}


def edited(world, old, new, name="task.py"):
    path = world.directory / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


HARMLESS = {
    "comment": ("# What is asked.", "# Something else.\n\n"),
    "docstring": ('"""A task."""', '"""Another task."""'),
    "blank lines": ("\n\n\n", "\n\n\n\n\n"),
    "quotes": ('"Be kind."', "'Be kind.'"),
    "line breaks": ("return text + SUFFIX", "return (\n        text\n        + SUFFIX\n    )"),
    "a function that nothing uses": ("def ending", "def unused():\n    return 1\n\n\ndef ending"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_resume_23_comments_and_formatting(world, name):
    """What does not change the code is no change."""
    prepared(world)
    world.begin()
    edited(world, *HARMLESS[name])
    world.resume(code=0)
    assert world.entries == []
    world.check_complete(4)


REFUSED = {
    "solver": ("reply = await", "reply = reply2 = await", "identity", "the code of solve() in "),
    "helper of the solver": (
        "return text + SUFFIX",
        "return text * 2",
        "identity",
        "the code of ending() in task.py has",
    ),
    "constant of the solver": (
        'SUFFIX = "!"',
        'SUFFIX = "!!"',
        "identity",
        "SUFFIX in task.py has changed: '!' → '!!'",
    ),
    "scorer": (
        "return right(answer.text)",
        "return not right(answer.text)",
        "scoring",
        "the code of judged() in task.py has changed",
    ),
    "helper of the scorer": (
        'text.endswith("!")',
        "len(text) > 1",
        "scoring",
        "the code of right() in task.py has changed",
    ),
    "scorer left out": ("scorers=judged", "scorers='exact'", "scoring", "the scorer judged is no longer in "),
    "system text": ('system="Be kind."', 'system="Be brief."', "identity", "system in "),
    "limits": ("epochs=2", "limits=TrialLimits(tokens=9)", "identity", "limits in "),
    "samples": ('Sample("a", id="s1")', 'Sample("c", id="s1")', "identity", "input edited: s1"),
    "targets": ('Sample("a", id="s1")', 'Sample("a", id="s1", target="a")', "scoring", "target edited: s1"),
    "axes": ("epochs=2", "axes={'tier': ['a', 'b']}", "identity", "none → tier"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_resume_23_code(world, name):
    """Code of the solver and of a scorer, what they call, and what the task sets are refused by file and class."""
    prepared(world, SOURCE.replace("import Sample", "import TrialLimits, Sample"))
    world.begin()
    old, new, drift, message = REFUSED[name]
    edited(world, old, new)
    for given in (True, False):
        told = world.refused(given=given)
        assert f"({drift}): " in told and message in told
        way_out = "`holdfast rescore`" if drift == "scoring" else "`holdfast fork`"
        assert way_out in told and ("scores them again" in told) == (drift == "scoring")
        assert told.count("(identity)") + told.count("(scoring)") == 1
        assert "task.py" in told or drift != "identity" or "edited" in told or name == "axes"


def test_resume_23_code_in_a_file_beside_the_task(holdfast, world):
    """Code that the solver imports from beside its file is the task's own; the file that changed is named."""
    prepared(world)
    world.begin()
    edited(world, "Please", "Kindly", "helpers.py")
    before = world.everything()
    ended = holdfast("resume", "r", code=3)
    assert "tasks.t.use (identity): the code of helpers.polite() in helpers.py has changed\n" in ended.err
    assert world.everything() == before


def test_resume_23_in_real_processes(holdfast, world):
    """A killed run: its code may be formatted, and may not be changed."""
    prepared(world)
    world.data["concurrency_limit"] = 1
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    edited(world, "return text + SUFFIX", "return text + SUFFIX + SUFFIX")
    before = world.everything()
    ended = holdfast("resume", "r", code=3)
    assert "the code of ending() in task.py has changed" in ended.err and "`holdfast fork`" in ended.err
    assert world.everything() == before
    edited(world, "return text + SUFFIX + SUFFIX", "# as before\n    return (text + SUFFIX)")
    holdfast("resume", "r", code=0)
    world.check_complete(4)


PROMPTS = """
from holdfast import Sample, Task, exact, generate, task

@task
def t():
    return Task(samples=[Sample("a", target="a")], solver=generate({PROMPT}), scorers=exact())
"""


def test_resume_23_prompt_of_a_python_task(world):
    """The prompt of the built-in solver is compared though no code of one's own is behind it."""
    prepared(world, PROMPTS.replace("{PROMPT}", '"{input}"'))
    world.begin()
    edited(world, '"{input}"', '"Well: {input}"')
    assert "tasks.t.use (identity): prompt in task.py has changed" in world.refused()
    edited(world, '"Well: {input}"', '"{input}", temperature=0.5')
    assert "generation in task.py has changed" in world.refused()
    edited(world, '"{input}", temperature=0.5', '"{input}", few_shot=[("x", "y")]')
    assert "few_shot in task.py has changed" in world.refused()


def test_resume_16_prompt_variant_of_a_python_task_added(world):
    """A variant more is growth; the prompts that were there must stay as they were."""
    prepared(world, PROMPTS.replace("{PROMPT}", '{"plain": "{input}"}'))
    world.run()
    edited(world, '"{input}"}', '"{input}", "polite": "Please: {input}"}')
    world.resume(code=0)
    assert world.entries == ["tasks.t.prompt: unset → polite"]
    world.check_complete(2)
    edited(world, '"plain": "{input}"', '"plain": "{input}?"')
    assert "prompt plain in task.py has changed" in world.refused()


def test_resume_16_a_python_task_asks_for_more(world):
    """Epochs, axis values, samples and scorers that the code adds are run and noted."""
    prepared(world, SOURCE.replace("epochs=2", "axes={'tier': ['a']}"))
    world.run()
    edited(world, "axes={'tier': ['a']}", "axes={'tier': ['a', 'b']}, epochs=2")
    edited(world, 'Sample("b", id="s2")', 'Sample("b", id="s2"), Sample("c", id="s3", target="c")')
    world("resume", "r", code=0)
    assert world.entries == [
        "tasks.t.dataset: 2 samples → 3 samples",
        "tasks.t.epochs: 1 → 2",
        "tasks.t.tier: unset → b",
    ]
    world.check_complete(12)
    edited(world, "scorers=judged", "scorers=[judged, 'includes']")
    assert "needs a target" in world.resume(code=2).err
    edited(world, "'includes'", "length")
    edited(world, "def right", LENGTH + "def right")
    world("resume", "r", code=0)
    assert world.entries[3:] == ["tasks.t.scorers.length: unset → added"]
    world.check_complete(12)
    assert world.report()["tasks"]["t"]["m"]["metrics"]["length"]["mean"]["n_trials"] == 12


def test_resume_17_a_python_task_asks_for_less(world):
    """What the code no longer asks for stands in the run, is told, and is still run where it remains."""
    prepared(world, SOURCE.replace("epochs=2", "epochs=2, axes={'tier': ['a', 'b']}"))
    world.begin()
    edited(world, "epochs=2, axes={'tier': ['a', 'b']}", "axes={'tier': ['b']}")
    edited(world, 'Sample("a", id="s1"), ', "")
    told = world("resume", "r", code=0)
    assert "tasks.t.epochs: 2 → 1; existing results are kept" in told.err
    assert "tasks.t.tier: a → left out; existing results are kept" in told.err
    assert "tasks.t.dataset: 2 samples → without s1; existing results are kept" in told.err
    assert world.entries == []
    world.check_complete(8)
    assert "complete, 8 of 8" in world("resume", "r", code=0).out


@pytest.mark.parametrize(
    ("saved", "offered", "trials", "entries"),
    [
        ({}, {"epochs": 3}, 6, ["tasks.t.epochs: 2 → 3"]),
        ({}, {"epochs": 1}, 4, []),
        ({"epochs": 3}, {}, 6, []),
        ({"epochs": 1}, {}, 4, ["tasks.t.epochs: 1 → 2"]),
        ({"limit": 1}, {}, 4, ["tasks.t.limit: 1 → unset"]),
        ({}, {"limit": 1}, 4, []),
        ({"limit": 1}, {"limit": 2}, 4, ["tasks.t.limit: 1 → 2"]),
    ],
)
def test_resume_16_and_17_an_eval_over_what_a_python_task_brings(world, saved, offered, trials, entries):
    """Epochs and limit of the eval are compared with what the task itself would have asked for."""
    prepared(world, **saved)
    world.run()
    world.data["tasks"]["t"] = {"use": "task.py:t", **offered}
    told = world.resume(code=0)
    assert world.entries == entries
    assert ("existing results are kept" in told.err) == (not entries)
    world.check_complete(trials)
    assert f"complete, {trials} of {trials}" in world("resume", "r", code=0).out


def test_resume_16_a_python_task_is_added(world):
    """The new task is run, and the file it comes from is copied like those of the others."""
    prepared(world)
    world.run()
    (world.directory / "second.py").write_text(SOURCE.replace("def t()", "def u()").replace("epochs=2", "epochs=1"))
    world.data["tasks"]["u"] = {"use": "second.py:u"}
    world.resume(code=0)
    world.check_complete(6)
    reader = RunReader(world.run_dir)
    assert {"sources/t/task.py", "sources/u/second.py", "tasks/u"} <= set(reader.sessions[-1].inputs)
    reader.close()


def test_a_task_file_that_moved_is_a_change_of_place(world):
    """The same code at another path goes on; other code there is refused as code."""
    prepared(world)
    world.begin()
    (world.directory / "code").mkdir()
    for name in ("task.py", "helpers.py"):
        (world.directory / name).rename(world.directory / "code" / name)
    world.data["tasks"]["t"]["use"] = "code/task.py:t"
    world.resume(code=0)
    assert world.entries == ["tasks.t.use: task.py:t → code/task.py:t"]
    world.check_complete(4)
    edited(world, "text + SUFFIX", "text", "code/task.py")
    assert "the code of ending() in task.py has changed" in world.refused()


def test_a_complete_run_needs_no_code(world):
    """Where nothing remains and nothing is offered, code that cannot be loaded any more is one line, and no matter."""
    prepared(world)
    world.run()
    (world.directory / "task.py").write_text("raise ValueError('broken')")
    told = world("resume", "r", code=0)
    assert "complete, 4 of 4" in told.out
    (line,) = [line for line in told.err.splitlines() if "broken" in line]
    assert line.startswith("note: The eval was not compared, and nothing is left to run: ") and "task.py" in line
    assert "task.py" in world("resume", "r", "--set", "concurrency_limit=2", code=2).err


def test_a_task_file_that_is_gone_is_taken_from_the_run(holdfast, world):
    """A killed run is resumed from its own copies when the task's files are deleted, and says so."""
    prepared(world)
    world.data["concurrency_limit"] = 1
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    for name in ("task.py", "helpers.py", "eval.yaml"):
        (world.directory / name).unlink()
    told = holdfast("resume", "r", code=0)
    assert "tasks.t.use: task.py → no longer exists; the run's own copy is used" in told.err
    world.check_complete(4)


FROM_FILE = """
import os
import signal
import time

from holdfast import Task, exact, generate, task

if os.environ.get("HOLD"):
    open("loaded", "w").close()
    time.sleep(60)


@task
def t():
    return Task(dataset="data/d.jsonl", solver=generate(), scorers=exact())
"""


def run_from_file(world):
    """A run of a task whose dataset lies below its own file; that file is deleted afterwards."""
    (world.directory / "code" / "data").mkdir(parents=True)
    (world.directory / "code" / "data" / "d.jsonl").write_text('{"input": "a", "target": "a"}\n')
    (world.directory / "code" / "own.py").write_text(FROM_FILE)
    world.data.update(tasks={"t": {"use": "code/own.py:t"}}, datasets={})
    world.run()
    (world.directory / "code" / "own.py").unlink()


def test_the_dataset_of_a_task_that_is_gone_is_where_it_was(holdfast, world):
    """Paths in code that is loaded from the run's copy start at the file that was copied."""
    run_from_file(world)
    told = holdfast("diff", "r", world.write(), code=0).out
    assert "own.py → no longer exists" in told and "d.jsonl" not in told
    with (world.directory / "code" / "data" / "d.jsonl").open("a") as rows:
        rows.write('{"input": "b", "target": "b"}\n')
    assert "d.jsonl" not in holdfast("resume", "r", "--config", world.write(), code=0).err
    world.check_complete(2)
    (world.directory / "code" / "data" / "d.jsonl").unlink()
    assert "d.jsonl → no longer exists" in holdfast("diff", "r", world.write(), code=0).out


def test_an_interrupt_leaves_no_copies_behind(holdfast, world):
    """Code that was unpacked to be loaded is deleted, also where the process is ended at once."""
    run_from_file(world)
    copies = world.directory / "temporary"
    copies.mkdir()
    started = holdfast.start("diff", "r", world.write(), HOLD="1", TMPDIR=str(copies))
    until((world.directory / "loaded").exists, "the copy is being loaded")
    started.send(signal.SIGINT)
    assert started.wait().code == 130
    assert list(copies.iterdir()) == []


OWN_COLUMNS = """
from holdfast import Task, exact, generate, task
from holdfast.spec import DatasetSpec

open("loaded", "w").close()


@task
def t():
    return Task(dataset=DatasetSpec(path="d.jsonl", fields={"input": "q"}), solver=generate(), scorers=exact())
"""


def test_looking_at_a_run_executes_no_code_of_a_task(holdfast, world):
    """The task's file is not loaded where it is, though it alone says which column is the input."""
    (world.directory / "d.jsonl").write_text('{"q": "well", "target": "well"}\n')
    prepared(world, OWN_COLUMNS)
    world.run()
    (world.directory / "loaded").unlink()
    for words in (["report", "r"], ["status", "r"], ["verify", "r", "--deep"], ["repair", "r"]):
        assert "could not be made again" not in holdfast(*words, code=0).out
    (trial,) = holdfast.json("show", "r", code=0)["trials"]
    assert trial["input"] == "well"
    assert not (world.directory / "loaded").exists()


# In Python.


def capitals(prompt="{input}", **keys):
    samples = [Sample("Paris", id="f", target="Paris"), Sample("Rome", id="i", target="Rome")]
    return Task(name="capitals", samples=keys.pop("samples", samples), solver=generate(prompt), scorers=exact(), **keys)


def test_evaluate_passes_through_the_gate(world):
    """The eval that evaluate() is given is offered to the run that is there."""
    evaluate(capitals(), ["scripted/echo"], run="r", concurrency_limit=8).close()
    before = world.everything()
    with evaluate(capitals(), ["scripted/echo"], run="r", concurrency_limit=8) as run:
        assert run.is_complete and run.ended.exit_code == 0
    assert world.everything() == before
    with pytest.raises(ResumeAborted, match=r"prompt in .* has changed") as refused:
        evaluate(capitals("{input}?"), ["scripted/echo"], run="r", concurrency_limit=8)
    assert isinstance(refused.value, RuntimeError)
    with pytest.raises(ResumeAborted, match=r"seed \(identity\): 0 → 7"):
        evaluate(capitals(), ["scripted/echo"], run="r", seed=7)
    changed = {"scripted/echo": {"provider": "scripted", "model": "echo", "generation": {"temperature": 1}}}
    with pytest.raises(ResumeAborted, match=r"generation\.temperature \(identity\)"):
        evaluate(capitals(), changed, run="r", concurrency_limit=8)
    assert world.everything() == before


def test_evaluate_applies_and_records_what_may_change(world):
    """Throughput is applied, growth is run, and both stand in the lineage."""
    evaluate(capitals(), ["scripted/echo"], run="r", concurrency_limit=8).close()
    with evaluate([capitals(epochs=2)], ["scripted/echo"], run="r", concurrency_limit=2) as run:
        assert run.planned == run.finished == 4 and run.is_complete
        assert [session.ended_as for session in run.lineage] == ["completed", "completed"]
        assert [change.path for change in run.lineage[1].changes] == [
            "runner.concurrency_limit",
            "tasks.capitals.epochs",
        ]
        assert (run.lineage[1].finished, run.lineage[1].calls) == (2, 2)
    assert world.entries == ["runner.concurrency_limit: 8 → 2", "tasks.capitals.epochs: 1 → 2"]


def test_evaluate_keeps_what_is_no_longer_asked_for(world):
    """Fewer samples are no reason to forget any."""
    evaluate(capitals(), ["scripted/echo"], run="r").close()
    fewer = capitals(samples=[Sample("Rome", id="i", target="Rome")])
    with evaluate(fewer, ["scripted/echo"], run="r") as run:
        assert run.planned == run.finished == 2
    third = capitals(samples=[Sample("Rome", id="i", target="Rome"), Sample("Oslo", id="n", target="Oslo")])
    with evaluate(third, ["scripted/echo"], run="r") as run:
        assert run.planned == run.finished == 3 and run.is_complete
    with pytest.raises(ResumeAborted, match="input edited: n"):
        evaluate(capitals(samples=[Sample("Bergen", id="n", target="Oslo")]), ["scripted/echo"], run="r")
    with pytest.raises(ResumeAborted, match="this is a different eval"):
        evaluate(capitals(samples=[Sample("Bern", id="b", target="Bern")]), ["scripted/echo"], run="r")


def test_a_task_of_a_process_is_resumed_from_python_only(world):
    """The command line cannot make such a task again: it says how to go on."""
    evaluate(capitals(), ["scripted/echo"], run="r").close()
    told = world("resume", "r", "--set", "concurrency_limit=2", code=2)
    assert "evaluate(tasks, models, run=PATH)" in told.err


NOTEBOOK = """
from holdfast import Sample, Task, evaluate, exact, generate, task

@task
def capitals():
    return Task(samples=[Sample("Paris", target="Paris")], solver=generate(), scorers=exact())

run = evaluate(capitals(), ["scripted/echo"], run="r", **{KEYS})
print(len(run.lineage), run.is_complete, run.ended.exit_code)
"""


def test_a_script_is_gone_on_with_by_the_command_line_and_back(holdfast, world):
    """A task in a file is the same one, whoever carries it out."""
    script = world.directory / "script.py"
    for keys, told in (({}, "1 True 0"), ({}, "1 True 0"), ({"concurrency_limit": 2}, "2 True 0")):
        script.write_text(NOTEBOOK.replace("{KEYS}", repr(keys)))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=os.environ)
        assert done.stdout.strip() == told, done.stderr
    assert "complete, 1 of 1" in holdfast("resume", "r", code=0).out
    told = holdfast("resume", "r", "--set", "epochs=2", code=0)
    assert json.loads(world("status", "r", "--json").out)["planned"] == 2, told
