"""Durations are numbers of seconds or text with units; both mean the same everywhere."""

from __future__ import annotations

import pytest
from schema_values import MINIMAL, document_with, leaves

from holdfast.errors import ConfigurationError
from holdfast.spec import canonical_bytes, eval_text, parse_eval, resolve, typed_eval
from holdfast.spec.loading.durations import parse_duration
from holdfast.spec.override import override
from holdfast.spec.schema.field_types import is_duration
from holdfast.spec.schema.introspect import members

DURATIONS = [place for place in leaves() if is_duration(members(place.field.type)[0])]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("90s", 90.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1d", 86_400.0),
        ("1.5h", 5400.0),
        ("1.15m", 69.0),
        ("100ms", 0.1),
        ("1d2h3m4s5ms", 93_784.005),
        ("0s", 0.0),
    ],
)
def test_units(text, seconds):
    """Days, hours, minutes, seconds and milliseconds, the largest first, also with decimals."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "120", "m", "2 m", "1h 30m", "30m1h", "1m1m", "-2m", "1e3s", "2m\n", "2M", "\u0661m", ".5s", "9" * 100 + "s"],
)
def test_what_is_no_duration(text):
    """Nothing is guessed: no unit, a wrong order, a sign and spaces are refused."""
    assert parse_duration(text) is None


def test_every_field_in_seconds_takes_a_duration():
    """Each of them, wherever it may stand; in the resolved eval it is the number, so there is no drift."""
    assert len(DURATIONS) > 10
    for place in DURATIONS:
        text, number = (resolve(typed_eval(document_with(place, value))) for value in ("2m", 120))
        assert text == number, place.path
        assert canonical_bytes(text) == canonical_bytes(number)
        assert "2m" not in eval_text(text)


def test_a_duration_on_the_command_line():
    """--set takes them too."""
    assert override(typed_eval(MINIMAL), {"retry_deadline": "90s"}).runner.retry_deadline == 90.0


def test_both_places_of_a_key_may_spell_it_differently():
    """`2m` at the top and 120 in runner say the same."""
    spec = typed_eval({**MINIMAL, "retry_deadline": "2m", "runner": {"retry_deadline": 120}})
    assert spec.runner.retry_deadline == 120.0


@pytest.mark.parametrize("value", ["2 minutes", "120", "0s", "9999d"])
def test_a_bad_one_is_named_with_the_forms(value):
    """The message has the value, the bounds and examples."""
    with pytest.raises(ConfigurationError) as raised:
        parse_eval(f"retry_deadline: {value!r}")
    assert f'retry_deadline is "{value}"; allowed: a number above 0 up to 10000000 (seconds)' in str(raised.value)
    assert '"90s", "2m" or "1h30m"' in str(raised.value)
