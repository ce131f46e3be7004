"""What a session prints before its first call and at its end: for people on stderr, the result on stdout."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.next_command import retry_scorers_text
from holdfast.cli.ui.standard_streams import mute_if_broken, say
from holdfast.cli.ui.terminal_text import quantity
from holdfast.engine.execution import SessionOutcome
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.engine.opening.new_run import StartedSession
from holdfast.engine.planning.selection import TrialSelection
from holdfast.run.core.display_text import change_text
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.states import StateCounts
from holdfast.spec.compare import Difference


def print_start(started: StartedSession) -> None:
    """Says which run it is, how many trials are finished, and how many remain and why, before the first call."""
    session = started.session.record
    counts = started.session.reader.fold.counts
    if not started.is_resumed:
        say(f"Run {started.place}: {quantity(counts.remaining, 'trial')}.")
        print_warnings(started.warnings)
        return
    changed = "the configuration saved in the run"
    if started.decision is not None and started.decision.changes:
        changed += f" and {quantity(len(started.decision.changes), 'change')}"
    say(f"Resuming {started.place} (session {session.number}), with {changed}.")
    _print_changes(started)
    say(f"{counts.finished} of {counts.planned} trials are finished, {counts.remaining_text()}.")
    if counts.failed_in_slots and not len(started.selection.redo):
        say(retry_scorers_text(counts, started.place))
    _print_selection(started.selection, counts)
    for note in describe_inconsistencies(started.session.reader):
        say(f"note: {note}")


def print_warnings(warnings: Sequence[str]) -> None:
    """Prints what a person should know before the first call."""
    for warning in warnings:
        say(f"warning: {warning}")


def _print_selection(selection: TrialSelection, counts: StateCounts) -> None:
    if selection.remaining is not None:
        say(f"Running {len(selection.remaining)} of the {counts.remaining} remaining trials.")
    if len(selection.redo):
        kept = "; a finished trial keeps its result until the new attempt has finished" if selection.again else ""
        say(f"Running {quantity(len(selection.redo), 'trial')} again{kept}.")
        if selection.remaining is None and counts.remaining:
            say("All remaining trials are run as well; --where chooses among them.")


def print_complete(complete: CompleteRun, *, as_json: bool) -> int:
    """Says that no trial remains; the exit code."""
    _print_kept(complete.kept, complete.note)
    counts = complete.counts
    if as_json:
        state = "complete" if counts.is_complete else "incomplete"
        found = {"run": complete.place, "state": state, "ended_as": None, "exit_code": complete.exit_code}
        rest: dict[str, Any] = {
            "selected": complete.selected,
            "warning": None,
            "warnings": [],
            "failures": [],
            "not_uploaded": None,
        }
        print_json({**found, "counts": counts, **rest})
    elif complete.selected is not None:
        done = f"{counts.finished} of {counts.planned} trials finished, {counts.remaining_text()}"
        click.echo(f"{complete.place}: all {complete.selected} selected trials are finished; {done}.")
    else:
        blocked = f", {counts.blocked} of them blocked" if counts.blocked else ""
        click.echo(f"{complete.place}: complete, {counts.finished} of {counts.planned}{blocked}.")
    return complete.exit_code


def _print_changes(started: StartedSession) -> None:
    print_warnings(started.warnings)
    changes = started.decision.changes if started.decision else []
    for change in changes:
        say(f"  {change.path}: {change_text(change.old, change.new)}")
    _print_kept(started.decision.kept if started.decision else [], started.note)


def _print_kept(kept: list[Difference], note: str) -> None:
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
            taken = self._started.reuse.taken
            say("1 reply was taken from other runs." if taken == 1 else f"{taken} replies were taken from other runs.")
        if ended.warning:
            say(f"holdfast: {ended.warning}")
        for failure in ended.failures:
            say(f"note: {failure}")
        if missing := self._started.not_uploaded_text():
            say(f"holdfast: {missing}")

    def _print_summary(self, ended: SessionOutcome) -> None:
        place, counts = shlex.quote(self._started.place), ended.counts
        if ended.exit_code == 0 and counts.is_complete:
            click.echo(f"Complete: {counts.finished} of {counts.planned} trials.")
            click.echo(f"See: holdfast report {place}")
            return
        blocked = f", {counts.blocked} of them blocked" if counts.blocked else ""
        finished = f"{counts.finished} of {counts.planned} trials finished{blocked}"
        stopped = "Selected trials are finished" if ended.exit_code == 0 else f"Stopped ({ended.how})"
        click.echo(f"{stopped}: {finished}, {counts.remaining_text()}.")
        if counts.remaining > counts.failed_in_slots:
            click.echo(f"Resume with: holdfast resume {place}")
        if counts.failed_in_slots:
            click.echo(retry_scorers_text(counts, self._started.place))

    def _as_object(self, ended: SessionOutcome) -> dict[str, Any]:
        return {
            "run": self._started.place,
            "state": "complete" if ended.counts.is_complete else "incomplete",
            "ended_as": ended.how,
            "exit_code": ended.exit_code,
            "counts": ended.counts,
            "selected": None if self._started.selection.remaining is None else self._started.selection.matched,
            "warning": ended.warning or None,
            "warnings": list(self._started.warnings),
            "failures": ended.failures,
            "not_uploaded": self._started.not_uploaded_text() or None,
        }
