"""What a repair has to ask whoever understands evals: is it the same, which trials are planned, what was a session."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.layout import Layout
from holdfast.run.core.reader import RunReader
from holdfast.run.repair.result_findings import WhyNot

UNKNOWN = "unknown"
"""The digest of an input that a session made again lacks: its plan is not known."""


class Remade(msgspec.Struct):
    """A session made again from a configuration."""

    fields: dict[str, Any]
    """Of its record."""
    inputs: dict[str, SourceFile]
    """What has to be in the run."""
    why_not: WhyNot
    missing: list[str]
    """What could not be found; the plan is then not known."""


class Planner(Protocol):
    """What a repair has to ask whoever understands evals."""

    def same(self, data: Any, config: dict[str, Any]) -> bool:
        """Whether a configuration file says the same as a session's configuration."""

    def grid(self, reader: RunReader) -> tuple[WhyNot, str]:
        """Why a result is no trial of the planned grid, and why that grid could not be made, if it could not."""

    def remake(self, config: dict[str, Any], layout: Layout) -> Remade:
        """The session that this configuration describes, in this run."""

    def close(self) -> None: ...
