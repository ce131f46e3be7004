"""Changes of structure: things that are added, removed, swapped or shadowed, and state that other modules set.

As in `drawn_code.py`, a shape adds statements to the module and returns an expression of `x`.
"""

# ruff: noqa: E501 - a shape is read as one line, whatever its length
from __future__ import annotations

from drawn_program import Draw
from drawn_values import value


def added_thing(d: Draw) -> str:
    """Nothing that was there has changed: something was added, or taken away."""
    cls, fn, helper = d.name("Kind"), d.name("piece"), d.name("helper")
    form = d.pick(["override", "str", "shadow builtin", "shadow global", "decorator", "instance attribute", "base", "getattr", "second def", "post_init", "classvar", "eq", "default", "del"])  # fmt: skip
    named = (cls, fn, helper)
    add = lambda text, otherwise="": d.spot(otherwise, text, named, what=f"added: {form}")  # noqa: E731
    if d.chance(0.3):
        add = lambda text, otherwise="": d.spot(text, otherwise, named, what=f"removed: {form}")  # noqa: E731
    base = f"class Base{cls}:\n    def say(self, x):\n        return x + 'base'\n"
    code, read = {
        "override": lambda: (f"{base}class {cls}(Base{cls}):\n    word = 1\n{add('    def say(self, x):' + chr(10) + '        return x + chr(65)' + chr(10))}", f"{cls}().say(x)"),
        "str": lambda: (f"class {cls}(str):\n    word = 1\n{add('    def __str__(self):' + chr(10) + '        return chr(66)' + chr(10))}", f"x + str({cls}('a'))"),
        "shadow builtin": lambda: (add(f"def len(given, {helper}=1):\n    return 7\n", f"{helper} = 1"), "x + str(len(x + 'abc'))"),
        "shadow global": lambda: (f"def {helper}(x):\n    return x + 'one'\n{add(f'{helper} = str.upper')}", f"{helper}(x)"),
        "decorator": lambda: (f"def twice_{fn}(function):\n    return lambda x: function(function(x))\n{add(f'@twice_{fn}')}\ndef {helper}(x):\n    return x + 'a'\n", f"{helper}(x)"),
        "instance attribute": lambda: (f"class {cls}:\n    word = 'class'\n{helper} = {cls}()\n{add(f'{helper}.word = chr(67)')}", f"x + {helper}.word"),
        "base": lambda: (f"{base}class Mixin{cls}:\n    def say(self, x):\n        return x + 'mixin'\nclass {cls}({add(f'Mixin{cls}, ')}Base{cls}):\n    pass\n", f"{cls}().say(x)"),
        "getattr": lambda: (f"class {cls}:\n    word = 1\n{add('    def __getattr__(self, name):' + chr(10) + '        if name.startswith(chr(95)):' + chr(10) + '            raise AttributeError(name)' + chr(10) + '        return 5' + chr(10))}", f"x + str(getattr({cls}(), 'missing', 'none'))"),
        "second def": lambda: (f"def {helper}(x):\n    return x + 'first'\n{add(f'def {helper}(x):' + chr(10) + '    return x + chr(68)' + chr(10))}", f"{helper}(x)"),
        "post_init": lambda: (f"import dataclasses\n@dataclasses.dataclass\nclass {cls}:\n    word: str = 'a'\n{add('    def __post_init__(self):' + chr(10) + '        self.word += chr(69)' + chr(10))}", f"x + {cls}().word"),
        "classvar": lambda: (f"class Base{cls}:\n    word = 'base'\nclass {cls}(Base{cls}):\n    other = 1\n{add('    word = chr(70)')}", f"x + {cls}.word"),
        "eq": lambda: (f"class {cls}:\n    word = 1\n{add('    def __eq__(self, other):' + chr(10) + '        return True' + chr(10))}", f"x + str({cls}() == 3)"),
        "default": lambda: (f"def {helper}(x{add(', n=1')}):\n    import inspect\n    return x + str(len(inspect.signature({helper}).parameters))\n", f"{helper}(x)"),
        "del": lambda: (f"{helper} = {{'a': 1, 'b': 2}}\n{add(f'del {helper}[chr(97)]')}", f"x + str(sorted({helper}))"),
    }[form]()  # fmt: skip
    d.add(code, f"def {fn}(x):\n    return {read}\n")
    return f"{fn}(x)"


def swapped_import(d: Draw) -> str:
    """The same name for something else that is imported."""
    fn, alias = d.name("piece"), d.name("alias")
    form = d.pick(["package", "own", "star order", "module", "inside"])
    one, two = d.name("variant"), d.name("variant")
    named = (fn, alias, one, two)
    for name, word in ((one, "first"), (two, "second")):
        if form in {"own", "star order", "module", "inside"}:
            d.files[f"{name}.py"] = (
                f"def {alias}_said(x):\n    return x + '{word}'\n\n\ndef {alias}_other(x):\n    return x + '{word} other'\n"
            )
    if form == "package":
        d.add(
            d.spot(
                f"from math import floor as {alias}",
                f"from math import ceil as {alias}",
                named,
                what="which function of a package",
            )
        )
        d.add(f"def {fn}(x):\n    return x + str({alias}(1.5))\n")
    elif form == "own":
        d.add(
            d.spot(
                f"from {one} import {alias}_said as {alias}",
                f"from {two} import {alias}_said as {alias}",
                named,
                what="which own module",
            )
        )
        d.add(f"def {fn}(x):\n    return {alias}(x)\n")
    elif form == "module":
        d.add(d.spot(f"import {one} as {alias}", f"import {two} as {alias}", named, what="which own module"))
        d.add(f"def {fn}(x):\n    return {alias}.{alias}_said(x)\n")
    elif form == "inside":
        line = d.spot(f"{alias}_said", f"{alias}_other", named, what="which name of an own module, inside")
        d.add(f"def {fn}(x):\n    from {one} import {line} as said\n    return said(x)\n")
    else:
        lines = [f"from {one} import *", f"from {two} import *"]
        d.add(d.spot("\n".join(lines), "\n".join(lines[::-1]), named, what="order of star imports"))
        d.add(f"def {fn}(x):\n    return {alias}_said(x)\n")
    return f"{fn}(x)"


def settings_module(d: Draw) -> str:
    """A module of constants, read, computed or set from outside."""
    fn, mod, name = d.name("piece"), d.name("settings"), d.name("TONE")
    form = d.pick(
        ["read", "getattr", "dict", "vars", "set", "setattr", "pep562", "prefix", "class", "package", "same file name"]
    )
    t = lambda: d.spot("'polite'", "'rude'", (name, mod, fn), what=f"module of settings: {form}")  # noqa: E731
    read = {
        "getattr": f"getattr({mod}, 'TONE_' + kind)",
        "dict": f"{mod}.__dict__['{name}']",
        "vars": f"vars({mod})['{name}']",
        "prefix": f"''.join(sorted(v for k, v in vars({mod}).items() if k.startswith('TONE_')))",
        "class": f"{mod}.Settings.{name}",
    }.get(form, f"{mod}.{name}")
    path = f"{mod}.py"
    line = f"import {mod}"
    if form in {"set", "setattr"}:
        d.files[path] = f"{name} = 'none'\n"
        line += f"\n{mod}.{name} = {t()}" if form == "set" else f"\nsetattr({mod}, '{name}', {t()})"
    elif form == "pep562":
        d.files[path] = (
            f"def __getattr__(name):\n    if name == '{name}':\n        return {t()}\n    raise AttributeError(name)\n"
        )
    elif form == "class":
        d.files[path] = f"class Settings:\n    {name} = {t()}\n"
    elif form == "package":
        d.files[f"{mod}/__init__.py"] = f"from .values import {name}\n"
        d.files[f"{mod}/values.py"] = f"{name} = {t()}\n"
    elif form == "same file name":
        d.files[f"{mod}/__init__.py"] = ""
        d.files[f"{mod}/one/__init__.py"] = d.files[f"{mod}/two/__init__.py"] = ""
        d.files[f"{mod}/one/helper.py"] = f"{name} = 'one'\n"
        d.files[f"{mod}/two/helper.py"] = f"{name} = {t()}\n"
        line = f"import {mod}.one.helper\nimport {mod}.two.helper"
        read = f"{mod}.one.helper.{name} + {mod}.two.helper.{name}"
    else:
        d.files[path] = f"{name} = {t()}\n"
    d.add(line, f"def {fn}(x, kind='{name.removeprefix('TONE_')}'):\n    return x + {read}\n")
    return f"{fn}(x)"


def beside_unsteady(d: Draw) -> str:
    """A setting that lies beside values which are others at every import."""
    root, fn, name = d.name("CONFIG"), d.name("piece"), d.name("tone")
    t = d.spot("'polite'", "'rude'", (root, fn), (name,), what="a setting beside unsteady values")
    form, read = d.pick(
        [
            (f"{{'id': uuid.uuid4().hex, 'at': time.time(), '{name}': {t}}}", f"{root}['{name}']"),
            (f"types.SimpleNamespace(started=time.time(), {name}={t})", f"{root}.{name}"),
            (f"Kind_{root}({t})", f"{root}.{name}"),
        ]
    )
    d.add(
        "import time, types, uuid",
        f"class Kind_{root}:\n    def __init__(self, word):\n        self.at = time.time_ns()\n        self.{name} = word\n",
    )
    d.add(f"{root} = {form}", f"def {fn}(x):\n    return x + {read}\n")
    return f"{fn}(x)"


def pipeline(d: Draw) -> str:
    """Objects that are composed by operators or by a fold, as prompt | model | parser."""
    cls, fn, name = d.name("Stage"), d.name("piece"), d.name("suffix")
    form = d.pick(["or", "reduce", "compose", "partialmethod", "chain", "builder", "table of lambdas", "loop closures"])
    t = lambda: d.spot("'polite'", "'rude'", (cls, name, fn), what=f"pipeline: {form}")  # noqa: E731
    d.add("import functools")
    stage = (
        f"class {cls}:\n    def __init__(self, {name}, before=None):\n        self.{name}, self.before = {name}, before\n"
        f"    def __or__(self, other):\n        other.before = self\n        return other\n"
        f"    def run(self, x):\n        return (self.before.run(x) if self.before else x) + self.{name}\n"
        f"    def then(self, word):\n        return {cls}(word, self)\n"
    )
    code, read = {
        "or": lambda: (f"{stage}PIPE_{fn} = {cls}('a') | {cls}({t()}) | {cls}('c')", f"PIPE_{fn}.run(x)"),
        "builder": lambda: (f"{stage}PIPE_{fn} = {cls}('a').then({t()}).then('b')", f"PIPE_{fn}.run(x)"),
        "chain": lambda: (f"{stage}PIPE_{fn} = [{cls}('a'), {cls}({t()})]", f"functools.reduce(lambda got, one: one.run(got), PIPE_{fn}, x)"),
        "reduce": lambda: (f"PIPE_{fn} = functools.reduce(lambda f, g: lambda x: g(f(x)), [str.strip, lambda x: x + {t()}, str.title])", f"PIPE_{fn}(x)"),
        "compose": lambda: (f"def compose_{fn}(*{name}):\n    def run(x):\n        for one in {name}:\n            x = one(x)\n        return x\n    return run\ndef last_{fn}(x):\n    return x + {t()}\nPIPE_{fn} = compose_{fn}(str.strip, last_{fn})", f"PIPE_{fn}(x)"),
        "partialmethod": lambda: (f"class {cls}:\n    def say(self, word, x):\n        return x + word\n    {name} = functools.partialmethod(say, {t()})\n", f"{cls}().{name}(x)"),
        "table of lambdas": lambda: (f"{name} = {{'a': lambda x: x, 'b': lambda x: x + {t()}}}", f"{name}['b'](x)"),
        "loop closures": lambda: (f"{name} = []\nfor word_{fn} in ('a', {t()}):\n    {name}.append(lambda x, word=word_{fn}: x + word)", f"''.join(one(x) for one in {name})"),
    }[form]()  # fmt: skip
    d.add(code, f"def {fn}(x):\n    return {read}\n")
    return f"{fn}(x)"


def unusual_class(d: Draw) -> str:
    """Machinery of classes: metaclasses, descriptors' hooks, enums by number, mappings of one's own, singletons."""
    cls, fn = d.name("Odd"), d.name("piece")
    form = d.pick(["meta call", "set_name", "class_getitem", "instancecheck", "auto", "mapping", "singleton", "kw_only", "init_subclass", "nested property", "total", "callable member", "enum method", "exception", "typeddict", "slots default", "prepare", "match_args", "option", "field type", "annotations of a subclass", "init_subclass later", "new later", "set", "struct type", "post_init default"])  # fmt: skip
    named = (cls, f"Base{cls}", f"Meta{cls}", fn)
    t = lambda a="'polite'", b="'rude'": d.spot(a, b, named, what=f"class machinery: {form}")  # noqa: E731
    d.add("import abc, collections.abc, dataclasses, enum, functools, typing")
    code, read = {
        "meta call": lambda: (f"class Meta{cls}(type):\n    def __call__(cls, *given):\n        made = super().__call__(*given)\n        made.word = {t()}\n        return made\nclass {cls}(metaclass=Meta{cls}):\n    pass\n", f"{cls}().word"),
        "set_name": lambda: (f"class Base{cls}:\n    def __set_name__(self, owner, name):\n        owner.label = name + {t()}\nclass {cls}:\n    field = Base{cls}()\n", f"{cls}.label"),
        "class_getitem": lambda: (f"class {cls}:\n    def __class_getitem__(cls, key):\n        return key + {t()}\n", f"{cls}['k']"),
        "instancecheck": lambda: (f"class Meta{cls}(type):\n    def __instancecheck__(cls, one):\n        return len(one) > {t('99', '0')}\nclass {cls}(metaclass=Meta{cls}):\n    pass\n", f"str(isinstance(x, {cls}))"),
        "auto": lambda: (f"class {cls}(enum.Enum):\n    {t('A = enum.auto(); B = enum.auto()', 'B = enum.auto(); A = enum.auto()')}\n", f"str({cls}.A.value)"),
        "mapping": lambda: (f"class {cls}(collections.abc.Mapping):\n    def __getitem__(self, key):\n        return key + {t()}\n    def __iter__(self):\n        return iter('ab')\n    def __len__(self):\n        return 2\n", f"str(dict({cls}()))"),
        "singleton": lambda: (f"def Base{cls}(made):\n    kept = made()\n    return lambda: kept\n@Base{cls}\nclass {cls}:\n    word = {t()}\n", f"{cls}().word"),
        "kw_only": lambda: (f"@dataclasses.dataclass(kw_only=True)\nclass {cls}:\n    a: str = 'a'\n    b: dataclasses.InitVar[str] = {t()}\n    def __post_init__(self, b):\n        self.a += b\n", f"{cls}(a='x').a"),
        "init_subclass": lambda: (f"class Base{cls}:\n    def __init_subclass__(cls, word='', **rest):\n        cls.word = word\nclass {cls}(Base{cls}, word={t()}):\n    pass\n", f"{cls}.word"),
        "nested property": lambda: (f"class {cls}:\n    class Inner:\n        @property\n        def word(self):\n            return {t()}\n    @functools.cached_property\n    def inner(self):\n        return self.Inner()\n", f"{cls}().inner.word"),
        "total": lambda: (f"@functools.total_ordering\nclass {cls}:\n    def __eq__(self, other):\n        return False\n    def __lt__(self, other):\n        return {t('True', 'False')}\n", f"str({cls}() >= {cls}())"),
        "callable member": lambda: (f"class {cls}(enum.Enum):\n    A = functools.partial(str.replace, 'abc', {t(repr('a'), repr('b'))})\n", f"{cls}.A.value('_')"),
        "enum method": lambda: (f"class {cls}(enum.Enum):\n    A = 1\n    def told(self):\n        return {t()}\n", f"{cls}.A.told()"),
        "exception": lambda: (f"class {cls}(Exception):\n    def __str__(self):\n        return {t()}\ndef raise_{fn}():\n    try:\n        raise {cls}\n    except {cls} as error:\n        return str(error)\n", f"raise_{fn}()"),
        "typeddict": lambda: (f"class {cls}(typing.TypedDict):\n    {t('city', 'town')}: str\n", f"str(list({cls}.__annotations__))"),
        "prepare": lambda: (f"class Meta{cls}(type):\n    @classmethod\n    def __prepare__(mcs, name, bases):\n        return {{'word': {t()}}}\ndef {cls}():\n    class Made(metaclass=Meta{cls}):\n        pass\n    return Made.word\n", f"{cls}()"),
        "match_args": lambda: (f"class {cls}:\n    __match_args__ = {t(repr(('a', 'b')), repr(('b', 'a')))}\n    a = 'first'\n    b = 'second'\ndef take_{fn}(one):\n    match one:\n        case {cls}(found):\n            return found\n", f"take_{fn}({cls}())"),
        "option": lambda: (f"@dataclasses.dataclass({t('eq=True', 'eq=False')})\nclass {cls}:\n    a: int = 1\n", f"str({cls}() == {cls}())"),
        "field type": lambda: (f"@dataclasses.dataclass\nclass {cls}:\n    a: {t('int', 'float')} = 1\n", f"str([one.type('3') for one in dataclasses.fields({cls})])"),
        "annotations of a subclass": lambda: (f"class Base{cls}:\n    @classmethod\n    def make(cls):\n        return str([kind('3') for kind in cls.__annotations__.values()])\nclass {cls}(Base{cls}):\n    n: {t('int', 'float')}\n", f"{cls}.make()"),
        "init_subclass later": lambda: (f"class {cls}:\n    def __init_subclass__(cls):\n        cls.word = {t()}\ndef make_{fn}():\n    class Made({cls}):\n        pass\n    return Made.word\n", f"make_{fn}()"),
        "new later": lambda: (f"class {cls}(str):\n    def __new__(cls, given):\n        return super().__new__(cls, given + {t()})\n", f"{cls}('a')"),
        "set": lambda: (f"class Base{cls}:\n    def __set__(self, owner, given):\n        owner.__dict__['word'] = given + {t()}\n    def __get__(self, owner, kind):\n        return owner.__dict__['word']\nclass {cls}:\n    word = Base{cls}()\n    def __init__(self):\n        self.word = 'a'\n", f"{cls}().word"),
        "struct type": lambda: (f"import msgspec\nclass {cls}(msgspec.Struct):\n    n: {t('int', 'float')}\n", f"str(msgspec.json.decode(b'{{\"n\": 1}}', type={cls}).n)"),
        "post_init default": lambda: (f"@dataclasses.dataclass\nclass {cls}:\n    a: str = 'a'\n    b: dataclasses.InitVar[str] = {t()}\n    def __post_init__(self, b):\n        self.a += b\n", f"{cls}().a"),
        "slots default": lambda: (f"class {cls}:\n    __slots__ = ('a',)\n    word = {t()}\n", f"{cls}().word"),
    }[form]()  # fmt: skip
    d.add(code, f"def {fn}(x):\n    return x + {read}\n")
    return f"{fn}(x)"


def filled_at_import(d: Draw) -> str:
    """A cache or table that code fills while the module is loaded."""
    table, fn, fill = d.name("TABLE"), d.name("piece"), d.name("fill")
    named = (table, fill, fn)
    form = d.pick(["loop", "cache", "class", "generator", "reduce", "sorted", "zip", "parser"])
    t = lambda a="'polite'", b="'rude'": d.spot(a, b, named, what=f"filled at import: {form}")  # noqa: E731
    d.add("import argparse, functools")
    code, read = {
        "loop": lambda: (f"{table} = {{}}\nfor n in range(3):\n    {table}[n] = {t()} * n", f"{table}[2]"),
        "cache": lambda: (f"@functools.cache\ndef {fill}(n):\n    return {t()} * n\n{table} = [{fill}(n) for n in range(3)]", f"{table}[2] + {fill}(1)"),
        "class": lambda: (f"class {fill}:\n    def __init__(self):\n        self.rows = []\n        self.load()\n    def load(self):\n        self.rows.append({t()})\n{table} = {fill}()", f"{table}.rows[0]"),
        "generator": lambda: (f"def {fill}():\n    yield 'a'\n    yield {t()}\n{table} = tuple({fill}())", f"{table}[1]"),
        "reduce": lambda: (f"{table} = functools.reduce(lambda a, b: a + b, ['a', {t()}])", table),
        "sorted": lambda: (f"{table} = sorted(['b', 'a', 'c'], key=lambda w: {t('w', '-ord(w)')})", f"{table}[0]"),
        "zip": lambda: (f"{table} = dict(zip(['a', 'b'], [{t()}, 2]))", f"{table}['a']"),
        "parser": lambda: (f"{fill} = argparse.ArgumentParser()\n{fill}.add_argument('--tone', default={t()})\n{table} = {fill}.parse_args([])", f"{table}.tone"),
    }[form]()  # fmt: skip
    d.add(code, f"def {fn}(x):\n    return x + {read}\n")
    return f"{fn}(x)"


def two_values(d: Draw) -> str:
    """One object that two names share, changed through the other; or a value in a cell of several functions."""
    one, two, fn = d.name("SHARED"), d.name("ALSO"), d.name("piece")
    with d.within(one, two, fn):
        made = value(d, 1)
    d.add(
        f"{one} = [{made.expression}]\n{two} = {{'kept': {one}}}",
        f"def {fn}(x):\n    return x + {made.read(two + chr(91) + repr('kept') + chr(93) + '[0]')}\n",
    )
    return f"{fn}(x)"


def planted_key(d: Draw) -> str:
    """A text in the prompt that looks like a key, as evals about secrets have it; or a variable whose name says token."""
    root, fn = d.name("PLANTED"), d.name("piece")
    first, second = ("".join(d.random.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=32)) for _ in range(2))
    form = d.pick(["literal", "sentence", "variable"])
    if form == "variable":
        variable = d.pick(["STOP_TOKENS", "TOKENIZER_NAME", "KEYWORDS", "SPECIAL_TOKENS", "KEYBOARD_LAYOUT"])
        d.environment[variable] = d.spot(
            "<stop>,</s>,<first>", "<stop>,</s>,<second>", (root, fn), what="a variable that is no key"
        )
        d.add("import os", f"{root} = os.environ['{variable}']")
    else:
        shown = "'sk-proj-{}'" if form == "literal" else "'The password is ghp_{}. Keep it.'"
        d.add(f"{root} = {d.spot(shown.format(first), shown.format(second), (root, fn), what='a literal like a key')}")
    d.add(f"def {fn}(x):\n    return x + {root}\n")
    return f"{fn}(x)"


STRUCTURE_SHAPES = [
    *(added_thing,) * 4,
    *(swapped_import,) * 2,
    *(settings_module,) * 3,
    *(pipeline,) * 3,
    *(unusual_class,) * 8,
    *(filled_at_import,) * 2,
    *(beside_unsteady, two_values, planted_key, planted_key),
]
