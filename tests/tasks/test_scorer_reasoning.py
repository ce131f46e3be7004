"""Reasoning in a reply's text is not part of the answer that is scored."""

import asyncio

import pytest

from holdfast.models.message import Reply
from holdfast.models.reasoning_text import without_reasoning
from holdfast.tasks.answer import Answer
from holdfast.tasks.judges.grades import ChoiceGrades
from holdfast.tasks.judges.judge_reply import InvalidVerdict, Judge
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.registry import build_scorer

THOUGHT = "<think>Is it 4, (A) or Lyon? No.</think>\n\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Paris", "Paris"),
        ("", ""),
        (f"{THOUGHT}Paris", "\n\nParis"),
        ("It may be Lyon.\n</think>\nParis", "\nParis"),
        ("It may be Lyon. </think> Paris", " Paris"),
        ("Well. <thinking>Lyon?</thinking>Paris", "Well. Paris"),
        ("<THINK>Lyon</THINK>Paris", "Paris"),
        ("[THINK]Lyon[/THINK]Paris", "Paris"),
        ("<think>a</think>P<think>b</think>aris", "Paris"),
        ("<think>a<think>b</think>c</think>Paris", "Paris"),
        ("<think>Lyon", ""),
        (" \n<think>Lyon", ""),
        ("<think>Lyon</think>", ""),
        ("Paris</think>", ""),
        ("Put it into <think> tags", "Put it into <think> tags"),
        ('text.split("</think>")[1]', 'text.split("</think>")[1]'),
        ("`<think>` begins it and `</think>` ends it", "`<think>` begins it and `</think>` ends it"),
        ("a < b [c]", "a < b [c]"),
    ],
)
def test_what_is_left_of_a_text_is_the_final_answer(text, left):
    """Blocks go, and so does what stands before the end of one that the prompt has opened; quoted tags are text."""
    assert without_reasoning(text) == left
    assert Answer(text).final_text == left


@pytest.mark.parametrize(
    ("given", "target", "answer", "expected"),
    [
        ("exact", "Paris", "Paris", True),
        ("includes", "Lyon", "Paris", False),
        ("includes", "Paris", "It is Paris.", True),
        ("numeric", "4", "none", False),
        ("numeric", "5", "5", True),
        ("choice", "A", "B", False),
        ("choice", "B", "B", True),
        ({"regex": {"pattern": r"\d"}}, "4", "none", False),
        ({"regex": {"pattern": r"\d"}}, "5", "5", True),
    ],
)
def test_no_scorer_takes_a_thought_for_the_answer(given, target, answer, expected):
    """What a model has considered and dropped is not scored."""
    sample = Sample("?", target=target, choices=["Lyon", "Paris"] if given == "choice" else None)
    assert build_scorer(given)(Answer(THOUGHT + answer), sample).value is expected


@pytest.mark.parametrize(("given", "revision"), [("exact", 2), ("includes", 2), ("numeric", 2), ("choice", 3)])
def test_the_scores_are_those_of_a_new_version(given, revision):
    """Scores of a version that read reasoning too are never mixed with new ones."""
    assert build_scorer(given).identity()["revision"] == revision


class _Scope:
    """A judge's scope whose model says one thing after another."""

    def __init__(self, *replies):
        self.replies = list(replies)

    async def generate(self, _messages, **_options):
        return self.replies.pop(0)


def test_a_judge_may_reason_before_its_verdict():
    """The verdict is read behind the reasoning: no call is spent on asking for it once more."""
    scope = _Scope(Reply('<think>{"grade": "I"}? No.</think>{"explanation": "right", "grade": "C"}', "stop"))
    assert asyncio.run(Judge("judge", ChoiceGrades({"C": 1, "I": 0})).verdict("?", scope)).grade == "C"
    scope = _Scope(Reply("<think>GRADE: I?</think> GRADE: C", "stop"))
    found = asyncio.run(Judge("judge", ChoiceGrades({"C": 1, "I": 0}), "GRADE: ([CI])").verdict("?", scope))
    assert found.grade == "C"


def test_a_judge_that_only_reasons_gives_no_verdict():
    """The reason says so, and whether it was cut off."""
    scope = _Scope(Reply("<think>hm", "stop"), Reply("<think>hm", "length"))
    found = asyncio.run(Judge("judge", ChoiceGrades({"C": 1, "I": 0})).verdict("?", scope))
    assert found == InvalidVerdict("it ends in its reasoning", "<think>hm")
