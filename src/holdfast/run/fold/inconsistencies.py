"""Where the journal, the index, the files and the plan of a run differ, as notes for people who open it.

Each note says what was found and what was done about it; the run can still be read.
"""

from __future__ import annotations

import itertools
from collections import Counter

from holdfast.journal import Damage, DamageKind, SegmentId
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import TrialRecord
from holdfast.run.fold.reader import RunReader

_CHECKED_TRIALS = 100
"""How many finished trials without files are asked whether they should have any, when a run is opened."""


def describe_inconsistencies(reader: RunReader, *, with_damage: bool = True) -> list[str]:
    """What was found to differ, and what was done about it; without damage, for those who list it themselves."""
    notes = [f"The index was rebuilt from the journal: {note}."] if (note := reader.index_note()) else []
    losses = [damage for damage in reader.damage() if damage.is_loss]
    if losses and with_damage:
        kinds = Counter(damage.kind.value for damage in losses)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        notes.append(
            f"The journal is damaged ({counts}); what was lost counts as remaining. `holdfast verify` lists it."
        )
    return (
        notes
        + ([] if reader.sessions else [f"{no_session_text(reader)}."])
        + _awaited_notes(reader)
        + _lost_segment_notes(reader)
        + _vanished_notes(reader, losses)
        + _plan_notes(reader)
        + _artifact_notes(reader)
    )


def no_session_text(reader: RunReader) -> str:
    """What leads on where the number of planned trials is unknown, because no session record is left."""
    place = shell_word(reader.place)
    way = f"recover {place} --to DIR, then: holdfast repair DIR" if reader.url else f"repair {place}"
    return f"no session record can be read; rebuild it with: holdfast {way}"


def _awaited_notes(reader: RunReader) -> list[str]:
    """Of a run that is being executed elsewhere: what of it cannot be read yet."""
    if not reader.not_uploaded_yet:
        return []
    named = ", ".join(f"segment {ident}" for ident in reader.not_uploaded_yet)
    return [f"The run is being executed, and {named} is not uploaded yet; that is no damage."]


def _lost_segment_notes(reader: RunReader) -> list[str]:
    present = {segment.ident for segment in reader.journal.segments()}
    repairs = {end.number for end in reader.ends if end.how == "repaired"}
    gone = [
        f"Segment {ident} was lost, noted by session {session}; nothing remained because of it."
        if session in repairs
        else f"Segment {ident} was lost with its machine, noted by session {session}; its trials had to be run again."
        for ident, session in sorted(reader.lost().items())
        if ident not in present
    ]
    return gone + [
        f"{item}; a repair has noted it: nothing remained because of it."
        for item in reader.noted_damage()
        if item.kind is not DamageKind.MISSING
    ]


def _vanished_notes(reader: RunReader, losses: list[Damage]) -> list[str]:
    """Segments that only an index has seen: a cache proves nothing, so this is no damage, but a person may want it."""
    named = {damage.where for damage in losses}
    lost = reader.lost()
    return [
        f"An index saw {pin.frames} frames in segment {ident}, which is missing; nothing in the run vouches for it."
        for pin in reader.index.gone()
        if (ident := SegmentId(*pin[:3])) not in lost
        and not named & {f"journal/{ident.filename(sealed=sealed)}" for sealed in (True, False)}
    ]


def _artifact_notes(reader: RunReader) -> list[str]:
    """A quick comparison, by directories; `verify` goes by files."""
    directory = reader.layout.artifacts
    present = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    notes = [
        f"artifacts/{name} was left unchanged: the journal has no record of this trial."
        for name in sorted(present)
        if reader.fold.find(name) is None
    ]
    without = itertools.islice((key for key in reader.fold.keys_with_end() if key not in present), _CHECKED_TRIALS)
    if missing := [key for key in without if _names_artifacts(reader, key)]:
        named = f"{', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}"
        notes.append(f"The artifacts of finished trials are missing ({named}); their results are in the journal.")
    return notes


def _names_artifacts(reader: RunReader, key: str) -> bool:
    return any(isinstance(record, TrialRecord) and record.artifacts for record in reader.records_of(key, "trial"))


def _plan_notes(reader: RunReader) -> list[str]:
    finished, planned = reader.fold.kept, reader.fold.planned
    if planned and finished > planned:
        return [
            f"{finished} trials are finished, {planned} are planned; those outside the plan are kept but not reported."
        ]
    return []
