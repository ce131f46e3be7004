"""Requirements by name and in lists: eval files, ids, order, and what is refused."""

import sys

import pytest
import yaml

from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements import (
    Requirement,
    VerdictKind,
    as_requirement,
    as_requirements,
    build_requirement,
    function,
    json_schema,
    judge,
    length,
    python,
    regex,
)
from holdfast.sampling.requirements.requirement import in_order, with_changes
from holdfast.sampling.strategies.repair import Rejection
from tests.sampling.drafts import ThreadedChecking, verdict_of, verdicts_of

FORMS = {
    '{regex: "^[A-Z]"}': regex("^[A-Z]"),
    "{regex: {pattern: '^[A-Z]', id: capital, description: Begins so., check_only: true}}": regex(
        "^[A-Z]", id="capital", description="Begins so.", check_only=True
    ),
    "{length: {max: 20}}": length(max=20),
    "{length: {min: 1, max: 5, unit: words}}": length(min=1, max=5, unit="words"),
    "python": python(),
    "{python: }": python(),
    "{python: {id: code}}": python(id="code"),
    "{includes: word}": as_requirement({"includes": {"text": "word"}}),
    "{includes: [a, b]}": as_requirement({"includes": {"text": ["a", "b"]}}),
    "numeric": as_requirement({"numeric": {}}),
    "{numeric: {min: 0, max: 1.5}}": as_requirement({"numeric": {"min": 0.0, "max": 1.5}}),
    "{json_schema: {schema: {type: object}}}": json_schema({"type": "object"}),
    "{judge: {model: strict, criterion: It is polite.}}": judge(model="strict", criterion="It is polite."),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_forms_of_an_eval_file(form):
    built = build_requirement(yaml.safe_load(form), "tasks.t.sampling.requirements")
    assert built == FORMS[form]
    assert built.identity() == FORMS[form].identity()


REFUSED = {
    "regexp": ["there is no requirement 'regexp'", "Did you mean 'regex'?"],
    "{regex: {patern: x}}": ["the requirement regex takes no argument 'patern'", "Did you mean 'pattern'?"],
    "regex": ["the requirement regex needs the argument 'pattern'", "{regex: {pattern: ...}}"],
    "{regex: '('}": ["is not a valid regular expression"],
    "{regex: 5}": ["regex.pattern is 5; allowed: text."],
    "{regex: {pattern: x, check_only: 1}}": ["regex.check_only is 1; allowed: true or false."],
    '{regex: {pattern: x, id: "a\\e[31m"}}': ["cannot be used", "printable"],
    "{regex: a, length: 5}": ["one name with its arguments", "a dash of its own"],
    "{}": ["one name with its arguments"],
    "5": ["a requirement is a name or a map, not int"],
    "{length: 20}": ["must be a map", "max, min"],
    "{length: {}}": ["has no bound"],
    "{length: {min: 5, max: 4}}": ["min of 5 above its max of 4"],
    "{length: {max: -1}}": ["length.max is -1; allowed: a whole number from 0."],
    "{length: {max: 1.5}}": ["length.max is 1.5; allowed: a whole number from 0."],
    "{length: {max: true}}": ["length.max is true; allowed: a whole number from 0."],
    "{length: {max: 5, unit: tokens}}": ['length.unit is "tokens"; allowed: one of characters, words, lines.'],
    "{length: {max: '2'}}": ['length.max is "2"; allowed: a whole number from 0.'],
    "{includes: [5]}": ["includes.text is a list; allowed: text or a list of text."],
    "{includes: ''}": ["empty text"],
    "{includes: []}": ["empty text"],
    "{numeric: {min: 2, max: 1}}": ["min of 2.0 above its max of 1.0"],
    "{numeric: {min: .nan}}": ["numeric.min is NaN; allowed: a number from -1e+300 up to 1e+300."],
    "{numeric: {max: .inf}}": ["numeric.max is Infinity; allowed: a number"],
    "{numeric: {decimal: ';'}}": ['numeric.decimal is ";"; allowed: one of ".", ",".'],
    "{json_schema: {schema: {type: nope}}}": ['The schema at "type" is not a JSON schema', '"nope" is not valid'],
    "{json_schema: {type: object}}": ["takes no argument 'type'"],
    "{json_schema: {schema: 5}}": ["json_schema.schema is 5; allowed: a map or true or false."],
    "{json_schema: {schema: {$ref: 'http://127.0.0.1:9/x'}}}": ["is outside the schema"],
    "{json_schema: {schema: {$ref: 'file:///etc/hostname'}}}": ["is outside the schema"],
    "{json_schema: {schema: {$ref: '#/nowhere'}}}": ["Pointer '/nowhere' does not exist"],
    "{function: gone.py:x}": ["The file gone.py does not exist"],
    "{function: is_short}": ["'is_short' names no function", "file.py:name"],
    "{function: checks.py:is_shrt}": ["checks.py has no function 'is_shrt'", "Did you mean 'is_short'?"],
    "{function: checks.py:LIMIT}": ["checks.py:LIMIT is int, not a function"],
    "{function: {function: checks.py:is_short, threshold: 2}}": [
        "function.threshold is 2; allowed: a number from 0 up to 1."
    ],
    "{judge: {model: strict}}": ["needs the argument 'criterion'"],
    "{judge: {model: '', criterion: x}}": ["has an empty model"],
    "{judge: {model: m, criterion: x, template: '{criterion}'}}": ["does not name {answer}"],
    "{judge: {model: m, criterion: x, template: '{answer}'}}": ["does not name {criterion}"],
    "{judge: {model: m, criterion: x, template: '{answr} {criterion}'}}": ["field 'answr'", "Did you mean 'answer'?"],
    "{judge: {model: m, criterion: x, template: '{'}}": ["single '{'"],
}


@pytest.fixture
def checks_file(tmp_path):
    (tmp_path / "checks.py").write_text("LIMIT = 4\n\n\ndef is_short(text):\n    return len(text) < LIMIT\n")
    return tmp_path


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_wrong_is_said_with_its_place(form, checks_file):
    with pytest.raises(ConfigurationError) as raised:
        build_requirement(yaml.safe_load(form), "tasks.t.sampling", base_dir=checks_file)
    assert str(raised.value).startswith("tasks.t.sampling: ")
    for part in REFUSED[form]:
        assert part in str(raised.value)


def test_a_function_of_a_file_is_found_from_its_directory(checks_file, monkeypatch):
    built = build_requirement({"function": "checks.py:is_short"}, "p", base_dir=checks_file)
    assert built.id == "is_short"
    assert [verdict_of(built, text).kind for text in ("abc", "abcd")] == [VerdictKind.PASSED, VerdictKind.FAILED]
    monkeypatch.chdir(checks_file)
    before = built.identity()
    assert function("checks.py:is_short").identity() == before
    (checks_file / "checks.py").write_text("LIMIT = 5\n\n\ndef is_short(text):\n    return len(text) < LIMIT\n")
    assert function("checks.py:is_short").identity() != before


def test_python_takes_requirements_functions_and_short_forms():
    def is_short(text):
        return len(text) < 4

    built = as_requirements([regex("a"), is_short, {"length": {"max": 3}}, "python"])
    assert [requirement.id for requirement in built] == ["regex", "is_short", "length", "python"]
    assert as_requirements(None) == as_requirements(()) == ()
    assert as_requirements(is_short)[0].id == "is_short"
    assert as_requirements("python") == (python(),)
    assert as_requirements({"length": {"max": 3}}) == as_requirements(length(max=3)) == (length(max=3),)


@pytest.mark.parametrize(("given", "said"), [(regex, "Call it: regex("), (5, "of int"), (int, "of type"), (None, "of")])
def test_what_stands_for_no_requirement_is_refused(given, said):
    with pytest.raises(ConfigurationError, match=said.replace("(", r"\(")):
        as_requirements([given])


def ids_of(requirements):
    return [requirement.id for requirement in requirements]


def test_ids_that_nobody_gave_are_numbered():
    """Row 17: verdicts are paired with requirements by id, so every requirement of a list has its own."""
    given = [regex("a"), regex("b", id="regex-2"), regex("c"), length(max=3), regex("d"), regex("e", id="mine")]
    ordered = in_order(given)
    assert ids_of(ordered) == ["regex", "regex-2", "regex-3", "length", "regex-4", "mine"]
    assert ids_of(in_order(ordered)) == ids_of(ordered)
    _, verdicts = verdicts_of(given, "b and d")
    by_id = {verdict.requirement: verdict.is_passed for verdict in verdicts}
    assert by_id == {"regex": True, "regex-2": True, "regex-3": False, "length": False, "regex-4": True, "mine": False}


def test_two_of_the_same_given_id_are_refused():
    with pytest.raises(ValueError, match="Two requirements have the id 'x'"):
        in_order([regex("a", id="x"), length(max=3, id="x")])


def test_a_given_id_comes_before_a_derived_one():
    assert ids_of(in_order([regex("a"), length(max=1, id="regex")])) == ["regex-2", "regex"]


def test_the_requirements_of_a_strategy_and_of_a_call_have_ids_of_their_own():
    """Rows 17 and 23: both apply."""
    strategy = Rejection(requirements=[regex("a"), regex("b")])
    assert ids_of(in_order((*strategy.requirements, regex("c")))) == ["regex", "regex-2", "regex-3"]
    called = as_requirements([regex("c"), regex("d")])
    assert ids_of(in_order((*strategy.requirements, *called))) == ["regex", "regex-2", "regex-3", "regex-4"]
    assert ids_of(strategy.requirements) == ids_of(called) == ["regex", "regex-2"]


def test_a_hook_adds_or_replaces():
    """Row 17: only one that was given the id of another takes its place."""
    present = in_order([regex("a"), length(max=3)])
    changed = with_changes(present, [regex("b"), regex("c"), length(max=9, id="length"), python(id="code")])
    assert ids_of(changed) == ["regex", "length", "regex-2", "regex-3", "code"]
    assert [one.pattern for one in changed if hasattr(one, "pattern")] == ["a", "b", "c"]
    assert changed[1].max == 9


def test_a_renumbered_requirement_decides_as_before():
    """What was made ready for checks is kept under the new id, and the first one is left as it was."""
    first, second = json_schema({"type": "null"}), json_schema({"type": "integer"})
    ordered = in_order([first, second])
    assert (second.id, ordered[1].id) == ("json_schema", "json_schema-2")
    assert ordered[1].description == second.description
    verdict = verdict_of(ordered[1], "null")
    assert (verdict.requirement, verdict.kind) == ("json_schema-2", VerdictKind.FAILED)


def test_judges_come_last_and_the_others_in_the_order_given():
    """Row 23: cheap before judged."""
    ordered = in_order([judge(model="j", criterion="x"), length(max=3), judge(model="k", criterion="y"), regex("a")])
    assert ids_of(ordered) == ["length", "regex", "judge", "judge-2"]
    assert [requirement.models for requirement in ordered] == [(), (), ("j",), ("k",)]


@pytest.mark.parametrize("short_circuit", [False, True])
def test_a_short_circuit_asks_no_judge_in_vain(short_circuit):
    """Row 23: with short_circuit, nothing is checked after the first that is not met."""
    checking = ThreadedChecking('{"met": true}')
    given = [judge(model="j", criterion="x"), length(max=3), regex("a")]
    is_valid, verdicts = verdicts_of(given, "aaaa", checking, short_circuit=short_circuit)
    assert not is_valid
    assert len(verdicts) == (1 if short_circuit else 3)
    assert len(checking.asked) == (0 if short_circuit else 1)


def test_without_the_package_a_schema_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ConfigurationError, match=r"pip install jsonschema-rs"):
        json_schema({"type": "object"})


class Unfinished(Requirement, frozen=True):
    """A requirement of a user's who has forgotten both methods."""


@pytest.mark.parametrize("method", ["identity", "check"])
def test_a_class_without_a_method_is_named_with_the_way_out(method):
    """Where it is asked for: an eval cannot start without an identity, a candidate cannot be judged without a check."""
    own = Unfinished(id="mine")
    with pytest.raises(ConfigurationError) as raised:
        own.identity() if method == "identity" else verdict_of(own, "text")
    assert f"'mine' is of the class Unfinished, which has no {method}()" in str(raised.value)
    assert f"Give the class {method}(" in str(raised.value)
