"""Changes written by hand: values that are hard to compare, parts of classes that are easy to forget, objects that
do not want to be looked at. Each is a small task before and after, and what the gate has to say to it.
"""

# ruff: noqa: E501 - a change is read as one line
from __future__ import annotations

import json
from typing import Any, NamedTuple

NAMED = -1
"""Refused, or accepted with the value named as one that cannot be compared (resume 57)."""
TASK = """
from holdfast import Sample, Task
{head}
async def solve(trial):
    x = trial.sample.input
    return (await trial.generate(x + str({expression}))).text
def judge(answer, sample):
    return 1.0
task = Task(samples=[Sample('one', id='s1')], solver=solve, scorers=judge)
"""
EVAL = json.dumps(
    {"name": "h", "models": {"m": {"provider": "scripted", "model": "echo"}}, "tasks": {"t": {"use": "task.py:task"}}}
)
Files = dict[str, str]


class OddChange(NamedTuple):
    """A task before and after; a path that begins with `../` lies beside the eval's directory."""

    before: Files
    after: Files
    expected: int
    environments: tuple[dict[str, str], dict[str, str]]


CHANGES: dict[str, OddChange] = {}


def t(head: str, expression: str) -> str:
    return TASK.format(head=head, expression=expression)


def case(name: str, before: Any, after: Any, expect: int, environments: Any = ({}, {})) -> None:
    files = [{"eval.yaml": EVAL, **(one if isinstance(one, dict) else {"task.py": one})} for one in (before, after)]
    CHANGES[name] = OddChange(files[0], files[1], expect, environments)


def vary(name: str, head: str, expression: str, old: str, new: str, expect: int = 3) -> None:
    """The source is changed."""
    text = t(head, expression)
    case(name, text, text.replace(old, new), expect)


def fvary(name: str, head: str, expression: str, file: str, old: str, new: str, expect: int = 3) -> None:
    """A file that is read at import is changed, and the source is not."""
    text = t(head, expression)
    case(name, {"task.py": text, file: old}, {"task.py": text, file: new}, expect)


R = "import pathlib, os\nHERE = pathlib.Path(__file__).parent\n"
vary("key-like literal", "P='sk-proj-AAAABBBBCCCCDDDDEEEEFFFF1234'", "P", "AAAABBBB", "ZZZZYYYY", NAMED)
vary(
    "github-like literal in a prompt",
    "P='the key is ghp_AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH1234, keep it'",
    "P",
    "AAAABBBB",
    "ZZZZYYYY",
    NAMED,
)
vary("literal with the words around a key", "P='kind: sk-proj-AAAABBBBCCCCDDDDEEEEFFFF1234'", "P", "kind:", "rude:")
case(
    "TOKENIZER variable",
    t("import os\nP=os.environ['TOKENIZER_NAME']", "P"),
    t("import os\nP=os.environ['TOKENIZER_NAME']", "P"),
    3,
    ({"TOKENIZER_NAME": "bert-base-uncased"}, {"TOKENIZER_NAME": "roberta-large-mnli"}),
)
case(
    "MAX_TOKENS list variable",
    t("import os\nP=os.environ['STOP_TOKENS']", "P"),
    t("import os\nP=os.environ['STOP_TOKENS']", "P"),
    3,
    ({"STOP_TOKENS": "<stop>,</s>,<eos>"}, {"STOP_TOKENS": "<halt>,</s>,<eos>"}),
)
case(
    "KEYWORDS variable",
    t("import os\nP=os.environ['KEYWORDS']", "P"),
    t("import os\nP=os.environ['KEYWORDS']", "P"),
    3,
    ({"KEYWORDS": "alpha,beta,gamma"}, {"KEYWORDS": "alpha,beta,delta"}),
)
case(
    "key removed",
    t("import os\nP=os.environ.get('MY_API_KEY')", "bool(P)"),
    t("import os\nP=os.environ.get('MY_API_KEY')", "bool(P)"),
    3,
    ({"MY_API_KEY": "abcdefabcdef99"}, {}),
)
fvary(
    "big then small from file",
    R + "BIG=[str(n) for n in range(60000)]\nTONE=(HERE/'p.txt').read_text()",
    "BIG[3]+TONE",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "small among big dict",
    R + "C={'table':{str(n):n for n in range(60000)},'tone':(HERE/'p.txt').read_text()}",
    "C['tone']",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "long text then small",
    R + "BIG='x'*3_000_000\nTONE=(HERE/'p.txt').read_text()",
    "BIG[:3]+TONE",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "2 MB text from file",
    R + "TONE=(HERE/'p.txt').read_text()",
    "TONE[:9]",
    "p.txt",
    "polite" + "x" * 2_000_000,
    "rude" + "x" * 2_000_000,
    expect=NAMED,
)
fvary(
    "pandas",
    R + "import pandas as pd\nDF=pd.read_csv(HERE/'p.csv')",
    "DF['a'][0]",
    "p.csv",
    "a\npolite\n",
    "a\nrude\n",
)
fvary("numpy", R + "import numpy as np\nA=np.loadtxt(HERE/'p.csv')", "A[0]", "p.csv", "1 2\n", "3 2\n")
fvary(
    "xml",
    R + "import xml.etree.ElementTree as E\nA=E.parse(HERE/'p.xml').getroot()",
    "A.text",
    "p.xml",
    "<a>polite</a>",
    "<a>rude</a>",
    expect=NAMED,
)
fvary(
    "messages from file",
    R + "from holdfast import Message\nSHOTS=[Message('user',(HERE/'p.txt').read_text())]",
    "SHOTS[0].content",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "UserDict etc from file",
    R + "import collections\nA=collections.UserDict(a=(HERE/'p.txt').read_text())",
    "A['a']",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "UserString from file",
    R + "import collections\nA=collections.UserString((HERE/'p.txt').read_text())",
    "A",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "StringIO from file",
    R + "import io\nA=io.StringIO((HERE/'p.txt').read_text())",
    "A.getvalue()",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "Template from file",
    R + "import string\nA=string.Template((HERE/'p.txt').read_text())",
    "A.template",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "Formatter from file",
    R + "class F:\n    def __init__(s,t): s.__t=t\n    def __call__(s): return s.__t\nA=F((HERE/'p.txt').read_text())",
    "A()",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "deque of dataclass from file",
    R
    + "import collections,dataclasses\n@dataclasses.dataclass\nclass C:\n    t:str\nA=collections.deque([C((HERE/'p.txt').read_text())])",
    "A[0].t",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "pickle from file",
    R + "import json\nA=tuple(map(frozenset,json.loads((HERE/'p.txt').read_text())))",
    "sorted(A[0])",
    "p.txt",
    '[["a"]]',
    '[["b"]]',
)
fvary(
    "chainmap from file",
    R + "import collections,json\nA=collections.ChainMap({},json.loads((HERE/'p.txt').read_text()))",
    "A['t']",
    "p.txt",
    '{"t":"polite"}',
    '{"t":"rude"}',
)
fvary(
    "generator from file",
    R + "import itertools\nA=itertools.repeat((HERE/'p.txt').read_text())",
    "next(A)",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "map object from file",
    R + "A=map(str,[(HERE/'p.txt').read_text()]*9)",
    "next(A)",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "closure cell from file",
    R + "def mk():\n    w=(HERE/'p.txt').read_text()\n    return lambda: w\nA=mk()",
    "A()",
    "p.txt",
    "polite",
    "rude",
)
fvary("class var from file", R + "class A:\n    t=(HERE/'p.txt').read_text()", "A.t", "p.txt", "polite", "rude")
fvary("default from file", R + "def A(t=(HERE/'p.txt').read_text()): return t", "A()", "p.txt", "polite", "rude")
fvary(
    "partial from file",
    R + "import functools\nA=functools.partial(str.strip,(HERE/'p.txt').read_text())",
    "A()",
    "p.txt",
    "polite",
    "rude",
)
fvary("bound method of str from file", R + "A=(HERE/'p.txt').read_text().upper", "A()", "p.txt", "polite", "rude")
fvary(
    "bound method of dict from file", R + "A={'k':(HERE/'p.txt').read_text()}.get", "A('k')", "p.txt", "polite", "rude"
)
fvary("wrapper slot from file", R + "A=[(HERE/'p.txt').read_text()].__getitem__", "A(0)", "p.txt", "polite", "rude")
fvary(
    "contextvar from file",
    R + "from contextvars import ContextVar\nA=ContextVar('A',default=(HERE/'p.txt').read_text())",
    "A.get()",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "itemgetter from file",
    R + "import operator\nA=operator.itemgetter((HERE/'p.txt').read_text())",
    "A({'polite':1,'rude':2})",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "methodcaller from file",
    R + "import operator\nA=operator.methodcaller('__add__',(HERE/'p.txt').read_text())",
    "A('a')",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "property closure from file",
    R + "w=(HERE/'p.txt').read_text()\nclass K:\n    p=property(lambda s: w)\nA=K()",
    "A.p",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "array from file",
    R + "import array\nA=array.array('b',(HERE/'p.txt').read_bytes())",
    "A[0]",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "memoryview from file",
    R + "A=memoryview((HERE/'p.txt').read_bytes())",
    "A[0]",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "mock object",
    R + "from unittest import mock\nA=mock.Mock(tone=(HERE/'p.txt').read_text())",
    "A.tone",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "threading.local",
    R + "import threading\nA=threading.local()\nA.t=(HERE/'p.txt').read_text()",
    "getattr(A,'t','none')",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "weak dict",
    R + "import weakref\nclass K:pass\nk=K();k.t=(HERE/'p.txt').read_text()\nA=weakref.WeakValueDictionary(k=k)",
    "A['k'].t",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "logger attribute",
    R + "import logging\nA=logging.getLogger('q')\nA.tone=(HERE/'p.txt').read_text()",
    "A.tone",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "own subclass of logger",
    R
    + "import logging\nclass L(logging.LoggerAdapter): pass\nA=L(logging.getLogger('q'),{'tone':(HERE/'p.txt').read_text()})",
    "A.extra['tone']",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "own subclass of Lock holder",
    R + "import threading\nclass L(threading.Thread):\n    pass\nA=L()\nA.tone=(HERE/'p.txt').read_text()",
    "A.tone",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "own subclass of UserDict",
    R + "import collections\nclass L(collections.UserDict):\n    pass\nA=L(tone=(HERE/'p.txt').read_text())",
    "A['tone']",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "own subclass of Decimal",
    R + "import decimal\nclass L(decimal.Decimal):\n    pass\nA=L((HERE/'p.txt').read_text())",
    "A",
    "p.txt",
    "1.5",
    "2.5",
)
fvary(
    "own subclass of date",
    R + "import datetime\nclass L(datetime.date):\n    pass\nA=L.fromisoformat((HERE/'p.txt').read_text())",
    "A",
    "p.txt",
    "2024-01-01",
    "2024-01-02",
)
fvary(
    "own subclass of Path",
    R + "class L(type(pathlib.PurePosixPath())):\n    pass\nA=L((HERE/'p.txt').read_text())",
    "A.name",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "own subclass of partial",
    R + "import functools\nclass L(functools.partial):\n    pass\nA=L(str,(HERE/'p.txt').read_text())",
    "A()",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "subclass of bytes",
    R + "class L(bytes):\n    pass\nA=L((HERE/'p.txt').read_bytes())",
    "A.decode()",
    "p.txt",
    "polite",
    "rude",
)
fvary("subclass of float", R + "class L(float):\n    pass\nA=L((HERE/'p.txt').read_text())", "A", "p.txt", "1.5", "2.5")
fvary(
    "subclass of frozenset",
    R + "class L(frozenset):\n    pass\nA=L([(HERE/'p.txt').read_text()])",
    "sorted(A)",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "subclass of deque",
    R + "import collections\nclass L(collections.deque):\n    pass\nA=L([(HERE/'p.txt').read_text()])",
    "A[0]",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "subclass of Template",
    R + "import string\nclass L(string.Template):\n    delimiter='%'\nA=L((HERE/'p.txt').read_text())",
    "A.template",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "exception with cause",
    R + "A=ValueError('x')\nA.__cause__=KeyError((HERE/'p.txt').read_text())",
    "A.__cause__",
    "p.txt",
    "polite",
    "rude",
)
fvary(
    "generator closure",
    R + "def g(w):\n    while True:\n        yield w\nA=g((HERE/'p.txt').read_text())",
    "next(A)",
    "p.txt",
    "polite",
    "rude",
    expect=NAMED,
)
fvary(
    "coroutine-like class state",
    R
    + "class K:\n    def __init__(s,w): s.w=w\n    def __iter__(s): return s\n    def __next__(s): return s.w\nA=K((HERE/'p.txt').read_text())",
    "next(A)",
    "p.txt",
    "polite",
    "rude",
)
vary(
    "msgspec field type",
    "import msgspec\nclass R(msgspec.Struct):\n    n: int\n",
    "msgspec.json.decode(b'{\"n\":1}',type=R,strict=False)",
    "n: int",
    "n: float",
)
vary(
    "msgspec field type inside",
    "import msgspec\nclass Q(msgspec.Struct):\n    n: int\nclass R(msgspec.Struct):\n    q: Q\n",
    'msgspec.json.decode(b\'{"q":{"n":1}}\',type=R)',
    "n: int",
    "n: float",
)
vary(
    "singledispatch by annotation",
    "import functools\n@functools.singledispatch\ndef f(x): return 'any'\n@f.register\ndef _(x: str): return 'text'\n",
    "f(x)",
    "x: str",
    "x: int",
)
vary(
    "dataclass types used",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int = 1\ndef parse():\n    return [f.type for f in dataclasses.fields(C)]\n",
    "parse()",
    "n: int",
    "n: float",
)
vary(
    "annotation by base class",
    "class B:\n    @classmethod\n    def make(cls):\n        return [t('3') for t in cls.__annotations__.values()]\nclass C(B):\n    n: int\n",
    "C.make()",
    "n: int",
    "n: float",
)
vary("enum functional", "import enum\nS=enum.Enum('S','A B')", "S.B.value", "A B", "C B A")
vary(
    "__init_subclass__ code",
    "class B:\n    def __init_subclass__(cls):\n        cls.w='polite'\nclass C(B): pass\ndef f(): \n    class D(B): pass\n    return D.w",
    "f()",
    "polite",
    "rude",
)
vary(
    "__new__ code",
    "class C:\n    def __new__(cls):\n        s=super().__new__(cls); s.w='polite'; return s\ndef f(): return C().w",
    "f()",
    "polite",
    "rude",
)
vary(
    "__del__ __set__ descriptor",
    "class D:\n    def __set__(s,o,v): o.__dict__['w']=v+'polite'\n    def __get__(s,o,c): return o.__dict__['w']\nclass C:\n    w=D()\ndef f():\n    c=C(); c.w='a'; return c.w",
    "f()",
    "polite",
    "rude",
)
vary(
    "__prepare__",
    "class M(type):\n    @classmethod\n    def __prepare__(m,n,b): return {'w':'polite'}\ndef f():\n    class C(metaclass=M): pass\n    return C.w",
    "f()",
    "polite",
    "rude",
)
vary(
    "module __getattr__ inside own",
    "import sys\ndef __getattr__(n): return 'polite'\n",
    "sys.modules[__name__].anything",
    "polite",
    "rude",
)
vary(
    "async context",
    "class C:\n    async def __aenter__(s): return 'polite'\n    async def __aexit__(s,*a): pass\nasync def g():\n    async with C() as c: return c\n",
    "await g()",
    "polite",
    "rude",
)
vary(
    "await object",
    "class C:\n    def __await__(s):\n        return 'polite'\n        yield\n",
    "await C()",
    "polite",
    "rude",
)
vary(
    "match class pattern",
    "class P:\n    __match_args__=('a','b')\n    a='1';b='2'\ndef f():\n    match P():\n        case P(q): return q\n",
    "f()",
    "('a','b')",
    "('b','a')",
)
vary("nested function default", "def f(x):\n    def g(y='polite'): return y\n    return g()", "f(x)", "polite", "rude")
vary("class in function", "def f(x):\n    class G:\n        y='polite'\n    return G.y", "f(x)", "polite", "rude")
vary("string join of fn name", "def polite(): pass\nF=[polite]\n", "F[0].__name__", "polite", "rudely")
vary("class name", "class Polite: pass\nF=Polite()\n", "type(F).__name__", "Polite", "Rudely")
vary(
    "repr of dataclass",
    "import dataclasses\n@dataclasses.dataclass\nclass Polite:\n    a:int=1\nF=Polite()\n",
    "F",
    "Polite",
    "Rudely",
)
vary(
    "dataclass eq option",
    "import dataclasses\n@dataclasses.dataclass(eq=True)\nclass C:\n    a:int=1\n",
    "C()==C()",
    "eq=True",
    "eq=False",
)
vary(
    "dataclass order option at module",
    "import dataclasses\n@dataclasses.dataclass(repr=True)\nclass C:\n    a:int=1\nF=C()\n",
    "len(repr(F))<9",
    "repr=True",
    "repr=False",
)
vary(
    "enum decorator",
    "import enum\n@enum.verify(enum.UNIQUE)\nclass S(enum.Enum):\n    A='polite'\nF=S.A",
    "F.value",
    "polite",
    "rude",
)
vary(
    "contextmanager",
    "import contextlib\n@contextlib.contextmanager\ndef c():\n    yield 'polite'\ndef f():\n    with c() as w: return w",
    "f()",
    "polite",
    "rude",
)
vary("global from comprehension", "L=[(lambda n=n: n*2) for n in range(3)]", "L[2]()", "n*2", "n*3")
vary("two lambdas of one line", "A,B=(lambda:'polite'),(lambda:'same')", "A()+B()", "polite", "rude")
vary("two lambdas swapped", "A,B=(lambda:'polite'),(lambda:'same')", "A()", "A,B=", "B,A=")
vary(
    "lambda in dict key order",
    "D={'a':(lambda:'p'),'b':(lambda:'q')}",
    "D['a']()",
    "'a':(lambda:'p'),'b':(lambda:'q')",
    "'a':(lambda:'q'),'b':(lambda:'p')",
)
vary(
    "cell shared",
    "def mk():\n    s={'w':'polite'}\n    def get(): return s['w']\n    def put(v): s['w']=v\n    return get,put\nget,put=mk()\nput('polite')",
    "get()",
    "put('polite')",
    "put('rude')",
)
vary(
    "atexit-free side effect",
    "import os\nos.environ['Q_TONE']='polite'\nP=os.environ['Q_TONE']",
    "P",
    "'polite'",
    "'rude'",
)
vary("random.seed at import", "import random\nrandom.seed(3)\nP=random.random()", "P", "seed(3)", "seed(4)")
vary(
    "textwrap patched attr",
    "import textwrap\ntextwrap.TextWrapper.x_tone='polite'",
    "textwrap.TextWrapper.x_tone",
    "polite",
    "rude",
)
vary(
    "json default patched",
    "import json\n_d=json.dumps\njson.dumps=lambda o: _d(o,indent=2)\n",
    "json.dumps([1])",
    "indent=2",
    "indent=4",
)
vary(
    "sys.modules stub",
    "import sys,types\nm=types.ModuleType('qq');m.tone='polite';sys.modules['qq']=m\ndef f():\n    import qq\n    return qq.tone",
    "f()",
    "polite",
    "rude",
)
vary("builtins", "import builtins\nbuiltins.q_tone='polite'", "q_tone", "polite", "rude")
vary("codecs registered", "import codecs\ncodecs.register(lambda n: None)\nP='polite'", "P", "polite", "rude")
vary("Task system", "", "x", "samples=", "system='Be kind', samples=")
vary("sample input", "", "x", "'one'", "'two'")
par = {
    "task.py": t(
        "import sys,pathlib\nsys.path.insert(0,str(pathlib.Path(__file__).resolve().parents[1]))\nimport common_zz",
        "common_zz.f()",
    ),
    "../common_zz.py": "def f(): return 'polite'\n",
}
case("helper in the parent directory", par, {**par, "../common_zz.py": "def f(): return 'rude'\n"}, 3)
par2 = {
    "task.py": t(
        "import sys,pathlib\nsys.path.insert(0,str(pathlib.Path(__file__).resolve().parents[1]/'shared'))\nfrom common_yy import T",
        "T",
    ),
    "../shared/common_yy.py": "T='polite'\n",
}
case("constant beside the directory", par2, {**par2, "../shared/common_yy.py": "T='rude'\n"}, 3)
case(
    "PYTHONPATH helper",
    {"task.py": t("import common_xx", "common_xx.f()"), "../pp/common_xx.py": "def f(): return 'polite'\n"},
    {"task.py": t("import common_xx", "common_xx.f()"), "../pp/common_xx.py": "def f(): return 'rude'\n"},
    3,
    ({"PYTHONPATH": "@pp"}, {"PYTHONPATH": "@pp"}),
)
case(
    "PYTHONPATH class state",
    {"task.py": t("import common_xw", "common_xw.C.t"), "../pp/common_xw.py": "class C:\n    t='polite'\n"},
    {"task.py": t("import common_xw", "common_xw.C.t"), "../pp/common_xw.py": "class C:\n    t='rude'\n"},
    3,
    ({"PYTHONPATH": "@pp"}, {"PYTHONPATH": "@pp"}),
)
for nm, code in {
    "raising repr": "class A:\n    def __repr__(s): raise ValueError\nK=A()",
    "raising getattribute": "class A:\n    def __getattribute__(s,n): raise ValueError(n)\nK=A()",
    "raising eq hash": "class A:\n    def __eq__(s,o): raise ValueError\n    def __hash__(s): raise ValueError\n    def __bool__(s): raise ValueError\n    def __len__(s): raise ValueError\n    def __iter__(s): raise ValueError\nK=A()",
    "raising property": "class A:\n    @property\n    def p(s): raise ValueError\nK=A()",
    "side-effect property": "class A:\n    @property\n    def p(s): open(HERE/'TOUCHED','w').close(); return 1\n    def __getattr__(s,n): open(HERE/'TOUCHED','w').close(); raise AttributeError(n)\nK=A()",
    "dict property": "class A:\n    @property\n    def __dict__(s): raise ValueError\nK=A()",
    "class lies": "class A:\n    __class__=property(lambda s: dict)\nK=A()",
    "unset slots": "class A:\n    __slots__=('a','b')\nK=A()",
    "socket": "import socket\nK=socket.socket()",
    "file": "K=open(__file__)",
    "asyncio": "import asyncio\nK=[asyncio.Lock(),asyncio.Semaphore(3),asyncio.Queue()]",
    "executor": "import concurrent.futures as c\nK=c.ThreadPoolExecutor(2)",
    "sqlite": "import sqlite3\nK=sqlite3.connect(':memory:')",
    "recursive": "K=[];K.append(K);D={};D['d']=D;K.append(D)",
    "huge recursion": "K=None\nfor _ in range(50000): K=[K]",
    "huge dict recursion": "K=None\nfor _ in range(50000): K={'k':K}",
    "object chain": "class N: pass\nK=N()\nc=K\nfor _ in range(50000):\n    c.n=N(); c=c.n",
    "long lambda chain": "K=lambda: 0\nfor _ in range(3000): K=(lambda f: lambda: f())(K)",
    "metaclass raising": "class M(type):\n    def __getattribute__(c,n):\n        if n=='__dict__': raise ValueError\n        return type.__getattribute__(c,n)\nclass K(metaclass=M): pass",
    "generator running": "def g():\n    yield 1\nK=g();next(K)",
    "nan key": "K={float('nan'):1,float('nan'):2}",
    "unsortable set": "K={1,'a',None,(1,2),frozenset({3})}",
    "mixed keys": "K={1:1,'1':2,None:3,(1,):4,b'1':5}",
    "surrogate": "K='\\ud800'",
    "big int": "K=10**6000",
    "mock": "from unittest import mock\nK=mock.MagicMock()",
    "types": "import types\nK=[types.CodeType,type,object,print,len,NotImplemented,Ellipsis]",
    "frames": "import sys\nK=sys._getframe()",
    "traceback": "try:\n    1/0\nexcept Exception as e:\n    K=e",
    "ctypes": "import ctypes\nK=ctypes.c_int(3)",
    "environ": "K=os.environ",
    "sys.modules": "import sys\nK=sys.modules",
    "globals": "K=globals()",
    "gc everything": "import gc\nK=gc.get_objects()",
    "proxy": "import weakref\nclass Z:pass\nz=Z()\nK=weakref.proxy(z)",
    "dead weakref": "import weakref\nclass Z:pass\nK=weakref.ref(Z())",
    "pandas": "import pandas as pd\nK=pd.DataFrame({'a':[1]})",
    "argv": "import sys\nK=sys.argv",
    "path": "import sys\nK=list(sys.path)",
    "parent path": "K=HERE.parent",
    "home": "K=pathlib.Path.home()",
    "hostname": "import socket\nK=socket.gethostname()",
    "module list": "import json\nK=[json,os]",
    "stdin": "import sys\nK=[sys.stdin,sys.stdout,sys.stderr]",
    "event loop policy": "import asyncio\nK=asyncio.get_event_loop_policy()",
    "contextvars copy": "import contextvars\nK=contextvars.copy_context()",
    "random state": "import random\nK=random.getstate()",
    "thread": "import threading\nK=threading.current_thread()",
    "Event": "import threading\nK=threading.Event()",
    "date today": "import datetime\nK=datetime.date.today()",
    "open tempfile": "import tempfile\nK=tempfile.NamedTemporaryFile()",
    "memo class": "class M(dict):\n    def __missing__(s,k): s[k]=1; return 1\nK=M()",
    "cache filled": "import functools\n@functools.cache\ndef K(n=1): return n\nK(5)",
}.items():
    text = t(R + code, "K is None")
    case("survives: " + nm, text, text, 0)
