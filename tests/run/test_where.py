"""Expressions that select trials: what they select, which states they exclude, and errors that point at a column."""

from __future__ import annotations

import random
import re
import string
import unicodedata
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.run.core.records import Coordinates
from holdfast.run.where.expression import STATES, Names, parse_where

PAGE = (Path(__file__).parents[2] / "docs" / "where.md").read_text(encoding="utf-8")
NAMES = Names(frozenset({"tier", "prompt variant", "both", "cost"}), frozenset({"exact", "both", "status"}))
SEED = 61
NAN = float("nan")


class Trial:
    """A candidate made of plain values; it notes which sources it was asked for."""

    def __init__(self, axes=(), scores=(), metadata=None, **fields):
        self.fields, self.axes, self.scores, self.tree = fields, dict(axes), dict(scores), metadata or {}
        self.asked = set()

    @property
    def coordinates(self):
        self.asked |= {"sample", "epoch", "task", "model", "axes"}
        return Coordinates(*(self.fields.get(name) for name in ("task", "model", "sample", "epoch")), self.axes)

    def field(self, name):
        self.asked.add(name)
        return self.fields.get(name)

    def axis(self, name):
        self.asked.add("axes")
        return self.axes.get(name)

    def score(self, name):
        self.asked.add("scores")
        return self.scores.get(name)

    def metadata(self, path):
        self.asked.add("metadata")
        value = self.tree
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def text(self, name):
        self.asked.add(name)
        return self.fields.get(name)


TRIALS = {
    "a": Trial(
        {"tier": "T0", "prompt variant": "short", "both": "1.0", "cost": "low"},
        {"exact": 1.0, "both": 2.0, "status": 0.5},
        {"source": {"year": 1999}, "tags": ["easy", "Mathematics"], "flag": True, "note": "o'clock \\ \"x\""},
        status="valid", transcript="whole", task="capitals", model="lab/small-1.5:chat", sample="q 1", trial="9f3a",
        epoch=1, attempt=1, cost=0.01, tokens=12, seconds=1.5, input="Capital of France?", target="Paris",
        answer="I am sorry",
    ),
    "b": Trial(
        {"tier": "T0", "prompt variant": "or", "both": "1"},
        {"exact": 0.25},
        {"source": {"year": "1985"}, "tags": [], "flag": False},
        status="limited", reason="Timeout after 60s", transcript="whole", task="rivers", model="lab/large",
        sample="007", trial="9f4b", epoch=2, attempt=3, cost=0.5, tokens=30000, seconds=61, input="France: how long?",
        target=775, answer="775",
    ),
    "c": Trial(
        {"tier": "T1"}, {"exact": NAN}, {"source": {"year": "unknown"}, "ratio": NAN},
        status="failed", reason="can't connect", transcript="lost", task="capitals", model="lab/small-1.5:chat",
        sample="七", trial="03c1", epoch=2, attempt=1, cost=0, tokens=0, seconds=0,
    ),
    "d": Trial({"tier": "10"}, status="not_started", task="capitals", model="lab/large", sample="7", trial="e100",
               epoch=3),
}  # fmt: skip

SELECTED = [
    # Every example of docs/where.md.
    ("status=failed and model=small", ""),
    ("status=failed or exact<1", "bc"),
    ("sample=fr", ""),
    ("status=failed", "c"),
    ("status=failed or status=limited", "bc"),
    ("status != valid and task = capitals", "cd"),
    ("exact<0.5", "b"),
    ("tier=T0 and not exact=1", "b"),
    ("reason ~ timeout", "b"),
    ("reason = 'no reply'", ""),
    ("model=lab/small-1.5:chat", "ac"),
    ("(task=capitals or task=rivers) and epoch>=2", "bcd"),
    ("cost > 0.05 or tokens > 20000 or seconds > 60", "b"),
    ("trial=9f3", "a"),
    ("trial=capitals/fr#1", ""),
    ("metadata.source.year>=1990", "a"),
    ("metadata.tags ~ math", "a"),
    ("answer ~ sorry", "a"),
    ("input ~ France and exact<1", "b"),
    ("target=775.0", "b"),
    ("answer=775.0", ""),
    ("answer>700", "b"),
    ("target!=x", "ab"),
    ("transcript=lost", "c"),
    ("exact!=1", "b"),
    ("not exact=1", "bcd"),
    ("not (exact<1 or exact>=1)", "cd"),
    ("sample='q 1'", "a"),
    ("'prompt variant'=short", "a"),
    ("'axes.prompt variant' != 'or'", "a"),
    (r"reason ~ 'can\'t connect'", "c"),
    (r"metadata.title ~ 'can\'t connect'", ""),
    ("status='not started'", "d"),
    ("status=not_started", "d"),
    # Status and transcript.
    ("status==valid", "a"),
    ("status!='not started'", "abc"),
    ("status~FAIL", "c"),
    ("status ~ 'not s'", "d"),
    ("transcript!=lost", "ab"),
    ("transcript ~ ''", "abc"),
    ("not transcript=lost", "abd"),
    # Text.
    ("task!=capitals", "b"),
    ("sample=7", "d"),
    ("sample=7.0", ""),
    ("sample=七", "c"),
    ("task=Capitals", ""),
    ("model~LARGE", "bd"),
    ("reason!=x", "bc"),
    ("trial!=9f", "cd"),
    ("trial~F", "ab"),
    ("trial==9f3a", "a"),
    ("trial=007#2", "b"),
    ("trial=rivers/007#2", "b"),
    ("trial=lab/large/007#2", "b"),
    ("trial='capitals/lab/small-1.5:chat/q 1#1'", "a"),
    ("trial!=rivers/007#2", "acd"),
    ("trial=007#1 or trial=x/007#2 or trial=07#2", ""),
    ("trial=f3", ""),
    # Numbers.
    ("epoch=2", "bc"),
    ("epoch='2'", "bc"),
    ("epoch=2.0", "bc"),
    ("epoch=+2e0", "bc"),
    ("epoch!=.2e1", "ad"),
    ("epoch<3", "abc"),
    ("epoch<=3", "abcd"),
    ("epoch>1 and epoch<3", "bc"),
    ("cost=0", "c"),
    ("cost<-1", ""),
    ("cost<1.", "abc"),
    # Scores.
    ("scores.exact=1", "a"),
    ("scores.both=2", "a"),
    ("scores.status<1", "a"),
    ("exact>=0", "ab"),
    ("exact!=7", "ab"),
    # Axes: text for equality, numbers for order.
    ("axes.tier=T0", "ab"),
    ("tier!=T0", "cd"),
    ("tier~t", "abc"),
    ("tier>5", "d"),
    ("tier<=1e1", "d"),
    ("tier<T5", ""),
    ("tier=10.0", ""),
    ("axes.both=1", "b"),
    ("axes.both=1.0", "a"),
    ("axes.both<=1 and axes.both>=1", "ab"),
    ("axes.cost=low", "a"),
    # Metadata: whatever JSON has.
    ("metadata.source.year=1999.0", "a"),
    ("metadata.source.year=1985", "b"),
    ("metadata.source.year=1985.0", ""),
    ("metadata.source.year!=1999", "bc"),
    ("metadata.source.year<1990", "b"),
    ("metadata.source.year~9", "ab"),
    ("metadata.source.year=nan", ""),
    ("metadata.source.year!=inf", "abc"),
    ("metadata.flag=true", "a"),
    ("metadata.flag!=true", "b"),
    ("metadata.flag=1", ""),
    ("metadata.flag>0", ""),
    ("metadata.tags='[]'", "b"),
    ("metadata.source~year", "abc"),
    ("metadata.ratio!=1", ""),
    ("metadata.none.at.all!=1", ""),
    ("not metadata.none.at.all=1", "abcd"),
    ("metadata.note = 'o\\'clock \\\\ \"x\"'", "a"),
    ('metadata.note = "o\'clock \\\\ \\"x\\""', "a"),
    ("metadata.note ~ 'k \\ '", "a"),
    ("metadata.note ~ '\\\"x'", ""),
    # How parts bind, and how they may be written.
    ("status=valid or status=failed and epoch=9", "a"),
    ("(status=valid or status=failed) and epoch=2", "c"),
    ("not status=valid and epoch=2", "bc"),
    ("not (status=valid and epoch=2)", "abcd"),
    ("not not status=valid", "a"),
    ("NOT status=valid AND(epoch=2)Or epoch=3", "bcd"),
    ("not(status=valid)", "bcd"),
    ("\n\tstatus\u00a0=\u3000valid ", "a"),
    ("((status=valid))", "a"),
    ("'status'=\"valid\"or'epoch'='3'", "ad"),
]  # fmt: skip

MANY = 1000


@pytest.mark.parametrize(("text", "selected"), SELECTED)
def test_an_expression_selects_the_trials_that_it_describes(text, selected):
    """Each example matches exactly these trials, keeps its text, and asks for no more than its fields say."""
    where = parse_where(text, NAMES)
    assert "".join(name for name, trial in TRIALS.items() if where.matches(trial)) == selected
    assert where.text == text
    for trial in TRIALS.values():
        trial.asked.clear()
        where.matches(trial)
        assert trial.asked <= where.fields


def test_every_example_of_the_page_is_tested():
    """What stands first in a row of an example table, or after --where, is in the table above."""
    tables = re.findall(r"^\| expression \| selects \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    examples = [row for table in tables for row in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)]
    examples += re.findall(r'--where "([^"]+)"', PAGE)
    assert len(examples) > 20
    assert set(examples) <= {text for text, _ in SELECTED}


def test_the_error_on_the_page_is_the_one_that_is_printed():
    """The page shows an error word for word."""
    names = Names(frozenset({"tier"}), frozenset({"exact"}))
    assert f"```\n{error_of('status=failed and modle=small', names)}\n```" in PAGE


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("task=x", STATES),
        ("status=failed", ["failed"]),
        ("state=failed", ["failed"]),
        (
            "not state='not started' and state!=valid",
            [state for state in STATES if state not in {"valid", "not_started"}],
        ),
        ("status!=failed", [state for state in STATES if state != "failed"]),
        ("status~fin", ["unfinished"]),
        ("status=failed or status=valid", ["failed", "valid"]),
        ("status=failed or task=x", STATES),
        ("status=failed and task=x", ["failed"]),
        ("status=failed and status=valid", []),
        ("not (status=failed or task=x)", [state for state in STATES if state != "failed"]),
        ("not (status=failed and task=x)", STATES),
        ("not not status=failed", ["failed"]),
        ("transcript=lost", STATES),
        ("not status=valid and not status=limited", [state for state in STATES if state not in {"valid", "limited"}]),
    ],
)
def test_states_are_restricted_by_status(text, states):
    """Whole groups of trials can be skipped where their status cannot match."""
    assert parse_where(text, NAMES).states() == frozenset(states)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("status=failed", {"status"}),
        ("state=failed", {"status"}),
        ("tier=T0 or axes.both=1", {"axes"}),
        ("exact=1 and not (metadata.a.b=1 or cost>1)", {"scores", "metadata", "cost"}),
        ("trial=9f and transcript=lost", {"trial", "transcript"}),
    ],
)
def test_fields_name_what_is_asked_for(text, fields):
    """A caller can leave out a lookup that no part of the expression needs."""
    assert parse_where(text, NAMES).fields == fields


def test_a_trial_is_asked_only_for_what_decides():
    """The second part is not looked up where the first one decides."""
    trial = Trial(status="valid")
    assert not parse_where("status=failed and exact=1", NAMES).matches(trial)
    assert parse_where("status=valid or metadata.x=1", NAMES).matches(trial)
    assert trial.asked == {"status"}


ERRORS = [
    # text, column, what, way out
    ("modle=x", 1, 'unknown field "modle"', 'did you mean "model"?'),
    ("not (modle=x)", 6, 'unknown field "modle"', 'did you mean "model"?'),
    ("STATUS=x", 1, 'unknown field "STATUS"', 'did you mean "status"?'),
    ("teir=x", 1, 'unknown field "teir"', 'did you mean "tier"?'),
    ("axes.teir=x", 1, 'unknown field "axes.teir"', 'did you mean "axes.tier"?'),
    ("scores.exat=x", 1, 'unknown field "scores.exat"', 'did you mean "scores.exact"?'),
    ("scores.tier=x", 1, 'unknown field "scores.tier"', 'did you mean "axes.tier"?'),
    ("axes.bot=x", 1, 'unknown field "axes.bot"', 'did you mean "axes.both"?'),
    ("scores.bot=x", 1, 'unknown field "scores.bot"', 'did you mean "scores.both"?'),
    ("axes.zzz=x", 1, 'unknown field "axes.zzz"', ""),
    ("score.exact=1", 1, 'unknown field "score.exact"', 'did you mean "scores.exact"?'),
    ("meta.src=1", 1, 'unknown field "meta.src"', 'did you mean "metadata.src"?'),
    ("zzz=x", 1, 'unknown field "zzz"', ""),
    ("''=x", 1, 'unknown field ""', ""),
    ("both=1", 1, '"both" is both an axis and a scorer', 'write "axes.both" or "scores.both"'),
    ("metadata=1", 1, 'a name is missing in "metadata"', "write metadata.NAME"),
    ("axes.=1", 1, 'a name is missing in "axes."', "write axes.NAME"),
    ("metadata.a..b=1", 1, 'a name is missing in "metadata.a..b"', "write metadata.NAME"),
    ("status=faild", 8, 'unknown status "faild"', 'did you mean "failed"?'),
    ("status!=Valid", 9, 'unknown status "Valid"', 'did you mean "valid"?'),
    ("status~xyz", 8, 'unknown status "xyz"', ""),
    ("transcript=hole", 12, 'unknown transcript "hole"', 'did you mean "whole"?'),
    ("status<failed", 7, '"status" is text and cannot be compared with <', "use =, != or ~"),
    ("transcript>=lost", 11, '"transcript" is text and cannot be compared with >=', "use =, != or ~"),
    ("task > 5", 6, '"task" is text and cannot be compared with >', "use =, != or ~"),
    ("model<=5", 6, '"model" is text', "use =, != or ~"),
    ("sample<5", 7, '"sample" is text', "use =, != or ~"),
    ("reason<5", 7, '"reason" is text', "use =, != or ~"),
    ("trial<5", 6, '"trial" is text', "use =, != or ~"),
    ("trial=''", 7, "the trial key is empty", "write the beginning of a key"),
    ("cost~5", 5, '"cost" is a number and cannot be compared with ~', "use =, !=, <, <=, >, >="),
    ("cost<low", 6, '"low" is not a number', '"cost" can only be compared with a number'),
    ("epoch=nan", 7, '"nan" is not a number', '"epoch" can only'),
    ("exact=inf", 7, '"inf" is not a number', '"exact" can only'),
    ("tokens=1e999", 8, '"1e999" is not a number', '"tokens" can only'),
    ("tokens=1_000", 8, '"1_000" is not a number', '"tokens" can only'),
    ("epoch=٣", 7, '"٣" is not a number', '"epoch" can only'),
    ("status", 7, 'an operator is missing after "status"', "use one of =, !=, <, <=, >, >=, ~"),
    ("status failed", 8, 'an operator is missing after "status"', "use one of"),
    ("status and task=x", 8, 'an operator is missing after "status"', "use one of"),
    ("status=  ", 8, 'a value is missing after "="', ""),
    ("(status=)", 9, 'a value is missing after "="', ""),
    ("task=(x)", 6, 'a value is missing after "="', ""),
    ("task=and", 6, 'a value is missing after "="', "quote a keyword that is meant as a value"),
    ("task= =x", 7, "two operators in a row", "use one of"),
    ("epoch=<3", 7, "two operators in a row", "use one of"),
    ("=x", 1, "a field is missing", ""),
    ("or=x", 1, "a comparison is missing", "quote a keyword that is meant as a name"),
    ("task=x and", 11, "a comparison is missing", ""),
    ("not", 4, "a comparison is missing", ""),
    ("()", 2, "a comparison is missing", ""),
    ("(task=x", 1, 'unclosed "("', 'add ")"'),
    ("((task=x)", 1, 'unclosed "("', 'add ")"'),
    ("task=x)", 7, 'unexpected ")"', 'there is no "(" for it'),
    ("task=x task=y", 8, 'unexpected "task"', 'join comparisons with "and" or "or"'),
    ("(task=x task=y)", 9, 'unexpected "task"', 'join comparisons with "and" or "or"'),
    ("model=gpt 4", 11, 'unexpected "4"', 'join comparisons with "and" or "or", and quote a value that has spaces'),
    ("task=x (task=y)", 8, 'unexpected "("', 'join comparisons with "and" or "or"'),
    ("task=x not task=y", 8, 'unexpected "not"', 'join comparisons with "and" or "or"'),
    ("epoch>1<3", 8, 'unexpected "<"', "a comparison has one operator"),
    ("task='x", 6, "unclosed quote", "end the text with '"),
    (r"task='x\'", 6, "unclosed quote", "end the text with '"),
    ('task="', 6, "unclosed quote", 'end the text with "'),
    ("task=“x”", 6, 'unexpected character "“"', "use straight quotes"),
    ("task=x“", 7, 'unexpected character "“"', "use straight quotes"),
    ("task=x && task=y", 8, 'unexpected character "&"', 'write "and"'),
    ("task=x || task=y", 8, 'unexpected character "|"', 'write "or"'),
    ("!task=x", 1, 'unexpected character "!"', 'write "!=" or "not"'),
    ("task=a,b", 7, 'unexpected character ","', "put text that contains it in quotes"),
    ("task=\x1b[31m", 6, "unexpected character U+001B", "put text that contains it in quotes"),
    ("ta\u200bsk=x", 3, "unexpected character U+200B", "put text that contains it in quotes"),
    ("task=\udcff", 6, "unexpected character U+DCFF", "put text that contains it in quotes"),
    ("(" * 101 + "task=x" + ")" * 101, 101, "parentheses and not are nested more than 100 levels deep", ""),
    ("not " * 101 + "task=x", 401, "parentheses and not are nested more than 100 levels deep", ""),
    ("x" * 10_001, 10_001, "the expression exceeds 10,000 characters", ""),
]  # fmt: skip


def error_of(text, names=NAMES, option="--where"):
    with pytest.raises(UsageError) as raised:
        parse_where(text, names, option)
    assert raised.value.hint == ""
    return str(raised.value)


def shown_width(text):
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


@pytest.mark.parametrize(("text", "column", "what", "way_out"), ERRORS)
def test_an_error_says_what_is_wrong_and_where(text, column, what, way_out):
    """The option, the fault, its column and the way out; below them the expression, and a caret under that column."""
    sentence, shown, caret, *_ = error_of(text, option="--redo").split("\n")
    assert sentence.startswith(f"--redo: {what}")
    assert f" at column {column}{'; ' if way_out else '.'}{way_out}" in sentence
    assert sentence.endswith(("?", "."))
    assert caret.strip(" ") == "^"
    if len(text) <= 120:
        assert len(shown) == len(text)
        assert len(caret) - 1 == shown_width(shown[: column - 1])


def test_an_unknown_name_lists_what_is_known():
    """Fields, axes and scorers after an unknown field; the values after an unknown status."""
    note = error_of("zzz=1").split("\n")[3]
    assert note.startswith("Known: status, transcript, reason,")
    assert note.endswith("metadata.NAME; axes: both, cost, prompt variant, tier; scorers: both, exact, status")
    assert error_of("zzz=1", Names()).endswith("axes: none; scorers: none")
    assert error_of("status=zzz").split("\n")[3] == "Known: valid, limited, blocked, failed, unfinished, not_started"


@pytest.mark.parametrize("text", ["", " ", "\n\t\u00a0"])
def test_an_empty_expression_is_refused(text):
    """An option without a value never means every trial."""
    assert error_of(text) == "--where: the expression is empty. Write for example: status=failed"


def test_control_characters_are_shown_as_others():
    """What was pasted into an expression can neither move the cursor nor shift the caret."""
    _, shown, caret, _ = error_of("task='\x1b[2J\x07\r\n\u202e' and\tmodle=1").split("\n")
    assert shown == "task='?[2J?  ?' and modle=1"
    assert caret.index("^") == shown.index("modle")


def test_the_caret_stands_under_wide_and_combining_text():
    """Wide characters take two columns of a terminal, combining ones none; columns are counted in characters."""
    sentence, shown, caret, _ = error_of("task='日本語e\u0301' and modle=1").split("\n")
    assert " at column 18;" in sentence
    assert shown == "task='日本語e\u0301' and modle=1"
    assert caret == " " * 19 + "^"


@pytest.mark.parametrize("before", [0, 5, 79, 80, 81, 200, 9000])
def test_of_a_long_expression_the_part_around_the_column_is_shown(before):
    """However long it is, the caret stands under the place, and the line stays short."""
    text = " " * before + "modle=x" + " or task=x" * 50
    sentence, shown, caret, _ = error_of(text).split("\n")
    assert f" at column {before + 1};" in sentence
    assert shown[caret.index("^") :].startswith("modle=x")
    assert len(shown) <= 122 and shown.endswith("…") and shown.startswith("…") == (before > 80)


def test_a_long_name_is_shortened():
    """A pasted text does not fill the screen."""
    assert len(error_of("x" * 9000 + "=1").split("\n")[0]) < 150


@pytest.mark.parametrize("word", ["and", "or"])
def test_long_chains_are_read_and_asked(word):
    """As many comparisons as fit need no deep stack."""
    where = parse_where(f" {word} ".join(["epoch=1"] * 800), NAMES)
    assert [where.matches(Trial(epoch=epoch)) for epoch in (1, 2)] == [True, False]


def test_a_hundred_levels_are_read_and_asked():
    """The deepest nesting that is allowed fits the stack, whatever is at each level."""
    nested = "epoch=1"
    for _ in range(50):
        nested = f"not (epoch=5 and epoch=6 or {nested})"
    where = parse_where(nested, NAMES)
    assert [where.matches(Trial(epoch=epoch)) for epoch in (1, 2)] == [True, False]
    assert parse_where("(" * 100 + "epoch=1" + ")" * 100, NAMES).matches(Trial(epoch=1))


def test_a_built_in_name_wins():
    """An axis and a scorer that share a built-in name are reached with their prefix."""
    assert parse_where("cost=1", NAMES).fields == {"cost"}
    assert parse_where("status=valid", NAMES).fields == {"status"}
    assert parse_where("axes.cost=1", NAMES).fields == {"axes"}
    assert parse_where("scores.status=1", NAMES).fields == {"scores"}


def test_an_axis_called_state_comes_before_the_state_of_a_trial():
    """Expressions about runs with such an axis mean what they meant."""
    assert parse_where("state=Texas", Names(frozenset({"state"}), frozenset())).fields == {"axes"}
    assert parse_where("status=failed", Names(frozenset({"state"}), frozenset())).fields == {"status"}


def test_names_with_dots_are_found():
    """A scorer or an axis may have a dot in its name, with and without its prefix."""
    names = Names(frozenset({"a.b"}), frozenset({"rouge.l"}))
    trial = Trial({"a.b": "x"}, {"rouge.l": 0.5})
    for text in ("a.b=x", "axes.a.b=x", "rouge.l=0.5", "scores.rouge.l=0.5"):
        assert parse_where(text, names).matches(trial)


def test_large_whole_numbers_stay_exact():
    """Ids of twenty digits that differ in the last one are different numbers."""
    trial = Trial(metadata={"id": 12345678901234567890})
    assert parse_where("metadata.id=12345678901234567890", NAMES).matches(trial)
    assert not parse_where("metadata.id=12345678901234567891", NAMES).matches(trial)
    assert parse_where(f"metadata.id<{'9' * 390}", NAMES).matches(trial)
    assert not parse_where(f"metadata.id<{'9' * 5000}", NAMES).matches(trial)


# Random expressions, beside an evaluator that knows nothing of the one under test.

TEXTS = ["x", "X", "T0", "7", "007", "1", "1.0", "1e0", "-2.5", "nan", "inf", "and", "NOT", "not started", "q 1",
         "日本", "a'b", 'a"b', "back\\slash", "\\", "(", "true", "9f", "9f3a", "é", "a=b", "k\n\tk"]  # fmt: skip
NUMERALS = ["0", "1", "1.0", "1e0", "+2", "-2.5", ".5", "7.", "007", "0.25"]
KINDS = {
    "status": [*STATES, "not started"],
    "transcript": ["whole", "lost"],
    **dict.fromkeys(["reason", "task", "model", "sample", "trial"], TEXTS),
    **dict.fromkeys(["epoch", "attempt", "cost", "tokens", "seconds"], NUMERALS),
    **dict.fromkeys(["exact", "scores.exact", "scores.both"], NUMERALS),
    **dict.fromkeys(["tier", "axes.tier", "prompt variant", "axes.both", "metadata.m", "metadata.n.o", "metadata.n"],
                    TEXTS + NUMERALS),
}  # fmt: skip
ORDERED = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
BARE = set(string.ascii_letters + string.digits + "_-./:#@%+*é日本")


def random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return random_comparison(rng)
    if rng.random() < 0.3:
        return ("not", random_tree(rng, depth - 1))
    return (rng.choice(["and", "or"]), *(random_tree(rng, depth - 1) for _ in range(rng.randint(2, 3))))


def random_comparison(rng):
    field = rng.choice(list(KINDS))
    numeric = KINDS[field] is NUMERALS
    mixed = len(KINDS[field]) > len(TEXTS)
    operators = ["=", "==", "!="] + ["<", "<=", ">", ">="] * (numeric or mixed) + ["~"] * (not numeric)
    return ("compare", field, rng.choice(operators), rng.choice(KINDS[field]))


def rendered(tree, rng, above=0):
    """The text of a tree: parentheses where they are needed and now and then elsewhere."""
    kind, *parts = tree
    if kind == "compare":
        field, operator, value = parts
        text, binding = space(rng).join([quoted(field, rng), operator, quoted(value, rng)]), 4
    elif kind == "not":
        text, binding = f"{keyword('not', rng)} {space(rng)}{rendered(parts[0], rng, 3)}", 3
    else:
        binding = 2 if kind == "and" else 1
        texts = [rendered(part, rng, binding + 1) for part in parts]
        text = f" {space(rng)}{keyword(kind, rng)}{space(rng) or ' '}".join(texts)
    if binding < above or rng.random() < 0.15:
        return f"({space(rng)}{text}{space(rng)})"
    return text


def space(rng):
    return rng.choice(["", "", " ", "  ", "\t", "\n "])


def keyword(word, rng):
    return "".join(rng.choice([letter, letter.upper()]) for letter in word)


def quoted(text, rng):
    if text and set(text) <= BARE and text.lower() not in {"and", "or", "not"} and rng.random() < 0.6:
        return text
    mark = rng.choice("'\"")
    return mark + text.replace("\\", "\\\\").replace(mark, f"\\{mark}") + mark


def naive(tree, trial):
    kind, *parts = tree
    if kind == "compare":
        return naive_comparison(trial, *parts)
    found = [naive(part, trial) for part in parts]
    return {"not": not found[0], "and": all(found), "or": any(found)}[kind]


def naive_comparison(trial, field, operator, wanted):
    value = naive_value(trial, field)
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return False
    if field == "status":
        wanted = wanted.replace(" ", "_")
    if operator in ORDERED:
        left, right = number_or_none(value), number_or_none(wanted)
        return left is not None and right is not None and ORDERED[operator](left, right)
    if operator == "~":
        return wanted.lower() in naive_text(value).lower()
    return naive_equals(field, value, wanted) == (operator != "!=")


def naive_equals(field, value, wanted):
    if field == "trial":
        return value[: len(wanted)] == wanted
    if type(value) in {int, float} and number_or_none(wanted) is not None:
        return value == number_or_none(wanted)
    return naive_text(value) == wanted


def naive_value(trial, field):
    source, _, rest = field.partition(".")
    if source == "metadata":
        return trial.metadata(rest.split("."))
    if field in {"exact", "scores.exact", "scores.both"}:
        return trial.scores.get(rest or field)
    if field in {"tier", "axes.tier", "prompt variant", "axes.both"}:
        return trial.axes.get(rest or field)
    return trial.fields.get(field)


def naive_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {naive_text(inner)}' for key, inner in value.items()) + "}"
    return str(value)


def number_or_none(value):
    if isinstance(value, bool | dict) or value in {"nan", "inf"}:
        return None
    try:
        return float(value)
    except ValueError:
        return None


def random_trial(rng):
    numbers = [0, 1, 2, 7, 0.5, 0.25, -2.5, NAN, None]
    loose = [*TEXTS, *NUMERALS, *numbers, True, False]
    fields = {name: rng.choice(numbers) for name in ("epoch", "attempt", "cost", "tokens", "seconds")}
    fields |= {name: rng.choice([*TEXTS, None]) for name in ("reason", "task", "model", "sample", "trial")}
    fields |= {"status": rng.choice(STATES), "transcript": rng.choice(["whole", "lost", None])}
    axes = {name: rng.choice([*TEXTS, *NUMERALS, None]) for name in ("tier", "prompt variant", "both")}
    scores = {name: rng.choice(numbers) for name in ("exact", "both")}
    inner = rng.choice([1, True, False, 0.5])
    return Trial(axes, scores, {"m": rng.choice(loose), "n": {"o": inner} if rng.random() < 0.5 else rng.choice(loose)},
                 **fields)  # fmt: skip


@pytest.fixture
def rng():
    print(f"seed {SEED}")
    return random.Random(SEED)


def test_random_expressions_select_what_a_naive_evaluator_selects(rng):
    """However it is written, an expression means what its tree means; its states and fields leave out nothing."""
    outcomes, restricted = [], 0
    for _ in range(MANY):
        tree = random_tree(rng, rng.randint(0, 4))
        text = space(rng) + rendered(tree, rng) + space(rng)
        where = parse_where(text, NAMES)
        restricted += len(where.states()) < len(STATES)
        for trial in [random_trial(rng) for _ in range(12)]:
            matched = where.matches(trial)
            assert matched == naive(tree, trial), (text, vars(trial))
            assert trial.fields["status"] in where.states() or not matched, (text, vars(trial))
            assert trial.asked <= where.fields
            outcomes.append(matched)
    assert min(outcomes.count(True), outcomes.count(False)) > 2 * MANY
    assert restricted > MANY / 50


def test_states_are_sound_for_expressions_about_status(rng):
    """Where an expression is true of a trial, its status is among the states; every status is tried."""
    excluded = 0
    for _ in range(MANY):
        tree = status_tree(rng, 3)
        where = parse_where(rendered(tree, rng), NAMES)
        true_in = {
            status for status in STATES for task in ("x", "y") if naive(tree, Trial(status=status, task=task, epoch=1))
        }
        assert true_in <= where.states()
        excluded += len(STATES) - len(where.states())
    assert excluded > MANY


def status_tree(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([("compare", "status", rng.choice(["=", "!=", "~"]), rng.choice(STATES)),
                           ("compare", "status", "=", rng.choice(STATES)),
                           ("compare", "task", "=", "x")])  # fmt: skip
    if rng.random() < 0.3:
        return ("not", status_tree(rng, depth - 1))
    return (rng.choice(["and", "or"]), status_tree(rng, depth - 1), status_tree(rng, depth - 1))


PIECES = ["status", "task", "tier", "exact", "cost", "metadata.x", "both", "modle", "=", "==", "!=", "<", ">=", "~",
          "!", "and", "or", "not", "AND", "(", ")", "((", "))", "'", '"', "\\", "'x y'", "failed", "valid", "1", "-1e5",
          "nan", " ", "  ", "\t", "\n", "\x00", "\x1b", "\u202e", "日本", "e\u0301", "“", "…", ".", "axes.", "&",
          ",", "$", "\udcff", "9" * 500]  # fmt: skip


def test_any_text_is_read_or_refused_with_a_usage_error(rng):
    """Random texts, and valid ones with a change, give an expression to ask or an error to show."""
    refused = 0
    for _ in range(3 * MANY):
        text = broken(rendered(random_tree(rng, 2), rng), rng) if rng.random() < 0.5 else random_text(rng)
        try:
            where = parse_where(text, NAMES)
        except UsageError as error:
            refused += 1
            check_message(str(error), text)
        else:
            assert where.matches(random_trial(rng)) in {True, False}
    assert MANY < refused < 3 * MANY


def random_text(rng):
    if rng.random() < 0.2:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randint(0, 20)))
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 25)))


def broken(text, rng):
    start = rng.randrange(len(text))
    return text[:start] + rng.choice(["", *PIECES]) + text[start + rng.randint(0, 3) :]


def check_message(message, text):
    assert all(line.isprintable() for line in message.split("\n"))
    if not text.strip():
        return
    sentence, shown, caret, *_ = message.split("\n")
    column = int(re.search(r" at column (\d+)[.;]", sentence)[1])
    assert 1 <= column <= len(text) + 1
    assert caret.strip(" ") == "^" and len(caret) <= shown_width(shown) + 1
