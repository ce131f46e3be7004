"""Digests of source: meaning counts, spelling does not."""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import itertools
import json
import linecache
import math
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from holdfast.tasks.answer import Answer
from holdfast.tasks.scorers.exact import exact
from holdfast.tasks.scorers.function import scorer
from holdfast.tasks.source import origin
from holdfast.tasks.source.digest import source_digest, source_files
from holdfast.tasks.source.importing import import_file, import_module
from holdfast.tasks.task import task

BASE = '''
"""A module."""
from holdfast import __version__
LIMIT = 3
UNUSED = 1


def helper(text):
    """Says whether."""
    return len(text) > LIMIT and deeper(text)


def deeper(text):
    return text != "no"


class Judge:
    """A class."""

    strict = True

    def judge(self, text):
        return helper(text) is self.strict


async def solve(trial):
    # A comment.
    judge = Judge()
    reply = await trial.generate("hi")
    return reply if judge.judge(reply.text) else "no"


def unrelated():
    return 1
'''

names = itertools.count()


@pytest.fixture
def digest_of(tmp_path):
    """The digest of `solve` in a file with that text, each in a directory of its own, under one file name."""

    def digest(text, name="solve", **siblings):
        home = tmp_path / str(next(names))
        home.mkdir()
        for sibling, content in siblings.items():
            (home / f"{sibling}.py").write_text(textwrap.dedent(content))
        path = home / "code.py"
        path.write_text(textwrap.dedent(text))
        return source_digest(vars(import_file(path, "code.py"))[name])

    return digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# A comment.", "# Another\n    # comment, longer."),
        ('"""Says whether."""', '"""Says something else."""'),
        ('"""A class."""', ""),
        ('"""A module."""', "# no docstring"),
        ("len(text) > LIMIT and deeper(text)", "(len( text )\n        > LIMIT and deeper(text))"),
        ('"no"', "'no'"),
        ("LIMIT = 3", "\n\n\nLIMIT   =   3"),
        ("def unrelated():\n    return 1", "def unrelated():\n    return 2"),
        ("UNUSED = 1", "UNUSED = 2"),
    ],
)
def test_spelling_does_not_count(digest_of, old, new):
    """Comments, docstrings, formatting and code that is not reached leave the digest as it is."""
    assert old in BASE
    assert digest_of(BASE) == digest_of(BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('trial.generate("hi")', 'trial.generate("ho")'),
        ("LIMIT = 3", "LIMIT = 4"),
        ("len(text) > LIMIT", "len(text) >= LIMIT"),
        ('text != "no"', 'text != "nope"'),
        ("strict = True", "strict = False"),
        ("is self.strict", "is not self.strict"),
    ],
)
def test_meaning_counts_at_any_remove(digest_of, old, new):
    """A change of the function, a helper, a helper's helper, a class or a constant changes the digest."""
    assert old in BASE
    assert digest_of(BASE) != digest_of(BASE.replace(old, new))


def test_moving_definitions_about_does_not_count(digest_of):
    """The order of a file is no part of its meaning."""
    moved = BASE.replace("LIMIT = 3\n", "") + "\nLIMIT = 3\n"
    assert digest_of(BASE) == digest_of(moved)


@pytest.mark.parametrize(
    "using",
    [
        "from helpers import check\nasync def solve(trial): return check(1)",
        "from helpers import check as verify\nasync def solve(trial): return verify(1)",
        "import helpers\nasync def solve(trial): return helpers.check(1)",
        "import helpers as h\nasync def solve(trial): return h.check(1)",
        "from helpers import *\nasync def solve(trial): return check(1)",
        "async def solve(trial):\n    import helpers\n    return helpers.check(1)",
        "async def solve(trial):\n    from helpers import check\n    return check(1)",
    ],
)
def test_code_in_a_file_beside_it_counts(digest_of, using):
    """However a neighbour is imported, its code counts, and its comments do not."""
    helpers = "EDGE = 1\ndef check(value):\n    return value > EDGE\n"
    first = digest_of(using, helpers=helpers)
    assert first == digest_of(using, helpers=helpers + "# A remark.\n")
    assert first != digest_of(using, helpers=helpers.replace("value > EDGE", "value >= EDGE"))
    assert first != digest_of(using, helpers=helpers.replace("EDGE = 1", "EDGE = 2"))


def test_a_constant_from_beside_counts(digest_of):
    """An imported constant counts as it is written there."""
    using = "from helpers import EDGE\nasync def solve(trial): return EDGE"
    assert digest_of(using, helpers="EDGE = 1") != digest_of(using, helpers="EDGE = 2")
    assert digest_of(using, helpers="EDGE = 1") == digest_of(using, helpers="EDGE = 1\nOTHER = 2")


def test_values_that_are_read_at_import_do_not_count(digest_of, monkeypatch):
    """A key or a time stamp taken at import is the same code."""
    text = (
        "import os, time\nKEY = os.environ.get('SOME_KEY')\nNOW = time.time()\nasync def solve(trial): return KEY, NOW"
    )
    first = digest_of(text)
    monkeypatch.setenv("SOME_KEY", "rotated")
    assert first == digest_of(text)


def test_plain_values_in_a_closure_count():
    """Functions from one factory differ by what they close over."""

    def make(limit, words):
        async def solve(trial):
            return limit, words

        return solve

    assert source_digest(make(1, {"a", "b"})) == source_digest(make(1, {"b", "a"}))
    assert source_digest(make(1, {"a"})) != source_digest(make(2, {"a"}))
    assert source_digest(make(1, {"a"})) != source_digest(make(1, {"b"}))


def test_functions_in_a_closure_and_defaults_count():
    """What is handed in as a function counts by its code, what is a default by its value."""

    def make(inner, default=0):
        async def solve(trial, value=default):
            return inner(value)

        return solve

    first, second = (lambda value: value + 1), (lambda value: value + 2)
    assert source_digest(make(first)) != source_digest(make(second))
    assert source_digest(make(first)) != source_digest(make(first, default=1))


def test_lambdas_on_one_line_are_told_apart():
    """Each lambda has its own digest, also beside and inside another."""
    one, two = (lambda value: value + 1), (lambda value: value + 2)
    outer = lambda value: lambda inner: inner * value  # noqa: E731
    same, again = (lambda value: value + 1), (lambda  value :  value+1)  # fmt: skip
    assert source_digest(one) != source_digest(two)
    assert source_digest(outer) != source_digest(outer(2))
    assert source_digest(outer(2)) != source_digest(outer(3))
    assert source_digest(one) == source_digest(same) == source_digest(again)


def test_partials_methods_and_callable_objects_count_by_what_they_hold():
    """Whatever can be a solver has a digest of its code and its state."""

    class Solver:
        def __init__(self, depth):
            self.depth = depth

        async def __call__(self, trial):
            return trial, self.depth

        async def run(self, trial):
            return trial, self.depth

    def base(depth, trial):
        return depth

    assert source_digest(functools.partial(base, 1)) != source_digest(functools.partial(base, 2))
    assert source_digest(Solver(1)) == source_digest(Solver(1)) != source_digest(Solver(2))
    assert source_digest(Solver(1).run) != source_digest(Solver(2).run)


def test_wrapped_functions_count_by_the_function_inside():
    """A scorer, a task and a cached function have the digest of what they were made of."""

    def same(answer: Answer, sample):
        return True

    assert source_digest(scorer(same)) == source_digest(same)
    assert source_digest(functools.lru_cache(same)) == source_digest(same)

    def make():
        return None

    assert source_digest(task(make)) == source_digest(make)


def test_a_function_that_refers_to_itself_has_a_digest():
    """Recursion, through names and through closures, comes to an end."""

    def even(number):
        return number == 0 or odd(number - 1)

    def odd(number):
        return number != 0 and even(number - 1)

    held = [even]
    held.append(held)
    assert source_digest(even) != source_digest(odd)
    assert source_digest(functools.partial(even, held))


def test_without_source_the_bytecode_counts():
    """Code that was made from a text that is gone still has a digest."""

    def made(text):
        names = {}
        exec(compile(text, "<made up>", "exec"), names)
        return names["solve"]

    first = "def other(): return 1\ndef solve(): return other()"
    assert source_digest(made(first)) == source_digest(made("\n\n" + first))
    assert source_digest(made(first)) != source_digest(made(first.replace("return 1", "return 2")))
    assert source_digest(made(first)) != source_digest(made(first.replace("return other()", "return other() + 1")))


def test_a_cell_of_a_notebook_counts_with_the_cells_it_uses():
    """Functions from cells, which share their names but no file, are followed."""

    def digest(helper):
        shared: dict = {}
        for number, text in enumerate([helper, "def solve(): return helper()"]):
            name = f"<cell {number} of {abs(hash(helper))}>"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), shared)
        return source_digest(shared["solve"])

    assert digest("def helper(): return 1") == digest("def helper():\n    # why\n    return 1")
    assert digest("def helper(): return 1") != digest("def helper(): return 2")


def test_installed_packages_count_by_name_and_version(tmp_path, monkeypatch):
    """Code from a package is not read; another version of it is another digest."""
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "some_package.py").write_text("def check(): return 1\n")
    spec = importlib.util.spec_from_file_location("some_package", site / "some_package.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "some_package", module)
    spec.loader.exec_module(module)

    def solve():
        return check()

    check = module.check
    monkeypatch.setattr(origin, "_package_version", lambda top: "1.0" if top == "some_package" else "")
    first, second = source_digest(solve), source_digest(solve)
    monkeypatch.setattr(origin, "_package_version", lambda top: "2.0" if top == "some_package" else "")
    assert first == second != source_digest(solve)
    assert not any(path.name == "some_package.py" for path in source_files(module.check))


def test_the_files_behind_a_function_are_named(tmp_path):
    """Resume can name the files whose code counts, and no others."""
    (tmp_path / "helpers.py").write_text("def check(): return 1\n")
    (tmp_path / "other.py").write_text("VALUE = 1\n")
    path = tmp_path / "code.py"
    path.write_text("import other\nfrom helpers import check\nasync def solve(trial): return check()\n")
    solve = import_file(path, "code.py").solve
    assert source_files(solve) == [path, tmp_path / "helpers.py"]


def test_built_in_scorers_count_by_their_arguments():
    """A scorer of Holdfast's own has no file to watch; its arguments are its digest."""
    assert source_digest(exact()) == source_digest(exact())
    assert source_digest(exact()) != source_digest(exact(ignore_case=True))
    assert source_files(exact()) == []


def test_the_digest_is_the_same_in_every_process(tmp_path):
    """What one session recorded is what the next one computes."""
    (tmp_path / "helpers.py").write_text("WORDS = {'a', 'b', 'c'}\nclass Check:\n    limit = 3\n")
    (tmp_path / "code.py").write_text(
        BASE + "\nfrom helpers import *\nasync def other(t): return WORDS, Check, solve\n"
    )
    program = (
        "import sys, pathlib\nfrom holdfast.tasks.source.digest import source_digest\n"
        "from holdfast.tasks.source.importing import import_file\n"
        "print(source_digest(import_file(pathlib.Path(sys.argv[1]), 'code.py').other))"
    )
    found = set()
    for seed in ("0", "1", "2"):
        command = [sys.executable, "-c", program, str(tmp_path / "code.py")]
        done = subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1 and len(found.pop().strip()) == 32


@pytest.mark.parametrize(
    "using",
    [
        "from .helpers import check\nasync def solve(trial): return check(1)",
        "from . import helpers\nasync def solve(trial): return helpers.check(1)",
        "from . import helpers\nasync def solve(trial): return vars(helpers)",
        "import package_of_tasks.helpers\nasync def solve(trial): return package_of_tasks.helpers.check(1)",
    ],
)
def test_code_in_the_same_package_counts(tmp_path, using):
    """Relative and dotted imports lead to the code they name; a module that is passed on counts whole."""

    def digest(helpers):
        base = tmp_path / str(next(names))
        package = base / "package_of_tasks"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "helpers.py").write_text(helpers)
        (package / "code.py").write_text(using)
        return source_digest(import_module("package_of_tasks.code", base).solve)

    first = "def check(value): return value + 1\n"
    assert digest(first) == digest(first + "# A remark.\n")
    assert digest(first) != digest(first.replace("+ 1", "+ 2"))


def test_data_objects_that_are_held_count_by_what_they_hold():
    """Data classes, structs, patterns, paths and keyword defaults in reach of a solver are part of it."""

    @dataclasses.dataclass
    class Settings:
        depth: int

    def make(held, *, default=None):
        async def solve(trial, *, other=default):
            return held, other

        return solve

    for one, two in [
        (Settings(1), Settings(2)),
        (re.compile("a"), re.compile("b")),
        (pathlib.Path("a"), pathlib.Path("b")),
        (exact(), exact(ignore_case=True)),
        ({"a": [1]}, {"a": [2]}),
        (len, max),
        (json, math),
    ]:
        assert source_digest(make(one)) == source_digest(make(one))
        assert source_digest(make(one)) != source_digest(make(two))
    assert source_digest(make(1, default=2)) != source_digest(make(1, default=3))


def test_a_variable_that_is_not_filled_yet_is_passed_over():
    """A closure over a name that has no value yet still has a digest."""

    def make():
        def solve():
            return later

        first = source_digest(solve)
        later = 5
        return first, source_digest(solve), later

    before, after, _ = make()
    assert before != after


def test_the_version_is_that_of_the_distribution():
    """A package counts with the version of what was installed, also where the names differ."""
    assert importlib.metadata.version("msgspec") in origin.versioned_name("msgspec.json", "encode")
    assert importlib.metadata.version("PyYAML") in origin.versioned_name("yaml", "load")
    assert origin.versioned_name("json.decoder", "JSONDecoder") == "json.decoder.JSONDecoder"
    assert origin.versioned_name("holdfast.tasks", "exact") == "holdfast.tasks.exact"
