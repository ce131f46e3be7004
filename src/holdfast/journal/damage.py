"""Damage: bytes that differ from what was written, where they are, and which trials they concern."""

from __future__ import annotations

import enum

import msgspec


class DamageKind(enum.StrEnum):
    """What is wrong. TORN alone is not damage: it is what an ordinary crash leaves."""

    TORN = "torn"
    """An incomplete last frame of an unsealed segment: never acknowledged, dropped."""
    UNREADABLE = "unreadable"
    """Bytes that are not an intact frame of this segment."""
    FOREIGN = "foreign"
    """Intact frames of another segment or run."""
    REPEATED = "repeated"
    """A frame that occurs in the segment a second time."""
    GAP = "gap"
    """Sequence numbers that are missing."""
    TRUNCATED = "truncated"
    """A segment that is shorter than a later record, or its own name, says it was."""
    CHANGED = "changed"
    """A segment that is not the one that a later record pinned."""
    MISSING = "missing"
    """A segment, blob or input that existed and is missing."""
    COUNT = "count"
    """Two counts that must agree and do not."""
    CONFLICT = "conflict"
    """A derived file that contradicts the journal."""


class Damage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding, in one place."""

    kind: DamageKind
    where: str
    """The file, relative to the run."""
    detail: str
    offset: int = 0
    length: int = 0
    lost: tuple[int, int] = (0, 0)
    """The first and the last sequence number of the frames that are lost, where that is known."""
    keys: tuple[str, ...] = ()
    """The trials concerned, where that is known."""

    @property
    def is_loss(self) -> bool:
        """Whether this is damage, rather than what an ordinary crash leaves."""
        return self.kind is not DamageKind.TORN

    def __str__(self) -> str:
        place = f"{self.where} at byte {self.offset}" if self.offset or self.length else self.where
        return f"{self.kind.value}: {place}: {self.detail}{_concerned_trials_text(self.keys)}"


def _concerned_trials_text(keys: tuple[str, ...]) -> str:
    if not keys:
        return ""
    shown = ", ".join(keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f" (trials {shown}{more})"
