"""`holdfast diff`: what a resume with an edited eval would change, without doing anything."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from holdfast.api.offered_eval import edited_eval
from holdfast.cli.session.warning_lines import print_env_warnings
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.named_run import find_named_run
from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.resume_plan import ResumeComparison
from holdfast.engine.planning.saved_eval import last_session
from holdfast.errors import ResumeAborted
from holdfast.journal import FORMAT
from holdfast.run.core.display_text import change_text, shell_word
from holdfast.run.core.run_id import continuing_command
from holdfast.run.drift.gate import Decision
from holdfast.run.fold.reader import RunReader
from holdfast.run.import_origin import import_origin, what_is_possible
from holdfast.spec.loading.error_messages import naming_source


@click.command("diff")
@click.argument("run")
@click.argument("eval_file", metavar="EVAL", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, eval_file: Path, *, as_json: bool) -> int:
    """Show the differences between RUN and EVAL, and their effect on a resume.

    Exits with 3 if the resume would be refused. Nothing is changed.
    """
    print_env_warnings(eval_file)
    offered = edited_eval(eval_file)
    reader = RunReader(find_named_run(run))
    try:
        last_session(reader)
        _refuse_imported(reader, run)
        with (
            naming_source(str(eval_file)),
            contextlib.closing(ResumeComparison(reader, Offer(offered), None)) as comparison,
        ):
            decision = comparison.compare()
    finally:
        reader.close()
    is_older = reader.format < FORMAT
    refused = bool(decision.refused) or is_older
    if as_json:
        told = {
            "run": run,
            "format": reader.format,
            "refused": refused,
            "differences": decision.differences,
            "notes": decision.notes,
        }
        print_json(told)
    else:
        _print_differences(decision)
        if decision.differences and not refused:
            click.echo(
                f"Resume with these changes: holdfast resume {shell_word(run)} --config {shell_word(str(eval_file))}"
            )
        if is_older:
            command = continuing_command(reader.format, run)
            click.echo(f"A run of format {reader.format} cannot be resumed. Continue in a new run with: {command}")
    return ResumeAborted.exit_code if refused else 0


def _refuse_imported(reader: RunReader, run: str) -> None:
    if (origin := import_origin(reader)) is not None:
        raise ResumeAborted(
            f"{run} was imported from {origin.tool}: it is resumed with no eval, so there is nothing to compare.",
            hint=what_is_possible(reader, run),
        )


def _print_differences(decision: Decision) -> None:
    for item in decision.differences:
        click.echo(f"{item.verdict.value:<8} {item.path} ({item.drift.value}): {change_text(item.old, item.new)}")
        if item.way_out:
            click.echo(f"         {item.way_out}")
    if not decision.differences:
        click.echo("No difference.")
    for note in decision.notes:
        click.echo(f"note: {note}")
