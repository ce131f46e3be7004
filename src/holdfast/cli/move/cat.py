"""`holdfast cat`: the records of a run in any state, one JSON object a line, in the order of the run."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from holdfast.cli.ui.named_run import find_named_run
from holdfast.cli.ui.standard_streams import say, write_output
from holdfast.journal import Damage, RecordId
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import LATEST


@click.command("cat")
@click.argument("run", default=LATEST)
@click.option("--json", "as_json", is_flag=True, help="No effect: the output is always JSON lines.")
def command(run: str, *, as_json: bool) -> int:  # noqa: ARG001 - every command takes --json
    """Print the records of RUN as JSON lines, each with its id. Without RUN, the newest run.

    If records are lost, they are reported on stderr, and the exit code is 1.
    """
    reader = RunReader(find_named_run(run))
    damage: list[Damage] = []
    try:
        write_output(part for ident, pieces in reader.pieces(damage) for part in _json_line_with_id(ident, pieces))
        losses = _losses(reader.damage(), damage)
    finally:
        reader.close()
    for item in losses:
        say(f"holdfast: {item}")
    return 1 if losses else 0


def _losses(found: list[Damage], while_printing: list[Damage]) -> list[Damage]:
    """Everything that is lost, each once: also blobs, and what is known only from other segments."""
    known = {(item.where, item.offset) for item in found}
    return [item for item in found if item.is_loss] + [
        item for item in while_printing if item.is_loss and (item.where, item.offset) not in known
    ]


def _json_line_with_id(ident: RecordId, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The line with the record's id put in, a piece at a time."""
    head = b'{"id":[%d,%d,%d,%d]' % ident
    first = next(pieces)
    if first.startswith(b'{"'):
        yield head + b"," + first[1:]
        yield from pieces
        yield b"\n"
    else:
        # A line that is not a record is shown as text.
        line = b"".join((first, *pieces))
        yield head + b',"line":' + msgspec.json.encode(line.decode(errors="replace")) + b"}\n"
