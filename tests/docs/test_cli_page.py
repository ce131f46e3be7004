"""docs/cli.md names every command and every option that the program has, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from holdfast.cli.main import COMMANDS, program

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def options_of(name: str, *, hidden: bool = False) -> set[str]:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    options = [one for one in command.params if isinstance(one, click.Option) and (hidden or not one.hidden)]
    named = {name for option in options for name in option.opts}
    return named - {"--json"}


def text_about(name: str) -> str:
    (row,) = re.findall(rf"^\| `{name}[` ].*$", PAGE, re.MULTILINE)
    part = re.search(rf"^## `{name}`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return row + (part[1] if part else "")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_the_options_of_a_command(name):
    """A command's row, or its section, names the options that it takes; hidden ones need not be there."""
    told = set(re.findall(r"`(--?[A-Za-z][a-z-]*)", text_about(name)))
    assert options_of(name) <= told <= options_of(name, hidden=True)


def test_the_page_names_no_other_command():
    """Whoever types what stands on the page gets it."""
    assert set(re.findall(r"^\| `([a-z]+)[` ]", PAGE, re.MULTILINE)) == set(COMMANDS)
