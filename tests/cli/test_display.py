"""Progress: a table that is replaced in place on a terminal and leaves it clean; plain lines everywhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from evals import http_eval, write_dataset, write_eval
from terminal_screen import TerminalProgram

HEADER = re.compile(r"^\S+ · run [0-9a-f]{8} · session 1 · up to 2 at once · \S")
ROW = re.compile(r"^t\d* +m (?!.*ex[a…])")
COLOURS = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|38;|9[0-7])[0-9;]*m")


def slow_eval(directory, *, tasks=1, count=40, **keys):
    """An eval of a scripted model that takes at least a second, with prices and some retries."""
    write_dataset(directory, count)
    errors = [{"contains": "q7", "unavailable": {"times": 1, "retry_after": 0.01}}]
    args = {"latency": 0.06, "errors": errors}
    model = {"provider": "scripted", "model": "echo", "args": args, "price": {"input": 1000.0, "output": 1000.0}}
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    names = ["t"] if tasks == 1 else [f"t{number}" for number in range(tasks)]
    data = {"name": "slow", "models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}}
    data["tasks"] = dict.fromkeys(names, task)
    return write_eval(directory, {**data, "concurrency_limit": 2, "progress_interval": 0.1, **keys})


def rejecting(text="q9"):
    return {"m": {"provider": "scripted", "model": "echo", "args": {"errors": [{"contains": text, "rejected": {}}]}}}


def headers(lines):
    return [line for line in lines if HEADER.match(line)]


def rows(lines):
    return [line for line in lines if ROW.match(line)]


def is_one_table(lines):
    """Whether a header, the titles of the columns, a row and the sum are there, each once."""
    beginnings = (r".* · run ", r"task ", ROW.pattern, r"\d+/160 trials")
    return all(len([line for line in lines if re.match(beginning, line)]) == 1 for beginning in beginnings)


def test_a_terminal_shows_a_table_and_is_left_clean(tmp_path):
    """Header, bar, counts, rate, time left, score, tokens and cost while it runs; afterwards one line with the sum."""
    program = TerminalProgram(tmp_path, "run", slow_eval(tmp_path), "--run-dir", "r", columns=110)
    drawn = (r".* · run ", r"t +m .* \d+\.\d/s +\d+s +1\.000 ", r"\d+/40 trials \(\d+%\) · [\d.]+/s · \d+s left · ")
    # The screen may be looked at while it is drawn: whole is what has its last line too.
    program.until(lambda lines: all(any(re.match(part, line) for line in lines) for part in drawn))
    lines = program.screen.lines
    assert len(headers(lines)) == len(rows(lines)) == 1
    assert re.search(r"^t +m +[━╸╺]+ +\d+/40 +[\d.]+/s +\d+s +1\.000 +\d+ +\$0\.\d+", rows(lines)[0])
    title = lines[lines.index(rows(lines)[0]) - 1].split()
    assert title[:6] == ["task", "model", "done", "rate", "left", "exact"]
    assert re.match(
        r"\d+/40 trials \(\d+%\) · [\d.]+/s · \d+s left · [12] running · ", lines[lines.index(rows(lines)[0]) + 1]
    )
    assert program.wait() == 0
    lines = program.screen.lines
    assert lines[0].startswith("Run r (id ") and not headers(lines) and not rows(lines)
    (end,) = [line for line in lines if line.startswith("40/40 trials (100%) · took ")]
    assert "80 tokens · cost $0.080 · 1 retry" in end
    assert program.screen.style == ""
    assert any(line.startswith("Complete: 40 of 40 trials.") for line in lines)


def test_failures_stand_above_the_table(tmp_path):
    """What went wrong is a line of its own and stays on the screen."""
    eval_file = slow_eval(tmp_path, models=rejecting())
    program = TerminalProgram(tmp_path, "run", eval_file, "--run-dir", "r")
    assert program.wait() == 1
    lines = program.screen.lines
    assert [line for line in lines if line.startswith("t/m/s9#1: unfinished: ")] and not headers(lines)


@pytest.mark.parametrize("sizes", [(40, 150), (150, 30, 90), (20, 200, 60)])
def test_nothing_is_left_behind_when_the_terminal_is_resized(tmp_path, sizes):
    """There is one table on the screen, in the new width, whatever was made of the terminal."""
    program = TerminalProgram(tmp_path, "run", slow_eval(tmp_path, count=160), "--run-dir", "r")
    seen = ""
    for columns in sizes:
        program.until(lambda lines, seen=seen: rows(lines) and rows(lines)[0] != seen)
        (seen,) = rows(program.screen.lines)
        program.resize(columns)
        program.until(lambda lines, seen=seen: is_one_table(lines) and rows(lines)[0] != seen)
    assert program.wait() == 0
    assert not rows(program.screen.lines) and not [line for line in program.screen.lines if " · run " in line]
    assert len([line for line in program.screen.lines if line.startswith("160/160 trials")]) == 1


def test_a_terminal_of_twenty_columns_is_enough(tmp_path):
    """What does not fit is left out; no line of the table wraps."""
    program = TerminalProgram(tmp_path, "run", slow_eval(tmp_path), "--run-dir", "r", columns=20)
    program.until(lambda lines: any(re.match(r"^t +m +\d+/40$", line) for line in lines))
    assert program.wait() == 0
    assert not rows(program.screen.lines)


def test_of_many_tasks_ten_are_shown(tmp_path):
    """Those that are being worked on; one line says how the others stand."""
    program = TerminalProgram(tmp_path, "run", slow_eval(tmp_path, tasks=50, count=2), "--run-dir", "r")
    program.until(lambda lines: any(re.match(r"40 more: .*\d+ (running|waiting|ended)$", line) for line in lines))
    assert len(rows(program.screen.lines)) == 10
    assert program.wait() == 0
    assert not rows(program.screen.lines)


def test_a_low_terminal_is_not_scrolled(tmp_path):
    """The table has fewer rows than the terminal, so that it can be replaced."""
    program = TerminalProgram(tmp_path, "run", slow_eval(tmp_path, tasks=50, count=2), "--run-dir", "r", rows=8)
    program.until(rows)
    assert len(rows(program.screen.lines)) == 3
    assert program.wait() == 0


def test_colours_are_for_terminals_that_want_them(tmp_path):
    """NO_COLOR leaves none; otherwise there are some."""
    eval_file = slow_eval(tmp_path)
    coloured = TerminalProgram(tmp_path, "run", eval_file, "--run-dir", "a", NO_COLOR="")
    plain = TerminalProgram(tmp_path, "run", eval_file, "--run-dir", "b", NO_COLOR="1")
    assert coloured.wait() == plain.wait() == 0
    assert COLOURS.search(coloured.written)
    assert not COLOURS.search(plain.written) and " · run " in plain.written


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(tmp_path):
    """With TERM=dumb there is no escape at all."""
    eval_file = slow_eval(tmp_path, log_interval=0.2)
    program = TerminalProgram(tmp_path, "run", eval_file, "--run-dir", "r", TERM="dumb")
    assert program.wait() == 0
    assert "\x1b" not in program.written
    assert len([line for line in program.screen.lines if re.match(r"\d+/40 trials", line)]) > 2


def test_a_terminal_that_knows_only_ascii_gets_ascii(tmp_path):
    """No escape for a character makes a line longer than it was made for."""
    eval_file = slow_eval(tmp_path)
    program = TerminalProgram(tmp_path, "run", eval_file, "--run-dir", "r", PYTHONIOENCODING="ascii:backslashreplace")
    program.until(rows)
    assert "\\x" not in "".join(rows(program.screen.lines)) and "\\u" not in "".join(rows(program.screen.lines))
    assert program.wait() == 0


PRINTING = """
import asyncio, sys
from holdfast import Sample, Task, exact, task

async def solve(trial):
    await asyncio.sleep(0.3)
    print("out", trial.sample.id)
    sys.stderr.write(f"err {trial.sample.id}\\n")
    print("\\x1b[2Jhostile", end="")
    return "x"

@task
def t():
    return Task(samples=[Sample(f"q{n}", target="x", id=f"s{n}") for n in range(8)], solver=solve, scorers=[exact()])
"""


def test_what_a_task_prints_stands_above_the_table(tmp_path):
    """Print as much as you like: the table is below it, and each line is whole."""
    (tmp_path / "task.py").write_text(PRINTING)
    settings = ["--set", "concurrency_limit=1", "--set", "progress_interval=0.1"]
    program = TerminalProgram(tmp_path, "run", "task.py:t", "--model", "scripted/echo", *settings, "--run-dir", "r")
    assert program.wait() == 0
    lines = program.screen.lines
    assert [line for line in lines if line.startswith("err ")] == [f"err s{n}" for n in range(8)]
    assert len([line for line in lines if "out s" in line]) == 8
    assert not [line for line in lines if " · run " in line]


def test_elsewhere_progress_is_plain_lines(holdfast, tmp_path):
    """In a file there are no escapes and no carriage returns; the lines have the running score."""
    ended = holdfast("run", slow_eval(tmp_path, log_interval=0.2), "--run-dir", "r", code=0)
    assert "\x1b" not in ended.err and "\r" not in ended.err
    lines = ended.err.splitlines()
    assert lines[0].endswith(": 40 trials.")
    assert any(re.match(r"\d+/40 trials .* running · .* · exact 1\.000$", line) for line in lines)
    assert lines[-1].startswith("40/40 trials (100%) · took ") and "80 tokens" in lines[-1]


def test_plain_lines_come_as_often_as_the_eval_says(holdfast, tmp_path):
    """With a long log_interval there is only the last one."""
    ended = holdfast("run", slow_eval(tmp_path, log_interval=600), "--run-dir", "r", code=0)
    assert len([line for line in ended.err.splitlines() if "/40 trials" in line]) == 1


def test_progress_can_be_left_out(holdfast, tmp_path):
    """With show_progress false only what went wrong is told."""
    eval_file = slow_eval(tmp_path, models=rejecting(), show_progress=False)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert [line.partition(":")[0].split()[0] for line in ended.err.splitlines()] == ["Run", "t/m/s9#1"]


def test_a_terminal_that_goes_away_ends_nothing(holdfast, server, tmp_path):
    """Nobody reads what the program tells any more: it continues, and the run is complete."""
    eval_file = http_eval(tmp_path, server.base_url, 6, concurrency_limit=2, progress_interval=0.05)
    server.behave(hold=True)
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "run", str(eval_file), "--run-dir", "r"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=writer,
    )
    os.close(writer)
    server.wait_for(in_flight=2)
    os.close(reader)
    server.behave()
    assert process.wait() == 0
    assert holdfast.json("status", "r")["state"] == "complete"


def test_the_display_of_a_resumed_run_is_that_of_the_run(tmp_path, holdfast):
    """Counts, score and tokens are over all sessions; the header has the session's number."""
    eval_file = slow_eval(tmp_path, models=rejecting("q40"))
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    program = TerminalProgram(tmp_path, "resume", "r", columns=100)
    assert program.wait() == 1
    (end,) = [line for line in program.screen.lines if line.startswith("39/40 trials (97%)")]
    assert "78 tokens" in end and "1 unfinished" in end
