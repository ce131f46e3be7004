"""Templates: fields and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.tasks.template import Template

FIELDS = {"country": "France", "n": 3, "meta": {"x": "deep", "list": ["a", {"b": 1.5}]}, "a.b": "dotted", "no": None}


def render(text, fields=FIELDS):
    return Template.parse(text, "prompt").render(fields, "data.jsonl row 4")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Capital of {country}?", "Capital of France?"),
        ("{ country }", "France"),
        ("{n} and {n}", "3 and 3"),
        ("{meta.x} {meta.list.0} {meta.list.1.b}", "deep a 1.5"),
        ("{meta}", '{"list":["a",{"b":1.5}],"x":"deep"}'),
        ("{a.b}", "dotted"),
        ('{{"answer": "{country}"}}', '{"answer": "France"}'),
        ("{{{country}}}", "{France}"),
        ("{{country}}", "{country}"),
        ("", ""),
    ],
)
def test_fields_stand_in_their_places(text, expected):
    """Values are put in as text or JSON, and doubled braces are braces."""
    assert render(text) == expected


def test_a_value_that_looks_like_a_template_is_not_filled_again():
    """What a dataset says is data."""
    assert render("{first}", {"first": "{second}", "second": "secret"}) == "{second}"


def test_a_missing_field_names_itself_the_others_and_the_nearest():
    """A mistyped field is refused with everything needed to correct it."""
    with pytest.raises(ConfigurationError) as caught:
        render("{contry}")
    message = str(caught.value)
    assert "'contry'" in message and "data.jsonl row 4" in message and "prompt" in message
    assert "a.b, country, meta, n, no" in message and "Did you mean 'country'?" in message


@pytest.mark.parametrize(
    "text", ["{country", "country}", "{}", "{ }", '{"a": 1}', "{no}", "{meta.y}", "{n.real}", "{meta.list.7}", "{a{b}"]
)
def test_what_cannot_be_filled_is_refused(text):
    """Single braces, nulls and paths that lead nowhere are refused."""
    with pytest.raises(ConfigurationError):
        render(text)


@pytest.mark.parametrize(
    "attack",
    [
        "{country.__class__}",
        "{country.__class__.__mro__}",
        "{country!r}",
        "{n:>1000000000}",
        "{country[0]}",
        "{meta.__init__.__globals__}",
        "{meta.list.-1}",
        "{meta.list.append}",
        "{0}",
    ],
)
def test_attributes_format_specifications_and_indices_are_out_of_reach(attack):
    """Nothing but a field's own JSON value can be named."""
    with pytest.raises(ConfigurationError):
        render(attack)


def test_one_field_alone_keeps_its_value():
    """A target template that is one field gives what the field holds."""
    assert Template.parse("{meta.list}").value(FIELDS) == ["a", {"b": 1.5}]
    assert Template.parse("{n}!").value(FIELDS) == "3!"


def test_the_named_fields_are_known_without_rendering():
    """A template tells which fields it needs."""
    template = Template.parse("{a} {b.c} {{d}}")
    assert template.paths == ("a", "b.c")
    assert template.names("b") and template.names("b.c") and not template.names("d")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.text(alphabet="ab{}.!:[]_0\n ", max_size=30), st.dictionaries(st.sampled_from("ab"), json_values))
@settings(max_examples=300, deadline=None)
def test_a_template_renders_or_is_refused_and_nothing_else(text, fields):
    """Whatever the text and the fields, there is a text or a ConfigurationError."""
    try:
        rendered = Template.parse(text).render(fields)
    except ConfigurationError:
        return
    assert isinstance(rendered, str)


@given(st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_escaped_text_comes_back_as_it_was(text):
    """Doubling every brace makes any text a template of itself."""
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert Template.parse(escaped).render({}) == text
