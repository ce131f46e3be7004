"""What remains of a run, executed in the foreground; where nothing remains, that is printed instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from holdfast.cli.session.execute import execute_session
from holdfast.cli.session.messages import print_kept
from holdfast.cli.ui.json_output import print_json
from holdfast.engine.opening.complete_run import CompleteRun, find_complete_run
from holdfast.engine.opening.remote_run import resume_remote_run, upload_rest
from holdfast.engine.opening.resume import resume_run
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.run.locate import find_run
from holdfast.spec import EvalSpec
from holdfast.storage.object_store import is_url


def resume_if_incomplete(
    run: str, offered: EvalSpec | None = None, *, as_json: bool, reuse: ReusableReplies | None = None
) -> int:
    """Executes a session on what remains of a run; where nothing remains, prints that and opens no session."""
    complete = find_complete_run(find_run(run), offered)
    if complete is not None:
        return _print_complete(run, complete, as_json=as_json)
    started = resume_remote_run(run, offered=offered) if is_url(run) else resume_run(Path(run), offered=offered)
    if reuse is not None:
        reuse.leave_out(started.session.reader)
    return execute_session(replace(started, reuse=reuse), as_json=as_json, resumed=True)


def _print_complete(run: str, complete: CompleteRun, *, as_json: bool) -> int:
    if is_url(run):
        upload_rest(run)
    print_kept(complete.kept, complete.note)
    exit_code = int(complete.blocked > 0)
    if as_json:
        counts = {"planned": complete.planned, "finished": complete.planned, "failed": 0, "owed": 0}
        print_json({"run": run, "state": "complete", **counts, "exit_code": exit_code})
    else:
        blocked = f", {complete.blocked} of them blocked" if complete.blocked else ""
        click.echo(f"{run}: complete, {complete.planned} of {complete.planned}{blocked}.")
    return exit_code
