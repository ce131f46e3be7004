"""Samplings in eval files, from the file to the report: no Python but that of a requirement."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable import snapshot
from evals import write_dataset, write_eval
from holdfast.engine.planning.trial_keys import trial_key, trial_seed
from holdfast.sampling.place import derive_seed
from seeded_server import JUDGED

CHECKS = '''
def ends_even(text):
    """The number is even."""
    return text[-1] in "02468" or "The number is odd."
'''
JUDGE = {"judge": {"model": "strict", "criterion": JUDGED, "scored": True}}


def written(tmp_path, drawing, sampling: Any, **keys: Any):
    """An eval of one task with that sampling, and of a plain one."""
    write_dataset(tmp_path, 6)
    (tmp_path / "checks.py").write_text(keys.pop("checks", CHECKS))
    model = {"provider": "openai", "model": "drawn", "base_url": drawing.base_url}
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    data = {
        "name": "sampled",
        "models": {"m": model, "large": model, "strict": model},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"plain": {**task, "models": ["m"]}, "t": {**task, "models": ["m"], "sampling": sampling}},
        **keys,
    }
    return write_eval(tmp_path, data)


STRATEGIES = {
    "rejection": {},
    "repair": {"loop_budget": 4},
    "multi_turn": {"loop_budget": 4},
    "vote": {"concurrency_budget": 4, "extract": r"draw (\d)"},
    "best_of_n": {"concurrency_budget": 3, "scorer": JUDGE},
    "escalate": {"loop_budget": 4, "escalate_to": ["large"]},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sampling_31_every_strategy_runs_from_a_file(holdfast, drawing, tmp_path, strategy):
    """No more calls than the dry run says; every trial is finished; the run is sound."""
    sampling = {"strategy": strategy, "loop_budget": 3, **STRATEGIES[strategy]}
    sampling["requirements"] = [{"function": "checks.py:ends_even"}, *([] if strategy == "vote" else [JUDGE])]
    eval_file = written(tmp_path, drawing, sampling, max_retries=0)
    forecast = {item["task"]: item for item in holdfast.json("run", eval_file, "--dry-run")["forecast"]}
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert "12 of 12 trials" in ended.err + ended.out
    asked = len(drawing.bodies) - 6
    assert 6 <= asked <= forecast["t"]["most_calls"]
    assert holdfast.json("verify", "r")["ok"]
    assert set(holdfast.json("report", "r")["tasks"]["t"]) == {"m"}


def comparable(report: dict[str, Any]) -> str:
    return json.dumps({name: part for name, part in report.items() if name not in {"timing", "lineage"}})


@pytest.mark.parametrize("strategy", ["repair", "vote", "best_of_n"])
def test_two_runs_of_a_deterministic_sampling_have_the_same_report(holdfast, drawing, tmp_path, strategy):
    """Whatever the concurrency and the latency of lanes: the same seeds, the same choices, the same scores."""
    own = {"best_of_n": {"scorer": JUDGE}}.get(strategy, {})
    sampling = {"strategy": strategy, "loop_budget": 3, "concurrency_budget": 3, **own}
    sampling["requirements"] = [{"function": "checks.py:ends_even"}]
    eval_file = written(tmp_path, drawing, sampling, deterministic=True)
    answers = []
    for name, limit in (("one", 1), ("many", 16)):
        holdfast("run", eval_file, "--run-dir", name, "--set", f"concurrency_limit={limit}", code=0)
        lines = holdfast("cat", name).out.splitlines()
        records = [record for record in map(json.loads, lines) if record["type"] == "answer"]
        answers.append(sorted((record["trial"], record["text"]) for record in records))
    assert answers[0] == answers[1]
    scores = [holdfast.json("report", name)["tasks"]["t"]["m"]["metrics"] for name in ("one", "many")]
    assert scores[0] == scores[1]
    report = holdfast.json("report", "one")
    told = [limit for limit in report["determinism"]["not_guaranteed"] if limit.startswith("the task t: ")]
    if strategy == "best_of_n":  # where no candidate is given up, what was spent is the same too
        assert comparable(report) == comparable(holdfast.json("report", "many"))
        assert told == []
    else:
        assert told == ["the task t: lanes that are given up stop sooner or later, so what they took may differ"]


def test_sampling_25_candidates_and_judges_have_seeds_of_their_own(holdfast, drawing, tmp_path):
    """A candidate's by its lane and turn, a judge's by the scope of the turn; all of them derived from the trial's."""
    sampling = {"strategy": "best_of_n", "loop_budget": 2, "concurrency_budget": 2, "scorer": JUDGE}
    holdfast("run", written(tmp_path, drawing, sampling, deterministic=True), "--run-dir", "r", code=0)
    seeds = {body["seed"] for body in drawing.bodies}
    for number in range(1, 7):
        seed = trial_seed(0, trial_key("t", "m", {}, f"s{number}", 1))
        assert {derive_seed(seed, 1, lane, turn) for lane in range(2) for turn in range(2)} <= seeds
    assert len(seeds) == len(drawing.bodies) == 6 + 6 * 4 * 2


def test_limits_28_a_judge_is_not_under_test(holdfast, drawing, tmp_path):
    """A task without models asks those that are nobody's judge."""
    eval_file = written(tmp_path, drawing, {"strategy": "repair", "requirements": [JUDGE]})
    data = json.loads(eval_file.read_text())
    del data["tasks"]["t"]["models"]
    plan = holdfast.json("run", write_eval(tmp_path, data), "--dry-run")["plan"]
    assert [(entry["task"], entry["model"]) for entry in plan] == [("plain", "m"), ("t", "large"), ("t", "m")]


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("pyhton", "tasks.t.sampling.requirements[0]: there is no requirement 'pyhton'"),
        ({"length": {"most": 3}}, "tasks.t.sampling.requirements[0]: the requirement length takes no argument 'most'"),
        ({"function": "checks.py:is_odd"}, "tasks.t.sampling.requirements[0]: "),
        ({"function": "nowhere.py:check"}, "tasks.t.sampling.requirements[0]: "),
    ],
)
def test_sampling_31_a_wrong_requirement_is_named_before_anything_is_written(
    holdfast, drawing, tmp_path, requirement, said
):
    """With its place in the file."""
    eval_file = written(tmp_path, drawing, {"strategy": "repair", "requirements": [requirement]})
    before = snapshot(tmp_path)
    assert said in holdfast("run", eval_file, "--run-dir", "r", code=2).err
    after = {name: data for name, data in snapshot(tmp_path).items() if not name.startswith((".", "__pycache__"))}
    assert after == before


def test_resume_12_the_code_of_a_requirement_is_compared(holdfast, drawing, tmp_path):
    """A function that decides otherwise is another sampling; a comment in it, or another place, is not."""
    sampling = {"strategy": "repair", "loop_budget": 2, "requirements": [{"function": "checks.py:ends_even"}]}
    eval_file = written(tmp_path, drawing, sampling)
    holdfast("run", eval_file, "--run-dir", "r", "--limit", "2", code=0)
    (tmp_path / "checks.py").write_text(CHECKS.replace("02468", "0246"))
    said = holdfast("resume", "r", code=3).err
    assert "tasks.t.sampling (identity): the code of ends_even() in checks.py has changed" in said
    (tmp_path / "checks.py").write_text(f"# A comment.\n{CHECKS}")
    holdfast("resume", "r", "--config", eval_file, code=0)
    assert holdfast.json("status", "r")["finished"] == 12


def forked(holdfast, tmp_path, data: dict[str, Any], name: str) -> int:
    """How many trials a fork of `r` with this eval keeps."""
    return holdfast.json("fork", "r", "--config", write_eval(tmp_path, data), "--run-dir", name)["taken"]


def test_resume_21_a_fork_keeps_what_a_change_of_the_sampling_does_not_touch(holdfast, drawing, tmp_path):
    """The plain task; and nothing once every call has another seed. A change of the judge touches what it judged."""
    sampling = {"strategy": "rejection", "loop_budget": 2, "requirements": [JUDGE]}
    eval_file = written(tmp_path, drawing, sampling)
    data = json.loads(eval_file.read_text())
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert forked(holdfast, tmp_path, data, "same") == 12
    data["tasks"]["t"]["sampling"]["loop_budget"] = 3
    assert forked(holdfast, tmp_path, data, "deeper") == 6
    data["tasks"]["t"]["sampling"]["loop_budget"] = 2
    assert forked(holdfast, tmp_path, {**data, "deterministic": True}, "seeded") == 0
    data["models"]["strict"]["model"] = "other"
    assert forked(holdfast, tmp_path, data, "judged") == 6


def test_a_python_task_may_draw_by_itself(holdfast, drawing, tmp_path):
    """`sampled` in a task file is what `sampling` is in an eval file, and is compared as well."""
    source = """
from holdfast import Sample, Task, exact, generate, task
from holdfast.sampling import Repair, sampled

def ends_even(text):
    return text[-1] in "02468" or "odd"

@task
def t():
    solver = sampled(generate("{input}"), strategy=Repair(loop_budget=3), requirements=[ends_even])
    return Task(samples=[Sample("x", target="x")], solver=solver, scorers=exact())
"""
    (tmp_path / "task.py").write_text(source)
    model = {"provider": "openai", "model": "drawn", "base_url": drawing.base_url}
    eval_file = write_eval(tmp_path, {"models": {"m": model}, "tasks": {"t": {"use": "task.py:t"}}})
    assert holdfast.json("run", eval_file, "--dry-run")["forecast"][0]["sampling"]["turns"] == 3
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    (tmp_path / "task.py").write_text(source.replace("02468", "0246"))
    assert (
        "the code of ends_even() in task.py has changed"
        in holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=3).err
    )


@pytest.mark.parametrize("command", [["--dry-run"], ["--run-dir", "r"]])
def test_sampling_31_a_wrong_argument_is_named_with_the_file_and_its_place(holdfast, drawing, tmp_path, command):
    """Requirements are built long after the file was read; the message names it all the same."""
    sampling = {"strategy": "repair", "requirements": ["python", {"length": {"unit": "chars"}}]}
    eval_file = written(tmp_path, drawing, sampling)
    said = holdfast("run", eval_file, *command, code=2).err
    place = f'{eval_file}: tasks.t.sampling.requirements[1]: length.unit is "chars"'
    assert f"{place}; allowed: one of characters, words, lines." in said
    assert not (tmp_path / "r").exists()
