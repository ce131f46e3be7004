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


PARTS = """
import json, os, urllib.parse
from holdfast import Sample, Task
P = urllib.parse.urlsplit(os.environ["DATABASE_URL"]).password
NET = urllib.parse.urlsplit(os.environ["DATABASE_URL"]).netloc
JSON = json.loads(os.environ["GOOGLE_CREDENTIALS_JSON"])
PEM = os.environ["DEPLOY_PRIVATE_KEY"].splitlines()
CUT = os.environ["CAMPAIGN_TOKEN"].split("-")[-1]
STYLE = "kind"
async def solve(trial):
    held = [P, NET, JSON, PEM, CUT, 'gone "by"' + P]
    return (await trial.generate(f"{len(held)} {STYLE}")).text
async def fail(trial):
    raise ValueError(f"cannot log in with {P} {JSON['private_key']} {PEM[1]} {CUT}")
def judge(answer, sample):
    return 1.0
a, b = (Task(samples=[Sample("one", id="s1")], solver=given, scorers=[judge]) for given in (solve, fail))
"""


def partly_secret(mark):
    """Variables that hold secrets among other things, and the secrets; both differ by the mark."""
    secrets = [f"{name}{mark}Zk8Wq3Lm7" for name in ("db", "gc", "pe", "to")]
    database, google, pem, token = secrets
    return secrets, {
        "DATABASE_URL": f"postgres://me:{database}@127.0.0.1/x",
        "GOOGLE_CREDENTIALS_JSON": '{"type": "service_account", "private_key": "BEGIN\\n' + google + '"}',
        "DEPLOY_PRIVATE_KEY": f"-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----",
        "CAMPAIGN_TOKEN": f"sk-test-{token}",
    }


def test_resume_54_parts_of_variables_are_keys_too(world, holdfast):
    """54: what code takes out of an address, of JSON, of PEM or of a key is in no byte, and may rotate."""
    (world.directory / "tk.py").write_text(PARTS)
    world.data["tasks"], world.data["datasets"] = {name: {"use": f"tk.py:{name}"} for name in "ab"}, {}
    world.data["max_retries"] = 0
    (first, given), (second, rotated) = partly_secret("X1A"), partly_secret("Y2B")
    ended = [holdfast("run", world.write(), "--run-dir", "r", code=1, **given)]
    ended += [holdfast("resume", "r", code=1, **rotated), holdfast("show", "r", "--failed", **rotated)]
    text = (world.directory / "tk.py").read_text()
    (world.directory / "tk.py").write_text(text.replace('"kind"', '"rude"'))
    ended += [holdfast("resume", "r", code=3, **rotated)]
    printed = "".join(one.out + one.err for one in ended)
    found = {key for _, data in contents(world.directory / "r") for key in first + second if key.encode() in data}
    assert found == set() and not any(key in printed for key in first + second)
    assert "cannot log in with [DATABASE_URL]" in printed
    assert "STYLE in tk.py has changed: 'kind' → 'rude'" in ended[-1].err and "→ '[key]" not in ended[-1].err


def test_what_a_secret_variable_holds_besides_is_compared(world, holdfast, tmp_path):
    """54: names of fields, paths and addresses in such a variable are no keys, nor are words that are alike."""
    (tmp_path / "k.json").write_text("{}")
    names = {
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "k.json"),
        "TOKEN_URL": "https://example.org/oauth2/token",
    }
    text = HEAD.replace("CAMPAIGN_TOKEN", "PATH") + (
        f'WHERE = "{tmp_path}/others"\nSITE = "https://example.org/oauth2"\n'
        "async def solve(trial):\n    return (await trial.generate(WHERE + SITE)).text\nt = task_of(solve)\n"
    )
    (world.directory / "tk.py").write_text(text)
    world.data["tasks"], world.data["datasets"] = {"t": {"use": "tk.py:t"}}, {}
    holdfast("run", world.write(), "--run-dir", "r", **names)
    holdfast("resume", "r")
    (world.directory / "tk.py").write_text(text.replace("oauth2", "oauth3"))
    assert "'https://example.org/oauth2' → 'https://example.org/oauth3'" in holdfast("resume", "r", code=3).err
