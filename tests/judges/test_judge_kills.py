"""Runs with three judges that are killed with SIGKILL, at every boundary of their scores, on a server that counts."""

from __future__ import annotations

import json
import signal

import pytest
from judged_evals import graded

from evals import write_dataset, write_eval
from program import until

NAMES = ("a", "b", "c")
GRADES = {"a": "C", "b": "I", "c": "C"}
REPLIES = {f"judge-{name}": json.dumps(graded(GRADES[name])) for name in NAMES}


def server_eval(directory, base_url, count, **keys):
    """A model and three judges on one server, which knows them by their names; one trial and one slot at a time."""
    write_dataset(directory, count)
    model = {"provider": "openai", "base_url": base_url, "price": {"input": 1, "output": 1}}
    models = {"m": {**model, "model": "under-test"}, **{name: {**model, "model": f"judge-{name}"} for name in NAMES}}
    scorers = ["exact", {"model_graded": {"name": "quality", "models": list(NAMES), "combine": "majority"}}]
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": scorers}
    data = {"name": "judged", "models": models, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    return write_eval(directory, {**data, **keys})


def comparable(report):
    """Without what two runs of the same differ in: when, how often interrupted, and who replied how often."""
    kept = {name: value for name, value in report.items() if name not in {"timing", "lineage", "run"}}
    return json.dumps(kept, sort_keys=True)


def share_of_judges(records):
    """Usage in the records of scores, by model."""
    found = {}
    for record in records:
        for share in record.get("shares", ()):
            found[share["model"]] = found.get(share["model"], 0) + share["usage"]["input_tokens"]
    return found


def one_at_a_time(**keys):
    return {"concurrency_limit": 1, "concurrency_limits": {"score": 1}, **keys}


@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_limits_23_killed_at_every_boundary_of_a_score_the_report_is_the_same(
    holdfast, server, server_process, tmp_path, count
):
    """At every frame that the run syncs: the same bytes, and every judge's call once but for those in flight."""
    server.behave(replies=REPLIES)
    (tmp_path / "whole").mkdir()
    holdfast("run", server_eval(tmp_path / "whole", server.base_url, count), "--run-dir", "whole/r", code=0)
    expected = comparable(holdfast.json("report", "whole/r"))
    whole = share_of_judges(holdfast.records("whole/r", "score"))
    assert set(whole) == set(NAMES)

    def kill_at(arrival):
        """Whether it was killed: it arrives there only so often."""
        place, space = tmp_path / f"k{arrival}", server_process(f"{tmp_path.name}-{arrival}")
        place.mkdir()
        space.behave(replies=REPLIES)
        eval_file = server_eval(place, space.base_url, count, **one_at_a_time())
        run = f"k{arrival}/r"
        ended = holdfast("run", eval_file, "--run-dir", run, HOLDFAST_CRASH_AT=f"frame.synced:{arrival}")
        if ended.code != -signal.SIGKILL:
            assert ended.code == 0
            return False
        on_record = sum("error" not in step for step in holdfast.records(run, "step"))
        in_flight = space.wait_until_idle()["received"] - on_record
        holdfast("resume", run, code=0)
        assert comparable(holdfast.json("report", run)) == expected
        assert share_of_judges(holdfast.records(run, "score")) == whole
        calls = space.by_model()
        assert {name: len(counts) for name, counts in calls.items()} == {
            "under-test": count,
            **{f"judge-{name}": count for name in NAMES},
        }
        # Each request once, but for the one that was in flight when the process died.
        assert sum(map(sum, calls.values())) <= 4 * count + in_flight
        assert in_flight <= 1
        return True

    # The first frame is that of the session, in a run that has no name yet.
    arrival = 2
    while kill_at(arrival):
        arrival += 1
    # Every trial has its answer, its steps and its slots in frames of their own.
    assert arrival > 4 * count


def test_limits_27_three_judges_are_in_flight_at_once(holdfast, server, tmp_path):
    """The server answers none of them before it has all three: one after another, they would wait for ever."""
    server.behave(replies=REPLIES)
    holdfast("run", server_eval(tmp_path, server.base_url, 1), "--run-dir", "first", code=0)
    server.behave(replies=REPLIES, hold=True, **{"pass": 1})
    started = holdfast.start("run", server_eval(tmp_path, server.base_url, 1), "--run-dir", "r")
    server.wait_for(in_flight=3)
    server.behave(replies=REPLIES)
    assert started.wait().code == 0
    assert server.state()["most_in_flight"] == 3


def test_limits_23_killed_with_all_judges_in_flight_asks_the_solver_nothing(holdfast, server, tmp_path):
    server.behave(replies=REPLIES, hold=True, **{"pass": 1})
    started = holdfast.start("run", server_eval(tmp_path, server.base_url, 1), "--run-dir", "r")
    server.wait_for(in_flight=3)
    started.send(signal.SIGKILL)
    started.wait()
    server.behave(replies=REPLIES)
    holdfast("resume", "r", code=0)
    assert server.by_model() == {"under-test": [1], **{f"judge-{name}": [2] for name in NAMES}}


def test_limits_22_a_key_that_a_judge_repeats_is_redacted(holdfast, server, tmp_path):
    """Neither its reply nor the explanation of its score holds the key, in any byte of the run."""
    key = "sk-judge-0123456789abcdef"
    server.behave(reply=json.dumps(graded("C", f"my key is {key}")))
    write_dataset(tmp_path, 1)
    judge = {"provider": "openai", "base_url": server.base_url, "model": "j", "api_key_env": "JUDGE_KEY"}
    data = {
        "models": {"m": {"provider": "scripted", "model": "echo"}, "j": judge},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": {"dataset": "rows", "prompt": "{question}", "scorers": [{"model_graded": {"model": "j"}}]}},
    }
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=0, JUDGE_KEY=key)
    (score,) = holdfast.records("r", "score")
    assert score["value"] == 1.0 and "my key is" in score["explanation"]
    assert key not in holdfast("cat", "r", code=0).out
    assert not [path for path in (tmp_path / "r").rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_experiments_9_only_the_judge_with_429_is_asked_again(holdfast, server, tmp_path):
    """The others are asked once, and their scores are on record before it has answered."""
    refusing = {"refuse_status": 429, "refuse_times": 2, "refuse_models": ["judge-b"]}
    server.behave(replies=REPLIES, **refusing)
    holdfast("run", server_eval(tmp_path, server.base_url, 1), "--run-dir", "r", code=0)
    assert server.by_model() == {"under-test": [1], **{f"judge-{name}": [1] for name in NAMES}}
    assert server.state()["refused"] == 2
    tries = {step["model"]: step.get("tries", 1) for step in holdfast.records("r", "step")}
    assert tries["b"] == 3


def test_limits_27_a_judge_that_stays_away_leaves_its_own_slot(holdfast, server, tmp_path):
    """An outage: the others are filled, and a resume asks that judge alone."""
    outage = {"refuse_status": 503, "refuse_times": 10_000, "refuse_models": ["judge-b"]}
    server.behave(replies=REPLIES, **outage)
    eval_file = server_eval(tmp_path, server.base_url, 1, retry_deadline=1)
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert {record["scorer"] for record in holdfast.records("r", "score")} == {"exact", "quality/a", "quality/c"}
    server.behave(replies=REPLIES)
    until(lambda: holdfast("resume", "r").code == 0, "the judge answers")
    assert server.by_model() == {"under-test": [1], **{f"judge-{name}": [1] for name in NAMES}}
