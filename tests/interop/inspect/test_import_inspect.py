"""Logs of Inspect's become runs whose figures are Inspect's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crashed_evals import HASH, LONG, CrashedEval, sample, spec, summary, zip_bytes

from cli_calls import call
from holdfast.api.run import Run
from holdfast.interop.importing.import_run import import_run
from holdfast.interop.importing.kinds import find_reader
from holdfast.interop.inspect.archive.zip_reader import ArchiveError
from holdfast.interop.inspect.eval_archive import EvalArchive
from holdfast.interop.inspect.importing.score_values import score_number

LOG = Path(__file__).parents[2] / "data/inspect/questions.eval"
"""Written by inspect-ai 0.3.285: three samples, two epochs, two scorers, one of them with NaN."""


@pytest.fixture(params=["eval", "json"])
def log(request, tmp_path):
    """The same eval in both formats of Inspect's."""
    if request.param == "eval":
        return LOG
    with EvalArchive(LOG) as archive:
        samples = list(map(archive.sample, archive.sample_members()))
        content = {**archive.header(), "samples": samples}
    (tmp_path / "log.json").write_text(json.dumps(content))
    return tmp_path / "log.json"


def imported(path, root):
    summary_ = import_run(find_reader(path).read(path), root)
    return summary_, Run.open(root)


def test_the_metrics_are_those_of_inspect(log, tmp_path):
    """To the last digit, with epochs and with a score that is NaN."""
    with EvalArchive(LOG) as archive:
        results = archive.header()["results"]["scores"]
    told, run = imported(log, tmp_path / "run")
    with run:
        [[report]] = [list(models.values()) for models in run.report().tasks.values()]
    assert (told.imported, told.skipped_count, told.tool) == (6, 0, "Inspect")
    assert len(results) == 2
    for score in results:
        [metric] = report.metrics[score["name"]].values()
        theirs = {name: found["value"] for name, found in score["metrics"].items()}
        assert metric.stderr == pytest.approx(theirs.pop("stderr"), abs=1e-15)
        assert [metric.value] == pytest.approx(list(theirs.values()), abs=1e-15)


def test_messages_answers_usage_and_metadata_are_kept(log, tmp_path):
    _, run = imported(log, tmp_path / "run")
    with run, EvalArchive(LOG) as archive:
        rows = {(row.sample, row.epoch): row for row in run.trials()}
        for theirs in map(archive.sample, archive.sample_members()):
            row = rows[theirs["id"], theirs["epoch"]]
            assert (row.input, row.target, row.metadata["region"]) == (theirs["input"], theirs["target"], theirs["id"])
            assert row.answer == theirs["output"]["completion"]
            [step] = list(run.steps(row.trial))
            said = [message["content"] for message in (*step.request["messages"], {"content": step.result["text"]})]
            assert said == [message["content"] for message in theirs["messages"]]
            used = theirs["model_usage"]["slow/m"]
            assert row.usage.input_tokens == used["input_tokens"] + used["input_tokens_cache_read"]
            assert (row.usage.cached_input_tokens, row.usage.output_tokens) == (7, used["output_tokens"])


def test_states_of_samples(tmp_path):
    """An error is a failure, a limit is kept, no score is no verdict, and what is missing was not started."""
    samples = {
        "1": sample(1),
        "2": sample(2, error={"message": "boom", "traceback": "at line 3"}),
        "3": sample(3, limit={"type": "token", "limit": 5}),
        "4": sample(4, scores=None),
    }
    members = {f"samples/{ident}_epoch_1.json": found for ident, found in samples.items()}
    header = {"status": "error", "eval": {**spec(), "scorers": [{"name": "exact"}]}}
    (tmp_path / "a.eval").write_bytes(zip_bytes({**members, "header.json": header}))
    _, run = imported(tmp_path / "a.eval", tmp_path / "run")
    with run:
        states = {row.sample: str(row.state) for row in run.trials()}
        assert states == {"1": "valid", "2": "failed", "3": "limited", "4": "unfinished"}
        assert (run.counts.not_started, run.counts.planned) == (1, 5)
        assert next(row.error.message for row in run.trials() if row.sample == "2") == "boom"


def test_a_crashed_log_is_imported_as_far_as_it_goes(tmp_path, monkeypatch, capfdbinary):
    crashed = CrashedEval(tmp_path, monkeypatch)
    crashed.write_log({"1": (sample(1), summary(1))})
    done = call(capfdbinary, "import", crashed.log, "--run-dir", tmp_path / "run")
    assert done.code == 0
    assert "holdfast recover" in done.out
    with Run.open(tmp_path / "run") as run:
        assert (run.counts.valid, run.counts.not_started) == (1, 4)


def test_unknown_fields_are_kept_and_named(tmp_path):
    header = {"status": "success", "eval": spec(1)}
    odd = sample(1, new_field={"a": 1}, scores={"exact": {"value": "C"}, "odd": {"value": "perhaps"}, "none": None})
    (tmp_path / "a.eval").write_bytes(zip_bytes({"header.json": header, "samples/1_epoch_1.json": odd}))
    told, run = imported(tmp_path / "a.eval", tmp_path / "run")
    with run:
        [row] = run.trials()
    assert told.unknown_fields == {"new_field": 1}
    assert row.scores == {"exact": 1.0, "odd": None, "none": None}


def test_damaged_samples_are_skipped_by_name(tmp_path, capfdbinary):
    """Experiments 27, for Inspect: exit 1, and the others are imported."""
    members = {"header.json": {"status": "success", "eval": spec(2)}, "samples/1_epoch_1.json": sample(1)}
    (tmp_path / "a.eval").write_bytes(zip_bytes({**members, "samples/2_epoch_1.json": sample(3)}))
    done = call(capfdbinary, "import", tmp_path / "a.eval", "--run-dir", tmp_path / "run")
    assert (done.code, "samples/2_epoch_1.json" in done.out) == (1, True)


def test_a_sample_that_only_its_summary_names_is_skipped_by_name(tmp_path):
    members = {"header.json": {"status": "success", "eval": spec(1)}, "samples/1_epoch_1.json": sample(1)}
    (tmp_path / "a.eval").write_bytes(zip_bytes({**members, "summaries.json": [summary(1), summary(7)]}))
    told, run = imported(tmp_path / "a.eval", tmp_path / "run")
    run.close()
    assert [(item.where, told.imported) for item in told.skipped] == [("sample 7 epoch 1", 1)]


def test_a_sample_without_events_keeps_its_conversation(tmp_path):
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "from the log"}]
    members = {"header.json": {"status": "success", "eval": spec(1)}}
    members["samples/1_epoch_1.json"] = sample(1, messages=said, events=[])
    (tmp_path / "a.eval").write_bytes(zip_bytes(members))
    _, run = imported(tmp_path / "a.eval", tmp_path / "run")
    with run:
        [step] = run.steps()
    assert (step.request["messages"], step.result["text"]) == ([{"role": "user", "content": "q"}], "from the log")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", zip_bytes({"a": b""})])
def test_what_is_no_log_is_refused(tmp_path, content, capfdbinary):
    (tmp_path / "a.eval").write_bytes(content)
    with pytest.raises(ArchiveError):
        find_reader(tmp_path / "a.eval").read(tmp_path / "a.eval")
    assert call(capfdbinary, "import", tmp_path / "a.eval", "--run-dir", tmp_path / "run").code == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *[("C", 1), ("P", 0.5), ("I", 0), ("N", 0), ("yes", 1), ("False", 0), ("3.5", 3.5), (True, 1), (2, 2)],
        *[
            (float("nan"), None),
            (float("inf"), None),
            ("inf", None),
            (None, None),
            ([], None),
            ("?", None),
            ("c", None),
        ],
    ],
)
def test_values_are_numbers_by_the_rules_of_inspect(value, number):
    """What is no number is unscored here; Inspect warns, and counts a text that it cannot convert as 0."""
    assert score_number(value) == number


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_beyond_every_bound_are_kept_as_text_and_count_as_unscored(digits, tmp_path, capfdbinary):
    """An integer that no float holds, wherever a log has a number; one with more digits than Python reads as well."""
    huge = b"1" * digits
    found = sample(
        1, scores={"exact": {"value": "HUGE"}}, total_time="HUGE", turn_count="HUGE",
        model_usage={"m/x": {"input_tokens": "HUGE", "total_cost": "HUGE"}, "n/y": {"total_cost": 0.5}},
        events=[{"event": "model", "model": "m/x", "input": [], "output": {"time": "HUGE"}}],
    )  # fmt: skip
    members = {"samples/1_epoch_1.json": json.dumps(found).replace('"HUGE"', huge.decode()).encode()}
    (tmp_path / "l.eval").write_bytes(zip_bytes({"header.json": {"status": "success", "eval": spec(1)}, **members}))
    assert call(capfdbinary, "import", str(tmp_path / "l.eval"), "--run-dir", str(tmp_path / "run")).code == 0
    with Run.open(tmp_path / "run") as run:
        [row] = run.trials()
        assert row.scores == {"exact": None}
        assert run.report().tasks


def test_scores_at_the_end_of_the_floats_are_reported(tmp_path, capfdbinary):
    members = {f"samples/{ident}_epoch_1.json": sample(ident, scores={"s": {"value": 1.7e308}}) for ident in (1, 2)}
    (tmp_path / "l.eval").write_bytes(zip_bytes({"header.json": {"status": "success", "eval": spec(2)}, **members}))
    assert call(capfdbinary, "import", str(tmp_path / "l.eval"), "--run-dir", str(tmp_path / "run")).code == 0
    assert call(capfdbinary, "report", str(tmp_path / "run")).code == 0


SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "planted-01", "password": "planted-02", "api_key": "planted-03",
    "OPENAI_API_KEY": "planted-04", "Authorization": "planted-05", "hf_token": "planted-06",
    "client_secret": "planted-07", "nested": {"db_password": "planted-08"},
}  # fmt: skip


def test_keys_and_passwords_get_into_no_record(tmp_path, capfdbinary):
    """Wherever a log has room for them; found by the name of the field, and looked for in the records as text."""
    event = {"event": "model", "model": "m/x", "input": [], "output": {}, "call": {"request": SECRETS}}
    found = sample(1, metadata=SECRETS, store=SECRETS, sandbox=SECRETS, new_field=SECRETS, events=[event])
    found["scores"] = {"exact": {"value": "C", "metadata": SECRETS}}
    header = {"status": "success", "eval": spec(1, metadata=SECRETS, model_args=SECRETS, task_args=SECRETS)}
    members = {"header.json": {**header, "plan": {"config": SECRETS}}, "samples/1_epoch_1.json": found}
    (tmp_path / "l.eval").write_bytes(zip_bytes(members))
    assert call(capfdbinary, "import", tmp_path / "l.eval", "--run-dir", tmp_path / "run").code == 0
    records = call(capfdbinary, "cat", tmp_path / "run").out
    assert '"exact"' in records
    assert "planted" not in records
    inputs = (path for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert not [path for path in inputs if b"planted" in path.read_bytes()]


def test_a_sample_that_no_record_holds_is_skipped_by_name(tmp_path):
    used = {f"m/{number}": {"input_tokens": 1, "output_tokens": 1} for number in range(10_001)}
    members = {"samples/1_epoch_1.json": sample(1), "samples/2_epoch_1.json": sample(2, model_usage=used)}
    (tmp_path / "l.eval").write_bytes(zip_bytes({"header.json": {"status": "success", "eval": spec(2)}, **members}))
    told, run = imported(tmp_path / "l.eval", tmp_path / "run")
    run.close()
    [skipped] = told.skipped
    assert told.states == {"valid": 1}
    assert (skipped.where, "10,001 models" in skipped.reason) == ("samples/2_epoch_1.json", True)


def test_two_samples_of_one_id_in_a_json_log_are_named(tmp_path, capfdbinary):
    content = {"status": "success", "eval": spec(2), "samples": [sample(1, "first"), sample(1, "last"), sample(2)]}
    (tmp_path / "l.json").write_text(json.dumps(content))
    done = call(capfdbinary, "import", tmp_path / "l.json", "--run-dir", tmp_path / "run")
    assert (done.code, "imported 2 of 3 results" in done.out) == (1, True)
    assert "skipped: samples[0]: samples[1] is sample 1 epoch 1 too, and counts" in done.out


def test_trials_that_were_not_started_are_no_results(tmp_path, capfdbinary):
    content = {"status": "error", "eval": spec(3), "samples": [sample(1)]}
    (tmp_path / "l.json").write_text(json.dumps(content))
    done = call(capfdbinary, "import", tmp_path / "l.json", "--run-dir", tmp_path / "run")
    assert (done.code, "imported 1 of 1 result from Inspect." in done.out) == (0, True)
    assert "1 valid, 2 not started" in done.out


def one_sample(place, found):
    """A log of one sample."""
    members = {"header.json": {"status": "success", "eval": spec(1)}, "samples/1_epoch_1.json": found}
    place.write_bytes(zip_bytes(members))
    return place


def test_attachments_are_in_their_places_wherever_a_sample_refers_to_them(tmp_path):
    """Also where several parts of a message become one text, and in fields that are only kept."""
    there = f"attachment://{HASH}"
    parts = [{"type": "text", "text": "First: "}, {"type": "text", "text": there}]
    reply = {"model": "m/x", "choices": [{"message": {"role": "assistant", "content": parts}, "stop_reason": "stop"}]}
    asked = [{"role": "user", "content": parts}]
    found = sample(1, input=asked, output=reply, attachments={HASH: LONG}, store={"note": there}, target=there)
    _, run = imported(one_sample(tmp_path / "l.eval", {**found, "metadata": {"a": [there]}}), tmp_path / "run")
    with run:
        [row] = run.trials()
        [end] = [record for record in run.transcript(row.trial) if hasattr(record, "status")]
    assert (row.input[0]["content"], row.answer) == (f"First: {LONG}", f"First: {LONG}")
    assert (row.target, row.metadata["a"]) == (LONG, [LONG])
    assert end.imported["fields"]["store"] == {"note": LONG}


@pytest.mark.parametrize("odd", [{"input_tokens": "12"}, {"output_tokens": None}, {"input_tokens": True}])
def test_tokens_and_costs_that_are_no_numbers_are_unknown(tmp_path, odd):
    """A text is no 0, and true is no dollar."""
    used = {"input_tokens": 3, "output_tokens": 2, "total_cost": True, **odd}
    _, run = imported(one_sample(tmp_path / "l.eval", sample(1, model_usage={"m/x": used})), tmp_path / "run")
    with run:
        [row] = run.trials()
        [end] = [record for record in run.transcript(row.trial) if hasattr(record, "status")]
    assert (end.usage, end.imported.get("cost")) == (None, None)


def nested(depth):
    """A list in a list, so many times."""
    found: list = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("field", ["input", "target", "metadata", "store", "scores", "output", "messages"])
def test_a_deeply_nested_value_ends_no_import(tmp_path, capfdbinary, field):
    """JSON can be read that is nested more deeply than a function can call itself."""
    deep = {"a": nested(700)}
    odd = {"input": [{"role": "user", "content": [deep]}], "messages": [{"role": "assistant", "content": [deep]}]}
    found = sample(1, attachments={HASH: LONG}, events=[], **{field: odd.get(field, deep)})
    path = one_sample(tmp_path / "l.eval", found)
    done = call(capfdbinary, "import", path, "--run-dir", tmp_path / "run")
    assert done.code in (0, 1) and "imported" in done.out
