"""Values as the journal gives them back: what a task hands in is recorded, and seen by all as it was recorded.

So whoever gets such a value in a later session gets what the first one got: tuples are lists, structs are maps.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.tasks.datasets.row_faults import value_fault

RECORDABLE = "Give texts, finite numbers, lists, maps or msgspec structs."


class Unrecordable(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """A value that JSON cannot hold; the message is the end of a sentence that begins with its name."""


def recorded(value: object) -> Any:
    """The value as it is read back: texts, numbers, lists and maps.

    Raises:
        Unrecordable: JSON cannot hold it.
    """
    try:
        encoded = msgspec.json.encode(value)
        # NaN and infinity are encoded as null.
        fault = value_fault(msgspec.to_builtins(value)) if b"null" in encoded else ""
        if not fault:
            return msgspec.json.decode(encoded)
    except UnicodeEncodeError:
        fault = "holds text that is not valid UTF-8"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        fault = f"cannot be recorded: {str(error).rstrip('.')}"
    raise Unrecordable(fault.removesuffix(" in the field ''"))
