"""One verdict of a judge: a request, its reply and, if that is not a verdict, one repair request."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import ReplyWithoutText
from holdfast.models.message import Message, Reply
from holdfast.models.reasoning_text import without_reasoning
from holdfast.tasks.judges.verdict import Graded, Grading, NoVerdict, graded_in
from holdfast.tasks.scorers.base import LONGEST_TEXT
from holdfast.tasks.scorers.match_time_limit import limit_match_time
from holdfast.tasks.scorers.regex import compiled_pattern
from holdfast.tasks.trial_interface import ScoreScope

CALLS = 2
"""The most calls that one verdict takes."""
KEPT_CHARACTERS = 10_000
"""How much of a reply that is not a verdict is kept in the score; all of it is on record with the judge's call."""
_REPEATED_CHARACTERS = 4000
_SHOWN_OF_A_REFUSAL = 200


class InvalidVerdict(NamedTuple):
    """A judge gave no verdict, twice: why, and what it said last."""

    why: str
    said: str


class Judge(NamedTuple):
    """A model of the eval, and how it is asked to grade."""

    model: str
    grading: Grading
    grade_pattern: str | None = None

    async def verdict(self, request: str, scope: ScoreScope) -> Graded | InvalidVerdict:
        """The judge's verdict; a call that fails raises the error of the model."""
        asked = (Message("user", request),)
        reply = await self._ask(asked, scope)
        try:
            return self._read(reply)
        except NoVerdict as error:
            again = f"That cannot be used: {error}. {self._form}".rstrip()
        reply = await self._ask((*asked, *_said(reply), Message("user", again)), scope)
        try:
            return self._read(reply)
        except NoVerdict as error:
            return InvalidVerdict(str(error), _words(reply)[:KEPT_CHARACTERS])

    @property
    def _form(self) -> str:
        return "Reply in the form that was asked for." if self.grade_pattern is not None else self.grading.form

    async def _ask(self, messages: tuple[Message, ...], scope: ScoreScope) -> Reply:
        structured: dict[str, Any] = {} if self.grade_pattern is not None else {"response_schema": self.verdict_schema}
        return await scope.generate(messages, model=self.model, **structured)

    @property
    def verdict_schema(self) -> dict[str, Any]:
        """The JSON Schema that a service with structured output makes the reply fit."""
        return self.grading.schema()

    def _read(self, reply: Reply) -> Graded:
        if reply.is_refusal:
            # Whatever stands beside a refusal was not meant as a judgement.
            raise NoVerdict(_refusal_text(reply))
        text = without_reasoning(_words(reply))
        if not text.strip():
            raise NoVerdict(_why_empty(reply))
        if self.grade_pattern is not None:
            return self._searched(reply, text)
        try:
            return graded_in(text, self.grading)
        except NoVerdict as error:
            cut = "; it was cut off, so the judge needs more max_tokens" if reply.finish == "length" else ""
            raise NoVerdict(f"{error}{cut}") from None

    def _searched(self, reply: Reply, text: str) -> Graded:
        """The verdict that the pattern finds; the whole text explains it."""
        if reply.finish == "length":
            raise NoVerdict("it was cut off, so the judge needs more max_tokens")
        pattern = self.grade_pattern or ""
        with limit_match_time(pattern):
            found = compiled_pattern(pattern, ignore_case=False).search(text[-LONGEST_TEXT:])
        if found is None or found[1] is None:
            raise NoVerdict("the pattern of the grade was not found in it")
        graded = self.grading.of_text(found[1])
        return Graded(graded.value, graded.grade, text[:KEPT_CHARACTERS], graded.metadata)


def _refusal_text(reply: Reply) -> str:
    """That a judge refuses, in its words if it has any."""
    why = reply.refusal[:_SHOWN_OF_A_REFUSAL] or "the reply ends with the reason refusal"
    return f"the judge refuses: {why}"


def _words(reply: Reply) -> str:
    try:
        return reply.text
    except ReplyWithoutText:
        return ""


def _why_empty(reply: Reply) -> str:
    if reply.tool_calls:
        return "it calls tools instead of giving a verdict"
    if _words(reply).strip():
        return "it ends in its reasoning" if reply.finish == "length" else "it holds only reasoning"
    return "it was cut off before it said anything" if reply.finish == "length" else "it is empty"


def _said(reply: Reply) -> tuple[Message, ...]:
    """What the judge said, for the request to say it properly."""
    text = _words(reply)[:_REPEATED_CHARACTERS]
    return (Message("assistant", text),) if text.strip() else ()
