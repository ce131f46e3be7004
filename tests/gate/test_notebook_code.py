"""Rows 60c, 60d and 81: code in a living process, as in a notebook, which edits, reloads and changes things."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import linecache, sys
from pathlib import Path
from holdfast import ResumeAborted, Sample, Task, evaluate, exact

def cell(text, number=[0]):
    '''Runs a text as a notebook runs a cell.'''
    number[0] += 1
    name = f"<cell {number[0]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), globals())

def made(solver, **more):
    return Task(samples=[Sample("a", id="s1", target="a")], solver=solver, scorers=exact(), name="t", **more)

def go(solver, run, **more):
    '''The run, or the words that refuse it.'''
    try:
        return evaluate(made(solver, **more), models=["scripted/echo"], run=run, progress=False)
    except ResumeAborted as error:
        return str(error)
"""


@pytest.fixture
def notebook(tmp_path):
    """Runs a program in a process of its own; what it prints last is a JSON value."""

    def run(text, **files):
        for name, content in files.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(content))
        path = tmp_path / "notebook_.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        command = [sys.executable, "-c", f"exec(compile(open({str(path)!r}).read(), '<notebook>', 'exec'))"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


AGENT = """
MEMO, COUNT, SETTING = {}, 0, {"style": "polite"}
async def solve(trial):
    global COUNT
    COUNT += 1
    MEMO[trial.sample.input] = COUNT
    return (await trial.generate(SETTING["style"])).text
"""


def test_resume_81_a_memo_filled_by_use(notebook):
    """81: another evaluate in the same process sees a memo and a counter as they were first."""
    told = notebook(
        f"""
        import json
        cell({AGENT!r})
        first = go(solve, "one")
        filled = dict(MEMO), COUNT
        again = go(solve, "one", epochs=2)
        other = go(solve, "two")
        fresh = go(solve, "two", epochs=2)
        print(json.dumps([filled[1], isinstance(again, str), isinstance(other, str), isinstance(fresh, str)]))
        """
    )
    assert told == [1, False, False, False]


def test_resume_81_a_run_of_a_used_process_is_resumed_by_a_new_one(notebook):
    """81: what the second evaluate of a process records is what a new process finds."""
    program = f"""
    import json
    cell({AGENT!r})
    first = go(solve, "RUN1")
    second = go(solve, "RUN2", epochs=EPOCHS)
    print(json.dumps(second if isinstance(second, str) else "ok"))
    """
    assert notebook(program.replace("RUN1", "one").replace("EPOCHS", "1").replace("RUN2", "two")) == "ok"
    assert notebook(program.replace("RUN1", "three").replace("EPOCHS", "2").replace("RUN2", "two")) == "ok"


def test_resume_81_a_changed_setting(notebook):
    """81: a setting that the process has changed is refused by name, and the way out is a new kernel."""
    told = notebook(
        f"""
        import json
        cell({AGENT!r})
        go(solve, "one")
        SETTING["style"] = "rude"
        refused = go(solve, "one", epochs=2)
        new = go(solve, "two")
        print(json.dumps([refused, isinstance(new, str)]))
        """
    )
    assert "SETTING['style'] has changed: 'polite' → 'rude'" in told[0] and "restart the kernel" in told[0]
    assert told[1] is False


def test_resume_60c_a_module_that_was_edited_and_not_reloaded(notebook, tmp_path):
    """60c: it is recorded by the code that ran: the edited file is refused, the old one is accepted."""
    program = """
    import json, helper
    EDIT
    async def solve(trial):
        return (await trial.generate(helper.p())).text
    told = go(solve, "one", epochs=EPOCHS)
    again = go(solve, "one", epochs=EPOCHS + 1)
    print(json.dumps([told if isinstance(told, str) else "ok", again if isinstance(again, str) else "ok"]))
    """
    old, new = "def p(): return 'one'\n", "def p(): return 'three'\n"
    edit = f"Path('helper.py').write_text({new!r})"
    first = notebook(program.replace("EDIT", edit).replace("EPOCHS", "1"), helper=old)
    assert first == ["ok", "ok"]
    refused = notebook(program.replace("EDIT", "pass").replace("EPOCHS", "3"), helper=new)
    assert "the code of helper.p() in helper.py has changed" in refused[0]
    assert notebook(program.replace("EDIT", "pass").replace("EPOCHS", "3"), helper=old) == ["ok", "ok"]


def test_resume_60d_a_notebook_and_then_a_file(notebook, tmp_path):
    """60d: the same code in a file is the same code."""
    text = AGENT.replace("polite", "kind")
    assert notebook(f'import json\ncell({text!r})\nprint(json.dumps(isinstance(go(solve, "one"), str)))') is False
    program = """
    import json, tk
    told = go(tk.solve, "one", epochs=2)
    print(json.dumps(told if isinstance(told, str) else "ok"))
    """
    assert notebook(program, tk=text) == "ok"
    assert "SETTING['style'] in tk.py has changed: 'kind' → 'rude'" in notebook(
        program, tk=text.replace("kind", "rude")
    )


@pytest.mark.parametrize("cache", ["functools.cache", "functools.lru_cache(maxsize=8)"])
def test_resume_81_what_use_adds_to_a_cache_is_a_memo(notebook, cache):
    """81: what a cached function remembers from its use is no setting, whatever it remembered from its import."""
    told = notebook(f"""
    import functools, json
    @{cache}
    def found(text): return [text, len(text)]
    found("at import")
    async def solve(trial):
        return (await trial.generate(f"{{found(trial.sample.input)}} {{found('at import')}}")).text
    first = go(solve, "r")
    second = go(solve, "r")
    found("at import").append("changed")
    third = go(solve, "r")
    print(json.dumps([str(type(first)), str(type(second)), third if isinstance(third, str) else "accepted"]))
    """)
    assert told[0] == told[1] and "found" in told[2] and "restart the kernel" in told[2]


@pytest.mark.parametrize(
    ("package", "change", "said"),
    [
        ("decimal", "decimal.getcontext().prec = 5", "decimal.getcontext().prec has changed: 28 → 5"),
        ("decimal", "decimal.getcontext().traps[decimal.Inexact] = True", "decimal.getcontext().traps has changed"),
        ("numpy", "numpy.set_printoptions(precision=2)", "numpy.precision has changed: 8 → 2"),
    ],
)
def test_resume_81_the_state_of_a_package_that_was_changed_in_this_process(notebook, package, change, said):
    """81: what is set for the whole process counts where the code uses that package, and nowhere else."""
    pytest.importorskip(package)
    uses = (
        f"import {package}\nasync def solve(trial):\n    return (await trial.generate(str({package}.__name__))).text\n"
    )
    other = "async def other(trial):\n    return (await trial.generate('a')).text\n"
    told = notebook(
        f"""
        import json
        cell({uses + other!r})
        go(solve, "one"), go(other, "two")
        {change}
        print(json.dumps([go(solve, "one", epochs=2), isinstance(go(other, "two", epochs=2), str)]))
        """
    )
    assert said in told[0]
    assert told[1] is False


def test_resume_57_a_resume_in_python_says_what_cannot_be_compared(notebook):
    """57: the same line as on the command line is printed before the first call, and is in the warning of the end."""
    maker = "def gen():\n    while True: yield 'hi'\nit = gen()\n"
    solver = "async def solve(trial):\n    return (await trial.generate(next(it))).text\n"
    told = notebook(
        f"""
        import contextlib, io, json
        cell({maker + solver!r})
        said = []
        for epochs in (1, 2, 2):
            with contextlib.redirect_stderr(io.StringIO()) as stream:
                ended = go(solve, "one", epochs=epochs).ended
            said.append([ended.warning, stream.getvalue()])
        print(json.dumps(said))
        """
    )
    line = "1 value cannot be compared: it (generator)"
    assert told[0] == ["", ""]
    for warning, printed in told[1:]:
        assert f"Note: {line}." in warning
        assert f"holdfast: note: {line}\n" in printed
