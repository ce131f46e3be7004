"""Sentences on a terminal break between words; commands stay in one line, so that they can be copied."""

from __future__ import annotations

import io
import os

import pytest

from holdfast.terminal.text import fitted

SENTENCE = "Stopped (interrupted): 257 of 1200 trials finished, 943 remaining: 943 not started."


class Terminal(io.StringIO):
    """A stream that is a terminal of 40 columns."""

    def isatty(self):
        return True

    def fileno(self):
        return 1


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
    return Terminal()


def test_sentences_break_between_words(terminal):
    lines = fitted(f"  {SENTENCE}", terminal).splitlines()
    assert max(map(len, lines)) <= 40 and len(lines) == 3
    assert " ".join(line.strip() for line in lines) == SENTENCE
    assert all(line.startswith("  ") for line in lines)


def test_commands_are_not_broken(terminal):
    command = "Resume with: holdfast resume runs/20261117-212750-capitals-d327eb --redo 'status=failed'"
    assert fitted(command, terminal) == command


def test_files_get_the_line_as_it_is():
    assert fitted(SENTENCE, io.StringIO()) == fitted(SENTENCE, None) == SENTENCE
