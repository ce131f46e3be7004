"""How the judges of a task got along: their agreement, what is unscored and why, and whether position decided.

Trials are read one by one; what is kept of them are counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from holdfast.analysis.agreement.alpha import krippendorff_alpha
from holdfast.analysis.agreement.panel import effective_judges, mean_spread
from holdfast.analysis.agreement.ratings import Ratings
from holdfast.run.core.records import PanelEntry, ScoreRecord
from holdfast.run.core.slots.slot_names import NO_OTHER_ANSWER, OTHER_QUESTION, WINNERS, judge_of
from holdfast.run.fold.panels import panel_result
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import RunFold, SlotValue

_FIRST, _SECOND = "A", "B"
_REASON_CHARACTERS = 60


class PositionBias(msgspec.Struct, frozen=True):
    """How often the place of an answer decided a comparison of two."""

    first: int
    """Comparisons that the answer won which stood first."""
    second: int
    ties: int
    flipped: int
    """Trials in which the same position won both times: its place decided, and not the answer."""
    trials: int
    bias: float | None
    """(first - second) / (first + second): 0 where positions do not matter; None where every comparison is a tie."""


class PanelReport(msgspec.Struct, frozen=True):
    """The judges of one scorer, on one task and model."""

    judges: list[str]
    combine: str
    alpha: float | None
    """Krippendorff's, of scores as numbers; None where it is not defined."""
    spread: float | None
    """The mean difference between the highest and the lowest score of a trial; None if no trial has two, or if it is
    larger than any float.
    """
    effective_judges: float | None
    """The number of independent judges whose mean would vary as much."""
    unscored: int
    """Trials that all judges have judged, and that the panel leaves without a score."""
    reasons: dict[str, int]
    """Why."""
    judges_unscored: dict[str, dict[str, int]]
    """By judge, the reasons for which it gave no score."""
    position: PositionBias | None = None
    """Where the judges compare two answers."""


class _PanelCounts:
    """What is counted of one panel."""

    def __init__(self, panel: PanelEntry) -> None:
        self.panel, self.ratings = panel, Ratings()
        self.reasons: Counter[str] = Counter()
        self.judges: dict[str, Counter[str]] = {}
        self.winners: Counter[tuple[str, str]] = Counter()

    def add(self, scores: dict[str, float | None], records: Sequence[ScoreRecord]) -> None:
        """One trial; `records` are those of its judges, where their reasons or winners count."""
        for record in records:
            self._add_record(record)
        self.ratings.add({slot: scores.get(slot) for slot in self.panel.slots})
        result = panel_result(self.panel, scores)
        if result is not None and result.value is None:
            # Nobody was asked for a verdict that could have been valid.
            not_asked = {_unscored_reason(record) for record in records} & {NO_OTHER_ANSWER, OTHER_QUESTION}
            self.reasons[min(not_asked, default=result.reason)] += 1

    def _add_record(self, record: ScoreRecord) -> None:
        if record.unscored:
            self.judges.setdefault(judge_of(record.scorer), Counter())[_unscored_reason(record)] += 1
        winners = record.metadata.get(WINNERS)
        if isinstance(winners, list) and len(winners) == 2:
            self.winners[str(winners[0]), str(winners[1])] += 1

    def report(self) -> PanelReport:
        several = len(self.panel.slots) > 1
        return PanelReport(
            judges=[judge_of(slot) for slot in self.panel.slots],
            combine=self.panel.combine,
            alpha=krippendorff_alpha(self.ratings, "interval") if several else None,
            spread=mean_spread(self.ratings) if several else None,
            effective_judges=effective_judges(self.ratings) if several else None,
            unscored=self.reasons.total(),
            reasons=dict(sorted(self.reasons.items())),
            judges_unscored={name: dict(sorted(found.items())) for name, found in sorted(self.judges.items())},
            position=_position_bias(self.winners) if self.panel.pairwise else None,
        )


def panel_reports(reader: RunReader) -> dict[tuple[str, str], dict[str, PanelReport]]:
    """By task and model, the report of each scorer with judges."""
    fold = reader.fold
    if not fold.panels:
        return {}
    found: dict[tuple[str, str], dict[str, _PanelCounts]] = {
        (entry.task, entry.model): {name: _PanelCounts(panel) for name, panel in entry.panels.items()}
        for entry in fold.plan
        if entry.panels
    }
    for slots in _trials(fold):
        counts = found.get(slots[0].standing.group[:2], {})
        scores = {slot.scorer: slot.value for slot in slots}
        for panel in counts.values():
            needs_records = panel.panel.pairwise or any(scores.get(slot, 0.0) is None for slot in panel.panel.slots)
            panel.add(scores, _judge_records(reader, slots[0], panel.panel) if needs_records else [])
    return {pair: {name: counts.report() for name, counts in panels.items()} for pair, panels in found.items()}


def _trials(fold: RunFold) -> Iterator[list[SlotValue]]:
    """The scores on record of one trial after another."""
    for _, slots in groupby(fold.recorded_slots(), lambda slot: slot.key):
        yield list(slots)


def _judge_records(reader: RunReader, slot: SlotValue, panel: PanelEntry) -> list[ScoreRecord]:
    """The scores of judges with reasons and winners, which only the records themselves have."""
    return [record for record in reader.scores_that_count(slot.trial) if record.scorer in panel.slots]


def _unscored_reason(record: ScoreRecord) -> str:
    return record.explanation.partition(":")[0][:_REASON_CHARACTERS]


def _position_bias(winners: Counter[tuple[str, str]]) -> PositionBias:
    by_place: Counter[str] = Counter()
    for pair, count in winners.items():
        for winner in pair:
            by_place[winner] += count
    first, second = by_place[_FIRST], by_place[_SECOND]
    return PositionBias(
        first=first,
        second=second,
        ties=by_place.total() - first - second,
        flipped=sum(winners[place, place] for place in (_FIRST, _SECOND)),
        trials=winners.total(),
        bias=(first - second) / (first + second) if first + second else None,
    )
