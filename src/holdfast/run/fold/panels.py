"""The combined score of the judges of a panel: computed whenever scores are read, and never recorded.

The mean is that of the valid scores. A majority is one of the whole panel: a judge who gave no score stays in the
denominator, and a tie is not broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.run.core.records import MAJORITY_OF_JUDGES, PanelEntry, shown_scorers

NO_MAJORITY, NO_VALID_VERDICT = "no majority", "no valid verdict"
"""Why a panel leaves an answer unscored."""
Scores = Mapping[str, float | None]
"""The filled slots of one trial; None for one that was filled without a score."""
Panels = Mapping[str, PanelEntry]
"""By name."""


class PanelResult(NamedTuple):
    """The score of a panel or, without one, the reason."""

    value: float | None
    reason: str = ""


def panel_result(panel: PanelEntry, scores: Scores) -> PanelResult | None:
    """The combined score of a panel; None as long as not all of their slots are filled."""
    if not all(slot in scores for slot in panel.slots):
        return None
    valid = [value for slot in panel.slots if (value := scores[slot]) is not None]
    if not valid:
        return PanelResult(None, NO_VALID_VERDICT)
    if panel.combine != MAJORITY_OF_JUDGES:
        return PanelResult(_mean(valid))
    return _majority(valid, panel)


def _mean(valid: list[float]) -> float:
    try:
        return math.fsum(valid) / len(valid)
    except OverflowError:
        # Near the largest float: the sum is larger than any, the mean is not.
        from fractions import Fraction  # noqa: PLC0415 - for very few runs

        return float(sum(map(Fraction, valid), Fraction()) / len(valid))


def _majority(valid: list[float], panel: PanelEntry) -> PanelResult:
    passes = sum(value >= panel.pass_at for value in valid)
    for votes, value in ((passes, 1.0), (len(valid) - passes, 0.0)):
        if 2 * votes > len(panel.slots):
            return PanelResult(value)
    return PanelResult(None, NO_MAJORITY)


def with_panels(scores: Scores, panels: Panels) -> dict[str, PanelResult]:
    """The scores of a trial as people see them: those of panels before those of their judges.

    A panel of one judge stands for its slot.
    """
    results = {name: panel_result(panel, scores) for name, panel in panels.items()}
    found: dict[str, PanelResult] = {}
    for name in shown_scorers(scores, panels):
        if (result := results.get(name)) is not None:
            found[name] = result
        elif name in scores:
            found[name] = PanelResult(scores[name])
    return found
