"""`holdfast clean`: the only verb that deletes, and only what a sound run does not need any more."""

from __future__ import annotations

import click

from holdfast.cli.main import print_json
from holdfast.errors import UsageError
from holdfast.run.clean.clean_spool import CleanedSpool, clean_spool
from holdfast.run.clean.clean_steps import CleanedSteps, clean_steps
from holdfast.run.locate import find_local_run, find_spool


@click.command("clean")
@click.argument("run")
@click.option("--steps", is_flag=True, help="The transcripts of finished trials; answers and scores stay.")
@click.option("--spool", is_flag=True, help="Local files of a remote run that the store has.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, steps: bool, spool: bool, dry_run: bool, as_json: bool) -> int:
    """Delete from RUN what --steps or --spool names. Every score and report stays the same."""
    if steps == spool:
        raise UsageError("It has to be said what is to be deleted.", hint="Give either --steps or --spool.")
    if spool:
        _tell_spool(clean_spool(*find_spool(run), dry_run=dry_run), as_json=as_json)
    else:
        _tell(clean_steps(find_local_run(run, "cleaned"), dry_run=dry_run), as_json=as_json)
    return 0


def _tell_spool(told: CleanedSpool, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    if told.files:
        done = "would be deleted" if told.dry_run else "deleted"
        click.echo(f"{told.spool}: {done}: {told.files} files, {told.bytes:,} bytes, which {told.run} has.")
    else:
        click.echo(f"{told.spool}: there is nothing to delete.")
    for kept in told.kept:
        click.echo(f"  kept: {kept.where}: {kept.reason}")
    if told.kept:
        click.echo(f"To upload what is not in the store: holdfast resume {told.run}")


def _tell(told: CleanedSteps, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
    else:
        _print(told)


def _print(told: CleanedSteps) -> None:
    if not told.steps and not told.calls and not told.blobs:
        click.echo(f"{told.run}: there is nothing to delete.")
        return
    click.echo(f"{told.run}: {'would be deleted' if told.dry_run else 'deleted'}:")
    records = f"{told.steps} steps and {told.calls} calls, {told.record_bytes:,} bytes before compression"
    click.echo(f"  the transcripts of {told.trials} finished trials: {records}")
    click.echo(f"  {told.blobs} blobs, {told.blob_bytes:,} bytes")
    if not told.dry_run:
        click.echo(f"  the journal had {told.journal_bytes_before:,} bytes, and has {told.journal_bytes_after:,}")
