"""The last lines of a session: how it ended, and the command that helps. Every sentence holds in every state."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from holdfast.api.failure_groups import FailureGroup, failure_lines
from holdfast.cli.session.run_scores import RunScores
from holdfast.cli.ui.next_command import rerun_command, retry_scorers_text
from holdfast.engine.execution import SessionOutcome
from holdfast.engine.opening.new_run import StartedSession
from holdfast.run.fold.rows.trial_row import MODEL_DISABLED, NO_REPLY, TASK_ERROR
from holdfast.run.fold.states import NOT_STARTED
from holdfast.terminal.text import printable

_NOT_FOUND = " answered 404 "


class EndText:
    """The sentences about the end of one session; `scores` may be missing."""

    def __init__(self, started: StartedSession, ended: SessionOutcome, scores: RunScores | None) -> None:
        self._ended, self._scores, self._counts = ended, scores, ended.counts
        self._place, self._models = started.place, started.prepared.spec.models
        self._failures = scores.failures if scores is not None else []

    def lines(self) -> Iterator[str]:
        if self._ended.exit_code == 0 and self._counts.is_complete:
            yield f"Complete: {self._counts.finished} of {self._counts.planned} trials."
            yield f"See the answers with: holdfast show {shlex.quote(self._place)}"
        elif (group := self._only_failure(TASK_ERROR)) is not None:
            yield from self._same_error_lines(group)
        else:
            yield self._stopped_text()
            yield from self._failure_lines()
            yield from self._next_lines()

    def _only_failure(self, reason: str) -> FailureGroup | None:
        """The one error for which every planned trial remains, if it is known of all of them."""
        if self._counts.remaining_by_reason != {reason: self._counts.planned} or len(self._failures) != 1:
            return None
        group = self._failures[0]
        return group if group.error and group.trials == self._counts.planned else None

    def _same_error_lines(self, group: FailureGroup) -> Iterator[str]:
        """The code has to be changed, which a resume would refuse."""
        who = "the trial failed:" if group.trials == 1 else f"all {group.trials} trials failed with the same error:"
        first = self._scores.first_session if self._scores is not None else None
        yield printable(f"Stopped: {who} {group.error}. Fix it, then: {rerun_command(first, self._place)}")

    def _stopped_text(self) -> str:
        counts = self._counts
        if self._got_no_reply:
            return f"Stopped: {counts.valid} of {counts.planned} valid; {self._no_reply_text()}."
        blocked = f", {counts.blocked} of them blocked" if counts.blocked else ""
        finished = f"{counts.finished} of {counts.planned} trials finished{blocked}"
        stopped = f"Stopped ({self._ended.how})" if self._ended.exit_code else "Selected trials are finished"
        return f"{stopped}: {finished}, {counts.remaining_text()}."

    def _failure_lines(self) -> Iterator[str]:
        if not (self._got_no_reply and len(self._failures) == 1):
            yield from map(printable, failure_lines(self._failures))

    @property
    def _got_no_reply(self) -> bool:
        """Whether trials remain for this reason only."""
        return bool(self._ended.exit_code) and set(self._counts.remaining_by_reason) == {NO_REPLY}

    def _no_reply_text(self) -> str:
        single = len(self._failures) == 1 and self._failures[0].error.rstrip(".")
        why = f" ({printable(single)})" if single else ""
        return f"{self._counts.remaining} got no reply{why} and will be retried on resume"

    def _next_lines(self) -> Iterator[str]:
        counts = self._counts
        if name := self._wrong_model_name():
            yield from self._wrong_name_lines(name)
        elif counts.remaining > counts.failed_in_slots:
            yield f"Resume with: holdfast resume {shlex.quote(self._place)}"
        if counts.failed_in_slots:
            yield retry_scorers_text(counts, self._place)

    def _wrong_model_name(self) -> str:
        """The model that its server does not know by its name, if nothing but that keeps trials from being run."""
        if not set(self._counts.remaining_by_reason) <= {MODEL_DISABLED, NOT_STARTED}:
            return ""
        for name, model in self._models.items():
            for group in self._failures:
                disabled, found, answer = group.error.partition(_NOT_FOUND)
                if found and disabled.startswith(f"{name} ") and model.model in answer:
                    return name
        return ""

    def _wrong_name_lines(self, name: str) -> Iterator[str]:
        if not self._counts.finished:
            yield (
                "The model name cannot be changed in this run, and nothing is finished: correct it and start a new run."
            )
            return
        forked = f"holdfast fork {shlex.quote(self._place)} --config EVAL"
        yield printable(f"The model name of {name} cannot be changed in this run. Correct it in the eval file, then:")
        yield f"  {forked}  (the new run keeps what is finished)"
