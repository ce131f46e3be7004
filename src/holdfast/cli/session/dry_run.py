"""What `run --dry-run` prints: the plan, what it may cost, and what a start would warn of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from holdfast.analysis.money import money_text
from holdfast.api.dry_run import CheckedRun
from holdfast.api.growth_text import growth_lines, remaining_line
from holdfast.cli.session.warning_lines import print_warnings
from holdfast.cli.ui.json_output import print_json
from holdfast.engine.opening.new_run import plan_entries
from holdfast.engine.planning.cost import CostBound, cost_bounds
from holdfast.engine.planning.plan import PlannedTask
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.errors import ConfigurationError
from holdfast.run.core.display_text import change_text, list_text
from holdfast.run.core.prices import USD
from holdfast.run.drift.code_changes import opaque_line, opaque_values
from holdfast.run.fold.states import StateCounts
from holdfast.tasks.judges.panels import shown_names
from holdfast.terminal.text import quantity

_SHOWN_VALUES = 12
"""So many values of an axis are listed."""


def print_dry_run(checked: CheckedRun, *, as_json: bool) -> int:
    """Prints what a start would do; the exit code.

    Raises:
        ConfigurationError: a model cannot be opened. What all would cost is printed before.
    """
    expected = _expected(checked)
    if as_json:
        print_json(_as_object(checked, expected) | _error_object(checked.refusal))
        return 0 if checked.refusal is None else checked.refusal.exit_code
    print_warnings(checked.warnings)
    if checked.counts is None:
        _print_plan(checked.prepared, expected)
        click.echo(f"{quantity(checked.prepared.planned, 'trial')} in all; nothing was called or written.")
    else:
        _print_resumed(checked, checked.counts)
    if checked.refusal is not None:
        raise checked.refusal
    return 0


def _expected(checked: CheckedRun) -> list[CostBound]:
    """What will be asked; of a run that exists, for the trials that a resume would run."""
    bounds = cost_bounds(checked.prepared)
    if checked.to_ask is None:
        return bounds
    return [bound.of_trials(count) for bound in bounds if (count := checked.to_ask.get((bound.task, bound.model), 0))]


def _as_object(checked: CheckedRun, expected: list[CostBound]) -> dict[str, Any]:
    prepared = checked.prepared
    plan = {"name": prepared.spec.name, "planned": prepared.planned, "plan": plan_entries(prepared)}
    found = {"existing": _existing(checked), "warnings": list(checked.warnings), "opaque": _opaque_values(prepared)}
    forecast = [{**msgspec.to_builtins(bound), "cost": bound.cost, "most_cost": bound.most_cost} for bound in expected]
    return {
        **plan,
        "grid": _grid_objects(prepared),
        "forecast": forecast,
        "total": _total_object(prepared, expected),
        **found,
    }


def _total_object(prepared: PreparedEval, expected: list[CostBound]) -> dict[str, Any]:
    """The sums of the forecast, judges included; null where a part of one is not known."""
    judges = [judge for bound in expected for judge in bound.judges.values()]
    return {
        "trials": sum(bound.trials for bound in expected),
        "calls": _sum([*(bound.calls for bound in expected), *(judge.calls for judge in judges)]),
        "cost": _sum([*(bound.cost for bound in expected), *(judge.cost for judge in judges)]),
        "most_calls": _sum([*(bound.most_calls for bound in expected), *(judge.most_calls for judge in judges)]),
        "most_cost": _sum([*(bound.most_cost for bound in expected), *(judge.most_cost for judge in judges)]),
        "is_lower_bound": bool(judges) or any(bound.is_lower_bound for bound in expected),
        "currency": prepared.spec.currency or USD,
    }


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    total = math.fsum(known) if any(isinstance(part, float) for part in known) else sum(known)
    return total if len(known) == len(parts) else None


def _error_object(refusal: ConfigurationError | None) -> dict[str, str]:
    """The keys of every error."""
    return {} if refusal is None else {"error": refusal.message, "kind": refusal.kind, "hint": refusal.hint}


def _existing(checked: CheckedRun) -> dict[str, Any] | None:
    """Of a run that exists: how it would be resumed."""
    if checked.decision is None:
        return None
    found = {"counts": checked.counts, "changes": checked.decision.changes}
    return {**found, "growth": checked.growth, "remaining": checked.remaining}


def _print_resumed(checked: CheckedRun, counts: StateCounts) -> None:
    """Of a run that exists: what a resume would run and cost, and nothing of what it has."""
    done = f"{counts.finished} of {counts.planned} trials are finished"
    click.echo(f"The run exists and would be resumed: {done}, {counts.remaining_text()}.")
    for change in checked.decision.changes if checked.decision else []:
        click.echo(f"  {change.path}: {change_text(change.old, change.new)}")
    for line in growth_lines(checked.growth):
        click.echo(line)
    if checked.remaining is not None:
        click.echo(remaining_line(checked.remaining))
    run = f"{quantity(counts.to_run, 'trial')} would be run" if counts.to_run else "Nothing would be run"
    click.echo(f"{run}; nothing was called or written.")


def _print_plan(prepared: PreparedEval, expected: list[CostBound]) -> None:
    currency = prepared.spec.currency or USD
    for task in prepared.tasks:
        axes = f" x {_combinations_text(task)}" if len(task.axes) > 1 else ""
        epochs = f" x {task.epochs} epochs" if task.epochs > 1 else ""
        # Where a value has its own model, models have different numbers of combinations.
        models = f" x {quantity(len(task.models), 'model')}" if task.by_model is None else ""
        asked = f"{quantity(len(task.dataset), 'sample')}{axes}{epochs}{models}"
        click.echo(f"{task.name}: {asked} = {quantity(task.planned, 'trial')}")
        for line in _grid_lines(task):
            click.echo(f"  {line}")
        click.echo(f"  models: {', '.join(task.models)}; scorers: {', '.join(shown_names(task.task.scorers))}")
        for item in expected:
            if item.task == task.name:
                click.echo(f"  {_forecast_text(item, currency)}")
                for line in (*_sampling_lines(item, currency), *_judge_lines(item, currency)):
                    click.echo(f"    {line}")
    for line in _total_lines(prepared, expected):
        click.echo(line)
    if line := opaque_line(_opaque_values(prepared)):
        click.echo(line)


def _combinations_text(task: PlannedTask) -> str:
    """How many combinations are asked: those of a prompt's variants alone are variants."""
    if not task.axes[0].keys() - {"prompt"}:
        return f"{len(task.axes)} variants"
    count = len(task.axes)
    if task.by_model is not None:
        count = sum(map(len, task.by_model.values()))
    return f"{count} combinations{' of axes and models' if task.by_model is not None else ''}"


def _grid_lines(task: PlannedTask) -> Iterator[str]:
    """The axes of a task, with the number of trials for each value; none where only its prompt varies."""
    counts = _grid_counts(task)
    if not counts.keys() - {"prompt"}:
        return
    sizes = " x ".join(f"{len(values)} {axis}" for axis, values in counts.items())
    yield f"grid: {sizes}{_left_out_text(task, counts)}"
    for axis, values in counts.items():
        shown = [f"{value} {count}" for value, count in list(values.items())[:_SHOWN_VALUES]]
        more = f", and {len(values) - _SHOWN_VALUES} more values" if len(values) > _SHOWN_VALUES else ""
        yield f"  {axis}: {', '.join(shown)}{more}"
    grid = task.task.grid
    for axis, dependent in (grid.dependencies if grid is not None else {}).items():
        for value, entry in dependent.items():
            yield f"  {axis} {value} starts when {list_text(entry.best_of)} are finished, and takes the best of them"


def _left_out_text(task: PlannedTask, counts: Mapping[str, Mapping[str, int]]) -> str:
    every = math.prod(map(len, counts.values()))
    return "" if len(task.axes) == every else f" = {every}, {len(task.axes)} after include and exclude"


def _grid_counts(task: PlannedTask) -> dict[str, dict[str, int]]:
    """By axis and value, how many trials there are, of all models."""
    found: dict[str, dict[str, int]] = {}
    for model in task.models:
        for axis, values in task.planned_by_value(model).items():
            for value, count in values.items():
                known = found.setdefault(axis, {})
                known[value] = known.get(value, 0) + count
    order = {axis: list(values) for axis, values in task.task.axes.items()}
    return {
        axis: {value: values[value] for value in order.get(axis, list(values)) if value in values}
        for axis, values in found.items()
    }


def _grid_objects(prepared: PreparedEval) -> dict[str, Any]:
    """The same for every task with axes, with the number of combinations."""
    return {
        task.name: {"combinations": len(task.axes), "trials": task.planned, "axes": _grid_counts(task)}
        for task in prepared.tasks
        if task.axes and task.axes[0]
    }


def _opaque_values(prepared: PreparedEval) -> dict[str, str]:
    """What a resume could not compare of the tasks' code."""
    return opaque_values([task.task.taken.salted("00") for task in prepared.tasks])


def _forecast_text(item: CostBound, currency: str) -> str:
    if item.calls is None or item.most_calls is None:
        return f"{item.model}: as many calls as the task's own code makes"
    most, about = "up to " if item.sampling or item.turns else "", _about(item.is_lower_bound)
    planned = "" if item.cost is None else f" ({about} {money_text(item.cost, currency)})"
    calls = f"{most}{quantity(item.calls, 'call')}{planned}"
    if item.most_calls == item.calls:
        return f"{item.model}: {calls}"
    cost = "" if item.most_cost is None else f", which would cost {about} {money_text(item.most_cost, currency)}"
    return f"{item.model}: {calls}, or {item.most_calls} if every attempt fails in your code and is retried{cost}"


def _about(is_lower_bound: bool) -> str:  # noqa: FBT001 - the one thing it is about
    return "at least" if is_lower_bound else "up to about"


def _total_lines(prepared: PreparedEval, expected: list[CostBound]) -> Iterator[str]:
    """What all of it costs, and for which models no cost can be given although they have a price."""
    costs = [(item.cost, item.most_cost) for item in expected if item.cost is not None and item.most_cost is not None]
    judged = [item.judging_costs for item in expected if item.judges]
    known = [found for found in judged if found is not None]
    if costs and len(costs) == len(expected) and len(known) == len(judged) and (len(costs) > 1 or judged):
        planned, most = map(math.fsum, zip(*costs, *known, strict=True))
        who = "all models and judges" if judged else "all models"
        about = _about(bool(judged) or any(item.is_lower_bound for item in expected))
        currency = prepared.spec.currency or USD
        worst = _worst_text(planned, most, currency, judged=bool(judged))
        yield f"{who}: {about} {money_text(planned, currency)}{worst}"
    unbounded = {
        item.model
        for item in expected
        if item.calls is not None and item.cost is None and not item.sampling and not item.turns
    }
    if priced := sorted(name for name in unbounded if prepared.spec.models[name].price is not None):
        names = ", ".join(priced)
        yield f"No cost is given for {names}: set generation.max_tokens to get an upper bound of the cost."


def _worst_text(planned: float, most: float, currency: str, *, judged: bool) -> str:
    """What it would be if everything that can be asked again is asked again; nothing where that is the same."""
    if money_text(most, currency) == money_text(planned, currency):
        # Two sums of the same figures may differ in their last digit.
        return ""
    why = "attempts fail or verdicts have to be asked for twice" if judged else "every attempt fails"
    return f", or {money_text(most, currency)} if {why}"


def _sampling_lines(item: CostBound, currency: str) -> Iterator[str]:
    """What a sampling adds to the forecast: its shape, and which models it may ask how often."""
    shape = item.sampling
    if shape is None:
        return
    drawn = f"{quantity(shape.lanes, 'lane')} x {quantity(shape.turns, 'turn')}"
    judged = ", judges included" if shape.calls > shape.lanes * shape.turns else ""
    yield f"{shape.strategy}: {drawn}, up to {quantity(shape.calls, 'call')} a trial{judged}"
    if shape.lanes > 1:
        yield f"lanes multiply requests: {shape.lanes} calls are made, and paid for, where one could do"
    if len(item.by_model) > 1:
        asked = [f"{name} {bound.calls}{_cost_of(bound.cost, currency)}" for name, bound in item.by_model.items()]
        yield f"maximum calls of each model: {', '.join(asked)}"


def _judge_lines(item: CostBound, currency: str) -> Iterator[str]:
    """How often each judge may be asked beside that."""
    for name, bound in item.judges.items():
        cost, most = (
            "" if one is None else f" (at least {money_text(one, currency)})" for one in (bound.cost, bound.most_cost)
        )
        calls = f"{quantity(bound.calls, 'call')}{cost}"
        yield f"{name}, as a judge: {calls}, or {bound.most_calls} if every verdict has to be asked for twice{most}"


def _cost_of(cost: float | None, currency: str) -> str:
    return "" if cost is None else f" ({money_text(cost, currency)})"
