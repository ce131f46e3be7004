"""Messages about mistakes in an eval: each names the thing, the state and the way out, in the words of an eval file."""

from __future__ import annotations

import json

import pytest

from evals import http_eval

MODEL = "models: {m: scripted/echo}\n"
DATA = "datasets: {data: data.csv}\n"
TASK = 'tasks: {c: {dataset: data, prompt: "{q}", target: "{a}", scorers: [exact]}}\n'


def task(**keys: str) -> str:
    given = {"dataset": "data", "prompt": '"{q}"', "target": '"{a}"', "scorers": "[exact]", **keys}
    return "tasks: {c: {" + ", ".join(f"{name}: {value}" for name, value in given.items()) + "}}\n"


REFUSED = {
    "a scorer without its argument": (
        MODEL + DATA + task(scorers="[regex]"),
        "eval.yaml: tasks.c.scorers: the scorer regex needs a pattern: {regex: {pattern: '…'}}.",
    ),
    "an argument of another type": (
        MODEL + DATA + task(scorers="[{regex: {pattern: 5}}]"),
        "eval.yaml: tasks.c.scorers: pattern of the scorer regex is a whole number; allowed: text.",
    ),
    "a file where a name belongs": (
        MODEL + task(dataset="data.csv"),
        (
            'eval.yaml: There is no dataset named "data.csv" (tasks.c.dataset). Add: datasets: {data: {path: data.csv}}'
            " and dataset: data."
        ),
    ),
    "a dataset, and none is defined": (
        MODEL + TASK,
        'eval.yaml: There is no dataset named "data" (tasks.c.dataset). Add: datasets: {data: {path: data.jsonl}}.',
    ),
    "a key one level too high": (
        "models: {m: {provider: scripted, model: echo, temperature: 0}}\n" + DATA + TASK,
        (
            "eval.yaml: models.m.temperature is not a known key; it belongs under generation:"
            " models.m.generation.temperature."
        ),
    ),
    "a key of a model in a task": (
        MODEL + DATA + task(temperature="0"),
        "eval.yaml: tasks.c.temperature is not a known key; it belongs to models.NAME.generation.temperature.",
    ),
    "a key of a task at the top": (
        MODEL + DATA + TASK + 'prompt: "{q}"\n',
        "eval.yaml: prompt is not a known key; it belongs to tasks.NAME.prompt.",
    ),
    "a target without quotes": (
        MODEL + DATA + task(target="{a}"),
        'eval.yaml: tasks.c.target is a map; allowed: text. In YAML, braces must be quoted: target: "{a}".',
    ),
    "a prompt without quotes": (
        MODEL + DATA + task(prompt="{q}"),
        'eval.yaml: tasks.c.prompt is a map; allowed: text. In YAML, braces must be quoted: prompt: "{q}".',
    ),
    "choices without quotes": (
        MODEL + DATA + task(choices='["{q}", {a}]'),
        'eval.yaml: tasks.c.choices[1] is a map; allowed: text. In YAML, braces must be quoted: "{a}".',
    ),
    "a sentence without quotes": (
        MODEL + DATA + "tasks:\n  c:\n    dataset: data\n    prompt: {q} Answer:\n    scorers: [exact]\n",
        (
            "eval.yaml, line 6: not valid YAML: did not find expected key. In YAML, a value that begins with a brace"
            ' must be quoted: prompt: "{field} ...".'
        ),
    ),
    "no model": (DATA + TASK, "eval.yaml: models is missing; an eval needs at least one model."),
    "no task": (MODEL + DATA, "eval.yaml: tasks is missing; an eval needs at least one task."),
    "a dataset that is a URL": (
        MODEL + "datasets: {data: 'hf://squad'}\n" + TASK,
        (
            'eval.yaml: datasets.data.path is "hf://squad"; only files are read: download the dataset, for example'
            " as JSON lines, and give the path of that file."
        ),
    ),
    "a dataset of no known format": (
        MODEL + "datasets: {data: data.txt}\n" + TASK,
        (
            "eval.yaml: tasks.c: Dataset data.txt: cannot infer the format from the file name. Set format to jsonl,"
            " json or csv."
        ),
    ),
    "a dataset in another encoding": (
        MODEL + "datasets: {data: latin.csv}\n" + TASK,
        "eval.yaml: tasks.c: Dataset latin.csv line 2 is not UTF-8 (byte 2). Re-save the file as UTF-8.",
    ),
    "an eval file in another encoding": (
        "# K\xf6ln\n".encode("latin-1"),
        "eval.yaml is not UTF-8 text (at byte 3). Re-save the file as UTF-8.",
    ),
    "literal braces": (
        MODEL + DATA + task(prompt='"{q} {"'),
        (
            "eval.yaml: tasks.c: The prompt has a single '{' in its line 1. Write {field} for a field, and {{ or }}"
            " for a literal brace."
        ),
    ),
    "a dataset without input": (
        MODEL + DATA + 'tasks: {c: {dataset: data, target: "{a}", scorers: [exact]}}\n',
        (
            "eval.yaml: tasks.c: data.csv row 1 has no field 'input'; it has a, q. Use a prompt that names a field,"
            ' such as "{q}" (in Python: solver=generate("{q}")), or say which column is the input: fields: {input: q}'
            " in the dataset."
        ),
    ),
    "a cost limit without a price": (
        MODEL + DATA + task(limits="{cost: 1}"),
        (
            "eval.yaml: tasks.c.limits.cost needs a price of every model; models.m has none. Add models.m.price, or"
            " remove the limit."
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_in_an_eval_has_a_way_out(holdfast, tmp_path, name):
    """The whole sentence, so that a change of it is looked at."""
    text, expected = REFUSED[name]
    (tmp_path / "data.csv").write_text("q,a\nb,c\n")
    (tmp_path / "data.txt").write_text("q,a\nb,c\n")
    (tmp_path / "latin.csv").write_bytes("q,a\nK\xf6ln,c\n".encode("latin-1"))
    (tmp_path / "eval.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", code=2)
    assert ended.err == f"holdfast: {expected}\n"


def test_what_belongs_in_the_eval_file_is_said(holdfast, tmp_path):
    """A model on the command line has no place where the file has models."""
    (tmp_path / "data.csv").write_text("q,a\nb,c\n")
    (tmp_path / "eval.yaml").write_text(MODEL + DATA + TASK)
    ended = holdfast("run", "eval.yaml", "--model", "scripted/echo", code=2)
    assert ended.err == "holdfast: --model is for a Python file; eval.yaml is an eval file. Set it there.\n"


COMMANDS = {
    "run": ["run", "new.yaml", "--run-dir", "n"],
    "dry run": ["run", "new.yaml", "--dry-run"],
    "fork": ["fork", "r", "--config", "new.yaml", "--run-dir", "n"],
    "diff": ["diff", "r", "new.yaml"],
    "resume": ["resume", "r", "--config", "new.yaml"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_in_a_requirement_names_the_eval_file_in_every_command(holdfast, tmp_path, name):
    """Whoever has several eval files open knows which of them is meant."""
    (tmp_path / "data.csv").write_text("q,a\nb,c\n")
    (tmp_path / "eval.yaml").write_text(MODEL + DATA + TASK)
    holdfast("run", "eval.yaml", "--run-dir", "r", code=0)
    bad = "{strategy: repair, requirements: [{regex: {pattern: '('}}]}"
    added = task(sampling=bad).replace("tasks: {c: ", "").replace("}}\n", "}")
    (tmp_path / "new.yaml").write_text(MODEL + DATA + TASK.replace("}}\n", f"}}, d: {added}}}\n"))
    ended = holdfast(*COMMANDS[name], code=2)
    assert ended.err.startswith("holdfast: new.yaml: tasks.d.sampling"), ended.err


MAX_TOKENS = {
    "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.": "max_completion_tokens",
    "Unrecognized request argument supplied: max_completion_tokens": "max_tokens",
}


@pytest.mark.parametrize("said", MAX_TOKENS)
def test_a_limit_that_the_server_knows_by_another_name_has_a_hint(holdfast, server, tmp_path, said):
    """The server's own words, and the setting that changes the name."""
    http_eval(tmp_path, server.base_url, 1, max_retries=0)
    server.behave(refuse_status=400, refuse_times=9, said=said)
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", code=1)
    assert f"Set models.m.args.max_tokens_field: {MAX_TOKENS[said]}." in ended.err


def test_other_complaints_about_the_limit_get_no_such_hint(holdfast, server, tmp_path):
    """A limit that is too large is known by its name."""
    http_eval(tmp_path, server.base_url, 1, max_retries=0)
    server.behave(refuse_status=400, refuse_times=9, said="max_tokens is too large: this model supports 4096")
    assert "max_tokens_field" not in holdfast("run", "eval.yaml", "--run-dir", "r", code=1).err


KEYS = {
    (401, "OUR_KEY"): "OUR_KEY is set, but openai/counting refused it (401 Unauthorized): no. Correct OUR_KEY in the",
    (403, "OUR_KEY"): "openai/counting answered 403 Forbidden: no. The key in OUR_KEY may not do this",
    (401, None): "openai/counting answered 401 Unauthorized: no. No key was sent: set models.m.api_key_env to the",
}


@pytest.mark.parametrize(("status", "variable"), KEYS)
def test_a_refused_key_names_its_variable(holdfast, server, tmp_path, status, variable):
    """Never its value."""
    http_eval(tmp_path, server.base_url, 1, model={"api_key_env": variable})
    server.behave(refuse_status=status, refuse_times=9, said="no")
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", code=1, OUR_KEY="not-a-real-key-0123456789")
    assert KEYS[status, variable] in ended.err
    assert "0123456789" not in ended.err and "0123456789" not in json.dumps(holdfast.json("status", "r"))
