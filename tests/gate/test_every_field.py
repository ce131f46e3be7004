"""Every field of the schema, in every block where it may stand, is judged by its class: so is one added tomorrow."""

from __future__ import annotations

import copy
import typing
from typing import Any, Literal

import pytest
from schema_values import complete_axes, document_with, example, leaves, may_be_absent

from holdfast.errors import ConfigurationError
from holdfast.run.drift.gate import Decision, Snapshot, decide
from holdfast.spec import Drift, EvalSpec, FieldPlace, resolve, typed_eval
from holdfast.spec.compare import DriftVerdict
from holdfast.spec.schema.introspect import members, unwrapped

FREE = {Drift.THROUGHPUT, Drift.LOCATION, Drift.DERIVED}
FIXED = {Drift.IDENTITY, Drift.RECORDED, Drift.SCORING}

OTHER_VALUES: dict[str, tuple[Any, Any]] = {
    "models.*.base": ("second", None),
    "models.*.api_key_env": ("SOME_KEY", "OTHER_KEY"),
    "tasks.*.dataset": ("rows", "others"),
    "tasks.*.models": (["small"], ["second", "small"]),
    "tasks.*.include": ([{"tier": "T0"}], [{"tier": "T0"}, {"tier": "T1"}]),
    "tasks.*.exclude": ([{"tier": "T0"}], []),
    "tasks.*.axes.*.*.model": ("small", "second"),
    "tasks.*.axes.*.*.best_of": (["T1"], ["T1", "T2"]),
    "tasks.*.axes.*.*.files": ({"a": "b"}, {"a": "c"}),
    "tasks.*.sample_ids": (["a"], ["a", "b"]),
    "tasks.*.tools": (["tools.py:search"], ["tools.py:search", "tools.py:fetch"]),
    "tasks.*.sampling.escalate_to": (["second"], ["second", "small"]),
    "tasks.*.scorers": ([{"regex": {"pattern": "a"}}], [{"regex": {"pattern": "b"}}]),
}
"""Two values for a field whose values must fit what stands elsewhere in the eval."""


def document(place: FieldPlace, value: Any) -> dict[str, Any]:
    """An eval that resolves, with the value at the place; there is a second model and a second dataset."""
    made = copy.deepcopy(document_with(place, value))
    made["models"]["second"] = {"provider": "scripted", "model": "echo"}
    made["datasets"]["others"] = {"path": "others.jsonl"}
    task = made["tasks"]["ask"]
    task.setdefault("models", ["small"])
    if place.field.name in {"use", "args"}:
        del task["dataset"]
        task.setdefault("use", "some_task")
    if place.path.startswith(("tasks.*.axes.", "tasks.*.include", "tasks.*.exclude")):
        complete_axes(task, place.field.name)
    return made


def resolved(place: FieldPlace, value: Any) -> EvalSpec:
    return resolve(typed_eval(document(place, value)))


def two_values(place: FieldPlace) -> tuple[Any, Any]:
    """Two values that may stand at the place, of which the second is more where that means anything."""
    if place.path in OTHER_VALUES:
        return OTHER_VALUES[place.path]
    first = example(place.field)
    for second in others(place, first):
        try:
            if resolved(place, second) != resolved(place, first) or place.drift is Drift.UNMATCHED:
                return first, second
        except ConfigurationError:
            continue
    raise AssertionError(f"no second value for {place.path}; add one to OTHER_VALUES")


def others(place: FieldPlace, value: Any) -> list[Any]:
    kind = unwrapped(members(place.field.type)[0])
    if typing.get_origin(kind) is Literal:
        return [choice for choice in typing.get_args(kind) if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, list):
        return [[*value, "more"], []]
    if isinstance(value, dict):
        return [{**value, "more": "word"}, {}]
    return [f"{value} more"] if isinstance(value, str) else [value + 1, value / 2]


def judged(place: FieldPlace, saved: Any, offered: Any) -> tuple[Decision, EvalSpec, EvalSpec]:
    before, after = resolved(place, saved), resolved(place, offered)
    return decide(Snapshot(before), Snapshot(after)), before, after


def named(place: FieldPlace) -> str:
    """The field's name, or that of the list it stands in, which is compared as a whole."""
    before, brackets, _ = place.path.partition("[]")
    return before.rpartition(".")[2] if brackets else place.field.name


def check(place: FieldPlace, saved: Any, offered: Any) -> None:
    """Whether a change from one value to the other is judged by the class of the field."""
    decision, before, after = judged(place, saved, offered)
    if place.field.name == "durability" and offered == "remote":
        assert [item.verdict for item in decision.differences] == [DriftVerdict.APPLIED]
        return
    if place.drift is Drift.UNMATCHED:
        assert decision.differences == []
        assert decision.spec == before
        return
    told = decision.differences
    assert told, "the change went unnoticed"
    assert {item.drift for item in told} == {place.drift}
    assert any(named(place) in item.path for item in told)
    if place.drift in FREE:
        assert {item.verdict for item in told} == {DriftVerdict.APPLIED}
        assert decision.spec == after
        assert [change.path for change in decision.changes] == [item.path for item in told]
    else:
        assert place.drift in FIXED
        assert decision.refused == told and decision.changes == []
        assert all(item.way_out for item in told)
        assert decision.spec == before


ADDITIVE = [place for place in leaves() if place.drift is Drift.ADDITIVE]
OTHERS = [place for place in leaves() if place.drift is not Drift.ADDITIVE]


@pytest.mark.parametrize("place", OTHERS, ids=lambda place: place.path)
def test_resume_7_every_field_is_judged_by_its_class_wherever_it_stands(place):
    """A changed value is applied and noted, refused by its class and name, or never noticed, as its class says."""
    first, second = two_values(place)
    check(place, first, second)
    check(place, second, first)


# Nothing can be asked without these; and a scorer that comes is growth.
NEVER_ABSENT = {"tasks.*.dataset", "tasks.*.use", "models.*.provider", "models.*.model", "tasks.*.scorers"}
NEVER_ABSENT |= {"tasks.*.sampling.scorer", "tasks.*.sampling.escalate_to"}
COMING = [place for place in OTHERS if may_be_absent(place) and place.path not in NEVER_ABSENT]


@pytest.mark.parametrize("place", COMING, ids=lambda place: place.path)
def test_resume_6_a_field_given_where_none_was_is_judged_by_its_class(place):
    """A key that comes or goes, with its block if need be, is a change like any other."""
    values = two_values(place)
    # A task that spells out what it has from the run changes nothing.
    value = values[place.path in {"tasks.*.fail_fast", "tasks.*.runner.fail_fast"}]
    check(place, None, value)
    check(place, value, None)


@pytest.mark.parametrize("place", ADDITIVE, ids=lambda place: place.path)
def test_resume_16_and_17_what_may_grow_grows_and_never_shrinks(place):
    """More is run and noted; where fewer are offered the saved ones stand, which is told and not noted."""
    few, more = two_values(place)
    grown, before, after = judged(place, few, more)
    assert {item.verdict for item in grown.differences} == {DriftVerdict.GROWN}
    assert grown.spec == after and grown.changes
    kept, _, _ = judged(place, more, few)
    assert {item.verdict for item in kept.differences} == {DriftVerdict.KEPT}
    assert kept.spec == after and not kept.changes and not kept.refused and kept.kept
    same, _, _ = judged(place, few, few)
    assert same.differences == [] and same.spec == before


def test_every_class_has_fields_and_every_field_a_place():
    """The tests above try every class, and no place is left out."""
    assert {place.drift for place in leaves()} == set(Drift)
    assert len(ADDITIVE) + len(OTHERS) == len(leaves()) > 80
