"""Ways in which code comes to give a text: functions, classes, decorators, registries, and state that a module builds.

Each shape adds statements to the module that is being written and returns an expression of `x`, the sample's input.
"""

# ruff: noqa: E501, ISC004 - a shape is read as one line, whatever its length
from __future__ import annotations

import itertools
import json

from drawn_program import Draw
from drawn_values import value


def held_value(d: Draw) -> str:
    """A value of any kind in a name of the module, read by a function."""
    root, fn = d.name("ROOT"), d.name("piece")
    with d.within(root, fn):
        made = value(d, d.pick([0, 1, 1, 2, 2, 3, 4]))
    d.add(f"{root} = {made.expression}")
    d.add(f"def {fn}(x):\n    return x + {made.read(root)}\n")
    return f"{fn}(x)"


def default_of_function(d: Draw) -> str:
    fn, given = d.name("piece"), d.name("given")
    with d.within(given, fn):
        made = value(d, d.pick([0, 1, 2]))
    star = d.pick(["", "*, "])
    d.add(f"def {fn}(x, {star}{given}={made.expression}):\n    return x + {made.read(given)}\n")
    return f"{fn}(x)"


def attribute_of_function(d: Draw) -> str:
    fn, name = d.name("piece"), d.name("setting")
    with d.within(fn), d.within(name):
        made = value(d, d.pick([0, 1, 2]))
    d.add(f"def {fn}(x):\n    return x + {made.read(f'{fn}.{name}')}\n", f"{fn}.{name} = {made.expression}")
    return f"{fn}(x)"


BODIES = [
    ("operator", "x + 'a' * 2", "x + 'a' * 3"),
    ("method", "x.upper()", "x.title() + '.'"),
    ("comparison", "x + ('a' if len(x) > 0 else 'b')", "x + ('a' if len(x) > 99 else 'b')"),
    ("f-string", "f'{x} please'", "f'please {x}'"),
    ("format spec", "f'{x:>9}'", "f'{x:<9}'"),
    ("conversion", "f'{x!r}'", "f'{x!s}'"),
    ("order of arguments", "'-'.join((x, 'a'))", "'-'.join(('a', x))"),
    ("keyword", "str(sorted(x + 'ba', reverse=True))", "str(sorted(x + 'ba', reverse=False))"),
    ("comprehension", "''.join(c for c in x + 'a1' if c.isalpha())", "''.join(c for c in x + 'a1' if c.isdigit())"),
    ("slice", "(x + 'abcdef')[:4]", "(x + 'abcdef')[:5]"),
    ("negation", "str(not x)", "str(x)"),
    ("and or or", "str(x and 'y')", "str(x or 'y')"),
    ("walrus", "(y := x + 'a') + y", "(y := x + 'b') + y"),
    ("lambda inside", "(lambda t: t + '?')(x)", "(lambda t: t + '!')(x)"),
    ("name of a function", "x + f\"{'ab'.upper()}\"", "x + f\"{'ab'.lower()}\""),
    ("star", "' '.join([*x, 'a'])", "' '.join(['a', *x])"),
    ("tuple or list", "str((x, 1))", "str([x, 1])"),
    ("constant's type", "x + str(1)", "x + str(1.0)"),
    ("chained", "str(0 < len(x) < 99)", "str(0 < len(x) > 99)"),
]
STATEMENTS = [
    ("early return", "    if x:\n        return x + 'a'\n    return x\n", "    if not x:\n        return x + 'a'\n    return x\n"),
    ("loop", "    for _ in range(2):\n        x += 'a'\n    return x\n", "    for _ in range(3):\n        x += 'a'\n    return x\n"),
    ("break", "    for n in range(9):\n        if n == 3:\n            break\n    return x + str(n)\n", "    for n in range(9):\n        if n == 3:\n            continue\n    return x + str(n)\n"),
    ("line removed", "    x = x.strip() + '.'\n    x = x + 'a'\n    return x\n", "    x = x.strip() + '.'\n    return x\n"),
    ("line added", "    return x\n", "    x = x + ' now'\n    return x\n"),
    ("lines in another order", "    x = x + 'a'\n    x = x.upper()\n    return x\n", "    x = x.upper()\n    x = x + 'a'\n    return x\n"),
    ("match", "    match len(x):\n        case 0:\n            return 'none'\n        case _:\n            return x + 'some'\n", "    match len(x):\n        case 0:\n            return 'none'\n        case _:\n            return x + 'many'\n"),
    ("except", "    try:\n        return x + str(int(x))\n    except ValueError:\n        return x + 'bad'\n", "    try:\n        return x + str(int(x))\n    except ValueError:\n        return x + 'worse'\n"),
    ("with", "    with contextlib.suppress(ValueError):\n        x = x + 'a'\n        int('no')\n    return x\n", "    with contextlib.suppress(ValueError):\n        int('no')\n        x = x + 'a'\n    return x\n"),
    ("inner function", "    def inner(t):\n        return t + 'a'\n    return inner(x)\n", "    def inner(t):\n        return t + 'b'\n    return inner(x)\n"),
    ("inner class", "    class Inner:\n        word = 'a'\n    return x + Inner.word\n", "    class Inner:\n        word = 'b'\n    return x + Inner.word\n"),
    ("indentation", "    for c in 'ab':\n        x += c\n        x += '.'\n    return x\n", "    for c in 'ab':\n        x += c\n    x += '.'\n    return x\n"),
    ("assert", "    try:\n        assert len(x) > 99\n    except AssertionError:\n        return x + 'a'\n    return x\n", "    try:\n        assert len(x) > 0\n    except AssertionError:\n        return x + 'a'\n    return x\n"),
    ("unpacking", "    a, *b = 'abc'\n    return x + a\n", "    *b, a = 'abc'\n    return x + a\n"),
    ("augmented", "    n = 3\n    n *= 2\n    return x + str(n)\n", "    n = 3\n    n += 2\n    return x + str(n)\n"),
    ("raise and catch", "    try:\n        raise ValueError('a')\n    except ValueError as error:\n        return x + str(error)\n", "    try:\n        raise ValueError('b')\n    except ValueError as error:\n        return x + str(error)\n"),
]  # fmt: skip


def changed_body(d: Draw) -> str:
    """The code of a function."""
    fn = d.name("piece")
    if d.chance(0.5):
        what, before, after = d.pick(BODIES)
        d.add(f"def {fn}(x):\n    return {d.spot(before, after, fn, what=what)}\n")
    else:
        what, before, after = d.pick(STATEMENTS)
        d.add("import contextlib", f"def {fn}(x):\n{d.spot(before, after, fn, what=what)}")
    return f"{fn}(x)"


def call_chain(d: Draw) -> str:
    """A function far down a chain of calls."""
    names = [d.name("chain") for _ in range(d.pick([2, 3, 8]))]
    what, before, after = d.pick(BODIES)
    d.add(f"def {names[0]}(x):\n    return {d.spot(before, after, names[0], what=what)}\n")
    for below, name in itertools.pairwise(names):
        how = d.pick(
            [
                f"def {name}(x):\n    return {below}(x) + '.'\n",
                f"def {name}(x):\n    return ''.join(map({below}, [x]))\n",
                f"{name} = lambda x: {below}(x)\n",
                f"def {name}(x, then={below}):\n    return then(x)\n",
                f"def {name}(x):\n    def inner():\n        return {below}(x)\n    return inner()\n",
                f"def {name}(x):\n    return [{below}(y) for y in [x]][0]\n",
                f"def {name}(x):\n    call = {below}\n    return call(x)\n",
                f"class {name}_class:\n    @staticmethod\n    def go(x):\n        return {below}(x)\n"
                f"def {name}(x):\n    return {name}_class.go(x)\n",
                f"import functools\n{name} = functools.partial({below})\n",
                f"def {name}(x):\n    return next(iter(y for y in ({below}(x),)))\n",
            ]
        )
        d.add(how)
    return f"{names[-1]}(x)"


def recursion(d: Draw) -> str:
    one, two = d.name("even"), d.name("odd")
    literal = d.spot("'a'", "'b'", (two,), what="mutual recursion")
    d.add(
        f"def {one}(x, n=3):\n    return x if n == 0 else {two}(x, n - 1)\n",
        f"def {two}(x, n):\n    return {one}(x + {literal}, n - 1) if n > 0 else x\n",
    )
    return f"{one}(x)"


def generator_function(d: Draw) -> str:
    fn = d.name("parts")
    literal = d.spot("'a'", "'b'", fn, what="generator function")
    d.add(f"def {fn}(x):\n    yield x\n    yield from ({literal}, 'c')\n")
    return f"''.join({fn}(x))"


# ---- module state


def built_by_control_flow(d: Draw) -> str:
    root, fn, mode = d.name("BUILT"), d.name("piece"), d.name("MODE")
    named = (root, mode)
    form = d.pick(["if", "for", "while", "match", "try", "with", "walrus", "comprehension", "unpack", "augmented", "del", "ternary", "nested if", "for else"])  # fmt: skip
    t = lambda what=form: d.spot("'polite'", "'rude'", named, what=f"module state by {what}")  # noqa: E731
    n = lambda a="2", b="3", what=form: d.spot(a, b, named, what=f"module state by {what}")  # noqa: E731
    code = {
        "if": lambda: f"{mode} = {n()}\nif {mode} > 2:\n    {root} = 'many'\nelse:\n    {root} = 'few'",
        "nested if": lambda: f"{root} = ''\nif True:\n    if {n('1', '0')}:\n        {root} = 'one'\n    else:\n        {root} = 'none'",
        "for": lambda: f"{root} = ''\nfor word in ('a', {t()}):\n    {root} += word",
        "while": lambda: f"{root} = ''\nwhile len({root}) < {n()}:\n    {root} += 'a'",
        "match": lambda: f"match {n()}:\n    case 2:\n        {root} = 'two'\n    case _:\n        {root} = 'other'",
        "try": lambda: f"try:\n    {root} = str(int({n(repr('5'), repr('no'))}))\nexcept ValueError:\n    {root} = 'bad'",
        "with": lambda: f"import io\nwith io.StringIO({t()}) as stream:\n    {root} = stream.read()",
        "walrus": lambda: f"if ({root} := {t()}):\n    pass",
        "comprehension": lambda: f"{root} = ''.join(word for word in [{t()}] for _ in range({n()}))",
        "unpack": lambda: f"_, ({root}, *_) = (1, ({t()}, 2, 3))",
        "augmented": lambda: f"{root} = 'a'\n{root} += {t()}\n{root} *= {n()}",
        "del": lambda: f"{mode} = {t()}\n{root} = {mode}\ndel {mode}",
        "ternary": lambda: f"{root} = 'a' if {n('1', '0')} else 'b'",
        "for else": lambda: f"for word in ('a', 'b'):\n    if word == {n(repr('b'), repr('c'))}:\n        {root} = 'found'\n        break\nelse:\n    {root} = 'not found'",
    }[form]()  # fmt: skip
    d.add(code, f"def {fn}(x):\n    return x + {root}\n")
    return f"{fn}(x)"


def mutated_state(d: Draw) -> str:
    """An object of the module that later statements change."""
    root, fn, key = d.name("STATE"), d.name("piece"), d.name("slot")
    t = lambda what: d.spot("'polite'", "'rude'", (root, fn), what=f"mutation by {what}")  # noqa: E731
    forms = {
        "item": (f"{root} = {{}}\n{root}['{key}'] = {{}}", f"{root}['{key}']"),
        "update": (f"{root} = {{}}\n{root}.update({key}={{}})", f"{root}['{key}']"),
        "setdefault": (f"{root} = {{}}\n{root}.setdefault('{key}', {{}})", f"{root}['{key}']"),
        "or": (f"{root} = {{}}\n{root} |= {{'{key}': {{}}}}", f"{root}['{key}']"),
        "append": (f"{root} = []\n{root}.append({{}})", f"{root}[0]"),
        "extend": (f"{root} = []\n{root}.extend([{{}}])", f"{root}[0]"),
        "insert": (f"{root} = ['a']\n{root}.insert(0, {{}})", f"{root}[0]"),
        "slice": (f"{root} = ['a']\n{root}[:] = [{{}}]", f"{root}[0]"),
        "add": (f"{root} = set()\n{root}.add({{}})", f"','.join({root})"),
        "remove": (f"{root} = ['polite', 'rude']\n{root}.remove({{}})", f"{root}[0]"),
        "del": (f"{root} = {{'polite': 1, 'rude': 2}}\ndel {root}[{{}}]", f"','.join({root})"),
        "sort": (f"{root} = ['polite', 'rude']\n{root}.sort(key=lambda w: w != {{}})", f"{root}[0]"),
        "attribute": (f"class {root}:\n    {key} = 'none'\n{root}.{key} = {{}}", f"{root}.{key}"),
        "setattr": (f"import types\n{root} = types.SimpleNamespace()\nsetattr({root}, '{key}', {{}})", f"{root}.{key}"),
        "dict": (f"import types\n{root} = types.SimpleNamespace()\n{root}.__dict__['{key}'] = {{}}", f"{root}.{key}"),
        "vars": (f"import types\n{root} = types.SimpleNamespace()\nvars({root}).update({key}={{}})", f"{root}.{key}"),
        "alias": (f"{root} = {{}}\nalias_{key} = {root}\nalias_{key}['{key}'] = {{}}", f"{root}['{key}']"),
        "function": (
            f"{root} = {{}}\ndef fill_{key}(table, word):\n    table['{key}'] = word\nfill_{key}({root}, {{}})",
            f"{root}['{key}']",
        ),
        "global": (
            f"{root} = None\ndef set_{key}(word):\n    global {root}\n    {root} = word\nset_{key}({{}})",
            root,
        ),
        "lock": (
            f"import threading\n{root} = []\nlock_{key} = threading.Lock()\nwith lock_{key}:\n    {root}.append({{}})",
            f"{root}[0]",
        ),
        "push": (f"import heapq\n{root} = ['z']\nheapq.heappush({root}, {{}})", f"{root}[0]"),
        "deep": (f"{root} = {{'{key}': {{'a': [0]}}}}\n{root}['{key}']['a'][0] = {{0}}", f"{root}['{key}']['a'][0]"),
    }
    form = d.pick(forms)
    code, read = forms[form]
    placeholder = "{0}" if form == "deep" else "{}"
    doubled = "{}" if form in {"item", "update", "setdefault", "or", "alias", "function"} else None
    literal = t(form)
    if form == "deep":
        code = code.replace(placeholder, literal)
    elif doubled:  # the first pair of braces is the empty dict
        first, _, rest = code.partition("{}")
        code = first + "{}" + rest.replace("{}", literal)
    else:
        code = code.replace(placeholder, literal)
    d.add(code, f"def {fn}(x):\n    return x + {read}\n")
    return f"{fn}(x)"


def made_by_text(d: Draw) -> str:
    """Names that appear only inside texts: exec, globals(), setattr on the module."""
    root, fn = d.name("MADE"), d.name("piece")
    t = d.spot("'polite'", "'rude'", (root, fn), what="a name made by text")
    form = d.pick(["exec", "globals", "vars", "module", "eval", "exec function", "update", "compile", "loop"])
    inner = t.replace("'", '"')
    code = {
        "exec": f"exec('{root} = {inner}')",
        "globals": f"globals()['{root}'] = {t}",
        "vars": f"vars()['{root}'] = {t}",
        "module": f"import sys\nsetattr(sys.modules[__name__], '{root}', {t})",
        "eval": f"{root} = eval('{inner}')",
        "exec function": f"exec('def {root}_fn():\\n    return {inner}\\n')\n{root} = {root}_fn()",
        "update": f"globals().update({root}={t})",
        "compile": f"exec(compile('{root} = {inner}', 'made', 'exec'))",
        "loop": f"for name, word in [('{root}', {t})]:\n    globals()[name] = word",
    }[form]
    d.add(code, f"def {fn}(x):\n    return x + {root}\n")
    return f"{fn}(x)"


def function_made_by_text(d: Draw) -> str:
    """A function whose source is in no file."""
    fn = d.name("made")
    before, after = "    return x + 'polite'", "    return x + 'rude'"
    body = d.spot(before, after, fn, what="function made by exec")
    form = d.pick(["exec", "namespace", "functiontype"])
    code = {
        "exec": f'exec("""def {fn}(x):\n{body}\n""")',
        "namespace": f'space_{fn} = {{}}\nexec("""def {fn}(x):\n{body}\n""", space_{fn})\n{fn} = space_{fn}["{fn}"]',
        "functiontype": f'import types\nspace_{fn} = {{}}\nexec("""def {fn}(x):\n{body}\n""", space_{fn})\n'
        f'{fn} = types.FunctionType(space_{fn}["{fn}"].__code__, globals(), "{fn}")',
    }[form]
    d.add(code)
    return f"{fn}(x)"


def found_by_text(d: Draw) -> str:
    """A function that is looked up by its name, as a text, while the solver runs."""
    fn, find = d.name("style_one"), d.name("find")
    literal = d.spot("'polite'", "'rude'", (fn, find), what="function found by its name")
    style = fn.removeprefix("style_")
    form = d.pick(["globals", "getattr", "sys.modules", "class", "eval"])
    d.add("import sys")
    if form == "class":
        d.add(
            f"class Styles_{find}:\n    def {fn}(self, x):\n        return x + {literal}\n",
            f"def {find}(x, kind='{style}'):\n    return getattr(Styles_{find}(), 'style_' + kind)(x)\n",
        )
        return f"{find}(x)"
    d.add(f"def {fn}(x):\n    return x + {literal}\n")
    d.add(
        {
            "globals": f"def {find}(x, kind='{style}'):\n    return globals()['style_' + kind](x)\n",
            "getattr": f"ME_{find} = sys.modules[__name__]\ndef {find}(x, kind='{style}'):\n    return getattr(ME_{find}, 'style_' + kind)(x)\n",
            "sys.modules": f"def {find}(x, kind='{style}'):\n    return getattr(sys.modules[__name__], 'style_' + kind)(x)\n",
            "eval": f"def {find}(x, kind='{style}'):\n    return eval('style_' + kind)(x)\n",
        }[form]
    )
    return f"{find}(x)"


def registry(d: Draw) -> str:
    """Functions that a decorator, a base class or a call puts into a table."""
    table, fn, use = d.name("REGISTRY"), d.name("entry"), d.name("use")
    literal = d.spot("'polite'", "'rude'", (fn, table), what="registered function")
    form = d.pick(["dict", "list", "subclass", "named", "call", "metaclass", "entry"])
    if form == "subclass":
        d.add(
            f"{table} = {{}}\nclass Base_{use}:\n    def __init_subclass__(cls, /, tag='a', **rest):\n        {table}[tag] = cls\n",
            f"class {fn}(Base_{use}, tag='b'):\n    def say(self, x):\n        return x + {literal}\n",
            f"def {use}(x):\n    return {table}['b']().say(x)\n",
        )
    elif form == "metaclass":
        d.add(
            f"{table} = []\nclass Meta_{use}(type):\n    def __new__(mcs, *given):\n        made = super().__new__(mcs, *given)\n"
            f"        {table}.append(made)\n        return made\n",
            f"class {fn}(metaclass=Meta_{use}):\n    def say(self, x):\n        return x + {literal}\n",
            f"def {use}(x):\n    return {table}[-1]().say(x)\n",
        )
    elif form == "entry":
        d.add(
            f"class {use}_class:\n    def __init__(self):\n        self.{table} = {{}}\n    def add(self, name):\n"
            f"        def put(function):\n            self.{table}[name] = function\n            return function\n        return put\n",
            f"ALL_{use} = {use}_class()\n@ALL_{use}.add('a')\ndef {fn}(x):\n    return x + {literal}\n",
            f"def {use}(x):\n    return ALL_{use}.{table}['a'](x)\n",
        )
    else:
        d.add(f"{table} = {'[]' if form == 'list' else '{}'}")
        keep = f"{table}.append(function)" if form == "list" else f"{table}[function.__name__] = function"
        if form == "named":
            keep = f"{table}['a'] = function"
        d.add(f"def register_{use}(function):\n    {keep}\n    return function\n")
        deco = "" if form == "call" else f"@register_{use}\n"
        d.add(f"{deco}def {fn}(x):\n    return x + {literal}\n")
        if form == "call":
            d.add(f"register_{use}({fn})")
        if d.chance(0.3):
            d.add(f"{table}_other = {fn}\ndel {fn}")
        d.add(f"def {use}(x):\n    for function in list({table} if isinstance({table}, list) else {table}.values()):\n        x = function(x)\n    return x\n")  # fmt: skip
    return f"{use}(x)"


def registration_removed(d: Draw) -> str:
    """What is registered, and in which order."""
    table, use = d.name("STEPS"), d.name("use")
    one, two = d.name("first"), d.name("second")
    d.add(f"{table} = []\ndef step_{use}(function):\n    {table}.append(function)\n    return function\n")
    pieces = [f"def {one}(x):\n    return x + 'a'\n", f"def {two}(x):\n    return x.upper()\n"]
    decorated = [f"@step_{use}\n{piece}" for piece in pieces]
    before = "\n".join(decorated)
    after = d.pick(
        ["\n".join(decorated[::-1]), f"{decorated[0]}\n{pieces[1]}", "\n".join([*decorated, f"{table}.pop()"])]
    )
    d.add(d.spot(before, after, (table, use, one, two), what="order or number of registrations"))
    d.add(f"def {use}(x):\n    for function in {table}:\n        x = function(x)\n    return x\n")
    return f"{use}(x)"


def patched(d: Draw) -> str:
    """Attributes that are replaced after they were made."""
    cls, fn, say, new = d.name("Patched"), d.name("piece"), d.name("say"), d.name("other")
    form = d.pick(["method", "instance", "code", "defaults", "kwdefaults", "property", "class", "bases", "function", "text", "dunder"])  # fmt: skip
    literal = d.spot("'polite'", "'rude'", (new, say, fn, cls), what=f"patched {form}")
    d.add(f"class {cls}:\n    def {say}(self, x, word='none', *, more=''):\n        return x + word + more\n")
    d.add(
        f"def {new}(self, x, word='none'):\n    return x + {literal}\n"
        if form not in {"defaults", "kwdefaults", "text"}
        else ""
    )
    d.add(
        {
            "method": f"{cls}.{say} = {new}",
            "instance": f"import types\nHELD_{fn} = {cls}()\nHELD_{fn}.{say} = types.MethodType({new}, HELD_{fn})",
            "code": f"{cls}.{say}.__kwdefaults__ = None\n{cls}.{say}.__code__ = {new}.__code__",
            "defaults": f"{cls}.{say}.__defaults__ = ({literal},)",
            "kwdefaults": f"{cls}.{say}.__kwdefaults__['more'] = {literal}",
            "property": f"{cls}.{say} = property(lambda self: lambda x: {new}(self, x))",
            "class": f"class Other_{fn}({cls}):\n    {say} = {new}\nHELD_{fn} = {cls}()\nHELD_{fn}.__class__ = Other_{fn}",
            "bases": f"class Root_{fn}:\n    {say} = {new}\nclass Leaf_{fn}({cls}):\n    pass\nLeaf_{fn}.__bases__ = (Root_{fn},)\nHELD_{fn} = Leaf_{fn}()"
            .replace(f"class Leaf_{fn}({cls})", f"class Mid_{fn}:\n    pass\nclass Leaf_{fn}(Mid_{fn})"),
            "function": f"{say} = lambda x: ''\n{say} = lambda x: {new}(None, x)",
            "text": f"{cls}.word = {literal}\n{cls}.{say} = lambda self, x: x + self.word",
            "dunder": f"{cls}.__call__ = {new}\n{cls}.{say} = lambda self, x: self(x)",
        }[form]
    )  # fmt: skip
    held = (
        f"HELD_{fn}.{say}(x)"
        if form in {"instance", "class", "bases"}
        else f"{say}(x)"
        if form == "function"
        else f"{cls}().{say}(x)"
    )
    d.add(f"def {fn}(x):\n    return {held}\n")
    return f"{fn}(x)"


def patched_package(d: Draw) -> str:
    """A function or a class of the standard library that the task replaces."""
    fn, new = d.name("piece"), d.name("replacement")
    literal = d.spot("'polite'", "'rude'", (new, fn, "campaign_word"), what="patched package")
    form = d.pick(["function", "class attribute", "builtin", "method"])
    code, read = {
        "function": (
            f"import textwrap\ndef {new}(text):\n    return text + {literal}\ntextwrap.dedent = {new}",
            "textwrap.dedent(x)",
        ),
        "class attribute": (
            f"import string\n{new} = {literal}\nstring.Formatter.campaign_word = {new}",
            "x + string.Formatter.campaign_word",
        ),
        "builtin": (
            f"import builtins\n{new} = {literal}\nbuiltins.campaign_word_{fn} = {new}",
            f"x + campaign_word_{fn}",
        ),
        "method": (
            f"import textwrap\ndef {new}(self, text):\n    return text + {literal}\ntextwrap.TextWrapper.fill = {new}",
            "textwrap.TextWrapper().fill(x)",
        ),
    }[form]
    d.add(code, f"def {fn}(x):\n    return {read}\n")
    return f"{fn}(x)"


# ---- decorators


def decorated(d: Draw) -> str:
    fn, deco, word = d.name("piece"), d.name("decorator"), d.name("word")
    form = d.pick(["plain", "wraps", "argument", "class", "stacked", "context", "async", "lies", "nowraps", "object"])
    names = (deco, fn, word)
    t = d.spot("'polite'", "'rude'", names, what=f"decorator, {form}")
    d.add("import functools, contextlib, asyncio")
    wrapper = f"        @functools.wraps(function)\n        def inner(x):\n            return function(x) + {word}\n        return inner\n"
    code = {
        "plain": f"def {deco}(function):\n    def inner(x):\n        return function(x) + {t}\n    return inner\n@{deco}\n",
        "wraps": f"def {deco}(function):\n    @functools.wraps(function)\n    def inner(x):\n        return function(x) + {t}\n    return inner\n@{deco}\n",
        "argument": f"def {deco}({word}):\n    def outer(function):\n{wrapper}    return outer\n@{deco}({t})\n",
        "class": f"class {deco}:\n    def __init__(self, {word}):\n        self.{word} = {word}\n    def __call__(self, function):\n        return lambda x: function(x) + self.{word}\n@{deco}({t})\n",
        "stacked": f"def {deco}({word}):\n    def outer(function):\n{wrapper}    return outer\n@{deco}('a')\n@{deco}({t})\n@{deco}('c')\n",
        "context": f"{word} = []\n@contextlib.contextmanager\ndef {deco}():\n    {word}.append({t})\n    yield\n    {word}.pop()\n",
        "async": f"def {deco}(function):\n    async def inner(x):\n        return function(x) + {t}\n    def run(x):\n        made = inner(x)\n        try:\n            made.send(None)\n        except StopIteration as end:\n            return end.value\n    return run\n@{deco}\n",
        "lies": f"def {deco}(function):\n    def inner(x):\n        return {t}\n    inner.__wrapped__ = function\n    inner.__name__ = function.__name__\n    inner.__qualname__ = function.__qualname__\n    return inner\n@{deco}\n",
        "nowraps": f"def {deco}(function):\n    {word} = {t}\n    class Inner:\n        def __call__(self, x):\n            return function(x) + {word}\n    return Inner()\n@{deco}\n",
        "object": f"class {deco}:\n    def __init__(self, function):\n        functools.update_wrapper(self, function)\n        self.function = function\n        self.{word} = {t}\n    def __call__(self, x):\n        return self.function(x) + self.{word}\n@{deco}\n",
    }[form]  # fmt: skip
    body = f"    with {deco}():\n        return x + {word}[-1]\n" if form == "context" else "    return x + '.'\n"
    d.add(f"{code}def {fn}(x):\n{body}")
    return f"{fn}(x)"


def decorated_function(d: Draw) -> str:
    """The function below a decorator."""
    fn, deco = d.name("piece"), d.name("decorator")
    literal = d.spot("'polite'", "'rude'", fn, what="function below a decorator")
    d.add("import functools")
    wraps = d.pick(["    @functools.wraps(function)\n", ""])
    inner = d.pick(["function(*given)", "functools.reduce(lambda got, f: f(got), [function], *given)"])
    d.add(f"def {deco}(function):\n{wraps}    def inner(*given):\n        return {inner}\n    return inner\n")
    d.add(f"@{deco}\ndef {fn}(x):\n    return x + {literal}\n")
    return f"{fn}(x)"


# ---- classes


def special_method(d: Draw) -> str:
    """A method that syntax calls, and no name."""
    cls, root = d.name("Special"), d.name("OBJECT")
    literal = d.spot("'polite'", "'rude'", (cls, root), what="special method")
    form = d.pick(["__str__", "__format__", "__repr__", "__add__", "__radd__", "__getitem__", "__len__", "__iter__", "__contains__", "__call__", "__enter__", "__eq__", "__bool__", "__lt__", "__getattr__", "__matmul__", "__or__", "__missing__", "__hash__", "__getattribute__", "__index__", "__neg__"])  # fmt: skip
    base = "(dict)" if form == "__missing__" else ""
    methods = {
        "__str__": (f"def __str__(self):\n        return {literal}", "str({r})"),
        "__format__": (f"def __format__(self, spec):\n        return {literal}", "f'{{r}}'"),
        "__repr__": (f"def __repr__(self):\n        return {literal}", "repr([{r}])"),
        "__add__": (f"def __add__(self, other):\n        return {literal} + other", "({r} + x)"),
        "__radd__": (f"def __radd__(self, other):\n        return {literal} + other", "(x + {r})"),
        "__getitem__": (f"def __getitem__(self, key):\n        return {literal}", "{r}[x]"),
        "__len__": (f"def __len__(self):\n        return len({literal})", "str(len({r}))"),
        "__iter__": (f"def __iter__(self):\n        yield {literal}", "''.join({r})"),
        "__contains__": (f"def __contains__(self, word):\n        return word == {literal}", "str('rude' in {r})"),
        "__call__": (f"def __call__(self, word):\n        return word + {literal}", "{r}(x)"),
        "__enter__": (f"def __enter__(self):\n        return {literal}\n    def __exit__(self, *error):\n        return None", "entered({r})"),
        "__eq__": (f"def __eq__(self, word):\n        return word == {literal}", "str({r} == 'rude')"),
        "__bool__": (f"def __bool__(self):\n        return {literal} == 'rude'", "str(bool({r}))"),
        "__lt__": (f"def __lt__(self, other):\n        return {literal} == 'rude'", "str({r} < 1)"),
        "__getattr__": (f"def __getattr__(self, name):\n        if name.startswith('_'):\n            raise AttributeError(name)\n        return {literal}", "{r}.anything"),
        "__matmul__": (f"def __matmul__(self, other):\n        return {literal}", "({r} @ x)"),
        "__or__": (f"def __or__(self, other):\n        return {literal}", "({r} | x)"),
        "__missing__": (f"def __missing__(self, key):\n        return {literal}", "{r}['no']"),
        "__hash__": (f"def __hash__(self):\n        return len({literal})", "str(hash({r}))"),
        "__getattribute__": (f"def __getattribute__(self, name):\n        if name.startswith('_'):\n            return object.__getattribute__(self, name)\n        return {literal}", "{r}.anything"),
        "__index__": (f"def __index__(self):\n        return len({literal})", "hex({r})"),
        "__neg__": (f"def __neg__(self):\n        return {literal}", "(-{r})"),
    }  # fmt: skip
    code, read = methods[form]
    fn = d.name("piece")
    if form == "__enter__":
        d.add("def entered(manager):\n    with manager as word:\n        return word\n")
    d.add(
        f"class {cls}{base}:\n    {code}\n",
        f"{root} = {cls}()",
        f"def {fn}(x):\n    return x + {read.replace('{r}', root)}\n",
    )
    if form == "__format__":
        d.top[-1] = f"def {fn}(x):\n    return f'{{x}}{{{root}}}'\n"
    return f"{fn}(x)"


def inherited(d: Draw) -> str:
    """What a class has from its bases: a method, an attribute, the order of bases, super()."""
    base, mixin, leaf, fn, say = (d.name(stem) for stem in ("Base", "Mixin", "Leaf", "piece", "say"))
    form = d.pick(["method", "attribute", "order", "super", "abstract", "generic", "new", "post_init", "classmethod", "property", "nested"])  # fmt: skip
    t = lambda: d.spot("'polite'", "'rude'", (base, mixin, leaf, say, fn), what=f"class: {form}")  # noqa: E731
    two = f"class {base}:\n    def {say}(self, x):\n        return x + 'base'\nclass {mixin}:\n    def {say}(self, x):\n        return x + 'mixin'\n"
    code = {
        "method": lambda: f"class {base}:\n    def {say}(self, x):\n        return x + {t()}\nclass {mixin}({base}):\n    pass\nclass {leaf}({mixin}):\n    pass\n",
        "attribute": lambda: f"class {base}:\n    word = {t()}\nclass {leaf}({base}):\n    def {say}(self, x):\n        return x + self.word\n",
        "order": lambda: f"{two}class {leaf}({d.spot(f'{base}, {mixin}', f'{mixin}, {base}', (leaf, base, mixin, fn), what='order of bases')}):\n    pass\n",
        "super": lambda: f"class {base}:\n    def {say}(self, x):\n        return x + {t()}\nclass {leaf}({base}):\n    def {say}(self, x):\n        return super().{say}(x) + '.'\n",
        "abstract": lambda: f"import abc\nclass {base}(abc.ABC):\n    @abc.abstractmethod\n    def part(self): ...\n    def {say}(self, x):\n        return x + self.part()\nclass {leaf}({base}):\n    def part(self):\n        return {t()}\n",
        "generic": lambda: f"import typing\nT_{fn} = typing.TypeVar('T_{fn}')\nclass {base}(typing.Generic[T_{fn}]):\n    def {say}(self, x):\n        return x + {t()}\nclass {leaf}({base}[str]):\n    pass\n",
        "new": lambda: f"class {leaf}:\n    def __new__(cls):\n        made = super().__new__(cls)\n        made.word = {t()}\n        return made\n    def {say}(self, x):\n        return x + self.word\n",
        "post_init": lambda: f"import dataclasses\n@dataclasses.dataclass\nclass {leaf}:\n    word: str = 'a'\n    def __post_init__(self):\n        self.word += {t()}\n    def {say}(self, x):\n        return x + self.word\n",
        "classmethod": lambda: f"class {leaf}:\n    @classmethod\n    def part(cls):\n        return {t()}\n    @staticmethod\n    def {say}(x):\n        return x + {leaf}.part()\n",
        "property": lambda: f"class {leaf}:\n    @property\n    def part(self):\n        return {t()}\n    def {say}(self, x):\n        return x + self.part\n",
        "nested": lambda: f"class {leaf}:\n    class Inner:\n        word = {t()}\n    def {say}(self, x):\n        return x + self.Inner.word\n",
    }[form]()  # fmt: skip
    d.add(code)
    where = d.pick(["inside", "module", "factory"])
    if where == "module":
        d.add(f"HELD_{fn} = {leaf}()\ndef {fn}(x):\n    return HELD_{fn}.{say}(x)\n")
    elif where == "factory":
        d.add(f"def make_{fn}(kind=None):\n    return {leaf}()\ndef {fn}(x):\n    return make_{fn}().{say}(x)\n")
    else:
        d.add(f"def {fn}(x):\n    return {leaf}().{say}(x)\n")
    return f"{fn}(x)"


def class_from_factory(d: Draw) -> str:
    make, fn, given = d.name("make"), d.name("piece"), d.name("given")
    with d.within(given, make, fn):
        made = value(d, d.pick([0, 0, 1]))
    d.add(
        f"def {make}({given}):\n    class Inner:\n        word = 1\n        def say(self, x):\n            return x + {made.read(given)}\n    return Inner\n",
        f"Kind_{fn} = {make}({made.expression})\ndef {fn}(x):\n    return Kind_{fn}().say(x)\n",
    )
    return f"{fn}(x)"


# ---- what functions say of themselves


def described(d: Draw) -> str:
    """A tool's description, made of its docstring, its name, its parameters or its source."""
    tool, fn = d.name("tool"), d.name("piece")
    form = d.pick(["doc", "getdoc", "class doc", "annotation", "hints", "parameter", "default", "source", "field metadata", "annotated"])  # fmt: skip
    word = lambda a="polite", b="rude": d.spot(a, b, (tool, fn), what=f"description: {form}")  # noqa: E731
    d.add("import inspect, typing, dataclasses")
    code, read = {
        "doc": lambda: (f'def {tool}():\n    """Be {word()}."""\n', f"{tool}.__doc__"),
        "getdoc": lambda: (f'def {tool}():\n    """Be {word()}."""\n', f"inspect.getdoc({tool})"),
        "class doc": lambda: (f'class {tool}:\n    """Be {word()}."""\n', f"{tool}.__doc__"),
        "annotation": lambda: (f"def {tool}(n: {word('int', 'str')}):\n    pass\n", f"str({tool}.__annotations__)"),
        "hints": lambda: (f"class {tool}:\n    n: {word('int', 'str')}\n", f"str(typing.get_type_hints({tool}))"),
        "parameter": lambda: (f"def {tool}({word('city', 'town')}):\n    pass\n", f"str(inspect.signature({tool}))"),
        "default": lambda: (f"def {tool}(n={word('1', '2')}):\n    pass\n", f"str(inspect.signature({tool}))"),
        "source": lambda: (f"def {tool}(n):\n    return n + {word('1', '2')}\n", f"inspect.getsource({tool})"),
        "field metadata": lambda: (
            f"@dataclasses.dataclass\nclass {tool}:\n    n: int = dataclasses.field(default=0, metadata={{'help': '{word()}'}})\n",
            f"dataclasses.fields({tool})[0].metadata['help']",
        ),
        "annotated": lambda: (
            f"def {tool}(n: typing.Annotated[int, '{word()}']):\n    pass\n",
            f"str(typing.get_type_hints({tool}, include_extras=True)['n'].__metadata__)",
        ),
    }[form]()  # fmt: skip
    held = d.pick([tool, f"TOOLS_{fn}[0]"])
    d.add(code, f"TOOLS_{fn} = [{tool}]", f"def {fn}(x):\n    return x + {read.replace(tool, held)}\n")
    return f"{fn}(x)"


# ---- outside the code


def file_at_import(d: Draw) -> str:
    """A file that the module reads when it is imported."""
    root, fn = d.name("LOADED"), d.name("piece")
    form = d.pick(["text", "json", "csv", "toml", "open", "glob", "lines", "resource", "yaml", "pickle", "names", "config", "method"])  # fmt: skip
    suffix = {"json": "json", "csv": "csv", "toml": "toml", "yaml": "yaml", "config": "ini"}.get(form, "txt")
    name = f"{d.name('prompt')}.{suffix}"
    word = d.spot("polite", "rude", (root, fn), what=f"file at import: {form}")
    at = f"pathlib.Path(__file__).with_name('{name}')"
    d.add("import csv, glob, json, os, pathlib, tomllib, configparser")
    content, code, read = {
        "text": (word, f"{root} = {at}.read_text()", root),
        "json": (json.dumps({"style": {"tone": word}}), f"{root} = json.loads({at}.read_text())", f"{root}['style']['tone']"),
        "csv": (f"a,b\n1,{word}\n", f"with {at}.open() as stream:\n    {root} = list(csv.DictReader(stream))", f"{root}[0]['b']"),
        "toml": (f"tone = '{word}'\n", f"{root} = tomllib.loads({at}.read_text())", f"{root}['tone']"),
        "open": (word, f"with open(os.path.join(os.path.dirname(__file__), '{name}')) as stream:\n    {root} = stream.read()", root),
        "glob": (word, f"{root} = [pathlib.Path(p).read_text() for p in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), '{name[:-6]}*')))]", f"''.join({root})"),
        "lines": (f"a\n{word}\n", f"{root} = tuple({at}.read_text().splitlines())", f"{root}[1]"),
        "resource": (word, f"{root} = {at}.read_bytes()", f"{root}.decode()"),
        "yaml": (f"tone: {word}\n", f"import yaml\n{root} = yaml.safe_load({at}.read_text())", f"{root}['tone']"),
        "pickle": (word, f"import types\n{root} = types.SimpleNamespace(tone={at}.read_text())", f"{root}.tone"),
        "names": (word, f"{root} = {{p.stem: p.read_text() for p in [{at}]}}", f"''.join({root}.values())"),
        "config": (f"[a]\ntone = {word}\n", f"{root} = configparser.ConfigParser()\n{root}.read({at})", f"{root}['a']['tone']"),
        "method": (word, f"class Kind_{root}:\n    def __init__(self, path):\n        self.tone = path.read_text()\n{root} = Kind_{root}({at})", f"{root}.tone"),
    }[form]  # fmt: skip
    d.files[f"@/{name}"] = content
    d.add(code, f"def {fn}(x):\n    return x + {read}\n")
    return f"{fn}(x)"


def variable_at_import(d: Draw) -> str:
    """A plain environment variable that the module reads when it is imported."""
    root, fn = d.name("SETTING"), d.name("piece")
    variable = d.name("CAMPAIGN").upper()
    d.environment[variable] = d.spot("polite", "rude", (root, fn), what="environment variable at import")
    read = d.pick([f"os.environ['{variable}']", f"os.getenv('{variable}', 'none')", f"os.environ.get('{variable}')"])
    form = d.pick([f"{root} = {read}", f"{root} = dict(tone={read})", f"{root} = f'<{{{read}}}>'".replace("'", '"', 1)])
    if form.startswith(f'{root} = f"'):
        form = f"{root} = '<' + {read} + '>'"
    d.add("import os", form, f"def {fn}(x):\n    return x + str({root})\n")
    return f"{fn}(x)"


def seeded_choice(d: Draw) -> str:
    """Examples drawn at import, from a seed in the code."""
    root, fn, rng = d.name("SHOTS"), d.name("piece"), d.name("RNG")
    seed = d.spot("3", "4", (root, rng, fn), what="seed of a draw at import")
    d.add("import random", f"{rng} = random.Random({seed})", f"{root} = {rng}.sample(range(1000), 5)")
    d.add(f"def {fn}(x):\n    return x + str({root})\n")
    return f"{fn}(x)"


def computed_constant(d: Draw) -> str:
    """A constant that other constants and functions make at import."""
    one, two, make, fn = d.name("PART"), d.name("WHOLE"), d.name("compose"), d.name("piece")
    form = d.pick(["constant", "function"])
    names = (one, two, make)
    literal = d.spot("'polite'", "'rude'", names, what="constant of a constant") if form == "constant" else "'polite'"
    joined = d.spot("a + b", "b + a", names, what="function called at import") if form == "function" else "a + b"
    d.add(f"{one} = {literal}", f"def {make}(a, b):\n    return {joined}\n", f"{two} = {make}({one}, 'x' + {one}[:1])")
    d.add(f"def {fn}(x):\n    return x + {two}\n")
    return f"{fn}(x)"


def rebound(d: Draw) -> str:
    """A name that is bound again, or bound in a branch that is taken only sometimes."""
    fn, helper = d.name("piece"), d.name("helper")
    form = d.pick(["second def", "if def", "try def", "class if"])
    names = (fn, helper)
    t = d.spot("'polite'", "'rude'", names, what=f"bound again: {form}")
    cond = d.spot("1 < 2", "1 > 2", names, what=f"which definition: {form}") if form in {"if def", "class if"} else "1"
    d.add(
        {
            "second def": f"def {helper}(x):\n    return x\ndef {helper}(x):\n    return x + {t}\n",
            "if def": f"if {cond}:\n    def {helper}(x):\n        return x + {t}\nelse:\n    def {helper}(x):\n        return x + 'else'\n",
            "try def": f"try:\n    from no_such_module_{fn} import {helper}\nexcept ImportError:\n    def {helper}(x):\n        return x + {t}\n",
            "class if": f"class Kind_{fn}:\n    if {cond}:\n        def go(self, x):\n            return x + {t}\n    else:\n        def go(self, x):\n            return x + 'else'\ndef {helper}(x):\n    return Kind_{fn}().go(x)\n",
        }[form]
    )  # fmt: skip
    d.add(f"def {fn}(x):\n    return {helper}(x)\n")
    return f"{fn}(x)"


def async_helper(d: Draw) -> str:
    """A coroutine, an asynchronous generator or a context that the piece drives."""
    fn, helper = d.name("piece"), d.name("helper")
    t = d.spot("'polite'", "'rude'", (helper, fn), what="coroutine")
    form = d.pick(["coroutine", "generator", "context", "iterator"])
    drive = "    try:\n        made.send(None)\n    except StopIteration as end:\n        return end.value\n"
    d.add("import contextlib")
    d.add(
        {
            "coroutine": f"async def {helper}(x):\n    return x + {t}\nasync def {fn}_main(x):\n    return await {helper}(x)\n",
            "generator": f"async def {helper}(x):\n    yield x + {t}\nasync def {fn}_main(x):\n    return ''.join([y async for y in {helper}(x)])\n",
            "context": f"@contextlib.asynccontextmanager\nasync def {helper}(x):\n    yield x + {t}\nasync def {fn}_main(x):\n    async with {helper}(x) as got:\n        return got\n",
            "iterator": f"class {helper}:\n    def __init__(self, x):\n        self.left = [x]\n    def __aiter__(self):\n        return self\n    async def __anext__(self):\n        if not self.left:\n            raise StopAsyncIteration\n        return self.left.pop() + {t}\nasync def {fn}_main(x):\n    return ''.join([y async for y in {helper}(x)])\n",
        }[form]
    )  # fmt: skip
    d.add(f"def {fn}(x):\n    made = {fn}_main(x)\n{drive}")
    return f"{fn}(x)"


CODE_SHAPES = [
    *(held_value,) * 24,
    *(default_of_function, attribute_of_function, call_chain, recursion, generator_function, registration_removed),
    *(changed_body, built_by_control_flow, special_method, inherited, decorated, registry, described, file_at_import)
    * 3,
    *(mutated_state,) * 5,
    *(made_by_text, function_made_by_text, patched, patched_package, rebound, async_helper) * 2,
    *(found_by_text, decorated_function, class_from_factory, variable_at_import, seeded_choice, computed_constant),
]
