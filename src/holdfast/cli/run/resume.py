"""`holdfast resume`: resume a run, as it is or with changes that the gate allows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from holdfast.analysis.fail_under import ScoreBound, check_bounds
from holdfast.api.offered_eval import naming_offer, offer_eval
from holdfast.api.start import resume_session
from holdfast.cli.session.execute import run_in_foreground
from holdfast.cli.session.output_options import SessionOutput, output_options
from holdfast.cli.session.warning_lines import print_env_warnings
from holdfast.cli.ui.options.fail_under_option import fail_under_option
from holdfast.cli.ui.options.stage_options import from_option, until_option
from holdfast.cli.ui.standard_streams import say
from holdfast.engine.planning.selection import SelectionRequest
from holdfast.errors import UsageError
from holdfast.run.locate import LATEST
from holdfast.spec import parse_arguments


@click.command("resume")
@click.argument("run", default=LATEST)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting; may be repeated.")
@click.option("--config", "eval_file", type=click.Path(path_type=Path), help="Resume with this edited eval file.")
@click.option(
    "--where", metavar="EXPR", help="Run only matching trials of those that remain, as in: tier=T0 and epoch=1"
)
@click.option("--redo", metavar="EXPR", help="Also run matching trials again, as in: status=failed")
@from_option
@until_option
@fail_under_option
@output_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(  # noqa: PLR0913 - each is an option
    run: str,
    settings: tuple[str, ...],
    eval_file: Path | None,
    where: str | None,
    redo: str | None,
    start_from: str | None,
    until: str | None,
    bounds: list[ScoreBound],
    *,
    as_json: bool,
    output: SessionOutput,
) -> int:
    """Resume RUN after an interrupt, a kill or a power loss. Without RUN, the newest run.

    No other argument is needed: the eval, the data and the results are in the run.

    Settings that affect only speed or location may be changed, and the eval may grow (more epochs, samples, tasks or
    models). A change that affects results is refused; `holdfast fork` starts a new run with it.
    """
    if start_from and redo is not None:
        raise UsageError("--from and --redo cannot be combined.", hint="Select the trials of --from with --where.")
    selection = SelectionRequest(where, redo, start_from=start_from or "", until=until or "")
    print_env_warnings(eval_file)
    offer = offer_eval(dict(parse_arguments(settings)), eval_file, settings=settings)
    with naming_offer(eval_file):
        started = resume_session(run, offer, selection, partial(check_bounds, bounds))
    for path in offer.idle if offer is not None else ():
        say(f"note: --set {path} changes nothing: it has that value already.")
    return run_in_foreground(started, as_json=as_json, bounds=bounds, output=output)
