"""`holdfast resume`: go on with a run, from the run alone or with changes that the gate lets pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from holdfast.cli.main import print_json
from holdfast.cli.ui.execute import carry_out, tell_kept
from holdfast.engine.opening.complete_run import find_complete_run
from holdfast.engine.opening.remote_run import resume_remote_run, upload_rest
from holdfast.engine.opening.resume import resume_run
from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.errors import ConfigurationError, UsageError
from holdfast.run.core.reader import RunReader
from holdfast.run.locate import find_run
from holdfast.spec import EvalSpec, load_eval, parse_arguments, resolve
from holdfast.spec.loading.override import override
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
    return go_on(run if is_url(run) else str(root), offered_eval(root, settings, eval_file), as_json=as_json)


def go_on(run: str, offered: EvalSpec | None = None, *, as_json: bool, reuse: ReusableReplies | None = None) -> int:
    """Executes what is owed of a run; where nothing is, says so and opens no session."""
    complete = find_complete_run(find_run(run), offered)
    if complete is None:
        started = resume_remote_run(run, offered=offered) if is_url(run) else resume_run(Path(run), offered=offered)
        if reuse is not None:
            reuse.leave_out(started.session.reader)
        return carry_out(replace(started, reuse=reuse), as_json=as_json, resumed=True)
    if is_url(run):
        upload_rest(run)
    tell_kept(complete.kept, complete.note)
    exit_code = int(complete.blocked > 0)
    if as_json:
        counts = {"planned": complete.planned, "finished": complete.planned, "failed": 0, "owed": 0}
        print_json({"run": run, "state": "complete", **counts, "exit_code": exit_code})
    else:
        told = f", {complete.blocked} of them blocked" if complete.blocked else ""
        click.echo(f"{run}: complete, {complete.planned} of {complete.planned}{told}.")
    return exit_code


def offered_eval(root: Path, settings: tuple[str, ...], eval_file: Path | None) -> EvalSpec | None:
    """The eval that --config and --set offer; None if neither is given."""
    if eval_file is None and not settings:
        return None
    spec = own_eval(root) if eval_file is None else edited_eval(eval_file)
    try:
        return resolve(override(spec, dict(parse_arguments(settings))), "the command line")
    except ConfigurationError as error:
        raise UsageError(error.message, hint=error.hint) from None


def edited_eval(eval_file: Path) -> EvalSpec:
    """The eval in a file that is offered to a run.

    Raises:
        UsageError: it is Python, of which a run knows where its tasks are.
    """
    if eval_file.suffix == ".py":
        raise UsageError(
            f"{eval_file} is a Python file, and not an eval file.",
            hint="A run takes the code of its tasks as it is now; settings are changed with --set.",
        )
    return resolve(load_eval(eval_file), str(eval_file))


def own_eval(root: Path) -> EvalSpec:
    """The eval that a run has."""
    reader = RunReader(root)
    try:
        return saved_eval(last_session(reader))
    finally:
        reader.close()
