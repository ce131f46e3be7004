"""docs/terminal.md shows what the commands print today."""

from __future__ import annotations

import re

from captures import PAGE, prepare, rewritten

_SENTENCE = r"\$ |  File |Show one|  resume with|Resuming |Stopped "
"""Lines that are not laid out: a terminal wraps sentences and commands, and traces of errors."""


def test_the_captures_are_what_the_commands_print(tmp_path):
    """Every block of the sections that are made by commands is made anew and is the same."""
    page = PAGE.read_text(encoding="utf-8")
    prepare(tmp_path)
    assert rewritten(page, tmp_path) == page


def test_captures_fit_the_terminal_that_they_are_of():
    """Tables and facts are at most 80 columns wide, or 200 where the command says so."""
    page = PAGE.read_text(encoding="utf-8")
    for block in re.findall(r"(?ms)^```console\n(.*?)^```", page):
        columns = 200 if "COLUMNS=200" in block else 80
        lines = [line for line in block.splitlines() if not re.match(_SENTENCE, line)]
        assert [line for line in lines if len(line) > columns] == []
