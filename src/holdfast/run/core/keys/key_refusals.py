"""Keys in what a run keeps as it is: its configuration and its rows are refused with one, before anything is written.

Replacing them would ask the models something else than the eval says, and a resume could not compare it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.environment_keys import know_environment_keys
from holdfast.models.redaction import known_secrets, redact
from holdfast.run.core.codec import encode
from holdfast.run.core.records import SessionRecord

_BLOCK_BYTES = 1 << 20


def session_line(session: SessionRecord, before: SessionRecord | None = None) -> bytes:
    """The record of a session as a line of JSON; `before` is the last session of the run, if there is one.

    Raises:
        ConfigurationError: it holds a key that the run does not hold already.
    """
    know_environment_keys()
    line = encode(session)
    if known_secrets.is_in_line(line):
        refuse_keys(msgspec.to_builtins(session), msgspec.to_builtins(before))
    return line


def refuse_keys(value: Any, known: Any = None) -> None:
    """Refuses keys in what a run keeps as it is; `known` is what the run has kept of it so far.

    Raises:
        ConfigurationError: a text holds the value of a variable that is secret by its name.
    """
    know_environment_keys()
    if not known_secrets.longest:
        return
    # What was written before a variable was known stays: nothing is gained by refusing to resume it.
    kept = {name for name, _ in _key_places("", known)}
    for name, place in _key_places("", value):
        if name not in kept:
            raise key_refusal(place, name)


def refuse_keys_in_rows(title: str, path: Path, saved: Path | None = None) -> None:
    """Refuses keys in the rows of a dataset, one JSON object in each line; `saved` are those that the run has.

    A file of another kind, such as the template of a workspace, is searched as it is.

    Raises:
        ConfigurationError: a row holds one; the message names the row.
    """
    know_environment_keys()
    if not known_secrets.longest:
        return
    known = {name for name, _ in _rows_with_keys(saved)} if saved is not None and saved.is_file() else set()
    for name, row in _rows_with_keys(path):
        if name not in known:
            raise key_refusal(f"Row {row} of {title}" if row else f"A file for the workspaces of {title}", name)


def _rows_with_keys(path: Path) -> Iterator[tuple[str, int]]:
    """Each variable whose value is in a row, with the number of that row; 0 in a file that has none."""
    with path.open("rb") as stream:
        first = 1
        while rows := stream.readlines(_BLOCK_BYTES):
            if known_secrets.is_in_line(b"".join(rows)):
                for number, row in enumerate(rows, start=first):
                    yield from _keys_in_row(row, number)
            first += len(rows)


def _keys_in_row(row: bytes, number: int) -> Iterator[tuple[str, int]]:
    try:
        decoded = msgspec.json.decode(row)
    except msgspec.MsgspecError:
        yield from ((name, 0) for name in known_secrets.names_in(row.decode("utf-8", "replace")))
    else:
        yield from ((name, number) for name, _ in _key_places("", decoded))


def key_refusal(place: str, name: str) -> ConfigurationError:
    """The refusal of a key at a place, by the variable that holds it."""
    return ConfigurationError(
        f"{redact(place)} holds the value of the environment variable {name}, which would be written into the run.",
        hint="A run holds no keys. Let the code read the variable, or name it in api_key_env; if it is not secret,"
        " unset or rename the variable.",
    )


def _key_places(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each variable whose value is somewhere in there, with the place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            where = f"{path}.{key}" if path else str(key)
            yield from ((name, path or "A name") for name in known_secrets.names_in(str(key)))
            yield from _key_places(where, inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _key_places(f"{path}[{number}]", inner)
    elif isinstance(value, str):
        yield from ((name, path) for name in known_secrets.names_in(value))
