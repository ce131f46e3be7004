"""Every field of the schema, put into the eval file of a real run: what `diff` says of it is what `resume` does."""

from __future__ import annotations

import copy
import itertools
import shutil

import pytest
from schema_values import add_prices, complete_axes, complete_sampling, example, leaves, steps_to

from holdfast.spec import Drift, FieldPlace, schema_fields

FIXED = {Drift.IDENTITY, Drift.RECORDED, Drift.SCORING}
NAMES = {"small": "m", "rows": "rows", "ask": "t"}
VALUES = {
    "models.*.provider": "openai",
    "models.*.base": "other",
    "models.*.headers": {"X-Some": "word"},
    "tasks.*.dataset": "others",
    "tasks.*.scorers": [{"exact": {"ignore_case": True}}],
    "tasks.*.use": "task.py:t",
    "tasks.*.tools": ["task.py:search"],
    "tasks.*.choices": ["a", "b"],
    "tasks.*.sampling.escalate_to": ["other"],
    "tasks.*.axes.*.*.model": "other",
    "tasks.*.axes.*.*.best_of": ["T1"],
    "tasks.*.axes.*.*.scorer": "exact",
    "datasets.*.format": "json",
    "datasets.*.path": "elsewhere/rows.jsonl",
    "directory": "elsewhere",
    "tasks.*.args": {"n": 2},
    "datasets.*.fields": {"input": "question"},
    "datasets.*.operations[].repeat.times": 2,
}
"""Values that have to fit what stands elsewhere in the eval."""
TASK = """
from holdfast import Sample, Task, exact, generate, task

@task
def t(n: int = 1):
    return Task(samples=[Sample("x", target="x")], solver=generate(), scorers=exact())

def search(words: str) -> str:
    return words
"""
STRICTER = ("durability", "runner.durability", "tasks.*.axes.*.*.args")
"""Fields that may become stricter, and one that goes with code of the task's own only."""
OF_AGENTS = ("tasks.*.agent.", "tasks.*.workspace.")
"""Fields that a task without an agent cannot have: tests/agents offers them to a run that has one."""
OFFERED = [
    place
    for place in leaves()
    if place.drift not in {Drift.THROUGHPUT, Drift.ADDITIVE}
    if place.path not in STRICTER and not place.path.startswith(OF_AGENTS)
]


def put(world, place: FieldPlace) -> None:
    """Puts a value that was not there before at a place of the eval, with what else its block needs."""
    value = VALUES.get(place.path, example(place.field))
    data, steps = world.data, [NAMES.get(str(step), step) for step in steps_to(place)]
    for step, following in itertools.pairwise(steps):
        if isinstance(data, list):
            data = data[0]
            continue
        data = data.setdefault(step, [{}] if following == 0 else {})
    data = data[0] if isinstance(data, list) else data
    for name, field in schema_fields(place.block).items():
        if field.required and name != steps[-1]:
            data.setdefault(name, example(field))
    if place.block.exactly_one and steps[-1] not in place.block.exactly_one:
        first = place.block.exactly_one[0]
        data[first] = example(schema_fields(place.block)[first])
    data[steps[-1]] = value
    complete_sampling(world.task, str(steps[-1]))
    if place.path.startswith("tasks.*.axes."):
        complete_axes(world.task, str(steps[-1]))


@pytest.mark.parametrize("place", OFFERED, ids=lambda place: place.path)
def test_resume_12_every_field_is_offered_to_a_run(world, place):
    """Refused with its class and nothing written, applied, or not noticed: through the command line, field by field."""
    world.data["models"]["other"] = {"provider": "scripted", "model": "echo"}
    world.data["datasets"]["others"] = {"path": "rows.jsonl"}
    world.task["models"] = ["m"]
    if place.path.endswith("sampling.budget.cost"):
        add_prices(world.data)
    (world.directory / "task.py").write_text(TASK)
    world.write_rows()
    shutil.copytree(world.directory, world.directory / "elsewhere")
    if place.path == "tasks.*.args":
        world.data["tasks"]["t"] = {"use": "task.py:t"}
    world.begin()
    world.data = copy.deepcopy(world.data)
    if place.path == "tasks.*.use":
        world.data["tasks"]["t"] = {"models": ["m"]}
    put(world, place)
    differences = world.json("diff", "r", world.write(), code=3 if place.drift in FIXED else 0)["differences"]
    expected = {place.drift.value} - {Drift.UNMATCHED.value}
    if place.path == "tasks.*.use":  # which goes with all that was declared
        expected |= {"additive", "scoring"}
    assert {item["drift"] for item in differences} == expected
    if place.drift in FIXED:
        assert f"({place.drift.value}): " in world.refused()
    elif place.drift is Drift.LOCATION:
        assert {item["verdict"] for item in differences} == {"changed"}
