"""`holdfast verify`: is everything there, and is it what was written?"""

from __future__ import annotations

import click

from holdfast.cli.main import print_json
from holdfast.run.find import find_run
from holdfast.run.reading import RunReader
from holdfast.run.verify import Verification, verify_run


@click.command("verify")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, as_json: bool) -> int:
    """Check every frame, digest and count of RUN. Exits 1 if anything is lost."""
    reader = RunReader(find_run(run))
    try:
        result = verify_run(reader)
    finally:
        reader.close()
    if as_json:
        print_json(result)
    else:
        _print(result)
    return 0 if result.ok else 1


def _print(result: Verification) -> None:
    click.echo(f"{result.run}: {'sound' if result.ok else 'DAMAGED'}")
    click.echo(
        f"  {result.segments} segments, {result.frames} frames, {result.records} records, {result.sessions} sessions"
    )
    planned = f" of {result.planned} planned" if result.planned else ""
    click.echo(f"  {result.trials}{planned} trials finished")
    click.echo(f"  {result.blobs} blobs, {result.inputs} inputs, {result.artifacts} artifacts")
    if result.torn_bytes:
        click.echo(f"  {result.torn_bytes} bytes of unacknowledged frames, left by a crash: nothing is lost with them")
    for note in result.notes:
        click.echo(f"  note: {note}")
    for damage in result.damage:
        if damage.is_loss:
            click.echo(f"  {damage}")
