"""Values that a task may hold: every kind of scalar, container and object, nested at random, each with a changed twin."""

# ruff: noqa: E501 - a shape is read as one line, whatever its length
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from drawn_program import Draw

IMPORTS = """\
import argparse
import array
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import ipaddress
import itertools
import math
import operator
import pathlib
import random
import re
import string
import struct
import types
import typing
import uuid
import weakref
import zoneinfo
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace

import attrs
import msgspec
import numpy as np
"""


class DrawnValue(NamedTuple):
    """An expression that makes a value, and what turns a reference to it into a text."""

    expression: str
    read: Callable[[str], str]


# What it is, an expression, the changed one, and how a text is made of it; {r} is the reference, x the sample's input.
SCALARS = [
    ("int", "3", "4", "str({r})"),
    ("big int", "10**30", "10**30 + 1", "str({r})"),
    ("float", "0.5", "0.25", "str({r})"),
    ("nan or inf", "float('nan')", "float('inf')", "str({r})"),
    ("sign of zero", "0.0", "-0.0", "str({r})"),
    ("one or true", "1", "True", "str({r})"),
    ("int or float", "1", "1.0", "str({r})"),
    ("number or text", "5", "'5'", "repr({r})"),
    ("none or empty", "None", "''", "str({r})"),
    ("bool", "True", "False", "str({r})"),
    ("bool flag", "True", "False", "(x.upper() if {r} else x)"),
    ("bytes", "b'a'", "b'b'", "{r}.decode()"),
    ("bytes or text", "b'a'", "'a'", "str({r})"),
    ("complex", "1 + 2j", "1 - 2j", "str({r})"),
    ("long text", "'a' * 5000 + 'b' + 'c' * 5000", "'a' * 5000 + 'd' + 'c' * 5000", "{r}[4990:5010]"),
    ("unicode form", "'\\u00e9'", "'e\\u0301'", "{r}"),
    ("newline", "'a\\nb'", "'a\\n\\nb'", "{r}"),
    ("blank at the end", "'a'", "'a '", "repr({r})"),
    ("Decimal", "decimal.Decimal('1.0')", "decimal.Decimal('1.00')", "str({r})"),
    ("Fraction", "fractions.Fraction(1, 3)", "fractions.Fraction(2, 3)", "str({r})"),
    ("date", "datetime.date(2024, 1, 2)", "datetime.date(2024, 2, 1)", "{r}.isoformat()"),
    ("datetime", "datetime.datetime(2024, 1, 2, 3)", "datetime.datetime(2024, 1, 2, 4)", "{r}.isoformat()"),
    (
        "timezone",
        "datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)",
        "datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))",
        "{r}.isoformat()",
    ),
    ("zone", "zoneinfo.ZoneInfo('Europe/Berlin')", "zoneinfo.ZoneInfo('Asia/Tokyo')", "str({r})"),
    ("time", "datetime.time(1, 2)", "datetime.time(2, 1)", "{r}.isoformat()"),
    ("timedelta", "datetime.timedelta(seconds=5)", "datetime.timedelta(seconds=6)", "str({r})"),
    ("UUID", "uuid.UUID(int=5)", "uuid.UUID(int=6)", "str({r})"),
    ("path", "pathlib.PurePosixPath('a/b')", "pathlib.PurePosixPath('a/c')", "{r}.name"),
    ("range", "range(3)", "range(4)", "str(list({r}))"),
    ("range step", "range(0, 9, 2)", "range(0, 9, 4)", "str(list({r}))"),
    ("slice", "slice(0, 1)", "slice(0, 2)", "(x * 2)[{r}]"),
    ("pattern", "re.compile('[aeiou]')", "re.compile('[a-m]')", "{r}.sub('_', x + 'aeiobm')"),
    ("flags of a pattern", "re.compile('q')", "re.compile('q', re.IGNORECASE)", "{r}.sub('_', 'Qq')"),
    ("match", "re.match('(.)(.)', 'ab')", "re.match('(.)(.)', 'ac')", "{r}.group(2)"),
    ("Template", "string.Template('polite $w')", "string.Template('rude $w')", "{r}.substitute(w=x)"),
    ("itemgetter", "operator.itemgetter(0)", "operator.itemgetter(1)", "{r}(('first', 'second'))"),
    ("itemgetter of two", "operator.itemgetter(0, 1)", "operator.itemgetter(1, 0)", "str({r}(('first', 'second')))"),
    ("attrgetter", "operator.attrgetter('real')", "operator.attrgetter('imag')", "str({r}(3))"),
    ("methodcaller", "operator.methodcaller('upper')", "operator.methodcaller('lower')", "{r}('Xy')"),
    (
        "methodcaller's argument",
        "operator.methodcaller('split', 'a')",
        "operator.methodcaller('split', 'b')",
        "str({r}('1a2b3'))",
    ),
    ("method of a builtin", "str.upper", "str.lower", "{r}('Xy')"),
    ("builtin", "max", "min", "str({r}(3, 5))"),
    ("function of a package", "math.floor", "math.ceil", "str({r}(1.5))"),
    ("operator", "operator.add", "operator.sub", "str({r}(5, 2))"),
    ("type of a builtin", "int", "float", "str({r}('3'))"),
    ("generic alias", "list[int]", "list[str]", "str({r})"),
    ("Literal", "typing.Literal['a', 'b']", "typing.Literal['a', 'c']", "str(typing.get_args({r}))"),
    ("frozenset", "frozenset({'a', 'b'})", "frozenset({'a', 'c'})", "','.join(sorted({r}))"),
    ("set", "{'a', 'b', 'c'}", "{'a', 'b', 'd'}", "','.join(sorted({r}))"),
    ("set of tuples", "{('a', 1), ('b', 2)}", "{('a', 2), ('b', 1)}", "str(sorted({r}))"),
    ("array", "array.array('i', [1, 2])", "array.array('i', [1, 3])", "str({r}.tolist())"),
    ("type of an array", "array.array('i', [1])", "array.array('d', [1])", "str({r}.tolist())"),
    ("bytearray", "bytearray(b'ab')", "bytearray(b'ac')", "{r}.decode()"),
    ("memoryview", "memoryview(b'ab')", "memoryview(b'ac')", "bytes({r}).decode()"),
    ("Struct", "struct.Struct('<h')", "struct.Struct('>h')", "{r}.pack(1).hex()"),
    ("Counter", "collections.Counter('aab')", "collections.Counter('abb')", "str(sorted({r}.items()))"),
    ("deque", "collections.deque(['a', 'b'])", "collections.deque(['b', 'a'])", "','.join({r})"),
    (
        "length of a deque",
        "collections.deque('abc', maxlen=3)",
        "collections.deque('abc', maxlen=4)",
        "str({r}.maxlen)",
    ),
    ("order of a list", "['a', 'b']", "['b', 'a']", "','.join({r})"),
    ("order of a dict", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", "','.join({r})"),
    (
        "order of an OrderedDict",
        "collections.OrderedDict(a=1, b=2)",
        "collections.OrderedDict(b=2, a=1)",
        "','.join({r})",
    ),
    ("list or tuple", "['a']", "('a',)", "str({r})"),
    ("one more in a list", "['a', 'b']", "['a', 'b', 'c']", "','.join({r})"),
    ("one less in a dict", "{'a': 1, 'b': 2}", "{'a': 1}", "','.join({r})"),
    ("key of a dict", "{('a', 1): 'v'}", "{('a', 2): 'v'}", "str({r})"),
    ("type of a key", "{1: 'v'}", "{'1': 'v'}", "str({r})"),
    (
        "default of a defaultdict",
        "collections.defaultdict(int)",
        "collections.defaultdict(list)",
        "str(copy.copy({r})['no'])",
    ),
    ("translation", "str.maketrans('a', 'b')", "str.maketrans('a', 'c')", "'aaa'.translate({r})"),
    ("UserString", "collections.UserString('a')", "collections.UserString('b')", "str({r})"),
    ("UserList", "collections.UserList(['a'])", "collections.UserList(['b'])", "str({r}.data)"),
    ("UserDict", "collections.UserDict(a=1)", "collections.UserDict(a=2)", "str({r}.data)"),
    ("address", "ipaddress.ip_address('10.0.0.1')", "ipaddress.ip_address('10.0.0.2')", "str({r})"),
    ("exception", "ValueError('polite', 1)", "ValueError('polite', 2)", "str({r}.args)"),
    ("type of an exception", "ValueError('a')", "KeyError('a')", "type({r}).__name__"),
    ("StringIO", "io.StringIO('polite')", "io.StringIO('rude')", "{r}.getvalue()"),
    ("array of numpy", "np.array([1, 2])", "np.array([1, 3])", "str({r}.tolist())"),
    ("shape of an array", "np.zeros((2, 3))", "np.zeros((3, 2))", "str({r}.shape)"),
    ("dtype", "np.array([1])", "np.array([1.0])", "str({r}.tolist())"),
    ("number of numpy", "np.float64(0.5)", "np.float64(0.25)", "str(float({r}))"),
    ("state of a Random", "random.Random(1)", "random.Random(2)", "str(copy.copy({r}).random())"),
    ("cycle", "itertools.cycle(['polite'])", "itertools.cycle(['rude'])", "next(copy.copy({r}))"),
    ("iterator", "iter(['polite', 'kind'])", "iter(['rude', 'kind'])", "next(copy.copy({r}))"),
    ("count", "itertools.count(5)", "itertools.count(6)", "str(next(copy.copy({r})))"),
    ("partial", "functools.partial(str.replace, 'abc', 'a')", "functools.partial(str.replace, 'abc', 'b')", "{r}('_')"),
    (
        "partial's keyword",
        "functools.partial(sorted, reverse=True)",
        "functools.partial(sorted, reverse=False)",
        "str({r}('bca'))",
    ),
    ("lambda", "(lambda t: t + ' please')", "(lambda t: t + ' now')", "{r}(x)"),
    ("lambda's default", "(lambda t, n=2: t * n)", "(lambda t, n=3: t * n)", "{r}(x)"),
    ("msgspec raw", "msgspec.Raw(b'1')", "msgspec.Raw(b'2')", "bytes({r}).decode()"),
    ("keys of a dict", "{'a': 1}.keys()", "{'b': 1}.keys()", "','.join({r})"),
    ("zip in a list", "list(zip('ab', (1, 2)))", "list(zip('ab', (2, 1)))", "str({r})"),
    (
        "nested comprehension",
        "[[n * m for n in range(2)] for m in (1, 2)]",
        "[[n * m for n in range(2)] for m in (1, 3)]",
        "str({r})",
    ),
    ("template of format", "'{{}} please'.format", "'{{}} now'.format", "{r}(x)"),
    ("bound method of a text", "'polite'.join", "'rude'.join", "{r}(('a', 'b'))"),
    ("bound method of a dict", "{{'k': 'polite'}}.get", "{{'k': 'rude'}}.get", "{r}('k')"),
    ("bound method of a list", "['a', 'b'].index", "['b', 'a'].index", "str({r}('a'))"),
    ("bound method of a pattern", "re.compile('a').sub", "re.compile('b').sub", "{r}('_', 'aabb')"),
    ("property's function", "property(lambda self: 'polite')", "property(lambda self: 'rude')", "{r}.fget(None)"),
    ("staticmethod", "staticmethod(lambda: 'polite')", "staticmethod(lambda: 'rude')", "{r}()"),
    (
        "cmp_to_key",
        "functools.cmp_to_key(lambda a, b: (a > b) - (a < b))",
        "functools.cmp_to_key(lambda a, b: (a < b) - (a > b))",
        "str(sorted('bca', key={r}))",
    ),
]


def scalar(d: Draw) -> DrawnValue:
    what, before, after, read = d.pick(SCALARS)
    before, after = (text.replace("{{", "{").replace("}}", "}") for text in (before, after))
    return DrawnValue(d.spot(before, after, what=what), lambda r: read.replace("{r}", r))


def text(d: Draw) -> DrawnValue:
    return DrawnValue(d.text_at_import(), lambda r: r)


def _attribute(d: Draw, depth: int, stem: str = "tone", owner: str = ""):
    """An attribute's name and the value in it; `owner` is a name of the module that has the attribute."""
    name = d.name(stem)
    with d.within(owner, is_global=True) if owner else contextlib.nullcontext(), d.within(name):
        return name, value(d, depth - 1)


def plain_object(d: Draw, depth: int) -> DrawnValue:
    """An ordinary class, its state given or made in `__init__`."""
    cls = d.name("Plain")
    name, inner = _attribute(d, depth)
    d.add(f"class {cls}:\n    def __init__(self, given):\n        self.{name} = given\n        self.other = 1\n")
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{name}"))


def private_object(d: Draw, depth: int) -> DrawnValue:
    """Private names, read by a method."""
    cls, tell = d.name("Hidden"), d.name("tell")
    name, inner = _attribute(d, depth)
    d.add(
        f"class {cls}:\n    def __init__(self, given):\n        self.__{name} = given\n",
        f"    def {tell}(self, x):\n        return {inner.read(f'self.__{name}')}\n",
    )
    return DrawnValue(f"{cls}({inner.expression})", lambda r: f"{r}.{tell}(x)")


def slotted_object(d: Draw, depth: int) -> DrawnValue:
    cls, base = d.name("Slotted"), d.name("SlottedBase")
    name, inner = _attribute(d, depth)
    if d.chance(0.5):
        d.add(f"class {cls}:\n    __slots__ = ('{name}', 'empty')\n")
    else:
        d.add(f"class {base}:\n    __slots__ = ('{name}',)\nclass {cls}({base}):\n    __slots__ = ('more',)\n")
    d.add(f"    def __init__(self, given):\n        self.{name} = given\n")
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{name}"))


def dataclass_object(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Config")
    name, inner = _attribute(d, depth)
    options = d.pick(["", "(frozen=True)", "(slots=True)", "(frozen=True, slots=True)", "(eq=False)", "(repr=False)"])
    d.add(f"@dataclass{options}\nclass {cls}:\n    {name}: object\n    other: int = 1\n")
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{name}"))


def hidden_field(d: Draw, depth: int) -> DrawnValue:
    """A field that neither repr nor comparison shows."""
    cls = d.name("Config")
    name, inner = _attribute(d, depth)
    d.add(f"@dataclass\nclass {cls}:\n    {name}: object = field(repr=False, compare=False)\n")
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{name}"))


def default_field(d: Draw, depth: int) -> DrawnValue:
    """The default of a field, or of its factory."""
    cls, name = d.name("Config"), d.name("tone")
    with d.within(cls, is_global=True), d.within(name):
        literal = d.text("default of a field")
    made = d.pick([literal, f"field(default_factory=lambda: {literal})"])
    d.add(f"@dataclass\nclass {cls}:\n    {name}: str = {made}\n")
    return DrawnValue(f"{cls}()", lambda r: f"{r}.{name}")


def attrs_object(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Attrs")
    name, inner = _attribute(d, depth)
    d.add(f"@attrs.{d.pick(['define', 'frozen', 'mutable'])}\nclass {cls}:\n    {name}: object\n")
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{name}"))


def struct_object(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Record")
    name, inner = _attribute(d, depth)
    d.add(f"class {cls}(msgspec.Struct):\n    {name}: object\n")
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{name}"))


def named_tuple(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Pair")
    name, inner = _attribute(d, depth)
    if d.chance(0.5):
        d.add(f"{cls} = collections.namedtuple('{cls}', ['{name}', 'other'])")
    else:
        d.add(f"class {cls}(typing.NamedTuple):\n    {name}: object\n    other: int\n")
    return DrawnValue(f"{cls}({inner.expression}, 1)", lambda r: inner.read(f"{r}.{name}"))


def namespace(d: Draw, depth: int) -> DrawnValue:
    name, inner = _attribute(d, depth)
    maker = d.pick(["SimpleNamespace", "argparse.Namespace"])
    return DrawnValue(f"{maker}({name}={inner.expression}, other=1)", lambda r: inner.read(f"{r}.{name}"))


def module_object(d: Draw, depth: int) -> DrawnValue:
    """A module made by hand, as a place for settings."""
    made = d.name("settings")
    name, inner = _attribute(d, depth, owner=made)
    d.add(f"{made} = types.ModuleType('{made}')\n{made}.{name} = {inner.expression}")
    return DrawnValue(made, lambda r: inner.read(f"{r}.{name}"))


def mapping(d: Draw, depth: int) -> DrawnValue:
    key, inner = _attribute(d, depth, "style")
    form = d.pick(
        [
            "{%s: %s}",
            "{'other': 1, %s: %s, 'more': 2}",
            "dict([(%s, %s)])",
            "collections.OrderedDict([(%s, %s)])",
            "collections.ChainMap({}, {%s: %s})",
            "MappingProxyType({%s: %s})",
            "collections.defaultdict(dict, {%s: %s})",
            "collections.UserDict({%s: %s})",
            "types.MappingProxyType(collections.ChainMap({%s: %s}))",
        ]
    )
    return DrawnValue(form % (repr(key), inner.expression), lambda r: inner.read(f"{r}[{key!r}]"))


def keyed_by_object(d: Draw, depth: int) -> DrawnValue:
    """A map whose keys are members of an enum."""
    kind = d.name("Kind")
    d.add(f"{kind} = enum.Enum('{kind}', 'ONE TWO')")
    inner = value(d, depth - 1)
    return DrawnValue(f"{{{kind}.TWO: 0, {kind}.ONE: {inner.expression}}}", lambda r: inner.read(f"{r}[{kind}.ONE]"))


def sequence(d: Draw, depth: int) -> DrawnValue:
    inner = value(d, depth - 1)
    form, at = d.pick(
        [
            ("[%s]", 0),
            ("['a', %s]", 1),
            ("(%s,)", 0),
            ("('a', 'b', %s)", -1),
            ("collections.deque(['a', %s])", 1),
            ("[['a'], ['b', %s]]", "1][1"),
            ("list((%s, 1))", 0),
            ("collections.UserList([%s])", 0),
            ("np.array([%s, None], dtype=object)", 0),
        ]
    )
    return DrawnValue(form % inner.expression, lambda r: inner.read(f"{r}[{at}]"))


def tools(d: Draw, depth: int) -> DrawnValue:
    """Objects in a list, used one after the other."""
    cls, run = d.name("Tool"), d.name("run")
    name, inner = _attribute(d, depth)
    d.add(
        f"class {cls}:\n    def __init__(self, given):\n        self.{name} = given\n",
        f"    def {run}(self, x):\n        return {inner.read(f'self.{name}')}\n",
    )
    literal = d.pick(
        [f"[{cls}({inner.expression})]", f"({cls}({inner.expression}),)", f"{{'a': {cls}({inner.expression})}}"]
    )
    each = ".values()" if literal.startswith("{") else ""
    return DrawnValue(literal, lambda r: f"''.join(tool.{run}(x) for tool in {r}{each})")


def bound_method(d: Draw, depth: int) -> DrawnValue:
    cls, run = d.name("Agent"), d.name("answer")
    name, inner = _attribute(d, depth)
    how = d.pick(["plain", "methodtype", "partial", "call"])
    method = "__call__" if how == "call" else run
    d.add(
        f"class {cls}:\n    def __init__(self, given):\n        self.{name} = given\n",
        f"    def {method}(self, x):\n        return {inner.read(f'self.{name}')}\n",
    )
    made = f"{cls}({inner.expression})"
    forms = {
        "plain": f"{made}.{run}",
        "methodtype": f"types.MethodType({cls}.{run}, {made})",
        "partial": f"functools.partial({cls}.{run}, {made})",
        "call": made,
    }
    return DrawnValue(forms[how], lambda r: f"{r}(x)")


def closure(d: Draw, depth: int) -> DrawnValue:
    """A function in a function, over a value that it was given."""
    make, inner_name, given = d.name("make"), d.name("inner"), d.name("given")
    with d.within(given, inner_name, make):
        inner = value(d, depth - 1)
    body = inner.read(given)
    form = d.pick(["def", "lambda", "deep", "default", "kwdefault", "cell"])
    code = {
        "def": f"def {make}({given}):\n    def {inner_name}(x):\n        return {body}\n    return {inner_name}\n",
        "lambda": f"def {make}({given}):\n    return lambda x: {body}\n",
        "deep": (
            f"def {make}({given}):\n    def middle():\n        def {inner_name}(x):\n            return {body}\n"
            f"        return {inner_name}\n    return middle()\n"
        ),
        "default": f"def {make}(value):\n    def {inner_name}(x, {given}=value):\n        return {body}\n    return {inner_name}\n",
        "kwdefault": f"def {make}(value):\n    def {inner_name}(x, *, {given}=value):\n        return {body}\n    return {inner_name}\n",
        "cell": (
            f"def {make}(value):\n    {given} = None\n    def {inner_name}(x):\n        return {body}\n    def put():\n"
            f"        nonlocal {given}\n        {given} = value\n    put()\n    return {inner_name}\n"
        ),
    }
    d.add(code[form])
    return DrawnValue(f"{make}({inner.expression})", lambda r: f"{r}(x)")


def context_variable(d: Draw, depth: int) -> DrawnValue:
    inner = value(d, depth - 1)
    made = d.name("variable")
    return DrawnValue(f"ContextVar('{made}', default={inner.expression})", lambda r: inner.read(f"{r}.get()"))


def subclass_of_builtin(d: Draw, depth: int) -> DrawnValue:
    """A text, a list or a dict with an attribute of its own."""
    cls, made = d.name("Special"), d.name("special")
    base, given = d.pick(
        [("str", "'a'"), ("dict", "{'a': 1}"), ("list", "['a']"), ("int", "3"), ("tuple", "(1,)"), ("Exception", "'a'")]
    )
    name, inner = _attribute(d, depth, owner=made)
    d.add(f"class {cls}({base}):\n    pass\n{made} = {cls}({given})\n{made}.{name} = {inner.expression}")
    return DrawnValue(made, lambda r: inner.read(f"{r}.{name}"))


def content_of_subclass(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Special")
    form, read = d.pick(
        [
            ("class {c}(str):\n    pass\n", "str.__str__({r})"),
            ("class {c}(list):\n    pass\n", "','.join({r})"),
            ("class {c}(dict):\n    def __getattr__(self, name):\n        return self[name]\n", "{r}.tone"),
        ]
    )
    d.add(form.replace("{c}", cls))
    literal = d.text("content of a subclass")
    given = f"{{'tone': {literal}}}" if "dict" in form else f"[{literal}]" if "list" in form else literal
    return DrawnValue(f"{cls}({given})", lambda r: read.replace("{r}", r))


def enum_member(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Style")
    base = d.pick(["enum.Enum", "enum.StrEnum", "str, enum.Enum"])
    if d.chance(0.5):
        first, second = d.words()
        d.add(f"class {cls}({base}):\n    ONE = {first!r}\n    TWO = {second!r}\n")
        return DrawnValue(d.spot(f"{cls}.ONE", f"{cls}.TWO", what="which member of an enum"), lambda r: f"{r}.value")
    with d.within(cls, is_global=True):
        d.add(f"class {cls}({base}):\n    ONE = {d.text('value of a member')}\n")
    return DrawnValue(f"{cls}.ONE", lambda r: f"{r}.value")


def flag(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Flag")
    d.add(f"class {cls}(enum.{d.pick(['Flag', 'IntFlag'])}):\n    A = 1\n    B = 2\n    C = 4\n")
    return DrawnValue(d.spot(f"{cls}.A | {cls}.B", f"{cls}.A | {cls}.C", what="flags"), lambda r: f"str(({r}).value)")


def class_itself(d: Draw, depth: int) -> DrawnValue:
    """A class as a value; the changed one is another class, or another attribute of it."""
    one, two, name = d.name("Kind"), d.name("Kind"), d.name("tone")
    first, second = d.words()
    d.add(f"class {one}:\n    {name} = {first!r}\n", f"class {two}:\n    {name} = {second!r}\n")
    return DrawnValue(d.spot(one, two, what="which class"), lambda r: f"{r}.{name}")


def class_attribute(d: Draw, depth: int) -> DrawnValue:
    cls = d.name("Settings")
    name, inner = _attribute(d, depth, owner=cls)
    made = d.pick(
        [
            f"class {cls}:\n    {name} = {inner.expression}\n",
            f"{cls} = type('{cls}', (), {{'{name}': {inner.expression}}})",
            f"class {cls}:\n    pass\n{cls}.{name} = {inner.expression}",
            f"class {cls}:\n    pass\nsetattr({cls}, '{name}', {inner.expression})",
            f"class Base{cls}:\n    {name} = {inner.expression}\nclass {cls}(Base{cls}):\n    pass\n",
            f"class Meta{cls}(type):\n    {name} = {inner.expression}\nclass {cls}(metaclass=Meta{cls}):\n    pass\n",
        ]
    )
    d.add(made)
    return DrawnValue(cls if d.chance(0.6) or "Meta" in made else f"{cls}()", lambda r: inner.read(f"{r}.{name}"))


def proxy_object(d: Draw, depth: int) -> DrawnValue:
    """An object that passes on what it is asked for."""
    cls, holder = d.name("Proxy"), d.name("target")
    name, inner = _attribute(d, depth)
    d.add(
        f"class {cls}:\n    def __init__(self, target):\n        self.{holder} = target\n",
        f"    def __getattr__(self, name):\n        if name.startswith('__') or name == '{holder}':\n"
        f"            raise AttributeError(name)\n        return getattr(self.{holder}, name)\n",
    )
    return DrawnValue(f"{cls}(SimpleNamespace({name}={inner.expression}))", lambda r: inner.read(f"{r}.{name}"))


def property_object(d: Draw, depth: int) -> DrawnValue:
    """A property over a private attribute; the private one or the property may be named."""
    cls, shown = d.name("Managed"), d.name("shown")
    name = d.name("tone")
    with d.within(name, shown):
        inner = value(d, depth - 1)
    d.add(
        f"class {cls}:\n    def __init__(self, given):\n        self._{name} = given\n",
        f"    @{d.pick(['property', 'functools.cached_property'])}\n    def {shown}(self):\n        return self._{name}\n",
    )
    # An attribute with an underscore before it is one word to a reader of the message too.
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.{shown}"))


def cyclic_object(d: Draw, depth: int) -> DrawnValue:
    """A parent and a child that know one another."""
    cls = d.name("Node")
    name, inner = _attribute(d, depth)
    d.add(
        f"class {cls}:\n    def __init__(self, given):\n        self.child = SimpleNamespace(parent=self)\n"
        f"        self.me = self\n        self.{name} = given\n"
    )
    return DrawnValue(f"{cls}({inner.expression})", lambda r: inner.read(f"{r}.child.parent.me.{name}"))


def weak_reference(d: Draw, depth: int) -> DrawnValue:
    cls, made = d.name("Kept"), d.name("kept")
    name, inner = _attribute(d, depth, owner=made)
    d.add(f"class {cls}:\n    pass\n{made} = {cls}()\n{made}.{name} = {inner.expression}")
    return DrawnValue(f"weakref.ref({made})", lambda r: inner.read(f"{r}().{name}"))


def cached_function(d: Draw, depth: int) -> DrawnValue:
    fn = d.name("cached")
    with d.within(fn, is_global=True):
        literal = d.text("text in a cached function")
    d.add(
        f"@functools.{d.pick(['cache', 'lru_cache(maxsize=4)', 'lru_cache'])}\ndef {fn}(x):\n    return x + {literal}\n"
    )
    return DrawnValue(fn, lambda r: f"{r}(x)")


def dispatched(d: Draw, depth: int) -> DrawnValue:
    """A function of several bodies, chosen by type."""
    fn, body = d.name("told"), d.name("told_text")
    with d.within(fn, body, is_global=True):
        literal = d.text("body chosen by type")
    d.add(
        f"@functools.singledispatch\ndef {fn}(x):\n    return ''\n",
        f"@{fn}.register\ndef {body}(x: str):\n    return x + {literal}\n",
    )
    return DrawnValue(fn, lambda r: f"{r}(x)")


def partial_of_function(d: Draw, depth: int) -> DrawnValue:
    fn, given = d.name("spoken"), d.name("given")
    with d.within(given, fn):
        inner = value(d, depth - 1)
    d.add(f"def {fn}(x, {given}):\n    return {inner.read(given)}\n")
    form = d.pick([f"functools.partial({fn}, {given}=%s)", f"functools.partial(functools.partial({fn}), {given}=%s)"])
    return DrawnValue(form % inner.expression, lambda r: f"{r}(x)")


def descriptor(d: Draw, depth: int) -> DrawnValue:
    """A class attribute whose own `__get__` answers."""
    cls, owner, shown = d.name("Field"), d.name("Owner"), d.name("shown")
    name, inner = _attribute(d, depth, owner=owner)
    d.add(
        f"class {cls}:\n    def __init__(self, given):\n        self.{name} = given\n"
        f"    def __get__(self, instance, owner):\n        return self.{name}\n",
        f"class {owner}:\n    {shown} = {cls}({inner.expression})\n",
    )
    return DrawnValue(f"{owner}()", lambda r: inner.read(f"{r}.{shown}"))


def deep_list(d: Draw, depth: int) -> DrawnValue:
    """Lists in lists, made by a loop."""
    made = d.name("nested")
    with d.within(made, is_global=True):
        literal = d.text("text far down")
    levels = d.pick([5, 60, 400])
    d.add(f"{made} = [{literal}]\nfor _ in range({levels}):\n    {made} = [{made}]")
    loop = f"functools.reduce(lambda got, _: got[0], range({levels + 1}), "
    return DrawnValue(made, lambda r: f"{loop}{r})")


def large_table(d: Draw, depth: int) -> DrawnValue:
    """A table too large to be spelled out: the statement that makes it has to count."""
    size = d.pick([3000, 40_000])
    before, after = d.words()
    first = f"[f'{{n}} {before}' for n in range({size})]"
    return DrawnValue(d.spot(first, first.replace(before, after), what="large table"), lambda r: f"{r}[{size - 7}]")


def transparent_wrapper(d: Draw, depth: int) -> DrawnValue:
    """A decorator's object: what it calls is in `.function`, and it says that it wraps another function."""
    cls, fn, name = d.name("Wrapped"), d.name("shown"), d.name("prefix")
    with d.within(name):
        literal = d.text("argument of a wrapper")
    d.add(
        f"class {cls}:\n    def __init__(self, function, prefix):\n        self.function = function\n"
        f"        self.__wrapped__ = function\n        self.__name__ = 'f'\n        self.{name} = prefix\n"
        f"    def __call__(self, x):\n        return self.{name} + self.function(x)\n",
        f"def {fn}(x):\n    return x\n",
    )
    return DrawnValue(f"{cls}({fn}, {literal})", lambda r: f"{r}(x)")


NESTED = [
    *(
        plain_object,
        plain_object,
        private_object,
        slotted_object,
        dataclass_object,
        hidden_field,
        attrs_object,
        struct_object,
    ),
    *(
        named_tuple,
        namespace,
        module_object,
        mapping,
        mapping,
        keyed_by_object,
        sequence,
        sequence,
        tools,
        bound_method,
    ),
    *(closure, closure, context_variable, subclass_of_builtin, class_attribute, proxy_object, property_object),
    *(cyclic_object, weak_reference, partial_of_function, descriptor),
]
ENDS = [
    *(content_of_subclass, enum_member, flag, class_itself, cached_function, dispatched, default_field, deep_list),
    *(large_table, transparent_wrapper),
]


def value(d: Draw, depth: int) -> DrawnValue:
    """A value of at most this many levels."""
    if depth <= 0 or d.chance(0.15):
        shape = d.pick([text, scalar, scalar, scalar])
        made = shape(d)
    elif d.chance(0.2):
        shape = d.pick(ENDS)
        made = shape(d, depth)
    else:
        shape = d.pick(NESTED)
        made = shape(d, depth)
    d.shapes.append(shape.__name__)
    return made
