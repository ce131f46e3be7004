"""`holdfast resume`: go on with a run, from the run alone or with changes that the gate lets pass."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.execute import carry_out
from holdfast.cli.main import print_json
from holdfast.engine.begin import begin_resume, last_session
from holdfast.engine.examine import Examiner, saved_eval
from holdfast.engine.remote import begin_remote_resume
from holdfast.engine.reuse import Reuse
from holdfast.errors import ConfigurationError, UsageError
from holdfast.run.find import find_run
from holdfast.run.lacking import lacking_scores
from holdfast.run.reading import RunReader
from holdfast.run.records import Status, decode_summary
from holdfast.spec import EvalSpec, load_eval, parse_argument, resolve
from holdfast.spec.override import override
from holdfast.storage.remote import is_url


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


def go_on(run: str, offered: EvalSpec | None = None, *, as_json: bool, reuse: Reuse | None = None) -> int:
    """Executes what is owed of a run; where nothing is, says so and opens no session."""
    reader = RunReader(find_run(run))
    try:
        planned = last_session(reader).planned
        finished = sum(1 for _ in reader.finished()) - len(lacking_scores(reader))
        complete = 0 < planned <= finished and not _changes(reader, offered)
        blocked = _blocked(reader) if complete else 0
    finally:
        reader.close()
    if not complete:
        begun = begin_remote_resume(run, offered=offered) if is_url(run) else begin_resume(Path(run), offered=offered)
        begun.reuse = reuse
        return carry_out(begun, as_json=as_json, resumed=True)
    if as_json:
        counts = {"planned": planned, "finished": finished, "failed": 0, "owed": 0}
        print_json({"run": run, "state": "complete", **counts, "exit_code": int(blocked > 0)})
    else:
        told = f", {blocked} of them blocked" if blocked else ""
        click.echo(f"{run}: complete, {finished} of {planned}{told}.")
    return int(blocked > 0)


def _changes(reader: RunReader, offered: EvalSpec | None) -> bool:
    """Whether what is offered, if anything is, changes the run; raises where the gate refuses it."""
    if offered is None:
        return False
    passage = Examiner(reader, offered, None).examine()
    passage.inputs.close()
    return bool(passage.decision.changes)


def offered_eval(root: Path, settings: tuple[str, ...], eval_file: Path | None) -> EvalSpec | None:
    """The eval that --config and --set offer; None if neither is given."""
    if eval_file is None and not settings:
        return None
    spec = _saved(root) if eval_file is None else resolve(load_eval(eval_file), str(eval_file))
    try:
        return resolve(override(spec, dict(parse_argument(text) for text in settings)), "the command line")
    except ConfigurationError as error:
        raise UsageError(error.message, hint=error.hint) from None


def _saved(root: Path) -> EvalSpec:
    reader = RunReader(root)
    try:
        return saved_eval(last_session(reader))
    finally:
        reader.close()


def _blocked(reader: RunReader) -> int:
    """How many attempts ended because a content policy stepped in; such a trial is kept, and is no valid one."""
    rows = reader.index.rows("trial")
    return sum(decode_summary(row.data or b"").status == Status.BLOCKED.value for row in rows)
