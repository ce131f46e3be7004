"""Every field of the schema says what a change to it means; a field that does not cannot be imported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest

import holdfast
from holdfast.spec import Block, Drift, EvalSpec, RunnerSpec, schema_fields, schema_places


def imported_with(tmp_path: Path, file: str, old: str, new: str) -> subprocess.CompletedProcess[str]:
    """The import of a copy of the package in which one line of the schema was changed."""
    copy = tmp_path / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    schema = copy / "spec" / "schema" / file
    text = schema.read_text()
    assert text.count(old) == 1
    schema.write_text(text.replace(old, new))
    command = [sys.executable, "-c", "import holdfast.spec; holdfast.spec.EvalSpec; print(holdfast.spec.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)


def test_resume_32_import_fails_for_a_field_without_a_class(tmp_path):
    """A schema field without a drift class stops the import and is named."""
    result = imported_with(tmp_path, "model.py", "Annotated[Temperature | None, Drift.IDENTITY]", "Temperature | None")
    assert result.returncode != 0
    assert "TypeError: Generation.temperature must carry exactly one drift class" in result.stderr


def test_resume_32_import_fails_for_a_field_with_two_classes(tmp_path):
    """A schema field with two drift classes stops the import and both are named."""
    result = imported_with(
        tmp_path,
        "runner.py",
        "Annotated[GraceSeconds, Drift.THROUGHPUT]",
        "Annotated[GraceSeconds, Drift.THROUGHPUT, Drift.RECORDED]",
    )
    assert result.returncode != 0
    assert "RunnerSpec.grace_period must carry exactly one drift class, found THROUGHPUT, RECORDED" in result.stderr


def test_resume_32_import_works_for_the_schema_as_it_is(tmp_path):
    """The same copy imports when every field keeps its class."""
    result = imported_with(tmp_path, "runner.py", "= 256", "= 255")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(str(tmp_path))


def test_a_class_in_the_wrong_place_does_not_count():
    """A drift class buried inside the type is not the field's class."""
    with pytest.raises(TypeError, match=r"Buried\.value"):

        class Buried(Block, frozen=True):
            value: list[Annotated[int, Drift.IDENTITY]]


def test_every_place_is_listed_with_one_class():
    """The list of places reaches every block that a field may stand in."""
    paths = {place.path: place.drift for place in schema_places(EvalSpec)}
    assert len(paths) == len(list(schema_places(EvalSpec)))
    assert paths["models.*.generation.temperature"] is Drift.IDENTITY
    assert paths["tasks.*.few_shot[].output"] is Drift.IDENTITY
    assert paths["datasets.*.operations[].filter.in"] is Drift.IDENTITY
    assert paths["tasks.*.scorers"] is Drift.SCORING
    assert paths["tasks.*.epochs"] is Drift.ADDITIVE
    assert paths["models.*.base_url"] is Drift.LOCATION
    assert paths["models.*.price.input"] is Drift.DERIVED
    assert paths["runner.max_retries"] is Drift.RECORDED


@pytest.mark.parametrize(
    "path",
    [
        "concurrency_limit",
        "runner.concurrency_limit",
        "tasks.*.concurrency_limit",
        "tasks.*.runner.concurrency_limit",
        "tasks.*.runner.concurrency_limits.solve",
        "models.*.concurrency_limit",
        "models.*.rate_limit.tokens_per_minute",
    ],
)
def test_throughput_keys_are_listed_in_every_block(path):
    """A throughput key is listed at the top, in runner, per task and per model."""
    assert {place.path: place.drift for place in schema_places(EvalSpec)}[path] is Drift.THROUGHPUT


def test_inlined_keys_have_no_other_meaning_where_they_stand():
    """No key of the runner is also a key of the eval itself."""
    assert not set(schema_fields(RunnerSpec)) & set(schema_fields(EvalSpec))
