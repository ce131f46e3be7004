"""What is saved loads as the same eval, whatever valid value any field has."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from schema_values import document_with, example, leaves, may_be_absent, other_example, spec_strategy

from holdfast.spec import EvalSpec, FieldPlace, canonical_bytes, eval_text, parse_eval, resolve, typed_eval

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(spec_strategy(EvalSpec))
def test_a_saved_eval_loads_the_same(spec):
    """load(save(x)) is x, with every field set to a random valid value."""
    for text in (eval_text(spec), eval_text(spec, explicit=True)):
        loaded = parse_eval(text)
        assert loaded == spec
        assert canonical_bytes(loaded) == canonical_bytes(spec)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(spec_strategy(EvalSpec))
def test_the_canonical_bytes_hold_the_whole_eval(spec):
    """The canonical bytes decode to the same eval, and the order of keys does not enter them."""
    data = msgspec.json.decode(canonical_bytes(spec))
    assert typed_eval(data) == spec
    backwards = msgspec.structs.replace(spec, models=dict(reversed(spec.models.items())))
    assert canonical_bytes(backwards) == canonical_bytes(spec)


@pytest.mark.parametrize("place", leaves(), ids=lambda place: place.path)
def test_every_field_counts_in_every_place(place: FieldPlace):
    """A value given in any place is kept, changes the eval, and survives saving."""
    field = place.field
    spec = typed_eval(document_with(place, example(field)))
    other = typed_eval(document_with(place, None if may_be_absent(place) else other_example(field)))
    assert canonical_bytes(spec) != canonical_bytes(other)
    assert parse_eval(eval_text(spec)) == spec
    assert parse_eval(eval_text(spec, explicit=True)) == spec


@pytest.mark.parametrize(
    "text",
    ["1e-3", "No", "2024-01-01", "null", "~", "0x10", "012", "1_000", "=", "<<", "", " a ", "a\nb\n", "é\u2028\x07"],
)
def test_text_stays_text(text):
    """A text that looks like another kind of value is still the same text after saving."""
    spec = EvalSpec(description=text, tags=[text])
    assert parse_eval(eval_text(spec)) == spec


def test_the_explicit_file_writes_out_the_defaults():
    """A reader of the saved file sees the value of every knob, set or not."""
    spec = resolve(typed_eval(document_with(leaves()[0], "first")))
    text = eval_text(spec, explicit=True)
    assert "concurrency_limit: 256" in text
    assert "epochs: 1" in text
    assert "read: 600.0" in text
    assert resolve(parse_eval(text)) == spec
