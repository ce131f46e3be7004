"""`holdfast import`: make a run of the results of another tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.analysis.money import money_text
from holdfast.api.start import naming_run_at
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.options.local_path import LocalPath
from holdfast.engine.opening.new_run import default_root
from holdfast.errors import UsageError
from holdfast.interop.importing.import_run import ImportSummary, import_run
from holdfast.interop.importing.kinds import find_kind, find_reader
from holdfast.interop.sieval.config_file import convert
from holdfast.run.core.display_text import shell_word
from holdfast.spec import EvalSpec
from holdfast.storage.store_url import is_url
from holdfast.terminal.text import printable, quantity

_SHOWN_LINES = 20
_SHOWN_VALUES = 30


@click.command("import")
@click.argument("path", type=click.Path(), metavar="PATH")
@click.option("--run-dir", type=click.Path(), help="Directory for the new run.")
@click.option(
    "--output",
    type=LocalPath(),
    help="The eval file that is made of a configuration; default: eval.yaml.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(path: str, run_dir: str | None, output: Path | None, *, as_json: bool) -> int:
    """Make a run of the results of another tool in PATH, which is left unchanged.

    The run can be reported on, compared, exported and rescored. Exits with 1 if something in PATH was skipped, is
    known to be missing or has a wrong type. Of a configuration of SiEval, an eval file is made instead.
    """
    if not path.strip():
        raise UsageError("PATH is empty.", hint="Name a file or a directory of another tool.")
    return _import(Path(path), run_dir, output, as_json=as_json)


def _import(path: Path, run_dir: str | None, output: Path | None, *, as_json: bool) -> int:
    if find_kind(path).is_configuration:
        return _import_configuration(path, output, run_dir, as_json=as_json)
    if output is not None:
        raise UsageError(f"{path} holds results: they become a run.", hint="Use --run-dir instead of --output.")
    if run_dir is not None and is_url(run_dir):
        raise UsageError(f"{run_dir} is a URL; an import is made in a directory.", hint="Name a directory for it.")
    if run_dir is None and default_root(EvalSpec()).resolve().is_relative_to(path.resolve()):
        raise UsageError(
            f"The run would be made in {path}, which an import leaves unchanged.", hint="Add --run-dir DIR."
        )
    source = find_reader(path).read(path)
    with naming_run_at(run_dir or ""):
        summary = import_run(source, None if run_dir is None else Path(run_dir))
    if as_json:
        print_json(summary)
    else:
        click.echo(printable("\n".join(_summary_lines(summary))))
    return 0 if summary.ok else 1


def _import_configuration(path: Path, output: Path | None, run_dir: str | None, *, as_json: bool) -> int:
    if run_dir is not None:
        raise UsageError(f"{path} is a configuration: it becomes an eval file.", hint="Use --output instead.")
    converted = convert(path, output)
    if as_json:
        print_json(converted)
        return 0
    click.echo(printable(f"{converted.eval_file}: an eval file, made from {path} of {converted.tool}."))
    for item in converted.not_carried:
        click.echo(printable(f"  not carried over: {item.key}: {item.reason}"))
    for variable in converted.variables:
        click.echo(f"  set the key before you start: export {variable}=…")
    click.echo(f"Check it: holdfast run {shell_word(converted.eval_file)} --dry-run")
    return 0


def _summary_lines(summary: ImportSummary) -> Iterator[str]:
    yield f"{summary.run}: imported {summary.imported} of {quantity(summary.found, 'result')} from {summary.tool}."
    yield f"  {', '.join(f'{count} {state}' for state, count in summary.states.items())}"
    yield from _axis_lines(summary)
    if summary.recorded_cost is not None:
        cost = money_text(summary.recorded_cost, summary.currency)
        yield f"  {summary.tool} recorded a cost of {cost} for {quantity(summary.recorded_cost_trials, 'trial')}"
    if summary.unknown_fields:
        yield f"  kept, but not known here: {_fields_text(summary.unknown_fields)}"
    if summary.unusable_fields:
        yield f"  kept, but of a wrong type and not used: {_fields_text(summary.unusable_fields)}"
    skipped = [f"skipped: {item.where}: {item.reason}" for item in summary.skipped[:_SHOWN_LINES]]
    yield from (f"  {line}" for line in skipped)
    if summary.skipped_count > len(skipped):
        yield f"  … and {summary.skipped_count - len(skipped)} more; --json lists them"
    yield from (f"  warning: {fault}" for fault in summary.faults)
    yield from (f"  note: {note}" for note in summary.notes)
    place = shell_word(summary.run)
    yield f"See its scores: holdfast report {place}"
    yield f"List its trials: holdfast show {place}"


def _axis_lines(summary: ImportSummary) -> Iterator[str]:
    axes = dict.fromkeys(count.axis for count in summary.by_axis)
    for axis in axes:
        counts = [count for count in summary.by_axis if count.axis == axis]
        if len(counts) <= _SHOWN_VALUES:
            yield f"  {axis}: {', '.join(f'{count.value} {count.trials}' for count in counts)}"


def _fields_text(fields: dict[str, int]) -> str:
    shown = [f"{name} ({count})" for name, count in list(fields.items())[:_SHOWN_LINES]]
    more = f" and {len(fields) - _SHOWN_LINES} more" if len(fields) > _SHOWN_LINES else ""
    return ", ".join(shown) + more
