"""`holdfast clean`: the only verb that deletes, and only what a sound run does not need any more."""

from __future__ import annotations

import click

from holdfast.cli.main import print_json
from holdfast.errors import UsageError
from holdfast.run.clean import Cleaned, clean_steps
from holdfast.run.find import find_local_run


@click.command("clean")
@click.argument("run")
@click.option("--steps", is_flag=True, help="The transcripts of finished trials; answers and scores stay.")
@click.option("--spool", is_flag=True, help="Local files of a remote run that the store has.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, steps: bool, spool: bool, dry_run: bool, as_json: bool) -> int:
    """Delete from RUN what --steps or --spool names. Every score and report stays the same."""
    root = find_local_run(run, "cleaned")
    if spool:
        raise UsageError(
            f"{root} is a local run: it has no spool, and nothing of it is kept elsewhere.",
            hint="--spool is for runs in an object store.",
        )
    if not steps:
        raise UsageError("Nothing was named that is to be deleted.", hint="Give --steps.")
    told = clean_steps(root, dry_run=dry_run)
    if as_json:
        print_json(told)
    else:
        _print(told)
    return 0


def _print(told: Cleaned) -> None:
    if not told.steps and not told.calls and not told.blobs:
        click.echo(f"{told.run}: there is nothing to delete.")
        return
    click.echo(f"{told.run}: {'would be deleted' if told.dry_run else 'deleted'}:")
    records = f"{told.steps} steps and {told.calls} calls, {told.record_bytes:,} bytes before compression"
    click.echo(f"  the transcripts of {told.trials} finished trials: {records}")
    click.echo(f"  {told.blobs} blobs, {told.blob_bytes:,} bytes")
    if not told.dry_run:
        click.echo(f"  the journal had {told.journal_bytes_before:,} bytes, and has {told.journal_bytes_after:,}")
