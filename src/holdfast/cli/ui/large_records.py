"""Records of many megabytes on their way to a terminal or a file: a piece at a time, never held as a whole."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec

from holdfast.cli.ui.json_output import as_json_value, escape_terminal_controls
from holdfast.run.fold.reader import LargeRecord
from holdfast.sampling.on_record import RecordedSamplings
from holdfast.version import SCHEMA_VERSION

_ESCAPES = re.compile(r"\\(.)", re.DOTALL)


def with_line_breaks(pieces: Iterator[bytes]) -> Iterator[str]:
    """A record's JSON as text, in which escaped line ends are real ones."""
    left = ""
    for part in _utf8_text(pieces):
        text = left + part
        # A backslash at the end belongs to what follows it.
        cut = len(text) - (len(text) - len(text.rstrip("\\"))) % 2
        text, left = text[:cut], text[cut:]
        yield _ESCAPES.sub(lambda found: "\n" if found[1] == "n" else found[0], text)
    yield left


def print_transcript_json(key: str, row: Mapping[str, Any], records: Iterator[Any]) -> None:
    """Prints `{"trial": ..., "row": ..., "records": [...], "samplings": [...]}`, each record on a line of its own."""
    head = msgspec.json.encode({"schema_version": SCHEMA_VERSION, "trial": key, "row": row}).decode()
    click.echo(f'{escape_terminal_controls(head[:-1])},"records":[', nl=False)
    recorded = RecordedSamplings()
    for place, record in enumerate(records):
        recorded.add(record)
        click.echo(",\n" if place else "\n", nl=False)
        for part in _utf8_text(
            record.pieces if isinstance(record, LargeRecord) else iter((msgspec.json.encode(record),))
        ):
            click.echo(escape_terminal_controls(part), nl=False)
    click.echo(f"\n]{_samplings_json(recorded)}}}")


def _samplings_json(recorded: RecordedSamplings) -> str:
    """The key and its value, if anything was sampled."""
    samplings = [as_json_value(sampling) for sampling in recorded.samplings()]
    shown = msgspec.json.encode(samplings).decode()
    return f',"samplings":{escape_terminal_controls(shown)}' if samplings else ""


def _utf8_text(pieces: Iterator[bytes]) -> Iterator[str]:
    """The pieces decoded; a character may be split between two of them."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    yield from (decoder.decode(part) for part in pieces)
    yield decoder.decode(b"", final=True)
