"""What a run has taken: tokens, and what they cost where a price is known."""

from functools import reduce
from typing import NamedTuple

from holdfast.models.message import Usage
from holdfast.run.fold.rows.spent import Spent
from holdfast.run.fold.run_fold import RunFold


class Spending(NamedTuple):
    """Tokens and cost; a cost that nobody can know is None, never 0."""

    usage: Usage
    cost: float | None
    seconds: float
    warning: str
    """Why the cost is not known although there are prices; empty otherwise."""


def run_spending(fold: RunFold) -> Spending:
    """What all replies on record took, also those of trials that are not finished."""
    spent = fold.spent()
    models = {model for _, model in spent} or {entry.model for entry in fold.plan}
    return _spending(fold, reduce(Spent.plus, spent.values(), Spent()), models)


def group_spending(fold: RunFold) -> dict[tuple[str, str], Spending]:
    """The same for every task and model."""
    return {pair: _spending(fold, spent, {pair[1]}) for pair, spent in fold.spent().items()}


def no_spending(fold: RunFold, model: str) -> Spending:
    """What a task and model took of which nothing is on record."""
    return _spending(fold, Spent(), {model})


def _spending(fold: RunFold, spent: Spent, models: set[str]) -> Spending:
    cost = fold.prices.cost(spent.shares, models)
    return Spending(spent.usage, cost.amount, spent.seconds, cost.warning)
