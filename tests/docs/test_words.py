"""The language: no page, help text, message, docstring or comment uses a phrase that was replaced by plainer words.

Each phrase stands here with a sentence that it must match, so that no pattern can pass because it matches nothing.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli.main import COMMANDS, program

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "holdfast"

PHRASES = {
    r"\bowed\b": "5 trials are owed.",
    r"\bgo(es|ing)? on (with|from)\b": "Go on with: holdfast resume RUN",
    r"\bmay not go on\b": "RUN may not go on with these changes.",
    r"\bunder way\b": "three calls are under way",
    r"\b(begins?|began|begun) (a|the|another|its|no) (new )?run\b": "`fork` begins a run with it",
    r"\b(begins?|began|begun) anew\b": "the run is begun anew",
    r"\btrials? to do\b": "8 trials to do",
    r"\basked again after\b": "asked again after: 429",
    r"\bnot asked again in\b": "it is not asked again in this session",
    r"\bperhaps paid\b": "0 perhaps paid twice",
    r"\bwhen a session died\b": "in flight when a session died",
    r"\bonce more stops\b": "once more stops at once",
    r"\bletting calls\b": "letting calls in flight finish",
    r"\b\d+ failed before\b": "3 failed before",
    r"\b(is|are|be|was|were|been) told\b(?! apart)": "the second process is told who holds it",
    r"\bbeing executed by\b": "the run is being executed by process 7",
    r"\ba person to be\b": "Where there is a person to be told something",
    r"\bfrom the run alone\b": "Go on with a run, from the run alone",
    r"\bwhat was measured\b": "Print what was measured, and on how much of it",
    r"\bare ready here\b": "Say which model providers are ready here",
    r"\bhow far (a |the )?(runs?|it) (is|are)\b": "Show how far runs are",
    r"\b(brings?|brought|bringing)\b[^.\n]{0,40}\bhome\b": "Bring a run home from a store",
    r"\bcomes? home\b": "the others come home",
    r"\bwhat (it|they) lacks?\b": "the directory gets what it lacks",
    r"\bwhat lies (outside|beside) the journal\b": "Rebuild what lies outside the journal",
    r"\b(holds?|held) (the |all )?(records|results|files|them) against\b": "hold the records against one another",
    r"\bagainst one another\b": "also the records against one another",
    r"\b(first|most|last|at most|than|up to) so (many|much)\b": "Only the first so many samples",
    r"\bso many (samples|trials|calls)\b": "At most so many trials",
    r"\bexactly there\b": "Put the run exactly there",
    r"\bnothing that is there\b": "Nothing that is there is touched",
    r"\b\d+ unless given\b": "50 unless given",
    r"\btold in a sentence\b": "works, or is told in a sentence",
    r"\bcarrying out\b": "## Carrying out",
    r"\bcomes to;": "what a solver comes to; a text will do",
    r"\bwhat an? \w+ comes to\b": "what a solver comes to",
    r"(?<!there )\b(is|are|was|were) (?-i:none)\b(?! of)": "a pattern that is none",
    r"\b(is|are) none of theirs\b": "a fault that is none of theirs",
    r"(?<!there )\bis no (URL|regular expression|task|file|directory|mapping|number|verdict|JSON|YAML)\b": (
        "'x' is no regular expression"
    ),
    r"\b(is|are|was|were) no (difference|change|noise|longer there)s?\b": "comments are no differences",
    r"\bis proven\b": "Complete is proven",
    r"\bof (less|fewer),? the run keeps\b": "of less the run keeps what it has",
    r"\brun keeps what it has\b": "of less the run keeps what it has",
    r"\bnothing is lost with\b": "frames left by a crash: nothing is lost with them",
    r"\b(taken|takes?|took|taking) over\b[^.\n]{0,30}\b(trials?|answers?|repl(y|ies)|results?)\b": (
        "taken over from run 7: 3 trials"
    ),
    r"\bwould be another\b": "its answer would be another",
    r"\bcannot be told\b": "its format cannot be told from the name",
    r"\b(is|are|was|were|or) not there\b(?! yet)": "the file is not there",
    r"\bmeant as such\b": "braces that are meant as such",
    r"\bhas to be said\b": "It has to be said what is to be deleted",
    r"\bmakes a \w+ and is\b": "exact makes a scorer and is none itself",
    r"\bcorrect or remove that row\b": "Correct or remove that row.",
    r"\bfits \S+ (trials|runs)\b": "'fr' fits 3 trials",
    r"\bname it there\b": "Name it there.",
    r"\basks one model at least\b": "a task asks one model at least",
    r"\bfor ever\b": "it opens for ever",
    r"\bleft alone,? it\b": "left alone, it leaves the trial unfinished",
}
"""A pattern, and a sentence of old that it must find."""

ALLOWED = {
    ("src/holdfast/tasks/datasets/formats.py", "correct or remove that row"): "right for a row with a mistake in it",
}
"""Where a phrase is right as it stands, and why."""


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def pages() -> Iterator[tuple[str, str]]:
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        yield str(page.relative_to(ROOT)), in_one_line(page.read_text(encoding="utf-8"))


def help_texts() -> Iterator[tuple[str, str]]:
    yield "holdfast --help", in_one_line(program.get_help(click.Context(program, info_name="holdfast")))
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        assert command is not None
        yield f"holdfast {name} --help", in_one_line(command.get_help(click.Context(command, info_name=name)))


def strings(tree: ast.AST) -> Iterator[str]:
    """Every string of a module, docstrings included; an f-string as one text, with {} for its values."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def comments(source: str) -> Iterator[str]:
    """Every comment; lines that follow one another are one comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    joined, last = "", 0
    for token in tokens:
        if token.type == tokenize.COMMENT:
            is_whole_line = token.line.lstrip().startswith("#")
            if not is_whole_line or token.start[0] != last + 1:
                yield joined
                joined = ""
            joined, last = f"{joined} {token.string.lstrip('# ')}", token.start[0]
    yield joined


def source_texts() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for text in (*strings(ast.parse(source)), *comments(source)):
            yield str(path.relative_to(ROOT)), in_one_line(text)


def hits(texts: Iterator[tuple[str, str]]) -> list[str]:
    """Every old phrase in the texts, with its place and the words around it."""
    every = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)
    return [
        f"{place}: …{text[max(0, found.start() - 30) : found.end() + 30]}…"
        for place, text in texts
        for found in every.finditer(text)
        if (place, found[0].lower()) not in ALLOWED
    ]


@pytest.mark.parametrize(("phrase", "sentence"), PHRASES.items())
def test_a_pattern_finds_its_sentence(phrase, sentence):
    """Each pattern can match: a text with the old sentence fails the tests below."""
    assert re.search(phrase, sentence, re.IGNORECASE)
    assert hits(iter([("page", f"Some words before. {sentence} Some after.")]))


def test_strings_and_comments_are_found():
    """The search sees docstrings, parts of f-strings, implicit concatenation and comments over several lines."""
    source = 'def f(x):\n    """A doc."""\n    # one is\n    # told\n    return f"go on {x} with" "out"  # last\n'
    assert {"A doc.", "go on {} without"} <= set(strings(ast.parse(source)))
    assert [text.strip() for text in comments(source) if text] == ["one is told", "last"]


def test_the_pages_are_in_plain_words():
    """README, docs and CONTRIBUTING."""
    assert hits(pages()) == []


def test_the_help_is_in_plain_words():
    """The help of the program and of every command."""
    assert hits(help_texts()) == []


def test_the_messages_and_comments_are_in_plain_words():
    """Every string, docstring and comment of the program."""
    assert hits(source_texts()) == []
