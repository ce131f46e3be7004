"""Values are spelled without running any code of theirs, within bounds, whatever they pretend to be."""

from __future__ import annotations

import itertools
import textwrap

import msgspec
import pytest

from holdfast.tasks.source.importing import import_file
from holdfast.tasks.source.values.code_tree import take_code
from holdfast.tasks.source.values.spelling.node_budget import MAX_NODES

names = itertools.count()

HOSTILE = """
import enum, functools, threading, types
CALLED = []
def called(name, result=None):
    def method(self, *given):
        CALLED.append(name)
        raise RuntimeError(name)
    return method
SPECIAL = ("__getattr__", "__eq__", "__hash__", "__repr__", "__str__", "__bool__", "__len__", "__iter__", "__reduce__")
class Liar:
    def __init__(self): self.p = "x"
    __class__ = property(called("class"))
    def __getattribute__(self, name): CALLED.append(name); return object.__getattribute__(self, name)
for name in SPECIAL:
    setattr(Liar, name, called(name))
Liar.__hash__ = lambda self: 1
class Meta(type):
    def __getattribute__(cls, name): CALLED.append(name); return type.__getattribute__(cls, name)
    def __eq__(cls, other): CALLED.append("eq"); raise RuntimeError
    def __hash__(cls): CALLED.append("hash"); return 1
    __mro__ = property(called("mro"))
    __instancecheck__ = __subclasscheck__ = called("check")
class Made(metaclass=Meta):
    x = 1
class BadDict(dict):
    items = __iter__ = __len__ = keys = called("dict")
class BadText(str):
    __str__ = __eq__ = called("str")
    __hash__ = str.__hash__
class NoDict:
    __dict__ = property(called("dict"))
class BadEnum(enum.Enum):
    A = 1
    __repr__ = __str__ = called("enum")
class BadError(Exception):
    __repr__ = __str__ = called("error")
deep = []
for _ in range(100_000):
    deep = [deep]
loop = {}
loop["loop"] = [loop]
ring = types.SimpleNamespace()
ring.next = types.SimpleNamespace(next=ring)
HELD = [Liar(), Made, Made(), BadDict(a=1), BadText("x"), NoDict(), BadEnum.A, BadError("x"), {Liar()}, {Liar(): 1},
        functools.partial(len, Liar()), float("nan"), 10**5000, "\\ud800", b"\\xff", threading.Lock(), iter([1]),
        object(), (Liar(), Made), slice(1, Liar()), deep, loop, ring, [Liar] * 3]
def reached(): return HELD
"""


@pytest.fixture
def module_of(tmp_path):
    def load(text):
        home = tmp_path / str(next(names))
        home.mkdir()
        (home / "code.py").write_text(textwrap.dedent(text))
        return import_file(home / "code.py", "code.py")

    return load


def tree_of(reached):
    return take_code({"solver": reached}).salted("00").roots["solver"]


def test_no_code_of_a_value_runs(module_of):
    """52: objects that lie about themselves, hold themselves or are nested without end are spelled, and not asked."""
    module = module_of(HOSTILE)
    module.CALLED.clear()
    tree = tree_of(module.reached)
    assert module.CALLED == []
    assert tree["HELD[0].p"].text == "'x'" and tree["HELD[4].content"].text == "'x'"
    assert tree == tree_of(module.reached)


@pytest.mark.parametrize(
    "table",
    [
        "list(range(1_000_000))",
        "{str(n): n for n in range(100_000)}",
        "'x' * 3_000_000",
        "b'x' * 3_000_000",
        "[[str(n)] * 10 for n in range(10_000)]",
        "{n: {'a': [n]} for n in range(10_000)}",
        "{frozenset([n]) for n in range(30_000)}",
    ],
)
def test_resume_57_a_table_beyond_the_bound_is_opaque_alone(module_of, table):
    """57: what is too large is left, where it is; the values beside it are compared."""
    module = module_of(
        f"class A: pass\nBIG = {table}\na = A()\na.p, a.table, a.q = 'one', BIG, {{'r': 1, 'big': BIG}}\n"
        "def reached(): return a, LAST\nLAST = 'last'\n"
    )
    tree = tree_of(module.reached)
    opaque = {name: node.text for name, node in tree.items() if node.kind == "opaque"}
    # What binds an opaque value counts, and so does what those lines read.
    assert opaque == {"a.table": "too large", "a.q['big']": "too large", "BIG": "too large"}
    assert (tree["a.p"].text, tree["a.q['r']"].text, tree["LAST"].text) == ("'one'", "1", "'last'")
    assert len(msgspec.json.encode(tree)) < 10_000


def test_a_large_value_takes_little_room_in_the_record(module_of):
    """75: long containers, and nested ones, are one node each; what differs inside is still seen."""
    text = "T = [{'q': str(n), 'a': [n, n + 1]} for n in range(2_000)]\nW = [str(n) for n in range(5_000)]\n"
    text += "def reached(): return T, W\n"
    tree = tree_of(module_of(text).reached)
    assert len(msgspec.json.encode(tree)) < 2_000 < MAX_NODES
    other = tree_of(module_of(text.replace("n + 1]", "n + (n != 1999)]")).reached)
    assert tree["T"] != other["T"] and tree["W"] == other["W"]


def test_equal_code_of_two_files_is_told_apart(module_of, tmp_path):
    """60b: functions that look the same are two, each with the names of its own file."""
    module = module_of("import sys\nclass N: pass\nA, B = N(), N()\ndef reached(): return A.f, B.f\n")
    for name, value in (("A", "one"), ("B", "two")):
        getattr(module, name).f = module_of(f"P = '{value}'\ndef f(): return P\n").f
    tree = tree_of(module.reached)
    assert {tree[name].text for name in tree if name.endswith(".P") and name.startswith("code")} == {"'one'", "'two'"}
