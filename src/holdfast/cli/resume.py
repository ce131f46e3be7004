"""`holdfast resume`: go on with a run, from the run alone."""

from __future__ import annotations

import click

from holdfast.cli.execute import carry_out
from holdfast.cli.main import print_json
from holdfast.engine.begin import begin_resume, last_session
from holdfast.run.find import find_run
from holdfast.run.reading import RunReader


@click.command("resume")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, as_json: bool) -> int:
    """Go on with RUN after an interrupt, a kill or a power loss. Everything comes from the run."""
    root = find_run(run)
    reader = RunReader(root)
    try:
        planned = last_session(reader).planned
        finished = sum(1 for _ in reader.finished())
    finally:
        reader.close()
    if planned and finished >= planned:
        if as_json:
            print_json({"run": str(root), "state": "complete", "planned": planned, "finished": finished, "owed": 0})
        else:
            click.echo(f"{root}: complete, {finished} of {planned}.")
        return 0
    return carry_out(begin_resume(root), as_json=as_json, resumed=True)
