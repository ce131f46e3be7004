"""The session in which a repair records results: its record, and how it is rebuilt from a configuration.

The run was read before it was locked, so the record is made only if nothing has been added since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import RunHeld
from holdfast.journal import Damage, SegmentPin
from holdfast.run.core.inputs import SourceFile, copy_inputs
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import SessionRecord
from holdfast.run.core.session_contents import SessionContents, session_record
from holdfast.run.fold.reader import RunReader
from holdfast.run.repair.result_file_comparison import RejectionReason
from holdfast.run.session.open import MakeSessionRecord


@dataclass(frozen=True)
class RebuiltSession:
    """A session rebuilt from a configuration."""

    contents: SessionContents
    inputs: dict[str, SourceFile]
    """What has to be in the run."""
    rejection: RejectionReason
    missing: list[str]
    """What could not be found; the plan is then unknown."""


@dataclass(frozen=True)
class DamagedCopy:
    """A copy of an input that is damaged or missing in the run."""

    name: str
    damage: Damage
    source: Path | None
    """A file with exactly its content, made from the original; None if there is none."""
    was_sought: bool = True
    """Whether the original was looked for: that of a task in Python is not, since its code is not loaded."""


class Planner(Protocol):
    """What a repair needs to know about evals; the engine implements it."""

    def same(self, data: Any, config: dict[str, Any]) -> bool:
        """Whether a configuration file says the same as a session's configuration."""

    def grid(self, reader: RunReader) -> tuple[RejectionReason, str]:
        """Why a result is not a trial of the planned grid, and why that grid could not be made, if it could not."""

    def damaged_copies(self, reader: RunReader) -> list[DamagedCopy]:
        """The copies of the last session's inputs that are not what they were."""

    def rebuild(self, config: dict[str, Any], layout: Layout) -> RebuiltSession:
        """The session that this configuration describes, in this run."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class RepairSession:
    """What the record of the session holds, which files it needs in the run, and which results it has no place for."""

    contents: SessionContents
    inputs: Mapping[str, SourceFile]
    rejection: RejectionReason
    is_new: bool
    """Whether the run has no record of such a session: then it needs one even if no result is recorded."""
    is_plan_known: bool = True

    def make(self, reader: RunReader, number: int, pins: list[SegmentPin]) -> SessionRecord:
        """The record."""
        copied = copy_inputs(reader.inputs, self.inputs)
        return session_record(reader.run.hex(), number, pins, self.contents.with_inputs(copied))

    def unless_changed(self, pins: list[SegmentPin]) -> MakeSessionRecord:
        """As `make`, for a run whose segments would have had these pins when it was read."""

        def make(reader: RunReader, number: int, needed: list[SegmentPin]) -> SessionRecord:
            if [state.pin() for state in reader.index.states()] != pins:
                raise RunHeld(
                    f"Another session wrote to {reader.layout.root} while it was being checked.",
                    hint="No result was recorded; run `holdfast repair` again.",
                )
            return self.make(reader, number, needed)

        return make
