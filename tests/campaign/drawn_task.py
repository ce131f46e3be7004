"""A whole task drawn from a seed: modules and packages, ways to import them, forms of solvers and scorers."""

# ruff: noqa: E501, ISC004, RUF005 - a shape is read as one line, whatever its length
from __future__ import annotations

import json
import re

from drawn_code import CODE_SHAPES
from drawn_program import Draw, DrawnProgram
from drawn_structure import STRUCTURE_SHAPES
from drawn_values import IMPORTS

TASK = "task.py"
HEAD = f"""\
import asyncio
import importlib
import logging
import os
import sys
import tempfile
import threading
import time
import zlib
{IMPORTS}from holdfast import Message, Sample, Score, Task, scorer, task
"""
KEY_NAMES = ("OPENAI_API_KEY", "CAMPAIGN_TOKEN", "MY_SECRET", "DB_PASSWORD", "SERVICE_API_KEY")


def draw_program(seed: object, flip: int | None = None, keys: str = "one", holders: int = 0) -> DrawnProgram:
    """The program of a seed; `flip` is the number of the spot that is changed, `keys` the generation of its keys, and
    `holders` how many things of it hold a key for certain.
    """
    d = Draw(seed, flip)
    homes, calls = [], []
    for number in range(d.pick([1, 1, 2, 2, 3])):
        lines, call = _home(d, inline=number == 0 and d.chance(0.7))
        homes += lines
        calls.append(call)
    d.top = []
    for bystander in [
        *[credential] * holders,
        *[derived_credential] * holders,
        *d.random.sample(BYSTANDERS, d.pick([1, 2, 3])),
    ]:
        bystander(d, keys)
    cut = d.pick(range(len(calls) + 1))
    asked, judged = (calls[:cut] or calls, calls[cut:] or calls) if len(calls) > 1 else (calls, calls)
    used = d.pick(["both", "solver", "scorer"]) if len(calls) == 1 else "both"
    solver = _solver(d, asked if used != "scorer" else ["x"])
    judge = _scorer(d, judged if used != "solver" else ["x"])
    text, entry = _entry(d, "\n".join([*homes, *d.top, ""]), solver, judge)
    d.files[TASK] = with_imports(text, HEAD)
    if d.chance(0.3):
        d.files["unused_neighbour.py"] = d.calm("VALUE = 1\n", "VALUE = 2\n", "a file that nothing imports")
    return DrawnProgram(d.files, d.environment, entry, d.spots, d.shapes)


def with_imports(text: str, imports: str) -> str:
    """The text below those imports that it uses: whatever name they bind occurs in it."""
    used = [line for line in imports.splitlines() if any(re.search(rf"\b{name}\b", text) for name in _bound(line))]
    return "\n".join([*used, "", text])


def _bound(line: str) -> list[str]:
    return [name.split(" as ")[-1].strip() for name in line.removeprefix("import ").split(" import ")[-1].split(",")]


# ---- where code lies


def _module(d: Draw, folder: str = "") -> tuple[str, str]:
    """The text of a module with one function to be called, and that function's name."""
    outer, d.top = d.top, []
    before = set(d.files)
    shapes = [d.pick([*CODE_SHAPES, *STRUCTURE_SHAPES]) for _ in range(d.pick([1, 1, 2]))]
    pieces = []
    for shape in shapes:
        d.shapes.append(shape.__name__)
        pieces.append(shape(d))
    export = d.name("export")
    d.add(f"def {export}(x):\n    return '|'.join([{', '.join(pieces)}])\n")
    unused = d.name("unused")
    d.add(f"def {unused}():\n    return {d.calm('1', '2', 'an unused function of an own file')}\n")
    d.add(f"{d.name('UNUSED')} = {d.calm('1', '2', 'an unused constant of an own file')}")
    text = with_imports("\n".join([*d.top, ""]), IMPORTS)
    for name in set(d.files) - before:
        if name.startswith("@/"):
            d.files[folder + name[2:]] = d.files.pop(name)
    d.top = outer
    return text, export


def _home(d: Draw, *, inline: bool) -> tuple[list[str], str]:
    """Statements for the task's file, and the expression of `x` that uses what is in the module."""
    if inline:
        d.shapes.append("inline")
        text, export = _module(d)
        return [f"\n{text}"], f"{export}(x)"
    form = d.pick(HOMES)
    d.shapes.append(form.__name__)
    return form(d)


def by_import(d: Draw):
    name = d.name("helper")
    d.files[f"{name}.py"], export = _module(d)
    alias = d.name("alias")
    line, call = d.pick(
        [
            (f"import {name}", f"{name}.{export}(x)"),
            (f"import {name} as {alias}", f"{alias}.{export}(x)"),
            (f"from {name} import {export}", f"{export}(x)"),
            (f"from {name} import {export} as {alias}", f"{alias}(x)"),
            (f"from {name} import *", f"{export}(x)"),
            (f"{alias} = importlib.import_module('{name}')", f"{alias}.{export}(x)"),
            (f"{alias} = importlib.import_module('{name}').{export}", f"{alias}(x)"),
            (f"{alias} = __import__('{name}')", f"{alias}.{export}(x)"),
            (
                f"try:\n    import no_{name} as {alias}\nexcept ImportError:\n    import {name} as {alias}",
                f"{alias}.{export}(x)",
            ),
            (f"if True:\n    from {name} import {export}", f"{export}(x)"),
            (f"import {name}\n{alias} = {name}.{export}", f"{alias}(x)"),
            (f"import {name}\nTABLE_{alias} = {{'a': {name}}}", f"TABLE_{alias}['a'].{export}(x)"),
            (f"import {name}\nTABLE_{alias} = [{name}.{export}]", f"TABLE_{alias}[0](x)"),
        ]
    )
    return [line], call


def inside_function(d: Draw):
    """Imported where it is used."""
    name, use = d.name("helper"), d.name("use")
    folder = d.pick(["", "pk_" + name + "/"])
    d.files[f"{folder}{name}.py"], export = _module(d, folder)
    dotted = folder.replace("/", ".") + name
    if folder and d.chance(0.5):
        d.files[f"{folder}__init__.py"] = ""
    body = d.pick(
        [
            f"    from {dotted} import {export}\n    return {export}(x)\n",
            f"    import {dotted}\n    return {dotted}.{export}(x)\n",
            f"    import {dotted} as mod\n    return mod.{export}(x)\n",
            f"    return importlib.import_module('{dotted}').{export}(x)\n",
            f"    from importlib import import_module\n    return getattr(import_module('{dotted}'), '{export}')(x)\n",
            f"    mod = __import__('{dotted}', fromlist=['{export}'])\n    return mod.{export}(x)\n",
        ]
    )
    return [f"def {use}(x):\n{body}"], f"{use}(x)"


def in_package(d: Draw):
    pack, name, alias = d.name("pack"), d.name("sub"), d.name("alias")
    d.files[f"{pack}/{name}.py"], export = _module(d, f"{pack}/")
    form = d.pick(["plain", "reexport", "relative", "lazy", "namespace", "deep", "all", "attribute"])
    init, lines, call = "", [f"from {pack}.{name} import {export}"], f"{export}(x)"
    if form == "reexport":
        init, lines = f"from .{name} import {export}\n", [f"from {pack} import {export}"]
    elif form == "relative":
        d.files[f"{pack}/middle_{name}.py"] = (
            f"from . import {name}\n\n\ndef middle_{export}(x):\n    return {name}.{export}(x)\n"
        )
        lines, call = [f"from {pack}.middle_{name} import middle_{export}"], f"middle_{export}(x)"
    elif form == "lazy":
        init = f"def __getattr__(name):\n    if name == '{alias}':\n        from . import {name}\n        return {name}.{export}\n    raise AttributeError(name)\n"
        lines, call = [f"import {pack}"], f"{pack}.{alias}(x)"
    elif form == "deep":
        d.files[f"{pack}/inner/__init__.py"] = f"from ..{name} import {export} as {alias}\n"
        lines, call = [f"import {pack}.inner"], f"{pack}.inner.{alias}(x)"
    elif form == "all":
        init = f"from .{name} import *\n__all__ = ['{export}']\n"
        lines = [f"from {pack} import *"]
    elif form == "attribute":
        lines, call = [f"import {pack}.{name}"], f"{pack}.{name}.{export}(x)"
    if form != "namespace":
        d.files[f"{pack}/__init__.py"] = init
    return lines, call


def by_path(d: Draw):
    """Found by its path: a folder on sys.path, a file loaded by hand, a fragment that is executed."""
    name, alias = d.name("lib"), d.name("alias")
    form = d.pick(["sys.path", "spec", "runpy", "exec", "source loader"])
    folder = "" if form == "exec" else f"libs_{name}/"
    d.files[f"{folder}{name}.py"], export = _module(d, folder)
    at = f"pathlib.Path(__file__).parent / '{folder}{name}.py'"
    lines, call = {
        "sys.path": (
            [
                f"sys.path.insert(0, str(pathlib.Path(__file__).parent / '{folder[:-1]}'))",
                f"from {name} import {export}",
            ],
            f"{export}(x)",
        ),
        "spec": (
            [
                "import importlib.util",
                f"spec_{alias} = importlib.util.spec_from_file_location('{name}', {at})",
                f"{alias} = importlib.util.module_from_spec(spec_{alias})",
                f"sys.modules['{name}'] = {alias}",
                f"spec_{alias}.loader.exec_module({alias})",
            ],
            f"{alias}.{export}(x)",
        ),
        "source loader": (
            [
                "import importlib.machinery",
                f"{alias} = types.ModuleType('{name}')",
                f"{alias}.__file__ = str({at})",
                f"sys.modules['{name}'] = {alias}",
                f"exec(({at}).read_text(), {alias}.__dict__)",
            ],
            f"{alias}.{export}(x)",
        ),
        "runpy": (["import runpy", f"{alias} = runpy.run_path(str({at}))['{export}']"], f"{alias}(x)"),
        "exec": ([f"exec(({at}).read_text())"], f"{export}(x)"),
    }[form]
    return lines, call


def chained(d: Draw):
    """A module that another one imports, and the first knows only that one."""
    name, middle = d.name("far"), d.name("near")
    d.files[f"{name}.py"], export = _module(d)
    d.files[f"{middle}.py"] = d.pick(
        [
            f"from {name} import {export}\n",
            f"import {name}\n\n{export} = {name}.{export}\n",
            f"import {name}\n\n\ndef {export}(x):\n    return {name}.{export}(x)\n",
            f"import {name}\n\n\nclass Holder:\n    go = staticmethod({name}.{export})\n\n\n{export} = Holder().go\n",
        ]
    )
    return [f"from {middle} import {export}"], f"{export}(x)"


def side_effect(d: Draw):
    """A module that puts its function into another when it is imported."""
    name, hub = d.name("plugin"), d.name("hub")
    text, export = _module(d)
    d.files[f"{hub}.py"] = "HOOKS = {}\n\n\ndef call(name, x):\n    return HOOKS[name](x)\n"
    d.files[f"{name}.py"] = f"{text}\nimport {hub}\n\n{hub}.HOOKS['{export}'] = {export}\n"
    return [f"import {hub}", f"import {name}"], f"{hub}.call('{export}', x)"


def discovered(d: Draw):
    """Plug-ins that are found by looking into a folder."""
    folder, table = d.name("plugins"), d.name("FOUND")
    text, export = _module(d, f"{folder}/")
    d.files[f"{folder}/{d.name('one')}.py"] = f"{text}\nrun = {export}\n"
    d.files[f"{folder}/__init__.py"] = ""
    how = d.pick(
        [
            f"for _path in sorted(pathlib.Path(__file__).with_name('{folder}').glob('one_*.py')):\n"
            f"    {table}.append(importlib.import_module('{folder}.' + _path.stem).run)",
            f"import pkgutil, {folder}\nfor _found in pkgutil.iter_modules({folder}.__path__):\n"
            f"    {table}.append(importlib.import_module('{folder}.' + _found.name).run)",
        ]
    )
    return ["import importlib, pathlib", f"{table} = []", how], f"'/'.join(run(x) for run in {table})"


HOMES = [by_import, by_import, by_import, inside_function, inside_function, in_package, in_package, by_path, chained]
HOMES += [side_effect, discovered]


# ---- what is there and changes nothing that is asked


def clock(d: Draw, keys: str) -> None:
    """What is another at every import, and read without any effect."""
    name = d.name("UNSTEADY")
    made = d.pick(
        [
            "time.time()",
            "uuid.uuid4()",
            "uuid.uuid4().hex",
            "datetime.datetime.now()",
            "tempfile.mkdtemp()",
            "os.getpid()",
            "random.random()",
            "object()",
            "threading.Lock()",
            "time.perf_counter_ns()",
            "{'run': uuid.uuid4().hex, 'at': time.time()}",
            "SimpleNamespace(id=uuid.uuid4(), started=datetime.datetime.now().isoformat())",
            "logging.getLogger('campaign')",
            "pathlib.Path(tempfile.gettempdir()) / uuid.uuid4().hex",
            "f'run-{time.time_ns()}'",
            "[time.time(), {'pid': os.getpid()}]",
            "id(object())",
            "tempfile.TemporaryDirectory()",
            "random.Random()",
            "os.urandom(8)",
        ]
    )
    d.add(f"{name} = {made}", f"def look_{name}():\n    return len(str({name})) >= 0\n")
    d.environment.setdefault("@touch", "")
    d.environment["@touch"] += f"look_{name}();"


def memo(d: Draw, keys: str) -> None:
    """What fills up by use."""
    name = d.name("MEMO")
    code = d.pick(
        [
            f"{name} = {{}}\ndef look_{name}(x=''):\n    return {name}.setdefault(x, len({name}))\n",
            f"{name} = []\ndef look_{name}(x=''):\n    {name}.append(x)\n",
            f"{name} = set()\ndef look_{name}(x=''):\n    {name}.add(x)\n",
            f"{name} = 0\ndef look_{name}(x=''):\n    global {name}\n    {name} += 1\n",
            f"@functools.cache\ndef look_{name}(x=''):\n    return len(x)\n",
            f"class Memo_{name}:\n    def __init__(self):\n        self.seen = {{}}\n    def look(self, x=''):\n"
            f"        self.seen[x] = self.seen.get(x, 0) + 1\nlook_{name} = Memo_{name}().look\n",
            f"def look_{name}(x='', seen=[]):\n    seen.append(x)\n",
            f"def look_{name}(x=''):\n    look_{name}.calls += 1\nlook_{name}.calls = 0\n",
            f"class Memo_{name}:\n    calls = 0\n    @functools.cached_property\n    def size(self):\n        type(self).calls += 1\n        return 1\n"
            f"{name} = Memo_{name}()\ndef look_{name}(x=''):\n    return {name}.size\n",
            f"def make_{name}():\n    count = 0\n    def look(x=''):\n        nonlocal count\n        count += 1\n    return look\nlook_{name} = make_{name}()\n",
            f"{name} = collections.Counter()\ndef look_{name}(x=''):\n    {name}[x] += 1\n",
            f"{name} = threading.local()\ndef look_{name}(x=''):\n    {name}.last = x\n",
            f"{name} = random.Random(5)\ndef look_{name}(x=''):\n    return {name}.random() >= 0\n",
        ]
    )
    d.add(code)
    d.environment["@touch"] = d.environment.get("@touch", "") + f"look_{name}();"


def credential(d: Draw, keys: str) -> None:
    """A key from the environment, kept in the module's state, and used without any effect on what is asked."""
    name, variable = d.name("CLIENT"), d.pick(KEY_NAMES)
    d.environment[variable] = key_value(d, variable, keys)
    read = f"os.environ['{variable}']"
    code = d.pick(
        [
            f"{name} = {read}",
            f"{name} = {{'Authorization': 'Bearer ' + {read}}}",
            f"{name} = {{'x-api-key': {read}, 'content-type': 'json'}}",
            f"{name} = SimpleNamespace(api_key={read}, url='http://example.org')",
            f"class Client_{name}:\n    def __init__(self, key):\n        self.key = key\n{name} = Client_{name}({read})",
            f"def make_{name}(key):\n    return lambda: len(key)\n{name} = make_{name}({read})",
            f"{name} = functools.partial(len, {read})",
            f"{name} = [('key', {read})]",
            f"@dataclass\nclass Client_{name}:\n    key: str = field(default_factory=lambda: {read}, repr=False)\n{name} = Client_{name}()",
            f"{name} = 'https://user:' + {read} + '@example.org/v1'",
            f"def {name}(key={read}):\n    return len(key)",
            f"{name} = {read}.encode()",
        ]
    )
    d.add(code, f"def look_{name}():\n    return {name} is not None\n")
    d.environment["@touch"] = d.environment.get("@touch", "") + f"look_{name}();"


def derived_credential(d: Draw, keys: str) -> None:
    """What is made of a key: no other generation of keys may be compared with it, but it must not be written either."""
    name, variable = d.name("DERIVED"), d.pick(KEY_NAMES)
    d.environment[variable] = key_value(d, variable, keys)
    read = f"os.environ['{variable}']"
    code = d.pick(
        [
            f"{name} = {{'Authorization': 'Basic ' + base64.b64encode(('user:' + {read}).encode()).decode()}}",
            f"{name} = base64.b64encode({read}.encode())",
            f"{name} = json.dumps({{'key': {read}}})",
            f"{name} = ['--key=' + {read}]",
            f"{name} = ValueError('cannot log in with ' + {read})",
            f"{name} = string.Template('key ' + {read})",
            f"{name} = re.compile(re.escape({read}))",
            f"{name} = pathlib.PurePosixPath('/keys') / {read}",
            f"{name} = {{{read}: 1}}",
            f"{name} = {{'k': {{{read}}}}}",
            f"{name} = ContextVar('key', default={read})",
            f"{name} = {read}.lower()",
            f"{name} = list({read})",
            f"{name} = 'prefix ' * 50 + {read} + ' suffix' * 50",
            f"class {name}:\n    key = {read}",
            f"exec('{name} = ' + repr({read}))",
            f"{name} = eval('lambda key=' + repr({read}) + ': len(key)')",
        ]
    )
    d.add("import base64, json", code, f"def look_{name}():\n    return {name} is not None\n")
    d.environment["@touch"] = d.environment.get("@touch", "") + f"look_{name}();"


def key_value(d: Draw, variable: str, keys: str) -> str:
    """A value that nobody can guess, another one for each generation of keys."""
    made = "".join(d.random.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=28))
    body = made if keys == "one" else made[::-1]
    return f"sk-proj-{body}" if variable.startswith("OPENAI") else body


def namesakes(d: Draw, keys: str) -> None:
    """A name of the module that is also a local, a parameter, an attribute or a keyword somewhere else."""
    name, fn = d.name("same"), d.name("look")
    form = d.pick(["local", "parameter", "attribute", "keyword", "loop", "comprehension", "key", "inner", "lambda"])
    d.add(f"{name} = {d.calm('1', '2', f'a module-level name that is also a {form}')}")
    d.add(
        {
            "local": f"def {fn}():\n    {name} = 5\n    return {name}\n",
            "parameter": f"def {fn}({name}=5):\n    return {name}\n",
            "attribute": f"HOLD_{fn} = SimpleNamespace({name}=5)\ndef {fn}():\n    return HOLD_{fn}.{name}\n",
            "keyword": f"def {fn}():\n    return dict({name}=5)\n",
            "loop": f"def {fn}():\n    for {name} in range(2):\n        pass\n    return {name}\n",
            "comprehension": f"def {fn}():\n    return [{name} for {name} in range(2)]\n",
            "key": f"def {fn}():\n    return {{'{name}': 5}}['{name}']\n",
            "inner": f"def {fn}():\n    def {name}():\n        return 5\n    return {name}()\n",
            "lambda": f"def {fn}():\n    return (lambda {name}: {name})(5)\n",
        }[form]
    )
    d.environment["@touch"] = d.environment.get("@touch", "") + f"{fn}();"


def spare(d: Draw, keys: str) -> None:
    """Things that nothing uses."""
    d.add(f"{d.name('SPARE')} = {d.calm(repr('a'), repr('b'), 'an unused constant')}")
    d.add(f"def {d.name('spare')}(x):\n    return {d.calm('1', '2', 'an unused function')}\n")
    d.add(f"class {d.name('Spare')}:\n    word = {d.calm('1', '2', 'an unused class')}\n")
    d.add(d.calm("", "import colorsys", "an added import"))
    d.add(d.calm("", "print('loaded')", "an added print"))
    d.add(d.calm("", f"{d.name('ADDED')} = time.time()", "an added constant"))
    d.add(d.calm("", "logging.basicConfig(level=logging.WARNING)", "an added set-up of logging"))
    d.add(d.calm("# note", "# another note", "a comment"))
    d.add(d.calm("", "if typing.TYPE_CHECKING:\n    import http.client", "an import for type checkers"))


def places(d: Draw, keys: str) -> None:
    """Paths below the task's own directory."""
    name = d.name("HERE")
    made = d.pick(
        ["pathlib.Path(__file__).parent", "os.path.dirname(os.path.abspath(__file__))", "__file__", "os.getcwd()"]
        + [
            "{'data': str(pathlib.Path(__file__).parent / 'data')}",
            "[os.path.join(os.path.dirname(__file__), 'a.txt')]",
        ]
        + ["SimpleNamespace(root=pathlib.Path(__file__).resolve().parent)", "pathlib.Path.cwd()"]
    )
    d.add(f"{name} = {made}", f"def look_{name}():\n    return len(str({name})) > 0\n")
    d.environment["@touch"] = d.environment.get("@touch", "") + f"look_{name}();"


def words_in_a_set(d: Draw, keys: str) -> None:
    """Sets of texts, whose order depends on the hash seed."""
    name = d.name("STOP")
    made = d.pick(
        ["{'a', 'bb', 'ccc', 'dddd'}", "frozenset('abcdefgh')", "{('a', 'b'), ('c', 'd')}", "{'k': {'x', 'y', 'z'}}"]
    )
    d.add(f"{name} = {made}", f"def look_{name}():\n    return len({name})\n")
    d.environment["@touch"] = d.environment.get("@touch", "") + f"look_{name}();"


BYSTANDERS = [clock, clock, memo, memo, credential, namesakes, spare, spare, places, words_in_a_set]


# ---- solvers and scorers


def _ask(d: Draw, calls: list[str], fn: str, names: tuple[str, ...]) -> str:
    """The body of a solver, below `x = …`."""
    joined = " + '~' + ".join(calls)
    touch = d.environment.get("@touch", "").strip(";")
    lines = [f"{one}" for one in touch.split(";") if one]
    form = d.pick(["plain", "messages", "parameters", "twice", "step", "gather", "answer", "system", "scope", "thread"])
    local = d.calm("prompt", "question", "a renamed local")
    lines += [d.calm(f"{local} = {joined}", f"{local}: str = {joined}", "an annotated local")]
    literal = lambda what: d.spot("'polite'", "'rude'", names, what=f"solver: {what}")  # noqa: E731
    lines += {
        "plain": lambda: [f"reply = await trial.generate({local})", "return reply.text"],
        "messages": lambda: [
            f"reply = await trial.generate([Message('system', {literal('message')}), Message('user', {local})])",
            "return reply.text",
        ],
        "parameters": lambda: [
            f"reply = await trial.generate({local}, temperature={d.spot('0.5', '0.7', names, what='solver: temperature')})",
            "return reply.text",
        ],
        "twice": lambda: [
            f"first = await trial.generate({local})",
            f"reply = await trial.generate({literal('second question')})",
            "return first.text + reply.text",
        ],
        "step": lambda: [f"done = await trial.step('work', _step_{fn}, {local})", "reply = await trial.generate(done)", "return reply.text"],
        "gather": lambda: [
            f"async def branch(n):\n        return (await trial.generate({local} + str(n))).text",
            f"got = await asyncio.gather(*(branch(n) for n in range({d.spot('2', '3', names, what='solver: branches')})))",
            "return ''.join(got)",
        ],
        "answer": lambda: [f"reply = await trial.generate({local})", f"return reply.text + {literal('answer')}"],
        "system": lambda: [f"reply = await trial.generate(f'{{{local}}} {{len({local})}}')", "return reply.text"],
        "scope": lambda: ["with trial.scope('draft'):", f"    reply = await trial.generate({local} + {literal('in a scope')})", "return reply.text"],
        "thread": lambda: [f"more = await asyncio.to_thread(_step_{fn}, {local})", "reply = await trial.generate(more)", "return reply.text"],
    }[form]()  # fmt: skip
    if form in {"step", "thread"}:
        d.add(
            f"def _step_{fn}(text):\n    return text + {d.spot(repr('polite'), repr('rude'), fn, what='function of a step')}\n"
        )
    d.shapes.append(f"ask {form}")
    return "\n    ".join(lines)


def _solver(d: Draw, calls: list[str]) -> str:
    """The expression of a solver."""
    fn, cls, word = d.name("solve"), d.name("Solver"), d.name("word")
    form = d.pick(
        [
            "function",
            "method",
            "call",
            "factory",
            "partial",
            "decorated",
            "wrapped",
            "inherited",
            "registry",
            "classmethod",
        ]
    )
    d.shapes.append(f"solver {form}")
    names = (fn, cls, word)
    given = d.spot("'polite'", "'rude'", names, what=f"solver's own value: {form}")
    body = _ask(d, calls, fn, names)
    doc = d.calm("'''Asks.'''", "'''Asks the model.'''", "a docstring")
    sign = d.calm("trial", "trial: object", "a type annotation")
    indented = body.replace("\n    ", "\n        ")
    held = {
        "function": f"async def {fn}({sign}):\n    {doc}\n    x = trial.sample.input\n    {body}\n",
        "method": f"class {cls}:\n    def __init__(self, {word}):\n        self.{word} = {word}\n    async def {fn}(self, {sign}):\n        {doc}\n        x = trial.sample.input + self.{word}\n        {indented}\n",
        "call": f"class {cls}:\n    def __init__(self, {word}):\n        self.{word} = {word}\n    async def __call__(self, {sign}):\n        x = trial.sample.input + self.{word}\n        {indented}\n    async def {fn}(self, trial):\n        return await self(trial)\n",
        "factory": f"def make_{fn}({word}):\n    async def {fn}({sign}):\n        {doc}\n        x = trial.sample.input + {word}\n        {indented}\n    return {fn}\n",
        "partial": f"async def {fn}({sign}, {word}):\n    {doc}\n    x = trial.sample.input + {word}\n    {body}\n",
        "decorated": f"def deco_{fn}({word}):\n    def outer(function):\n        @functools.wraps(function)\n        async def inner(trial):\n            return (await function(trial)) + {word}\n        return inner\n    return outer\n@deco_{fn}({given})\nasync def {fn}({sign}):\n    x = trial.sample.input\n    {body}\n",
        "wrapped": f"async def {fn}({sign}, {word}):\n    x = trial.sample.input + {word}\n    {body}\nasync def outer_{fn}(trial):\n    return await {fn}(trial, {given})\n",
        "inherited": f"class Base{cls}:\n    {word} = 'none'\n    async def {fn}(self, {sign}):\n        x = trial.sample.input + self.{word}\n        {indented}\nclass {cls}(Base{cls}):\n    {word} = {given}\n",
        "registry": f"SOLVERS_{fn} = {{}}\ndef put_{fn}(function):\n    SOLVERS_{fn}['a'] = function\n    return function\n@put_{fn}\nasync def {fn}({sign}):\n    x = trial.sample.input\n    {body}\n",
        "classmethod": f"class {cls}:\n    {word} = {given}\n    @classmethod\n    async def {fn}(cls, {sign}):\n        x = trial.sample.input + cls.{word}\n        {indented}\n",
    }[form]  # fmt: skip
    d.add(held)
    return {
        "function": fn,
        "method": f"{cls}({given}).{fn}",
        "call": f"{cls}({given}).{fn}",
        "factory": f"make_{fn}({given})",
        "partial": f"functools.partial({fn}, {word}={given})",
        "decorated": fn,
        "wrapped": f"outer_{fn}",
        "inherited": f"{cls}().{fn}",
        "registry": f"SOLVERS_{fn}['a']",
        "classmethod": f"{cls}.{fn}",
    }[form]


def _scorer(d: Draw, calls: list[str]) -> str:
    """The expression of a scorer."""
    fn, cls, word, mark = d.name("judge"), d.name("Judge"), d.name("weight"), d.name("mark")
    form = d.pick(
        ["function", "async", "method", "factory", "partial", "decorated", "scorer", "threshold", "object", "score"]
    )
    d.shapes.append(f"scorer {form}")
    joined = " + '~' + ".join(calls)
    d.add(f"def {mark}(text):\n    return (zlib.crc32(text.encode('utf-8', 'replace')) % 997) / 997\n")
    given = d.spot("'strict'", "'loose'", (fn, cls, word), what=f"scorer's own value: {form}")
    threshold = d.spot("0.0", "1.0", (word, fn), what="threshold of a scorer") if form == "threshold" else ""
    doc = d.calm("'''Judges.'''", "'''Judges the answer.'''", "a docstring")
    sign = d.calm("answer, sample", "answer: 'object', sample: 'object'", "a type annotation")
    start = f"{doc}\n    x = answer.text"
    indented = start.replace("\n    ", "\n        ")
    d.add(
        {
            "function": f"def {fn}({sign}):\n    {start}\n    return {mark}({joined})\n",
            "async": f"async def {fn}({sign}):\n    {start}\n    return {mark}({joined} + {given})\n",
            "method": f"class {cls}:\n    def __init__(self, {word}):\n        self.{word} = {word}\n    def {fn}(self, {sign}):\n        {indented}\n        return {mark}({joined} + self.{word})\n",
            "object": f"class {cls}:\n    def __init__(self, {word}):\n        self.{word} = {word}\n    def {fn}(self, {sign}):\n        {indented}\n        return {mark}({joined} + self.{word}['a'][0])\n",
            "factory": f"def make_{fn}({word}):\n    def {fn}({sign}):\n        {indented}\n        return {mark}({joined} + {word})\n    return {fn}\n",
            "partial": f"def {fn}({sign}, {word}='none'):\n    {start}\n    return {mark}({joined} + {word})\n",
            "decorated": f"def deco_{fn}(function):\n    @functools.wraps(function)\n    def inner({sign}):\n        return {mark}(str(function(answer, sample)) + {given})\n    return inner\n@deco_{fn}\ndef {fn}({sign}):\n    {start}\n    return {mark}({joined})\n",
            "scorer": f"@scorer(name='judged')\ndef {fn}({sign}):\n    {start}\n    return {mark}({joined} + {given})\n",
            "threshold": f"{word} = {threshold}\ndef {fn}({sign}):\n    {start}\n    return float({mark}({joined}) >= {word}) + {mark}({joined})\n",
            "score": f"def {fn}({sign}):\n    {start}\n    return Score({mark}({joined} + {given}), explanation='because')\n",
        }[form]
    )  # fmt: skip
    return {
        "method": f"{cls}({given}).{fn}",
        "object": f"{cls}({{'a': [{given}]}}).{fn}",
        "factory": f"make_{fn}({given})",
        "partial": f"scorer(functools.wraps({fn})(lambda answer, sample: functools.partial({fn}, {word}={given})(answer, sample)))",
    }.get(form, fn)


def _entry(d: Draw, text: str, solver: str, judge: str) -> tuple[str, dict[str, object]]:
    """The end of the task's file, and how it is run."""
    samples = "[Sample('one', target='a', id='s1'), Sample('two words', target='b', id='s2')]"
    form = d.pick(["object", "function", "named"])
    d.environment.pop("@touch", None)
    if form == "object":
        text += f"\ntask = Task(samples={samples}, solver={solver}, scorers={judge})\n"
    elif form == "function":
        text += f"\n@task\ndef the_task():\n    return Task(samples={samples}, solver={solver}, scorers={judge})\n"
    else:
        text += f"\nthe_solver = {solver}\nthe_scorer = {judge}\n"
        text += f"task = Task(samples={samples}, solver=the_solver, scorers=[the_scorer])\n"
    name = "the_task" if form == "function" else "task"
    data = {
        "name": "drawn",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "tasks": {"t": {"use": f"{TASK}:{name}"}},
    }
    d.files["eval.yaml"] = json.dumps(data, indent=1)
    return text, {"file": TASK, "name": name}
