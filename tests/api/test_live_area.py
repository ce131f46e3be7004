"""The live area of a terminal: replaced in place, text above it stays, and a terminal that has gone is no error."""

from __future__ import annotations

import io
import os
import sys
import threading

import pytest

from holdfast.terminal.live_area import AreaLine, LiveArea
from holdfast.terminal.printed_above import printing_above
from terminal_screen import Screen


class Terminal(io.StringIO):
    """A stream that a screen reads."""

    def __init__(self, columns):
        super().__init__()
        self.screen, self.is_gone = Screen(columns), False

    def write(self, text):
        if self.is_gone:
            raise OSError(5, "Input/output error")
        self.screen.write(text.replace("\n", "\r\n"))  # as the line discipline does
        return len(text)

    def isatty(self):
        return True


def made_area(monkeypatch, columns):
    terminal = Terminal(columns)
    area = LiveArea(terminal)
    monkeypatch.setattr(area, "size", lambda: os.terminal_size((terminal.screen.columns, 24)))
    return area, terminal


def lines(*texts):
    return [AreaLine(text, len(text)) for text in texts]


def test_lines_are_replaced_and_text_stays_above_them(monkeypatch):
    """Also where there are fewer lines than before."""
    area, terminal = made_area(monkeypatch, 30)
    area.print_above("first")
    area.paint(lines("one", "two", "three"))
    area.paint(lines("1", "2"))
    assert terminal.screen.lines == ["first", "1", "2", ""]
    area.print_above("second\nthird")
    assert terminal.screen.lines == ["first", "second", "third", "1", "2", ""]
    area.clear()
    assert terminal.screen.lines[:3] == ["first", "second", "third"] and not any(terminal.screen.lines[3:])


@pytest.mark.parametrize("widths", [(15,), (15, 40), (7, 90, 12), (90, 5)])
def test_a_resize_leaves_nothing_behind(monkeypatch, widths):
    """However the terminal has wrapped the lines, they are replaced, and wider ones do not join them again."""
    area, terminal = made_area(monkeypatch, 30)
    area.print_above("above")
    area.paint(lines("x" * 29, "y" * 20, "z"))
    for width in widths:
        terminal.screen.resize(width)
        area.paint(lines("a" * (width - 1), "b"))
        assert terminal.screen.lines == ["above", "a" * (width - 1), "b", ""]
    terminal.screen.resize(200)
    assert terminal.screen.lines == ["above", "a" * (widths[-1] - 1), "b", ""]


def test_messages_after_a_resize_stand_above_the_area(monkeypatch):
    """The area is erased in the rows that it takes now."""
    area, terminal = made_area(monkeypatch, 30)
    area.paint(lines("x" * 29))
    terminal.screen.resize(10)
    area.print_above("told")
    assert terminal.screen.lines[0] == "told"
    area.clear()
    assert [line for line in terminal.screen.lines if line] == ["told"]


def test_a_terminal_that_has_gone_is_noticed_once(monkeypatch):
    """Nothing is raised, and nothing more is written."""
    area, terminal = made_area(monkeypatch, 30)
    terminal.is_gone = True
    area.paint(lines("x"))
    area.print_above("y")
    assert area.is_broken and terminal.screen.lines == [""]


def test_prints_of_other_code_are_whole_lines(monkeypatch):
    """From any thread, of either stream; the streams are the old ones afterwards."""
    shown, before = [], (sys.stdout, sys.stderr)
    monkeypatch.setattr(sys, "stdout", Terminal(80))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with printing_above(shown.append):
        print("one", end=" ")
        assert shown == []
        thread = threading.Thread(target=lambda: print("two"))
        thread.start()
        thread.join()
        sys.stderr.write("not a terminal\n")
        print("rest", end="")
    assert shown == ["one two", "rest"]
    assert sys.stderr.getvalue() == "not a terminal\n"
    monkeypatch.undo()
    assert (sys.stdout, sys.stderr) == before
