"""What a person types first, and what a machine reads: init, run with flags, dry runs, and JSON of every verb."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from durable import snapshot
from evals import http_eval, write_dataset, write_eval

CAPITALS = """
from holdfast import Sample, Task, exact, generate, task

@task
def capitals(n: int = 3) -> Task:
    samples = [Sample(f"word {number}", target=f"word {number}", id=f"s{number}") for number in range(1, n + 1)]
    return Task(samples=samples, solver=generate(), scorers=exact())
"""
COUNTS = {
    "schema_version", "planned", "finished", "valid", "limited", "blocked", "failed", "unfinished", "not_started",
    "remaining", "remaining_by_reason",
}  # fmt: skip
STATUS = {
    *COUNTS, "run", "format", "state", "started_at", "last_updated_at", "sessions", "calls", "usage", "cost", "held_by",
    "currency", "transcripts_lost", "damage", "notes",
}  # fmt: skip
ENDED = {*COUNTS, "run", "state", "exit_code"}
OF_SESSION = {
    *ENDED, "ended_as", "warning", "not_uploaded", "selected", "failures", "tasks", "cost", "currency", "fail_under",
}  # fmt: skip


@pytest.fixture
def capitals(tmp_path):
    (tmp_path / "capitals.py").write_text(CAPITALS)
    return ["run", "capitals.py", "--model", "scripted/echo", "--run-dir", "r"]


def trials(holdfast):
    """Sample and epoch of every trial, sorted."""
    return sorted((end["sample"], end.get("epoch", 1)) for end in holdfast.records("r", "trial"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], [("s1", 1), ("s2", 1), ("s3", 1)]),
        (["-T", "n=2"], [("s1", 1), ("s2", 1)]),
        (["--epochs", "2", "--limit", "1"], [("s1", 1), ("s1", 2)]),
        (["--sample-id", "s3", "--sample-id", "s1"], [("s1", 1), ("s3", 1)]),
        (["-T", "n=9", "--limit", "5", "--sample-id", "s3", "--epochs", "4"], [("s3", n) for n in (1, 2, 3, 4)]),
        (["--set", "tasks.capitals.epochs=2", "--set", "concurrency_limit=1", "-T", "n=1"], [("s1", 1), ("s1", 2)]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_flags_choose_what_is_run(holdfast, capitals, flags, expected):
    """Epochs, limit, sample ids, arguments and settings each mean what they say."""
    holdfast(*capitals, *flags, code=0)
    assert trials(holdfast) == expected


def test_several_models_are_each_asked(holdfast, capitals):
    """--model may be given more than once."""
    reply = ["--set", "models.scripted/table.args={default: no}"]
    holdfast(*capitals, "--model", "scripted/table", *reply, code=0)
    tasks = holdfast.json("report", "r")["tasks"]["capitals"]
    found = {model: group["metrics"]["exact"]["accuracy"]["value"] for model, group in tasks.items()}
    assert found == {"scripted/echo": 1.0, "scripted/table": 0.0}


def test_a_run_without_a_directory_gets_one_of_its_own(holdfast, capitals, tmp_path):
    """Below runs/, named after the time and the eval, and no two are the same."""
    for _ in range(2):
        holdfast(*capitals[:-2], code=0)
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(names) == 2 and all(re.fullmatch(r"\d{8}-\d{6}-capitals-[0-9a-f]+", name) for name in names)
    header, *listed = holdfast("status", code=0).out.partition("\n\n")[0].splitlines()
    assert header.split()[:3] == ["run", "state", "finished"]
    assert len(listed) == 2 and all("complete" in line and "3/3" in line for line in listed)
    assert {run["state"] for run in holdfast.json("status")["runs"]} == {"complete"}


@pytest.mark.parametrize("as_json", [False, True])
def test_dry_run_writes_and_calls_nothing(holdfast, server, tmp_path, as_json):
    """A dry run shows the grid; there is no run afterwards, and no model was asked."""
    eval_file = http_eval(tmp_path, server.base_url, 5, task={"epochs": 3, "prompt": ["{question}", "? {question}"]})
    before = {name: data for name, data in snapshot(tmp_path).items() if not name.startswith(".")}
    command = ["run", eval_file, "--run-dir", "r", "--dry-run"]
    ended = holdfast(*command, *(["--json"] if as_json else []), code=0)
    if as_json:
        assert ended.json["planned"] == 30
        assert {key: ended.json["plan"][0][key] for key in ("task", "model", "planned")} == {
            "task": "t",
            "model": "m",
            "planned": 30,
        }
    else:
        assert "5 samples x 2 variants x 3 epochs x 1 model = 30 trials" in ended.out
        assert "nothing was called or written" in ended.out
    assert {name: data for name, data in snapshot(tmp_path).items() if not name.startswith(".")} == before
    assert server.state()["received"] == 0


def test_dry_run_says_what_may_be_called_and_cost_at_the_most(holdfast, server, tmp_path):
    """One call for each trial: a declarative task has no code that could fail. The cost, where it has a bound."""
    model = {"price": {"input": 3.0, "output": 10.0}, "generation": {"max_tokens": 100}}
    eval_file = http_eval(tmp_path, server.base_url, 5, model=model, max_retries=1, task={"prompt": "123456"})
    (told,) = holdfast.json("run", eval_file, "--dry-run")["forecast"]
    assert (told["calls"], told["most_calls"]) == (5, 5)
    assert told["most_cost"] == pytest.approx(5 * (2 * 3.0 + 100 * 10.0) / 1e6)
    assert "m: 5 calls (up to about $0.0050)\n" in holdfast("run", eval_file, "--dry-run").out
    del model["generation"]
    eval_file = http_eval(tmp_path, server.base_url, 5, model=model)
    (told,) = holdfast.json("run", eval_file, "--dry-run")["forecast"]
    assert told["most_cost"] is None
    why = "No cost is given for m: set generation.max_tokens to get an upper bound of the cost.\n"
    assert why in holdfast("run", eval_file, "--dry-run").out


def test_dry_run_adds_up_what_all_models_cost(holdfast, server, tmp_path):
    priced = {"price": {"input": 3.0, "output": 10.0}, "generation": {"max_tokens": 100}}
    eval_file = http_eval(tmp_path, server.base_url, 5, model=priced, max_retries=1, task={"prompt": "123456"})
    data = yaml.safe_load(eval_file.read_text())
    data["models"]["other"] = data["models"]["m"]
    eval_file.write_text(json.dumps(data))
    told = holdfast("run", eval_file, "--dry-run").out
    assert "all models: up to about $0.010\n" in told


def test_what_init_writes_runs_as_it_is(holdfast, tmp_path):
    """The files of init make a complete run, and the report rests on all of it."""
    ended = holdfast("init", "new", code=0)
    assert "holdfast run new/eval.yaml" in ended.out
    holdfast("run", "new/eval.yaml", "--run-dir", "r", code=0)
    report = holdfast.json("report", "r")
    assert report["complete"] and report["coverage"]["valid"] == report["coverage"]["planned"] == 8
    # As its comments say: the scorer of one's own is an accuracy, and a real model takes no table.
    path = tmp_path / "new" / "eval.yaml"
    written = path.read_text()
    path.write_text(
        written.replace("    scorers: [exact]  ", "    # ").replace("# scorers: [exact, t", "scorers: [exact, t")
    )
    metrics = holdfast.json("run", "new/eval.yaml", "--run-dir", "s", code=0)["tasks"]["capitals"]["small"]["metrics"]
    assert metrics.keys() == {"exact", "one_word"} and metrics["one_word"].keys() == {"accuracy"}
    path.write_text(written.replace("provider: scripted\n    model: table", "provider: openai\n    model: gpt-4o-mini"))
    assert "models.small: Model openai/gpt-4o-mini has no option 'rules'. Delete args.rules. There are: " in " ".join(
        holdfast("run", "new/eval.yaml", "--run-dir", "t", code=2, OPENAI_API_KEY="x" * 20).err.split()
    )
    again = holdfast.json("init", "other")
    assert set(again) == {"schema_version", "directory", "files"}
    assert set(again["files"]) == {"eval.yaml", "capitals.jsonl", "task.py", "eval.schema.json"}


def finished_run(tmp_path, holdfast):
    """A complete run with two models, prices and an axis."""
    write_dataset(tmp_path, 3)
    price = {"input": 1.0, "output": 2.0}
    models = {name: {"provider": "scripted", "model": "echo", "price": price} for name in ("a", "b")}
    prompts = {"plain": "{question}", "loud": "{question}!"}
    task = {"dataset": "rows", "prompt": prompts, "target": "{question}", "scorers": ["exact", "includes"]}
    data = {"models": models, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    return holdfast.json("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)


def test_json_of_run_and_resume_is_one_object(holdfast, tmp_path):
    """Standard output is one JSON document with the counts and the exit code."""
    told = finished_run(tmp_path, holdfast)
    assert told.keys() >= OF_SESSION
    assert (told["ended_as"], told["warning"], told["not_uploaded"]) == ("completed", None, None)
    assert (told["state"], told["exit_code"], told["planned"], told["finished"]) == ("complete", 0, 12, 12)
    assert holdfast.json("resume", "r", code=0).keys() >= ENDED


def test_json_of_an_interrupted_resume_is_one_object(holdfast, server, tmp_path):
    """Also where trials remain, with the exit code that the program has."""
    eval_file = http_eval(tmp_path, server.base_url, 3, retry_deadline=0.01)
    server.behave(refuse_status=503, refuse_times=9, refuse_only=["q2"])
    for command in (["run", eval_file, "--run-dir", "r"], ["resume", "r"]):
        told = holdfast.json(*command, code=1)
        assert told.keys() >= OF_SESSION
        assert (told["state"], told["exit_code"], told["finished"], told["remaining"]) == ("incomplete", 1, 2, 1)


def test_json_of_status_has_its_contract(holdfast, tmp_path):
    """Every key that a machine may rely on is there, with sensible values."""
    finished_run(tmp_path, holdfast)
    status = holdfast.json("status", "r", code=0)
    assert status.keys() >= STATUS
    assert (status["state"], status["planned"], status["finished"], status["remaining"]) == ("complete", 12, 12, 0)
    assert status["calls"] == {
        "made": 12,
        "answered": 12,
        "unanswered": 0,
        "replayed": 0,
        "given_up": 0,
        "in_flight_at_kill": 0,
        "repeated": {"retried": 0, "diverged": 0, "interrupted": 0, "takeover": 0},
        "refused_model": 0,
        "unused": 0,
        "saved": {"calls": 0, "tokens": 0, "cost": None},
    }
    assert (status["requests"], status["ledger"]) == ({"sent": 12, "answered": 12, "failed": 0}, [])
    assert status["usage"]["input_tokens"] == 12 and status["cost"] == pytest.approx(36e-6)
    assert status["sessions"][0]["ended_as"] == "completed" and status["remaining_by_reason"] == {}
    assert (status["held_by"], status["transcripts_lost"], status["damage"]) == (None, 0, [])


def test_json_of_report_has_its_contract(holdfast, tmp_path):
    """Metrics by task, model, scorer and metric, with their denominators, and the coverage."""
    finished_run(tmp_path, holdfast)
    report = holdfast.json("report", "r", code=0)
    group = report["tasks"]["t"]["a"]
    assert (
        group["metrics"]["exact"]["accuracy"]["value"] == 0.5 and group["metrics"]["exact"]["accuracy"]["n_trials"] == 6
    )
    assert group["metrics"]["includes"]["accuracy"]["value"] == 1.0
    assert group["axes"]["prompt"]["plain"]["exact"]["accuracy"]["value"] == 1.0
    coverage = {key: report["coverage"][key] for key in ("planned", "valid", "failed")}
    assert coverage == {"planned": 12, "valid": 12, "failed": 0}
    assert report.keys() >= {"timing", "lineage", "usage", "cost"}
    text = holdfast("report", "r", code=0).out
    assert "exact accuracy     0.500" in text and "12 of 12 trials valid" in text


def test_json_of_show_lists_trials_and_tells_one(holdfast, tmp_path):
    """The trials with their total; the records of one by its key, the beginning of it, or its sample's id."""
    finished_run(tmp_path, holdfast)
    listed = holdfast.json("show", "r", "--limit", "5", code=0)
    assert listed.keys() >= COUNTS and listed["finished"] == 12
    assert listed["matching"] == 12 and len(listed["trials"]) == 5
    key = listed["trials"][0]["trial"]
    told = holdfast.json("show", "r", key[:8], code=0)
    assert told["trial"] == key
    assert [record["type"] for record in told["records"]] == ["step", "answer", "score", "score", "trial"]
    assert "matches 4 trials" in holdfast("show", "r", "s1", code=2).err
    assert "no trial 'zzz'" in holdfast("show", "r", "zzz", code=2).err


def test_json_of_models_and_verify_and_cat(holdfast, tmp_path):
    """Providers with what they need; the proof of a run; its records as lines."""
    finished_run(tmp_path, holdfast)
    providers = {offer["name"]: offer for offer in holdfast.json("list", "models", code=0)["providers"]}
    assert providers["scripted"]["ready"] and {"openai", "local", "ollama"} <= set(providers)
    proof = holdfast.json("verify", "r", code=0)
    assert proof["ok"] and proof["damage"] == [] and proof["frames"] > 0 and proof["records"] > 12
    lines = [json.loads(line) for line in holdfast("cat", "r", "--json", code=0).out.splitlines()]
    assert len(lines) == proof["records"]


def test_one_person_reads_while_another_process_writes(holdfast, server, tmp_path):
    """status, show and report of a running run tell what is durable so far and disturb nothing."""
    server.behave(hold=True, **{"pass": 3})
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 8, concurrency_limit=2), "--run-dir", "r")
    server.wait_for(answered=3, in_flight=2)
    status = holdfast.json("status", "r", code=0)
    assert (status["state"], status["finished"], status["remaining"]) == ("running", 3, 5)
    assert holdfast.json("report", "r")["coverage"]["valid"] == 3
    shown = holdfast.json("show", "r")
    states = [row["state"] for row in shown["trials"]]
    assert shown["finished"] == states.count("valid") == 3 and len(states) == shown["matching"] == 5
    assert str(started.pid) in status["held_by"]
    server.behave()
    assert started.wait().code == 0


ONLY_A_SESSION_NEEDS = {"asyncio", "aiohttp", "obstore", "rich", "concurrent", "logging", "email", "importlib.metadata"}
ONLY_SOME_NEED = {"yaml", "shutil", "tempfile", "socket", "difflib"}
"""What a reading verb needs for a run in a store, beside another reader, or after a mistake."""


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["status"], ONLY_A_SESSION_NEEDS | ONLY_SOME_NEED | {"json", "dataclasses"}),
        (["status", "runs/r"], ONLY_A_SESSION_NEEDS | ONLY_SOME_NEED | {"json", "dataclasses"}),
        (["report", "runs/r"], ONLY_A_SESSION_NEEDS | ONLY_SOME_NEED | {"json", "dataclasses"}),
        # It compares config.yaml with the journal.
        (["verify", "runs/r"], (ONLY_A_SESSION_NEEDS | ONLY_SOME_NEED | {"json", "dataclasses"}) - {"yaml"}),
        (["cat", "runs/r"], ONLY_A_SESSION_NEEDS | ONLY_SOME_NEED | {"json", "dataclasses"}),
        (["show", "runs/r"], ONLY_A_SESSION_NEEDS | ONLY_SOME_NEED),
        (["diff", "runs/r", "eval.yaml"], ONLY_A_SESSION_NEEDS | {"socket", "difflib"}),
    ],
)
def test_a_reading_verb_loads_nothing_that_only_a_session_needs(holdfast, tmp_path, words, heavy):
    """Whoever asks how a run stands does not wait for an event loop, an HTTP client or a parser of eval files."""
    holdfast("run", plain_eval(tmp_path), "--run-dir", "runs/r", code=0)
    assert not loaded_by(tmp_path, words) & heavy


def plain_eval(directory):
    """An eval file of one task that asks once."""
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    write_dataset(directory, 1)
    data = {
        "name": "light",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": task},
    }
    return write_eval(directory, data)


def loaded_by(directory, words):
    """The modules that are loaded once a command has ended well."""
    code = (
        "import sys\nfrom holdfast.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=directory, capture_output=True, text=True, check=True
    )
    return {*done.stderr.splitlines()[-1].split()}


@pytest.mark.parametrize("words", [["run", "--run-dir", "r"], ["run", "--dry-run"]])
def test_a_run_without_samplings_loads_nothing_that_carries_them_out(tmp_path, words):
    """Neither the engine of the strategies, nor strategies and requirements, nor their host in a trial."""
    loaded = loaded_by(tmp_path, [words[0], plain_eval(tmp_path), *words[1:]])
    assert "holdfast.engine.trials.running_trial" in loaded
    of_samplings = ("holdfast.sampling.", "holdfast.engine.trials.asking.sampling_")
    # What observers are told of samplings, and what it is made of.
    events = {"events", "candidate", "place", "requirements", "requirements.verdict"}
    assert {name for name in loaded if name.startswith(of_samplings)} <= {
        f"holdfast.sampling.{name}" for name in events
    }
