"""Rows 1 to 18 and 30: what may change between a run and its resume, and what may not."""

from __future__ import annotations

import copy
import json
import re

import pytest
from gate_world import MODEL, TASK
from schema_values import leaves, steps_to

from holdfast.spec import Drift


def begun(world, **keys):
    """A run that died before its first trial, with these keys at the top of its eval."""
    world.data |= keys
    world.begin()


def test_resume_1_nothing_changes(world):
    """A resume without a change leaves config.yaml as it is, byte for byte, and finishes the run."""
    begun(world, concurrency_limit=8)
    before, time = world.config, (world.run_dir / "config.yaml").stat().st_mtime_ns
    told = world.resume(code=0)
    assert world.config == before
    assert (world.run_dir / "config.yaml").stat().st_mtime_ns == time
    assert "with the configuration saved in the run.\n" in told.err
    assert world.entries == [] and len(world.status()["sessions"]) == 2
    world.check_complete(4)


def test_resume_1_in_real_processes(holdfast, world):
    """The same, in processes of their own: the run is enough."""
    world.data["concurrency_limit"] = 1
    point = "frame.acknowledged:6"
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT=point).code == -9
    before = world.config
    (world.directory / "eval.yaml").unlink()
    assert "Complete: 4 of 4" in holdfast("resume", "r", code=0).out
    assert world.config == before
    world.check_complete(4)


def test_resume_2_concurrency_limit(world):
    """A lower limit is applied; the header keeps its first lines and gains one entry."""
    begun(world, concurrency_limit=8)
    first = world.header
    world.data["concurrency_limit"] = 2
    world.resume(code=0)
    assert world.body["runner"]["concurrency_limit"] == 2
    assert world.header[: len(first)] == first
    assert re.fullmatch(r"# Created by holdfast \S+ at \S+", first[0])
    assert first[-1] == "#   source: eval.yaml"
    told, entry = world.header[len(first) :]
    assert re.fullmatch(r"# Resumed by holdfast \S+ at \S+:", told)
    assert entry == "#   - runner.concurrency_limit: 8 → 2"
    world.check_complete(4)


def test_resume_2_in_real_processes(holdfast, world):
    """After a kill the service is asked more slowly, and nothing is asked twice."""
    world.data["concurrency_limit"] = 8
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:2").code == -9
    told = holdfast("resume", "r", "--set", "concurrency_limit=2", code=0)
    assert "runner.concurrency_limit: 8 → 2" in told.err
    assert world.entries == ["runner.concurrency_limit: 8 → 2"]
    assert world.body["runner"]["concurrency_limit"] == 2
    status = world.status()
    assert (status["state"], status["finished"]) == ("complete", 4)
    assert status["calls"]["made"] <= 4 + status["calls"]["in_flight_at_kill"]


def test_resume_3_limit_removed_and_stage_limits_added(world):
    """A limit that is taken out falls back to the default, which is told; a limit by stage is new."""
    begun(world, concurrency_limit=8)
    del world.data["concurrency_limit"]
    world.data["concurrency_limits"] = {"solve": 3}
    world.resume(code=0)
    assert world.entries == ["runner.concurrency_limit: 8 → 256", "runner.concurrency_limits.solve: unset → 3"]
    del world.data["concurrency_limits"]
    world.resume(code=0)
    assert world.entries[2:] == ["runner.concurrency_limits.solve: 3 → unset"]


def test_resume_4_limit_of_a_model(world):
    """A model's own limit changes while its generation stays."""
    world.model.update({"generation": {"temperature": 0.5}, "concurrency_limit": 4})
    world.begin()
    world.model["concurrency_limit"] = 1
    world.resume(code=0)
    assert world.entries == ["models.m.concurrency_limit: 4 → 1"]


def test_resume_5_stage_limit_in_the_runner_block(world):
    """The entry has the full dotted path, wherever the key stands in the file."""
    begun(world, runner={"concurrency_limits": {"solve": 4, "score": 2}})
    world.data["runner"]["concurrency_limits"]["score"] = 1
    world.resume(code=0)
    assert world.entries == ["runner.concurrency_limits.score: 2 → 1"]


def test_resume_6_a_block_that_was_not_there(world):
    """Throughput keys may come with their block: of a task, a model and the run."""
    world.begin()
    world.task["runner"] = {"concurrency_limits": {"solve": 2}}
    world.model["rate_limit"] = {"requests_per_minute": 60000}
    world.data["runner"] = {"progress_interval": 5.0}
    world.resume(code=0)
    assert world.entries == [
        "models.m.rate_limit.requests_per_minute: unset → 60000",
        "tasks.t.runner.concurrency_limits.solve: unset → 2",
        "runner.progress_interval: 1.0 → 5.0",
    ]


NAMES = {"small": "m", "rows": "rows", "ask": "t"}
FAST = {"requests_per_minute": 10**6, "tokens_per_minute": 10**8, "grace_period": 3.5, "progress_interval": 2.5}

SWITCHES = {"show_progress", "fail_fast"}


def put(data, place, value):
    """Puts a value at a place of the schema, in the names of this world."""
    *blocks, key = [NAMES.get(str(step), step) for step in steps_to(place)]
    for block in blocks:
        data = data.setdefault(block, {})
    data[key] = value


OF_AGENTS = ("tasks.*.agent.", "tasks.*.workspace.")
"""Fields that a task without an agent cannot have: tests/agents offers them to a run that has one."""
THROUGHPUT = [place for place in leaves() if place.drift is Drift.THROUGHPUT and not place.path.startswith(OF_AGENTS)]


def test_resume_7_every_throughput_field_in_every_block(world):
    """One by one, in a block of its own, each is tolerated, noted in the header and recorded in the lineage."""
    world.begin()
    world.resume(code=0)
    original = world.data
    for place in THROUGHPUT:
        world.data = copy.deepcopy(original)
        value = False if place.field.name in SWITCHES else FAST.get(place.field.name, 3)
        put(world.data, place, value)
        count = len(world.entries)
        world.resume(code=0)
        changed = [entry for entry in world.entries[count:] if f"{place.field.name}: " in entry]
        assert [json.loads(entry.rpartition(" → ")[2]) for entry in changed[-1:]] == [value], place.path
    sessions = world.status()["sessions"]
    assert len(sessions) == 2 + len(THROUGHPUT)
    assert all(session["changes"] for session in sessions[2:])
    noted = [f"{change['path']}" for session in sessions for change in session["changes"]]
    assert noted == [entry.partition(": ")[0] for entry in world.entries]
    assert world.config.count("# Resumed by") == len(THROUGHPUT) and world.config.count("# Created by") == 1
    world.check_complete(4)


def test_resume_8_three_resumes_in_a_row(world):
    """Entries accumulate in order under one line that tells of the creation."""
    begun(world, concurrency_limit=8)
    for limit in (4, 2, 1):
        world.data["concurrency_limit"] = limit
        world.resume(code=0)
    assert world.entries == [f"runner.concurrency_limit: {change}" for change in ("8 → 4", "4 → 2", "2 → 1")]
    kinds = [line.split()[1] for line in world.header if re.match(r"# \w", line)]
    assert kinds == ["Created", "Resumed", "Resumed", "Resumed"]


def test_resume_9_display(world):
    """How progress is shown may change."""
    world.begin()
    world.data |= {"show_progress": False, "progress_interval": 30}
    world.resume(code=0)
    assert world.entries == ["runner.show_progress: true → false", "runner.progress_interval: 1.0 → 30.0"]


def test_resume_10_identity_beside_throughput(world):
    """A refusal names what is refused, and blames nothing else."""
    begun(world, concurrency_limit=8)
    world.data["concurrency_limit"] = 2
    world.model["generation"] = {"temperature": 1.0}
    told = world.refused()
    assert "models.m.generation.temperature (identity): unset → 1.0" in told
    assert "concurrency_limit" not in told


@pytest.mark.parametrize("block", ["top", "runner", "task", "task runner"])
def test_resume_11_what_is_recorded(world, block):
    """A field that changes what is written about a trial is refused as such, wherever it stands."""
    world.begin()
    key = "max_retries"
    blocks = {"top": world.data, "task": world.task}
    owner = blocks[block] if block in blocks else (world.task if " " in block else world.data).setdefault("runner", {})
    owner[key] = 7
    told = world.refused()
    assert f"{key} (recorded): " in told and "`holdfast fork`" in told


def test_resume_11_a_setting_of_the_run_is_told_once(world):
    """Tasks have it from the run, and nobody has set it there."""
    world.data["tasks"]["u"] = dict(world.task)
    world.begin()
    world.data["max_retries"] = 7
    told = world.refused()
    assert "  runner.max_retries (recorded): 2 → 7" in told and told.count("max_retries") == 1
    world.task["max_retries"] = 5
    told = world.refused()
    assert "tasks.t.runner.max_retries (recorded): 2 → 5" in told and told.count("max_retries") == 2


REFUSED = {
    "seed": (lambda world: world.data.update(seed=5), "seed (identity): 0 → 5"),
    "temperature": (
        lambda world: world.model.update(generation={"temperature": 0.3}),
        "models.m.generation.temperature (identity): unset → 0.3",
    ),
    "max_tokens": (
        lambda world: world.model.update(generation={"max_tokens": 9}),
        "models.m.generation.max_tokens (identity): unset → 9",
    ),
    "model": (lambda world: world.model.update(model="other"), "models.m.model (identity): echo → other"),
    "provider": (lambda world: world.model.update(provider="openai"), "models.m.provider (identity): "),
    "args": (lambda world: world.model.update(args={"default": "x"}), "models.m.args (identity): "),
    "prompt": (
        lambda world: world.task.update(prompt="Well: {question}"),
        "tasks.t.prompt (identity): {question} → Well: {question}",
    ),
    "system": (lambda world: world.task.update(system="Be brief."), "tasks.t.system (identity): unset → Be brief."),
    "few_shot": (
        lambda world: world.task.update(few_shot=[{"input": "a", "output": "b"}]),
        "tasks.t.few_shot (identity): ",
    ),
    "slice": (
        lambda world: world.data["datasets"]["rows"].update(operations=[{"slice": {"num": 2}}]),
        "datasets.rows.operations (identity): ",
    ),
    "shuffle": (
        lambda world: world.data["datasets"]["rows"].update(operations=[{"shuffle": {"seed": 4}}]),
        "datasets.rows.operations (identity): ",
    ),
    "limits": (lambda world: world.task.update(limits={"tokens": 9}), "tasks.t.limits.tokens (identity): unset → 9"),
    "dataset": (
        lambda world: (
            world.data["datasets"].update(others={"path": "rows.jsonl"}),
            world.task.update(dataset="others"),
        ),
        "tasks.t.dataset (identity): rows → others",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_resume_12_identity(world, name):
    """What is asked or answered may not change; the field, its class, both values and the way out are named."""
    world.begin()
    change, message = REFUSED[name]
    change(world)
    told = world.refused()
    assert message in told and "`holdfast fork` starts a run with it" in told


def test_resume_12_in_real_processes(holdfast, world):
    """A refused resume leaves every file of a killed run as it was, its index and its lease too."""
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:2").code == -9
    holdfast("resume", "r", HOLDFAST_CRASH_AT="session.opened")
    assert (world.run_dir / ".index.sqlite").exists()
    world.model["generation"] = {"temperature": 1.0}
    before = world.everything()
    ended = holdfast("resume", "r", "--config", world.write(), code=3)
    assert ended.err.startswith("holdfast: Resume aborted: ") and "nothing was written" in ended.err
    told = holdfast.json("resume", "r", "--config", world.write(), code=3)
    assert told["kind"] == "resume_aborted" and "temperature" in told["error"]
    ended = holdfast("run", world.write(), "--run-dir", "r", "--or-resume", code=3)
    assert "temperature (identity)" in ended.err
    assert world.everything() == before


DRAWN = {"generation": {"temperature": 0.0}}
IN_BLOCKS = """# an eval
name: gate # its name
tasks:
  t: {scorers: exact, target: '{answer}', prompt: "{question}", dataset: rows, models: [m]}
datasets: {rows: rows.jsonl}
models:
  m:
    provider: scripted
    model: echo
    generation: {temperature: 0.00}
"""
NOTHING = {"temperature": 0, "logprobs": False, "stop": None}

WRITTEN_ANEW = {
    "defaults spelled out": {
        "seed": 0,
        "grace_period": 30,
        "show_progress": True,
        "runner": {"max_retries": 2},
        "tags": [],
    },
    "null against absent": {
        "concurrency_limits": None,
        "models": {"m": {**MODEL, "generation": NOTHING, "price": None}},
    },
    "empty blocks": {"runner": {}, "models": {"m": {**MODEL, **DRAWN, "rate_limit": {}, "timeouts": {}, "args": {}}}},
    "0 against 0.0": {"models": {"m": {**MODEL, "generation": {"temperature": 0}}}},
    "shorthands": {"datasets": {"rows": "rows.jsonl"}, "models": {"m": {"model": "scripted/echo", **DRAWN}}},
    "unmatched fields": {"name": "another", "description": "told", "tags": ["a"]},
}


def written_anew(world, name):
    """The same eval in another form."""
    if name == "block style and comments":
        return world.write(IN_BLOCKS)
    if name == "order of keys":
        return world.write({key: world.data[key] for key in reversed(world.data)})
    return world.write({**world.data, **WRITTEN_ANEW[name]})


@pytest.mark.parametrize("name", [*WRITTEN_ANEW, "order of keys", "block style and comments"])
def test_resume_13_written_differently(world, name):
    """However the same eval is written, it is the same: no entry, and the file is not touched."""
    world.model.update(DRAWN)
    world.begin()
    before, time = world.config, (world.run_dir / "config.yaml").stat().st_mtime_ns
    eval_file = written_anew(world, name)
    assert world("diff", "r", eval_file, code=0).out == "No difference.\n"
    world("resume", "r", "--config", eval_file, code=0)
    assert world.config == before and world.entries == []
    assert (world.run_dir / "config.yaml").stat().st_mtime_ns == time
    assert [session["changes"] for session in world.status()["sessions"]] == [[], []]


KEY = "sk-live-0123456789abcdefghij"


def test_resume_14_and_15_where_things_are_reached(holdfast, server, world, monkeypatch):
    """Address, variable and timeouts may change, and are noted; a key's value is nowhere, whichever it was."""
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.model.update({"api_key_env": "FIRST_KEY"})
    world.task["target"] = "x"
    server.behave(hold=True, **{"pass": 1})
    started = holdfast.start("run", world.write(), "--run-dir", "r", FIRST_KEY=KEY)
    server.wait_for(answered=1, in_flight=3)
    started.kill()
    server.behave()
    other = server.base_url.replace("127.0.0.1", "localhost")
    world.model.update({"base_url": other, "api_key_env": "SECOND_KEY", "timeouts": {"read": 30, "total": 60}})
    holdfast("resume", "r", "--config", world.write(), SECOND_KEY=KEY + "2", code=0)
    assert world.entries == [
        f"models.m.base_url: {server.base_url} → {other}",
        "models.m.api_key_env: FIRST_KEY → SECOND_KEY",
        "models.m.timeouts.read: 600.0 → 30.0",
        "models.m.timeouts.total: 3600.0 → 60.0",
    ]
    # A key that was rotated is no change, and opens no session of a complete run.
    before = world.everything()
    holdfast("resume", "r", SECOND_KEY=KEY + "3", code=0)
    holdfast("resume", "r", "--config", world.write(), SECOND_KEY=KEY + "4", code=0)
    assert world.everything() == before
    world.json("verify", "r", code=0)
    files = [path for path in world.directory.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    assert KEY not in world("cat", "r").out


def test_resume_15_rotated_key_of_an_unfinished_run(holdfast, server, world):
    """Another key in the same variable is no change at all."""
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.model["api_key_env"] = "SOME_KEY"
    world.task["target"] = "x"
    point = "frame.acknowledged:2"
    assert holdfast("run", world.write(), "--run-dir", "r", SOME_KEY=KEY, HOLDFAST_CRASH_AT=point).code == -9
    before = world.config
    holdfast("resume", "r", SOME_KEY=KEY + "2", code=0)
    assert world.config == before and world.status()["state"] == "complete"


def test_resume_18_arguments_of_a_scorer(world):
    """A scorer that judges otherwise is refused, and what keeps the answers is named."""
    world.task["scorers"] = ["exact", {"regex": {"pattern": "q(.*)"}}]
    world.begin()
    world.task["scorers"] = ["exact", {"regex": {"pattern": "(.*)"}}]
    told = world.refused()
    assert 'tasks.t.scorers.regex (scoring): {"pattern":"q(.*)"} → {"pattern":"(.*)"}' in told
    assert "holdfast rescore r" in told and "scorers.exact" not in told


def test_resume_18_scorers_of_one_kind_are_told_apart_by_name(world):
    """Two scorers of one kind are compared each with its own; the order they stand in does not matter."""
    first, second = ({"regex": {"name": name, "pattern": name}} for name in ("a", "b"))
    world.task["scorers"] = [first, second]
    world.begin()
    world.task["scorers"] = [second, first]
    assert world("diff", "r", world.write(), code=0).out.strip() in {"", "No difference."}
    world.task["scorers"] = [second, {"regex": {"name": "a", "pattern": "c"}}]
    assert "tasks.t.scorers.a (scoring): " in world.refused()


def test_resume_18_target_template(world):
    """Another target is another judgement."""
    world.begin()
    world.task["target"] = "{question}"
    assert "tasks.t.target (scoring): {answer} → {question}" in world.refused()


def test_resume_30_set_temperature(world):
    """`--set` goes through the gate before anything is written."""
    world.begin()
    told = world.refused("--set", "temperature=1")
    assert "models.m.generation.temperature (identity): unset → 1.0" in told
    assert "models.m.generation.temperature" in world.refused("--set", "models.m.generation.temperature=1", given=False)
    assert "tasks.t.runner" not in told


def last_name(entry):
    return entry.partition(": ")[0].rpartition(".")[2]


@pytest.mark.parametrize(
    ("setting", "entry"),
    [
        ("concurrency_limit=8", "runner.concurrency_limit: 256 → 8"),
        ("runner.concurrency_limit=8", "runner.concurrency_limit: 256 → 8"),
        ("concurrency_limits.solve=8", "runner.concurrency_limits.solve: 5 → 8"),
        ("runner.concurrency_limits={solve: 8}", "runner.concurrency_limits.solve: 5 → 8"),
        ("tasks.t.concurrency_limit=8", "tasks.t.runner.concurrency_limit: unset → 8"),
        ("tasks.t.runner.concurrency_limits.score=8", "tasks.t.runner.concurrency_limits.score: unset → 8"),
        ("models.m.concurrency_limit=8", "models.m.concurrency_limit: unset → 8"),
        ("models.m.rate_limit.tokens_per_minute=1000000", "models.m.rate_limit.tokens_per_minute: unset → 1000000"),
        ("tokens_per_minute=1000000", "models.m.rate_limit.tokens_per_minute: unset → 1000000"),
        ('models."m.2".concurrency_limit=8', 'models."m.2".concurrency_limit: unset → 8'),
        ("grace_period=1.5", "runner.grace_period: 30.0 → 1.5"),
        ("epochs=2", "tasks.t.epochs: 1 → 2"),
    ],
)
def test_set_finds_its_key(world, setting, entry):
    """A dotted path, or a bare name for wherever the key may stand, changes what it means and nothing else."""
    world.data |= {"concurrency_limits": {"solve": 5}, "models": {"m": MODEL, "m.2": MODEL}}
    world.task["models"] = ["m"]
    world.begin()
    world("resume", "r", "--set", setting, code=0)
    assert entry in world.entries
    assert all(
        line.partition(":")[0].rpartition(".")[2] == entry.partition(":")[0].rpartition(".")[2]
        for line in world.entries
    )
    assert world.status()["state"] == "complete"


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("nonsense=1", "nonsense is not a known key"),
        ("models.m.nonsense=1", "models.m.nonsense is not a known key"),
        ("tasks.t.concurrency_limt=1", "did you mean concurrency_limit?"),
        ("models.other.concurrency_limit=1", "The eval has no model 'other'. It has m."),
        ("concurrency_limit=many", 'concurrency_limit is "many"; allowed: a whole number'),
        ("concurrency_limit=0", "concurrency_limit is 0; allowed: "),
        ("concurrency_limit=", "has no value"),
        ("temperature=hot", 'models.m.generation.temperature is "hot"; allowed: a number'),
        ("name.first=1", "name is not a block"),
        ("a..b=1", "is not the path"),
        ("concurrency_limit", "has no value"),
        ("concurrency_limit=[1", "the argument concurrency_limit"),
    ],
)
def test_set_refuses_what_makes_no_sense(world, setting, named):
    """An unknown key or a value that does not fit is exit 2; it is named, and nothing is written."""
    world.begin()
    before = world.everything()
    told = world("resume", "r", "--set", setting)
    if setting.endswith("limit="):
        assert told.code == 0  # nothing given is the default
        return
    assert told.code == 2 and named in told.err, told
    assert world.everything() == before


def test_an_entry_stays_on_one_line(world):
    """Whatever a value holds, its entry is one line of comment."""
    world.begin()
    world.data["datasets"]["rows"]["path"] = "./rows.jsonl"
    world.task["concurrency_limit"] = 3
    world.data["models"]["new\u2028model"] = MODEL
    world.task["models"] = ["m"]
    world.resume(code=0)
    assert all(line.startswith("#") for line in world.config.split("\n\n")[0].splitlines())
    assert world("resume", "r", code=0).out.endswith("complete, 4 of 4; nothing was run.\n")


def test_the_invocation_stands_in_the_header(holdfast, world):
    """The header says what was typed, and from which file."""
    world.data["tasks"]["t"] = {**TASK, "limit": 1}
    eval_file = world.write()
    holdfast("run", eval_file, "--run-dir", "r", "--set", "concurrency_limit=3", code=0)
    assert world.header[1].endswith(f"run {eval_file} --run-dir r --set concurrency_limit=3")
    assert world.header[2] == f"#   source: {eval_file}"
