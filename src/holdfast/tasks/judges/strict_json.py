"""JSON as the standard has it: NaN, trailing commas and comments are not JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from holdfast.tasks.judges.fenced_block import fenced_block

_BYTE = re.compile(r"\s*\(byte \d+\)")


class NotJson(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """A text that is not JSON; the message says what is wrong, and where."""


def decode_strictly(text: str) -> Any:
    """The value that a text spells in JSON.

    Raises:
        NotJson: it is not JSON, or nothing that can be held.
    """
    try:
        value = msgspec.json.decode(text)
        # Numbers stay texts: here only the keys matter.
        json.loads(text, object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)
    except msgspec.DecodeError as error:
        raise NotJson(_decoding_fault(text, str(error))) from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise NotJson(f"half a character{_place_text(text, error.start)}") from None
    return value


def json_in_reply(text: str) -> Any:
    """The value in what a model said: the whole of it is JSON, or the one fenced block in it is.

    Raises:
        NotJson: it is not.
    """
    block = fenced_block(text, {"json"})
    return decode_strictly(text if block is None else block)


def _decoding_fault(text: str, message: str) -> str:
    """What is wrong, and where: the standard decoder says it better, but takes some things that are not JSON."""
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return _lowered(error.msg) + _place_text(text, error.pos)
    except NotJson as error:
        return str(error)
    except (ValueError, RecursionError):
        pass
    return _lowered(_BYTE.sub("", message).removeprefix("JSON is malformed: "))


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    """A key that is given twice may say two things."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise NotJson(f"the key {name[:60]!r} is given twice")
        seen.add(name)


def _refuse_constant(name: str) -> None:
    raise NotJson(f"{name} is not a JSON value")


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _place_text(text: str, index: int) -> str:
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    return f" in line {line}, column {column}"
