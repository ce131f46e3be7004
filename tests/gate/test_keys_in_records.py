"""Promise 9, resume 54: whatever a task does with a key of the environment, no byte of its run holds the key.

What a solver sees is the same live and replayed, and a key that was rotated in between changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from test_keys_in_runs import contents

from holdfast.models.environment_keys import know_environment_keys
from holdfast.models.fingerprints import fingerprint
from holdfast.models.message import Message, Request
from holdfast.models.redaction import Secrets, known_secrets

PLAIN, ODD = "Q7RZ3MWX9KPL4TVB6NHJ2DCF", 'Zq7"Rx\\9/kP+ü 4TVB6NHJ2DCF'
FRAGMENT = "4TVB6NHJ2DCF"
ROTATED = "hVn83mPq0XkL5sTz-ROTATED"

TASK = """
import json, os, pathlib, signal, urllib.parse
from holdfast import Message, Sample, Score, Task

def key():
    return os.environ["CAMPAIGN_TOKEN"]

def look_up(given, *, header):
    assert given == key() and header == "Bearer " + key()
    return {"found": [key(), json.dumps({"k": key()})], key(): urllib.parse.quote(key())}

async def solve(trial):
    system = Message("system", "log in with " + key())
    first = await trial.generate([system, Message("user", "mine is " + key())])
    assert key() not in first.text and "mine is [CAMPAIGN_TOKEN]" in first.text, first.text
    second = await trial.generate(json.dumps({"token": key()}), stop=["\\n", key()[:30]])
    found = await trial.step("call with " + key(), look_up, key(), header="Bearer " + key())
    assert found["found"][0] == "[CAMPAIGN_TOKEN]" and key() not in str(found), found
    with trial.scope("as " + key()):
        third = await trial.generate(first.text)
    if not pathlib.Path("killed").exists():
        pathlib.Path("killed").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{first.text} {second.text} {third.text} {found} {key()}"

def judge(answer, sample):
    assert key() not in answer.text
    return Score(1.0, answer=key(), explanation="compared with " + key(), metadata={"by": {key(): [key()]}})

t = Task(samples=[Sample("one", id="s1")], solver=solve, scorers=[judge])
"""


@pytest.fixture
def project_with_key(world):
    """An eval whose task does everything that it should not with a key."""
    (world.directory / "tk.py").write_text(TASK)
    world.data["tasks"], world.data["datasets"] = {"t": {"use": "tk.py:t"}}, {}
    world.data |= {"max_retries": 0, "progress_file": "r/progress.json"}
    return world


def places_with(fragment, run):
    found = [path.name for path, data in contents(run) if fragment.encode() in data]
    databases = [path for path, data in contents(run) if data[:15] == b"SQLite format 3"]
    for path in databases:  # a long text may be spread over pages
        found += [path.name for line in sqlite3.connect(path).iterdump() if fragment in line]
    return found


@pytest.mark.parametrize("key", [PLAIN, ODD])
def test_a_key_in_everything_that_a_task_says_is_in_no_byte(project_with_key, holdfast, key):
    """Prompt, system text, reply, answer, arguments and result of a step, names, score; killed, and with a new key."""
    world = project_with_key
    holdfast("run", world.write(), "--run-dir", "r", code=-9, CAMPAIGN_TOKEN=key)
    killed = places_with(FRAGMENT, world.run_dir)
    ended = [holdfast("resume", "r", code=0, CAMPAIGN_TOKEN=ROTATED)]
    ended += [holdfast("show", "r", "s1", code=0), holdfast("verify", "r", "--deep", code=0)]
    printed = "".join(one.out + one.err for one in ended)
    assert killed == [] and places_with(FRAGMENT, world.run_dir) == places_with("-ROTATED", world.run_dir) == []
    assert FRAGMENT not in printed and "-ROTATED" not in printed and "mine is [CAMPAIGN_TOKEN]" in printed
    repeated = json.loads(holdfast("status", "r", "--json", code=0).out)["calls"]["repeated"]
    assert not any(repeated.values()), "a key that was rotated made a call again"


def test_a_replayed_trial_asks_what_is_on_record(project_with_key, holdfast):
    """`verify --replay` finds every recorded step again, and needs no live call."""
    world = project_with_key
    (world.directory / "killed").touch()
    holdfast("run", world.write(), "--run-dir", "r", code=0, CAMPAIGN_TOKEN=PLAIN)
    told = holdfast("verify", "r", "--replay", "s1", CAMPAIGN_TOKEN=ROTATED)
    assert told.code == 0, told


def test_a_replayed_answer_with_keys_among_its_names(project_with_key, holdfast):
    """Entries are compared in the order that they have without the keys."""
    world = project_with_key
    value = "{'k': key(), os.environ['OTHER_TOKEN']: [key()]}"
    edited = TASK.replace("async def solve", "async def unused").replace(
        "def judge", f"async def solve(trial):\n    return Answer('yes', value={value})\n\ndef judge"
    )
    (world.directory / "tk.py").write_text(edited.replace("import Message", "import Answer, Message"))
    keys = {"CAMPAIGN_TOKEN": PLAIN, "OTHER_TOKEN": "zyxwvutsrqponmlk98765"}
    holdfast("run", world.write(), "--run-dir", "r", code=0, **keys)
    told = holdfast("verify", "r", "--replay", "s1", **keys)
    assert told.code == 0, told


FIELDS = {
    "a prompt": (["tasks", "t", "prompt"], "{question} " + PLAIN, "tasks.t.prompt"),
    "a name": (["models", PLAIN], {"provider": "scripted", "model": "echo"}, "models"),
    "an argument": (["models", "m", "args", "note"], PLAIN, "models.m.args.note"),
    "a description": (["description"], f"with {PLAIN}", "description"),
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_key_in_the_configuration_is_refused(world, holdfast, name, words):
    """A run keeps its configuration as it is, so nothing is written; the message names place and variable."""
    path, value, place = FIELDS[name]
    inner = world.data
    for part in path[:-1]:
        inner = inner.setdefault(part, {})
    inner[path[-1]] = value
    told = holdfast("run", world.write(), "--run-dir", "r", *words, code=2, CAMPAIGN_TOKEN=PLAIN)
    assert f"{place} holds the value of the environment variable CAMPAIGN_TOKEN" in told.err
    assert not world.run_dir.exists() and PLAIN not in told.out + told.err
    if name != "an argument":
        holdfast("run", world.write(), "--run-dir", "r", code=0)


def test_a_key_in_a_dataset_is_refused(world, holdfast):
    """The row and the variable are named, nothing is written; without that variable, it is a text like any other."""
    world.rows[2]["question"] = f"who has {PLAIN}?"
    for words in (("--dry-run",), ()):
        told = holdfast("run", world.write(), "--run-dir", "r", *words, code=2, CAMPAIGN_TOKEN=PLAIN)
        assert "Row 3 of rows holds the value of the environment variable CAMPAIGN_TOKEN" in told.err
        assert not world.run_dir.exists() and PLAIN not in told.out + told.err
    holdfast("run", world.write(), "--run-dir", "r", code=0)
    # Resume 73: a variable decides nothing about a run that exists.
    holdfast("resume", "r", "--config", "eval.yaml", code=0, CAMPAIGN_TOKEN=PLAIN)


def test_a_key_in_added_rows_is_refused(world, holdfast):
    """The rows that a resume would add are looked at as those of a new run are."""
    holdfast("run", world.write(), "--run-dir", "r", code=0, CAMPAIGN_TOKEN=PLAIN)
    world.write_rows([*world.rows, {"id": "s9", "question": PLAIN, "answer": "x"}])
    told = holdfast("resume", "r", "--config", "eval.yaml", code=2, CAMPAIGN_TOKEN=PLAIN)
    assert "holds the value of the environment variable CAMPAIGN_TOKEN" in told.err and PLAIN not in told.err
    assert places_with(FRAGMENT, world.run_dir) == []


def test_a_key_on_the_command_line_and_in_names_of_files(world, holdfast):
    """Arguments of the command line lose it; a file with such a name is in the configuration, and refused."""
    held = f"dir-{PLAIN}"
    holdfast("run", world.write(), "--run-dir", f"{held}/r", code=0, CAMPAIGN_TOKEN=PLAIN)
    assert places_with(FRAGMENT, world.directory / held / "r") == []
    Path("rows.jsonl").rename(f"{PLAIN}.jsonl")
    world.data["datasets"]["rows"]["path"] = f"{PLAIN}.jsonl"
    Path("eval.yaml").write_text(json.dumps(world.data))
    told = holdfast("run", "eval.yaml", "--run-dir", "r", code=2, CAMPAIGN_TOKEN=PLAIN)
    assert "datasets.rows.path holds the value" in told.err and PLAIN not in told.err


def test_a_key_that_a_task_sets_while_it_runs(project_with_key, holdfast):
    """Variables that code adds to the environment, as a reader of `.env` files does, are known from then on."""
    world = project_with_key
    text = TASK.replace(
        "async def solve(trial):", f'async def solve(trial):\n    os.environ["CAMPAIGN_TOKEN"] = {PLAIN!r}'
    )
    (world.directory / "tk.py").write_text(text.replace(repr(PLAIN), "open('late').read()"))
    (world.directory / "late").write_text(PLAIN)
    (world.directory / "killed").touch()
    holdfast("run", world.write(), "--run-dir", "r", code=0)
    assert places_with(FRAGMENT, world.run_dir) == []


def test_variables_that_hold_no_key():
    """Paths, addresses, names of variables, and what only says something about a key are texts like any other."""
    environment = {
        "API_KEY_ENV": "OPENAI_API_KEY",
        "OPENAI_API_KEY": "short",
        "TOKEN_URL": "https://example.org/oauth2/token",
        "SECRETS": "https://example.org/secrets",
        "KEY_FILE": "/nowhere/at/all/key.pem",
        "CREDENTIALS": str(Path.cwd()),
        "KEY_NAME": "production-main",
        "STOP_TOKENS": "<end_of_turn> <unused>",
    }
    before = dict(known_secrets._names)
    know_environment_keys(environment)
    assert known_secrets._names == before


def test_what_is_known_of_variables_with_more_than_a_key(monkeypatch):
    """Passwords of addresses, and fields of JSON with the name of a secret."""
    known = Secrets()
    monkeypatch.setattr("holdfast.models.environment_keys.known_secrets", known)
    google = json.dumps(
        {"type": "service_account", "private_key": "BEGIN\nabcdef0123456789", "token_uri": "https://x.org/t"}
    )
    know_environment_keys({"DATABASE_URL": "postgres://me:short@host/x", "GCP_CREDENTIALS": google})
    assert known.redact("at postgres://me:short@host/x") == "at [DATABASE_URL]host/x"
    assert known.redact("BEGIN\nabcdef0123456789") == known.redact(google) == "[GCP_CREDENTIALS]"
    assert known.redact("https://x.org/t service_account") == "https://x.org/t service_account"


def test_a_fingerprint_depends_on_no_key(monkeypatch):
    """Two keys of one variable give one fingerprint; every other text counts."""
    known = Secrets()
    monkeypatch.setattr("holdfast.models.redaction.known_secrets", known)
    known.remember("A_KEY", PLAIN)
    known.remember("A_KEY", ROTATED)
    asked = [fingerprint(Request((Message("user", f"hello {text}"),))) for text in (PLAIN, ROTATED, "you", "[A_KEY]")]
    assert asked[0] == asked[1] != asked[2] != asked[3]
