"""How samplings went: how many succeeded and by which turn, and what was spent on candidates that lost."""

from functools import reduce
from itertools import accumulate

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.sampling_figures import SamplingSums
from holdfast.run.fold.run_fold import RunFold


class LoserReport(msgspec.Struct, frozen=True):
    """What candidates took that were not chosen, their judges included."""

    usage: Usage
    cost: float | None
    """By the newest prices on record; None where a model that was used has none."""
    share: float | None
    """Of all tokens of the task and model; None where no tokens are known."""


class SamplingReport(msgspec.Struct, frozen=True):
    """The samplings of one task and model, in the attempts that count."""

    samplings: int
    successes: int
    success_rate: float
    success_by_turn: list[float]
    """The share that had chosen a valid candidate of that turn or of an earlier one, from turn 0 on."""
    mean_turns: float
    """How many turns the deepest lane has begun."""
    candidates: dict[str, int]
    """How many ended in which way."""
    calls: int
    """Calls of models, those of judges included."""
    capped: dict[str, int]
    """How many have reached a cap of their budget, by the cap."""
    strategies: dict[str, int]
    losers: LoserReport


def sampling_report(fold: RunFold, sums: SamplingSums | None, model: str, used: Usage) -> SamplingReport | None:
    """The figures of a task and model whose replies have taken `used`; None where nothing was sampled."""
    if sums is None or not sums.samplings:
        return None
    return SamplingReport(
        samplings=sums.samplings,
        successes=sums.successes,
        success_rate=sums.successes / sums.samplings,
        success_by_turn=_success_by_turn(sums),
        mean_turns=sums.turns / sums.samplings,
        candidates=dict(sorted(sums.candidates.items())),
        calls=sums.calls,
        capped=dict(sorted(sums.capped.items())),
        strategies=dict(sorted(sums.strategies.items())),
        losers=_loser_report(fold, sums, model, used),
    )


def _success_by_turn(sums: SamplingSums) -> list[float]:
    last = max(sums.successes_by_turn, default=-1)
    counts = accumulate(sums.successes_by_turn[turn] for turn in range(last + 1))
    return [count / sums.samplings for count in counts]


def _loser_report(fold: RunFold, sums: SamplingSums, model: str, used: Usage) -> LoserReport:
    wasted = reduce(Usage.__add__, sums.wasted.values(), Usage())
    tokens = used.input_tokens + used.output_tokens
    share = (wasted.input_tokens + wasted.output_tokens) / tokens if tokens else None
    return LoserReport(wasted, fold.prices.cost(sums.wasted, {model}).amount, share)


class SamplingCounts(msgspec.Struct, frozen=True):
    """The samplings of a whole run, in the attempts that count."""

    count: int
    successes: int
    capped: int
    """How many have reached a cap of their budget."""


def sampling_counts(fold: RunFold) -> SamplingCounts | None:
    """How many samplings a run has on record, and how they went; None where there are none."""
    every = fold.samplings().values()
    if not every:
        return None
    return SamplingCounts(
        sum(one.samplings for one in every),
        sum(one.successes for one in every),
        sum(one.capped.total() for one in every),
    )
