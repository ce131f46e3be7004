"""What a grown eval adds to a run, in a sentence: printed before the first call, by the command line and `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.analysis.money import money_text
from holdfast.engine.opening.comparing.growth import Growth, RemainingCost
from holdfast.suggestions import first_of
from holdfast.terminal.text import quantity


def growth_lines(growth: Growth | None, *, rescoring: bool = False) -> Iterator[str]:
    """How many trials are added, and at most how much they cost; nothing where a run has not grown.

    A rescoring runs none of them.
    """
    if growth is None:
        return
    if growth.trials:
        later = "; `holdfast resume` runs them" if rescoring else ""
        yield f"Added: {quantity(growth.trials, 'trial')}, {growth.planned} in all; {_cost_text(growth)}{later}."
    if growth.scored_again and not rescoring:
        answers = quantity(growth.scored_again, "answer")
        yield f"Added: scores of {answers} by further scorers; nothing that is answered is asked again."


def remaining_line(remaining: RemainingCost) -> str:
    """How many trials a resume runs although nothing was added, and at most how much they cost."""
    return f"Planned before: {quantity(remaining.trials, 'trial')}; {_cost_text(remaining)}."


def _cost_text(growth: Growth | RemainingCost) -> str:
    if growth.most_cost is None:
        most = f"their maximum cost is unknown: {', '.join(growth.why_unbounded)}"
    else:
        worst = ", if every attempt fails" if growth.may_retry else ""
        most = f"they cost at most about {money_text(growth.most_cost, growth.currency)}{worst}"
    if growth.likely_cost is None:
        return most
    return f"{most}; about {likely_cost_text(growth.likely_cost, growth.currency, growth.without_trials)}"


def likely_cost_text(cost: float, currency: str, without_trials: Sequence[str]) -> str:
    """An estimate with what it is based on; and where that is not the same task and model, this is said."""
    text = f"{money_text(cost, currency)}, going by the trials so far"
    if not without_trials:
        return text
    return f"{text} (none yet of {first_of(without_trials)}: counted like those of others)"
