"""No answer, however hostile, keeps a built-in scorer busy."""

import pytest

from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.base import LONGEST_TEXT
from holdfast.tasks.scorers.registry import build_scorer

PIECES = [
    " ",
    "1",
    "1 ",
    "1,",
    "-",
    "{",
    "^{1",
    "\\boxed{",
    "\\frac{1",
    "answer: ",
    "answer is * ",
    "A) ",
    "(A",
    "a\n",
    "/1",
    "é",
    "*",
    "<think>",
    "</think>",
    "<think></think>",
    "answer: A or ",
    "answers are either *** ",
    '"answer": "',
    "A, ",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("given", ["exact", "includes", "numeric", "choice"])
@pytest.mark.parametrize("piece", PIECES)
def test_a_huge_answer_of_one_piece_is_judged(given, piece):
    """A text that repeats one thing for ever is judged in a time that grows with its length alone."""
    scorer = build_scorer(given)
    sample = Sample("?", target="5", choices=["6 apples", "5"])
    body = piece * ((LONGEST_TEXT - 10) // len(piece))
    for text in (body, f"answer:{body}?", f"1{body}?", f"{body}?"):
        assert scorer(Answer(text), sample).value is False
