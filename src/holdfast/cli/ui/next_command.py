"""What to type next, for whoever reads how a run stands."""

from __future__ import annotations

import shlex

from holdfast.run.fold.states import StateCounts
from holdfast.terminal.text import quantity


def retry_scorers_text(counts: StateCounts, place: str) -> str:
    """A resume leaves trials that failed in scorers as they are: their scorers have used up their attempts."""
    trials = quantity(counts.failed_in_slots, "trial")
    has = "has its answer" if counts.failed_in_slots == 1 else "have their answers"
    again = f"holdfast resume {shlex.quote(place)} --redo 'status=failed'"
    return f"{trials} {has} and failed in a scorer. Retry those scorers with: {again}"
