"""docs/judges.md: its example is run, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from observed import Zygote
from program import Program

PAGE = (Path(__file__).parents[2] / "docs" / "judges.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind == language]


@pytest.fixture
def program(tmp_path):
    zygote = Zygote()
    yield Program(tmp_path, zygote)
    zygote.end()


def test_the_example_prints_what_the_page_shows(program, tmp_path):
    """The eval and the rows are those of the page, and so is the output."""
    (tmp_path / "manners.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "phrases.jsonl").write_text(blocks("json")[0])
    report, shown = blocks("")
    program("run", "manners.yaml", "--run-dir", "manners", code=0)
    assert program("report", "manners", code=0).out.startswith(report)
    assert shown in program("show", "manners", "no#1", code=0).out
