"""Rows 34 to 36 and everything else a person can get wrong: one clear sentence, exit 2, nothing written."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from evals import write_dataset, write_eval

GOOD = {
    "models": {"m": "scripted/echo"},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"t": {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}},
}


def changed(**keys):
    """The good eval with some of its blocks replaced; a dotted path leads deeper."""
    data = json.loads(json.dumps(GOOD))
    for path, value in keys.items():
        *blocks, key = path.split("__")
        place = data
        for block in blocks:
            place = place.setdefault(block, {})
        place[key] = value
    return json.dumps(data)


def refused(holdfast, tmp_path, *arguments, kind="configuration"):
    """The error of a command that has to be refused: the same as a sentence and as JSON, and nothing is written."""
    before = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    ended = holdfast(*arguments, code=2)
    assert ended.out == ""
    assert ended.err.startswith("holdfast: ") and ended.err.count("\n") == 1, ended.err
    error = holdfast.json(*arguments, code=2)
    assert set(error) == {"error", "kind", "hint", "schema_version"}
    assert error["kind"] == kind
    assert ended.err == f"holdfast: {error['error']} {error['hint']}".strip() + "\n"
    if arguments[0] == "run":
        assert holdfast(*arguments, "--dry-run", code=2).err == ended.err
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == before
    return ended.err


EVALS = {
    "resume_34 unknown key at the top": (changed(concurency_limit=3), ["concurency_limit", "concurrency_limit?"]),
    "resume_34 unknown key in a model": (changed(models__m={"modl": "echo"}), ["models.m.modl", "model?"]),
    "resume_34 unknown key in a task": (changed(tasks__t__promt="x"), ["tasks.t.promt", "prompt?"]),
    "resume_34 unknown key in a block": (changed(runner__grace_periodd=3), ["runner.grace_periodd", "grace_period?"]),
    "resume_34 unknown model": (changed(tasks__t__models=["n"]), ["tasks.t.models[0]", '"n"']),
    "resume_34 unknown dataset": (changed(tasks__t__dataset="row"), ["tasks.t.dataset", "rows?"]),
    "resume_34 unknown scorer": (changed(tasks__t__scorers=["exactly"]), ["exactly", "exact"]),
    "resume_35 negative limit": (changed(concurrency_limit=-1), ["concurrency_limit", "-1"]),
    "resume_35 huge limit": (changed(concurrency_limit=10**12), ["concurrency_limit", "1000000000000"]),
    "resume_35 NaN": (changed().replace('"models"', '"grace_period": .nan, "models"', 1), ["grace_period"]),
    "resume_35 a text for a number": (changed(concurrency_limit="many"), ["concurrency_limit", "many"]),
    "resume_35 a list for a map": (changed(models=["m"]), ["models", "a list"]),
    "resume_35 no epochs": (changed(tasks__t__epochs=0), ["tasks.t.epochs", "0"]),
    "resume_36 a key twice": ('{"seed": 1, "seed": 2}', ["line 1", "seed", "twice"]),
    "resume_36 exploding anchors": (
        "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]),
        ["aliases multiply"],
    ),
    "resume_36 endless nesting": ("[" * 5000, ["nested deeper"]),
    "resume_36 a huge file": ("# " + "x" * (50 * 2**20), ["larger than", "too large for an eval file"]),
    "empty": ("", ["is empty"]),
    "only a comment": ("# nothing\n", ["is empty"]),
    "not YAML": ("models: [", ["line 1", "not valid YAML"]),
    "not a map": ("- a\n- b\n", ["a list"]),
    "no text": (b"\x80\x81\xfe", ["not UTF-8"]),
    "NUL bytes": (b"name: a\x00b\n", ["line 1"]),
    "two documents": ("a: 1\n---\nb: 2\n", ["second document"]),
    "a tag": ("models: !!python/object:os.system {}\n", ["tag"]),
    "no tasks": (json.dumps({"models": {"m": "scripted/echo"}}), ["tasks is missing"]),
    "a literal key": (changed(models__m={"model": "openai/x", "api_key": "sk-abcdefghijklmnop"}), ["models.m"]),
    "unknown provider": (changed(models__m="openia/x"), ["openia", "openai"]),
    "no replies": (changed(models__m="scripted/table"), ["scripted/table has no replies"]),
    "missing dataset": (changed(datasets__rows__path="gone.jsonl"), ["gone.jsonl"]),
    "missing task file": (changed(tasks__t={"use": "gone.py:t"}), ["gone.py", "does not exist"]),
    "missing scorer file": (changed(tasks__t__scorers=["gone.py:x"]), ["t.scorers: The file gone.py does not exist"]),
    "missing solver file": (changed(tasks__t__solver="gone.py:x"), ["tasks.t.solver: The file gone.py does not exist"]),
    "unknown column": (changed(tasks__t__prompt="{quesiton}"), ["quesiton"]),
    "broken template": (changed(tasks__t__prompt="{question"), ["prompt"]),
    "bad pattern": (changed(tasks__t__scorers=[{"regex": {"pattern": "("}}]), ["'('", "not a valid regular"]),
    "no sample left": (changed(datasets__rows__operations=[{"slice": {"start": 50}}]), ["leaves none of 3 samples"]),
}  # fmt: skip


@pytest.mark.parametrize("name", EVALS)
def test_bad_eval_file_is_refused_in_one_sentence(holdfast, tmp_path, name):
    """A malformed eval file is refused with its place and the way out, before anything is written."""
    text, expected = EVALS[name]
    write_dataset(tmp_path, 3)
    (tmp_path / "eval.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    said = refused(holdfast, tmp_path, "run", "eval.yaml", "--run-dir", "r")
    for words in expected:
        assert words in said, said
    assert "sk-abcdef" not in said


def test_bad_eval_file_with_several_problems_lists_them(holdfast, tmp_path):
    """All problems of a file are told at once."""
    (tmp_path / "eval.yaml").write_text(changed(seed="x", concurrency_limit=0))
    ended = holdfast("run", "eval.yaml", code=2)
    assert "2 problems" in ended.err and "seed" in ended.err and "concurrency_limit" in ended.err


def test_resume_36_hostile_files_take_little_memory(tmp_path):
    """Anchors that explode and a file of 50 MB are refused with 300 MiB of memory at most."""
    limit = 300 * 2**20
    for number, name in enumerate(["resume_36 exploding anchors", "resume_36 a huge file"]):
        (tmp_path / f"{number}.yaml").write_text(EVALS[name][0])
        process = subprocess.run(
            [sys.executable, "-m", "holdfast", "run", f"{number}.yaml"],
            cwd=tmp_path,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 2 and process.stderr.count("\n") == 1, process.stderr


ROWS = {
    "not JSON": (b'{"question": "a"}\nnonsense\n', ["line 2"]),
    "cut off": (b'{"question": "a"}\n{"question": "b', ["line 2", "cut off"]),
    "a list": (b'["question"]\n', ["line 1"]),
    "a number": (b"5\n", ["line 1"]),
    "NaN": (b'{"question": "a", "answer": NaN}\n', ["line 1", "NaN", "answer"]),
    "no UTF-8": (b'{"question": "\xff", "answer": "b"}\n', ["line 1", "UTF-8"]),
    "a lone surrogate": (b'{"question": "\\ud800", "answer": "b"}\n', ["line 1", "UTF-8"]),
    "a missing field": (b'{"question": "a", "answer": "b"}\n{"question": "c"}\n', ["row 2", "answer"]),
    "one id, two contents": (b'{"id": 1, "question": "a"}\n{"id": 1, "question": "b"}\n', ["rows 1 and 2", "'1'"]),
    "empty": (b"", ["rows.jsonl"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_bad_dataset_row_is_named(holdfast, tmp_path, name):
    """A row that cannot be used is named by file and line, before anything is written."""
    content, expected = ROWS[name]
    (tmp_path / "rows.jsonl").write_bytes(content)
    write_eval(tmp_path, GOOD)
    said = refused(holdfast, tmp_path, "run", "eval.yaml", "--run-dir", "r")
    for words in ["rows.jsonl", *expected]:
        assert words in said, said


TASK = """
from holdfast import Sample, Task, generate, includes, task

@task
def t(n: int = 1):
    return Task({}, scorers=includes())
"""
TASK_FILES = {
    "a syntax error": ("def t(:\n", ["task.py line 1"]),
    "an import that fails": ("import no_such_module\n", ["no_such_module", "line 1"]),
    "an error at import": ("x = 1\nraise ValueError('boom')\n", ["boom", "line 2"]),
    "a call of sys.exit": ("import sys\nsys.exit(0)\n", ["SystemExit", "line 2"]),
    "no task": ("x = 1\n", ["defines no task"]),
    "a factory that fails": (
        "from holdfast import task\n@task\ndef t():\n    return 1 / 0\n",
        ["ZeroDivisionError", "line 4"],
    ),
    "a factory that returns something else": ("from holdfast import task\n@task\ndef t():\n    return 5\n", ["int"]),
    "a solver that is not async": (TASK.format("samples=[Sample('a')], solve=lambda trial: 'a'"), ["async"]),
    "no samples": (TASK.format("samples=[], solve=generate()"), ["sample"]),
}


@pytest.mark.parametrize("name", TASK_FILES)
def test_bad_task_file_is_named_with_its_line(holdfast, tmp_path, name):
    """Whatever a task file does when it is loaded is one sentence."""
    source, expected = TASK_FILES[name]
    (tmp_path / "task.py").write_text(source)
    said = refused(holdfast, tmp_path, "run", "task.py", "--model", "scripted/echo")
    for words in expected:
        assert words in said, said


USAGE = {
    "an eval file that is not there": (["run", "gone.yaml"], ["gone.yaml does not exist"]),
    "a directory for an eval file": (["run", "."], ["is a directory"]),
    "a file below a file": (["run", "eval.yaml/x.yaml"], ["cannot be read"]),
    "a model for an eval file": (["run", "eval.yaml", "--model", "scripted/echo"], ["--model is for a Python file"]),
    "an argument for an eval file": (["run", "eval.yaml", "-T", "n=3"], ["-T is for a Python file"]),
    "a setting without a value": (["run", "eval.yaml", "--set", "seed"], ["name=value"]),
    "an unknown setting": (["run", "eval.yaml", "--set", "sede=3"], ["sede"]),
    "an unknown sample": (["run", "eval.yaml", "--sample-id", "s99"], ["s99"]),
    "no epochs": (["run", "eval.yaml", "--epochs", "0"], ["epochs"]),
    "a negative limit": (["run", "eval.yaml", "--limit", "-5"], ["limit"]),
    "a Python file without a model": (["run", "task.py"], ["No model is named"]),
    "a task that is not there": (["run", "task.py:u", "--model", "scripted/echo"], ["no task 'u'"]),
    "an unknown argument": (["run", "task.py", "--model", "scripted/echo", "-T", "m=3"], ["'m'"]),
    "an argument of the wrong type": (["run", "task.py", "--model", "scripted/echo", "-T", "n=x"], ["n"]),
    "a model without a provider": (["run", "task.py", "--model", "echo"], ["echo"]),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGE)
def test_bad_usage_is_told_in_one_sentence(holdfast, tmp_path, name):
    """A command that makes no sense is refused before anything is written."""
    arguments, expected = USAGE[name]
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, GOOD)
    (tmp_path / "task.py").write_text(TASK.format("samples=[Sample('a', target='a')], solve=generate()"))
    ended = holdfast(*arguments, code=2)
    assert ended.err.startswith("holdfast: ") and ended.err.count("\n") == 1, ended.err
    for words in expected:
        assert words in ended.err
    assert holdfast.json(*arguments, code=2)["kind"] in {"usage", "configuration"}
    if arguments[0] == "run":
        assert holdfast(*arguments, "--dry-run", code=2).err == ended.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments", [["rnu"], ["run"], ["run", "eval.yaml", "--epochs", "x"], ["status", "--wide"]])
def test_words_that_are_no_command_exit_2(holdfast, arguments):
    """Unknown verbs and options are usage errors, also under --json."""
    assert holdfast(*arguments, code=2).out == ""
    error = holdfast.json(*arguments, code=2)
    assert error["kind"] == "usage" and error["error"]


def test_wrong_options_are_refused_in_one_sentence(holdfast):
    """As all other mistakes, and with the command that helps."""
    said = holdfast("run", "eval.yaml", "--limt", "3", code=2).err
    assert (
        said
        == "holdfast: No such option '--limt'. Did you mean one of: '--limit', '--quiet'? See: holdfast run --help\n"
    )
    assert holdfast("list", code=2).err == (
        "holdfast: Missing argument 'models|scorers|datasets'. See: holdfast list --help\n"
    )
    assert "Commands" in holdfast().err + holdfast().out or "Run evals:" in holdfast().err + holdfast().out


def test_missing_key_is_found_before_anything_is_written(holdfast, tmp_path):
    """A model whose key is not in the environment is refused with the variable's name; no run is made."""
    write_dataset(tmp_path, 1)
    model = {"provider": "openai", "model": "x", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "NO_SUCH_KEY"}
    (tmp_path / "eval.yaml").write_text(changed(models__m=model))
    said = refused(holdfast, tmp_path, "run", "eval.yaml", "--run-dir", "r")
    assert "NO_SUCH_KEY is not set" in said


def test_missing_key_on_resume_changes_nothing(holdfast, server, tmp_path):
    """A resume without the key is refused before it opens a session, and goes on once the key is there."""
    write_dataset(tmp_path, 3)
    model = {"provider": "openai", "model": "x", "base_url": server.base_url, "api_key_env": "OUR_KEY"}
    (tmp_path / "eval.yaml").write_text(changed(models__m=model, retry_deadline=0.01))
    server.behave(refuse_status=503, refuse_times=1)
    secret = "not-a-real-key-0123456789"
    holdfast("run", "eval.yaml", "--run-dir", "r", code=1, OUR_KEY=secret)
    before = holdfast("cat", "r").out
    assert "OUR_KEY is not set" in holdfast("resume", "r", code=2).err
    assert holdfast("cat", "r").out == before
    server.behave()
    holdfast("resume", "r", code=0, OUR_KEY=secret)
    written = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
    assert secret.encode() not in written and secret not in holdfast("cat", "r").out


@pytest.mark.parametrize("place", ["file/r", "/dev/null/r", "/proc/r"])
def test_a_place_that_cannot_be_written_is_named(holdfast, tmp_path, place):
    """A run directory that cannot be made is named in one sentence, and no model is asked."""
    write_dataset(tmp_path, 1)
    write_eval(tmp_path, GOOD)
    (tmp_path / "file").write_text("mine")
    ended = holdfast("run", "eval.yaml", "--run-dir", place)
    assert ended.code in {2, 5}
    if place != "/proc/r":  # of which only the attempt to write shows that nothing can be written there
        assert holdfast("run", "eval.yaml", "--run-dir", place, "--dry-run") == ended
    assert ended.err.count("\n") == 1 and place in ended.err
    assert set(holdfast.json("run", "eval.yaml", "--run-dir", place)) == {"error", "kind", "hint", "schema_version"}


def test_unwritable_working_directory_is_named(holdfast, tmp_path):
    """Without --run-dir the run goes below the working directory; if that cannot be, one sentence says so."""
    write_dataset(tmp_path, 1)
    write_eval(tmp_path, GOOD)
    (tmp_path / "runs").write_text("a file where runs should be")
    ended = holdfast("run", "eval.yaml")
    assert ended.code in {2, 5} and ended.err.count("\n") == 1 and "runs" in ended.err


def test_init_touches_nothing_that_is_there(holdfast, tmp_path):
    """Init refuses where one of its files exists, and writes none of the others."""
    (tmp_path / "task.py").write_text("mine")
    assert "task.py already exists" in refused(holdfast, tmp_path, "init", kind="usage")
    assert "cannot be written" in refused(holdfast, tmp_path, "init", "task.py/deeper", kind="usage")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("eval", "x.yaml"), "No such command 'eval'. Did you mean 'run'?"),
        (("rsume", "r"), "No such command 'rsume'. Did you mean 'resume'?"),
        (
            ("run", "rows.csv"),
            "rows.csv is a dataset, not an eval file. Name it in one: datasets: {rows: {path: rows.csv}}.",
        ),
    ],
)
def test_a_word_in_the_wrong_place_has_a_way_out(holdfast, words, told):
    """A command of another tool, a mistyped one, and a dataset instead of an eval file."""
    assert told in holdfast(*words, code=2).err


def test_a_sample_is_selected_by_its_short_name(holdfast, tmp_path):
    """As `show` prints it; also in a run that exists."""
    (tmp_path / "rows.csv").write_text("q,a\none,one\ntwo,two\n")
    (tmp_path / "eval.yaml").write_text(
        "models: {m: scripted/echo}\ndatasets: {d: rows.csv}\n"
        'tasks: {t: {dataset: d, prompt: "{q}", target: "{a}", scorers: [exact]}}\n'
    )
    holdfast("run", "eval.yaml", "--run-dir", "all", code=0)
    name = holdfast("show", "all", code=0).out.splitlines()[1].split("#")[0]
    one = holdfast("run", "eval.yaml", "--run-dir", "one", "--sample-id", name, code=0)
    assert "Complete: 1 of 1 trials." in one.out
    assert name in holdfast("show", "one", code=0).out
    assert "nothing was run" in holdfast("resume", "one", code=0).out


@pytest.mark.parametrize(
    "command",
    [("diff", "r", "new.yaml"), ("fork", "r", "--config", "new.yaml"), ("resume", "r", "--config", "new.yaml")],
)
def test_an_error_in_an_edited_eval_names_its_file(holdfast, tmp_path, command):
    """Whatever command reads it: also where a requirement is wrong, which only building the task shows."""
    (tmp_path / "rows.csv").write_text("q,a\none,one\n")
    task = 'dataset: d, prompt: "{q}", target: "{a}", scorers: [exact]'
    text = f"models: {{m: scripted/echo}}\ndatasets: {{d: rows.csv}}\ntasks:\n  t: {{{task}}}\n"
    (tmp_path / "eval.yaml").write_text(text)
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    sampling = "sampling: {strategy: rejection, loop_budget: 2, requirements: [{length: {min: 3, max: 2}}]}"
    (tmp_path / "new.yaml").write_text(f"{text}  u: {{{task}, {sampling}}}\n")
    assert holdfast(*command, code=2).err.startswith("holdfast: new.yaml: tasks.u.sampling.requirements[0]")


def test_a_run_whose_name_begins_with_a_dash_can_be_named_as_printed(holdfast, tmp_path):
    """The command at the end works when it is typed."""
    holdfast("init", code=0)
    ended = holdfast("run", "eval.yaml", "--run-dir=-x", code=0)
    assert ended.out.endswith("See the answers with: holdfast show ./-x\n")
    holdfast("show", "./-x", code=0)


@pytest.mark.parametrize("url", ["s3://bucket/run", "gs://bucket/run", "file:///tmp/run", "https://example.com/run"])
def test_a_url_for_a_path_of_this_machine_makes_no_directory(holdfast, tmp_path, url):
    """A path drops a slash of it: `fork --run-dir s3://…` made the directories `s3:` and those below."""
    write_dataset(tmp_path, 3)
    (tmp_path / "eval.yaml").write_text(changed())
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    for words, option in {
        ("fork", "r", "--run-dir", url): "--run-dir",
        ("init", url): "DIRECTORY",
        ("export", "r", "--to", "jsonl", "--output", url): "--output",
        ("recover", "s3://bucket/other", "--to", url): "--to",
        ("resume", "r", "--log-file", url): "--log-file",
    }.items():
        said = refused(holdfast, tmp_path, *words, kind="usage")
        assert f"{url} is a URL, and {option} takes a path on this machine." in said
