"""An eval without an eval file: `holdfast run capitals.py --model openai/gpt-4o --epochs 4 -T n=3`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from holdfast.errors import ConfigurationError, UsageError
from holdfast.spec.loading.error_messages import describe_value
from holdfast.spec.loading.load import recordable_path, typed_eval
from holdfast.spec.schema.eval import EvalSpec


def eval_from_flags(
    uses: Iterable[str],
    models: Iterable[str],
    *,
    epochs: int | None = None,
    limit: int | None = None,
    args: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> EvalSpec:
    """The eval that asks every model (`provider/model`) for every task (`file.py:name`, a module's, a built-in).

    Each task takes the same `args`. `settings` are further keys of an eval file, such as `concurrency_limit`.
    Relative paths start at the working directory.
    """
    models = list(models)
    if not models:
        raise UsageError(
            "No model is named.", hint="Give --model provider/name; `holdfast list models` lists the providers."
        )
    for model in models:
        if "/" not in model:
            raise ConfigurationError(
                f"--model {model!r} names no provider.",
                hint="Write it as provider/model, as in scripted/echo; `holdfast list models` lists the providers.",
            )
    task = {"epochs": epochs, "limit": limit, "args": dict(args or {})}
    tasks = _named_tasks(uses)
    data = {
        "name": "-".join(tasks)[:100].replace("/", "-"),
        "directory": recordable_path(str(Path.cwd())),
        "models": {model: model for model in models},
        "tasks": {name: {"use": use, **task} for name, use in tasks.items()},
    }
    return typed_eval({**data, **(settings or {})}, "the command line")


def parse_argument(text: str) -> tuple[str, Any]:
    """`n=3` as the name and the value that it would have in an eval file."""
    # As in loading: only reading needs PyYAML.
    from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415

    name, separator, value = text.partition("=")
    if not name or not separator:
        missing = "value" if name else "name"
        raise UsageError(f"The argument {describe_value(text)} has no {missing}.", hint="Write it as name=value.")
    return name, read_document(value, f"the argument {name}")


def parse_arguments(texts: Iterable[str]) -> list[tuple[str, Any]]:
    """The names and values of all of them.

    Raises:
        UsageError: one has no value, or is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, value = parse_argument(text)
        if name in found:
            raise UsageError(f"{describe_value(name)} is given twice.", hint="Leave one of them out.")
        found[name] = value
    return list(found.items())


def _named_tasks(uses: Iterable[str]) -> dict[str, str]:
    """Each task under its own name; a name that two files share gets the file's before it."""
    tasks: dict[str, str] = {}
    for use in dict.fromkeys(uses):
        origin, _, name = use.rpartition(":")
        name = name if name not in tasks else f"{PurePath(origin).stem}_{name}"
        if name in tasks:
            raise UsageError(f"Two tasks are called {describe_value(name)}.", hint="Name them in an eval file.")
        tasks[name] = use
    return tasks
