"""The segments of a journal, and what they say about one another.

They vouch for one another: a footer for the successor that its writer had created, sequence numbers for the frames in
between, pins for everything that a later session saw. A missing segment that another vouches for is damage, not an
ordinary crash.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from holdfast.journal.damage import Damage, DamageKind
from holdfast.journal.reader import SegmentFile
from holdfast.journal.segment import SegmentId, SegmentPin
from holdfast.journal.segment_scan import SegmentScan

_MISSING_NAMED = 1000


class SegmentState(NamedTuple):
    """What one segment was found to hold."""

    ident: SegmentId
    where: str
    named_sealed: bool
    sealed: bool
    successor: bool
    frames: int
    records: int
    first_seq: int
    last_seq: int
    last_digest: bytes
    lost: bool

    @property
    def is_of_run(self) -> bool:
        """Whether its name can be believed: not that of a file with damage in which no frame of the segment is."""
        return self.frames > 0 or not self.lost

    def pin(self) -> SegmentPin:
        return SegmentPin(*self.ident, self.frames, self.last_digest.hex(), self.sealed)

    def followed_by(self, after: "SegmentState") -> "SegmentState":
        """The state of a segment that was read in two parts, of which this is the first."""
        return after._replace(
            frames=self.frames + after.frames,
            records=self.records + after.records,
            first_seq=self.first_seq or after.first_seq,
            last_seq=after.last_seq or self.last_seq,
            last_digest=after.last_digest or self.last_digest,
            lost=self.lost or after.lost,
        )


def scanned_state(segment: SegmentFile, scan: SegmentScan) -> SegmentState:
    """The result of a finished scan."""
    return SegmentState(
        segment.ident,
        segment.where,
        segment.named_sealed,
        scan.sealed,
        scan.footer.successor if scan.footer else False,
        scan.frame_count,
        scan.record_count,
        scan.first_seq,
        scan.last_seq,
        scan.last_digest,
        any(damage.is_loss for damage in scan.damage),
    )


def unseen_successors(states: Iterable[SegmentState], pins: Iterable[SegmentPin]) -> list[SegmentId]:
    """The segments that only the footer before them vouches for: the newest of a writer that was killed with them."""
    known = {state.ident: state for state in states}
    pinned = {SegmentId(*pin[:3]) for pin in pins}
    after = [state.ident.next for state in known.values() if state.successor]
    newest = {state.ident[:2]: state.ident for state in sorted(known.values()) if state.is_of_run}
    return sorted(ident for ident in after if ident not in known and ident not in pinned and newest[ident[:2]] < ident)


def cross_check(
    states: Iterable[SegmentState], pins: Iterable[SegmentPin], lost: Iterable[SegmentId] = ()
) -> list[Damage]:
    """The contradictions between segments and pins; segments already noted as `lost` are left out."""
    known = {state.ident: state for state in sorted(states)}
    damage = [_truncated(state) for state in known.values() if state.named_sealed and not state.sealed]
    missing: dict[SegmentId, str] = {}
    for state in known.values():
        _note_missing(state, known, missing)
    for pin in pins:
        ident = SegmentId(*pin[:3])
        if ident in known:
            damage += _check_pin(known[ident], pin)
        else:
            missing.setdefault(ident, f"a later record saw {pin.frames} frames in it")
    for ident in lost:
        missing.pop(SegmentId(*ident), None)
    damage += [_missing_segment(ident, reason, known) for ident, reason in sorted(missing.items())]
    damage += _sequence_gaps(known.values())
    return list(dict.fromkeys(damage))


def _truncated(state: SegmentState) -> Damage:
    return Damage(DamageKind.TRUNCATED, state.where, "it was sealed, but its footer is missing")


def _missing_segment(ident: SegmentId, reason: str, known: dict[SegmentId, SegmentState]) -> Damage:
    lost = _frames_between(ident, known)
    frames = f" with frames {lost[0]} to {lost[1]}" if lost[0] else ""
    where = f"journal/{ident.filename(sealed=True)}"
    return Damage(DamageKind.MISSING, where, f"the segment is missing{frames}; {reason}", lost=lost)


def _frames_between(ident: SegmentId, known: dict[SegmentId, SegmentState]) -> tuple[int, int]:
    """The frames that stood in a segment that is gone, as far as its neighbours tell."""
    same = [state for state in known.values() if state.ident[:2] == ident[:2] and state.frames]
    before = max((state.last_seq for state in same if state.ident < ident), default=0)
    after = min((state.first_seq for state in same if state.ident > ident), default=0)
    return (before + 1, after - 1) if before + 1 < after else (0, 0)


def _note_missing(state: SegmentState, known: dict[SegmentId, SegmentState], missing: dict[SegmentId, str]) -> None:
    if not state.is_of_run:
        return
    # Bounded, because a file may bear any number in its name.
    for number in range(state.ident.number - 1, max(state.ident.number - _MISSING_NAMED, 0), -1):
        before = state.ident._replace(number=number)
        if before in known:
            break
        missing[before] = f"segment {state.ident} came after it"
    after = state.ident.next
    if state.successor and after not in known:
        missing[after] = f"the footer of {state.ident} vouches for it"


def _check_pin(state: SegmentState, pin: SegmentPin) -> list[Damage]:
    if pin.sealed and not state.sealed and not state.named_sealed:
        return [Damage(DamageKind.TRUNCATED, state.where, "a later record saw it sealed, but its footer is missing")]
    if state.frames < pin.frames and not state.lost:
        detail = f"a later record saw {pin.frames} frames, {state.frames} are there"
        lost = (state.last_seq + 1, state.last_seq + pin.frames - state.frames)
        return [Damage(DamageKind.TRUNCATED, state.where, detail, lost=lost)]
    if state.frames == pin.frames and state.last_digest.hex() != pin.last_digest:
        return [Damage(DamageKind.CHANGED, state.where, "its last frame is not the one that a later record saw")]
    if state.frames > pin.frames and pin.sealed:
        # A sealed segment never grows: this is another one, from a copy of the run that was resumed separately.
        detail = f"a later record saw it sealed with {pin.frames} frames, {state.frames} are there"
        return [Damage(DamageKind.CHANGED, state.where, detail)]
    return []


def _sequence_gaps(states: Iterable[SegmentState]) -> list[Damage]:
    damage: list[Damage] = []
    for before, after in pairwise(states):
        if before.ident.next != after.ident or before.lost or after.lost or not before.frames or not after.frames:
            continue
        if after.first_seq > before.last_seq + 1:
            lost = (before.last_seq + 1, after.first_seq - 1)
            detail = f"frames {lost[0]} to {lost[1]} between it and its successor are missing"
            damage.append(Damage(DamageKind.GAP, before.where, detail, lost=lost))
        elif after.first_seq <= before.last_seq:
            detail = f"frames {after.first_seq} to {before.last_seq} are in it and in its successor"
            damage.append(Damage(DamageKind.CHANGED, before.where, detail))
    return damage
