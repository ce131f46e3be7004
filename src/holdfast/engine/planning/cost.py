"""What an eval may cost: at most, before anything is called; and likely, by what trials have taken so far.

A declarative task asks once, or as often as its sampling may (sampling_cost.py): it has no code that could fail, so no
attempt follows the first, unless functions of a user check what is sampled. How often a Python solver asks is up to
its code, and is not estimated. Tokens of a prompt are estimated from its length; a reply is assumed to be as long as
`max_tokens` allows, so without that there is no bound, and none is given.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.models.message import Usage
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import ShareKey
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.spent import Spent
from holdfast.spec import EvalSpec, ModelSpec, plain_data
from holdfast.tasks.judges.judge_reply import CALLS
from holdfast.tasks.judges.panels import judge_slots
from holdfast.tasks.solver import Generate
from holdfast.tasks.stages import is_staged

if TYPE_CHECKING:
    from holdfast.sampling.solver import SampledGenerate
    from holdfast.tasks.tools.agent import Agent

_CHARACTERS_OF_A_TOKEN = 3.0
_SAMPLED = 200
"""How many samples of a task are looked at for the length of its prompts."""


class SamplingShape(msgspec.Struct, frozen=True):
    """How many candidates a trial may draw."""

    strategy: str
    lanes: int
    """At once. They multiply requests: each of them is paid for."""
    turns: int
    """In a lane, one after the other."""
    calls: int
    """Of models, for one trial at most; judges included."""


class ModelBound(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one model may be asked for, at most and taken by itself."""

    calls: int
    cost: float | None = None

    def shared(self, share: float) -> ModelBound:
        """A part of it."""
        return ModelBound(round(self.calls * share), None if self.cost is None else self.cost * share)


class JudgeBound(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one judge is asked for: one call for each verdict, or two for each that has to be repaired."""

    calls: int
    most_calls: int
    cost: float | None = None
    """What `calls` cost at least: a judge reads the question, the answer, and more."""
    most_cost: float | None = None

    def shared(self, share: float) -> JudgeBound:
        """A part of it."""
        costs = (None if cost is None else cost * share for cost in (self.cost, self.most_cost))
        return JudgeBound(round(self.calls * share), round(self.most_calls * share), *costs)


class CostBound(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls and the cost of one task on one model, at most."""

    task: str
    model: str
    trials: int
    calls: int | None = None
    """Calls if no attempt fails, at most; None where the task's own code decides."""
    most_calls: int | None = None
    """Calls if every attempt fails and is made again; the same number where no code of a user could fail."""
    most_cost: float | None = None
    """What those would cost, with replies as long as they may be; None without a price, `max_tokens`, or a count."""
    sampling: SamplingShape | None = None
    """How many candidates a trial may draw, where it draws several."""
    is_lower_bound: bool = False
    """Whether the worst case may cost more than that: repaired requests, and those to judges, are longer."""
    by_model: dict[str, ModelBound] = {}
    """Of a sampling, what each model may be asked for if every attempt fails, taken by itself."""
    judges: dict[str, JudgeBound] = {}
    """What each judge is asked for beside that."""
    turns: int | None = None
    """How many calls a trial may make, where it lets the model call tools; each is longer than the one before, so
    there is no bound of the cost."""

    def of_trials(self, trials: int) -> CostBound:
        """The same for fewer trials: every one of them is taken to cost the same."""
        share = trials / self.trials
        return msgspec.structs.replace(
            self,
            trials=trials,
            calls=None if self.calls is None else round(self.calls * share),
            most_calls=None if self.most_calls is None else round(self.most_calls * share),
            most_cost=None if self.most_cost is None else self.most_cost * share,
            by_model={name: bound.shared(share) for name, bound in self.by_model.items()},
            judges={name: bound.shared(share) for name, bound in self.judges.items()},
        )

    @property
    def judging_costs(self) -> tuple[float, float] | None:
        """What the judges cost if every verdict takes one call, and if each takes two; None where it is not known."""
        found = [
            (one.cost, one.most_cost)
            for one in self.judges.values()
            if one.cost is not None and one.most_cost is not None
        ]
        if len(found) < len(self.judges):
            return None
        return math.fsum(cost for cost, _ in found), math.fsum(most for _, most in found)

    @property
    def cost(self) -> float | None:
        """As `most_cost`, if no attempt fails: every call is taken to cost the same."""
        if self.most_cost is None or self.calls is None or not self.most_calls:
            return None
        return self.most_cost * self.calls / self.most_calls


def cost_bounds(prepared: PreparedEval) -> list[CostBound]:
    """One for every task and model of a plan."""
    return [
        _with_judges(_cost_bound(task, name, prepared.spec.models), task, prepared.spec.models)
        for task in prepared.tasks
        for name in task.models
        if task.planned
    ]


def _with_judges(bound: CostBound, task: PlannedTask, models: Mapping[str, ModelSpec]) -> CostBound:
    """The same with what the judges may be asked for: they read the question, and an answer of full length."""
    slots = judge_slots(task.task.scorers)
    if not slots:
        return bound
    solver, own = task.task.solver, models[bound.model].generation.max_tokens
    read: float | None = None
    if isinstance(solver, Generate) and (longest := solver.generation.get("max_tokens", own)) is not None:
        read = _prompt_tokens(task, solver) + longest
    calls: Counter[str] = Counter()
    for slot in slots:
        calls[slot.model] += slot.calls * bound.trials
    judges = {name: _judge_bound(models[name], count, read) for name, count in calls.items()}
    return msgspec.structs.replace(bound, judges=judges)


def _judge_bound(model: ModelSpec, most: int, read: float | None) -> JudgeBound:
    calls = most // CALLS
    each = None if read is None else call_cost(model, read, model.generation.max_tokens)
    return JudgeBound(calls, most) if each is None else JudgeBound(calls, most, each * calls, each * most)


def _cost_bound(task: PlannedTask, name: str, models: Mapping[str, ModelSpec]) -> CostBound:
    trials, solver = task.planned_of(name), task.task.solver
    if not isinstance(solver, Generate) or is_staged(solver):
        return CostBound(task.name, name, trials)
    if solver.is_sampled:
        return _sampling_bound(task, cast("SampledGenerate", solver), name, models)
    if solver.tool_identity():
        return _agent_bound(task, cast("Agent", solver), name)
    longest = solver.generation.get("max_tokens", models[name].generation.max_tokens)
    cost = call_cost(models[name], _prompt_tokens(task, solver), longest)
    return CostBound(task.name, name, trials, trials, trials, None if cost is None else trials * cost)


def _agent_bound(task: PlannedTask, solver: Agent, name: str) -> CostBound:
    trials = task.planned_of(name)
    bounds = [bound for bound in (solver.max_turns, task.max_iterations) if bound is not None]
    if not bounds:
        return CostBound(task.name, name, trials)
    calls = trials * min(bounds)
    return CostBound(task.name, name, trials, calls, calls * (task.max_retries + 1), turns=min(bounds))


def _sampling_bound(
    task: PlannedTask, solver: SampledGenerate, name: str, models: Mapping[str, ModelSpec]
) -> CostBound:
    # Most evals have none.
    from holdfast.engine.planning.sampling_cost import SamplingCost  # noqa: PLC0415

    each = SamplingCost(solver, name, models, _prompt_tokens(task, solver))
    trials, cost = task.planned_of(name), each.cost()
    most = trials * (task.max_retries + 1) if each.runs_own_code else trials
    return CostBound(
        task.name,
        name,
        trials,
        trials * each.shape.calls,
        most * each.shape.calls,
        None if cost is None else most * cost,
        each.shape,
        cost is not None and each.is_lower_bound,
        each.by_model(most),
    )


def call_cost(model: ModelSpec, prompt_tokens: float, longest: float | None) -> float | None:
    """What one call costs whose reply is as long as it may be; None without a price or a bound of the reply."""
    if model.price is None or longest is None:
        return None
    return (prompt_tokens * model.price.input + float(longest) * model.price.output) / 1e6


def _prompt_tokens(task: PlannedTask, solver: Generate) -> float:
    lengths = list(_prompt_lengths(task, solver))
    return sum(lengths) / len(lengths) / _CHARACTERS_OF_A_TOKEN


def _prompt_lengths(task: PlannedTask, solver: Generate) -> Iterator[int]:
    """How many characters are sent for some samples, evenly spread over the dataset."""
    stride = max(len(task.dataset) // _SAMPLED, 1)
    for position in range(0, len(task.dataset), stride):
        for axes in task.axes:
            asking = solver if task.task.grid is None else task.task.grid.solver_at(solver, axes)
            yield sum(message.characters for message in asking.messages(task.dataset[position], axes))


class CostEstimate:
    """The likely cost of the remaining trials: by the tokens that trials of a run have taken, at the new prices.

    Models differ in how much they write, so that each is taken to go on as it did in the same task. One that has no
    trial there yet is taken to be like the others of the task or, in a new task, like all models of the run;
    `without_trials` says so.
    """

    def __init__(self, reader: RunReader, spec: EvalSpec) -> None:
        self._prices = Prices(plain_data(spec))
        self._spent: defaultdict[tuple[str, str], Spent] = defaultdict(Spent)
        for (task, own), spent in reader.fold.spent().items():
            taken = spent._replace(shares=_with_roles(spent.shares, own))
            for pair in ((task, own), (task, ""), ("", "")):
                self._spent[pair] = self._spent[pair].plus(taken)
        self._valid: Counter[tuple[str, str]] = Counter()
        for (task, own), counts in reader.fold.counts_by_group().items():
            for pair in ((task, own), (task, ""), ("", "")):
                self._valid[pair] += counts.valid
        self._planned: Counter[tuple[str, str]] = Counter()

    def add(self, planned: PlannedTrial) -> None:
        """Adds one trial."""
        self.add_trials(planned.task.name, planned.model, 1)

    def add_trials(self, task: str, model: str, count: int) -> None:
        """Adds several trials of a task on a model."""
        self._planned[task, model] += count

    @property
    def cost(self) -> float | None:
        """What all of them are likely to cost; None where a price is missing, or where no trial has ended yet."""
        costs = [self._cost_of(task, model, count) for (task, model), count in self._planned.items()]
        return None if None in costs else math.fsum(cost for cost in costs if cost is not None)

    @property
    def without_trials(self) -> list[str]:
        """The tasks and models, such as `qa on small`, whose cost goes by trials of others; empty without a cost."""
        if self.cost is None:
            return []
        return [f"{task} on {model}" for task, model in self._planned if not self._has_ended(task, model)]

    def _has_ended(self, task: str, model: str) -> bool:
        """Whether a trial has: those that got no reply say nothing of the cost."""
        spent = self._spent.get((task, model), Spent())
        return spent.attempts > 0 and bool(self._valid[task, model] or spent.shares)

    def _cost_of(self, task: str, model: str, trials: int) -> float | None:
        known = (pair for pair in ((task, model), (task, ""), ("", "")) if self._has_ended(*pair))
        if (pair := next(known, None)) is None:
            return None
        spent = self._spent[pair]
        shares = {(name or model, False): usage for (name, _), usage in spent.shares.items()}
        cost = self._prices.cost(shares, {model}).amount
        # An attempt that got no reply took nothing, and says nothing of what one that does will take.
        return None if cost is None else cost / (self._valid[pair] or spent.attempts) * trials


def _with_roles(shares: Mapping[ShareKey, Usage], own: str) -> dict[ShareKey, Usage]:
    """The tokens by model, the trials' own being nameless: another may take its place. Reused replies count too."""
    found: dict[ShareKey, Usage] = {}
    for (model, _), usage in shares.items():
        key = "" if model == own else model, False
        found[key] = found.get(key, Usage()) + usage
    return found
