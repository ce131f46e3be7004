"""`holdfast list`: what an eval file can name: providers of models, scorers, and formats and operations of datasets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.ui.columns import column_lines
from holdfast.cli.ui.json_output import as_json_value, print_json
from holdfast.errors import UsageError
from holdfast.suggestions import did_you_mean
from holdfast.terminal.text import printable, quantity, terminal_columns


@click.command("list")
@click.argument("what", metavar="models|scorers|datasets")
@click.argument("eval_file", metavar="[EVAL]", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(what: str, eval_file: Path | None, *, as_json: bool) -> int:
    """List model providers and their status, built-in scorers with their arguments, or dataset formats and operations.

    `holdfast list datasets EVAL` lists the datasets of an eval file, with their rows and columns.
    """
    found = _list_datasets_of(eval_file) if what == "datasets" and eval_file is not None else _find(what, eval_file)()
    if as_json:
        print_json(as_json_value(found))
    else:
        for line in _lines(found):
            click.echo(printable(line))
    return 0


def _find(what: str, eval_file: Path | None) -> Callable[[], dict[str, list[Any]]]:
    if what not in _LISTS:
        known = "There are models, scorers and datasets."
        raise UsageError(f"There is no list of {what!r}.", hint=did_you_mean(what, _LISTS) or known)
    if eval_file is not None:
        raise UsageError(f"An eval file is for `holdfast list datasets`, not for {what}.", hint="Leave it out.")
    return _LISTS[what]


# Each list loads what it needs, and no more.


def _list_models() -> dict[str, list[Any]]:
    from holdfast.cli.session.warning_lines import print_warnings  # noqa: PLC0415
    from holdfast.models import list_providers  # noqa: PLC0415
    from holdfast.models.env_file import read_env_file  # noqa: PLC0415

    print_warnings(read_env_file(Path()))
    return {"providers": [provider._asdict() for provider in list_providers()]}


def _list_scorers() -> dict[str, list[Any]]:
    from holdfast.tasks.catalogue import list_scorers  # noqa: PLC0415

    return {"scorers": list_scorers()}


def _list_datasets() -> dict[str, list[Any]]:
    from holdfast.tasks.catalogue import list_formats, list_operations  # noqa: PLC0415

    return {"formats": list_formats(), "operations": list_operations()}


def _list_datasets_of(eval_file: Path) -> dict[str, list[Any]]:
    from holdfast.spec import load_eval, resolve  # noqa: PLC0415
    from holdfast.tasks.catalogue import summarise_dataset  # noqa: PLC0415

    spec = resolve(load_eval(eval_file), str(eval_file))
    return {"datasets": [summarise_dataset(name, dataset) for name, dataset in spec.datasets.items()]}


_LISTS = {"models": _list_models, "scorers": _list_scorers, "datasets": _list_datasets}


def _lines(found: dict[str, list[Any]]) -> Iterator[str]:
    """What a person reads: a title where there are several lists, and aligned columns."""
    for position, (title, items) in enumerate(found.items()):
        if len(found) > 1:
            yield ("\n" if position else "") + title.capitalize()
        rows = [row for item in items for row in _ROWS[title](item)]
        yield from column_lines(rows, terminal_columns(sys.stdout)) if rows else ["The eval file names no dataset."]
        yield from _OWN.get(title, ())


def _provider_rows(provider: dict[str, Any]) -> Iterator[Sequence[str]]:
    needs = "" if provider["ready"] else f"; needs {provider['needs']}"
    state = "ready" if provider["ready"] else "not ready"
    yield provider["name"], state, f"{provider['description']}{needs}"


def _entry_rows(entry: Any) -> Iterator[Sequence[str]]:
    yield entry.name, entry.description
    yield "", f"arguments: {', '.join(map(_argument_text, entry.arguments))}"


def _argument_text(argument: Any) -> str:
    if argument.required:
        return f"{argument.name} (required)"
    default = msgspec.json.encode(argument.default).decode()
    return argument.name if argument.default is None else f"{argument.name}={default}"


def _format_rows(item: Any) -> Iterator[Sequence[str]]:
    yield item.name, " ".join(item.endings), item.description


def _dataset_rows(dataset: Any) -> Iterator[Sequence[str]]:
    rows = quantity(dataset.rows, "row")
    yield dataset.name, f"{dataset.path} ({dataset.format}, {rows})"
    yield "", f"columns: {', '.join(dataset.columns)}"


_OWN = {
    "scorers": ["", "Your own, a function (answer, sample) in a file: scorers: [my.py:strict]"],
}
"""How to name what is not built in."""

_ROWS: dict[str, Callable[[Any], Iterator[Sequence[str]]]] = {
    "providers": _provider_rows,
    "scorers": _entry_rows,
    "operations": _entry_rows,
    "formats": _format_rows,
    "datasets": _dataset_rows,
}
