"""JSON as Inspect writes it: with NaN and Infinity as constants, which the stricter reader of the journal refuses."""

import json
from typing import Any

from holdfast.interop.importing.foreign_values import load_json


class InvalidJson(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """The bytes are not JSON that can be read."""


def decode_json(data: bytes | bytearray | str) -> Any:
    """The value of a JSON text.

    Raises:
        InvalidJson: it is not JSON, or is nested too deeply.
    """
    try:
        return load_json(data)
    except RecursionError as error:
        raise InvalidJson("it is nested too deeply") from error
    except ValueError as error:
        raise InvalidJson(str(error)) from error


def encode_json(value: Any) -> bytes:
    """One line of JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no bytes; as an escape it is kept.
        return json.dumps(value, separators=(",", ":")).encode()
