"""What a run has taken: tokens, and what they cost where a price is known."""

from functools import reduce
from typing import NamedTuple

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import ShareKey
from holdfast.run.fold.rows.spent import Spent
from holdfast.run.fold.run_fold import RunFold


class Spending(NamedTuple):
    """Tokens and cost; a cost that nobody can know is None, never 0."""

    usage: Usage
    cost: float | None
    seconds: float
    warning: str
    """Why the cost is not known although there are prices; empty otherwise."""


class ModelSpending(msgspec.Struct, frozen=True):
    """What the replies of one model took, in any task and role."""

    usage: Usage
    cost: float | None


def run_spending(fold: RunFold) -> Spending:
    """What all replies on record took, also those of trials that are not finished."""
    spent = fold.spent()
    models = {model for _, model in spent} or {entry.model for entry in fold.plan}
    return _spending(fold, reduce(Spent.plus, spent.values(), Spent()), models)


def group_spending(fold: RunFold) -> dict[tuple[str, str], Spending]:
    """The same for every task and model."""
    return {pair: _spending(fold, spent, {pair[1]}) for pair, spent in fold.spent().items()}


def spending_by_model(fold: RunFold) -> dict[str, ModelSpending]:
    """The same by the models that replied: those under test, judges, and others that samplings or code have asked.

    Empty where no other model than those under test has replied.
    """
    shares: dict[str, dict[ShareKey, Usage]] = {}
    for spent in fold.spent().values():
        for (model, reused), usage in spent.shares.items():
            known = shares.setdefault(model, {})
            known[model, reused] = known.get((model, reused), Usage()) + usage
    if shares.keys() <= {entry.model for entry in fold.plan}:
        return {}
    found = {}
    for model, used in sorted(shares.items()):
        usage = reduce(Usage.__add__, used.values(), Usage())
        found[model] = ModelSpending(usage, fold.prices.cost(used, {model}).amount)
    return found


def no_spending(fold: RunFold, model: str) -> Spending:
    """What a task and model took of which nothing is on record."""
    return _spending(fold, Spent(), {model})


def _spending(fold: RunFold, spent: Spent, models: set[str]) -> Spending:
    cost = fold.prices.cost(spent.shares, models)
    return Spending(spent.usage, cost.amount, spent.seconds, cost.warning)
