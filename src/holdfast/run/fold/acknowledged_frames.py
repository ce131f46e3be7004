"""The last frame that a killed session had acknowledged, as its lease still says: what is missing of it is a loss.

Nothing in a journal vouches for the newest segment of a session that was killed: it has no footer, and no later
session has pinned it. The holder of a run therefore publishes a few times a second how far it has come. What it has
acknowledged since the last time, no byte can tell once that segment is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.journal import Damage, DamageKind, SegmentId
from holdfast.journal.segment import parse_name
from holdfast.journal.segment_state import SegmentState
from holdfast.run.core.records import SessionRecord
from holdfast.storage.leases.holder import AcknowledgedFrames


def missing_acknowledged(
    published: AcknowledgedFrames | None, states: Sequence[SegmentState], lost: Collection[SegmentId]
) -> tuple[SegmentId, Damage] | None:
    """The segment in which acknowledged frames are missing, and what is missing of it.

    `published` was read before the segments were: a session at work comes further all the time.
    """
    if published is None:
        return None
    own = [state for state in states if state.ident[:2] == (published.session, published.writer)]
    there = max((state.last_seq for state in own), default=0)
    ident = SegmentId(published.session, published.writer, published.segment)
    # Of a segment with damage it is already said what is missing.
    if published.seq <= there or ident in lost or any(state.lost for state in own):
        return None
    is_there = next((state for state in own if state.ident == ident), None)
    detail = f"its session had acknowledged frames up to {published.seq}, by the file lease; {there} are there"
    kind = DamageKind.TRUNCATED if is_there else DamageKind.MISSING
    where = is_there.where if is_there else f"journal/{ident.filename(sealed=False)}"
    return ident, Damage(kind, where, detail, lost=(there + 1, published.seq))


NOTABLE = frozenset({DamageKind.UNREADABLE, DamageKind.FOREIGN, DamageKind.GAP, DamageKind.TRUNCATED})
"""Losses in a segment that can be noted once later work has made them good; a contradiction never is one."""


def damaged_segment(item: Damage) -> SegmentId | None:
    """The segment that a damage is in; None for any other file."""
    parsed = parse_name(item.where.removeprefix("journal/")) if item.where.startswith("journal/") else None
    return parsed[0] if parsed else None


def is_noted_damage(item: Damage, states: Sequence[SegmentState], sessions: Sequence[SessionRecord]) -> bool:
    """Whether a session has noted this damage, and the segment has lost nothing since."""
    ident = damaged_segment(item)
    if ident is None or item.kind not in NOTABLE:
        return False
    pins = [state.pin() for state in states if state.ident == ident]
    return bool(pins) and any(pins[0] in session.damaged for session in sessions)
