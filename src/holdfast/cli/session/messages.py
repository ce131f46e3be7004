"""What a session prints before its first call and at its end: for people on stderr, the result on stdout."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.standard_streams import mute_if_broken, say
from holdfast.cli.ui.terminal_text import quantity
from holdfast.engine.execution import SessionOutcome
from holdfast.engine.opening.new_run import StartedSession
from holdfast.run.core.display_text import change_text
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.remaining_trials import count_remaining, reasons_text, remaining_reasons
from holdfast.spec.compare import Difference


def print_start(started: StartedSession, *, resumed: bool) -> None:
    """Says which run it is, how many trials are finished, and how many remain and why, before the first call."""
    session = started.session.record
    counts = count_remaining(started.session.reader, started.prepared.planned)
    if not resumed:
        say(f"Run {started.place}: {quantity(counts['owed'], 'trial')} to do.")
        return
    changed = "the configuration saved in the run"
    if started.decision is not None and started.decision.changes:
        changed += f" and {quantity(len(started.decision.changes), 'change')}"
    say(f"Resuming {started.place} (session {session.number}), with {changed}.")
    _print_changes(started)
    finished = f"{counts['finished']} of {started.prepared.planned} trials are finished"
    say(f"{finished}, {counts['owed']} are owed{reasons_text(remaining_reasons(counts))}.")
    for note in describe_inconsistencies(started.session.reader):
        say(f"note: {note}")


def _print_changes(started: StartedSession) -> None:
    for warning in started.warnings:
        say(f"warning: {warning}")
    changes = started.decision.changes if started.decision else []
    for change in changes:
        say(f"  {change.path}: {change_text(change.old, change.new)}")
    print_kept(started.decision.kept if started.decision else [], started.note)


def print_kept(kept: list[Difference], note: str) -> None:
    """Says where the offered eval has less than the run, which keeps it, and what was found about its config.yaml."""
    for item in kept:
        say(f"  {item.path}: {change_text(item.old, item.new)}; the run keeps what it has")
    if note:
        say(f"note: {note}")


class EndMessage:
    """Prints how a session ended, once: whether the session came to its end, or a stuck task is given up."""

    def __init__(self, started: StartedSession, *, as_json: bool) -> None:
        self._started, self._as_json = started, as_json
        self._is_printed = False

    def print(self, ended: SessionOutcome) -> None:
        if self._is_printed:
            return
        self._is_printed = True
        try:
            self._print_notes(ended)
            if self._as_json:
                print_json(self._as_object(ended))
            else:
                self._print_summary(ended)
        except OSError as error:
            # A run that ended well has ended well whether this can be printed or not.
            mute_if_broken(sys.stdout)
            say(f"holdfast: how the run ended could not be printed: {error.strerror}. It was: {ended.how}.")

    def _print_notes(self, ended: SessionOutcome) -> None:
        if self._started.reuse is not None:
            say(f"{self._started.reuse.taken} replies were taken from other runs.")
        if ended.warning:
            say(f"holdfast: {ended.warning}")
        for failure in ended.failures:
            say(f"note: {failure}")
        if missing := self._not_uploaded():
            say(f"holdfast: {missing}")

    def _not_uploaded(self) -> str:
        uploader = self._started.session.uploader
        return uploader.left_text() if uploader is not None else ""

    def _print_summary(self, ended: SessionOutcome) -> None:
        place = shlex.quote(self._started.place)
        if ended.exit_code == 0:
            click.echo(f"Complete: {ended.finished} of {ended.planned} trials.")
            click.echo(f"See: holdfast report {place}")
            return
        failed = f", {ended.failed} failed" if ended.failed else ""
        failed += f", {ended.unfinished} got no reply" if ended.unfinished else ""
        click.echo(
            f"Stopped ({ended.how}): {ended.finished} of {ended.planned} trials finished, {ended.owed} owed{failed}."
        )
        click.echo(f"Go on with: holdfast resume {place}")

    def _as_object(self, ended: SessionOutcome) -> dict[str, Any]:
        return {
            "run": self._started.place,
            "state": "complete" if ended.owed == 0 else "incomplete",
            "how": ended.how,
            "exit_code": ended.exit_code,
            "planned": ended.planned,
            "finished": ended.finished,
            "failed": ended.failed,
            "unfinished": ended.unfinished,
            "owed": ended.owed,
            "warning": ended.warning,
            "failures": ended.failures,
            "not_uploaded": self._not_uploaded(),
        }
