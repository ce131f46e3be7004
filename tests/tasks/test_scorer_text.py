"""Scorers that compare text: exact, includes, regex."""

import signal
import threading

import pytest

from holdfast.errors import ConfigurationError
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers import match_time_limit
from holdfast.tasks.scorers.base import LONGEST_TEXT
from holdfast.tasks.scorers.exact import exact
from holdfast.tasks.scorers.includes import includes
from holdfast.tasks.scorers.match_time_limit import PatternTooSlow
from holdfast.tasks.scorers.regex import regex
from holdfast.tasks.scorers.registry import build_scorer


def judged(scorer, text, target, **sample):
    return scorer(Answer(text), Sample("?", target=target, **sample)).value


@pytest.mark.parametrize(
    ("arguments", "text", "target", "expected"),
    [
        ({}, " Paris\n", "Paris", True),
        ({}, "paris", "Paris", False),
        ({}, "Paris.", "Paris", False),
        ({"ignore_case": True}, "PARIS", "Paris", True),
        ({"ignore_case": True}, "STRASSE", "straße", True),
        ({"ignore_punctuation": True}, "Well - Paris!", "Well, Paris", True),
        ({}, "caf\u00e9", "cafe\u0301", True),
        ({}, "4", 4, True),
        ({}, "true", True, True),
        ({}, "b", ["a", "b"], True),
        ({}, "c", ["a", "b"], False),
        ({}, "", "", True),
    ],
)
def test_exact_compares_the_whole_answer(arguments, text, target, expected):
    """White space around it never counts; case and punctuation only when told."""
    assert judged(exact(**arguments), text, target) is expected


@pytest.mark.parametrize(
    ("arguments", "text", "target", "expected"),
    [
        ({}, "It is Paris, of course.", "Paris", True),
        ({}, "It is paris.", "Paris", False),
        ({"ignore_case": True}, "It is PARIS.", "Paris", True),
        ({}, "It is Rome.", ["Paris", "Rome"], True),
        ({}, "", "Paris", False),
    ],
)
def test_includes_looks_anywhere_in_the_answer(arguments, text, target, expected):
    """The target may stand anywhere."""
    assert judged(includes(**arguments), text, target) is expected


@pytest.mark.parametrize(
    ("arguments", "text", "target", "expected"),
    [
        ({"pattern": r"Answer: (\w+)"}, "So. Answer: Paris.", "Paris", True),
        ({"pattern": r"Answer: (\w+)"}, "So. Answer: Rome.", "Paris", False),
        ({"pattern": r"Answer: (\w+)"}, "Paris", "Paris", False),
        ({"pattern": r"\d+"}, "in 1999 or 2001", "1999", True),
        ({"pattern": r"\d+", "match": "last"}, "in 1999 or 2001", "2001", True),
        ({"pattern": r"(\w)(\w)", "group": 2}, "ab", "b", True),
        ({"pattern": r"(?P<x>\w)(?P<y>\w)", "group": "y"}, "ab", "b", True),
        ({"pattern": r"(\w)(\w)", "group": 0}, "ab", "ab", True),
        ({"pattern": r"(x)|y"}, "y", "x", False),
        ({"pattern": "ANSWER: (.*)", "ignore_case": True}, "answer: PARIS", "paris", True),
        ({"pattern": "^[A-Z]", "compare": False}, "Anything", None, True),
        ({"pattern": "^[A-Z]", "compare": False}, "anything", None, False),
    ],
)
def test_regex_finds_the_answer_and_compares_it(arguments, text, target, expected):
    """What the pattern's group holds is compared; without a group, the whole match."""
    assert judged(build_scorer({"regex": arguments}), text, target) is expected


def test_the_extracted_answer_is_part_of_the_score():
    """A score shows what it was read from."""
    score = regex(r"Answer: (\w+)")(Answer("Answer: Rome"), Sample("?", target="Paris"))
    assert (score.value, score.answer) == (False, "Rome")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "("}, "not a valid regular expression"),
        ({"pattern": "a", "group": 1}, "no group 1"),
        ({"pattern": "(?P<year>a)", "group": "yaer"}, "it has year"),
        ({}, "pattern"),
        ({"pattern": 5}, "pattern"),
        ({"pattern": "a", "match": "middle"}, "middle"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused_when_the_scorer_is_made(arguments, said):
    """Mistakes in a pattern are found before the run."""
    with pytest.raises(ConfigurationError, match=said):
        build_scorer({"regex": arguments})


def test_a_pattern_without_end_fails_the_trial_and_scores_nothing(monkeypatch):
    """A match that would take for ever is ended and is an error, never a score of zero."""
    monkeypatch.setattr(match_time_limit, "CPU_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(PatternTooSlow, match=r"\(a\+\)\+b"):
        regex(r"(a+)+b")(Answer("a" * 40), Sample("?", target="x"))
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_matching_works_in_any_thread():
    """Where no timer can be set, a pattern still does its work."""
    found = []
    thread = threading.Thread(target=lambda: found.append(judged(regex("(b)"), "abc", "b")))
    thread.start()
    thread.join()
    assert found == [True]


def test_only_the_end_of_a_huge_answer_is_looked_at():
    """Answers are cut to their last 100,000 characters before they are searched with a pattern."""
    padding = "x" * LONGEST_TEXT
    assert judged(regex("needle"), "needle" + padding, "needle") is False
    assert judged(regex("needle"), padding + "needle", "needle") is True


@pytest.mark.parametrize("scorer", [exact(), includes(), regex("a")])
@pytest.mark.parametrize("target", [None, [], {"a": 1}, [["a"]]])
def test_a_missing_or_unusable_target_is_refused_before_the_run(scorer, target):
    """A sample that could not be judged is named when the run is planned."""
    with pytest.raises(ConfigurationError, match=r"data\.jsonl row 3"):
        scorer.check(Sample("?", target=target), "data.jsonl row 3")


def test_an_empty_target_is_refused_where_every_answer_would_include_it():
    """A target that says nothing is no test."""
    with pytest.raises(ConfigurationError, match="empty"):
        includes().check(Sample("?", target=" "), "row 1")


def test_a_sample_may_carry_its_own_arguments():
    """Arguments under the scorer's name hold for that sample alone."""
    scorer = build_scorer({"exact": {"name": "strict"}})
    own = {"strict": {"ignore_case": True}}
    assert judged(scorer, "PARIS", "Paris", scoring=own) is True
    assert judged(scorer, "PARIS", "Paris", scoring={"exact": {"ignore_case": True}}) is False
    assert judged(scorer, "PARIS", "Paris") is False


def test_arguments_that_a_sample_carries_are_checked_before_the_run():
    """A mistyped argument in a row is refused, naming the row and the nearest."""
    sample = Sample("?", target="x", scoring={"exact": {"ignore_csae": True}})
    with pytest.raises(ConfigurationError, match=r"row 9.*'ignore_case'"):
        exact().check(sample, "row 9")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("exat", "Did you mean 'exact'"),
        ({"exact": {"ignorecase": True}}, "Did you mean 'ignore_case'"),
        ({"exact": {"ignore_case": "yes"}}, "ignore_case"),
        ({"exact": {}, "includes": {}}, "one name"),
        ({"exact": [1]}, "not a map"),
        ({}, "one name"),
    ],
)
def test_unknown_scorers_and_arguments_are_refused_with_the_nearest(given, said):
    """A mistyped scorer never runs as something else."""
    with pytest.raises(ConfigurationError, match=said):
        build_scorer(given, "tasks.x.scorers")


def test_the_identity_changes_with_the_arguments_and_only_then():
    """Two scorers with the same identity judge alike."""
    assert build_scorer("exact").identity() == build_scorer({"exact": {"ignore_case": False}}).identity()
    assert exact().identity() != exact(ignore_case=True).identity()
    assert exact().identity() != includes().identity()
    assert regex("a").identity() != regex("b").identity()


@pytest.mark.parametrize("scorer", [exact(), includes()])
@pytest.mark.parametrize("length", [100_000, 100_001, 1_000_000])
def test_an_answer_of_any_length_is_compared_whole(scorer, length):
    """A correct answer is not wrong because it is long."""
    text = "x" * length
    assert scorer(Answer(text), Sample("q", target=text)).value
