"""Rows 19 to 22: datasets between a run and its resume, with ids and without."""

from __future__ import annotations

import json
import re

import pytest
from gate_world import MODEL, TASK, make_rows

WITH_IDS = pytest.mark.parametrize("ids", [True, False], ids=["ids", "no-ids"])


def ran(world, count=4, *, ids=True, **task):
    """A complete run, and its rows."""
    world.rows = make_rows(count, ids=ids)
    world.task.update(task)
    world.run()
    return list(world.rows)


def asked(world) -> list[str]:
    """The questions that were asked, in the order of their names, as often as they were asked."""
    messages = [step["request"]["messages"] for step in world.records("step")]
    return sorted(message[-1]["content"] for message in messages)


def questions(count: int) -> list[str]:
    return sorted(f"q{number}" for number in range(1, count + 1))


@WITH_IDS
@pytest.mark.parametrize("given", [True, False], ids=["config", "plain"])
def test_resume_19_rows_reordered(world, ids, given):
    """The order of rows is nothing: no call is repeated, no session opened, nothing noted."""
    rows = ran(world, ids=ids)
    before = world.everything()
    world.write_rows(rows[::-1])
    told = world.resume(code=0) if given else world("resume", "r", code=0)
    assert "complete, 4 of 4" in told.out
    assert world.everything() == before


@WITH_IDS
def test_resume_19_rows_reordered_before_the_first_trial(world, ids):
    """A run that has yet to begin asks about each sample once, whatever order its file has now."""
    world.rows = make_rows(4, ids=ids)
    world.begin()
    world.rows = world.rows[::-1]
    world.resume(code=0)
    assert asked(world) == questions(4) and world.entries == []


@WITH_IDS
def test_resume_19_rows_reordered_under_a_limit(world, ids):
    """The samples that a limit left stay those of the run, though the file now begins with others."""
    rows = ran(world, ids=ids, limit=2)
    world.write_rows(rows[::-1])
    told = world.resume(code=0)
    assert "complete, 2 of 2" in told.out
    assert "tasks.t.dataset: 2 samples → other samples would be chosen; existing results are kept" in told.err
    world.task["limit"] = 3
    world.resume(code=0)
    assert asked(world) == questions(3)
    world.check_complete(3)


def test_resume_20_one_input_edited(world):
    """An edited input is refused; the sample is named, and so is `fork`."""
    rows = ran(world)
    world.write_rows([{**row, "question": "q0"} if row["id"] == "s2" else row for row in rows])
    for given in (True, False):
        told = world.refused(given=given)
        assert "tasks.t.dataset (identity): the input was edited in: s2" in told
        assert "`holdfast fork`" in told and "s1" not in told


def test_resume_20_one_input_edited_without_ids(world):
    """Without ids a sample is its content: the one that is gone is named."""
    rows = ran(world, ids=False)
    world.write_rows([*rows[:1], {**rows[1], "question": "q0"}, *rows[2:]])
    told = world.refused()
    (line,) = [line for line in told.splitlines() if "tasks.t.dataset" in line]
    found = re.fullmatch(
        r"  tasks\.t\.dataset \(identity\): samples → 1 replaced by 1 other: ([0-9a-f]{8}) → [0-9a-f]{8} \(row 2\)",
        line,
    )
    assert found, line
    assert [trial["sample"][:8] for trial in world.trials()].count(found[1]) == 1


def test_resume_20_many_inputs_edited(world):
    """Of many edited samples the first are named, and the rest counted."""
    rows = ran(world, 9)
    world.write_rows([{**row, "question": f"{row['question']}?"} for row in rows])
    assert "the input was edited in: s1, s2, s3, s4, s5 and 4 more" in world.refused()


def test_resume_20_what_was_never_asked_may_be_edited(world):
    """A row beyond the limit is no part of the run until the limit grows, and then counts as it stands then."""
    rows = ran(world, 6, limit=2)
    world.write_rows([*rows[:3], {**rows[3], "question": "edited"}, *rows[4:]])
    assert "complete, 2 of 2" in world.resume(code=0).out
    world.task["limit"] = 4
    world.resume(code=0)
    assert asked(world) == ["edited", "q1", "q2", "q3"]
    world.check_complete(4)


def test_resume_18_one_target_edited(world):
    """An edited target is a matter of scoring: the sample is named, and what keeps its answer."""
    rows = ran(world)
    world.write_rows([{**row, "answer": "other"} if row["id"] == "s3" else row for row in rows])
    told = world.refused()
    assert "tasks.t.dataset (scoring): the target was edited in: s3" in told
    assert "holdfast rescore r" in told


def test_resume_18_one_target_edited_without_ids(world):
    """Also where the sample is known by its input alone."""
    rows = ran(world, ids=False)
    world.write_rows([*rows[:3], {**rows[3], "answer": "other"}])
    told = world.refused()
    assert re.search(r"tasks\.t\.dataset \(scoring\): the target was edited in: [0-9a-f]{8} \(row 4\)\n", told), told


def test_resume_20_data_and_configuration_are_refused_together(world):
    """One refusal names everything: a field of the eval and a sample of the dataset."""
    rows = ran(world)
    world.model["generation"] = {"temperature": 1.0}
    world.write_rows([{**rows[0], "question": "q0"}, *rows[1:]])
    told = world.refused()
    assert "models.m.generation.temperature (identity)" in told and "the input was edited in: s1" in told


@WITH_IDS
@pytest.mark.parametrize("given", [True, False], ids=["config", "plain"])
def test_resume_21_rows_appended(world, ids, given):
    """New rows are growth: they alone are run, and the growth is noted."""
    rows = ran(world, ids=ids)
    world.write_rows([*rows, *make_rows(6, ids=ids)[4:]])
    _ = world.resume(code=0) if given else world("resume", "r", code=0)
    assert world.entries == ["tasks.t.dataset: 4 samples → 6 samples"]
    assert asked(world) == questions(6)
    world.check_complete(6)
    before = world.everything()
    assert "complete, 6 of 6" in world("resume", "r", code=0).out
    assert world.everything() == before


@WITH_IDS
def test_resume_70_a_column_that_nothing_uses_is_edited(world, ids):
    """Resume 70: without ids too, a sample whose other columns have changed is the same, and nothing is said of it."""
    world.rows = [{**row, "note": "old"} for row in make_rows(4, ids=ids)]
    world.run()
    before = world.everything()
    edited = [{**row, "note": "new"} for row in world.rows]
    world.write_rows(edited)
    assert world("diff", "r", "eval.yaml", code=0).out == "No difference.\n"
    assert "other samples" not in world.resume(code=0).err and world.everything() == before
    world.write_rows([*edited, {**make_rows(5, ids=ids)[4], "note": "new"}])
    told = world.resume(code=0)
    assert "tasks.t.dataset: 4 samples → 5 samples" in told.err and "other samples" not in told.err
    assert asked(world) == questions(5)


def test_resume_70_under_a_limit_other_samples_are_still_named(world):
    """Resume 70: an edited column hides no row that is now chosen in place of another."""
    world.rows = [{**row, "note": "old"} for row in make_rows(4, ids=False)]
    world.task["limit"] = 2
    world.run()
    world.write_rows([{**row, "note": "new"} for row in world.rows[::-1]])
    assert "2 samples → other samples would be chosen" in world("diff", "r", "eval.yaml", code=0).out


def test_resume_21_rows_appended_in_real_processes(holdfast, world):
    """A killed run takes the new rows in as it goes on."""
    world.data["concurrency_limit"] = 1
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    world.write_rows(make_rows(6))
    told = holdfast("resume", "r", code=0)
    assert "tasks.t.dataset: 4 samples → 6 samples" in told.err and "Complete: 6 of 6" in told.out
    assert asked(world) == questions(6)
    world.check_complete(6)


def test_resume_21_rows_put_before_the_others(world):
    """Where rows are added makes no difference."""
    rows = ran(world)
    world.write_rows([*make_rows(6)[4:], *rows])
    world.resume(code=0)
    assert asked(world) == questions(6)
    world.check_complete(6)


def test_resume_21_rows_beyond_a_limit(world):
    """Rows behind the limit are not asked about, and nothing is noted."""
    rows = ran(world, limit=3)
    world.write_rows([*rows, *make_rows(9)[4:]])
    before = world.everything()
    assert "complete, 3 of 3" in world.resume(code=0).out
    assert world.everything() == before


def test_resume_21_rows_appended_to_a_shuffled_dataset(world):
    """A shuffle gives each row its place by its content: those that were asked about are not asked again."""
    world.data["datasets"]["rows"]["operations"] = [{"shuffle": {"seed": 3}}]
    rows = ran(world)
    world.write_rows([*rows, *make_rows(12)[4:]])
    world.resume(code=0)
    assert asked(world) == questions(12)
    world.check_complete(12)


def test_resume_21_a_slice_that_others_would_move_into(world):
    """Where new rows would displace others from a slice, the samples of the run stand, and that is told."""
    world.data["datasets"]["rows"]["operations"] = [{"shuffle": {"seed": 3}}, {"slice": {"num": 4}}]
    rows = ran(world, 6)
    before = asked(world)
    world.write_rows(make_rows(40))
    told = world.resume(code=0)
    assert "other samples would be chosen; existing results are kept" in told.err
    assert asked(world) == before
    world.check_complete(4)
    assert rows


def test_resume_21_a_dataset_of_two_tasks(world):
    """Two tasks that ask about the same dataset grow together, each by its own limit, and nothing is doubled."""
    world.data["tasks"]["u"] = {**TASK, "prompt": "u {question}", "limit": 3}
    world.run()
    world.write_rows([*world.rows[1:], *make_rows(6)[4:]])
    told = world.resume(code=0)
    assert "tasks.t.dataset: 4 samples → without s1; existing results are kept" in told.err
    assert "tasks.t.dataset: 4 samples → 6 samples" in world.entries
    assert asked(world) == sorted([*questions(6), "u q1", "u q2", "u q3"])
    world.check_complete(9)


def test_resume_21_repeated_rows(world):
    """Rows that a repeat made several samples of are told apart after growth too."""
    world.data["datasets"]["rows"]["operations"] = [{"repeat": {"times": 2}}]
    rows = ran(world, 2)
    assert asked(world) == ["q1", "q1", "q2", "q2"]
    world.write_rows([*rows, *make_rows(3)[2:]])
    world.resume(code=0)
    assert asked(world) == ["q1", "q1", "q2", "q2", "q3", "q3"]
    world.check_complete(6)
    world.write_rows([{**rows[0], "question": "q0"}, rows[1]])
    assert "the input was edited in: s1" in world.refused()


@WITH_IDS
def test_resume_22_dataset_shrunk(world, ids):
    """Rows that are gone from the file stay in the run; the difference is told, the exit code is as ever."""
    world.rows = make_rows(4, ids=ids)
    world.begin()
    world.write_rows(world.rows[:2])
    told = world.resume(code=0)
    assert "tasks.t.dataset: 4 samples → without " in told.err and "existing results are kept" in told.err
    assert asked(world) == questions(4) and world.entries == []
    world.check_complete(4)
    assert "existing results are kept" in world("resume", "r", code=0).err


def test_resume_22_dataset_gone(world):
    """The run's own copy is enough."""
    world.begin()
    (world.directory / "rows.jsonl").unlink()
    told = world("resume", "r", code=0)
    assert "tasks.t.dataset: rows.jsonl → no longer exists; the run's own copy is used" in told.err
    assert asked(world) == questions(4)
    world.check_complete(4)


def test_resume_22_dataset_gone_and_limit_raised(world):
    """The copy holds the rows that a limit left out, too."""
    ran(world, 6, limit=2)
    (world.directory / "rows.jsonl").unlink()
    world("resume", "r", "--set", "limit=5", code=0)
    assert asked(world) == questions(5)
    world.check_complete(5)


def test_resume_22_shrunk_and_grown_at_once(world):
    """With ids, rows may go and others come: those of the run stand, and the new ones are run."""
    rows = ran(world)
    world.write_rows([*rows[2:], *make_rows(5)[4:]])
    told = world.resume(code=0)
    assert "tasks.t.dataset: 4 samples → without s1, s2; existing results are kept" in told.err
    assert asked(world) == questions(5)
    world.check_complete(5)


def test_dataset_moved(world):
    """Another path with the same content is a change of place: noted, and nothing is run."""
    ran(world)
    (world.directory / "data").mkdir()
    (world.directory / "rows.jsonl").rename(world.directory / "data/moved.jsonl")
    world.data["datasets"]["rows"]["path"] = "data/moved.jsonl"
    world.write_rows()
    (world.directory / "rows.jsonl").unlink()
    eval_file = world.directory / "eval.yaml"
    eval_file.write_text(json.dumps(world.data))
    world("resume", "r", "--config", eval_file, code=0)
    directory = world.directory
    assert world.entries == [f"datasets.rows.path: {directory}/rows.jsonl → {directory}/data/moved.jsonl"]
    world.check_complete(4)


def test_dataset_moved_and_edited(world):
    """Another path with other content is refused for its content, and only for that."""
    rows = ran(world)
    edited = [{**rows[0], "question": "q0"}, *rows[1:]]
    (world.directory / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in edited))
    world.data["datasets"]["rows"]["path"] = "other.jsonl"
    told = world.refused()
    assert "the input was edited in: s1" in told and "path" not in told


FORMS = {
    "json": lambda rows: json.dumps(rows, indent=3),
    "jsonl": lambda rows: "".join(json.dumps(dict(reversed(row.items()))) + "\r\n" for row in rows),
    "csv": lambda rows: "\n".join(
        ['"id","question","answer"', *(f'"{row["id"]}","{row["question"]}",{row["answer"]}' for row in rows)]
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", FORMS)
def test_formatting_of_a_dataset_is_nothing(world, form, other):
    """JSON lines, a JSON list or CSV, with whatever spacing, quotes and order of keys: the same rows are the same."""
    rows = make_rows(4)
    for name, spell in FORMS.items():
        (world.directory / f"data.{name}").write_text(spell(rows))
    world.data["datasets"]["rows"]["path"] = f"data.{form}"
    world.run()
    (world.directory / f"data.{form}").write_text(FORMS[form](rows).replace("\n", "\n\n") + "\n\n")
    before = world.everything()
    assert "complete, 4 of 4" in world.resume(code=0).out
    assert world.everything() == before
    world.data["datasets"]["rows"]["path"] = f"data.{other}"
    world.resume(code=0)
    assert len(world.entries) == (form != other)
    world.check_complete(4)


def test_a_dataset_that_cannot_be_read_any_more_is_named(world):
    """A file that has become nonsense is exit 2 with its line, and nothing is written."""
    ran(world)
    before = world.everything()
    (world.directory / "rows.jsonl").write_text('{"id": "s1", "quest')
    world.data["concurrency_limit"] = 3
    eval_file = world.directory / "eval.yaml"
    eval_file.write_text(json.dumps(world.data))
    told = world("resume", "r", "--config", eval_file, code=2)
    assert "rows.jsonl" in told.err
    assert world.everything() == before


def test_a_task_that_is_added_asks_about_the_rows_of_the_run(world):
    """A new task on a known dataset is checked before anything is written, and then run."""
    ran(world)
    world.data["tasks"]["u"] = {**TASK, "prompt": "{nonsense}"}
    before = world.everything()
    assert "nonsense" in world.resume(code=2).err
    assert world.everything() == before
    world.data["tasks"]["u"] = {**TASK, "prompt": "u {question}"}
    world.resume(code=0)
    world.check_complete(8)
    assert world.data["models"]["m"] == MODEL
