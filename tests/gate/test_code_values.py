# ruff: noqa: E501 - a case is a line of its own
"""Rows 52 to 61: code is compared by what it is and by what it holds, whatever a change hides in."""

from __future__ import annotations

import pytest
from code_project import code

SOLVE = "async def solve(trial):\n    return (await trial.generate({0})).text\n"
METHOD = """
class Agent:
    def __init__(self, style):
        self.style = style
    async def solve(self, trial):
        return (await trial.generate(self.style)).text
"""

HELD = {
    "bound method of a plain class": (
        code(METHOD, "Agent('polite').solve"),
        "Agent('polite')",
        "Agent('rude')",
        "Agent(…).style in tk.py has changed: 'polite' → 'rude'",
    ),
    "plain object": (
        code("class Conf:\n    pass\nC = Conf()\nC.p = 'one'\n" + SOLVE.format("C.p")),
        "'one'",
        "'two'",
        "C.p in tk.py has changed: 'one' → 'two'",
    ),
    "namespace": (
        code("import types\nC = types.SimpleNamespace(p='one')\n" + SOLVE.format("C.p")),
        "'one'",
        "'two'",
        "C.p in tk.py has changed: 'one' → 'two'",
    ),
    "slots": (
        code(
            "class Conf:\n    __slots__ = ('p',)\n    def __init__(self, p): self.p = p\nC = Conf('one')\n"
            + SOLVE.format("C.p")
        ),
        "'one'",
        "'two'",
        "C.p in tk.py has changed: 'one' → 'two'",
    ),
    "nested objects": (
        code(
            "import types\nclass Conf:\n    def __init__(self, p): self.inner = {'a': [types.SimpleNamespace(p=p)]}\nC = Conf('one')\n"
            + SOLVE.format("C.inner['a'][0].p")
        ),
        "'one'",
        "'two'",
        "C.inner['a'][0].p in tk.py has changed: 'one' → 'two'",
    ),
    "tool in a list": (
        code(
            "class Tool:\n    def __init__(self, p): self.p = p\nTOOLS = [Tool('one')]\n" + SOLVE.format("TOOLS[0].p")
        ),
        "'one'",
        "'two'",
        "TOOLS[0].p in tk.py has changed: 'one' → 'two'",
    ),
    "closure": (
        code(
            "def make(p):\n    async def solve(trial):\n        return (await trial.generate(p)).text\n    return solve\n",
            "make('one')",
        ),
        "'one'",
        "'two'",
        "make.<locals>.solve(p) in tk.py has changed: 'one' → 'two'",
    ),
    "closure over an object": (
        code(
            "class Conf:\n    def __init__(self, p): self.p = p\ndef make(c):\n    async def solve(trial):\n        return (await trial.generate(c.p)).text\n    return solve\n",
            "make(Conf('one'))",
        ),
        "'one'",
        "'two'",
        "solve(c).p in tk.py has changed: 'one' → 'two'",
    ),
    "argument of a decorator": (
        code(
            "import functools\ndef styled(p):\n    def wrap(f):\n        @functools.wraps(f)\n        async def inner(trial):\n            return await f(trial, p)\n        return inner\n    return wrap\n@styled('one')\nasync def solve(trial, p):\n    return (await trial.generate(p)).text\n"
        ),
        "'one'",
        "'two'",
        "in tk.py has changed",
    ),
    "default": (
        code("STYLE = 'one'\nasync def solve(trial, p=STYLE):\n    return (await trial.generate(p)).text\n"),
        "STYLE = 'one'",
        "STYLE = 'two'",
        "solve(p=) in tk.py has changed: 'one' → 'two'",
    ),
    "class attribute set later": (
        code(
            "class Agent:\n    p = 'none'\n    async def solve(self, trial):\n        return (await trial.generate(self.p)).text\nAgent.p = 'one'\n",
            "Agent().solve",
        ),
        "'one'",
        "'two'",
        "Agent.p in tk.py has changed: 'one' → 'two'",
    ),
    "function attribute": (
        code(SOLVE.format("solve.k") + "solve.k = 'one'\n"),
        "'one'",
        "'two'",
        "solve.k in tk.py has changed: 'one' → 'two'",
    ),
    "callable object": (
        code(
            "class Agent:\n    def __init__(self, p): self.p = p\n    async def __call__(self, trial):\n        return (await trial.generate(self.p)).text\n",
            "Agent('one')",
        ),
        "'one'",
        "'two'",
        "Agent(…).p in tk.py has changed: 'one' → 'two'",
    ),
    "partial": (
        code(
            "import functools\nasync def ask(trial, p):\n    return (await trial.generate(p)).text\n",
            "functools.partial(ask, p='one')",
        ).replace("from holdfast", "import functools\nfrom holdfast"),
        "'one'",
        "'two'",
        "partial(p=) in tk.py has changed: 'one' → 'two'",
    ),
    "class made in a factory": (
        code(
            "def make(p):\n    class Agent:\n        style = p\n        async def solve(self, trial):\n            return (await trial.generate(self.style)).text\n    return Agent()\n",
            "make('one').solve",
        ),
        "'one'",
        "'two'",
        "Agent.style in tk.py has changed: 'one' → 'two'",
    ),
    "decimal": (
        code("from decimal import Decimal\nC = Decimal('1.5')\n" + SOLVE.format("str(C)")),
        "'1.5'",
        "'1.6'",
        "C in tk.py has changed",
    ),
    "range": (code("C = range(3)\n" + SOLVE.format("str(list(C))")), "range(3)", "range(4)", "C in tk.py has changed"),
    "date": (
        code("import datetime\nC = datetime.date(2020, 1, 1)\n" + SOLVE.format("str(C)")),
        "2020, 1, 1",
        "2020, 1, 2",
        "C in tk.py has changed",
    ),
    "deque": (
        code("import collections\nC = collections.deque(['one'])\n" + SOLVE.format("C[0]")),
        "'one'",
        "'two'",
        "C[0] in tk.py has changed",
    ),
    "proxy": (
        code("import types\nC = types.MappingProxyType({'a': 'one'})\n" + SOLVE.format("C['a']")),
        "'one'",
        "'two'",
        "C['a'] in tk.py has changed",
    ),
    "chain map": (
        code("import collections\nC = collections.ChainMap({'a': 'one'})\n" + SOLVE.format("C['a']")),
        "'one'",
        "'two'",
        "['a'] in tk.py has changed",
    ),
    "template": (
        code("import string\nC = string.Template('one $x')\n" + SOLVE.format("C.substitute(x=1)")),
        "'one $x'",
        "'two $x'",
        "C.template in tk.py has changed",
    ),
    "getter": (
        code("import operator\nC = operator.itemgetter('one')\n" + SOLVE.format("C({'one': 'x', 'two': 'y'})")),
        "itemgetter('one')",
        "itemgetter('two')",
        "in tk.py has changed",
    ),
    "context variable": (
        code("import contextvars\nC = contextvars.ContextVar('c', default='one')\n" + SOLVE.format("C.get()")),
        "'one'",
        "'two'",
        "C.default in tk.py has changed",
    ),
    "pattern": (
        code("import re\nC = re.compile('one')\n" + SOLVE.format("C.pattern")),
        "'one'",
        "'two'",
        "C in tk.py has changed",
    ),
    "enum": (
        code("import enum\nclass Style(enum.Enum):\n    A = 'one'\n" + SOLVE.format("Style.A.value")),
        "'one'",
        "'two'",
        "Style.A",
    ),
    "named tuple": (
        code("import collections\nP = collections.namedtuple('P', 'a b')\nC = P('one', 1)\n" + SOLVE.format("C.a")),
        "'one'",
        "'two'",
        "in tk.py has changed: 'one' → 'two'",
    ),
    "dataclass default": (
        code("import dataclasses\n@dataclasses.dataclass\nclass C:\n    p: str = 'one'\n" + SOLVE.format("C().p")),
        "'one'",
        "'two'",
        "C.p",
    ),
    "dataclass factory": (
        code(
            "import dataclasses\n@dataclasses.dataclass\nclass C:\n    p: list = dataclasses.field(default_factory=lambda: ['one'])\n"
            + SOLVE.format("C().p[0]")
        ),
        "'one'",
        "'two'",
        "has changed",
    ),
    "struct": (
        code("import msgspec\nclass C(msgspec.Struct):\n    p: str = 'one'\n" + SOLVE.format("C().p")),
        "'one'",
        "'two'",
        "C",
    ),
    "struct object": (
        code("import msgspec\nclass C(msgspec.Struct):\n    p: str\nX = C('one')\n" + SOLVE.format("X.p")),
        "'one'",
        "'two'",
        "X.p in tk.py has changed: 'one' → 'two'",
    ),
    "subclass of dict": (
        code("class D(dict): pass\nC = D(p='one')\n" + SOLVE.format("C['p']")),
        "'one'",
        "'two'",
        "['p'] in tk.py has changed: 'one' → 'two'",
    ),
    "subclass of str": (
        code("class S(str): pass\nC = S('one')\n" + SOLVE.format("str(C)")),
        "'one'",
        "'two'",
        "C.content in tk.py has changed: 'one' → 'two'",
    ),
    "method of a text": (
        code("C = 'one'.join\n" + SOLVE.format("C(['a', 'b'])")),
        "'one'",
        "'two'",
        "has changed: 'one' → 'two'",
    ),
    "property": (
        code("class C:\n    @property\n    def p(self): return 'one'\nX = C()\n" + SOLVE.format("X.p")),
        "'one'",
        "'two'",
        "in tk.py has changed",
    ),
    "cached function": (
        code("import functools\n@functools.lru_cache\ndef p(): return 'one'\n" + SOLVE.format("p()")),
        "'one'",
        "'two'",
        "the code of p() in tk.py has changed",
    ),
    "object with a function": (
        code(
            "class W:\n    def __init__(self, function, p): self.function, self.p = function, p\n    def __call__(self): return self.p\nw = W(len, 'one')\n"
            + SOLVE.format("w()")
        ),
        "'one'",
        "'two'",
        "w.p in tk.py has changed: 'one' → 'two'",
    ),
    "long table": (
        code("C = [str(n) for n in range(1000)]\n" + SOLVE.format("C[999]")),
        "range(1000)",
        "range(1, 1001)",
        "C in tk.py has changed",
    ),
    "set": (
        code("C = {'a', 'one'}\n" + SOLVE.format("''.join(sorted(C))")),
        "'one'",
        "'two'",
        "C in tk.py has changed",
    ),
    "order of calls in a list": (
        code("def a(): return 'one'\ndef b(): return 'two'\nC = [a, b]\n" + SOLVE.format("C[0]()")),
        "C = [a, b]",
        "C = [b, a]",
        "has changed",
    ),
    "closures swapped": (
        code(
            "def make(n):\n    def f(): return n\n    return f\nA = make('one')\nB = make('two')\nC = {'x': A, 'y': B}\n"
            + SOLVE.format("C['x']() + A() + B()")
        ),
        "{'x': A, 'y': B}",
        "{'x': B, 'y': A}",
        "has changed",
    ),
    "lambda": (
        code("C = [lambda: 'x', lambda: 'one']\n" + SOLVE.format("C[1]()")),
        "'one'",
        "'two'",
        "the code of C[1]() in tk.py has changed",
    ),
    "field of a named tuple": (
        code(
            "from typing import NamedTuple\nclass P(NamedTuple):\n    tone: str\n    n: int\nC = P('one', 1)\n"
            + SOLVE.format("C.tone")
        ),
        "'one'",
        "'two'",
        "C.tone in tk.py has changed: 'one' → 'two'",
    ),
    "order of a map": (
        code("SHOTS = {'b': 'two', 'a': 'one'}\n" + SOLVE.format("','.join(SHOTS)")),
        "{'b': 'two', 'a': 'one'}",
        "{'a': 'one', 'b': 'two'}",
        "the order of SHOTS in tk.py has changed: 'b', 'a' → 'a', 'b'",
    ),
    "order within an ordered map": (
        code(
            "import collections\nC = collections.OrderedDict(a=1, b=2)\nC.move_to_end('b')\n"
            + SOLVE.format("','.join(C)")
        ),
        "move_to_end('b')",
        "move_to_end('a')",
        "the order of C in tk.py has changed: 'a', 'b' → 'b', 'a'",
    ),
    "added to a map": (
        code("SHOTS = {'b': 'two', 'c': 'one'}\n" + SOLVE.format("','.join(SHOTS)")),
        "'one'}",
        "'one', 'a': 'new'}",
        "SHOTS['a'] in tk.py is new: 'new'",
    ),
    "weak reference": (
        code(
            "import weakref\nclass C:\n    p = ''\n    def __init__(self, q): self.q = q\nKEPT = [C('one')]\nREF = weakref.ref(KEPT[0])\n"
            + SOLVE.format("REF().q")
        ),
        "'one'",
        "'two'",
        "REF().q in tk.py has changed: 'one' → 'two'",
    ),
    "map of weak references": (
        code(
            "import weakref\nclass C:\n    def __init__(self, q): self.q = q\nKEPT = [C('one')]\nM = weakref.WeakValueDictionary(a=KEPT[0])\n"
            + SOLVE.format("M['a'].q")
        ),
        "'one'",
        "'two'",
        "M['a'].q in tk.py has changed: 'one' → 'two'",
    ),
    "own Decimal": (
        code("import decimal\nclass D(decimal.Decimal): pass\nC = D('1.0')\n" + SOLVE.format("str(C)")),
        "'1.0'",
        "'2.0'",
        "C.content in tk.py has changed: '1.0' → '2.0'",
    ),
    "own path": (
        code("import pathlib\nclass P(type(pathlib.Path())): pass\nC = P('a/one')\n" + SOLVE.format("C.name")),
        "a/one",
        "a/two",
        "C.content in tk.py has changed: 'a/one' → 'a/two'",
    ),
    "own queue with a length": (
        code("import collections\nclass Q(collections.deque): pass\nC = Q('abc', 2)\n" + SOLVE.format("str(C.maxlen)")),
        "'abc', 2",
        "'abc', 1",
        "has changed",
    ),
    "own complex number": (
        code("class Z(complex): pass\nC = Z(1, 2)\n" + SOLVE.format("str(C.imag)")),
        "Z(1, 2)",
        "Z(1, 3)",
        "C.content in tk.py has changed: (1+2j) → (1+3j)",
    ),
    "own random numbers": (
        code("import random\nclass R(random.Random): pass\nC = R(1)\n" + SOLVE.format("str(C.random())")),
        "R(1)",
        "R(2)",
        "C.content",
    ),
    "order of positional patterns": (
        code(
            "class C:\n    __match_args__ = ('a', 'b')\n    a, b = 'one', 'two'\ndef f(c):\n    match c:\n        case C(x): return x\n"
            + SOLVE.format("f(C())")
        ),
        "('a', 'b')",
        "('b', 'a')",
        "C.__match_args__[0] in tk.py has changed: 'a' → 'b'",
    ),
    "option of a dataclass": (
        code(
            "from dataclasses import dataclass\n@dataclass(order=True)\nclass C:\n    a: int = 1\n"
            + SOLVE.format("str(C() == C())")
        ),
        "order=True",
        "eq=False",
        "C (options) in tk.py has changed",
    ),
    "metadata of a field": (
        code(
            "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = dataclasses.field(default=1, metadata={'help': 'one'})\n"
            + SOLVE.format("dataclasses.fields(C)[0].metadata['help']")
        ),
        "'one'",
        "'two'",
        "C.a (metadata)['help'] in tk.py has changed: 'one' → 'two'",
    ),
    "docstring of a class": (
        code("class C:\n    'one'\n" + SOLVE.format("C.__doc__")),
        "'one'",
        "'two'",
        "C.__doc__ in tk.py has changed: 'one' → 'two'",
    ),
    "annotation of a class": (
        code("import typing\nclass C:\n    a: 'one'\n" + SOLVE.format("C.__annotations__['a']")),
        "'one'",
        "'two'",
        "C.__annotations__['a'] in tk.py has changed: 'one' → 'two'",
    ),
    "fields of a type that is decoded": (
        code(
            "import dataclasses, msgspec\n@dataclasses.dataclass\nclass C:\n    a: int\n"
            + SOLVE.format("str(msgspec.json.decode(b'{\"a\": 1}', type=C).a)")
        ),
        "a: int",
        "a: float",
        "C",
    ),
    "variable like that of a tokeniser": (
        code(
            "import os\nos.environ['STOP_TOKENS'] = '<stop>,</s>,<one>'\nC = os.environ['STOP_TOKENS']\n"
            + SOLVE.format("C")
        ),
        "<one>",
        "<two>",
        "C in tk.py has changed: '<stop>,</s>,<one>' → '<stop>,</s>,<two>'",
    ),
    "inherited method": (
        code("class B:\n    def p(self): return 'one'\nclass C(B): pass\nX = C()\n" + SOLVE.format("X.p()")),
        "'one'",
        "'two'",
        "the code of B.p() in tk.py has changed",
    ),
    "generator of a class attribute": (
        code("class C:\n    p = tuple(x for x in ['one'])\n" + SOLVE.format("C.p[0]")),
        "'one'",
        "'two'",
        "C.p[0] in tk.py has changed",
    ),
    "wrapped by an object": (
        code(
            "import functools\nclass Deco:\n    def __init__(self, f): functools.update_wrapper(self, f)\n    def __call__(self): return self.__wrapped__()\n@Deco\ndef p(): return 'one'\n"
            + SOLVE.format("p()")
        ),
        "'one'",
        "'two'",
        "the code of p() in tk.py has changed",
    ),
    "dunder of a class": (
        code("class C:\n    __prompt__ = 'one'\n" + SOLVE.format("C.__prompt__")),
        "'one'",
        "'two'",
        "C.__prompt__ in tk.py has changed",
    ),
    "dunder of a module": (
        code("__version__ = 'one'\n" + SOLVE.format("__version__")),
        "'one'",
        "'two'",
        "__version__ in tk.py has changed",
    ),
    "values of a thread": (
        code("import threading\nC = threading.local()\nC.p = 'one'\n" + SOLVE.format("getattr(C, 'p', '')")),
        "'one'",
        "'two'",
        "C.p in tk.py has changed",
    ),
    "literal type": (
        code("import typing\nC = typing.Literal['one']\n" + SOLVE.format("typing.get_args(C)[0]")),
        "'one'",
        "'two'",
        "has changed: 'one' → 'two'",
    ),
    "context manager": (
        code(
            "import contextlib\nC = contextlib.nullcontext('one')\nasync def solve(trial):\n    with C as p:\n        return (await trial.generate(p)).text\n"
        ),
        "'one'",
        "'two'",
        "C.enter_result in tk.py has changed",
    ),
    "queue": (
        code("import queue\nC = queue.Queue()\nC.put('one')\n" + SOLVE.format("C.queue[0]")),
        "'one'",
        "'two'",
        "C.queue[0] in tk.py has changed",
    ),
    "long sum": (
        code("def p():\n    return (" + " + ".join(["'x'"] * 700) + " + 'one')\n" + SOLVE.format("p()")),
        "'one'",
        "'two'",
        "the code of p() in tk.py has changed",
    ),
    "print of one's own": (
        code(
            "S = []\ndef print(x): S.append(x)\nasync def solve(trial):\n    print('one')\n    return (await trial.generate(S[-1])).text\n"
        ),
        "print('one')",
        "print('two')",
        "the code of solve() in tk.py has changed",
    ),
    "docstring that is read": (
        code("def tool():\n    '''one'''\n" + SOLVE.format("tool.__doc__")),
        "'''one'''",
        "'''two'''",
        "the code of tool() in tk.py has changed",
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_resume_52_what_is_held(project, name):
    """52: whatever holds it, a changed value is refused, and the message names the object and the attribute."""
    text, old, new, message = HELD[name]
    project.write(tk=text)
    project.run()
    assert "note" not in project.accepted()
    project.edit(old, new)
    told = project.refused()
    assert "tasks.t.use (identity): " in told and message in told, told
