"""What an eval will call and cost at the most, before anything is called.

A declarative task asks once in every attempt. How often a solver in Python asks is its own matter, and is not guessed.
Tokens of a prompt are guessed by its length; a reply is taken to be as long as `max_tokens` allows, so where that is
missing there is no bound, and none is told.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.engine.planning.plan import PlannedTask
from holdfast.engine.planning.prepared_eval import Prepared
from holdfast.spec import ModelSpec
from holdfast.tasks.solver import Generate

_CHARACTERS_OF_A_TOKEN = 3.0
_SAMPLED = 200
"""How many samples of a task are looked at for the length of its prompts."""


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls and the cost of one task on one model."""

    task: str
    model: str
    trials: int
    calls: int | None = None
    """Calls if nothing fails; None where the task's own code decides."""
    most_calls: int | None = None
    """Calls if every attempt fails and is made again."""
    most_cost: float | None = None
    """What those would cost, with replies as long as they may be; None without a price, `max_tokens`, or a count."""


def forecast(prepared: Prepared) -> list[Forecast]:
    """One for every task and model of a plan."""
    return [
        _of(task, name, prepared.spec.models[name]) for task in prepared.tasks for name in task.models if task.planned
    ]


def _of(task: PlannedTask, name: str, model: ModelSpec) -> Forecast:
    trials = task.planned_by_model
    if not isinstance(task.task.solve, Generate):
        return Forecast(task.name, name, trials)
    most = trials * (task.max_retries + 1)
    cost = _cost_of_a_call(task, task.task.solve, model)
    return Forecast(task.name, name, trials, trials, most, None if cost is None else most * cost)


def _cost_of_a_call(task: PlannedTask, solver: Generate, model: ModelSpec) -> float | None:
    longest = solver.generation.get("max_tokens", model.generation.max_tokens)
    if model.price is None or longest is None:
        return None
    lengths = list(_lengths(task, solver))
    asked = sum(lengths) / len(lengths) / _CHARACTERS_OF_A_TOKEN
    return (asked * model.price.input + float(longest) * model.price.output) / 1e6


def _lengths(task: PlannedTask, solver: Generate) -> Iterator[int]:
    """How many characters are sent for some samples, evenly spread over the dataset."""
    stride = max(len(task.dataset) // _SAMPLED, 1)
    for position in range(0, len(task.dataset), stride):
        for axes in task.axes:
            yield sum(len(message.content) for message in solver.messages(task.dataset[position], axes))
