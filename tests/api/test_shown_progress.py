"""Progress of `evaluate`: in a terminal and in a notebook; elsewhere nothing, unless it is asked for."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import types

import pytest

from holdfast import Sample, Task, evaluate, exact

PROGRAM = """
from holdfast import Sample, Task, evaluate, exact, generate
made = Task(name="t", samples=[Sample(x, target=x) for x in "abc"], solver=generate(), scorers=exact())
run = evaluate(made, ["scripted/echo"], run="r", progress_interval=0.1 {more})
print("finished", run.finished)
"""
HOSTILE = "<script>\x1b[31m&"


async def solve(trial):
    if trial.sample.input == "b":
        raise ValueError(HOSTILE)
    return trial.sample.input


def letters() -> Task:
    return Task(name="t", samples=[Sample(x, target=x) for x in "abc"], solver=solve, scorers=exact())


def on_terminal(directory, program):
    """What a program writes to a terminal."""
    terminal, end = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], cwd=directory, stdin=end, stdout=end, stderr=end)
    os.close(end)
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how the end of a terminal is told
            break
        written += part
    os.close(terminal)
    assert process.wait() == 0
    return written.decode()


def test_a_terminal_shows_progress_as_the_command_line_does(tmp_path):
    """The run's place, and the counts at the end."""
    written = on_terminal(tmp_path, PROGRAM.format(more=""))
    assert f"Run {tmp_path / 'r'}" in written
    assert "3/3" in written and "finished 3" in written


@pytest.mark.parametrize("more", [", progress=False", ", show_progress=False"])
def test_it_can_be_left_out(tmp_path, more):
    """By an argument, or by the setting of an eval file."""
    assert on_terminal(tmp_path, PROGRAM.format(more=more)).split() == ["finished", "3"]


def test_elsewhere_nothing_is_printed_unless_it_is_asked_for(tmp_path, capfd):
    """A library does not print into the output of tests and pipes."""
    evaluate(letters(), ["scripted/echo"], run=tmp_path / "r", max_retries=0)
    assert capfd.readouterr() == ("", "")
    evaluate(letters(), ["scripted/echo"], run=tmp_path / "s", max_retries=0, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "2/3" in err and "ValueError" in err and "\x1b" not in err


class Handle:
    """What IPython gives for an output that can be updated."""

    def __init__(self, shown):
        self.shown = shown

    def update(self, html):
        self.shown.append(html.data)


@pytest.fixture
def notebook(monkeypatch):
    """The parts of IPython that are used, as the kernel of a notebook has them; the list of what was shown."""
    shown: list[str] = []

    class ZMQInteractiveShell:
        pass

    class Shell(ZMQInteractiveShell):  # as in a hosted notebook
        pass

    class HTML:
        def __init__(self, data):
            self.data = data

    def display(html, *, display_id):
        assert display_id is True
        shown.append(html.data)
        return Handle(shown)

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = Shell
    ipython.display = types.SimpleNamespace(display=display, HTML=HTML)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return shown


def test_a_notebook_updates_one_output_in_place(tmp_path, notebook, capfd):
    """From nothing to all of it, with the place of the run and what went wrong, everything escaped."""
    evaluate(letters(), ["scripted/echo"], run=tmp_path / "r", max_retries=0, progress_interval=0.01)
    assert re.search(r'<progress value="0" max="3"></progress> 0/3 trials', notebook[0])
    assert re.search(r'<progress value="2" max="3"></progress> 2/3 trials .* 1 failed', notebook[-1])
    assert str(tmp_path / "r") in notebook[-1]
    assert "&lt;script&gt;&amp;" in notebook[-1]
    assert not any("<script" in text or "\x1b" in text for text in notebook)
    assert capfd.readouterr() == ("", "")


def test_a_notebook_shows_nothing_where_that_is_asked(tmp_path, notebook):
    """The argument decides."""
    evaluate(letters(), ["scripted/echo"], run=tmp_path / "r", max_retries=0, progress=False)
    assert notebook == []


def test_ipython_in_a_terminal_is_no_notebook(tmp_path, notebook, monkeypatch):
    """Its shell cannot show HTML."""
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", object)
    evaluate(letters(), ["scripted/echo"], run=tmp_path / "r", max_retries=0)
    assert notebook == []


def test_nothing_of_a_terminal_or_a_notebook_is_loaded_where_none_is(tmp_path):
    """Whoever evaluates in a pipe pays for neither."""
    program = PROGRAM.format(more="") + "import sys\nprint(sorted({'IPython', 'rich'} & set(sys.modules)))\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("finished 3\n[]\n", "")
