"""The output of `--json`: one document, safe to show on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
import msgspec

from holdfast.cli.ui.standard_streams import output_stream
from holdfast.version import SCHEMA_VERSION

_TERMINAL_CONTROLS = r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
"""Compiled when it is first used: most commands print no JSON."""
_OF_PLAN = ("planned", "not_started", "remaining", "remaining_by_reason")
_ONLY_WHERE_ANY = {"by_axis", "panels", "sampling", "samplings"}
"""Keys that are there only in runs that have axes, that have sampled, or that have judges."""
_FOR_TABLES = {"without_scores"}
"""What follows from the other keys and the plan."""


def as_object(value: Any) -> dict[str, Any]:
    """What is printed of a result: its fields, with the counts of trials among them."""
    fields = dict(value) if isinstance(value, dict) else _fields_of(value)
    return {
        name: item
        for field, value in fields.items()
        for name, item in (_counts_object(value).items() if field == "counts" else [(field, _spelled_out(value))])
    }


def _counts_object(counts: Any) -> dict[str, Any]:
    """The counts of trials; what is not known without a plan is null."""
    fields: dict[str, Any] = _spelled_out(msgspec.structs.asdict(counts))
    return fields if counts.planned else {**fields, **dict.fromkeys(_OF_PLAN)}


def _spelled_out(value: Any) -> Any:
    """The same with every figure of what was used, also those that are 0: a key does not come and go."""
    if hasattr(value, "remaining_by_reason"):
        return _counts_object(value)
    if isinstance(value, msgspec.Struct) and (hasattr(value, "input_tokens") or not _omits_defaults(value)):
        return {name: _spelled_out(item) for name, item in _fields_of(value).items()}
    if isinstance(value, dict):
        return {name: _spelled_out(item) for name, item in value.items()}
    return [_spelled_out(item) for item in value] if isinstance(value, list) else value


def _fields_of(value: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(value)
    return {name: item for name, item in fields.items() if _is_printed(name, item)}


def _is_printed(name: str, item: Any) -> bool:
    return name not in _FOR_TABLES and (item is not None or name not in _ONLY_WHERE_ANY)


def as_json_value(value: Any) -> Any:
    """A result as plain data with every key, also those whose values are the usual ones."""
    if isinstance(value, msgspec.Struct):
        return {name: as_json_value(item) for name, item in msgspec.structs.asdict(value).items()}
    if isinstance(value, dict):
        return {name: as_json_value(item) for name, item in value.items()}
    return [as_json_value(item) for item in value] if isinstance(value, list | tuple) else value


def _omits_defaults(value: msgspec.Struct) -> bool:
    return value.__struct_config__.omit_defaults


def print_json(value: Any) -> None:
    """Prints one JSON object to standard output."""
    click.echo(_json_text({"schema_version": SCHEMA_VERSION, **as_object(value)}), file=output_stream())


def print_json_list(
    head: Mapping[str, Any], name: str, items: Iterator[Any], tail: Callable[[], Mapping[str, Any]]
) -> None:
    """Prints one JSON object with a list of any length under `name`, one item at a time; `tail` is asked after them."""
    # Without its closing brace, so that the list can follow.
    click.echo(_json_text({"schema_version": SCHEMA_VERSION, **as_object(head)})[:-2] + f',\n  "{name}": [', nl=False)
    is_empty = True
    for item in items:
        text = _json_text(_spelled_out(item)).replace("\n", "\n    ")
        click.echo(f"{'' if is_empty else ','}\n    {text}", nl=False)
        is_empty = False
    click.echo(("]" if is_empty else "\n  ]") + "," + _json_text(as_object(tail()))[1:])


def _json_text(value: Any) -> str:
    """Indented JSON, safe to show on a terminal."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        from holdfast.models.message import encodable  # noqa: PLC0415 - needed for lone surrogates only

        encoded = msgspec.json.encode(encodable(msgspec.to_builtins(value)))
    return msgspec.json.format(escape_terminal_controls(encoded.decode()).encode(), indent=2).decode()


def escape_terminal_controls(text: str) -> str:
    """JSON whose characters that act on a terminal are written as escapes; parsers read the same value."""
    return re.sub(_TERMINAL_CONTROLS, lambda found: f"\\u{ord(found[0]):04x}", text)
