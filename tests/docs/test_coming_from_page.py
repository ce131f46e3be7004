"""docs/coming-from.md: every command of ours on it exists, with the options that it is shown with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from holdfast.cli.main import COMMANDS, program
from holdfast.interop.importing.kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
SHOWN = sorted(set(re.findall(r"`(holdfast [^`]+)`", PAGE)))


@pytest.mark.parametrize("shown", SHOWN)
def test_a_command_on_the_page_exists_with_its_options(shown):
    _, name, *words = shlex.split(shown)
    assert name in COMMANDS
    command = program.get_command(click.Context(program), name)
    known = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in words if word.startswith("--") and word not in known] == []


@pytest.mark.parametrize("tool", ["Inspect", "ProjectScylla", "SiEval", "lm-evaluation-harness", "promptfoo"])
def test_every_tool_has_a_section(tool):
    assert f"\n## {tool}\n" in PAGE


def test_every_kind_that_can_be_imported_is_of_a_tool_on_the_page():
    tools = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert [kind.title for kind in KINDS if not any(tool in kind.title for tool in tools)] == []
