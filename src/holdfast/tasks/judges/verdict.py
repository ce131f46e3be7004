"""What a judge says of an answer, and how it is asked to say it.

A verdict is JSON, alone or in one fenced block, and is never guessed from prose: any other text is not a
verdict. Only with a pattern of the user's own is a text searched.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from holdfast.tasks.judges.strict_json import NotJson, json_in_reply

LONGEST_VERDICT = 100_000
LONGEST_EXPLANATION = 10_000
WHY = '"explanation": "why, in a sentence or two"'
"""How every form begins: a judge that explains first grades better."""


class NoVerdict(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """What a judge said is not a verdict; the message says what is wrong with it."""


class Graded(msgspec.Struct, frozen=True):
    """A verdict as it is scored."""

    value: float | None
    """None where no criterion applies."""
    grade: str = ""
    """What the judge gave, in the words of the verdict."""
    explanation: str = ""
    metadata: dict[str, Any] = {}


class Grading(Protocol):
    """A way in which judges grade."""

    @property
    def form(self) -> str:
        """The instruction how to reply."""

    @property
    def values(self) -> tuple[float, ...]:
        """The lowest and the highest value and, where there are only a few, those between."""

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a verdict."""

    def read(self, given: dict[str, Any]) -> Graded:
        """The verdict in a JSON object; raises NoVerdict."""

    def of_text(self, grade: str) -> Graded:
        """The verdict that a pattern has found; raises NoVerdict."""


def graded_in(text: str, grading: Grading) -> Graded:
    """The verdict in what a judge said.

    Raises:
        NoVerdict: there is none.
    """
    if len(text) > LONGEST_VERDICT:
        raise NoVerdict(f"it has more than {LONGEST_VERDICT:,} characters")
    try:
        value = json_in_reply(text)
    except NotJson as error:
        raise NoVerdict(f"it is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise NoVerdict("it is not a JSON object")
    return grading.read(value)


def explanation_in(given: dict[str, Any]) -> str:
    """The explanation in a verdict; empty where there is none."""
    explanation = given.get("explanation", "")
    if not isinstance(explanation, str):
        raise NoVerdict("its explanation is not a text")
    return explanation[:LONGEST_EXPLANATION]


def object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these parts; services that enforce a schema want it spelled out."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
