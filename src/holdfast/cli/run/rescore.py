"""`holdfast rescore`: score the answers of a run with new or changed scorers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from holdfast.analysis.fail_under import ScoreBound, check_bounds
from holdfast.api.offered_eval import naming_offer, offer_eval
from holdfast.api.start import rescore_session
from holdfast.cli.session.execute import run_in_foreground
from holdfast.cli.session.output_options import SessionOutput, output_options
from holdfast.cli.session.warning_lines import print_env_warnings
from holdfast.cli.ui.options.fail_under_option import fail_under_option
from holdfast.cli.ui.standard_streams import say
from holdfast.run.locate import LATEST
from holdfast.spec import parse_arguments


@click.command("rescore")
@click.argument("run", default=LATEST)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting; may be repeated.")
@click.option("--config", "eval_file", type=click.Path(path_type=Path), help="Score as this edited eval file says.")
@click.option("--where", metavar="EXPR", help="Fill only matching scores, as in: judge=b and tier=T2")
@fail_under_option
@output_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str,
    settings: tuple[str, ...],
    eval_file: Path | None,
    where: str | None,
    bounds: list[ScoreBound],
    *,
    as_json: bool,
    output: SessionOutput,
) -> int:
    """Score the recorded answers of RUN with new or changed scorers. Without RUN, the newest run.

    The model under test is not called. Earlier scores are kept: the report shows those of a changed scorer as
    NAME@VERSION. An interrupted rescore continues with the same command, or with `holdfast resume`.

    Without --config and --set, the scorers are those of the run, with their code as it is now.
    """
    print_env_warnings(eval_file)
    offer = offer_eval(dict(parse_arguments(settings)), eval_file, settings=settings)
    with naming_offer(eval_file):
        started = rescore_session(run, offer, where, partial(check_bounds, bounds))
    for path in offer.idle if offer is not None else ():
        say(f"note: --set {path} changes nothing: it has that value already.")
    return run_in_foreground(started, as_json=as_json, bounds=bounds, output=output)
