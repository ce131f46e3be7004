"""Row 54: no key or token of the environment is in any byte of a run, whatever holds it and whatever goes wrong."""

from __future__ import annotations

import textwrap

import pytest
import zstandard

KEY = "Q7RZ3MWX9KPL4TVB6NHJ2DCF"
HEAD = """
import contextvars, dataclasses, enum, functools, os, types, typing
from holdfast import Sample, Task
KEY = os.environ["CAMPAIGN_TOKEN"]
async def ask(trial):
    return (await trial.generate("x")).text
def judge(answer, sample):
    return 1.0
def task_of(solver, scorer=judge):
    return Task(samples=[Sample("one", id="s1")], solver=solver, scorers=[scorer])
"""
HELD = (
    HEAD
    + """
URL = f"https://api.example.org/v1?api_key={KEY}&x=1"
HEADERS = {"Authorization": "Bearer " + KEY, "x-api-key": KEY}
@dataclasses.dataclass(slots=True)
class Client:
    key: str
CLIENT = Client(KEY)
def by_default(*, key=KEY, other=[KEY]): return len(key)
def closed(key):
    def outer():
        def inner(): return len(key["h"])
        return inner
    return outer()
INNER = closed({"h": [KEY]})
ERROR = ValueError("cannot log in with " + KEY)
os.environ["OTHER_NAME"] = KEY
def named(): return 1
named.__name__ = KEY
Made = type(KEY, (), {})
New = typing.NewType(KEY, str)
SPACE = types.SimpleNamespace(**{KEY: 1})
VARIABLE = contextvars.ContextVar(KEY)
Kind = enum.Enum("Kind", {KEY: 1})
GIVEN = functools.partial(dict, **{KEY: 1})
Fields = dataclasses.make_dataclass("Fields", [("k_" + KEY, str, "x")])
async def solve(trial):
    held = [URL, HEADERS, CLIENT, by_default(), INNER(), ERROR, os.environ["OTHER_NAME"], named.__name__, Made.__name__]
    held += [New.__name__, vars(SPACE), VARIABLE.get(1), len(Kind), GIVEN(), Fields()]
    return (await trial.generate(str(len(held)))).text
t = task_of(solve)
"""
)
RAISED = (
    HEAD
    + """
async def plain(trial):
    raise ValueError(f"cannot log in with {KEY}")
async def chained(trial):
    try:
        raise KeyError(KEY)
    except KeyError as error:
        raise RuntimeError("outer " + KEY) from error
async def noted(trial):
    error = ValueError("a")
    error.add_note("with " + KEY)
    raise error
async def grouped(trial):
    raise ExceptionGroup("both " + KEY, [ValueError(KEY)])
def refuse():
    raise ValueError("no " + KEY)
async def stepping(trial):
    await trial.step("a", refuse)
def strict(answer, sample):
    raise ValueError("https://x/?key=" + KEY)
a, b, c, d, e = map(task_of, (plain, chained, noted, grouped, stepping))
f = task_of(ask, strict)
"""
)


def contents(run):
    """Every file, as it is and unpacked."""
    for path in sorted(run.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path, data
            if path.suffix == ".zst" or data[:4] == b"\x28\xb5\x2f\xfd":
                yield path, zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


@pytest.fixture(params=["environment", ".env"])
def keyed_run(world, holdfast, request):
    """Runs and resumes a task file; what was printed, and where the key was found."""

    def carry_out(text, names, code):
        (world.directory / "tk.py").write_text(textwrap.dedent(text))
        if request.param == ".env":
            (world.directory / ".env").write_text(f"CAMPAIGN_TOKEN={KEY}\n")
        given = {"CAMPAIGN_TOKEN": KEY} if request.param == "environment" else {}
        world.data["tasks"], world.data["datasets"] = {name: {"use": f"tk.py:{name}"} for name in names}, {}
        world.data["max_retries"] = 0
        ended = [holdfast("run", world.write(), "--run-dir", "r", code=code, **given)]
        ended += [holdfast("resume", "r", code=code, **given), holdfast("show", "r", "--failed", **given)]
        found = [path.name for path, data in contents(world.directory / "r") if KEY.encode() in data]
        return found, "".join(one.out + one.err for one in ended)

    return carry_out


def test_resume_54_keys_that_code_holds_are_in_no_byte(keyed_run):
    """54: constants, defaults, closures, headers, addresses, fields, errors, and names that were made of a key."""
    found, printed = keyed_run(HELD, ["t"], 0)
    assert found == [] and KEY not in printed


def test_resume_54_keys_in_errors_are_in_no_byte(keyed_run):
    """54: messages, causes, notes, groups and steps; the message says which variable stood there."""
    found, printed = keyed_run(RAISED, list("abcdef"), 1)
    assert found == [] and KEY not in printed
    assert "cannot log in with [CAMPAIGN_TOKEN]" in printed


def test_a_file_that_fails_to_load_shows_no_key(world, holdfast):
    """What a file raises while it is loaded is printed without keys."""
    (world.directory / "tk.py").write_text("import os\nraise ValueError('no ' + os.environ['CAMPAIGN_TOKEN'])\n")
    world.data["tasks"], world.data["datasets"] = {"t": {"use": "tk.py:t"}}, {}
    ended = holdfast("run", world.write(), "--run-dir", "r", code=2, CAMPAIGN_TOKEN=KEY)
    assert KEY not in ended.err and "ValueError: no [CAMPAIGN_TOKEN]" in ended.err
