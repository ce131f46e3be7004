"""What to type next, for whoever reads how a run stands."""

from __future__ import annotations

import shlex

from holdfast.run.core.records import SessionRecord
from holdfast.run.fold.states import StateCounts
from holdfast.terminal.text import quantity

_DROPPED = {"--or-resume", "--json"}
_DROPPED_WITH_VALUE = {"--run-dir", "--fail-under"}


def retry_scorers_text(counts: StateCounts, place: str) -> str:
    """A resume leaves trials that failed in scorers as they are: their scorers have used up their attempts."""
    trials = quantity(counts.failed_in_slots, "trial")
    has = "has its answer" if counts.failed_in_slots == 1 else "have their answers"
    again = f"holdfast resume {shlex.quote(place)} --redo 'status=failed'"
    return f"{trials} {has} and failed in a scorer. Retry those scorers with: {again}"


def rerun_command(first: SessionRecord | None, place: str) -> str:
    """The command that starts the eval of a run once more, given the run's first session, and reuses its replies."""
    words = _words_after_run(first.invocation) if first is not None else []
    source = first.source if first is not None else ""
    again = words or ([source] if source else ["EVAL"])
    return shlex.join(["holdfast", "run", *again, "--reuse", place])


def _words_after_run(invocation: list[str]) -> list[str]:
    """The arguments of `holdfast run`, without those that are about the run's place or its output."""
    if invocation[1:2] != ["run"]:
        return []
    kept, rest = [], iter(invocation[2:])
    for word in rest:
        option, equals, _ = word.partition("=")
        if option in _DROPPED_WITH_VALUE:
            if not equals:
                next(rest, None)
        elif option not in _DROPPED:
            kept.append(word)
    return kept
