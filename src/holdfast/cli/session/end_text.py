"""The last lines of a session: how it ended, and the command that helps. Every sentence holds in every state."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.analysis.failure_groups import FailureGroup, Failures, failure_lines
from holdfast.cli.session.run_scores import RunScores
from holdfast.cli.ui.next_command import NextSteps, stop_lines
from holdfast.engine.execution import FINISHED_WITH_FAILURES, INCOMPLETE, SessionOutcome
from holdfast.engine.opening.new_run import StartedSession
from holdfast.run.core.display_text import nearby, shell_word
from holdfast.run.fold.rows.trial_row import NO_REPLY, PAUSED, REFUSED, TASK_ERROR
from holdfast.terminal.text import printable


class EndText:
    """The sentences about the end of one session; `scores` may be missing."""

    def __init__(self, started: StartedSession, ended: SessionOutcome, scores: RunScores | None) -> None:
        self._ended, self._scores, self._counts = ended, scores, ended.counts
        self._place, self._is_rescoring = nearby(started.place), started.selection.slots is not None
        self._failures = scores.report.errors if scores is not None else Failures()
        self._stops = scores.stops if scores is not None else []

    def lines(self) -> Iterator[str]:
        if (loss := self._ended.loss) is not None:
            # Why is said above; nothing can be said of what is gone.
            yield f"Stopped ({self._ended.how}): {self._counts.finished} of {self._counts.planned} trials had finished."
            if loss.moved_to:
                yield f"Check the run, then resume it with: holdfast resume {shell_word(loss.moved_to)}"
            return
        if self._ended.code_by_trials == 0 and self._counts.is_complete:
            yield f"Complete: {self._finished_text('trials')}."
            yield f"See the answers with: holdfast show {shell_word(self._place)}"
            return
        if self._ended.how == FINISHED_WITH_FAILURES and self._counts.is_complete:
            yield f"Finished: {self._finished_text('trials')}."
            if self._counts.blocked:
                yield f"See them with: holdfast show {shell_word(self._place)} --where status=blocked"
            return
        if (group := self._only_failure(TASK_ERROR)) is not None:
            yield _same_error_text(group)
        else:
            yield self._stopped_text()
            yield from stop_lines(self._stops)
            yield from self._failure_lines()
            yield from (printable(f"  no reply yet: {silent.error}") for silent in self._ended.silent_models)
        first = self._scores.first_session if self._scores is not None else None
        may_be_deleted = self._scores is not None and self._scores.may_be_deleted
        settings = [silent.setting for silent in self._ended.silent_models if silent.setting]
        steps = NextSteps(
            self._counts, self._place, first, self._failures, may_be_deleted=may_be_deleted, settings=settings
        )
        yield from steps.lines()

    def _only_failure(self, reason: str) -> FailureGroup | None:
        """The one error for which every planned trial remains, if it is known of all of them."""
        is_all = self._counts.remaining_by_reason == {reason: self._counts.planned}
        return self._failures.only if is_all and self._failures.trials == self._counts.planned else None

    def _stopped_text(self) -> str:
        counts = self._counts
        if self._got_no_reply:
            return f"Stopped: {counts.valid} of {counts.planned} valid; {self._no_reply_text()}"
        if self._ended.how == PAUSED:
            return f"Paused: {self._finished_text('trials finished')}, {counts.remaining_text()}."
        how = "" if self._ended.how == INCOMPLETE else f" ({self._ended.how})"
        done = "Selected answers are scored" if self._is_rescoring else "Selected trials are finished"
        stopped = f"Stopped{how}" if self._ended.code_by_trials else done
        return f"{stopped}: {self._finished_text('trials finished')}, {counts.remaining_text()}."

    def _finished_text(self, what: str) -> str:
        counts = self._counts
        return f"{counts.finished:,} of {counts.planned:,} {what}{counts.unusual_text()}"

    def _failure_lines(self) -> Iterator[str]:
        only = self._failures.only
        # The error of a task that was stopped has just been named.
        is_said = self._got_no_reply or [stop.trials for stop in self._stops] == [self._failures.trials]
        if only is None or not is_said:
            yield from map(printable, failure_lines(self._failures))

    @property
    def _got_no_reply(self) -> bool:
        """Whether trials remain for this reason only."""
        reasons = self._counts.remaining_by_reason.keys()
        return bool(self._ended.code_by_trials and reasons) and reasons <= {NO_REPLY, REFUSED}

    def _no_reply_text(self) -> str:
        """The error as it is, with what to check, then what happens; a refusal would be repeated on resume."""
        only, count = self._failures.only, self._counts.remaining
        why = f": {printable(only.error).rstrip('.')}" if only is not None else ""
        if self._failures.groups and all(group.is_stuck for group in self._failures.groups):
            return f"{count} {'was' if count == 1 else 'were'} refused{why}."
        return f"{count} got no reply{why}. {'It is' if count == 1 else 'They are'} retried on resume."


def _same_error_text(group: FailureGroup) -> str:
    who = "the trial failed:" if group.trials == 1 else f"all {group.trials} trials failed with the same error:"
    return printable(f"Stopped: {who} {group.error.rstrip('.')}.")
