"""A crashed log of Inspect's is recovered from all that is left of it, and what is not whole is never a success."""

from __future__ import annotations

import errno
import json
import os
import random
import sqlite3
import tracemalloc
import zipfile

import pytest
from crashed_evals import HASH, LONG, START, CrashedEval, events, pool, sample, summary, zip_bytes

from cli_calls import call
from holdfast.errors import UsageError
from holdfast.interop.inspect.archive.zip_reader import ArchiveError
from holdfast.interop.inspect.eval_archive import EvalArchive
from holdfast.interop.inspect.recovering.crashed_logs import crashed_logs
from holdfast.interop.inspect.recovering.recovery import COMPLETE, HOLLOW, INCOMPLETE, default_output, recover_log
from holdfast.interop.inspect.sample_shape import faults_in
from holdfast.storage.filesystem import RealFileSystem
from holdfast.testing import FaultyFileSystem, InjectedFault, RecordingFileSystem, random_crash_state


@pytest.fixture
def crashed(tmp_path, monkeypatch):
    return CrashedEval(tmp_path, monkeypatch)


def recovered(crashed, **options):
    """What became of each sample, the samples of the new log, its summaries and its header."""
    told = recover_log(crashed.log, **options)
    with EvalArchive(default_output(crashed.log)) as log:
        samples = {str(found["id"]): found for found in map(log.sample, log.sample_members())}
        assert [str(short["id"]) for short in log.summaries()] == list(samples)
        return told, samples, {str(short["id"]): short for short in log.summaries()}, log.header()


def by_id(told):
    return {found.id: (found.source, found.state) for found in told.samples}


def test_samples_come_from_the_log_then_the_database_then_the_segments(crashed):
    """Row 13 of recovery, for Inspect: whatever survives is used, the nearest source first."""
    crashed.write_log({"1": (sample(1), summary(1))})
    crashed.write_database(summary(1, at=0), summary(2))
    crashed.write_segments(summary(1, at=0), summary(2), summary(3))
    told, samples, short, header = recovered(crashed)
    assert by_id(told) == {"1": ("log", COMPLETE), "2": ("database", COMPLETE), "3": ("filestore", COMPLETE)}
    answers = {ident: found["messages"][-1]["content"] for ident, found in samples.items()}
    assert answers == {"1": "from the log", "2": "from the buffer", "3": "from segments"}
    assert (header["status"], header["eval"], told.planned, told.complete) == ("error", crashed.spec, 5, 3)
    assert header["results"]["total_samples"] == header["results"]["completed_samples"] == 3
    assert header["stats"]["model_usage"] == {"m/x": {"input_tokens": 9, "output_tokens": 6, "total_tokens": 15}}
    assert not any("error" in found for found in (*samples.values(), *short.values()))


def test_a_sample_is_put_together_from_its_rows(crashed):
    """The last version of an event counts, pools and attachments are resolved, and nothing is shortened."""
    crashed.write_database(summary(2, scores={"exact": {"value": "C", "explanation": "in f…"}, "other": {"value": 1}}))
    _, samples, short, _ = recovered(crashed)
    found = samples["2"]
    assert [message["content"] for message in found["messages"]] == ["Be brief.", LONG, "from the buffer"]
    assert found["output"]["choices"][0]["message"]["content"] == "from the buffer"
    assert (found["input"], found["metadata"], found["uuid"]) == (LONG, {"whole": True}, "u2")
    assert found["scores"] == {"exact": {"value": "C", "explanation": "in full"}, "other": {"value": 1}}
    assert [event["event"] for event in found["events"]] == ["sample_init", "model", "score", "info"]
    assert found["events"][-1]["data"] == {"recovered_from": "database"}
    assert (found["events_data"]["messages"], found["attachments"]) == (pool(), {HASH: LONG})
    assert short["2"]["message_count"] == 3


def test_a_buffer_that_started_a_sample_again_is_newer_than_the_log(crashed):
    """The log of a retry holds the samples of the try before."""
    crashed.write_log({"1": (sample(1), summary(1, at=1)), "2": (sample(2), summary(2, at=1))})
    crashed.write_database(summary(1, at=9), summary(2, at=2))
    assert by_id(recovered(crashed)[0]) == {"2": ("log", COMPLETE), "1": ("database", COMPLETE)}


def test_a_sample_in_progress_gets_an_error(crashed):
    """Inspect's retry runs every sample with an error again."""
    crashed.write_database(summary(1, complete=False), rows={"events": events()[:2]})
    told, samples, short, header = recovered(crashed)
    assert by_id(told) == {"1": ("database", INCOMPLETE)}
    assert "in progress" in samples["1"]["error"]["message"]
    assert short["1"]["error"] == samples["1"]["error"]["message"]
    assert header["results"] == {"total_samples": 1, "completed_samples": 0, "scores": []}
    assert [message["role"] for message in samples["1"]["messages"]] == ["system", "user"]


def _missing(folder):
    (folder / "segment.2.zip").unlink()


def _truncated(folder):
    content = (folder / "segment.2.zip").read_bytes()
    (folder / "segment.2.zip").write_bytes(content[: len(content) // 2])


def _without_the_sample(folder):
    (folder / "segment.2.zip").write_bytes(zip_bytes({"9_1.json": {}}))


def _without_the_last_event(folder):
    (folder / "segment.2.zip").write_bytes(zip_bytes({"1_1.json": {"events": []}}))


def _not_json(folder):
    (folder / "segment.2.zip").write_bytes(zip_bytes({"1_1.json": b"{"}))


def _without_the_pool(folder):
    (folder / "segment.1.zip").unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_missing, "segment.2.zip is missing"),
        (_truncated, "segment.2.zip cannot be read"),
        (_without_the_sample, "segment.2.zip has no rows of it"),
        (_without_the_last_event, "segment.2.zip ends too early (events)"),
        (_not_json, "segment.2.zip cannot be read"),
        (_without_the_pool, "segment.1.zip is missing"),
    ],
)
def test_a_sample_without_its_whole_transcript_is_never_a_success(crashed, harm, said):
    """Inspect's own recovery returns it as scored; here it has an error, which names the segment, and no score."""
    harm(crashed.write_segments(summary(1)))
    told, samples, short, header = recovered(crashed)
    assert by_id(told) == {"1": ("filestore", HOLLOW)}
    assert said in samples["1"]["error"]["message"]
    assert any(said in warning for warning in told.warnings)
    assert "scores" not in samples["1"]
    assert "scores" not in short["1"]
    assert (told.complete, header["results"]["completed_samples"]) == (0, 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"events": []}, "no events"),
        ({"pool": pool()[:1]}, "input_refs"),
        ({"attachments": {}}, "attachments are missing"),
    ],
)
def test_references_that_lead_nowhere_make_a_transcript_hollow(crashed, rows, said):
    crashed.write_database(summary(1), rows=rows)
    told, samples, _, _ = recovered(crashed)
    assert by_id(told) == {"1": ("database", HOLLOW)}
    assert said in samples["1"]["error"]["message"]


def test_whole_segments_make_good_what_the_database_has_lost(crashed):
    crashed.write_database(summary(1), rows={"events": []})
    crashed.write_segments(summary(1))
    assert by_id(recovered(crashed)[0]) == {"1": ("filestore", COMPLETE)}


def test_a_damaged_database_is_named_and_the_segments_are_read(crashed):
    path = crashed.write_database(summary(1))
    path.write_bytes(b"not a database" * 100)
    crashed.write_segments(summary(1))
    told, _, _, _ = recovered(crashed)
    assert by_id(told) == {"1": ("filestore", COMPLETE)}
    assert any(path.name in warning for warning in told.warnings)


def test_a_damaged_manifest_is_named(crashed):
    folder = crashed.write_segments(summary(1))
    (folder / "manifest.json").write_text('{"samples": [')
    told, _, _, _ = recovered(crashed)
    assert told.samples == []
    assert any("manifest.json" in warning for warning in told.warnings)


def test_a_sample_that_is_damaged_in_the_log_gets_an_error(crashed):
    """Its summary is there, and says that it was scored."""
    crashed.write_log(
        {"1": (sample(1), summary(1)), "2": (sample(2, "x" * 100), summary(2))}, method=zipfile.ZIP_STORED
    )
    crashed.log.write_bytes(crashed.log.read_bytes().replace(b"x" * 100, b"x" * 99 + b"y"))
    told, samples, _, _ = recovered(crashed)
    assert by_id(told) == {"1": ("log", COMPLETE), "2": ("log", HOLLOW)}
    assert "checksum" in samples["2"]["error"]["message"]
    assert "scores" not in samples["2"]


def test_a_score_of_nan_and_unknown_fields_do_no_harm(crashed):
    """The buffers of Inspect's have null where a score is NaN; a log with null could not be read."""
    odd = {"scores": {"b": {"value": None}}, "new_field": [1]}
    crashed.write_database(summary(1, **odd), rows={"events": events()[:3]})
    told, samples, short, _ = recovered(crashed)
    assert by_id(told) == {"1": ("database", COMPLETE)}
    assert samples["1"]["scores"]["b"]["value"] != samples["1"]["scores"]["b"]["value"]
    assert short["1"]["scores"]["b"]["value"] != short["1"]["scores"]["b"]["value"]
    assert samples["1"]["new_field"] == [1]


SCORED = {"scorers": [{"name": "exact"}]}
PENDING = {
    "event": "model",
    "model": "m/x",
    "input": [],
    "tools": [],
    "tool_choice": "auto",
    "config": {},
    "output": {},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scores": None}, "it has no scores"),
        ({"scores": {"exact": None}}, "the score 'exact' is missing"),
        ({"messages": None}, "it has no messages"),
        ({"events": [{**PENDING, "input_refs": [[0, 5]]}]}, "input_refs"),
        ({"events": [{**PENDING, "pending": True}]}, "has no reply"),
        ({"messages": [{"role": "user", "content": f"attachment://{HASH}"}]}, "attachments are missing"),
        ({"events": None}, "Inspect cannot read events"),
        ({"scores": [1]}, "Inspect cannot read scores"),
        ({"events": [{"event": "new kind"}]}, "Inspect cannot read events[0].event"),
        ({"output": {"choices": [{"message": {"role": "tool", "content": ""}}]}}, "output.choices[0].message.role"),
    ],
)
def test_a_sample_of_the_log_that_is_not_whole_is_not_complete(tmp_path, monkeypatch, change, said):
    """It gets an error that names what is missing, no scores, and nothing that Inspect would refuse."""
    crashed = CrashedEval(tmp_path, monkeypatch, **SCORED)
    crashed.write_log({"1": (sample(1, **change), summary(1)), "2": (sample(2), summary(2))})
    told, samples, short, header = recovered(crashed)
    assert by_id(told) == {"1": ("log", HOLLOW), "2": ("log", COMPLETE)}
    assert said in samples["1"]["error"]["message"]
    assert said in short["1"]["error"]
    assert "scores" not in samples["1"]
    assert "scores" not in short["1"]
    assert header["results"]["completed_samples"] == 1
    assert not faults_in(samples["1"], "sample")
    assert not faults_in(short["1"], "summary")


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ({}, {"scores": None}),
        ({}, {"scores": {}}),
        (SCORED, {"scores": {}}),
        (SCORED, {"scores": {}, "limit": {"type": "time", "limit": 5}, "events": [{**PENDING, "pending": True}]}),
        (SCORED, {"scores": None, "error": {"message": "m", "traceback": "t", "traceback_ansi": "t"}}),
        ({"packages": {"inspect_ai": "0.4.0"}}, {"events": [{"event": "new kind"}]}),
    ],
)
def test_a_sample_without_scores_is_as_inspect_left_it(tmp_path, monkeypatch, more, change):
    """Without a scorer, or with one that gave none (`--no-score`), Inspect writes an empty map."""
    crashed = CrashedEval(tmp_path, monkeypatch, **more)
    crashed.write_log({"1": (sample(1, **change), summary(1, scores=None))})
    told, samples, _, _ = recovered(crashed)
    assert by_id(told) == {"1": ("log", COMPLETE)}
    assert samples["1"] == sample(1, **change)


def test_a_whole_sample_of_a_buffer_is_better_than_one_that_is_not_whole(crashed):
    crashed.write_log({"1": (sample(1, messages=None), summary(1))})
    crashed.write_database(summary(1, at=0))
    assert by_id(recovered(crashed)[0]) == {"1": ("database", COMPLETE)}


@pytest.mark.parametrize("event", [{"event": "new kind"}, {"event": "model"}, {"event": "span_end", "id": 5}])
def test_a_buffered_sample_that_inspect_cannot_read_gets_an_error(crashed, event):
    crashed.write_database(summary(1), rows={"events": [*events(), {**event, "uuid": "e9"}]})
    told, samples, short, _ = recovered(crashed)
    assert by_id(told) == {"1": ("database", HOLLOW)}
    assert "Inspect cannot read events[3]" in samples["1"]["error"]["message"]
    assert len(samples["1"]["events"]) == 4
    assert not faults_in(samples["1"], "sample")
    assert not faults_in(short["1"], "summary")


@pytest.mark.parametrize("part", [b"[", b'{"a": 1}'])
def test_damaged_summaries_are_named_and_samples_speak_for_themselves(crashed, part):
    members = {"_journal/start.json": {"version": 2, "eval": crashed.spec}, "samples/1_epoch_1.json": sample(1)}
    crashed.log.write_bytes(zip_bytes({**members, "_journal/summaries/1.json": part}))
    told, _, short, _ = recovered(crashed)
    assert by_id(told) == {"1": ("log", COMPLETE)}
    assert short["1"]["scores"] == {"exact": {"value": "C"}}
    assert any("summaries/1.json" in warning for warning in told.warnings)


def test_events_can_be_left_out(crashed):
    crashed.write_log({"1": (sample(1), summary(1))})
    crashed.write_database(summary(2))
    _, samples, _, _ = recovered(crashed, with_events=False)
    assert samples["1"]["events"] == []
    assert [event["event"] for event in samples["2"]["events"]] == ["info"]
    assert "events_data" not in samples["2"]
    assert [len(found["messages"]) for found in samples.values()] == [1, 3]


def test_recovering_twice_gives_the_same_bytes_and_changes_no_original(crashed):
    """Row 11 of recovery."""
    crashed.write_log({"1": (sample(1), summary(1))})
    before = crashed.log.read_bytes(), crashed.write_database(summary(2)).read_bytes()
    recover_log(crashed.log)
    first = default_output(crashed.log).read_bytes()
    with pytest.raises(UsageError, match="exists"):
        recover_log(crashed.log)
    recover_log(crashed.log, overwrite=True)
    assert default_output(crashed.log).read_bytes() == first
    database = next(crashed.data.rglob("*.db"))
    assert (crashed.log.read_bytes(), database.read_bytes()) == before


def test_what_cannot_be_recovered_is_refused(crashed, tmp_path):
    with pytest.raises(UsageError, match="the log itself"):
        recover_log(crashed.log, crashed.log, overwrite=True)
    ended = tmp_path / "ended.eval"
    ended.write_bytes(zip_bytes({"header.json": {"status": "error", "eval": {}}}))
    with pytest.raises(UsageError, match=r"'error'.*eval-retry"):
        recover_log(ended)
    (tmp_path / "torn.eval").write_bytes(crashed.log.read_bytes()[:-30])
    with pytest.raises(ArchiveError, match="cut"):
        recover_log(tmp_path / "torn.eval")
    crashed.write_database(summary(1), process=os.getpid())
    with pytest.raises(UsageError, match=f"process {os.getpid()}"):
        recover_log(crashed.log)
    assert not default_output(crashed.log).exists()


def test_a_log_that_was_moved_finds_its_database(crashed, tmp_path):
    crashed.write_database(summary(1))
    moved = tmp_path / "elsewhere" / crashed.log.name
    moved.parent.mkdir()
    crashed.log.rename(moved)
    assert by_id(recover_log(moved)) == {"1": ("database", COMPLETE)}


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_full_disk_leaves_no_output(crashed, operation):
    """Every write, sync and rename fails in turn: the output is not there, nor anything else."""
    crashed.write_log({"1": (sample(1), summary(1))})
    crashed.write_database(summary(2))
    before, failures = sorted(crashed.place.iterdir()), 0
    for nth in range(1, 100):
        fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, nth, errno.ENOSPC)])
        try:
            recover_log(crashed.log, fs=fs)
        except OSError:
            failures += 1
            assert sorted(crashed.place.iterdir()) == before
        else:
            break
    assert failures == nth - 1 > 0


def test_a_power_loss_leaves_no_output_or_a_whole_one(crashed):
    """Of the states that a legal filesystem may leave at any moment, none has half a log under its name."""
    crashed.write_database(summary(2))
    fs = RecordingFileSystem(RealFileSystem(), crashed.place)
    name, states = default_output(crashed.log).name, []
    draw = random.Random(7)
    fs.watch = lambda: states.extend(random_crash_state(fs.tree, draw).get(name) for _ in range(3))
    recover_log(crashed.log, fs=fs)
    whole = default_output(crashed.log).read_bytes()
    assert len(states) > 20
    assert set(states) == {None, whole}


def test_memory_does_not_grow_with_the_log(crashed):
    """Row 24 of recovery, for Inspect: samples of the log are read one at a time."""
    peaks = []
    for count in (2, 8):
        entries = {str(n): (sample(n, "x" * 1_000_000), summary(n)) for n in range(1, count + 1)}
        crashed.write_log(entries, method=zipfile.ZIP_STORED)
        tracemalloc.start()
        try:
            recover_log(crashed.log, overwrite=True)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_the_list_says_where_each_log_can_be_recovered_from(crashed, tmp_path):
    """Row 9 of recovery, for Inspect: a table, and nothing is changed."""
    crashed.write_log({"1": (sample(1), summary(1))})
    (crashed.place / "ended.eval").write_bytes(zip_bytes({"header.json": {"status": "success", "eval": {}}}))
    (crashed.place / "odd.eval").write_bytes(b"?")

    def listed():
        return [
            (found.state, found.source, found.in_log, found.complete, found.in_progress)
            for found in crashed_logs(tmp_path)
        ]

    odd = ("unreadable", "log only", 0, 0, 0)
    assert listed() == [("crashed", "log only", 1, 0, 0), odd]
    crashed.write_segments(summary(1), summary(2), summary(3, complete=False))
    assert listed() == [("crashed", "filestore", 1, 1, 1), odd]
    crashed.write_database(summary(4))
    assert listed()[0][:3] == ("crashed", "database", 1)
    recover_log(crashed.log)
    assert listed()[0][0] == "recovered"


def test_the_command(crashed, capfdbinary):
    crashed.write_log({"1": (sample(1), summary(1))})
    crashed.write_segments(summary(2), summary(3, complete=False))
    (crashed.place / ".buffer" / crashed.log.stem / "segment.2.zip").unlink()
    listed = json.loads(call(capfdbinary, "recover", "--list", crashed.place, "--json").out)
    assert [(log["source"], log["planned"]) for log in listed["logs"]] == [("filestore", 5)]
    assert listed["runs"] == []
    done = call(capfdbinary, "recover", crashed.log)
    assert done.code == 1
    assert "warning: sample 2 epoch 1" in done.err
    assert "segment.2.zip is missing" in done.err
    assert "1 of 5 are complete" in done.out
    assert "inspect eval-retry" in done.out
    told = json.loads(call(capfdbinary, "recover", crashed.log, "--overwrite", "--json").out)
    assert {found["id"]: found["source"] for found in told["samples"]} == {
        "1": "log",
        "2": "filestore",
        "3": "filestore",
    }
    for options in (["--no-steps"], ["--merge"], ["--to", "x"]):
        refused = call(capfdbinary, "recover", crashed.log, *options)
        assert (refused.code, "an option for a run" in refused.err) == (2, True)
    refused = call(capfdbinary, "recover", "s3://bucket/run", "--no-events")
    assert (refused.code, "an option for a log" in refused.err) == (2, True)


def test_the_wrong_clock_of_a_summary_does_no_harm(crashed):
    """A time that is none is no reason to prefer a buffer."""
    crashed.write_log({"1": (sample(1), summary(1, completed_at="yesterday", started_at=START.format(1)))})
    crashed.write_database(summary(1, started_at=7))
    assert by_id(recovered(crashed)[0]) == {"1": ("log", COMPLETE)}


def test_a_log_that_does_not_exist_or_is_a_pipe_is_refused(crashed, tmp_path, capfdbinary):
    """A pipe without a writer would be waited for."""
    os.mkfifo(tmp_path / "pipe.eval")
    for name, said in (("nope.eval", "does not exist"), ("pipe.eval", "is not a file")):
        told = call(capfdbinary, "recover", tmp_path / name)
        assert (told.code, said in told.err) == (2, True)
    assert call(capfdbinary, "import", tmp_path / "pipe.eval").code == 2
    states = {listed.state for listed in crashed_logs(tmp_path) if listed.log.endswith("pipe.eval")}
    assert states == {"unreadable"}


@pytest.mark.parametrize("name", ["manifest.json", "segment.1.zip"])
def test_a_pipe_among_the_segments_is_named(crashed, name):
    place = crashed.write_segments(summary(2)) / name
    place.unlink()
    os.mkfifo(place)
    told = recover_log(crashed.log)
    assert any("not a" in warning and name in warning for warning in told.warnings)


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_a_pipe_in_the_place_of_the_database_is_named(crashed, ending):
    database = crashed.write_database(summary(2))
    place = database.with_name(database.name + ending)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    crashed.write_segments(summary(2))
    told = recover_log(crashed.log)
    assert by_id(told) == {"2": ("filestore", COMPLETE)}
    assert any("is not a regular file" in warning for warning in told.warnings)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1"], "1 of 2 are complete; Inspect runs the others again:"),
        (["1", "2"], "2 of 2 are complete; Inspect computes the metrics:"),
        (["1", "2", "9"], "2 of 2 are complete, and 1 that the dataset does not have; Inspect computes the metrics:"),
        (["9"], "0 of 2 are complete, and 1 that the dataset does not have; Inspect runs the others again:"),
    ],
)
def test_the_count_of_complete_samples_is_that_of_the_dataset(tmp_path, monkeypatch, capfdbinary, names, said):
    crashed = CrashedEval(tmp_path, monkeypatch, count=2)
    crashed.write_log({name: (sample(name), summary(name)) for name in names})
    done = call(capfdbinary, "recover", crashed.log)
    assert (done.code, said in done.out) == (0, True)


@pytest.mark.parametrize("change", [{"epoch": "1"}, {"id": None}, {"id": 1.5}])
def test_a_sample_of_a_buffer_without_a_valid_key_is_named(crashed, capfdbinary, change):
    crashed.write_segments({**summary(1), **change}, summary(2))
    crashed.write_database({**summary(3), "epoch": "1"})
    done = call(capfdbinary, "recover", crashed.log)
    assert done.code == 1
    assert "samples[0] has no valid id and epoch" in done.err
    assert "sample 3 has no valid summary" in done.err


@pytest.mark.parametrize("bound", ["_MOST_SAMPLE", "_MOST_SUMMARIES"])
def test_a_member_beyond_its_bound_is_named_and_not_read(crashed, monkeypatch, capfdbinary, bound):
    """It would be read into memory as a whole."""
    crashed.write_log({"1": (sample(1), summary(1))})
    monkeypatch.setattr(f"holdfast.interop.inspect.eval_archive.{bound}", 100)
    told = call(capfdbinary, "recover", crashed.log)
    assert told.code == 1
    assert "bytes; at most 100 are read" in told.err
    is_sample = bound == "_MOST_SAMPLE"
    assert ("transcript lost" in told.out, "1 of 5 are complete" in told.out) == (is_sample, not is_sample)


@pytest.mark.parametrize(
    ("table", "torn"), [("events", '{"event": "mod'), ("events", "[]"), ("events", "null"), ("message_pool", "{")]
)
def test_a_torn_row_of_the_database_is_a_loss(crashed, table, torn):
    with sqlite3.connect(crashed.write_database(summary(1))) as base:
        base.execute(f"UPDATE {table} SET data = ? WHERE id = 2", (torn,))
    base.close()
    told, samples, _, _ = recovered(crashed)
    assert by_id(told) == {"1": ("database", HOLLOW)}
    said = "an event cannot be read" if table == "events" else "an entry of its pool is not JSON"
    assert said in samples["1"]["error"]["message"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": 4, "event_id": "e3", "event": "tor"}, "an event cannot be read"),
        ({"id": 4, "event_id": {"a": 1}, "event": None}, "an event cannot be read"),
        ("tor", "segment.2.zip has rows that cannot be read (events)"),
    ],
)
def test_a_torn_row_of_a_segment_is_a_loss(crashed, row, said):
    folder = crashed.write_segments(summary(1))
    last = [{"id": 3, "event_id": "e2", "event": events()[2]}, {"id": 4, "event_id": "e3", "event": events()[3]}]
    (folder / "segment.2.zip").write_bytes(zip_bytes({"1_1.json": {"events": [*last, row]}}))
    told, samples, _, _ = recovered(crashed)
    assert by_id(told) == {"1": ("filestore", HOLLOW)}
    assert said in samples["1"]["error"]["message"]


def test_an_event_whose_id_is_a_map_is_kept(crashed):
    folder = crashed.write_segments(summary(1))
    last = [{"id": 3 + n, "event_id": {"a": 1}, "event": event} for n, event in enumerate(events()[2:])]
    (folder / "segment.2.zip").write_bytes(zip_bytes({"1_1.json": {"events": last}}))
    assert len(recovered(crashed)[1]["1"]["events"]) == 5


def test_a_database_that_may_not_be_read_is_skipped_by_name(crashed, monkeypatch):
    """SQLite cannot open it, and neither can it be copied."""
    database = crashed.write_database(summary(2))
    with sqlite3.connect(database) as base:
        base.execute("DROP TABLE samples")
    base.close()

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("holdfast.interop.inspect.recovering.buffer_database.shutil.copyfile", refuse)
    crashed.write_segments(summary(2))
    told = recover_log(crashed.log)
    assert by_id(told) == {"2": ("filestore", COMPLETE)}
    assert any(str(database) in warning and "Permission denied" in warning for warning in told.warnings)


def test_a_link_that_leads_nowhere_does_not_end_the_list(crashed, tmp_path):
    (crashed.place / "a.eval").symlink_to(tmp_path / "gone.eval")
    assert [found.state for found in crashed_logs(crashed.place)] == ["crashed", "unreadable"]


def test_a_deeply_nested_event_ends_no_recovery(crashed):
    """JSON can be read that is nested more deeply than a function can call itself."""
    deep: list = []
    for _ in range(700):
        deep = [deep]
    first, *others = events()
    first["sample"]["metadata"] = {"a": deep}
    crashed.write_database(summary(1), rows={"events": [first, *others]})
    assert by_id(recover_log(crashed.log)) == {"1": ("database", COMPLETE)}
