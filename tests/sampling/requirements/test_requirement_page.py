"""docs/sampling-requirements.md: its examples work, and every requirement is on it."""

import re
from pathlib import Path

import pytest
import yaml

from holdfast.sampling.requirements import as_requirements, build_requirement
from holdfast.sampling.requirements.registry import BUILT_IN

PAGE = (Path(__file__).parents[3] / "docs" / "sampling-requirements.md").read_text(encoding="utf-8")
CHECKS = "def is_short(text):\n    return True\n\n\ndef similarity(text):\n    return 1.0\n"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: " ".join(block.split())[:30])
def test_an_example_of_an_eval_file_is_built(block, tmp_path):
    (tmp_path / "checks.py").write_text(CHECKS)
    given = yaml.safe_load(block)
    items = given["requirements"] if isinstance(given, dict) else given
    assert as_requirements([build_requirement(item, "page", base_dir=tmp_path) for item in items])


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: " ".join(block.split())[-30:])
def test_an_example_in_python_is_built(block, tmp_path):
    names = {"__name__": "example"}
    exec(compile(block, str(tmp_path / "example.py"), "exec"), names)
    assert as_requirements(names["requirements"])


def test_every_requirement_has_a_section():
    assert set(re.findall(r"^## `(\w+)`$", PAGE, re.MULTILINE)) == set(BUILT_IN)
