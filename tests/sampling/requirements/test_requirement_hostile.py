"""No answer, however hostile, crashes a requirement, keeps it busy, or gets through into its reason."""

import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from holdfast.sampling.requirements import VerdictKind, includes, json_schema, length, numeric, python, regex
from tests.sampling.drafts import verdict_of

PASSED, FAILED, ERROR = VerdictKind
ROOT = Path(__file__).parents[3]

QUICK = {
    "regex": regex(r"^\d+$"),
    "full": regex("[a-z]+@[a-z]+", full=True),
    "length": length(max=10),
    "words": length(max=10, unit="words"),
    "lines": length(max=1, unit="lines"),
    "includes": includes("needle\x1b"),
    "any case": includes("NEEDLE\x1b", ignore_case=True),
    "numeric": numeric(min=10**9, max=10**10),
    "python": python(),
    "schema": json_schema({"type": "object", "required": ["a"], "additionalProperties": False}),
}

PIECES = ["x ", "1", "```\n", "[", '{"a":', "(", "\x1b[31m\x00", "\ud800 \u202e", "a@", "\\boxed{", "\n", "é́"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", QUICK)
def test_fifty_megabytes_are_checked(name):
    """A huge answer gets its verdict, with a short reason that a terminal can show."""
    for piece in ("x \n", "\x1b[31m\x00[1,", "é```json\n"):
        verdict = verdict_of(QUICK[name], piece * (50_000_000 // len(piece)))
        # One word, or one line, of fifty megabytes is one.
        assert verdict.kind is FAILED or name in {"words", "lines"}
        assert len(verdict.reason) <= 500 and verdict.reason.isprintable()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("piece", PIECES, ids=ascii)
def test_a_long_answer_of_one_piece_is_checked(name, piece):
    for text in (piece * 30_000, f"{piece * 30_000}?", f'{{"a": "{piece * 30_000}'):
        verdict = verdict_of(QUICK[name], text)
        assert verdict.kind in {FAILED, PASSED}
        assert len(verdict.reason) <= 500 and verdict.reason.isprintable()


DEEP = 100_000
NESTED = {
    "brackets": "[" * DEEP + "]" * DEEP,
    "objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "a little": "[" * 600 + "]" * 600,
}


@pytest.mark.parametrize("case", NESTED)
def test_json_that_is_nested_deeply_fails(case):
    assert verdict_of(json_schema({"items": {"$ref": "#"}}), NESTED[case]).kind is not ERROR
    verdict = verdict_of(json_schema({"type": "string"}), NESTED[case])
    assert verdict.kind is FAILED
    assert "nested too deeply" in verdict.reason


NUMBERS = ["1e400", "1" * 10_000, "-Infinity", '"\\ud800"']


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: text[:10])
def test_json_that_cannot_be_held_fails(text):
    verdict = verdict_of(json_schema(True), text)
    assert verdict.kind is FAILED and "not valid JSON" in verdict.reason


def test_the_first_of_a_million_faults_is_named():
    """Only the first is looked for: all of them would take minutes."""
    verdict = verdict_of(json_schema({"items": {"type": "string"}}), f"[{'1,' * 1_000_000}1]")
    assert verdict.reason == 'The JSON does not fit the schema at "[0]": 1 is not of type "string".'


def test_a_reason_about_a_huge_value_is_short():
    verdict = verdict_of(json_schema({"type": "object"}), f'"\\u001b{"x" * 1_000_000}"')
    assert len(verdict.reason) < 500 and verdict.reason.isprintable()
    verdict = verdict_of(json_schema({"additionalProperties": {"type": "null"}}), f'{{"\\u001b{"k" * 100_000}": 1}}')
    assert len(verdict.reason) < 1000 and verdict.reason.isprintable()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)+$", "(.*a){25}$"])
def test_a_catastrophic_pattern_is_an_error_and_not_a_verdict(pattern):
    """It cannot hang the loop, and the candidate is not blamed for it."""
    verdict = verdict_of(regex(pattern), "a" * 60 + "b")
    assert verdict.kind is ERROR
    assert "takes too long" in verdict.reason and verdict.error.kind == "task"


def test_a_catastrophic_pattern_of_a_schema_is_an_error_too():
    verdict = verdict_of(json_schema({"pattern": "^(a|aa)+(?!b)$"}), f'"{"a" * 5000}b"')
    assert verdict.kind is ERROR and "takes too long" in verdict.reason


SOURCES = {
    "parentheses": "(" * DEEP,
    "closed parentheses": "(" * 150 + ")" * 150,
    "minus": "-" * DEEP + "1",
    "sums": "1" + "+1" * DEEP,
    "attributes": "a" + ".b" * DEEP,
    "calls": "a" + "()" * DEEP,
    "lambdas": "lambda:" * DEEP + "1",
    "conditions": "1 if 1 else " * DEEP + "1",
    "levels": "".join(" " * level + "if 1:\n" for level in range(200)),
    "null byte": "x = 1\x00",
    "a lone surrogate": "x = '\ud800'",
    "a long number": "1" * 5000,
    "an await": "await x",
    "text": "That is not Python.",
    "escapes": "x = \x1b[31m",
}


@pytest.mark.parametrize("case", SOURCES)
def test_source_that_does_not_compile_fails(case):
    verdict = verdict_of(python(), SOURCES[case])
    assert verdict.kind is (PASSED if case == "closed parentheses" else FAILED)
    assert len(verdict.reason) <= 500 and verdict.reason.isprintable()


def test_nothing_is_executed(tmp_path):
    """Neither when it is compiled, nor by a constant that would be huge."""
    target = tmp_path / "made"
    source = f"open({str(target)!r}, 'w')\nx = 10**10**10\ny = 'a' * 10**12\n"
    assert verdict_of(python(), source).is_passed
    assert not target.exists()


def test_no_warning_gets_out():
    """Also where warnings are errors, which would make valid code invalid."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        assert verdict_of(python(), "'\\d'\n1 is 1\nassert (1, 'x')").is_passed
        assert [action for action, *_ in warnings.filters[:1]] == ["error"]
    assert caught == []


def test_quoted_texts_are_spelled_out():
    """A pattern or a text with control characters is quoted so that it can be read, and does nothing to a terminal."""
    assert '"needle\\x1b"' in verdict_of(includes("needle\x1b"), "").reason
    assert '"\\x00\\ud800"' in verdict_of(regex("\x00\ud800"), "").reason
    assert len(verdict_of(regex("x" * 10_000), "").reason) < 400
    assert regex("\x1b").description.isprintable()


def test_requirements_are_checked_outside_the_main_thread_as_well():
    """Where there are no signals, there is no limit of time, and all else is the same."""
    kinds = []

    def check():
        kinds.extend(verdict_of(requirement, "text 1").kind for requirement in QUICK.values())

    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
    assert kinds == [verdict_of(requirement, "text 1").kind for requirement in QUICK.values()]


PROGRAM = """
from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements import function, json_schema, length, python, regex, build_requirement
from tests.sampling.drafts import verdict_of

refused = 0
for form in ({"length": {"max": -1}}, {"length": {}}, {"regex": "("}, {"json_schema": {"schema": 5}}, "nope"):
    try:
        build_requirement(form)
    except ConfigurationError:
        refused += 1
try:
    verdict_of(function(lambda text: None), "x")
except TypeError:
    refused += 1
kinds = [verdict_of(one, "x = (").kind.value for one in (python(), regex("y"), length(max=1), json_schema(True))]
print(refused, *kinds, verdict_of(python(), "assert False").kind.value, __debug__)
"""


def test_it_is_the_same_when_python_optimises():
    """Nothing rests on an assert statement: `python -O` refuses and decides the same."""
    ran = subprocess.run(
        [sys.executable, "-O", "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.stdout.split() == ["6", "failed", "failed", "failed", "failed", "passed", "False"], ran.stderr
