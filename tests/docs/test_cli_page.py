"""docs/cli.md names every command and every option that the program has, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from holdfast.cli.main import COMMANDS, program

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def options_of(name: str) -> set[str]:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    named = {name for parameter in command.params for name in parameter.opts if isinstance(parameter, click.Option)}
    return named - {"--json"}


def text_about(name: str) -> str:
    (row,) = re.findall(rf"^\| `{name}[` ].*$", PAGE, re.MULTILINE)
    part = re.search(rf"^## `{name}`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return row + (part[1] if part else "")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_the_options_of_a_command(name):
    """A command's row, or its section, names exactly the options that it takes."""
    told = set(re.findall(r"`(--?[A-Za-z][a-z-]*)", text_about(name)))
    assert told == options_of(name)


def test_the_page_names_no_other_command():
    """Whoever types what stands on the page gets it."""
    assert set(re.findall(r"^\| `([a-z]+)[` ]", PAGE, re.MULTILINE)) == set(COMMANDS)
