"""`holdfast fork`: a new run with another eval, which keeps every trial that the change does not touch."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import click

from holdfast.cli.session.messages import print_warnings
from holdfast.cli.session.offered_eval import naming_offer, offer_eval
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.terminal_text import quantity
from holdfast.engine.opening.fork import ForkSummary, fork_run
from holdfast.engine.opening.new_run import default_root
from holdfast.engine.planning.saved_eval import eval_directory, last_session, saved_eval
from holdfast.models.env_file import read_env_file
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import find_run
from holdfast.spec import EvalSpec


@click.command("fork")
@click.argument("run")
@click.option("--config", "eval_file", type=click.Path(path_type=Path), help="The eval of the new run.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting of the eval.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Directory for the new run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, eval_file: Path | None, settings: tuple[str, ...], run_dir: Path | None, *, as_json: bool) -> int:
    """Make a new run with an edited eval, and keep every trial of RUN whose answer would be the same.

    Without --config it has the run's own eval, with the data and the code as they are now. Nothing is called; `holdfast
    resume` runs what remains.
    """
    root = find_run(run)
    spec = _forked_eval(root, settings, eval_file)
    with naming_offer(eval_file):
        started, forked = fork_run(root, spec, run_dir or default_root(spec), origin=str(eval_file or root))
    print_warnings(started.warnings)
    started.session.close("forked")
    if as_json:
        print_json(forked)
    else:
        _print_fork(forked)
    return 0


def _forked_eval(root: Path, settings: tuple[str, ...], eval_file: Path | None) -> EvalSpec:
    with contextlib.closing(RunReader(root)) as reader:
        last = last_session(reader)
        print_warnings(read_env_file(eval_directory(last)))
        saved = saved_eval(last)
    offer = offer_eval(settings, eval_file)
    return saved if offer is None else offer(saved)


def _print_fork(forked: ForkSummary) -> None:
    click.echo(f"{forked.run}: {quantity(forked.planned, 'trial')} planned, {forked.taken} kept.")
    if forked.rescored:
        click.echo(f"  {forked.rescored} kept with their answers, to be scored again")
    for why, count in sorted(forked.remaining_by_reason.items()):
        click.echo(f"  {count} remaining: {why}")
    if forked.cost:
        click.echo(f"  the remaining trials will cost about {forked.cost:.4f}, by what trials have cost so far")
    click.echo(f"Resume with: holdfast resume {shlex.quote(forked.run)}")
