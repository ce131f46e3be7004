"""Progress: a line that moves on a terminal and leaves it clean; plain lines everywhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

from evals import http_eval, write_dataset, write_eval

COLUMNS = 70


def slow_eval(directory, **keys):
    """An eval of a scripted model that takes at least a second, with prices and some retries."""
    write_dataset(directory, 40)
    errors = [{"contains": "q7", "unavailable": {"times": 1, "retry_after": 0.01}}]
    args = {"latency": 0.06, "errors": errors}
    model = {"provider": "scripted", "model": "echo", "args": args, "price": {"input": 1000.0, "output": 1000.0}}
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    data = {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    return write_eval(directory, {**data, "concurrency_limit": 2, "progress_interval": 0.1, **keys})


def run_on_terminal(directory, *arguments):
    """What the program writes to a terminal of COLUMNS columns, and its exit code."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "holdfast", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=directory, stdin=end, stdout=end, stderr=end, start_new_session=True)
    os.close(end)
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how the end of a terminal is told
            break
        if not part:
            break
        written += part
    os.close(terminal)
    return written.decode(), process.wait()


def screen(written):
    """The rows of a terminal after all this was written to it, and whether its style was reset."""
    rows, column, style = [[]], 0, "0"
    for piece in re.findall(r"\x1b\[([0-9]*)([a-zA-Z])|([^\x1b])", written):
        number, action, character = piece
        if action == "m":
            style = number or "0"
        elif action == "K":
            del rows[-1][column:]
        elif character == "\r":
            column = 0
        elif character == "\n":
            rows.append([])
        else:
            assert style == "0" or column < COLUMNS - 1, "a line that moves must not wrap"
            rows[-1][column : column + 1] = [character]
            column += 1
    return ["".join(row) for row in rows], style == "0"


def test_terminal_shows_rate_eta_tokens_and_is_left_clean(tmp_path):
    """The line that moves tells rate, what is left, tokens, cost and retries, and is gone at the end."""
    written, code = run_on_terminal(tmp_path, "run", slow_eval(tmp_path), "--run-dir", "r")
    assert code == 0
    moving = re.findall(r"\r\x1b\[36m(.*?)\x1b\[0m", written)
    assert len(moving) >= 3 and all(len(line) < COLUMNS for line in moving)
    assert any(re.search(r"\d+/40 trials \(\d+%\) · [\d.]+/s · \d+s left · 2 running", line) for line in moving)
    assert any("tokens" in line for line in moving)
    rows, is_reset = screen(written)
    assert is_reset
    ends = [row for row in rows if "trials (100%)" in row]
    assert len(ends) == 1 and ends[0].startswith("40/40 trials (100%)")
    assert "80 tokens · cost 0.0800 · " in ends[0] and "retries" in ends[0]
    assert not [row for row in rows if "left" in row]
    assert any(row.startswith("Complete: 40 of 40 trials.") for row in rows)


def test_failures_stand_above_the_line_that_moves(tmp_path):
    """What went wrong is a line of its own and stays on the screen."""
    model = {"provider": "scripted", "model": "echo", "args": {"errors": [{"contains": "q9", "rejected": {}}]}}
    written, code = run_on_terminal(tmp_path, "run", slow_eval(tmp_path, models={"m": model}), "--run-dir", "r")
    assert code == 1
    rows, is_reset = screen(written)
    assert is_reset and [row for row in rows if row.startswith("t/s9: unfinished: ")]


def test_elsewhere_progress_is_plain_lines(holdfast, tmp_path):
    """In a file there are no escapes and no carriage returns, and the last line tells the whole."""
    ended = holdfast("run", slow_eval(tmp_path), "--run-dir", "r", code=0)
    assert "\x1b" not in ended.err and "\r" not in ended.err
    lines = ended.err.splitlines()
    assert lines[0].endswith(": 40 trials.")
    assert lines[-1].startswith("40/40 trials (100%)") and "80 tokens" in lines[-1]


def test_progress_can_be_left_out(holdfast, tmp_path):
    """With show_progress false only what went wrong is told."""
    model = {"provider": "scripted", "model": "echo", "args": {"errors": [{"contains": "q9", "rejected": {}}]}}
    eval_file = slow_eval(tmp_path, models={"m": model}, show_progress=False)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert [line.partition(":")[0] for line in ended.err.splitlines()] == [f"Run {tmp_path / 'r'}", "t/s9"]


def test_a_terminal_that_goes_away_ends_nothing(holdfast, server, tmp_path):
    """Nobody reads what the program tells any more: it goes on, and the run is complete."""
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
