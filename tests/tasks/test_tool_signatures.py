"""The schema of a tool's parameters, and what the model's arguments become; what cannot be described is refused."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from holdfast import ConfigurationError, Tool, agent, generate, tool
from holdfast.tasks.tools.tool import as_tools


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Box(msgspec.Struct):
    side: int


class Options(TypedDict, total=False):
    fast: bool


class Opaque:
    pass


def typed(hint: Any, default: Any = ...) -> Any:
    """A function with one parameter of that type, which it returns."""

    def take(value):
        return value

    def take_or_leave(value=default):
        return value

    function = take if default is ... else take_or_leave
    function.__annotations__ = {"value": hint}
    return function


TYPES = [
    (str, {"type": "string"}, "a", "a"),
    (int, {"type": "integer"}, 3, 3),
    (int, {"type": "integer"}, "3", 3),
    (float, {"type": "number"}, 3, 3.0),
    (bool, {"type": "boolean"}, "true", True),
    (Literal["a", "b"], {"enum": ["a", "b"]}, "b", "b"),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1, "2"], [1, 2]),
    (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, {"a": 1.0}),
    (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}, None, None),
    # What fits as it is stays so: the text "1" is not turned into a number here.
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "1", "1"),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}, 1, 1),
    (Annotated[int, msgspec.Meta(ge=0)], {"type": "integer", "minimum": 0}, 1, 1),
    (Any, {}, {"a": [1]}, {"a": [1]}),
    (Colour, {"$ref": "#/$defs/Colour"}, "red", Colour.RED),
    (Point, {"$ref": "#/$defs/Point"}, {"x": 1}, Point(1)),
    (Box, {"$ref": "#/$defs/Box"}, {"side": 2}, Box(2)),
    (Options, {"$ref": "#/$defs/Options"}, {"fast": True}, {"fast": True}),
]


@pytest.mark.parametrize(("hint", "schema", "sent", "got"), TYPES, ids=[str(row[0]) + str(row[2]) for row in TYPES])
def test_a_type_has_its_schema_and_its_value(hint, schema, sent, got):
    """What the schema says is what is accepted, and the function gets the type that it asks for."""
    made = tool(typed(hint), name="t")
    whole = made.offer["function"]["parameters"]
    assert whole["properties"]["value"] == schema
    assert (whole["required"], whole["additionalProperties"], whole["type"]) == (["value"], False, "object")
    args, kwargs = made.signature.convert({"value": sent})
    assert (args, kwargs) == ([], {"value": got})
    assert type(kwargs["value"]) is type(got)


@pytest.mark.parametrize(
    ("hint", "default", "shown"), [(int, 3, 3), (list[int], [1], [1]), (str | None, None, None), (Point, Point(1), ...)]
)
def test_a_parameter_with_a_default_may_be_left_out(hint, default, shown):
    """The default is Python's own, of any type; the schema shows it where JSON can."""
    made = tool(typed(hint, default), name="t")
    parameters = made.offer["function"]["parameters"]
    assert "required" not in parameters or parameters["required"] == []
    assert parameters["properties"]["value"].get("default", ...) == shown
    assert made.signature.convert({}) == ([], {})
    assert made() == default


def test_positional_and_keyword_only_parameters_and_methods():
    """As the function takes them; `self`, and what a partial binds by position, are no parameters."""

    class Shop:
        def price(self, item: str, /, count: int = 1, *, gift: bool = False) -> str:
            """The price of something."""
            return f"{item} {count} {gift}"

        async def __call__(self, item: str) -> str:
            """Buys."""
            return item

    made = tool(Shop().price)
    args, kwargs = made.signature.convert({"item": "tea", "gift": True})
    assert made(*args, **kwargs) == "tea 1 True"
    assert (made.name, made.description) == ("price", "The price of something.")
    assert list(tool(Shop(), name="buy").offer["function"]["parameters"]["properties"]) == ["item"]
    bound = tool(functools.partial(Shop().price, "tea"))
    assert list(bound.signature.schema["properties"]) == ["count", "gift"]


def test_the_decorator_keeps_the_function_callable():
    @tool(name="look-up", on_interrupted="fail", max_characters=5)
    def find(word: str) -> str:
        """Finds a word.

        In the book.
        """
        return word * 2

    assert find("a") == "aa"
    assert isinstance(find, Tool)
    assert find.offer["function"]["description"] == "Finds a word.\n\nIn the book."
    assert (find.name, find.on_interrupted, find.max_characters) == ("look-up", "fail", 5)
    assert as_tools([find]) == (find,)


def untyped(value): ...
def variadic(*values: int): ...
def keyworded(**values: int): ...
def grün(value: str): ...  # noqa: PLC2401 - what it is about
def umlaut(größe: str): ...  # noqa: PLC2401 - what it is about
def unknown(value: Nowhere): ...  # noqa: F821 - what it is about


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (untyped, "The parameter 'value' of the tool 'untyped' has no type"),
        (variadic, "The parameter '*values' of the tool 'variadic' takes any arguments"),
        (keyworded, "The parameter '**values' of the tool 'keyworded' takes any arguments"),
        (
            typed(Opaque),
            "The parameter 'value' of the tool 'take' has a type that cannot be described: it is, or holds",
        ),
        (typed(list[Opaque]), "of the tool 'take' has a type that cannot be described"),
        (typed(Point | Box), "of the tool 'take' has a type that cannot be described: Type unions may not contain"),
        (umlaut, "The parameter 'größe' of the tool 'umlaut' has a name that APIs refuse"),
        (unknown, "The types of the tool 'unknown' cannot be read: name 'Nowhere' is not defined"),
        (grün, "A tool cannot be called 'grün'"),
        (lambda: 1, "A tool cannot be called '<lambda>'"),
        (Opaque, "Opaque cannot be a tool"),
        (7, "int cannot be a tool"),
    ],
)
def test_what_no_model_can_be_given_is_refused_when_the_task_is_made(function, words):
    """By the function and the parameter, before anything is paid."""
    with pytest.raises(ConfigurationError) as refused:
        agent(tools=[function])
    assert words in str(refused.value)
    assert refused.value.hint


def test_what_an_agent_cannot_be():
    """Tools of one name, none, not a list, impossible turns; and `generate` runs none."""

    def one(value: str): ...

    for given, words in (
        ({"tools": [one, tool(one)]}, "Two tools are called 'one'"),
        ({"tools": []}, "at least one tool"),
        ({"tools": one}, "not a list"),
        ({"tools": [one], "max_turns": 0}, "max_turns is 0"),
        ({"tools": [one], "max_turns": True}, "max_turns is True"),
        ({"tools": [one], "on_tool_error": "ignore"}, "on_tool_error is 'ignore'"),
        ({"tools": [one], "temprature": 1}, "no parameter 'temprature'"),
    ):
        with pytest.raises(ConfigurationError, match=words.replace("(", r"\(")):
            agent(**given)
    with pytest.raises(ConfigurationError, match="agent"):
        generate(tools=[one])
    for options in ({"on_interrupted": "never"}, {"max_characters": 0}, {"name": "a b"}, {"description": 3}):
        with pytest.raises(ConfigurationError):
            tool(one, **options)
