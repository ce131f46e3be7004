"""`holdfast run`: start a run of an eval file or of a Python task."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from holdfast.analysis.fail_under import ScoreBound, check_bounds
from holdfast.api.start import RunRequest, refuse_unknown_scheme, start_session
from holdfast.cli.session.execute import run_in_foreground
from holdfast.cli.ui.fail_under_option import fail_under_option
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.terminal_text import quantity
from holdfast.engine.opening.new_run import plan_entries
from holdfast.engine.planning.cost import CostBound, cost_bounds
from holdfast.engine.planning.inputs import FreshInputs
from holdfast.engine.planning.prepared_eval import PreparedEval, prepare_eval
from holdfast.errors import UsageError
from holdfast.run.session.create import refuse_existing
from holdfast.spec import EvalSpec, eval_from_flags, load_eval, parse_arguments, resolve
from holdfast.spec.loading.error_messages import naming_source
from holdfast.spec.override import override
from holdfast.storage.object_store import is_url
from holdfast.tasks.task_reference import task_names


@click.command("run")
@click.argument("eval_file", metavar="EVAL")
@click.option("--model", "models", multiple=True, help="A model, as provider/name; for a Python file.")
@click.option("--epochs", type=int, help="Repetitions of every sample.")
@click.option("--limit", type=int, help="Only the first N samples of every task.")
@click.option("--sample-id", "sample_ids", multiple=True, help="Only the sample with this id; may be repeated.")
@click.option("-T", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument of a Python task.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any key of the eval file.")
@click.option("--run-dir", metavar="PATH|URL", help="Directory for this run, or a URL in an object store.")
@click.option("--or-resume", is_flag=True, help="Resume if --run-dir already holds the run.")
@click.option("--reuse", multiple=True, metavar="RUN", help="Take replies to identical requests from this run.")
@fail_under_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    eval_file: str,
    run_dir: str | None,
    reuse: tuple[str, ...],
    bounds: list[ScoreBound],
    *,
    or_resume: bool,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Start a run of EVAL: an eval file (.yaml), or a Python file with tasks (file.py or file.py:name)."""
    spec = _eval_from_options(eval_file, **flags)
    if or_resume and run_dir is None:
        raise UsageError("--or-resume needs --run-dir.", hint="Name the directory that a restart will find again.")
    if dry_run:
        with naming_source(eval_file):
            return _dry_run(spec, run_dir, bounds, or_resume=or_resume, as_json=as_json)
    check_plan = partial(check_bounds, bounds)
    request = RunRequest(spec, run_dir or None, or_resume, reuse=reuse, source=eval_file, check_plan=check_plan)
    with naming_source(eval_file):
        started = start_session(request)
    return run_in_foreground(started, as_json=as_json, bounds=bounds)


def _eval_from_options(
    eval_file: str,
    models: tuple[str, ...],
    epochs: int | None,
    limit: int | None,
    sample_ids: tuple[str, ...],
    arguments: tuple[str, ...],
    settings: tuple[str, ...],
) -> EvalSpec:
    tasks = {"epochs": epochs, "limit": limit, "sample_ids": list(sample_ids) or None}
    args = dict(parse_arguments(arguments))
    if _is_python(eval_file):
        spec = eval_from_flags(task_names(eval_file, Path.cwd()), models, args=args)
    else:
        spec = load_eval(Path(eval_file))
        if models or args:
            flag = "--model" if models else "-T"
            raise UsageError(f"{flag} is for a Python file; {eval_file} is an eval file.", hint="Name it there.")
    changes: dict[str | tuple[str, ...], Any] = {
        ("tasks", name, key): value for name in spec.tasks for key, value in tasks.items() if value is not None
    }
    changes |= dict(parse_arguments(settings))
    return resolve(override(spec, changes), eval_file)


def _is_python(eval_file: str) -> bool:
    return eval_file.partition(":")[0].endswith(".py") or (":" in eval_file and not Path(eval_file).exists())


def _dry_run(spec: EvalSpec, run_dir: str | None, bounds: list[ScoreBound], *, or_resume: bool, as_json: bool) -> int:
    refuse_unknown_scheme(run_dir)
    if run_dir is not None and not or_resume and not is_url(run_dir):
        refuse_existing(Path(run_dir).absolute())
    inputs = FreshInputs()
    try:
        prepared = prepare_eval(spec, inputs)
        check_bounds(bounds, plan_entries(prepared))
        expected = cost_bounds(prepared)
    finally:
        inputs.close()
    if as_json:
        plan = plan_entries(prepared)
        print_json({"name": spec.name, "planned": prepared.planned, "plan": plan, "forecast": expected})
    else:
        _print_plan(prepared, expected)
    return 0


def _print_plan(prepared: PreparedEval, expected: list[CostBound]) -> None:
    for task in prepared.tasks:
        axes = f" x {len(task.axes)} variants" if len(task.axes) > 1 else ""
        epochs = f" x {task.epochs} epochs" if task.epochs > 1 else ""
        asked = f"{quantity(len(task.dataset), 'sample')}{axes}{epochs} x {quantity(len(task.models), 'model')}"
        click.echo(f"{task.name}: {asked} = {quantity(task.planned, 'trial')}")
        click.echo(f"  models: {', '.join(task.models)}; scorers: {', '.join(s.name for s in task.task.scorers)}")
        for item in expected:
            if item.task == task.name:
                click.echo(f"  {_forecast_text(item)}")
                for line in _sampling_lines(item):
                    click.echo(f"    {line}")
    click.echo(f"{quantity(prepared.planned, 'trial')} in all; nothing was called or written.")


def _forecast_text(item: CostBound) -> str:
    if item.calls is None or item.most_calls is None:
        return f"{item.model}: as many calls as the task's own code makes"
    most = "up to " if item.sampling else ""
    about = "at least" if item.is_lower_bound else "about"
    cost = "" if item.most_cost is None else f", which would cost {about} {item.most_cost:.4f}"
    return f"{item.model}: {most}{quantity(item.calls, 'call')}, or {item.most_calls} if every attempt fails{cost}"


def _sampling_lines(item: CostBound) -> Iterator[str]:
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
        costs = {name: "" if bound.cost is None else f" ({bound.cost:.4f})" for name, bound in item.by_model.items()}
        asked = [f"{name} {bound.calls}{costs[name]}" for name, bound in item.by_model.items()]
        yield f"calls of each model at the most: {', '.join(asked)}"
