"""`holdfast cat`: the records of a run in any state, one JSON object a line, in the order of the run."""

from __future__ import annotations

import sys

import click
import msgspec

from holdfast.journal import Damage, RecordId
from holdfast.run.find import find_run
from holdfast.run.reading import RunReader


@click.command("cat")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="The same: the output is JSON lines in any case.")
def command(run: str, *, as_json: bool) -> int:  # noqa: ARG001 - every verb takes --json
    """Print the records of RUN as JSON lines, each with its id. What is lost is told on standard error, with exit
    code 1.
    """
    reader = RunReader(find_run(run))
    damage: list[Damage] = []
    try:
        for ident, line in reader.stream(damage):
            sys.stdout.buffer.write(_with_id(ident, line))
        sys.stdout.buffer.flush()
        losses = _losses(reader.damage(), damage)
    finally:
        reader.close()
    for item in losses:
        click.echo(f"holdfast: {item}", err=True)
    return 1 if losses else 0


def _losses(found: list[Damage], on_the_way: list[Damage]) -> list[Damage]:
    """Everything that is lost, each once: also what only other segments vouch for, and blobs."""
    known = {(item.where, item.offset) for item in found}
    return [item for item in found if item.is_loss] + [
        item for item in on_the_way if item.is_loss and (item.where, item.offset) not in known
    ]


def _with_id(ident: RecordId, line: bytes) -> bytes:
    head = b'{"id":[%d,%d,%d,%d]' % ident
    if line.startswith(b'{"'):
        return head + b"," + line[1:] + b"\n"
    # A line that is no record is shown for what it is.
    return head + b',"line":' + msgspec.json.encode(line.decode(errors="replace")) + b"}\n"
