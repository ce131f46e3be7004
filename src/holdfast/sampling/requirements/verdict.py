"""The outcome of checking one requirement."""

from __future__ import annotations

import enum

import msgspec

from holdfast.run.core.records import Failure


class VerdictKind(enum.StrEnum):
    """Whether a requirement is met; `error` where that could not be found out."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one requirement; paired with it by its id."""

    requirement: str
    kind: VerdictKind
    reason: str = ""
    score: float | None = None
    """From 0 to 1, where the requirement gives one."""
    error: Failure | None = None
    hidden: bool = False
    """Whether the model never learns of it."""

    @property
    def is_passed(self) -> bool:
        return self.kind is VerdictKind.PASSED
