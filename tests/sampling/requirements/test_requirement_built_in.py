"""The quick requirements: what each is met by, what it says where it is not, and what it is identified by."""

import pytest

from holdfast.sampling.requirements import (
    VerdictKind,
    as_requirements,
    includes,
    json_schema,
    length,
    numeric,
    python,
    regex,
)
from tests.sampling.drafts import verdict_of

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "ages": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name"],
}

MET = {
    "regex": (regex("b+"), "abbc"),
    "regex, full": (regex("[A-D]", full=True), "B"),
    "regex, any case": (regex("yes", ignore_case=True), "oh YES"),
    "characters": (length(min=2, max=3), "abc"),
    "words": (length(min=2, max=2, unit="words"), "  two\nwords "),
    "lines": (length(max=2, unit="lines"), "one\ntwo\n"),
    "no lines": (length(max=0, unit="lines"), ""),
    "includes": (includes("needle"), "a needle here"),
    "includes all": (includes(["a", "b"]), "b and a"),
    "includes, any case": (includes("STRASSE", ignore_case=True), "die Straße"),
    "includes, composed": (includes("e\u0301"), "caf\u00e9"),
    "number": (numeric(), "It is 1,234.5."),
    "number within": (numeric(min=0, max=10), "from 99 to 10"),
    "a tenth": (numeric(min=0.1, max=0.1), "0.1"),
    "per cent": (numeric(min=0, max=1), "45%"),
    "whole": (numeric(whole=True), "4/2"),
    "decimal comma": (numeric(max=1.5, min=1.5, decimal=","), "1,5"),
    "python": (python(), "def f():\n    return 1"),
    "fenced python": (python(), "Here it is:\n```python\nx = 1\n```\nDone."),
    "fenced without a language": (python(), "```\nx = 1\n```"),
    "a fence in a docstring": (python(), 'def f():\n    """\n```\nwords in it\n```\n    """\n'),
    "other blocks beside it": (python(), "```text\nno code\n```\n```python\nx = 1\n```"),
    "warnings": (python(), "'\\d' is '\\d'"),
    "json": (json_schema(SCHEMA), '{"name": "x", "ages": [1, 2]}'),
    "fenced json": (json_schema(SCHEMA), 'Sure:\n```json\n{"name": "x"}\n```'),
    "long fence": (json_schema(True), '````json\n"```"\n````'),
    "a fence inside a longer one": (python(), '````python\nx = """\n```\n"""\n````'),
    "a word across pieces": (length(min=2, max=2, unit="words"), "a" * 1_500_000 + " " + "b" * 1_500_000),
    "a schema that refers to itself": (json_schema({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}), "null"),
}

UNMET = {
    "regex": (regex("b+"), "ac", 'The answer contains no match of the regular expression "b+".'),
    "regex, full": (regex("[A-D]", full=True), "B.", "as a whole does not match"),
    "too short": (length(min=4), "abc", "The answer has 3 characters; it must have at least 4 characters."),
    "too many words": (length(min=1, max=2, unit="words"), "a b c", "has 3 words; it must have at least 1 and at most"),
    "too many lines": (length(max=1, unit="lines"), "a\nb", "has 2 lines"),
    "includes": (includes("needle"), "hay", 'does not contain "needle".'),
    "includes one of two": (includes(["hay", "needle", "thread"]), "hay", 'contain "needle" and "thread".'),
    "no number": (numeric(), "none", "has no number"),
    "a malformed number": (numeric(), "1.2.3", "without guessing"),
    "too large": (numeric(max=10), "11", "is 11; it must be a plain number, at most 10."),
    "too small": (numeric(min=10, max=20), "9.5", "is 9.5; it must be a plain number, at least 10 and at most 20."),
    "no whole number": (numeric(whole=True), "1.5", "is 1.5; it must be a whole number."),
    "no python": (python(), "x = (\n1", "is not valid Python in line 1: '(' was never closed."),
    "fenced, no python": (python(), "```python\nx = 1\nx +\n```", "in line 2: invalid syntax."),
    "no code": (python(), "  \n", "holds no Python code"),
    "two blocks": (python(), "```python\nx = 1\n```\nor\n```python\nx = 2\n```", "not valid Python"),
    "an open fence": (python(), "```python\nx = 1\n", "not valid Python in line 1"),
    "no json": (json_schema(True), '{"a": 1,\n "é": nope}', "expecting value in line 2, column 7."),
    "json cut off": (json_schema(True), '{"a": ', "expecting value in line 1, column 7."),
    "nothing": (json_schema(True), "", "expecting value in line 1, column 1"),
    "two values": (json_schema(True), "1 2", "extra data in line 1, column 3"),
    "NaN": (json_schema(True), "[NaN]", "NaN is not a JSON value."),
    "a missing key": (json_schema(SCHEMA), "{}", 'does not fit the schema: "name" is a required property.'),
    "a wrong item": (json_schema(SCHEMA), '{"name": "", "ages": [1, "x"]}', 'at "ages[1]": "x" is not of type'),
    "false": (json_schema(False), "1", "does not fit the schema"),
}


@pytest.mark.parametrize("case", MET)
def test_it_is_met(case):
    requirement, text = MET[case]
    verdict = verdict_of(requirement, text)
    assert (verdict.kind, verdict.requirement, verdict.reason) == (VerdictKind.PASSED, requirement.id, "")


@pytest.mark.parametrize("case", UNMET)
def test_it_is_unmet_for_a_reason(case):
    requirement, text, reason = UNMET[case]
    verdict = verdict_of(requirement, text)
    assert verdict.kind is VerdictKind.FAILED
    assert reason in verdict.reason and len(verdict.reason) <= 500


DESCRIBED = [
    (regex("a|b"), 'The answer must contain a match of the regular expression "a|b".'),
    (regex("a", full=True, ignore_case=True), "The whole answer must match the regular expression"),
    (length(max=2000, unit="words"), "The answer must have at most 2,000 words."),
    (includes(["x", "y"]), 'The answer must contain "x" and "y".'),
    (numeric(min=1), "The last number of the answer must be a plain number, at least 1."),
    (python(), "The answer must be valid Python code, as it is or in one fenced block."),
    (json_schema({"type": "null"}), 'The answer must be JSON that fits this schema: {"type":"null"}'),
    (json_schema({"description": "x" * 5000}), "The answer must be JSON that fits the schema."),
]


@pytest.mark.parametrize(("requirement", "sentence"), DESCRIBED)
def test_a_description_follows_from_the_arguments(requirement, sentence):
    assert requirement.description.startswith(sentence)


def test_a_given_id_and_description_are_kept():
    requirement = regex("a", id="vowel", description="Has an a.", check_only=True)
    assert (requirement.id, requirement.description) == ("vowel", "Has an a.")
    assert verdict_of(requirement, "b").hidden


def test_the_identity_holds_every_argument():
    """The public name, the behaviour number, the arguments; a description that nobody gave follows from those."""
    arguments = {"id": "regex", "check_only": False, "pattern": "a", "full": False, "ignore_case": False}
    assert regex("a").identity() == {"requirement": "regex", "revision": 1, "arguments": arguments}
    assert regex("a", description="D").identity()["arguments"]["description"] == "D"
    different = [regex("a"), regex("b"), regex("a", full=True), regex("a", check_only=True), regex("a", id="x")]
    assert len({str(requirement.identity()) for requirement in different}) == len(different)


def test_no_built_in_but_a_judge_asks_a_model():
    for requirement in as_requirements([regex("a"), python(), length(max=1), numeric(), includes("a")]):
        assert (requirement.models, requirement.calls, requirement.is_quick) == ((), 0, True)
