"""Values from files that anybody may have written: what can be recorded of them, and what is a number.

Nothing here raises for a value, however odd it is: what cannot be used is None, and what is only kept becomes something
that JSON can hold.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from holdfast.models.message import MOST_TOKENS, encodable
from holdfast.spec.loading.key_detection import (
    has_credentials,
    is_opaque,
    may_name_secret,
    names_secret,
    without_keys,
)
from holdfast.tasks.json_values import MOST_BITS

_DEEPEST = 60
"""Deeper values are kept as the text of their JSON."""
_LONGEST_SECONDS = 1e9
_MOST_DIGITS = 4000
"""Of an integer; Python reads none with more than 4,300, as that takes a long time."""
KEY_MARK = "[key]"


class UnreadableFile(Exception):  # noqa: N818 - the message ends a sentence that begins with the file
    """Why a file cannot be used."""


class NotRegularFileError(OSError):
    """A pipe, a socket, a device or a directory, where a file was expected."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "It is not a regular file", str(path))


def open_regular_file(path: Path) -> BinaryIO:
    """Opens a file that is a file: every file of another tool is opened here.

    Raises:
        OSError: it is not one, or cannot be read.
    """
    # Non-blocking: the path may be a pipe without a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFileError(path)
    return open(descriptor, "rb")  # noqa: PTH123 - a descriptor is no path


def read_regular_file(path: Path, limit: int) -> bytes:
    """The content of a file that is a file, of at most `limit` bytes.

    Raises:
        UnreadableFile: it is not one, or cannot be read.
    """
    try:
        with open_regular_file(path) as stream:
            data = stream.read(limit + 1)
    except NotRegularFileError:
        raise UnreadableFile("it is not a file") from None
    except OSError as error:
        raise UnreadableFile(f"it cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise UnreadableFile(f"it is larger than {limit >> 20} MiB")
    return data


def parse_json(data: bytes) -> Any:
    """The JSON value in some bytes, as lenient as Python's own reader: NaN and infinity are values.

    Raises:
        UnreadableFile: it is not JSON.
    """
    if not data.strip():
        raise UnreadableFile("it is empty")
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Other tools write NaN, which JSON does not have, and halves of surrogate pairs.
        return _parse_leniently(data)


def load_json(data: bytes | bytearray | str) -> Any:
    """The value of a JSON text, read as Python does; an integer of more digits than Python reads stays a text.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        return json.loads(data, parse_int=_integer)


class LongInteger(str):
    """The digits of an integer that Python does not read."""

    __slots__ = ()


def _integer(digits: str) -> int | LongInteger:
    return int(digits) if len(digits) <= _MOST_DIGITS else LongInteger(digits)


def _parse_leniently(data: bytes) -> Any:
    try:
        return load_json(data)
    except RecursionError:
        raise UnreadableFile("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"it is not UTF-8 text (at byte {error.start})") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        raise UnreadableFile(f"it is not valid JSON, or it is incomplete: {error.msg} ({at})") from None


def parse_json_object(data: bytes) -> dict[str, Any]:
    """As `parse_json`, for what has to be an object."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise UnreadableFile("it is not a JSON object")
    return value


def kept_value(value: Any, depth: int = 0) -> Any:
    """A value as it can be recorded: what JSON cannot hold is written as text, and a literal key is left out."""
    if isinstance(value, Mapping):
        if depth >= _DEEPEST:
            return _as_json_text(value)
        return {_kept_name(str(key)): _kept_member(str(key), item, depth) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return _as_json_text(value) if depth >= _DEEPEST else [kept_value(item, depth + 1) for item in value]
    return _kept_scalar(value)


def _kept_member(key: str, item: Any, depth: int) -> Any:
    return _hidden(item) if _is_secret(key, item) else kept_value(item, depth + 1)


def _is_secret(key: str, item: Any) -> bool:
    return _names_secret(key) or (isinstance(item, str) and _may_name_secret(key) and is_opaque(item))


def _hidden(item: Any) -> Any:
    """What a secret was: whether there was one stays visible."""
    return item if item is None or isinstance(item, bool) or item in ("", [], {}) else KEY_MARK


_names_secret = lru_cache(4096)(names_secret)
_may_name_secret = lru_cache(4096)(may_name_secret)


@lru_cache(4096)
def _kept_name(key: str) -> str:
    """The name of a field, of which a file has few."""
    return _kept_text(key)


def _kept_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return _kept_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MOST_BITS else _digits(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return f"an integer of {value.bit_length()} bits"


def _kept_text(text: str) -> str:
    found = encodable(str(text))  # a LongInteger as well
    if not isinstance(found, str):
        return str(found)
    return KEY_MARK if "://" in found and has_credentials(found) else without_keys(found, KEY_MARK)


def _as_json_text(value: Any) -> str:
    try:
        return _kept_text(json.dumps(_without_secrets(value)))
    except (RecursionError, ValueError):
        return "nested too deeply"


def _without_secrets(value: Any) -> Any:
    """The value as it was, however deep, but for its secrets."""
    if isinstance(value, Mapping):
        members = {str(key): item for key, item in value.items()}
        return {
            key: _hidden(item) if _is_secret(key, item) else _without_secrets(item) for key, item in members.items()
        }
    if isinstance(value, str):
        return _kept_text(value)
    return [_without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def plain_text(value: Any) -> str:
    """A text as it is, nothing as an empty one, and any other value as JSON."""
    if isinstance(value, str):
        return _kept_text(value)
    return "" if value is None else _as_json_text(value)


def number_of(value: Any) -> float | None:
    """A finite number; None for anything else. True and false are 1 and 0."""
    if not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def plain_number(value: Any) -> float | None:
    """As `number_of`, where true and false are no numbers."""
    return None if isinstance(value, bool) else number_of(value)


def token_count(value: Any) -> int | None:
    """A count of tokens that can be right; None for anything else."""
    found = plain_number(value)
    return int(found) if found is not None and 0 <= found <= MOST_TOKENS and found == int(found) else None


def known_seconds(value: Any) -> float | None:
    """A duration that can be right; None for anything else."""
    found = plain_number(value)
    return found if found is not None and 0 <= found <= _LONGEST_SECONDS else None


def seconds_of(value: Any) -> float:
    """A duration; 0 where it is unknown, as records have it."""
    return known_seconds(value) or 0.0


def unusable_fields(content: Mapping[str, Any], kinds: Mapping[str, Callable[[Any], Any]]) -> tuple[str, ...]:
    """The fields that have a value, and not one of their kind: that for which a function gives None."""
    return tuple(name for name, read in kinds.items() if content.get(name) is not None and read(content[name]) is None)


def map_of(value: Any) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """A JSON list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def prompt_of(raw: Any) -> Any:
    """A prompt: a text, or the messages that it spells in JSON."""
    text = plain_text(raw)
    if not text.lstrip().startswith("["):
        return text
    try:
        value = parse_json(text.encode())
    except UnreadableFile:
        return text
    is_chat = isinstance(value, list) and value and all(isinstance(one, dict) and "role" in one for one in value)
    return value if is_chat else text


def prompt_messages(raw: Any) -> list[Any]:
    """A prompt as the messages that a model was asked with."""
    found = prompt_of(raw)
    return found if isinstance(found, list) else [{"role": "user", "content": found}]


def others(content: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The fields of an object but those that have a place elsewhere."""
    placed = frozenset(known)
    return {name: value for name, value in content.items() if name not in placed}
