"""`holdfast resume`: go on with a run, from the run alone or with changes that the gate lets pass."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.execute import carry_out
from holdfast.cli.main import print_json
from holdfast.engine.begin import begin_resume, last_session
from holdfast.engine.examine import saved_eval
from holdfast.errors import ConfigurationError, UsageError
from holdfast.run.find import find_run
from holdfast.run.lacking import lacking_scores
from holdfast.run.reading import RunReader
from holdfast.run.records import Session
from holdfast.spec import EvalSpec, load_eval, parse_argument, resolve
from holdfast.spec.override import override


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
    session, finished = _last(root)
    offered = offered_eval(session, settings, eval_file)
    if offered is None and session.planned and finished >= session.planned:
        if as_json:
            told = {"run": str(root), "state": "complete", "planned": session.planned, "finished": finished, "owed": 0}
            print_json(told)
        else:
            click.echo(f"{root}: complete, {finished} of {session.planned}.")
        return 0
    return carry_out(begin_resume(root, offered=offered), as_json=as_json, resumed=True)


def _last(root: Path) -> tuple[Session, int]:
    reader = RunReader(root)
    try:
        return last_session(reader), sum(1 for _ in reader.finished()) - len(lacking_scores(reader))
    finally:
        reader.close()


def offered_eval(session: Session, settings: tuple[str, ...], eval_file: Path | None) -> EvalSpec | None:
    """The eval that --config and --set offer; None if neither is given."""
    if eval_file is None and not settings:
        return None
    spec = saved_eval(session) if eval_file is None else resolve(load_eval(eval_file), str(eval_file))
    try:
        return resolve(override(spec, dict(parse_argument(text) for text in settings)), "the command line")
    except ConfigurationError as error:
        raise UsageError(error.message, hint=error.hint) from None
