"""`holdfast clean`: the only command that deletes, and only what an intact run no longer needs."""

from __future__ import annotations

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.errors import UsageError
from holdfast.run.clean.clean_spool import DIFFERS, CleanedSpool, clean_spool
from holdfast.run.clean.clean_steps import CleanedSteps, clean_steps
from holdfast.run.core.display_text import shell_word
from holdfast.run.locate import find_local_run, find_spool


@click.command("clean")
@click.argument("run")
@click.option("--steps", is_flag=True, help="Delete steps of finished trials that do not lead to their answers.")
@click.option("--local", is_flag=True, help="Delete local files of a run in an object store, if the store has them.")
@click.option("--spool", is_flag=True, hidden=True)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, steps: bool, local: bool, spool: bool, dry_run: bool, as_json: bool) -> int:
    """Delete transcripts (--steps) or uploaded local files (--local) of RUN. Every score and report stays the same."""
    if spool:
        raise UsageError("--spool is now called --local.", hint="Give --local instead.")
    if steps == local:
        raise UsageError("Specify what to delete.", hint="Give either --steps or --local.")
    if local:
        _print_emptied_spool(clean_spool(*find_spool(run), dry_run=dry_run), as_json=as_json)
    else:
        _print_cleaned_steps(clean_steps(find_local_run(run, "cleaned"), dry_run=dry_run), as_json=as_json)
    return 0


def _print_emptied_spool(emptied: CleanedSpool, *, as_json: bool) -> None:
    if as_json:
        print_json(emptied)
        return
    if emptied.files:
        done = "would be deleted" if emptied.dry_run else "deleted"
        click.echo(f"{emptied.spool}: {done}: {emptied.files} files, {emptied.bytes:,} bytes, which {emptied.run} has.")
    else:
        click.echo(f"{emptied.spool}: there is nothing to delete.")
    for kept in emptied.kept:
        click.echo(f"  kept: {kept.where}: {kept.reason}")
    run = shell_word(emptied.run)
    if any(kept.reason != DIFFERS for kept in emptied.kept):
        click.echo(f"To upload what is not in the store: holdfast resume {run}")
    if any(kept.reason == DIFFERS for kept in emptied.kept):
        click.echo(
            f"To find out which copy is damaged: holdfast verify {run}; to write it again: holdfast repair {run}"
        )


def _print_cleaned_steps(cleaned: CleanedSteps, *, as_json: bool) -> None:
    if as_json:
        print_json(cleaned)
        return
    if not cleaned.steps and not cleaned.calls and not cleaned.blobs:
        click.echo(f"{cleaned.run}: there is nothing to delete.")
        return
    click.echo(f"{cleaned.run}: {'would be deleted' if cleaned.dry_run else 'deleted'}:")
    records = f"{cleaned.steps} steps and {cleaned.calls} calls, {cleaned.record_bytes:,} bytes before compression"
    click.echo(f"  what did not lead to the answers of {cleaned.trials} finished trials: {records}")
    click.echo(f"  {cleaned.blobs} blobs, {cleaned.blob_bytes:,} bytes")
    if not cleaned.dry_run:
        click.echo(f"  the journal had {cleaned.journal_bytes_before:,} bytes, and has {cleaned.journal_bytes_after:,}")
