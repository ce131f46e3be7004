"""`holdfast init`: a commented eval file, a Python task and a dataset to start from, which run as they are.

With them comes the JSON Schema of eval files: editors check the file with it as it is typed, without a network.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.options.local_path import LocalPath
from holdfast.errors import UsageError
from holdfast.reference.eval_schema import schema_text

_SCHEMA_FILE = "eval.schema.json"
_EVAL = """\
# yaml-language-server: $schema=eval.schema.json
# An eval: the models, the questions, and how answers are scored.
# Run it with:   holdfast run eval.yaml
# Every key is explained in eval.schema.json: editors show it as you type. `holdfast list scorers` lists the scorers.
name: capitals
seed: 1
concurrency_limit: 32                  # trials running at once; may be changed when a run is resumed

models:
  small:
    # A model inside this process that answers from a table: no key, no cost.
    # For a real one, write these three lines instead of all that follow (args is for the table alone):
    #   provider: openai
    #   model: gpt-4o-mini
    #   api_key_env: OPENAI_API_KEY
    # `holdfast list models` lists the providers, and which of them are ready on this machine.
    # price: {input: 0.15, output: 0.60}                 # per million tokens; then the report has the cost
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
    scorers: [exact]                   # `holdfast list scorers` lists them
    # scorers: [exact, task.py:one_word]                 # one of your own: a function in a file
    # choices: [Paris, Tokyo, Lima]                      # multiple choice, with scorers: [choice]
    # sampling: {strategy: rejection, loop_budget: 3, requirements: [{length: {max: 20}}]}   # asks again
  twice:                               # a task in Python, with its own samples, solver and scorer
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


def one_word(answer, sample) -> bool:
    """A scorer: it gets the answer and the sample, and returns True, False, a number or a Score.

    `-> bool` says that every score is 0 or 1: then their mean is called accuracy.
    """
    return len(answer.text.split()) == 1


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
@click.argument("directory", default=".", type=LocalPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(directory: Path, *, as_json: bool) -> int:
    """Write an eval file, a dataset, a Python task and the JSON Schema of eval files into DIRECTORY.

    If one of these files exists, nothing is written.
    """
    files = {**FILES, _SCHEMA_FILE: schema_text()}
    taken = [name for name in files if (directory / name).exists()]
    if taken:
        raise UsageError(
            f"{directory / taken[0]} already exists; nothing was written.", hint="Choose another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be written: {error.strerror}.", hint="Choose another directory."
        ) from error
    if as_json:
        print_json({"directory": str(directory), "files": list(files)})
    else:
        place = "" if directory == Path() else f" to {directory}"
        click.echo(f"Wrote {', '.join(files)}{place}.")
        run = f"holdfast run {shlex.quote(str(directory / 'eval.yaml'))}"
        click.echo(f"Check it:  {run} --dry-run\nRun it:    {run}")
    return 0
