"""What a session prints before its first call and at its end: for people on stderr, the result on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from holdfast.analysis.fail_under import ScoreBound
from holdfast.api.growth_text import growth_lines
from holdfast.cli.session.end_text import EndText
from holdfast.cli.session.run_scores import RunScores, failures_under, read_scores, scores_object
from holdfast.cli.session.warning_lines import print_warnings, print_warnings_again
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.next_command import (
    NextSteps,
    retry_failed_lines,
    retry_scorers_lines,
    run_commands,
    stop_lines,
)
from holdfast.cli.ui.options.fail_under_option import print_bound_failures
from holdfast.cli.ui.standard_streams import output_stream, say, silencing_messages
from holdfast.engine.execution import SessionOutcome
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.engine.opening.new_run import StartedSession
from holdfast.engine.planning.selection import TrialSelection
from holdfast.engine.progress import short_id
from holdfast.errors import RunHeld, StorageFailure
from holdfast.run.core.display_text import change_text, nearby, shell_word
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.rows.trial_row import PAUSED
from holdfast.run.fold.states import SAME_ERROR, StateCounts
from holdfast.spec import Drift
from holdfast.spec.compare import GONE, Difference
from holdfast.storage.store_url import is_url
from holdfast.terminal.broken_stream import mute_if_broken
from holdfast.terminal.text import fitted, printable, quantity

_LOST_RUN = {StorageFailure.exit_code, RunHeld.exit_code}


def print_start(started: StartedSession) -> None:
    """Says which run it is, how many trials are finished, and how many remain and why, before the first call."""
    session = started.session.record
    counts = started.session.reader.fold.counts
    if not started.is_resumed:
        say(f"Run {nearby(started.place)} (id {short_id(session.run)}): {quantity(counts.remaining, 'trial')}.")
        print_warnings(started.warnings)
        return
    changed = "the configuration saved in the run"
    if started.decision is not None and started.decision.changes:
        changed += f" and {quantity(len(started.decision.changes), 'change')}"
    verb = "Resuming" if started.selection.slots is None else "Rescoring"
    say(f"{verb} {nearby(started.place)} (id {short_id(session.run)}, session {session.number}), with {changed}.")
    _print_changes(started)
    for note in started.notes:
        say(f"note: {note}")
    for line in growth_lines(started.growth, rescoring=started.selection.slots is not None):
        say(line, always=True)
    say(f"{counts.finished:,} of {counts.planned:,} trials are finished, {counts.remaining_text()}.")
    if not len(started.selection.redo):
        _print_left_alone(started, counts)
    _print_selection(started.selection, counts)
    for note in describe_inconsistencies(started.session.reader):
        say(f"note: {note}")


def _print_left_alone(started: StartedSession, counts: StateCounts) -> None:
    """Says which trials this session does not run, and what would."""
    reader = started.session.reader
    commands = run_commands(reader.sessions[0], nearby(started.place))
    for line in (*stop_lines(reader.fold.stopped.values()), *retry_failed_lines(counts, commands)):
        say(line)
    if counts.failed_in_slots:
        for line in retry_scorers_lines(counts, commands):
            say(line)


def _print_selection(selection: TrialSelection, counts: StateCounts) -> None:
    if selection.slots is not None:
        _print_slots(selection)
    elif selection.start_from:
        _print_from(selection)
    elif selection.remaining is not None:
        say(f"Running {len(selection.remaining)} of the {counts.remaining} remaining trials.")
    if selection.until:
        say(f"Every trial stops after the stage {selection.until}.")
    if len(selection.redo) and not selection.start_from:
        kept = "; a finished trial keeps its result until the new attempt has finished" if selection.again else ""
        say(f"Running {quantity(len(selection.redo), 'trial')} again{kept}.")
        if stopped := counts.remaining_by_reason.get(SAME_ERROR, 0):
            say(f"A task of theirs that was stopped continues: up to {quantity(stopped, 'more trial')} are run.")
        if selection.remaining is None and counts.to_run:
            say("Other trials that a resume runs are run as well; --where chooses among them.")


def _print_from(selection: TrialSelection) -> None:
    """Says how many trials are run once more, and from which stage on."""
    kept = "; a finished trial keeps its result until the new attempt has finished" if selection.again else ""
    say(f"Running {quantity(len(selection.redo), 'trial')} again from the stage {selection.start_from} on{kept}.")
    if selection.not_reached:
        say(f"{quantity(selection.not_reached, 'selected trial')} that did not get to this stage are not run.")


def _print_slots(selection: TrialSelection) -> None:
    """Says how many scores a rescoring fills, and of which scorers."""
    slots, answers = selection.slots or {}, len(selection.remaining or ())
    if not answers:
        say(f"Nothing to score: {_nothing_to_score(selection.left_out)}.")
        return
    parts = ", ".join(f"{base_name(name)} {len(keys)}" for name, keys in slots.items())
    say(f"Scoring {quantity(answers, 'answer')} ({parts}); the model under test is not called.")
    if held := selection.scores_that_hold:
        verb = "holds" if held == 1 else "hold"
        say(f"{held} of {sum(map(len, slots.values()))} scores {verb}, since the targets have not changed there.")
    if selection.left_out:
        say(f"Not scored: {_left_out_text(selection.left_out)}.")


def _nothing_to_score(left_out: int) -> str:
    if not left_out:
        return "all selected answers have the scores of these scorers"
    return f"all selected answers have their scores, except for {_left_out_text(left_out)}"


def _left_out_text(left_out: int) -> str:
    return f"{quantity(left_out, 'answer')} of models or tasks that the eval leaves out; `holdfast resume` scores them"


def print_complete(
    complete: CompleteRun, bounds: Sequence[ScoreBound], *, as_json: bool, is_quiet: bool = False
) -> int:
    """Prints the scores, and that there is nothing to run; the exit code."""
    with silencing_messages(is_quiet=is_quiet):
        _print_kept(complete.kept, complete.note)
        _print_code_notes(complete.code_notes)
    scores = read_scores(complete.place)
    below = failures_under(bounds, scores, complete.exit_code)
    code = complete.exit_code or int(bool(below))
    _print_complete(complete, scores, bounds, code, as_json=as_json)
    print_bound_failures(below)
    return code


def _print_complete(
    complete: CompleteRun, scores: RunScores | None, bounds: Sequence[ScoreBound], code: int, *, as_json: bool
) -> None:
    counts = complete.counts
    if as_json:
        state = "complete" if counts.is_complete else PAUSED if complete.paused else "incomplete"
        commands = run_commands(scores.first_session if scores is not None else None, complete.place)
        found = {"run": complete.place, "state": state, "ended_as": None, "exit_code": code}
        rest: dict[str, Any] = {
            "resume": commands.resume if complete.paused else commands.redo if complete.left else None,
            "selected": complete.selected,
            "warning": None,
            "warnings": [],
            "failures": [],
            # Whatever was missing there has just been uploaded.
            "uploaded": True if is_url(complete.place) else None,
            "not_uploaded": None,
        }
        print_json({**found, "counts": counts, **rest, **scores_object(scores, bounds)})
        return
    if scores is not None:
        scores.print_table()
    finished = f"{counts.finished} of {counts.planned} trials finished{counts.unusual_text()}"
    done = f"{finished}, {counts.remaining_text()}"
    if complete.rescoring:
        why = _nothing_to_score(complete.left_out)
        if counts.failed_in_slots:
            why = "scorers that have failed and not changed are run again by `holdfast resume --redo 'status=failed'`"
        click.echo(f"{complete.place}: nothing to score: {why}; {done}.")
    elif complete.paused:
        click.echo(f"{complete.place}: nothing to run until the stage {complete.until}: {done}.")
        click.echo(f"Resume with: holdfast resume {shell_word(nearby(complete.place))}")
    elif complete.left:
        _print_left(complete, scores, done)
    elif complete.selected is not None:
        click.echo(f"{complete.place}: nothing was run: all {complete.selected} selected trials are finished; {done}.")
    else:
        finished = f"{counts.finished} of {counts.planned}{counts.unusual_text()}"
        click.echo(f"{complete.place}: complete, {finished}; nothing was run.")


def _print_left(complete: CompleteRun, scores: RunScores | None, done: str) -> None:
    """Says that a resume runs nothing although trials remain, and what would run them."""
    selected = "" if complete.selected is None else f"; {complete.left} of {complete.selected} selected trials remain"
    click.echo(f"{complete.place}: nothing to run{selected}: {done}.")
    first = scores.first_session if scores is not None else None
    for line in (
        *stop_lines(scores.stops if scores is not None else ()),
        *NextSteps(complete.counts, complete.place, first).lines(),
    ):
        click.echo(line)


def _print_changes(started: StartedSession) -> None:
    print_warnings(started.warnings)
    changes = started.decision.changes if started.decision else []
    for change in changes:
        say(f"  {change.path}: {change_text(change.old, change.new)}")
    _print_kept(started.decision.kept if started.decision else [], started.note)
    _print_code_notes(started.decision.notes if started.decision else [])


def _print_code_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"note: {printable(note)}")


def _print_kept(kept: list[Difference], note: str) -> None:
    """Says where the offered eval has less than the run, which keeps it, and what was found about its config.yaml."""
    for item in kept:
        say(f"  {item.path}: {change_text(item.old, item.new)}; {_kept_effect(item)}")
    if note:
        say(f"note: {note}")


def _kept_effect(item: Difference) -> str:
    """What keeping it means: a scorer, or a judge of one, belongs to every trial of its task."""
    if item.new == GONE:
        # Further trials use what the run has of the file.
        return "the run's own copy is used"
    is_scorer = item.drift is Drift.ADDITIVE and ".scorers." in item.path
    return "it stays in the run and scores new trials too" if is_scorer else "existing results are kept"


class EndMessage:
    """Prints how a session ended, once: whether the session came to its end, or a stuck task is given up."""

    def __init__(
        self, started: StartedSession, bounds: Sequence[ScoreBound], *, as_json: bool, is_quiet: bool = False
    ) -> None:
        """`is_quiet`: little was printed since the warnings before the start, which are then not counted again."""
        self._started, self._bounds, self._as_json, self._is_quiet = started, bounds, as_json, is_quiet
        self._is_printed = False

    def print(self, ended: SessionOutcome, *, with_scores: bool = True) -> int:
        """The exit code; without scores where there is no time to read them."""
        if self._is_printed:
            return ended.exit_code
        self._is_printed = True
        # A disk that has failed, or a run that another process holds, is not read again.
        is_readable = with_scores and ended.code_by_trials not in _LOST_RUN
        scores = read_scores(str(self._started.root), self._started.session.number) if is_readable else None
        below = failures_under(self._bounds, scores, ended.code_by_trials)
        code = ended.exit_code or int(bool(below))
        try:
            self._print_notes(ended, scores)
            if self._as_json:
                print_json(self._as_object(ended, code) | scores_object(scores, self._bounds))
            else:
                if scores is not None:
                    scores.print_table()
                for line in EndText(self._started, ended, scores).lines():
                    click.echo(fitted(line, sys.stdout))
        except OSError as error:
            # A run that ended well has ended well whether this can be printed or not.
            mute_if_broken(output_stream())
            say(f"holdfast: how the run ended could not be printed: {error.strerror}. It was: {ended.how}.")
        # Far above by now, and in a log that nobody reads from its beginning.
        print_warnings_again(() if self._is_quiet else self._started.warnings)
        print_bound_failures(below)
        return code

    def _print_notes(self, ended: SessionOutcome, scores: RunScores | None) -> None:
        if scores is not None:
            with silencing_messages(is_quiet=self._is_quiet):
                self._print_calls(scores)
        if ended.warning:
            say(f"holdfast: {ended.warning}")
        for failure in ended.failures:
            say(f"note: {failure}")
        if ended.loss is None and (missing := self._started.not_uploaded_text()):
            say(f"holdfast: {missing}")

    def _print_calls(self, scores: RunScores) -> None:
        """Says which calls were made again, and which were not made."""
        for line in scores.ledger.lines(shell_word(nearby(self._started.place))):
            say(printable(line))
        if self._started.reuse is not None and not scores.report.saved.calls:
            # Said of the run as a whole: a fork has its replies from another run, whoever it asks now.
            say("No reply of another run was used.")

    def _as_object(self, ended: SessionOutcome, code: int) -> dict[str, Any]:
        place = ended.loss.moved_to if ended.loss is not None else self._started.place
        return {
            "run": self._started.place,
            "state": "complete" if ended.counts.is_complete else PAUSED if ended.how == PAUSED else "incomplete",
            "ended_as": ended.how,
            "exit_code": code,
            "counts": ended.counts,
            "selected": None if self._started.selection.remaining is None else self._started.selection.matched,
            "warning": ended.warning or None,
            "warnings": [*self._started.warnings, *(self._started.decision.notes if self._started.decision else [])],
            "failures": ended.failures,
            "uploaded": ended.uploaded,
            "not_uploaded": (self._started.not_uploaded_text() or None) if ended.loss is None else None,
            "resume": _resume_command(ended.counts, place) if place else None,
        }


def _resume_command(counts: StateCounts, place: str) -> str | None:
    """What continues the run; where only failed trials remain, what runs those again."""
    commands = run_commands(None, place)
    if counts.remaining and not counts.to_run:
        return commands.redo
    return commands.resume if counts.remaining else None
