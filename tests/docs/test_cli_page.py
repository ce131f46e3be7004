"""docs/cli.md names every verb and every option that the program has, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from holdfast.cli.main import COMMANDS, program

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def options_of(verb: str) -> set[str]:
    command = program.get_command(click.Context(program), verb)
    assert command is not None
    named = {name for parameter in command.params for name in parameter.opts if isinstance(parameter, click.Option)}
    return named - {"--json"}


def text_about(verb: str) -> str:
    (row,) = re.findall(rf"^\| `{verb}[` ].*$", PAGE, re.MULTILINE)
    part = re.search(rf"^## `{verb}`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return row + (part[1] if part else "")


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_page_names_the_options_of_a_verb(verb):
    """A verb's row, or its section, names exactly the options that it takes."""
    told = set(re.findall(r"`(--?[A-Za-z][a-z-]*)", text_about(verb)))
    assert told == options_of(verb)


def test_the_page_names_no_other_verb():
    """Whoever types what stands on the page gets it."""
    assert set(re.findall(r"^\| `([a-z]+)[` ]", PAGE, re.MULTILINE)) == set(COMMANDS)
