"""Samples are shown from the run alone: whatever became of the dataset, the code, and the machine it ran on."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import tracemalloc
from collections import Counter, defaultdict

import msgspec
import pytest

from cli_calls import call
from durable import snapshot
from evals import write_dataset, write_eval
from holdfast import Message, Run, Sample, Task, choice, evaluate, exact, generate, task
from holdfast.engine.planning.saved_samples import SavedSample, SavedSamples
from holdfast.run.fold.reader import RunReader
from holdfast.spec import DatasetSpec, Operation, Repeat, Shuffle, Slice
from holdfast.tasks.source import importing

ECHO = {"m": "scripted/echo"}

LISTED = """
from holdfast import Sample, Task, generate, task

def judge(answer, sample):
    return 1.0

@task
def t():
    samples = [Sample("one", target="1", id="a", metadata={"n": 1}), Sample("two", metadata={"deep": {"x": [1, None]}})]
    return Task(samples=samples, solver=generate(), scorers=judge)
"""
FROM_FILE = """
from holdfast import Task, exact, generate, task
from holdfast.spec import DatasetSpec

@task
def t():
    return Task(dataset=DatasetSpec(path="rows.jsonl", fields=FIELDS), solver=generate(), scorers=exact())
"""
NAMED = FROM_FILE.replace("FIELDS", '{"input": "question", "target": "answer"}')
USUAL = FROM_FILE.replace("FIELDS", "{}")
PROMPTED = FROM_FILE.replace("fields=FIELDS", "").replace("generate()", "generate('{question}?')")
PROMPTED = PROMPTED.replace("exact()", "exact(), columns=Columns(target=Template.parse('{answer}'))")
PROMPTED = (
    f"from holdfast.tasks.datasets.columns import Columns\nfrom holdfast.tasks.template import Template\n{PROMPTED}"
)


@contextlib.contextmanager
def samples_of(root, *, earlier=False):
    """What a reader finds in a run, or in what an earlier version would have recorded; the run is as before after."""
    before, reader = snapshot(root), RunReader(root)
    try:
        for name, code in reader.sessions[-1].code.items() if earlier else ():
            reader.sessions[-1].code[name] = msgspec.structs.replace(code, rows=None)
        yield SavedSamples(reader)
    finally:
        reader.close()
    assert snapshot(root) == before


def found(root):
    """Every sample that a trial of the run was about, by task and key; all of them are shown."""
    with samples_of(root) as saved, Run.open(root) as run:
        samples = {(trial.task, trial.sample): saved.find(trial.task, trial.sample) for trial in run.trials()}
        assert saved.notes == []
    by_task = defaultdict(dict)
    for (name, key), sample in samples.items():
        by_task[name][key] = sample
    return by_task


def missing(root, name="t", *, earlier=False):
    """Why no sample of a task is shown; said once, however many are looked up."""
    with samples_of(root, earlier=earlier) as saved, Run.open(root) as run:
        keys = {end.sample for end in run.attempts() if end.task == name}
        assert [saved.find(name, key) for key in keys] == [None] * len(keys)
        (note,) = saved.notes
        assert repr(name) in note
        return note


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run_eval(capfdbinary, directory, **keys):
    """A run of an eval file through the command line."""
    path = write_eval(directory, {"name": "e", "models": ECHO, **keys})
    assert call(capfdbinary, "run", path, "--run-dir", directory / "r").code == 0
    return directory / "r"


def run_code(capfdbinary, directory, source, **entry):
    """A run of a task in `task.py`, through the command line."""
    (directory / "task.py").write_text(source)
    return run_eval(capfdbinary, directory, tasks={"t": {"use": "task.py:t", **entry}})


def declared(**keys):
    return {"dataset": "rows", "prompt": "{question}?", "target": "{answer}", "scorers": ["exact"], **keys}


DATASETS = {"rows": {"path": "rows.jsonl"}}


# Tasks in an eval file.


def test_a_declared_task_gives_input_target_metadata_and_id(capfdbinary, tmp_path):
    """The input is the prompt where no column has it; the columns of the row are metadata."""
    write_dataset(tmp_path, 3)
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": declared()})
    samples = found(root)["t"]
    assert sorted(samples) == ["s1", "s2", "s3"]
    assert samples["s2"] == SavedSample("q2?", "Q2", {"question": "q2", "answer": "Q2"}, "s2")


def test_the_input_is_the_same_for_every_prompt_variant(capfdbinary, tmp_path):
    """Variants of a prompt are put to one sample; it is shown as the dataset has it."""
    write_rows(tmp_path / "rows.jsonl", [{"id": "a", "input": "hello", "target": 5}])
    task_ = {"dataset": "rows", "prompt": {"plain": "{input}", "loud": "{input}!"}, "scorers": ["exact"]}
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": task_})
    with Run.open(root) as run:
        assert len(list(run.trials())) == 2
    assert found(root)["t"] == {"a": SavedSample("hello", 5, {}, "a")}


def test_several_tasks_read_one_dataset_each_in_its_own_way(capfdbinary, tmp_path):
    """Targets, columns and keys are those of each task."""
    write_dataset(tmp_path, 2)
    datasets = {
        **DATASETS,
        "named": {"path": "rows.jsonl", "fields": {"input": "answer", "target": "id", "id": "question"}},
    }
    tasks = {
        "upper": declared(),
        "lower": declared(target="{question}", limit=1),
        "other": {"dataset": "named", "scorers": ["exact"]},
    }
    samples = found(run_eval(capfdbinary, tmp_path, datasets=datasets, tasks=tasks))
    assert {key: sample.target for key, sample in samples["upper"].items()} == {"s1": "Q1", "s2": "Q2"}
    assert {key: sample.target for key, sample in samples["lower"].items()} == {"s1": "q1"}
    assert {key: sample[:2] for key, sample in samples["other"].items()} == {"q1": ("Q1", "s1"), "q2": ("Q2", "s2")}


def test_rows_without_ids_are_told_apart_by_their_occurrence(capfdbinary, tmp_path):
    """Two rows that ask the same are two samples, also where operations repeat, shuffle and cut them."""
    rows = [{"question": "x", "answer": "1"}, {"question": "y", "answer": "2"}, {"question": "x", "answer": "3"}]
    write_rows(tmp_path / "rows.jsonl", rows)
    operations = [{"repeat": {"times": 2}}, {"shuffle": {"seed": 1}}, {"slice": {"num": 5}}]
    datasets = {**DATASETS, "more": {"path": "rows.jsonl", "operations": operations}}
    samples = found(
        run_eval(capfdbinary, tmp_path, datasets=datasets, tasks={"t": declared(), "u": declared(dataset="more")})
    )
    (numbered,) = [key for key in samples["t"] if "~" in key]
    digest = numbered.removesuffix("~2")
    asked = {key: sample for key, sample in samples["t"].items() if sample.input == "x?"}
    assert {key: sample.target for key, sample in asked.items()} == {digest: "1", numbered: "3"}
    assert {sample.sample_id for sample in asked.values()} == {""}
    repeated = {key: sample.target for key, sample in samples["u"].items() if sample.input == "x?"}
    expected = {digest: "1", f"{digest}~2": "1", f"{digest}~3": "3", f"{digest}~4": "3"}
    assert len(samples["u"]) == 5 and repeated.items() <= expected.items()


def test_the_copy_in_the_run_counts_not_the_file(capfdbinary, tmp_path):
    """A dataset that is edited or deleted after the run changes nothing."""
    write_dataset(tmp_path, 2)
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": declared()})
    before = found(root)
    write_rows(tmp_path / "rows.jsonl", [{"id": "s1", "question": "other", "answer": "other"}])
    assert found(root) == before
    (tmp_path / "rows.jsonl").unlink()
    assert found(root) == before


def test_rows_that_were_added_in_a_later_session_are_found(capfdbinary, tmp_path):
    """The newest session has the samples of all."""
    write_dataset(tmp_path, 2)
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": declared()})
    write_dataset(tmp_path, 4)
    assert call(capfdbinary, "resume", root, "--config", tmp_path / "eval.yaml").code == 0
    assert sorted(found(root)["t"]) == ["s1", "s2", "s3", "s4"]


# Tasks in Python.


@pytest.fixture
def no_imports(monkeypatch):
    """Loading any code of a task is an error; called once the run is made."""

    def no_import(*_):
        raise AssertionError("the code of a task was loaded")

    def forbid():
        for name in ("import_file", "import_module"):
            monkeypatch.setattr(importing, name, no_import)

    return forbid


@pytest.mark.parametrize("state", ["there", "deleted", "raises", "exits", "not Python"])
def test_listed_samples_need_no_code(capfdbinary, tmp_path, no_imports, state):
    """The copy holds everything; the file may be gone or broken, and is not even opened."""
    root = run_code(capfdbinary, tmp_path, LISTED)
    become(tmp_path / "task.py", state)
    no_imports()
    one, two = sorted(found(root)["t"].values(), key=lambda sample: sample.input)
    assert one == SavedSample("one", "1", {"n": 1}, "a")
    assert two == SavedSample("two", None, {"deep": {"x": [1, None]}}, "")


def become(path, state):
    """Makes of a task's file what it is in that state."""
    sources = {
        "raises": "raise RuntimeError('broken')",
        "exits": "import sys; sys.exit(3)",
        "not Python": "def (",
        "other columns": NAMED.replace('"question"', '"answer"'),
    }
    if state == "deleted":
        path.unlink()
    elif state in sources:
        path.write_text(sources[state])


def test_columns_by_their_usual_names_need_no_code(capfdbinary, tmp_path, no_imports):
    """A task in Python that reads a dataset whose columns are called input and target is read from the copy."""
    write_rows(tmp_path / "rows.jsonl", [{"input": "x", "target": ["y", "z"], "note": 1}])
    root = run_code(capfdbinary, tmp_path, USUAL)
    (tmp_path / "task.py").unlink()
    no_imports()
    assert list(found(root)["t"].values()) == [SavedSample("x", ["y", "z"], {"note": 1}, "")]


@pytest.mark.parametrize("state", ["there", "deleted", "raises", "exits", "not Python", "other columns"])
def test_columns_that_the_code_names_are_recorded(capfdbinary, tmp_path, no_imports, state):
    """Which they are is in the run: the code is not loaded, whatever it says by now."""
    write_dataset(tmp_path, 2)
    root = run_code(capfdbinary, tmp_path, NAMED)
    become(tmp_path / "task.py", state)
    no_imports()
    assert found(root)["t"]["s1"] == SavedSample("q1", "Q1", {"question": "q1", "answer": "Q1"}, "s1")


def test_a_prompt_that_stands_in_for_the_input_is_recorded(capfdbinary, tmp_path, no_imports):
    """Rows without an input are asked with the prompt, which is their input then."""
    write_dataset(tmp_path, 1)
    root = run_code(capfdbinary, tmp_path, PROMPTED)
    no_imports()
    assert found(root)["t"]["s1"].input == "q1?"


def test_a_run_of_an_earlier_version_executes_no_code_either(capfdbinary, tmp_path, no_imports):
    """Such a run has no record of the columns: no sample is shown, and the note says why."""
    write_dataset(tmp_path, 2)
    root = run_code(capfdbinary, tmp_path, NAMED)
    no_imports()
    assert "executes no code" in missing(root, earlier=True)


def test_an_edited_solver_does_not_hide_the_samples(capfdbinary, tmp_path):
    """Only what the code says of the rows matters."""
    write_dataset(tmp_path, 2)
    root = run_code(capfdbinary, tmp_path, NAMED)
    before = found(root)
    (tmp_path / "task.py").write_text(NAMED.replace("generate()", "generate('Hm: {input}', system='Think.')"))
    assert found(root) == before


def test_a_task_in_memory_is_read_from_the_copy(tmp_path):
    """Its code is in no file; messages, texts in any script, and duplicates come out as they went in."""
    talk = [Message("system", "Sei knapp."), Message("user", "Größe? 🙂"), Message("user", "und?", name="Zoë")]
    samples = [
        Sample(talk, target={"größe": "二"}, metadata={"κ": "ω"}),
        Sample("gleich", target="1"),
        Sample("gleich", target="2"),
        Sample("mit ~2", id="ид~2"),
    ]
    evaluate(Task(samples=samples, solver=generate(), scorers=lambda _, __: 1.0), ECHO, run=tmp_path / "r")
    shown = found(tmp_path / "r")["task"]
    conversation = [sample for sample in shown.values() if isinstance(sample.input, list)]
    assert conversation == [
        SavedSample(
            [
                {"role": "system", "content": "Sei knapp."},
                {"role": "user", "content": "Größe? 🙂"},
                {"role": "user", "content": "und?", "name": "Zoë"},
            ],
            {"größe": "二"},
            {"κ": "ω"},
            "",
        )
    ]
    assert shown["ид~2~1"] == SavedSample("mit ~2", None, {}, "ид~2")
    same = {"~" in key: sample.target for key, sample in shown.items() if sample.input == "gleich"}
    assert same == {False: "1", True: "2"}


def test_a_task_in_memory_that_names_columns_is_read_from_the_copy(tmp_path):
    """Which columns they are is in the run, though its code is in no file; an earlier version did not record them."""
    write_dataset(tmp_path, 2)
    dataset = DatasetSpec(path=str(tmp_path / "rows.jsonl"), fields={"input": "question", "target": "answer"})
    evaluate(Task(dataset=dataset, solver=generate(), scorers=exact()), ECHO, run=tmp_path / "r")
    assert found(tmp_path / "r")["task"]["s1"][:2] == ("q1", "Q1")
    assert "executes no code" in missing(tmp_path / "r", "task", earlier=True)


def test_samples_that_a_task_listed_later_are_found(tmp_path):
    """A task in memory may grow from one call to the next."""
    for count in (2, 4):
        samples = [Sample(f"q{number}", target=str(number)) for number in range(count)]
        evaluate(Task(samples=samples, solver=generate(), scorers=exact()), ECHO, run=tmp_path / "r")
    assert sorted(sample.target for sample in found(tmp_path / "r")["task"].values()) == ["0", "1", "2", "3"]


OPERATIONS = [Operation(shuffle=Shuffle(seed=3)), Operation(repeat=Repeat(times=2)), Operation(slice=Slice(num=9))]


def test_unknown_operations_hide_only_rows_that_repeat(tmp_path):
    """In a run of an earlier version a repeated sample is shown, unless two rows may be meant."""
    rows = [{"input": text, "target": target} for text, target in ("x1", "y2", "z3")]
    for name, more in (("unique", []), ("twice", [{"input": "x", "target": "4"}])):
        write_rows(tmp_path / f"{name}.jsonl", [*rows, *more])
        dataset = DatasetSpec(path=str(tmp_path / f"{name}.jsonl"), operations=OPERATIONS)
        evaluate(Task(name="t", dataset=dataset, solver=generate(), scorers=exact()), ECHO, run=tmp_path / name)
    shown = sorted((sample.input, sample.target) for sample in found(tmp_path / "unique")["t"].values())
    assert shown == [("x", "1"), ("x", "1"), ("y", "2"), ("y", "2"), ("z", "3"), ("z", "3")]
    assert len(found(tmp_path / "twice")["t"]) == 8
    with samples_of(tmp_path / "twice", earlier=True) as saved, Run.open(tmp_path / "twice") as run:
        seen = Counter(sample and sample[:2] for sample in (saved.find("t", trial.sample) for trial in run.trials()))
        (note,) = saved.notes
    assert seen == {None: 4, ("y", "2"): 2, ("z", "3"): 2}
    assert "'t'" in note and "executes no code" in note


def test_operations_of_a_task_in_a_file_are_known(capfdbinary, tmp_path):
    """Each of two rows that ask the same is shown under the keys that the code's repetition gave it."""
    write_rows(tmp_path / "rows.jsonl", [{"input": "x", "target": "1"}, {"input": "x", "target": "2"}])
    source = USUAL.replace("fields={}", "operations=[Operation(repeat=Repeat(times=2))]")
    root = run_code(capfdbinary, tmp_path, source.replace("DatasetSpec\n", "DatasetSpec, Operation, Repeat\n"))
    assert [sample.target for _, sample in sorted(found(root)["t"].items())] == ["1", "1", "2", "2"]


def test_the_letter_of_a_shuffled_choice_is_recorded(tmp_path):
    """Where an earlier version did not record it, the target is left out rather than shown wrong."""
    evaluate(shuffled_choices(), ECHO, run=tmp_path / "known")
    seen = set()

    async def solver(trial):
        seen.add((trial.sample.input, trial.sample.target))
        return "A"

    samples = shuffled_choices().samples
    given = Task(name="t", samples=samples, solver=solver, scorers=choice(), shuffle_choices=7)
    evaluate(given, ECHO, run=tmp_path / "lost")
    shown = found(tmp_path / "known")["shuffled_choices"].values()
    assert {(sample.input, sample.target) for sample in shown} == seen
    assert {(sample.input, sample.target) for sample in found(tmp_path / "lost")["t"].values()} == seen
    with samples_of(tmp_path / "lost", earlier=True) as saved, Run.open(tmp_path / "lost") as run:
        lost = [saved.find("t", trial.sample) for trial in run.trials()]
        assert {(sample.input, sample.target) for sample in lost} == {(text, None) for text, _ in seen}
        assert len(saved.notes) == 1


@task
def shuffled_choices() -> Task:
    samples = [Sample(f"q{number}", target="no", choices=["yes", "no", "maybe"]) for number in range(6)]
    return Task(samples=samples, solver=generate(), scorers=choice(), shuffle_choices=7)


# What is damaged, and what is large.


def test_a_missing_or_damaged_copy_gives_a_note(capfdbinary, tmp_path):
    """The samples of that task are not shown; those of others are."""
    write_dataset(tmp_path, 2)
    write_rows(tmp_path / "other.jsonl", [{"id": "o", "question": "x", "answer": "y"}])
    datasets = {**DATASETS, "other": {"path": "other.jsonl"}}
    tasks = {"t": declared(), "u": declared(dataset="other")}
    root = run_eval(capfdbinary, tmp_path, datasets=datasets, tasks=tasks)
    with Run.open(root) as run:
        copy = root / "inputs" / run.sessions[-1].inputs["datasets/rows"].digest
    content = copy.read_bytes()
    copy.write_bytes(content.replace(b"q1", b"q9"))
    assert "does not have the content" in missing(root)
    copy.unlink()
    assert "is missing" in missing(root)
    copy.mkdir()
    assert missing(root)
    with samples_of(root) as saved:
        assert saved.find("t", "s1") is None
        assert saved.find("u", "o") == SavedSample("x?", "y", {"question": "x", "answer": "y"}, "o")


def test_what_the_run_does_not_have_is_not_found(capfdbinary, tmp_path):
    """Neither an unknown task nor an unknown key is an error, whatever it is spelled like."""
    write_dataset(tmp_path, 2)
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": declared()})
    with samples_of(root) as saved:
        assert saved.notes == []
        assert [saved.find("t", key) for key in ("s3", "s1~2", "", "\ud800", "s1~1")] == [None] * 5
        assert saved.find("no such task", "s1") is None
        assert saved.find("t", "s1") is not None
        assert len(saved.notes) == 2 and "'s3'" in saved.notes[0]


def test_a_configuration_that_cannot_be_read_gives_a_note(capfdbinary, tmp_path):
    """A run whose eval this version does not understand can still be read."""
    write_dataset(tmp_path, 1)
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": declared()})
    reader = RunReader(root)
    reader.sessions[-1].config["tasks"]["t"]["novelty"] = 1
    saved = SavedSamples(reader)
    assert saved.find("t", "s1") is None
    assert "novelty" in saved.notes[0] and "Resume" not in saved.notes[0]
    reader.close()


def test_nothing_is_opened_before_the_first_lookup(capfdbinary, tmp_path):
    """Making it costs nothing, also where the run is damaged."""
    write_dataset(tmp_path, 1)
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks={"t": declared()})
    for path in (root / "inputs").iterdir():
        path.unlink()
    with samples_of(root) as saved:
        assert saved.notes == []


@pytest.mark.parametrize("has_ids", [True, False])
def test_many_lookups_are_quick_and_hold_no_more_memory(capfdbinary, tmp_path, has_ids):
    """After the first, a lookup does not depend on the size of the dataset, and nothing piles up."""
    count = 20_000
    rows = [
        {"input": f"q{number}", "target": "a"} | ({"id": f"s{number}"} if has_ids else {}) for number in range(count)
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    tasks = {"t": {"dataset": "rows", "scorers": ["exact"], "limit": 1}}
    root = run_eval(capfdbinary, tmp_path, datasets=DATASETS, tasks=tasks)
    with samples_of(root) as saved, Run.open(root) as run:
        assert saved.find("t", next(run.trials()).sample).input == "q0"
        dataset = saved._tasks["t"].dataset
        keys = [dataset.key(position) for position in range(0, count, 7)]
        tracemalloc.start()
        began = time.process_time()
        assert [saved.find("t", key).input for key in keys] == [f"q{number}" for number in range(0, count, 7)]
        seconds = time.process_time() - began
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sys.getsizeof(dataset._positions._slots) <= 13 * count
        assert held < 500_000
        assert seconds / len(keys) < 0.002
