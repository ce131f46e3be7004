"""Every field of the schema, scorer argument and provider option is described where it is defined, with an example."""

from __future__ import annotations

import msgspec
import pytest
from schema_values import all_places, document_with

from holdfast.reference.provider_options import OPTIONS, SCRIPT_PARTS
from holdfast.sampling.requirements.registry import BUILT_IN as REQUIREMENTS
from holdfast.spec import resolve, typed_eval
from holdfast.spec.loading.yaml_document import read_document
from holdfast.spec.schema.descriptions import field_texts
from holdfast.tasks.scorers.registry import BUILT_IN as SCORERS

BLOCKS = {place.block.__name__: place.block for place in all_places()}
STRUCTS = {
    kind.__name__: kind
    for kind in (*BLOCKS.values(), *SCORERS.values(), *REQUIREMENTS.values(), *OPTIONS.values(), *SCRIPT_PARTS.values())
}
NEEDS_OTHERS = {
    "include",
    "exclude",
    "best_of",
    "scorer",
    "tasks",
    "models",
    "dataset",
    "base",
    "escalate_to",
    "use",
    "sampling",
    "args",
    "datasets",
}
"""Fields whose examples name other parts of an eval, or go with other fields."""


@pytest.mark.parametrize("name", STRUCTS)
def test_every_field_has_a_meaning_and_an_example(name):
    """A field without words, or without an example that is YAML, fails here; write both under it."""
    texts = field_texts(STRUCTS[name])
    for field in msgspec.structs.fields(STRUCTS[name]):
        assert field.name in texts, f"{name}.{field.name} is not described: put a text under it in the source"
        text = texts[field.name]
        assert len(text.meaning.split()) >= 3 and text.meaning.endswith("."), f"{name}.{field.name}: {text.meaning!r}"
        assert text.example, f"{name}.{field.name} has no example: end its text with Example: `...`"
        assert read_document(text.example, field.name) is not None


@pytest.mark.parametrize("place", all_places(), ids=lambda place: place.path)
def test_an_example_can_be_loaded_where_its_field_stands(place):
    """The example of a field is a value that the field takes, wherever it may stand."""
    value = read_document(field_texts(place.block)[place.field.attribute].example, place.path)
    spec = typed_eval(document_with(place, value))
    if place.field.name not in NEEDS_OTHERS and place.path != "tasks.*.axes.*.*.args":
        resolve(spec)


def test_a_subclass_keeps_the_words_of_its_base():
    """A scorer that repeats `name` with its own default does not repeat the words."""
    assert field_texts(SCORERS["exact"])["name"] == field_texts(SCORERS["regex"])["name"]
