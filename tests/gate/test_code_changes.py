"""Rows 53 to 61, 80 to 82: what may change in the files of a task, and what is refused, through real processes."""
# ruff: noqa: E501 - a case is a line of its own

from __future__ import annotations

import json
import shutil

import pytest
from code_project import code

ASK = "async def solve(trial):\n    return (await trial.generate({0})).text\n"

AT_IMPORT = {
    "if": (code("X = 1\nif X == 1:\n    P = 'one'\nelse:\n    P = 'two'\n" + ASK.format("P")), "X = 1", "X = 2"),
    "while": (code("P = ''\nwhile len(P) < 3:\n    P += 'x'\n" + ASK.format("P")), "< 3", "< 4"),
    "match": (
        code("X = 1\nmatch X:\n    case 1:\n        P = 'one'\n    case _:\n        P = 'two'\n" + ASK.format("P")),
        "X = 1",
        "X = 2",
    ),
    "for": (code("P = []\nfor n in range(3):\n    P.append(n)\n" + ASK.format("str(P)")), "range(3)", "range(4)"),
    "try": (
        code("try:\n    int('1')\n    P = 'one'\nexcept ValueError:\n    P = 'two'\n" + ASK.format("P")),
        "int('1')",
        "int('x')",
    ),
    "item": (code("C = {}\nC['p'] = 'one'\n" + ASK.format("C['p']")), "'one'", "'two'"),
    "update": (code("C = {'p': ''}\nC.update(p='one')\n" + ASK.format("C['p']")), "'one'", "'two'"),
    "append": (code("C = []\nC.append('one')\n" + ASK.format("C[0]")), "'one'", "'two'"),
    "attribute": (code("class K: pass\nK.p = 'one'\n" + ASK.format("K.p")), "'one'", "'two'"),
    "exec": (code("exec(\"P = 'one'\")\n" + ASK.format("P")), "'one'", "'two'"),
    "exec of a function": (code("exec(\"def p(): return 'one'\")\n" + ASK.format("p()")), "'one'", "'two'"),
    "globals": (code("globals()['P'] = 'one'\n" + ASK.format("P")), "'one'", "'two'"),
    "read through globals": (code("P = 'one'\n" + ASK.format("globals()['P']")), "'one'", "'two'"),
    "read through any name": (code("P_1 = 'one'\nN = 1\n" + ASK.format("globals()['P_' + str(N)]")), "'one'", "'two'"),
    "setattr": (code("class K: pass\nsetattr(K, 'p', 'one')\n" + ASK.format("K.p")), "'one'", "'two'"),
    "registry": (
        code(
            "R = {}\ndef register(f):\n    R[f.__name__] = f\n    return f\n@register\ndef p(): return 'one'\n"
            + ASK.format("R['p']()")
        ),
        "'one'",
        "'two'",
    ),
    "registry grows": (
        code(
            "R = []\ndef register(f):\n    R.append(f)\n    return f\n@register\ndef p(): return 'one'\n# more\n"
            + ASK.format("R[-1]()")
        ),
        "# more",
        "@register\ndef q(): return 'two'",
    ),
    "patched in Python": (
        code("import json\njson.dumps = lambda x: 'one'\n" + ASK.format("json.dumps(1)")),
        "'one'",
        "'two'",
    ),
    "patched in a class of Python": (
        code(
            "import string\nstring.Template.extra = lambda self: 'one'\nT = string.Template('x')\n"
            + ASK.format("T.extra()")
        ),
        "'one'",
        "'two'",
    ),
    "patched by a builtin": (
        code("import builtins\nbuiltins.hex = lambda x: 'one'\n" + ASK.format("hex(1)")),
        "'one'",
        "'two'",
    ),
    "replaced function": (
        code("def p(): return 'one'\ndef q(): return 'two'\n# here\n" + ASK.format("p()")),
        "# here",
        "p = q",
    ),
    "replaced method": (
        code("class A:\n    def p(self): return 'one'\ndef q(self): return 'two'\n# here\n" + ASK.format("A().p()")),
        "# here",
        "A.p = q",
    ),
    "deleted": (
        code("C = {'p': 'one', 'q': 1}\n# here\n" + ASK.format("str(C.get('q', 'none'))")),
        "# here",
        "del C['q']",
    ),
    "imported under the same name": (
        code("from json import dumps as p\n" + ASK.format("str(p)")),
        "from json import dumps as p",
        "from pprint import pformat as p",
    ),
    "walrus": (code("print(P := 'one')\n" + ASK.format("P")), "'one'", "'two'"),
    "with": (
        code("import contextlib\nwith contextlib.nullcontext('one') as P: pass\n" + ASK.format("P")),
        "'one'",
        "'two'",
    ),
    "metaclass": (
        code(
            "class M(type):\n    def __getattr__(cls, name): return 'one'\nclass A(metaclass=M): pass\n"
            + ASK.format("A.p")
        ),
        "'one'",
        "'two'",
    ),
    "init_subclass": (
        code(
            "class B:\n    def __init_subclass__(cls, p=''): cls.p = p\nclass A(B, p='one'): pass\n" + ASK.format("A.p")
        ),
        "'one'",
        "'two'",
    ),
    "descriptor": (
        code(
            "class D:\n    def __init__(self, p): self.p = p\n    def __get__(self, obj, cls): return self.p\nclass A:\n    x = D('one')\n"
            + ASK.format("A.x")
        ),
        "'one'",
        "'two'",
    ),
    "single dispatch": (
        code(
            "import functools\n@functools.singledispatch\ndef p(x): return 'other'\n@p.register\ndef _(x: int): return 'one'\n"
            + ASK.format("p(1)")
        ),
        "'one'",
        "'two'",
    ),
    "weak hold through a generator": (
        code("def gen():\n    yield 'one'\nG = gen()\n" + ASK.format("'x' + next(G, '')")),
        "'one'",
        "'two'",
    ),
    "an iterator": (code("import itertools\nG = itertools.cycle(['one'])\n" + ASK.format("next(G)")), "'one'", "'two'"),
}


@pytest.mark.parametrize("name", AT_IMPORT)
def test_resume_53_what_happens_at_import(project, name):
    """53: control flow, mutation, registration and patching at the level of the module change what is reached."""
    text, old, new = AT_IMPORT[name]
    project.write(tk=text)
    project.run()
    project.accepted()
    project.edit(old, new)
    assert "tasks.t.use (identity): " in project.refused()


BESIDE = {
    "from": ("from helper import p\n" + ASK.format("p()"), "def p(): return 'one'\n"),
    "from as": ("from helper import p as q\n" + ASK.format("q()"), "def p(): return 'one'\n"),
    "module": ("import helper\n" + ASK.format("helper.p()"), "def p(): return 'one'\n"),
    "star": ("from helper import *\n" + ASK.format("p()"), "def p(): return 'one'\n"),
    "constant by star": ("from helper import *\n" + ASK.format("P"), "P = 'one'\n"),
    "inside": (
        "async def solve(trial):\n    import helper\n    return (await trial.generate(helper.p())).text\n",
        "def p(): return 'one'\n",
    ),
    "from inside": (
        "async def solve(trial):\n    from helper import p\n    return (await trial.generate(p())).text\n",
        "P = 'one'\ndef p(): return P\n",
    ),
    "importlib": (
        "import importlib\n" + ASK.format("importlib.import_module('helper').p()"),
        "def p(): return 'one'\n",
    ),
    "importlib at import": (
        "import importlib\nH = importlib.import_module('helper')\n" + ASK.format("H.p()"),
        "def p(): return 'one'\n",
    ),
    "importlib in a variable": (
        "import importlib\nasync def solve(trial):\n    m = importlib.import_module('helper')\n    return (await trial.generate(m.p())).text\n",
        "def p(): return 'one'\n",
    ),
    "getattr": ("import helper\n" + ASK.format("getattr(helper, 'p')()"), "def p(): return 'one'\n"),
    "module in a list": ("import helper\nM = [helper]\n" + ASK.format("M[0].p()"), "def p(): return 'one'\n"),
    "patch by a neighbour": (
        "import helper, json\n" + ASK.format("json.dumps(1)"),
        "import json\njson.dumps = lambda x: 'one'\n",
    ),
    "deep patch by a neighbour": (
        "import helper, json\n" + ASK.format("json.dumps(1)"),
        "import json.encoder\njson.encoder.JSONEncoder.encode = lambda self, o: 'one'\n",
    ),
    "sys.modules": ("import helper, sys\n" + ASK.format("sys.modules['helper'].p()"), "def p(): return 'one'\n"),
}


@pytest.mark.parametrize("name", BESIDE)
def test_resume_60_code_beside_the_task(project, name):
    """60: however a neighbour is reached, its code counts."""
    text, helper = BESIDE[name]
    project.write(tk=code(text), helper=helper)
    project.run()
    project.edit("'one'", "'two'", "helper.py")
    assert "tasks.t.use (identity): " in project.refused()
    project.edit("'two'", "'one'", "helper.py")
    project.edit(
        helper, f"# A remark.\nUNUSED_ = 1\n{helper}" if "star" not in name else f"# A remark.\n{helper}", "helper.py"
    )
    assert "helper.py has changed; what this task uses of it has not" in project.accepted()


@pytest.mark.parametrize("inside", [True, False])
def test_resume_60_a_module_of_a_package(project, inside):
    """60: `from pk.sub import f` inside a solver, and at import, leads to the code of that module."""
    body = "    from pk.sub import f\n" if inside else ""
    text = code(
        f"{'' if inside else 'from pk.sub import f'}\nasync def solve(trial):\n{body}    return (await trial.generate(f())).text\n"
    )
    project.write(
        tk=text,
        pk____init__="",
        pk__sub="from . import deep\ndef f(): return deep.g()\n",
        pk__deep="def g(): return 'one'\n",
    )
    (project.directory / "pk" / "__init__.py").write_text("")
    project.run()
    project.accepted()
    project.edit("'one'", "'two'", "pk/deep.py")
    assert "the code of pk.deep.g() in deep.py has changed" in project.refused()


def test_resume_60b_two_helpers_of_one_name(project):
    """60b: both are compared, and both are copied into the run."""
    project.write(
        tk=code("import a.util, b.util\n" + ASK.format("a.util.p() + b.util.p()")),
        a__util="def p(): return 'one'\n",
        b__util="def p(): return 'one'\n",
    )
    project.run()
    session = project.world.records("session")[0]
    assert {"sources/t/a/util.py", "sources/t/b/util.py"} <= set(session["inputs"])
    for place in ("a", "b"):
        project.edit("'one'", "'two'", f"{place}/util.py")
        assert f"the code of {place}.util.p() in util.py has changed" in project.refused()
        project.edit("'two'", "'one'", f"{place}/util.py")
    project.accepted()


NEUTRAL = {
    "local of the name of a global": (
        code("p = 'x'\nasync def solve(trial):\n    p = 'one'\n    return (await trial.generate(p)).text\n"),
        "p = 'x'",
        "p = 'y'",
    ),
    "annotation of a parameter": (
        code("def f(x): return x\n" + ASK.format("f('one')")),
        "def f(x)",
        "def f(x: str) -> str",
    ),
    "annotation of a variable": (
        code("def f(x):\n    y = x\n    return y\n" + ASK.format("f('one')")),
        "    y = x",
        "    y: str = x",
    ),
    "annotation of a constant": (code("P = 'one'\n" + ASK.format("P")), "P = 'one'", "P: str = 'one'"),
    "renamed local": (
        code("def f(x):\n    y = x\n    return y\n" + ASK.format("f('one')")),
        "    y = x\n    return y",
        "    z = x\n    return z",
    ),
    "renamed local in a comprehension": (
        code("def f(x):\n    return [y for y in x]\n" + ASK.format("f('one')[0]")),
        "[y for y in x]",
        "[z for z in x]",
    ),
    "renamed variable of a closure": (
        code(
            "def make():\n    p = 'one'\n    async def solve(trial):\n        return (await trial.generate(p)).text\n    return solve\n",
            "make()",
        ),
        "p",
        "q",
    ),
    "unrelated constant": (code("A = 1\n" + ASK.format("'one'")), "A = 1", "A = 2\nB = 3"),
    "added import": (code(ASK.format("'one'")), "async def", "import json\nasync def"),
    "import inside": (code(ASK.format("'one'")), "    return", "    import json\n    return"),
    "print": (code(ASK.format("'one'")), "async def", "print('hello')\nasync def"),
    "print inside": (code(ASK.format("'one'")), "    return (await", "    print('asking', trial)\n    return (await"),
    "docstring": (code(ASK.format("'one'")), "    return", "    '''Asks.'''\n    return"),
    "value computed otherwise": (code("P = 'one'\n" + ASK.format("P")), "P = 'one'", "P = 'o' + 'ne'"),
    "order of a map": (
        code("C = {'a': 1, 'b': 2}\n" + ASK.format("str(C['a'])")),
        "{'a': 1, 'b': 2}",
        "{'b': 2, 'a': 1}",
    ),
    "order of definitions": (code("A = 'a'\nB = 'b'\n" + ASK.format("A + B")), "A = 'a'\nB = 'b'", "B = 'b'\nA = 'a'"),
    "unused function": (code(ASK.format("'one'")), "async def", "def unused(): return 2\nasync def"),
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_resume_61_and_82_what_makes_no_difference(project, name):
    """61, 82, 56: names of locals, annotations, unrelated lines pass, with one line about the file."""
    text, old, new = NEUTRAL[name]
    if name == "renamed variable of a closure":
        old, new = "    p = 'one'", "    q = 'one'"
    project.write(tk=text)
    project.run()
    project.edit(old, new)
    if name == "renamed variable of a closure":
        project.edit("generate(p)", "generate(q)")
    told = project.accepted()
    assert "tk.py has changed; what this task uses of it has not" in told


def test_resume_54_a_file_read_at_import(project):
    """54: the constant that a file was read into is named, with both values, shortened."""
    project.write(
        tk=code(
            "import pathlib\nRUBRIC = (pathlib.Path(__file__).parent / 'rubric.txt').read_text()\n"
            + ASK.format("RUBRIC")
        )
    )
    (project.directory / "rubric.txt").write_text("Be kind. " * 30)
    project.run()
    (project.directory / "rubric.txt").write_text("Be rude. " * 30)
    told = project.refused()
    assert "RUBRIC in tk.py has changed: 'Be kind. Be kind." in told and "→ 'Be rude. Be rude." in told
    assert len(max(told.splitlines(), key=len)) < 400


def test_resume_54_environment(project):
    """54, 15: a plain variable is refused without its value; a key may rotate and leaves no trace."""
    names = "STYLE = os.environ['ASK_STYLE']\nKEY = os.environ['MY_API_KEY']\nHEADERS = {'auth': f'Bearer {KEY}', 'basic': KEY.encode(), KEY: 1}\n"
    project.write(tk=code("import os\n" + names + ASK.format("STYLE + str(len(KEY) > 0 and len(HEADERS))")))
    first = {"ASK_STYLE": "polite-polite", "MY_API_KEY": "abcdefgh-first-99"}
    project.run(**first)
    assert "note" not in project.accepted(**{**first, "MY_API_KEY": "ijklmnop-second-77"})
    told = project.refused(**{**first, "ASK_STYLE": "rudely-rudely"})
    assert "STYLE in tk.py has changed; it comes from the environment and is not shown" in told
    assert "polite-polite" not in told and "rudely" not in told
    kept = b"".join(path.read_bytes() for path in project.world.run_dir.rglob("*") if path.is_file())
    cat = project.holdfast("cat", "r", code=0).out.encode()
    for secret in (b"abcdefgh-first-99", b"ijklmnop-second-77"):
        assert secret not in kept + cat


def test_resume_55_what_is_read_at_run_time_cannot_be_compared(project):
    """55: the same file read inside the solver passes."""
    project.write(tk=code("import pathlib\n" + ASK.format("pathlib.Path(__file__).with_name('p.txt').read_text()")))
    (project.directory / "p.txt").write_text("one")
    project.run()
    (project.directory / "p.txt").write_text("two")
    project.accepted()


def test_resume_57_opaque_values(project):
    """57: --dry-run lists them, every resume counts them, and the statements behind them are compared."""
    project.write(
        tk=code(
            "import io\nN = 30_000\nTABLE = list(range(N))\nG = (n for n in 'ab')\nclass A:\n    def __init__(self): self.stream = io.StringIO('one')\na = A()\n"
            + ASK.format("str(TABLE[0]) + str(G) + a.stream.getvalue()")
        )
    )
    project.world.data["tasks"], project.world.data["datasets"] = {"t": {"use": "tk.py:t"}}, {}
    planned = project.holdfast("run", project.world.write(), "--dry-run", code=0).out
    line = "3 values cannot be compared: G (generator), TABLE (too large), a.stream (io.StringIO)"
    assert line in planned
    project.run()
    assert f"note: {line}" in project.accepted()
    project.edit("list(range(N))", "list(range(N + 1))")
    assert "TABLE in tk.py cannot be compared (too large), and the lines that set it have changed" in project.refused()
    project.edit("list(range(N + 1))", "list(range(N))")
    project.edit("N = 30_000", "N = 40_000")
    assert "N in tk.py has changed: 30000 → 40000" in project.refused()
    project.edit("N = 40_000", "N = 30_000")
    project.edit("async def", "TABLE.append(5)\nasync def")
    assert "TABLE in tk.py cannot be compared" in project.refused()
    project.edit("TABLE.append(5)\n", "")
    project.edit("StringIO('one')", "StringIO('two')")
    assert "tasks.t.use (identity): the code of A.__init__() in tk.py has changed" in project.refused()
    project.edit("StringIO('two')", "StringIO('one')")
    project.accepted()


def install(project, name, version, text, *, own=False):
    """A package beside the eval, as pip leaves it."""
    site = project.directory / "lib" / "site-packages"
    shutil.rmtree(site, ignore_errors=True)
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").write_text(text)
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{name}/__init__.py,,\n{info.name}/METADATA,,\n")
    if own:
        (info / "direct_url.json").write_text(json.dumps({"url": "file:///home/me/pk", "dir_info": {}}))
    return {"PYTHONPATH": str(site)}


@pytest.mark.parametrize("inside", [True, False])
def test_resume_58_and_59_packages(project, inside):
    """58, 59: another version of a package that is used is refused by name; of one that is not, it is printed."""
    place = "async def solve(trial):\n    import pkused\n" if inside else "import pkused\nasync def solve(trial):\n"
    project.write(tk=code(place + "    return (await trial.generate(pkused.p())).text\n"))
    environment = install(project, "pkused", "1.0", "def p(): return 'one'\n")
    project.run(**environment)
    project.accepted(**environment)
    environment = install(project, "pkused", "2.0", "def p(): return 'one'\n")
    told = project.refused(**environment)
    assert "tasks.t.use (identity): the package pkused has changed: 1.0 → 2.0" in told and " in tk.py" not in told
    environment = install(project, "pkused", "1.0", "def p(): return 'one'\n")
    (project.directory / "lib/site-packages/pkother-3.0.dist-info").mkdir()
    told = project.accepted(**environment)
    assert "installed packages differ from the last session: pkother not installed → 3.0" in told


def test_resume_60_an_own_package_installed_again(project):
    """60: a package from a directory counts by its code, not by its version."""
    project.write(tk=code("import pkown\n" + ASK.format("pkown.p()")))
    environment = install(project, "pkown", "1.0", "def p(): return 'one'\n", own=True)
    project.run(**environment)
    environment = install(project, "pkown", "1.1", "# A remark.\ndef p(): return 'one'\n", own=True)
    project.accepted(**environment)
    environment = install(project, "pkown", "1.0", "def p(): return 'two'\n", own=True)
    assert "the code of pkown.p() in __init__.py has changed" in project.refused(**environment)


def test_resume_80_unsteady_values(project):
    """80: what is another at every import is named in one line and not compared, unless its statement changes."""
    text = "import os, random, tempfile, time, uuid\nNOW = time.time()\nRUN = {'id': str(uuid.uuid4()), 'n': 1}\nORDER = ' '.join({'a', 'b', 'c', 'd', 'e', 'f'})\nR = random.Random()\n"
    project.write(tk=code(text + ASK.format("'one' + str((NOW, RUN, ORDER, R))[:0]")))
    project.run(PYTHONHASHSEED="1")
    for seed in ("2", "3"):
        told = project.accepted(PYTHONHASHSEED=seed)
        assert "note: not compared, because they differ at every import: NOW, ORDER, R, RUN['id']" in told
    project.edit("'n': 1", "'n': 2")
    assert "RUN['n'] in tk.py has changed: 1 → 2" in project.refused()
    project.edit("'n': 2", "'n': 1")
    project.edit("time.time()", "time.time() + 1")
    assert "NOW in tk.py has changed" in project.refused()


def test_resume_80_random_samples(project):
    """80: samples made from randomness are refused, naming the samples."""
    project.write(
        tk=code("import random\n" + ASK.format("'one'")).replace(
            'Sample("a", id="s1"', 'Sample(str(random.random()), id="s1"'
        )
    )
    project.run()
    assert "the input was edited in: s1" in project.refused()


@pytest.mark.parametrize("seed", ["0", "12345"])
def test_resume_82_another_hash_seed(project, seed):
    """82: the order of sets is no difference."""
    project.write(
        tk=code(
            "C = {'a', 'b', 'c', ('d', 'e'), frozenset('fg')}\nD = {k: {k} for k in C}\n"
            + ASK.format("str(len(C) + len(D))")
        )
    )
    project.run(PYTHONHASHSEED="1")
    assert "note" not in project.accepted(PYTHONHASHSEED=seed)


def test_resume_82_a_project_that_is_moved(project):
    """82: paths below the directory of the code count relative to it."""
    (project.directory / "one").mkdir()
    project.world.data["tasks"], project.world.data["datasets"] = {"t": {"use": "tk.py:t"}}, {}
    project.write(
        one__tk=code(
            "import os, pathlib\nHERE = pathlib.Path(__file__).parent\nDATA = str(HERE / 'x.txt')\nURL = f'file://{HERE}/y'\nCWD = {'d': os.path.dirname(__file__)}\n"
            + ASK.format("'one' + str((HERE, DATA, URL, CWD))[:0]")
        )
    )
    eval_file = project.world.write()
    shutil.move(eval_file, project.directory / "one" / "eval.yaml")
    project.holdfast("run", "one/eval.yaml", "--run-dir", "r", code=0)
    shutil.move(project.directory / "one", project.directory / "two")
    told = project.holdfast("resume", "r", "--config", "two/eval.yaml", code=0).err
    assert "note" not in told


def test_a_fork_keeps_no_answer_of_another_agent(project):
    """A fork compares what the gate compares: answers of the polite agent are not the rude one's."""
    text = code(
        "class Agent:\n    def __init__(self, style): self.style = style\n    async def solve(self, trial):\n        return (await trial.generate(self.style)).text\n",
        "Agent('polite').solve",
    )
    project.write(tk=text)
    project.run()
    made = project.holdfast("fork", "r", "--run-dir", "same", code=0)
    assert "1 of 1 trials kept" in made.out + made.err or project.holdfast("status", "same", "--json", code=0)
    assert json.loads(project.holdfast("status", "same", "--json", code=0).out)["finished"] == 1
    project.edit("Agent('polite')", "Agent('rude')")
    project.holdfast("fork", "r", "--run-dir", "other", code=0)
    assert json.loads(project.holdfast("status", "other", "--json").out)["finished"] == 0
    project.holdfast("resume", "other", code=0)
    assert json.loads(project.holdfast("show", "other", "--json", code=0).out)["trials"][0]["answer"] == "rude"


def test_a_fork_scores_again_with_a_changed_scorer_object(project):
    """52, 18: a scorer object's threshold is scoring: the answers are kept, and judged again."""
    text = code(
        "class Longer:\n    name = 'longer'\n    def __init__(self, least): self.least = least\n    def __call__(self, answer, sample): return len(answer.text) >= self.least\n    def identity(self): return {'scorer': 'longer'}\n    def check(self, sample, place): pass\n"
        + ASK.format("'four'"),
        scorer="Longer(3)",
    )
    project.write(tk=text)
    project.run()
    project.edit("Longer(3)", "Longer(5)")
    told = project.refused()
    assert "tasks.t.scorers.longer (scoring): Longer(…).least in tk.py has changed: 3 → 5" in told
    project.holdfast("fork", "r", "--run-dir", "other", code=0)
    project.holdfast("resume", "other", code=0)
    status = json.loads(project.holdfast("status", "other", "--json", code=0).out)
    assert status["calls"]["made"] == 0
    assert (
        json.loads(project.holdfast("report", "other", "--json", code=0).out)["tasks"]["t"]["m"]["metrics"]["longer"][
            "mean"
        ]["value"]
        == 0.0
    )


def test_the_tree_is_recorded_once(project):
    """75: sessions after the first refer to it, so that session records grow by little."""
    project.write(tk=code("C = {str(n): n for n in range(30)}\n" + ASK.format("str(C)")))
    project.run()
    for epochs in (2, 3, 4):
        project.world.data["tasks"] = {"t": {"use": "tk.py:t", "epochs": epochs}}
        project.holdfast("resume", "r", "--config", project.world.write(), code=0)
    codes = [session["code"]["t"] for session in project.world.records("session")]
    assert ["tree" in code for code in codes] == [True, False, False, False]
    assert [code.get("tree_session", 0) for code in codes] == [0, 1, 1, 1]
    project.edit("range(30)", "range(29)")
    assert "C['29'] in tk.py has gone" in project.refused()


def test_resume_54_a_constant_that_a_variable_happens_to_equal_is_shown(project):
    """54: what is written in the code is no secret, unless it equals what a secret variable holds."""
    project.write(tk=code("TONE, PIN = 'polite', 'short-1'\n" + ASK.format("TONE + PIN")))
    held = {"SOME_STYLE": "polite", "SOME_PASSWORD": "short-1"}
    project.run(**held)
    project.edit("'polite', 'short-1'", "'rude', 'short-2'")
    told = project.refused(**held)
    assert "TONE in tk.py has changed: 'polite' → 'rude'" in told
    assert "PIN in tk.py has changed: (not shown) → 'short-2'" in told


def test_resume_74_a_moved_directory_with_a_file_that_is_read_at_import(project):
    """74: the error says that the run's copy was loaded, and how to say where the files are now; that way works."""
    place = project.directory / "one"
    project.write(
        one__tk=code("from pathlib import Path\nW = (Path(__file__).parent / 'w.txt').read_text()\n" + ASK.format("W"))
    )
    (place / "w.txt").write_text("kind")
    (place / "eval.yaml").write_text("models: {m: {provider: scripted, model: echo}}\ntasks: {t: {use: 'tk.py:t'}}\n")
    project.holdfast("run", "one/eval.yaml", "--run-dir", "r", code=0)
    shutil.move(place, project.directory / "two")
    told = project.holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=2).err
    assert f"The run's own copy was loaded, since {place / 'tk.py'} no longer exists" in told
    assert "--set directory=PATH" in told and "--or-resume" in told
    moved = f"directory={project.directory / 'two'}"
    project.holdfast("resume", "r", "--set", "tasks.t.epochs=2", "--set", moved, code=0)
