"""`holdfast resume`: resume a run, from the run alone or with changes that the gate allows."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.session.offered_eval import offered_eval
from holdfast.cli.session.resume_run import resume_if_incomplete
from holdfast.run.locate import find_run
from holdfast.storage.object_store import is_url


@click.command("resume")
@click.argument("run")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting, if the gate lets it.")
@click.option("--config", "eval_file", type=click.Path(path_type=Path), help="Go on with this edited eval file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, settings: tuple[str, ...], eval_file: Path | None, *, as_json: bool) -> int:
    """Go on with RUN after an interrupt, a kill or a power loss. Everything comes from the run.

    Settings that only concern speed or place may be changed, and an eval may grow; anything else is refused.
    """
    root = find_run(run)
    return resume_if_incomplete(
        run if is_url(run) else str(root), offered_eval(root, settings, eval_file), as_json=as_json
    )
