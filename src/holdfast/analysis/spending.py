"""What a run has taken: tokens, and what they cost where a price is known."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.models.message import Usage
from holdfast.run.fold.fold_writer import Spent
from holdfast.run.fold.run_fold import RunFold


class Spending(NamedTuple):
    """Tokens and cost; a cost that nobody can know is None, never 0."""

    usage: Usage
    cost: float | None
    seconds: float


def run_spending(fold: RunFold) -> Spending:
    """What all replies on record took, also those of trials that are not finished."""
    total = Spent()
    for spent in fold.spent().values():
        total = total.plus(spent)
    models = {model for _, model in fold.spent()} or {entry.model for entry in fold.plan}
    return _spending(total, is_priced=any(fold.has_price(model) for model in models))


def group_spending(fold: RunFold) -> dict[tuple[str, str], Spending]:
    """The same for every task and model."""
    return {pair: _spending(spent, is_priced=fold.has_price(pair[1])) for pair, spent in fold.spent().items()}


def no_spending(fold: RunFold, model: str) -> Spending:
    """What a task and model took of which nothing is on record."""
    return _spending(Spent(), is_priced=fold.has_price(model))


def _spending(spent: Spent, *, is_priced: bool) -> Spending:
    # A cost on record stands, also where the price was left out of the eval since.
    return Spending(spent.usage, spent.cost if is_priced or spent.picocost else None, spent.seconds)
