"""`holdfast resume`: go on with a run, from the run alone."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.execute import carry_out
from holdfast.cli.main import print_json
from holdfast.engine.begin import begin_resume, last_session
from holdfast.run.find import find_run
from holdfast.run.reading import RunReader
from holdfast.run.records import Status, decode_summary


@click.command("resume")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, as_json: bool) -> int:
    """Go on with RUN after an interrupt, a kill or a power loss. Everything comes from the run."""
    return go_on(find_run(run), as_json=as_json)


def go_on(root: Path, *, as_json: bool) -> int:
    """Executes what is owed of a run; where nothing is, says so and opens no session."""
    reader = RunReader(root)
    try:
        planned = last_session(reader).planned
        finished = sum(1 for _ in reader.finished())
        complete = 0 < planned <= finished
        blocked = _blocked(reader) if complete else 0
    finally:
        reader.close()
    if not complete:
        return carry_out(begin_resume(root), as_json=as_json, resumed=True)
    if as_json:
        counts = {"planned": planned, "finished": finished, "failed": 0, "owed": 0}
        print_json({"run": str(root), "state": "complete", **counts, "exit_code": int(blocked > 0)})
    else:
        told = f", {blocked} of them blocked" if blocked else ""
        click.echo(f"{root}: complete, {finished} of {planned}{told}.")
    return int(blocked > 0)


def _blocked(reader: RunReader) -> int:
    """How many attempts ended because a content policy stepped in; such a trial is kept, and is no valid one."""
    rows = reader.index.rows("trial")
    return sum(decode_summary(row.data or b"").status == Status.BLOCKED.value for row in rows)
