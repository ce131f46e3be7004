"""Names of models with colons and slashes (`base:adapter`, a fine-tune, a tag) are kept whole, wherever they go."""

from __future__ import annotations

import json

import pytest

from cli_calls import call
from holdfast import Run
from holdfast.spec import parse_eval, resolve

NAMES = ["base:adapter", "ft:gpt-4o:org::id", "llama3:8b", "meta-llama/llama-3.3-70b:free"]
TASK = """
from holdfast import Sample, Task, exact, generate, task

@task
def t():
    return Task(samples=[Sample("q", target="Paris", id="fr")], solver=generate(), scorers=exact())
"""


@pytest.mark.parametrize("name", NAMES)
def test_an_eval_keeps_a_name_whole(name):
    """Only the first slash divides, and no colon does."""
    text = f"""
models: {{m: "ollama/{name}", n: {{provider: ollama, model: "{name}"}}}}
datasets: {{d: d.jsonl}}
tasks: {{t: {{dataset: d, prompt: "{{q}}", target: "{{a}}", scorers: [exact]}}}}
"""
    spec = resolve(parse_eval(text))
    assert [(model.provider, model.model) for model in spec.models.values()] == [("ollama", name)] * 2


@pytest.mark.parametrize("name", NAMES)
def test_a_run_keeps_a_name_whole(name, tmp_path, monkeypatch, capfdbinary):
    """In `--model` and `--set`, in the tables, in expressions, in the record and on resume."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text(TASK, encoding="utf-8")
    asked = f"scripted/{name}"
    args = ("--set", f'models."{asked}".args={{default: Paris}}')
    done = call(capfdbinary, "run", "task.py", "--model", asked, *args, "--run-dir", "r", "--json")
    assert done.code == 0, done.err
    assert call(capfdbinary, "resume", "r").code == 0
    with Run.open(tmp_path / "r") as run:
        ((row,), (step,)) = list(run.trials()), list(run.steps())
        assert (row.model, step.model) == (asked, asked)
        assert step.result["model"] == name
        assert list(run.report().tasks["t"]) == [asked]
    shown = json.loads(call(capfdbinary, "show", "r", "--where", f"model='{asked}'", "--json").out)
    assert len(shown.get("trials", shown) if isinstance(shown, dict) else shown) == 1
    report = json.loads(call(capfdbinary, "report", "r", "--json").out)
    assert list(report["tasks"]["t"]) == [asked]
    assert asked in call(capfdbinary, "report", "r").out.replace("\n", "")
