"""What `run` and `resume` share: showing a session at work, and telling how it ended."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from holdfast.cli.display import Display
from holdfast.cli.main import print_json
from holdfast.engine.begin import Begun, owed_and_why
from holdfast.engine.execution import Ended, Execution
from holdfast.engine.reuse import Reuse
from holdfast.run.gate import change_text


def announce(begun: Begun, *, resumed: bool) -> None:
    """Says which run it is, what is finished, and what is owed and why, before the first call."""
    session = begun.session.session
    counts = owed_and_why(begun.session.reader, begun.prepared.planned)
    if not resumed:
        _say(f"Run {begun.root}: {counts['owed']} trials to do.")
        return
    changed = "the configuration saved in the run"
    if begun.decision is not None and begun.decision.changes:
        changed += f" and {len(begun.decision.changes)} changes"
    _say(f"Resuming {begun.root} (session {session.number}), with {changed}.")
    _tell_changes(begun)
    reasons = [
        f"{counts[name]} {words}"
        for name, words in (
            ("interrupted", "interrupted"),
            ("failed", "failed before"),
            ("lacking_scores", "not yet scored"),
            ("not_started", "not started"),
        )
        if counts[name]
    ]
    why = f": {', '.join(reasons)}" if reasons else ""
    _say(f"{counts['finished']} of {begun.prepared.planned} trials are finished, {counts['owed']} are owed{why}.")
    for note in begun.session.reader.notes():
        _say(f"note: {note}")


def _tell_changes(begun: Begun) -> None:
    if begun.note:
        _say(f"note: {begun.note}")
    if begun.decision is None:
        return
    for change in begun.decision.changes:
        _say(f"  {change.path}: {change_text(change.old, change.new)}")
    for item in begun.decision.kept:
        _say(f"  {item.path}: {change_text(item.old, item.new)}; the run keeps what it has")


def _say(text: str) -> None:
    click.echo(text, err=True)


def carry_out(begun: Begun, *, as_json: bool, resumed: bool, reuse: Reuse | None = None) -> int:
    """Executes what is owed; the exit code."""
    announce(begun, resumed=resumed)
    ended = asyncio.run(_execute(begun, reuse))
    if reuse is not None:
        _say(f"{reuse.taken} replies were taken from other runs.")
    if ended.warning:
        _say(f"holdfast: {ended.warning}")
    if as_json:
        print_json(_ended_json(begun, ended))
    else:
        _tell_end(begun, ended)
    return ended.exit_code


async def _execute(begun: Begun, reuse: Reuse | None) -> Ended:
    execution = Execution(begun.session, begun.prepared, reuse=reuse)
    runner = begun.prepared.spec.runner
    if not runner.show_progress:
        return await execution.run()
    async with Display(execution.progress, interval=runner.progress_interval).shown():
        return await execution.run()


def _tell_end(begun: Begun, ended: Ended) -> None:
    if ended.exit_code == 0:
        click.echo(f"Complete: {ended.finished} of {ended.planned} trials.")
        click.echo(f"See: holdfast report {begun.root}")
        return
    failed = f", {ended.failed} failed" if ended.failed else ""
    click.echo(
        f"Stopped ({ended.how}): {ended.finished} of {ended.planned} trials finished, {ended.owed} owed{failed}."
    )
    click.echo(f"Go on with: holdfast resume {begun.root}")


def _ended_json(begun: Begun, ended: Ended) -> dict[str, Any]:
    return {
        "run": str(begun.root),
        "state": "complete" if ended.owed == 0 else "incomplete",
        "how": ended.how,
        "exit_code": ended.exit_code,
        "planned": ended.planned,
        "finished": ended.finished,
        "failed": ended.failed,
        "owed": ended.owed,
        "warning": ended.warning,
    }
