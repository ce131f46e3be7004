"""`holdfast fork`: a new run with an edited eval, which keeps every trial that the change does not affect."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.analysis.money import money_text
from holdfast.api.fork import make_fork
from holdfast.api.growth_text import likely_cost_text
from holdfast.api.offered_eval import naming_offer, offer_eval
from holdfast.cli.session.warning_lines import print_env_warnings, print_warnings
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.named_run import find_named_run
from holdfast.cli.ui.options.local_path import LocalPath
from holdfast.engine.opening.fork import ForkSummary
from holdfast.run.core.display_text import shell_word
from holdfast.spec import parse_arguments
from holdfast.terminal.text import quantity


@click.command("fork")
@click.argument("run")
@click.option(
    "--config",
    "eval_file",
    type=click.Path(path_type=Path),
    help="The eval file of the new run; default: the eval of RUN.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key of the eval; may be repeated."
)
@click.option("--run-dir", type=LocalPath(), help="Directory for the new run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, eval_file: Path | None, settings: tuple[str, ...], run_dir: Path | None, *, as_json: bool) -> int:
    """Make a new run with an edited eval, and keep every trial of RUN whose answer would be the same.

    Without --config, the new run has the eval of RUN, with the data and the code as they are now. No model is called;
    `holdfast resume` runs the remaining trials.
    """
    offer = offer_eval(dict(parse_arguments(settings)), eval_file)
    print_env_warnings(eval_file)
    with naming_offer(eval_file):
        forked = make_fork(str(find_named_run(run)), offer, run_dir, origin=str(eval_file or ""))
    print_warnings(forked.warnings)
    if as_json:
        print_json(forked)
    else:
        _print_fork(forked)
    return 0


def _or_less(forked: ForkSummary) -> str:
    """How often a trial will ask what the old run has answered is only known once its code has run."""
    if not forked.replies:
        return ""
    replies = "1 recorded reply is" if forked.replies == 1 else f"{forked.replies} recorded replies are"
    return f", or less: {replies} used again where the same is asked"


def _print_fork(forked: ForkSummary) -> None:
    click.echo(f"{forked.run}: {quantity(forked.planned, 'trial')} planned, {forked.taken} kept.")
    if forked.rescored:
        click.echo(f"  {forked.rescored} kept with their answers, to be scored again")
    for why, count in sorted(forked.remaining_by_reason.items()):
        click.echo(f"  {count} remaining: {why if count == 1 else why.replace('its answer', 'their answers')}")
    if forked.saved:
        click.echo(f"  the replies that are kept save about {money_text(forked.saved, forked.currency)}")
    if forked.cost:
        cost = likely_cost_text(forked.cost, forked.currency, forked.without_trials)
        click.echo(f"  the remaining trials will cost about {cost}{_or_less(forked)}")
    place = shell_word(forked.run)
    click.echo(
        f"Complete. See: holdfast report {place}" if forked.is_complete else f"Resume with: holdfast resume {place}"
    )
