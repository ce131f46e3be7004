"""Numbers are read exactly or not at all."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.number_parser import last_number
from holdfast.tasks.scorers.numeric import numeric
from holdfast.tasks.scorers.registry import build_scorer


def value(text, decimal="."):
    found = last_number(text, decimal)
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", 42),
        ("The answer is 42.", 42),
        ("First 3, then 5, so 8.", 8),
        ("#### 1,234", 1234),
        ("$1,234.50", "1234.5"),
        ("-$5", -5),
        ("$-5", -5),
        ("€ 20", 20),
        ("\u22127", -7),
        ("+7", 7),
        (".5", "0.5"),
        ("10-5", 5),
        ("10 - 5", 5),
        ("x=-3", -3),
        ("1e-3", "0.001"),
        ("2.5E3", 2500),
        ("3/4", "3/4"),
        ("3 / 4", "3/4"),
        ("-3/4", "-3/4"),
        ("1 3/4", "7/4"),
        (r"\frac{3}{4}", "3/4"),
        (r"-\dfrac{3}{4}", "-3/4"),
        (r"1\frac{1}{2}", "3/2"),
        (r"\boxed{12} is it, in 1 step", 12),
        (r"\boxed{\frac{1}{2}}", "1/2"),
        (r"\boxed{1{,}000}", 1000),
        (r"\$15", 15),
        ("12 km", 12),
        ("12km", 12),
        ("the 3rd", 3),
        ("1\u202f234\u202f567", 1234567),
        ("(8)", 8),
        ("**8**", 8),
        ("9,", 9),
        ("1234567890123456789012345", 1234567890123456789012345),
    ],
)
def test_numbers_are_read_as_people_and_models_write_them(text, expected):
    """The last number counts, or the one in the last box."""
    assert value(text) == Fraction(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "1.234,5",
        "1,5",
        "12,34",
        "1.2.3",
        "10^5",
        "10^{5}",
        "5k",
        "5M",
        "2 million",
        "1e999999999",
        "3/0",
        "1/2/2020",
        "0x1F",
        "1_000",
        "9" * 500,
        "version v2",
        r"\boxed{x}",
    ],
)
def test_what_would_have_to_be_guessed_is_no_number(text):
    """A malformed or scaled last number is no answer rather than a wrong one."""
    assert value(text) is None


def test_the_decimal_comma_is_read_when_it_is_told():
    """With a decimal comma, points separate thousands."""
    assert value("1.234,5", ",") == Fraction("1234.5")
    assert value("3,14", ",") == Fraction("3.14")
    assert value("1,234.5", ",") is None


@given(st.integers(-(10**30), 10**30))
@settings(max_examples=100, deadline=None)
def test_any_integer_is_read_back_with_and_without_separators(number):
    """Writing an integer and reading it is the identity."""
    assert value(f"The answer is {number}.") == number
    assert value(f"The answer is {number:,}.") == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12))
@settings(max_examples=100, deadline=None)
def test_any_decimal_is_read_back_exactly(number):
    """Decimals are not rounded on the way."""
    assert value(f"It is {number:f}") == Fraction(number)
    assert value(f"It is ${number:,.6f}") == Fraction(number)
    swapped = f"{number:,.6f}".translate(str.maketrans(",.", ".,"))
    assert value(f"It is {swapped}", ",") == Fraction(number)


@given(st.integers(-999, 999), st.integers(1, 999))
@settings(max_examples=60, deadline=None)
def test_any_fraction_is_read_back(numerator, denominator):
    """Fractions are exact, in plain text and in LaTeX."""
    assert value(f"= {numerator}/{denominator}") == Fraction(numerator, denominator)
    assert value(rf"\boxed{{\frac{{{numerator}}}{{{denominator}}}}}") == Fraction(numerator, denominator)


@given(st.text(alphabet="0123456789.,-+/%$eE ^{}\\k", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_not_and_nothing_is_raised(text):
    """There is no text on which reading a number fails."""
    assert value(text) is None or isinstance(value(text), Fraction)


@pytest.mark.parametrize(
    ("arguments", "text", "target", "expected"),
    [
        ({}, "about 42", "42", True),
        ({}, "42.0", 42, True),
        ({}, "0.75", "3/4", True),
        ({}, "0.333", "1/3", False),
        ({"absolute": 0.001}, "0.333", "1/3", True),
        ({"relative": 0.01}, "1005", 1000, True),
        ({"relative": 0.01}, "1020", 1000, False),
        ({"relative": 0.01}, "0.001", 0, False),
        ({}, "45%", "45%", True),
        ({}, "45 percent", "45%", True),
        ({}, "45%", "45", True),
        ({}, "45%", "0.45", True),
        ({}, "0.45", "45%", True),
        ({}, "45%", "4500%", False),
        ({}, "no idea", 42, False),
        ({}, "7", [6, 7], True),
        ({}, "12345678901234567891", "12345678901234567890", False),
        ({"decimal": ","}, "1.234,5", "1234,5", True),
    ],
)
def test_numbers_are_compared_exactly_or_within_a_tolerance(arguments, text, target, expected):
    """Equal means equal unless a tolerance is given; per cent is understood on either side."""
    scorer = build_scorer({"numeric": arguments})
    assert scorer(Answer(text), Sample("?", target=target)).value is expected


def test_a_target_without_a_number_is_refused_before_the_run():
    """What no answer could equal is a mistake of the dataset."""
    with pytest.raises(ConfigurationError, match=r"row 2 is 'many'"):
        numeric().check(Sample("?", target="many"), "row 2")
    with pytest.raises(ConfigurationError, match="Write it in digits"):
        numeric().check(Sample("?", target="six"), "row 2")
    with pytest.raises(ConfigurationError, match="before its decimals"):
        numeric().check(Sample("?", target="1.234,5"), "row 2")


@pytest.mark.parametrize("arguments", [{"absolute": -1}, {"relative": float("nan")}, {"decimal": ";"}])
def test_a_tolerance_that_makes_no_sense_is_refused(arguments):
    """Arguments are checked when the scorer is made."""
    with pytest.raises(ConfigurationError):
        numeric(**arguments)


def test_a_score_shows_the_number_that_was_read():
    """The answer of a score is the number, shortened."""
    assert numeric()(Answer("so $1,234.50"), Sample("?", target=1)).answer == "1234.5"
    assert numeric()(Answer("1e400"), Sample("?", target=1)).answer.startswith("1000")
