"""`run --dry-run` checks all that `run` checks, and neither calls nor writes anything.

That every bad input is refused in the same words is checked where it is refused (test_bad_input.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals import http_eval, write_dataset, write_eval

GOOD = {
    "models": {"m": "scripted/echo"},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"t": {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}},
}


def changed(path: str, value: object) -> dict:
    data = json.loads(json.dumps(GOOD))
    *blocks, key = path.split(".")
    place = data
    for block in blocks:
        place = place[block]
    place[key] = value
    return data


def contents(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if _is_kept(path)}


def _is_kept(path: Path) -> bool:
    """Whether it is a file of the person or of a run, and not what the program has printed."""
    return path.is_file() and path.suffix not in {".out", ".err"}


def same_as_run(holdfast, tmp_path, *arguments, code):
    """The same words and exit code from a start and its dry run, which leaves everything as it is."""
    before = contents(tmp_path)
    rehearsed = holdfast("run", *arguments, "--dry-run", code=code)
    assert contents(tmp_path) == before
    assert holdfast("run", *arguments, code=code) == rehearsed
    return rehearsed.err


REFUSED = {
    "a dataset that does not exist": ("datasets.rows.path", "gone.jsonl"),
    "a field that does not exist": ("tasks.t.prompt", "{qestion}"),
    "a scorer that does not exist": ("tasks.t.scorers", ["exakt"]),
    "a cost limit without a price": ("tasks.t.limits", {"cost": 1.0}),
}


MODELS_REFUSED = {
    "an unknown provider": "openia/x",
    "a key that is not set": {"provider": "openai", "model": "x"},
    "an argument of a model": {"provider": "scripted", "model": "echo", "args": {"speed": 1}},
    "weights that do not exist": {"provider": "local", "model": "x", "args": {"path": "no.gguf"}},
    "a base_url that is none": {"provider": "openai", "model": "x", "base_url": "host:8000"},
}


@pytest.mark.parametrize("name", MODELS_REFUSED)
def test_a_model_that_cannot_be_opened_is_refused_after_the_forecast(holdfast, tmp_path, name):
    """Whoever has no key yet can still ask what a run costs; the exit code and the words are those of a start."""
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, changed("models.m", MODELS_REFUSED[name]))
    ended = holdfast("run", "eval.yaml", "--dry-run", code=2)
    assert ended.out.startswith("t: 3 samples x 1 model = 3 trials\n") and ended.out.endswith(
        "nothing was called or written.\n"
    )
    assert holdfast("run", "eval.yaml", code=2).err == ended.err and ended.err.startswith(
        "holdfast: eval.yaml: models.m"
    )
    told = holdfast.json("run", "eval.yaml", "--dry-run", code=2)
    assert told["planned"] == 3 and told["kind"] == "configuration" and told["error"] in ended.err


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_start_refuses_a_dry_run_refuses(holdfast, tmp_path, name):
    """Providers, keys, arguments, datasets, prompts and scorers are checked by the same code."""
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, changed(*REFUSED[name]))
    assert same_as_run(holdfast, tmp_path, "eval.yaml", code=2).startswith("holdfast: ")


def test_the_place_and_the_runs_to_reuse_are_checked(holdfast, tmp_path):
    """A directory that is taken, a URL of an unknown kind and a run to reuse that does not exist are refused."""
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, GOOD)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    assert "not an empty directory" in same_as_run(holdfast, tmp_path, "eval.yaml", "--run-dir", "taken", code=2)
    assert "object store" in same_as_run(holdfast, tmp_path, "eval.yaml", "--run-dir", "hf://x/y", code=2)
    assert "no run 'gone'" in same_as_run(holdfast, tmp_path, "eval.yaml", "--reuse", "gone", code=2)


def test_a_change_that_the_gate_refuses_is_refused_in_a_dry_run(holdfast, tmp_path):
    """--or-resume of a run that exists goes through the gate: exit 3, each change named, nothing written."""
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, GOOD)
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    write_eval(tmp_path, changed("tasks.t.prompt", "Please: {question}"))
    said = same_as_run(holdfast, tmp_path, "eval.yaml", "--run-dir", "r", "--or-resume", code=3)
    assert "tasks.t.prompt" in said


def test_a_dry_run_of_a_run_that_exists_says_what_a_resume_would_do(holdfast, tmp_path):
    """What the gate lets pass is listed with how much is finished, for people and as JSON; the run stays as it is."""
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, GOOD)
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    write_eval(tmp_path, changed("tasks.t.epochs", 2))
    before = contents(tmp_path)
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", "--or-resume", "--dry-run", code=0)
    assert "tasks.t.epochs: 1 → 2" in ended.out
    assert ended.out.startswith(
        "The run exists and would be resumed: 3 of 6 trials are finished, 3 remaining: 3 not started.\n"
    )
    assert ended.out.endswith("3 trials would be run; nothing was called or written.\n")
    # Nothing of the trials that it has.
    assert "samples x" not in ended.out and "in all; nothing" not in ended.out
    told = holdfast.json("run", "eval.yaml", "--run-dir", "r", "--or-resume", "--dry-run", code=0)
    assert told["existing"]["counts"]["finished"] == 3 and told["planned"] == 6
    assert (told["total"]["trials"], told["total"]["calls"]) == (3, 3) and told["existing"]["remaining"] is None
    assert [change["path"] for change in told["existing"]["changes"]] == ["tasks.t.epochs"]
    assert contents(tmp_path) == before


def test_a_dry_run_tells_what_was_planned_before_from_what_is_added(holdfast, server, tmp_path):
    """Two trials were left over, and four are added: each has its line and its cost, and six would be run."""
    price = {"model": {"price": {"input": 1.0, "output": 1.0}, "generation": {"max_tokens": 100}}}
    http_eval(tmp_path, server.base_url, 4, concurrency_limit=1, **price)
    server.behave(refuse_status=400, refuse_times=1, refuse_only=["q3", "q4"])
    holdfast("run", "eval.yaml", "--run-dir", "r")
    server.behave()
    resumed = ("run", "eval.yaml", "--run-dir", "r", "--or-resume", "--dry-run")
    out = holdfast(*resumed, code=0).out
    assert "Added" not in out and "Planned before: 2 trials; they cost at most" in out
    both = holdfast(*resumed, "--epochs", "2", code=0).out
    assert "Added: 4 trials, 8 in all; they cost at most" in both and "Planned before: 2 trials; they cost" in both
    assert "2 of 8 trials are finished, 6 remaining" in both and "6 trials would be run; nothing" in both
    told = holdfast.json(*resumed, "--epochs", "2", code=0)
    growth, left = told["existing"]["growth"], told["existing"]["remaining"]
    assert told["total"]["most_cost"] == pytest.approx(growth["most_cost"] + left["most_cost"])


def test_json_has_the_expected_and_the_worst_cost_and_their_sums(holdfast, tmp_path):
    """What people read is there for programs: for each task and model, and in all."""
    write_dataset(tmp_path, 3)
    data = changed("models.m", {"provider": "scripted", "model": "echo", "price": {"input": 1.0, "output": 2.0}})
    data["models"]["m"]["generation"] = {"max_tokens": 1000}
    data["models"]["n"] = {**data["models"]["m"], "generation": {"max_tokens": 3000}}
    write_eval(tmp_path, data)
    told = holdfast.json("run", "eval.yaml", "--dry-run", code=0)
    small, large = told["forecast"]
    assert small["cost"] == small["most_cost"] >= 3 * 1000 * 2 / 1e6  # nothing there can fail and be tried again
    total = told["total"]
    assert total["cost"] == pytest.approx(small["cost"] + large["cost"]) and total["currency"] == "USD"
    assert total["most_cost"] == pytest.approx(small["most_cost"] + large["most_cost"])
    assert (total["trials"], total["calls"]) == (6, 6) and total["most_calls"] == small["most_calls"] * 2


def test_a_run_that_is_held_is_reported_by_a_dry_run(holdfast, server, tmp_path):
    """Another session executes the run: exit 4, as a start would."""
    http_eval(tmp_path, server.base_url, 2)
    server.behave(hold=True)
    holdfast.start("run", "eval.yaml", "--run-dir", "r")
    server.wait_for(in_flight=1)
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", "--or-resume", "--dry-run", code=4)
    assert "r is" in ended.err


def test_a_dry_run_calls_nothing(holdfast, server, tmp_path):
    """Providers are opened, and nothing is sent."""
    http_eval(tmp_path, server.base_url, 2)
    assert holdfast.json("run", "eval.yaml", "--dry-run", code=0)["warnings"] == []
    assert server.state()["received"] == 0 and not (tmp_path / "runs").exists()
