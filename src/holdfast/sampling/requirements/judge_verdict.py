"""What a judge says, as JSON: `{"explanation": "...", "met": true}`, or a score instead of `met`."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.tasks.judges.strict_json import NotJson, json_in_reply
from holdfast.tasks.judges.verdict import NoVerdict

LONGEST_VERDICT = 100_000

FORMS = {
    False: 'Reply with one JSON object and nothing else: {"explanation": "why, in a sentence or two", "met": true}, '
    "where met is true if the answer meets the criterion, and false if it does not.",
    True: 'Reply with one JSON object and nothing else: {"explanation": "why, in a sentence or two", "score": 0.7}, '
    "where score is a number from 0 (the answer does not meet the criterion at all) to 1 (it meets it fully).",
}
"""The instruction how to reply; True where the judge gives a score."""


class JudgeVerdict(msgspec.Struct, frozen=True):
    """A verdict as a judge gave it."""

    score: float
    """From 0 to 1; of `met`, one or the other."""
    is_scored: bool
    explanation: str = ""


def read_verdict(text: str) -> JudgeVerdict:
    """The verdict in what a judge said: JSON alone, or in one fenced block. Nothing is guessed from prose.

    Raises:
        NoVerdict: no verdict was found.
    """
    if len(text) > LONGEST_VERDICT:
        raise NoVerdict(f"it has more than {LONGEST_VERDICT:,} characters")
    try:
        value = json_in_reply(text)
    except NotJson as error:
        raise NoVerdict(f"it is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise NoVerdict("it is not a JSON object")
    return _verdict(value)


def _verdict(value: dict[str, Any]) -> JudgeVerdict:
    explanation = value.get("explanation", "")
    if not isinstance(explanation, str):
        raise NoVerdict("its explanation is not a text")
    if ("met" in value) == ("score" in value):
        raise NoVerdict('it has both "met" and "score"' if "met" in value else 'it has neither "met" nor "score"')
    if "met" in value:
        if not isinstance(value["met"], bool):
            raise NoVerdict("met is neither true nor false")
        return JudgeVerdict(float(value["met"]), is_scored=False, explanation=explanation)
    score = value["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise NoVerdict("score is not a number from 0 to 1")
    return JudgeVerdict(float(score), is_scored=True, explanation=explanation)
