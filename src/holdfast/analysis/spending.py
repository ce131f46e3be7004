"""What a run has taken: tokens, and what they cost where a price is known."""

from collections import Counter
from functools import reduce
from typing import NamedTuple

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import ShareKey
from holdfast.run.fold.rows.spent import Spent
from holdfast.run.fold.rows.trial_row import GIVEN_UP_CALLS
from holdfast.run.fold.run_fold import RunFold


class Spending(NamedTuple):
    """Tokens and cost; a cost that nobody can know is None, never 0."""

    usage: Usage
    cost: float | None
    seconds: float
    warning: str
    """Why the cost is not known although there are prices; empty otherwise."""
    given_up: int = 0
    """Calls that got no reply because they were ended in flight: if there are any, the cost is a lower bound."""
    is_partial: bool = False
    """Whether some replies have no usage on record: there were more tokens than these."""


class ModelSpending(msgspec.Struct, frozen=True):
    """What the replies of one model took, in any task and role."""

    usage: Usage
    cost: float | None
    is_partial: bool = False
    """As of `Spending`."""


def run_spending(fold: RunFold) -> Spending:
    """What all replies on record took, also those of trials that are not finished."""
    spent, given_up = fold.spent(), _given_up(fold)
    models = {model for _, model in spent} or {entry.model for entry in fold.plan}
    return _spending(fold, reduce(Spent.plus, spent.values(), Spent()), models)._replace(given_up=given_up.total())


def group_spending(fold: RunFold) -> dict[tuple[str, str], Spending]:
    """The same for every task and model."""
    given_up = _given_up(fold)
    return {
        pair: _spending(fold, spent, {pair[1]})._replace(given_up=given_up[pair])
        for pair, spent in fold.spent().items()
    }


def _given_up(fold: RunFold) -> Counter[tuple[str, str]]:
    """By task and model, how many calls were ended in flight."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in fold.ledger():
        if entry.kind == GIVEN_UP_CALLS:
            found[entry.task, entry.model] += entry.calls
    return found


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
        found[model] = ModelSpending(usage, fold.prices.cost(used, {model}).amount, model in fold.unmetered)
    return found


def no_spending(fold: RunFold, model: str) -> Spending:
    """What a task and model took of which nothing is on record."""
    return _spending(fold, Spent(), {model})


def _spending(fold: RunFold, spent: Spent, models: set[str]) -> Spending:
    cost = fold.prices.cost(spent.shares, models)
    is_partial = not fold.unmetered.isdisjoint({*models, *(model for model, _ in spent.shares)})
    return Spending(spent.usage, cost.amount, spent.seconds, cost.warning, is_partial=is_partial)


def tokens_text(usage: Usage, *, is_partial: bool) -> str:
    """Tokens in and out; where some replies have no usage, as the least that it can be."""
    if is_partial and not usage.input_tokens + usage.output_tokens:
        return "unknown (the replies have no usage)"
    least = "at least " if is_partial else ""
    return f"{least}{usage.input_tokens:,} in, {usage.output_tokens:,} out"
