"""`holdfast init`: a commented eval file, a Python task and a dataset to start from, which run as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.errors import UsageError

_EVAL = """\
# An eval: which models are asked what, and how their answers are judged.
# Run it with:   holdfast run eval.yaml
name: capitals
seed: 1
concurrency_limit: 32                  # trials running at once; may be changed when a run is resumed

models:
  small:
    # A model inside this process that answers from a table: no key, no cost.
    # For a real one:   provider: openai, model: gpt-4o-mini, api_key_env: OPENAI_API_KEY
    # `holdfast models` lists the providers that are ready on this machine.
    provider: scripted
    model: table
    args:
      rules:
        - {contains: France, reply: Paris}
        - {contains: Japan, reply: Tokyo}
      default: I do not know.

datasets:
  capitals: {path: capitals.jsonl}     # one JSON object a line

tasks:
  capitals:                            # a declarative task: no Python needed
    dataset: capitals
    prompt: "What is the capital of {country}? Answer with one word."
    target: "{capital}"
    epochs: 2                          # every sample is asked twice
    scorers: [exact]
    # sampling: {strategy: rejection, loop_budget: 3, requirements: [{length: {max: 20}}]}   # asks again if need be
  twice:                               # a task in Python
    use: task.py:twice
"""
_DATASET = """\
{"id": "fr", "country": "France", "capital": "Paris"}
{"id": "jp", "country": "Japan", "capital": "Tokyo"}
{"id": "pe", "country": "Peru", "capital": "Lima"}
"""
_TASK = '''\
"""A task in Python: a solver is a plain async function, and every call it makes is durable."""

from holdfast import Sample, Task, includes, task


async def ask_twice(trial):
    draft = await trial.generate(f"{trial.sample.input} Answer with one word.")
    if draft.text in {"Paris", "Tokyo"}:
        return draft
    return await trial.generate("Are you sure? Answer again.")  # continues the same conversation


@task
def twice() -> Task:
    samples = [
        Sample("What is the capital of France?", target="Paris", id="fr"),
        Sample("What is the capital of Peru?", target="Lima", id="pe"),
    ]
    return Task(samples=samples, solver=ask_twice, scorers=includes())
'''
FILES = {"eval.yaml": _EVAL, "capitals.jsonl": _DATASET, "task.py": _TASK}


@click.command("init")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(directory: Path, *, as_json: bool) -> int:
    """Write an eval file, a dataset and a Python task into DIRECTORY. Nothing that is there is touched."""
    taken = [name for name in FILES if (directory / name).exists()]
    if taken:
        raise UsageError(
            f"{directory / taken[0]} is there already; nothing was written.", hint="Choose another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be written: {error.strerror}.", hint="Choose another directory."
        ) from error
    if as_json:
        print_json({"directory": str(directory), "files": list(FILES)})
    else:
        place = "" if directory == Path() else f" to {directory}"
        click.echo(f"Wrote {', '.join(FILES)}{place}.")
        click.echo(f"Run it with: holdfast run {shlex.quote(str(directory / 'eval.yaml'))}")
    return 0
