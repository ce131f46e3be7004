"""Damage: bytes that differ from what was written, where they are, and which trials they concern."""

import enum
from collections.abc import Iterable

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


_SHORTER = {DamageKind.TRUNCATED, DamageKind.GAP}
"""What others say of a file whose end is missing."""


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
    consequences: tuple[str, ...] = ()
    """What else does not agree because of it: the same damage seen from other places, not further damage."""

    def with_consequence(self, other: "Damage") -> "Damage":
        """The same damage, seen also as `other`."""
        return msgspec.structs.replace(
            self,
            lost=self.lost if self.lost[0] else other.lost,
            keys=tuple(dict.fromkeys((*self.keys, *other.keys))),
            consequences=(*self.consequences, other.detail),
        )

    @property
    def is_loss(self) -> bool:
        """Whether this is damage, rather than what an ordinary crash leaves."""
        return self.kind is not DamageKind.TORN

    def without_place(self) -> str:
        """The same for a sentence that names the file already."""
        return f"{self.detail} at byte {self.offset}{_concerned_trials_text(self.keys)}"

    def __str__(self) -> str:
        place = f"{self.where} at byte {self.offset}" if self.offset or self.length else self.where
        return f"{self.kind.value}: {place}: {self.detail}{_concerned_trials_text(self.keys)}"


def group_by_file(scanned: Iterable[Damage], derived: Iterable[Damage]) -> list[Damage]:
    """One damage reported once: what other segments and pins say of a file follows from what was found in it.

    `scanned` are findings in bytes: two places in one file are two. Where there are none, the first that others say of
    the file stands for it. A torn tail is what a crash leaves only as long as nothing shows that the file was longer.
    """
    derived = list(derived)
    shorter = {item.where for item in derived if item.kind in _SHORTER}
    scanned = list(scanned)
    cut_off = {item.where: item for item in scanned if item.kind is DamageKind.TORN and item.where in shorter}
    found = [item for item in scanned if cut_off.get(item.where) is not item]
    causes = {item.where: place for place, item in reversed(list(enumerate(found))) if item.is_loss}
    for item in derived:
        if (place := causes.get(item.where)) is None:
            causes[item.where] = len(found)
            found.append(_at_its_cut(item, cut_off.get(item.where)))
        elif item.detail not in (found[place].detail, *found[place].consequences):
            found[place] = found[place].with_consequence(item)
    return found


def _at_its_cut(damage: Damage, rest: Damage | None) -> Damage:
    """The same damage, in the place where the rest of a frame that was cut through lies."""
    return msgspec.structs.replace(damage, offset=rest.offset, length=rest.length) if rest is not None else damage


def attach_to_causes(losses: list[Damage], differences: Iterable[Damage]) -> list[Damage]:
    """Differences between records, each with the loss that explains it; by the trials concerned, else the first."""
    found, rest = list(losses), list[Damage]()
    causes = [place for place, item in enumerate(found) if item.is_loss and item.where.startswith("journal/")]
    for item in differences:
        if not causes or item.where != "journal":
            rest.append(item)
            continue
        cause = next((place for place in causes if set(found[place].keys) & set(item.keys)), causes[0])
        found[cause] = found[cause].with_consequence(item)
    return found + rest


def _concerned_trials_text(keys: tuple[str, ...]) -> str:
    if not keys:
        return ""
    shown = ", ".join(keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f" (trials {shown}{more})"
