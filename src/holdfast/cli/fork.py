"""`holdfast fork`: a new run with another eval, which keeps every trial that the change does not touch."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from holdfast.cli.main import print_json
from holdfast.cli.resume import offered_eval, own_eval
from holdfast.cli.ui.printable import many
from holdfast.engine.opening.fork import ForkSummary, fork_run
from holdfast.engine.opening.start import default_root
from holdfast.run.locate import find_run


@click.command("fork")
@click.argument("run")
@click.option("--config", "eval_file", type=click.Path(path_type=Path), help="The eval of the new run.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting of the eval.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Put the new run exactly there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, eval_file: Path | None, settings: tuple[str, ...], run_dir: Path | None, *, as_json: bool) -> int:
    """Make a new run with an edited eval, and take over every trial of RUN whose answer would be the same.

    Without --config it has the run's own eval, with the data and the code as they are now. Nothing is called; `holdfast
    resume` goes on with the new run.
    """
    root = find_run(run)
    spec = offered_eval(root, settings, eval_file) or own_eval(root)
    started, told = fork_run(root, spec, run_dir or default_root(spec), origin=str(eval_file or root))
    finished = sum(1 for _ in started.session.reader.finished())
    started.session.close("forked", finished=finished, planned=told.planned)
    if as_json:
        print_json(told)
    else:
        _print(told)
    return 0


def _print(told: ForkSummary) -> None:
    click.echo(f"{told.run}: {many(told.planned, 'trial')} planned, {told.taken} taken over.")
    if told.rescored:
        click.echo(f"  {told.rescored} taken over with their answers, to be scored again")
    for why, count in sorted(told.owed.items()):
        click.echo(f"  {count} owed: {why}")
    if told.cost:
        click.echo(f"  what is owed will cost about {told.cost:.4f}, by what trials have cost so far")
    click.echo(f"Go on with: holdfast resume {shlex.quote(told.run)}")
