# ruff: noqa: E501 - the task is read line by line
"""Resume 82: a run is resumed by another minor version of Python.

Tried with every other interpreter on the path, or in HOLDFAST_TEST_PYTHONS, that has the packages Holdfast needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from code_project import code

import holdfast as package

SOURCE = Path(package.__file__).parents[1]
NEEDED = "import aiohttp, click, msgspec, yaml, rich, zstandard, sys; print(sys.version_info[:2])"
TASK = """
import abc, collections, configparser, dataclasses, datetime, decimal, enum, fractions, functools, pathlib, queue, re, string, tempfile, types, typing

class Pair(typing.NamedTuple):
    tone: str
    n: int

Old = collections.namedtuple("Old", ["a", "b"], defaults=[2])

@dataclasses.dataclass(frozen=True, order=True)
class Config:
    name: str = "one"
    words: list = dataclasses.field(default_factory=list, metadata={"a": 1})

class Kind(enum.Enum):
    A, B = 1, 2

class Flag(enum.Flag):
    X = enum.auto()
    Y = enum.auto()

class Word(str, enum.Enum):
    HI = "hi"

class Base(abc.ABC):
    @abc.abstractmethod
    def say(self): ...

class Own(Base, typing.Generic[typing.TypeVar("T")]):
    __slots__ = ("held",)
    def __init__(self, held): self.held = held
    def say(self): return [n for n in range(3) if n] and f"{self.held!r:>5}"
    @property
    def loud(self): return self.say().upper()

class Where(type(pathlib.Path())): pass
class Much(decimal.Decimal): pass

class Says(typing.Protocol):
    def say(self): return "p"

class Said(Says):
    @functools.singledispatchmethod
    def on(self, x): return x

class Row(typing.TypedDict):
    a: str

Made = dataclasses.make_dataclass("Made", [("p", str, "m")])
Settings = configparser.ConfigParser()
Settings.read_string("[a]\\np=1")
Waiting = queue.Queue()
Waiting.put("w")
Folder = tempfile.TemporaryDirectory()

def outer(k):
    def inner(x, *, d={"b": 1, "a": 2}):
        try:
            with open("/dev/null") as f: return x + k + f.read() + "".join(d)
        except ValueError: return k
    return inner

VALUES = [Pair("a", 1), Old(1), Config(), Kind.A, Flag.X | Flag.Y, Word.HI, Own("x"), Where("a/b"), Much("1.5"),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), fractions.Fraction(1, 3), re.compile("a", re.I), types.SimpleNamespace(a=1),
    string.Template("$a"), functools.partial(outer, "p"), collections.Counter("aab"), list[int], int | None, pathlib.PurePosixPath("q"),
    functools.lru_cache(outer), str.upper, "a".join, collections.deque([1], 3), types.MappingProxyType({"a": 1}), range(3), outer("k"),
    Said(), Row, Made(), Settings, Waiting, Folder, typing.Literal["a"], typing.NewType("New", str), typing.TypedDict, typing.Optional[int]]

async def solve(trial):
    return (await trial.generate(repr(len(VALUES)) + str(Row.__required_keys__))).text
"""


def interpreters():
    named = os.environ.get("HOLDFAST_TEST_PYTHONS", "").split(":")
    found = [*filter(None, named), *(shutil.which(f"python3.{minor}") for minor in range(11, 16))]
    return [word for word in dict.fromkeys(found) if word and is_usable(word)]


def is_usable(word):
    done = subprocess.run([word, "-c", NEEDED], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode == 0 and done.stdout.strip() != str(sys.version_info[:2])


def test_resume_82_another_minor_version_of_python(project):
    """82: whatever the task holds, the code is the same; a change is still named."""
    others = interpreters()
    if not others:
        pytest.skip("no other version of Python has the packages that Holdfast needs")
    project.write(tk=code(TASK))
    project.run()
    for word in others:
        command = [word, "-m", "holdfast", "resume", "r"]
        options = {"cwd": project.directory, "env": {**os.environ, "PYTHONPATH": str(SOURCE)}}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
        assert done.returncode == 0, (word, done.stderr)
        assert "the python differs from the last session" in done.stderr
        project.edit('name: str = "one"', 'name: str = "two"')
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
        assert done.returncode == 3 and "'one' → 'two'" in done.stderr, (word, done.stderr)
        project.edit('name: str = "two"', 'name: str = "one"')
