"""A run, finished or not, becomes logs that hold all of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unittest.mock import ANY

import pytest

from cli_calls import call, program
from holdfast import Message, Sample, Task, evaluate, exact, includes, model_graded
from holdfast.api.export_inspect import export_inspect
from holdfast.api.run import Run
from holdfast.errors import UsageError
from holdfast.interop.inspect.eval_archive import EvalArchive
from holdfast.interop.inspect.exporting.exported_trial import ExportedTrial
from holdfast.interop.inspect.exporting.messages import inspect_message, inspect_usage
from holdfast.interop.inspect.exporting.trial_sample import trial_sample
from holdfast.models.content import ImagePart, RawPart, TextPart, ToolCall
from holdfast.models.message import Usage

SAMPLES = [Sample(f"Say {n} ü", target=str(n), id=f"s{n}", metadata={"n": n}) for n in range(3)]

OTHER = {"provider": "scripted", "model": "other", "args": {"default": "1"}}


async def talk(trial):
    first = await trial.generate(trial.sample.input)
    if trial.sample.id == "s2":
        raise ValueError("this one fails")
    await trial.step("measure", lambda: {"length": len(first.text)})
    return await trial.generate(Message("user", "Again."))


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    """Two tasks and two models, several turns, epochs, a failure."""
    place = tmp_path_factory.mktemp("exported") / "run"
    tasks = [
        Task(name="talking", samples=SAMPLES, solver=talk, scorers=[exact(), includes()], epochs=2),
        Task(name="short", samples=SAMPLES[:2], scorers=[includes()]),
    ]
    with evaluate(tasks, models={"small": "scripted/echo", "large": OTHER}, run=place, progress=False):
        return place


@pytest.fixture
def run(run_path):
    with Run.open(run_path) as opened:
        yield opened


def read_logs(written):
    """By task and model, the header and the samples."""
    found = {}
    for log in written:
        with EvalArchive(Path(log.log)) as archive:
            samples = {
                (sample["id"], sample["epoch"]): sample for sample in map(archive.sample, archive.sample_members())
            }
            assert len(list(archive.summaries())) == len(samples) == log.samples
            found[log.task, log.model] = archive.header(), samples
    return found


def test_every_trial_is_a_sample_of_the_log_of_its_task_and_model(run, tmp_path):
    """Counts, answers, scores, targets and metadata are those of the run."""
    logs = read_logs(export_inspect(run, tmp_path / "logs"))
    rows = list(run.trials())
    assert sum(len(samples) for _, samples in logs.values()) == len(rows) == 16
    for row in rows:
        sample = logs[row.task, row.model][1][row.sample, row.epoch]
        assert (sample["input"], sample["target"], sample["metadata"]["n"]) == (
            row.input,
            row.target,
            row.metadata["n"],
        )
        assert {name: score["value"] for name, score in sample["scores"].items()} == row.scores
        assert sample["output"].get("completion") == row.answer
        assert ("error" in sample) == (row.state != "valid")


def test_the_conversation_is_that_of_the_last_call(run, tmp_path):
    logs = read_logs(export_inspect(run, tmp_path / "logs"))
    sample = next(found for (task, _), (_, found) in logs.items() if task == "talking")["s1", 2]
    roles = [(message["role"], message["content"]) for message in sample["messages"]]
    assert [role for role, _ in roles] == ["user", "assistant", "user", "assistant"]
    assert roles[0] == ("user", "Say 1 ü")
    assert [event["event"] for event in sample["events"]] == ["model", "info", "model", "score", "score"]
    assert sample["events"][2]["input"] == sample["messages"][:3]
    assert len({event["uuid"] for event in sample["events"]}) == 5


def test_a_failed_trial_has_its_error_and_makes_the_log_one_with_an_error(run, tmp_path):
    logs = read_logs(export_inspect(run, tmp_path / "logs"))
    for (task, _), (header, samples) in logs.items():
        assert header["status"] == ("error" if task == "talking" else "success")
        if task == "talking":
            assert "this one fails" in samples["s2", 1]["error"]["message"]
            assert samples["s2", 1]["messages"]
            assert header["results"]["completed_samples"] == 4


def test_the_metrics_are_those_of_the_report(run, tmp_path):
    report = run.report().tasks
    for (task, model), (header, _) in read_logs(export_inspect(run, tmp_path / "logs")).items():
        assert header["results"]["scores"]
        for score in header["results"]["scores"]:
            [(name, metric)] = report[task][model].metrics[score["name"]].items()
            assert score["metrics"][name]["value"] == metric.value


def test_an_unscored_slot_is_nan_and_a_limit_is_one():
    """Inspect leaves NaN out of its metrics."""
    trial = ExportedTrial(
        key="k",
        sample="s",
        epoch=1,
        state="limited",
        reason="tokens",
        input=None,
        target=["a", 3],
        metadata={},
        answer=None,
        scores={"judge": None},
        judged={},
        usage=Usage(10, 2, 4),
        other_usage={"judge": Usage(1, 1)},
        seconds=1.5,
        error=None,
        steps=(),
    )
    sample = trial_sample(trial, "m/x")
    assert math.isnan(sample["scores"]["judge"]["value"])
    assert sample["limit"] == {"type": "token", "limit": -1, "reason": "tokens"}
    assert (sample["input"], sample["target"], sample["messages"]) == ("", ["a", "3"], [])
    used = {"input_tokens": 6, "output_tokens": 2, "total_tokens": 12, "input_tokens_cache_read": 4}
    judged = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    assert sample["model_usage"] == {"m/x": used, "judge": judged}


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (Message("developer", "x"), {"role": "system", "content": "x"}),
        (
            Message(
                "assistant", "", tool_calls=(ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "g", "{")), reasoning="hm"
            ),
            {
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "hm"}],
                "tool_calls": [
                    {"id": "1", "function": "f", "arguments": {"a": 1}, "type": "function"},
                    {"id": "2", "function": "g", "arguments": {"text": "{"}, "type": "function", "parse_error": ANY},
                ],
            },
        ),
        (
            Message("tool", "3", tool_call_id="1", name="f"),
            {"role": "tool", "content": "3", "tool_call_id": "1", "function": "f"},
        ),
        (
            Message("user", (TextPart("a"), ImagePart("data:x"), RawPart({"b": 1}))),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image", "image": "data:x"},
                    {"type": "data", "data": {"b": 1}},
                ],
            },
        ),
    ],
)
def test_messages_are_spelled_as_inspect_spells_them(message, found):
    assert inspect_message(message) == found


def test_an_export_is_the_same_every_time_and_replaces_nothing_unasked(run, tmp_path):
    first = [Path(log.log).read_bytes() for log in export_inspect(run, tmp_path / "logs")]
    with pytest.raises(UsageError, match="exists"):
        export_inspect(run, tmp_path / "logs")
    again = export_inspect(run, tmp_path / "logs", overwrite=True)
    assert [Path(log.log).read_bytes() for log in again] == first


def test_a_run_of_several_logs_is_not_one_file(run, tmp_path):
    with pytest.raises(UsageError, match="several logs"):
        export_inspect(run, tmp_path / "one.eval")
    assert list(tmp_path.iterdir()) == []


def test_the_command(run_path, tmp_path, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(capfdbinary, "export", run_path, "--to", "inspect")
    assert done.code == 0
    assert done.out.count(".eval") == 4
    assert len(list((tmp_path / "run-inspect").glob("*.eval"))) == 4
    told = json.loads(
        call(capfdbinary, "export", run_path, "--to", "inspect", "--output", tmp_path / "b", "--json").out
    )
    assert [(log["samples"], log["errors"]) for log in told["logs"]] == [(2, 0), (2, 0), (6, 2), (6, 2)]


def test_an_exported_run_imports_as_the_same_scores(run, tmp_path, capfdbinary):
    """There and back: the figures of the report are equal."""
    report = run.report().tasks
    for number, log in enumerate(export_inspect(run, tmp_path / "logs")):
        assert call(capfdbinary, "import", log.log, "--run-dir", tmp_path / str(number)).code == 0
        with Run.open(tmp_path / str(number)) as back:
            [models] = back.report().tasks.values()
            [group] = models.values()
        ours = report[log.task][log.model].metrics
        found = {name: [metric.value for metric in metrics.values()] for name, metrics in group.metrics.items()}
        assert found == {name: [metric.value for metric in metrics.values()] for name, metrics in ours.items()}


def test_axes_and_trials_that_are_not_finished(tmp_path):
    """Each combination of axes is a log of its own, because a log has a sample once; what is missing is an error."""
    eval_ = {
        "name": "axes",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "datasets": {"d": "d.jsonl"},
        "tasks": {
            "t": {"dataset": "d", "prompt": {"a": "A {x}", "b": "B {x}"}, "target": "{x}", "scorers": ["includes"]}
        },
    }
    (tmp_path / "d.jsonl").write_text('{"id": "1", "x": "one"}\n{"id": "2", "x": "two"}\n')
    (tmp_path / "eval.yaml").write_text(json.dumps(eval_))
    path = tmp_path / "run"
    assert program("run", "eval.yaml", "--run-dir", path, cwd=tmp_path).code == 0
    done = program("resume", path, "--set", "tasks.t.epochs=2", "--where", "sample=1", cwd=tmp_path)
    assert done.code == 0, done.err
    with Run.open(path) as run:
        written = export_inspect(run, tmp_path / "logs")
        axes = sorted({value for row in run.trials() for value in row.axes.values()})
    assert len(axes) == len(written) == 2
    assert sorted(value for log in written for value in log.axes.values()) == axes
    assert [(log.samples, log.status) for log in written] == [(3, "error"), (3, "error")]
    with EvalArchive(Path(written[0].log)) as log:
        assert "not complete" in log.header()["error"]["message"]
        assert log.header()["results"]["total_samples"] == 4


@pytest.mark.parametrize("format_", ["inspect", "parquet"])
def test_only_json_lines_can_be_printed(run_path, tmp_path, capfdbinary, monkeypatch, format_):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    refused = call(capfdbinary, "export", run_path, "--to", format_, "--output", "-")
    assert (refused.code, "cannot be printed" in refused.err) == (2, True)
    assert sorted(tmp_path.iterdir()) == before


def test_no_count_of_tokens_is_negative():
    """A record may say that more was read from a cache than there was."""
    assert inspect_usage(Usage(3, 1, 5))["input_tokens"] == 0


def test_the_tokens_of_a_judge_are_not_those_of_the_model_under_test(tmp_path):
    """As a log says what each model took, and Inspect adds it up by model."""
    task = Task(name="judged", samples=SAMPLES[:1], scorers=[model_graded(model="referee")])
    judge = {"provider": "scripted", "model": "referee", "args": {"default": "GRADE: C"}}
    models = {"small": "scripted/echo", "referee": judge}
    with evaluate([task], models=models, run=tmp_path / "run", progress=False) as run:
        [log] = export_inspect(run, tmp_path / "logs")
        [row] = run.trials()
    with EvalArchive(Path(log.log)) as archive:
        [used] = [archive.sample(name)["model_usage"] for name in archive.sample_members()]
    assert len(used) == 2 and "referee" in used
    assert sum(one["total_tokens"] for one in used.values()) == row.usage.input_tokens + row.usage.output_tokens
