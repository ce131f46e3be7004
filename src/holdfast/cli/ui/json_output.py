"""The output of `--json`: one document, safe to show on a terminal."""

from __future__ import annotations

import re
from typing import Any

import click
import msgspec

_TERMINAL_CONTROLS = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def print_json(value: Any) -> None:
    """Prints one JSON document to standard output."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        from holdfast.models.message import encodable  # noqa: PLC0415 - needed for lone surrogates only

        encoded = msgspec.json.encode(encodable(msgspec.to_builtins(value)))
    click.echo(msgspec.json.format(escape_terminal_controls(encoded.decode()).encode(), indent=2))


def escape_terminal_controls(text: str) -> str:
    """JSON whose characters that act on a terminal are written as escapes; parsers read the same value."""
    return _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
