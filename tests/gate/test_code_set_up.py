"""Rows 52, 53 and 82: what a file sets up while it is loaded, in packages, names and classes, without a process of its own."""
# ruff: noqa: E501 - a case is a line of its own

from __future__ import annotations

import decimal
import html.entities
import itertools
import json
import os
import random
from pathlib import Path

import pytest
from code_project import code

from holdfast.run.core.display_text import change_text
from holdfast.run.drift.code_changes import code_changes, first_changes
from holdfast.tasks.source.values.code_tree import take_code
from holdfast.tasks.task_code import code_of
from holdfast.tasks.task_reference import load_use

SALT = "00" * 16
SOLVE = "async def solve(trial):\n    return (await trial.generate(str({0}))).text\n"


@pytest.fixture
def sentences(tmp_path):
    """What the gate says to a task file and another one; each is loaded from a directory of its own."""
    numbers = itertools.count()

    def taken(text: str):
        place = tmp_path / str(next(numbers))
        place.mkdir()
        (place / "tk.py").write_text(text)
        return code_of(load_use("tk.py:t", Path(place)), SALT).tree

    def said(old: str, new: str) -> list[str]:
        changes = code_changes(taken(old), taken(new))
        return [change.sentence("") for found in changes.values() for change in first_changes(found)[0]]

    return said


@pytest.fixture(autouse=True)
def untouched():
    """The state of packages that the cases change is the same afterwards."""
    kept = random.getstate(), decimal.getcontext().copy(), dict(json.dumps.__kwdefaults__), json.dumps.__code__
    yield
    random.setstate(kept[0])
    decimal.setcontext(kept[1])
    json.dumps.__kwdefaults__, json.dumps.__code__ = kept[2], kept[3]
    html.entities.html5.pop("zz", None)
    os.environ.pop("STYLE_X", None)


SEEDED = "random (set at import) has changed: "
SET_UP = {
    "seed": ("import random\nrandom.seed(1)\n" + SOLVE.format("random.random()"), "seed(1)", "seed(2)", f"{SEEDED}random.seed(1) → random.seed(2)"),
    "seed from a constant": ("import random\nSEED = 1\nrandom.seed(SEED)\n" + SOLVE.format("random.random()"), "SEED = 1", "SEED = 2", "SEED has changed: 1 → 2"),
    "seed by a function": (
        "import random\ndef set_seed(n):\n    random.seed(n)\nset_seed(1)\n" + SOLVE.format("random.random()"),
        "set_seed(1)",
        "set_seed(2)",
        f"{SEEDED}set_seed(1) → set_seed(2)",
    ),
    "seed by an imported name": (
        "import random\nfrom random import seed as seed_it\nseed_it(1)\n" + SOLVE.format("random.random()"),
        "seed_it(1)",
        "seed_it(2)",
        f"{SEEDED}seed_it(1) → seed_it(2)",
    ),
    "seed under a condition": ("import random\nif True:\n    random.seed(1)\n" + SOLVE.format("random.random()"), "seed(1)", "seed(2)", SEEDED),
    "context of decimals": (
        "import decimal\ndecimal.getcontext().prec = 5\n" + SOLVE.format("decimal.Decimal(1) / 3"),
        "prec = 5",
        "prec = 6",
        "decimal (set at import) has changed: ",
    ),
    "variable": (
        "import os\nos.environ['STYLE_X'] = 'one'\n" + SOLVE.format("os.environ['STYLE_X']"),
        "'one'",
        "'two'",
        "os (set at import) has changed: os.environ['STYLE_X'] = 'one' → os.environ['STYLE_X'] = 'two'",
    ),
    "default of a function of Python": (
        "import json\njson.dumps.__kwdefaults__['indent'] = 1\n" + SOLVE.format("json.dumps([1])"),
        "= 1",
        "= 2",
        "json.dumps.__kwdefaults__ (patched)['indent'] has changed: 1 → 2",
    ),
    "code of a function of Python": (
        "import json\ndef one(obj, **rest): return 'one'\njson.dumps.__code__ = one.__code__\n" + SOLVE.format("json.dumps([1])"),
        "'one'",
        "'two'",
        "the code of one() has changed",
    ),
    "table of Python": (
        "import html.entities\nhtml.entities.html5['zz'] = 'one'\n" + SOLVE.format("html.entities.html5['zz']"),
        "'one'",
        "'two'",
        "html.entities.html5 (patched)",
    ),
    "constants of a function": (
        "def f(): return 'a'\nf.__code__ = f.__code__.replace(co_consts=(None, 'one'))\n" + SOLVE.format("f()"),
        "'one'",
        "'two'",
        "the code of f() has changed (its source was not known, so compiled code is compared)",
    ),
    "name of a function": ("def f(): pass\nf.__name__ = 'one'\n" + SOLVE.format("f.__name__"), "'one'", "'two'", "f.__name__ has changed: 'one' → 'two'"),
    "name of a class": ("class A: pass\nA.__name__ = 'one'\n" + SOLVE.format("A.__name__"), "'one'", "'two'", "A.__name__ has changed: 'one' → 'two'"),
    "name of a new type": ("from typing import NewType\nN = NewType('one', str)\n" + SOLVE.format("N.__name__"), "'one'", "'two'", "N has changed: NewType one → NewType two"),
    "keys of a typed dict": (
        "from typing import TypedDict\nT = TypedDict('T', {'one': str})\n" + SOLVE.format("sorted(T.__required_keys__)"),
        "'one'",
        "'two'",
        "T.__required_keys__ has changed: {'one'} → {'two'}",
    ),
    "whether a typed dict is total": (
        "from typing import TypedDict\nclass T(TypedDict, total=True):\n    a: str\n" + SOLVE.format("T.__total__"),
        "total=True",
        "total=False",
        "T.__total__ has changed: True → False",
    ),
    "class that is registered with an abstract one": (
        "import abc\nclass Text(abc.ABC): pass\nText.register(str)\n" + SOLVE.format("isinstance('', Text)"),
        "register(str)",
        "register(int)",
        "Text (registered) has changed: str → int",
    ),
    "own class that is registered": (
        "import abc\nclass Text(abc.ABC): pass\nclass A: p = 'one'\nText.register(A)\n" + SOLVE.format("[isinstance('', Text), Text]"),
        "'one'",
        "'two'",
        "A.p has changed: 'one' → 'two'",
    ),
    "line of a function": (
        "import sys\n\ndef f(): return sys._getframe().f_lineno\n" + SOLVE.format("f()"),
        "\n\ndef f",
        "\n\n\ndef f",
        "f (line) has changed: 4 → 5",
    ),
    "first line of a function": (
        "\ndef f(): return 1\n" + SOLVE.format("f.__code__.co_firstlineno"),
        "\ndef f",
        "\n# a comment\ndef f",
        "f (line) has changed: 3 → 4",
    ),
    "names of local variables": (
        "def f():\n    one = 1\n    return one\n" + SOLVE.format("f.__code__.co_varnames"),
        "one",
        "two",
        "f (source) has changed",
    ),
    "class made by a call": (
        "import dataclasses\nA = dataclasses.make_dataclass('A', [('p', str, 'one')])\n" + SOLVE.format("A().p"),
        "'one'",
        "'two'",
        "A.p",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SET_UP)
def test_resume_53_what_a_file_sets_up(sentences, name):
    """53: the state of packages, names given later, and classes made by calls; each is named."""
    text, old, new, said = SET_UP[name]
    assert old in text
    assert sentences(code(text), code(text)) == []
    found = sentences(code(text), code(text.replace(old, new)))
    assert any(said in sentence for sentence in found), found


WITHOUT_EFFECT = {
    "seed of a package that nothing uses": ("import random\nrandom.seed(1)\n" + SOLVE.format("1"), "seed(1)", "seed(2)"),
    "variable that nothing mentions": ("import os\nos.environ['STYLE_X'] = 'one'\n" + SOLVE.format("os.environ['HOME']"), "'one'", "'two'"),
    "logging": ("import logging\nlogging.basicConfig(level=20)\nlog = logging.getLogger('x')\n" + SOLVE.format("log.name"), "level=20", "level=30"),
    "path of modules": ("import sys\nsys.path.insert(0, '/one')\nsys.path.remove('/one')\n" + SOLVE.format("sys.byteorder"), "'/one'", "'/two'"),
    "line of code that reads no lines": ("\ndef f(): return 1\n" + SOLVE.format("f()"), "\ndef f", "\n\n\ndef f"),
    "directory that is made": ("import os\nos.makedirs('.', exist_ok=True)\n" + SOLVE.format("os.sep"), "'.'", "'./.'"),
    "name of a function that nothing reads": ("def f(): return 1\nf.__name__ = 'one'\n" + SOLVE.format("f()"), "'one'", "'two'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_resume_82_what_a_file_sets_up_without_effect(sentences, name):
    """82: what no reached code can see may change."""
    text, old, new = WITHOUT_EFFECT[name]
    assert old in text
    assert sentences(code(text), code(text.replace(old, new))) == []


def test_a_key_in_a_line_that_sets_something_is_not_recorded(tmp_path, monkeypatch):
    """54: lines count without the keys in them."""
    monkeypatch.setenv("SOME_API_KEY", "a1b2c3d4e5f6g7h8")
    head = "import os\nos.environ['STYLE_X'] = 'a1b2c3d4e5f6g7h8'\n"
    (tmp_path / "tk.py").write_text(code(head + SOLVE.format("os.environ['STYLE_X']")))
    tree = code_of(load_use("tk.py:t", tmp_path), SALT).tree
    nodes = tree.roots["solver"]
    assert nodes["os (set at import)"].text == "os.environ['STYLE_X'] = '[key]'"


@pytest.mark.parametrize(
    ("made", "change"),
    [
        ("[str(n) for n in range(30_000)]", "TABLE[:] = ['other'] * 30_000"),
        ("{n: str(n) for n in range(30_000)}", "TABLE.update(dict.fromkeys(TABLE, 'other'))"),
        ("{str(n) for n in range(30_000)}", "TABLE.add('other')"),
    ],
)
def test_resume_81_a_large_table_that_was_changed_in_this_process(tmp_path, made, change):
    """81: too large to be compared, and yet known to hold other things than at first."""
    (tmp_path / "tk.py").write_text(code(f"TABLE = {made}\n" + SOLVE.format("len(TABLE)")))
    task = load_use("tk.py:t", tmp_path)
    root = {"solver": task.solver}
    first, again = take_code(root), take_code(root)
    assert again.mutated == frozenset() and again.roots == first.roots
    exec(change, task.solver.__globals__)
    changed = take_code(root)
    assert changed.mutated == {"TABLE"} and changed.roots["solver"]["TABLE"] != first.roots["solver"]["TABLE"]


LABELS = "import enum\nclass Label({0}):\n    YES = {1}\n    NO = {2}\n"
TOOLS = "class Tools:\n    def add(self): return 1\n    def sub(self): return 2\n"
METHODS = ("    def add(self): return 1\n    def sub(self): return 2\n", "    def sub(self): return 2\n    def add(self): return 1\n")  # fmt: skip
FUNCTIONS = "def add(): return 1\ndef sub(): return 2\n"
OBJECT = "class K: pass\nk = K()\nk.a = 1\nk.b = 2\n"
PLUGINS = "class Base: pass\nclass A(Base):\n    s = 'kind'\nclass B(Base):\n    s = 'b'\n"
GONE_THROUGH = {
    "members of an enumeration": (LABELS.format("enum.Enum", "'y'", "'n'") + SOLVE.format("[e.value for e in Label]"), "    YES = 'y'\n    NO = 'n'\n", "    NO = 'n'\n    YES = 'y'\n", "the order of Label has changed: YES, NO → NO, YES"),
    "members of numbers": (LABELS.format("enum.IntEnum", 1, 2) + SOLVE.format("list(Label)"), "    YES = 1\n    NO = 2\n", "    NO = 2\n    YES = 1\n", "the order of Label"),
    "members of texts, by name": (LABELS.format("enum.StrEnum", "'y'", "'n'") + SOLVE.format("Label.__members__"), "    YES = 'y'\n    NO = 'n'\n", "    NO = 'n'\n    YES = 'y'\n", "the order of Label"),
    "members through a method": (LABELS.format("enum.Enum", "'y'", "'n'") + "    @classmethod\n    def all(cls): return [e.value for e in cls]\n" + SOLVE.format("Label.all()"), "    YES = 'y'\n    NO = 'n'\n", "    NO = 'n'\n    YES = 'y'\n", "the order of Label"),
    "methods by vars": (TOOLS + SOLVE.format("list(vars(Tools))"), *METHODS, "the order of Tools has changed: add, sub → sub, add"),
    "methods by type": (TOOLS + "tools = Tools()\n" + SOLVE.format("list(type(tools).__dict__)"), *METHODS, "the order of Tools"),
    "attributes of an object": (OBJECT + SOLVE.format("k.__dict__"), "k.a = 1\nk.b = 2\n", "k.b = 2\nk.a = 1\n", "the order of k has changed: a, b → b, a"),
    "namespace as text": ("import types\nN = types.SimpleNamespace(a=1, b=2)\n" + SOLVE.format("N"), "a=1, b=2", "b=2, a=1", "the order of N has changed: a, b → b, a"),
    "namespace as map": ("import types\nN = types.SimpleNamespace(a=1, b=2)\n" + SOLVE.format("list(vars(N).items())"), "a=1, b=2", "b=2, a=1", "the order of N"),
    "names of the module": (FUNCTIONS + SOLVE.format("[n for n in globals() if len(n) == 3]"), "def add(): return 1\ndef sub(): return 2\n", "def sub(): return 2\ndef add(): return 1\n", "the order of globals()"),
    "attribute of a derived class": (PLUGINS + SOLVE.format("[c.s for c in Base.__subclasses__()]"), "'kind'", "'rude'", "A.s has changed: 'kind' → 'rude'"),
    "order of derived classes": (PLUGINS + SOLVE.format("[c.s for c in Base.__subclasses__()]"), "class A(Base):\n    s = 'kind'\nclass B(Base):\n    s = 'b'\n", "class B(Base):\n    s = 'b'\nclass A(Base):\n    s = 'kind'\n", "Base (subclasses) has changed: A, B → B, A"),
    "derived class that is added": (PLUGINS + SOLVE.format("[c.s for c in Base.__subclasses__()]"), "class B(", "class C(Base):\n    s = 'c'\nclass B(", "Base (subclasses) has changed: A, B → A, C, B"),
    "class that is derived in two steps": (PLUGINS + "class C(A):\n    s = 'kinder'\n" + SOLVE.format("[d.s for c in Base.__subclasses__() for d in c.__subclasses__()]"), "'kinder'", "'ruder'", "C.s has changed: 'kinder' → 'ruder'"),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE_THROUGH)
def test_resume_53_what_code_goes_through_besides_maps(sentences, name):
    """53: the order of members, methods, attributes and names, and classes that are found through another."""
    text, old, new, said = GONE_THROUGH[name]
    assert old in text
    found = sentences(code(text), code(text.replace(old, new)))
    assert any(said in sentence for sentence in found), found


LOOKED_UP = {
    "members that are named": (LABELS.format("enum.Enum", "'y'", "'n'") + SOLVE.format("Label.YES.value"), "    YES = 'y'\n    NO = 'n'\n", "    NO = 'n'\n    YES = 'y'\n"),
    "methods": (TOOLS + SOLVE.format("Tools().add()"), *METHODS),
    "attributes that are named": (OBJECT + SOLVE.format("k.a + k.b"), "k.a = 1\nk.b = 2\n", "k.b = 2\nk.a = 1\n"),
    "attributes that are set by name": (OBJECT + "k.__dict__.update(c=1)\n" + SOLVE.format("vars(k)['a']"), "k.a = 1\nk.b = 2\n", "k.b = 2\nk.a = 1\n"),
    "namespace": ("import types\nN = types.SimpleNamespace(a=1, b=2)\n" + SOLVE.format("N.a"), "a=1, b=2", "b=2, a=1"),
    "names that are looked up": (FUNCTIONS + "NAME = 'add'\n" + SOLVE.format("globals()[NAME]()"), "def add(): return 1\ndef sub(): return 2\n", "def sub(): return 2\ndef add(): return 1\n"),
    "derived class that nothing asks for": (PLUGINS + SOLVE.format("Base.__name__"), "'kind'", "'rude'"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKED_UP)
def test_resume_82_what_code_only_looks_things_up_in(sentences, name):
    """82: without code that goes through them, their order makes no difference."""
    text, old, new = LOOKED_UP[name]
    assert old in text
    assert sentences(code(text), code(text.replace(old, new))) == []


def test_a_method_that_is_added_is_not_said_to_be_used(sentences):
    """53: what may be called by a name that only exists at run time counts; whether it is called is not known."""
    text = code(TOOLS + SOLVE.format("Tools().add()"))
    added = text.replace("class Tools:\n", "class Tools:\n    def unused(self): return 3\n")
    assert sentences(text, added) == ["Tools.unused() can be reached by the task and could not before"]
    assert sentences(added, text) == ["Tools.unused() can no longer be reached by the task"]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("say {q}", "say  {q}", "'say {q}' → 'say  {q}'"),
        ("say", "say\n", "'say' → 'say\\n'"),
        ("say {q}", "tell {q}", "say {q} → tell {q}"),
    ],
)
def test_white_space_that_has_changed_is_shown(old, new, shown):
    """Both values of a change differ where a person sees them."""
    assert change_text(old, new) == shown


def test_long_texts_are_shown_where_they_differ():
    """What is cut off may be all that has changed."""
    old, new = change_text("a" * 500 + "b", "a" * 500 + "c").split(" → ")
    assert (old[-2:], new[-2:], old[0]) == ("b'", "c'", "…")


def test_resume_54_a_rotated_key_in_code_that_was_made_from_a_text(tmp_path, monkeypatch):
    """54: constants and names of compiled code count without the keys in them, however deep."""
    head = "import os\nK = os.environ['SOME_API_KEY']\nexec(f'def f(a={K!r}):\\n    x_{K} = [{K!r}, ({K!r}, 1)]\\n    return lambda: {K!r}')\n"
    (tmp_path / "tk.py").write_text(code(head + SOLVE.format("f()()")))
    trees = []
    for number, key in enumerate(("a1b2c3d4e5f6g7h8", "z9y8x7w6v5u4t3s2")):
        monkeypatch.setenv("SOME_API_KEY", key)
        place = tmp_path / str(number)
        place.mkdir()
        (place / "tk.py").write_text(code(head + SOLVE.format("f()()")))
        trees.append(code_of(load_use("tk.py:t", place), SALT).tree)
    assert trees[0].roots["solver"]["f()"].kind == "bytecode"
    assert code_changes(*trees) == {}
