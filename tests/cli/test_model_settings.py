"""Keys of a model that is given with --model: docs/cli.md says how they are set, and so they are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
EXAMPLES = re.findall(r"`(--set [^`]*(?:models\.|base_url)[^`]*)`", PAGE.read_text().partition("A model given with")[2])
TASK = """
from holdfast import Sample, Task, exact, generate, task

@task
def t():
    return Task(samples=[Sample("x", target="X", id="s1")], solver=generate(), scorers=exact())
"""


def test_the_page_has_an_example_of_each_kind():
    """An address, a price, a name with a dot, and a key for all models."""
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_page_works_as_typed(holdfast, server, tmp_path, example):
    """Only the address of the server is another one."""
    (tmp_path / "task.py").write_text(TASK)
    model = "openai/gpt-4.1" if "gpt-4.1" in example else "openai/my-small"
    words = shlex.split(example.replace("http://127.0.0.1:8000/v1", server.base_url))
    own = [] if "base_url" in example else ["--set", f"base_url={server.base_url}"]
    ended = holdfast("run", "task.py", "--model", model, *words, *own, "--run-dir", "r", code=0)
    assert "Complete: 1 of 1" in ended.out
    assert (holdfast.json("status", "r")["cost"] is not None) == ("price" in example)
