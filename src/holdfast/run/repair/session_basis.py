"""What the record of a repairing session rests on: the last session's, or one that was made again.

The run was looked through before it was locked, so the record is made only if nothing has been added since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import RunHeld
from holdfast.journal import SegmentPin
from holdfast.run.core.environment import session_record
from holdfast.run.core.inputs import SourceFile, copy_inputs
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import SessionRecord
from holdfast.run.repair.result_findings import WhyNot
from holdfast.run.session.open import MakeRecord


class Basis:
    """The fields of the record, what has to be in the run for it, and which results it has no place for."""

    def __init__(self, fields: dict[str, Any], inputs: Mapping[str, SourceFile], why_not: WhyNot, *, new: bool) -> None:
        self.fields, self.inputs, self.why_not, self.is_new = fields, inputs, why_not, new

    def make(self, reader: RunReader, number: int, pins: list[SegmentPin]) -> SessionRecord:
        """The record."""
        copied = copy_inputs(reader.inputs, self.inputs)
        fields = {**self.fields, "inputs": {**self.fields.get("inputs", {}), **copied}}
        return session_record(reader.run.hex(), number, pins, **fields)

    def unless_changed(self, pins: list[SegmentPin]) -> MakeRecord:
        """As `make`, for a run that was looked through when it had these pins."""

        def make(reader: RunReader, number: int, now: list[SegmentPin]) -> SessionRecord:
            if now != pins:
                raise RunHeld(
                    f"Another session has worked on {reader.layout.root} while it was looked through.",
                    hint="No result was recorded; repair again.",
                )
            return self.make(reader, number, now)

        return make


def fields_of(last: SessionRecord) -> dict[str, Any]:
    """What a session's record says that the next one's says too."""
    names = ("name", "config", "inputs", "planned", "plan", "code", "source", "serving")
    return {name: getattr(last, name) for name in names}
