"""What to type next about a run that is not complete: the same at the end of a session and in `status`.

Every command works when it is typed: a resume refuses code that has changed, so a fix needs another command than a
retry does. Where tasks exist only in the Python process that made them, no command can build them: then it is a line
of Python for that program.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.run.core.display_text import no_results_text, shell_word
from holdfast.run.core.inputs import LISTED_TRIALS
from holdfast.run.core.records import SessionRecord
from holdfast.run.core.task_stops import TaskStop
from holdfast.run.drift.rerun_command import evaluate_line, rerun_command
from holdfast.run.fold.rows.trial_row import MODEL_DISABLED, NO_REPLY, REFUSED, TASK_ERROR
from holdfast.run.fold.states import NOT_STARTED, StateCounts
from holdfast.spec.code_reference import IN_MEMORY, is_code_reference
from holdfast.terminal.text import printable, quantity

if TYPE_CHECKING:
    from holdfast.analysis.failure_groups import Failures

_NOT_FOUND = " answered 404 "
_FIXED_NAME = "The model name cannot be changed in this run: correct it in the eval."


class RunCommands(NamedTuple):
    """What continues a run: commands, or lines of Python."""

    resume: str
    redo: str
    """Runs failed trials again, which nothing else does."""
    rerun: str
    """Starts the eval once more, after its code was changed, and pays for nothing that the run has answered."""
    rescore: str
    """Scores the recorded answers with changed code."""
    corrected: str
    """Where the name of a model was wrong: a new run with the right one, which keeps what is finished."""
    is_python: bool = False


def run_commands(first: SessionRecord | None, place: str) -> RunCommands:
    """What continues the run at a place, given its first session, if that is known."""
    tasks = first.config.get("tasks", {}) if first is not None else {}
    if any(str(task.get("use", "")).startswith(IN_MEMORY) for task in tasks.values()):
        return _python_lines(place)
    run = shell_word(place)
    return RunCommands(
        f"holdfast resume {run}",
        f"holdfast resume {run} --redo 'status=failed'",
        rerun_command(first, place) or f"holdfast fork {run}",
        f"holdfast rescore {run}  (no model under test is called)",
        f"holdfast fork {run} --config EVAL  (the new run keeps what is finished)",
    )


def _python_lines(place: str) -> RunCommands:
    return RunCommands(
        evaluate_line(place, "run"),
        evaluate_line(place, "run", redo="status=failed"),
        evaluate_line(place, "reuse"),
        f"rescore({place!r}, tasks=tasks)  # in Python, with the tasks as they are now",
        f"{evaluate_line(place, 'reuse')}; pays for nothing that is finished",
        is_python=True,
    )


class NextSteps:
    """The lines for one run; its first session and the errors of its trials may be unknown."""

    def __init__(
        self,
        counts: StateCounts,
        place: str,
        first: SessionRecord | None = None,
        failures: Failures | None = None,
        *,
        may_be_deleted: bool = False,
        settings: Sequence[str] = (),
    ) -> None:
        """`may_be_deleted`: deleting the run would lose nothing that was paid for. `settings` may mend errors that
        are not on record.
        """
        self._settings = settings
        self._counts, self._first, self._place = counts, first, place
        self._may_be_deleted = may_be_deleted
        self._commands = run_commands(first, place)
        self._groups = failures.groups if failures is not None else []

    def lines(self) -> Iterator[str]:
        """What helps, for every reason for which trials remain; nothing runs those of another tool."""
        if self._first is not None and LISTED_TRIALS in self._first.inputs:
            return
        if name := self._wrong_model_name():
            yield from self._wrong_name_lines(name)
        elif TASK_ERROR in self._counts.remaining_by_reason:
            what = "fixing the code" if _has_own_code(self._first) else "changing the eval"
            yield printable(f"After {what}: {self._commands.rerun}")
            yield from retry_failed_lines(self._counts, self._commands)
            if self._counts.to_run:
                yield f"Run what remains: {self._commands.resume}"
        elif self._counts.to_run:
            yield from self._resume_lines()
        if self._counts.failed_in_slots:
            yield from retry_scorers_lines(self._counts, self._commands)

    def _resume_lines(self) -> Iterator[str]:
        """A plain resume where it can help; otherwise what changes the requests that were refused, or where they go."""
        stuck = [group for group in self._groups if group.is_stuck]
        if not (stuck and stuck == self._groups and self._has_only_errors()):
            yield f"Resume with: {self._commands.resume}"
        for setting in dict.fromkeys([*(group.setting for group in self._groups if group.setting), *self._settings]):
            yield printable(self._setting_line(setting))
        if any(not group.setting for group in stuck):
            again = self._commands.rerun
            yield printable(f"A resume would send the refused requests again. After changing the eval: {again}")
            yield printable(f"If the server has changed instead: {self._commands.resume}")

    def _has_only_errors(self) -> bool:
        """Whether every trial that a resume would run has an error, or waits for a model that is disabled."""
        reasons = set(self._counts.remaining_by_reason)
        return reasons <= {NO_REPLY, REFUSED, MODEL_DISABLED} or (reasons == {MODEL_DISABLED, NOT_STARTED})

    def _setting_line(self, setting: str) -> str:
        if self._commands.is_python:
            return f"A resume would send the same requests. With {setting}: {self._commands.rerun}"
        word = shlex.quote(setting)
        if _may_change_on_resume(setting.partition("=")[0]):
            return f"Resume with another {_last_key(setting)}: {self._commands.resume} --set {word}"
        forked = f"holdfast fork {shell_word(self._place)} --set {word} --run-dir NEW"
        return f"A resume would send the same requests. Change them in a new run: {forked}, then: holdfast resume NEW"

    def _wrong_model_name(self) -> str:
        """The model that its server does not know by its name, if nothing but that keeps trials from being run."""
        if not set(self._counts.remaining_by_reason) <= {MODEL_DISABLED, NOT_STARTED}:
            return ""
        models = self._first.config.get("models", {}) if self._first is not None else {}
        for name, model in models.items():
            for group in (group for group in self._groups if not group.setting):
                disabled, found, answer = group.error.partition(_NOT_FOUND)
                if found and disabled.startswith(f"{name} ") and model["model"] in answer:
                    return str(name)
        return ""

    def _wrong_name_lines(self, name: str) -> Iterator[str]:
        if self._may_be_deleted:
            yield printable(f"{_FIXED_NAME} {no_results_text(self._place)}")
            return
        yield printable(f"The model name of {name} cannot be changed in this run. Correct it in the eval, then:")
        yield f"  {self._commands.corrected}"


def _has_own_code(first: SessionRecord | None) -> bool:
    """Whether code of a user could have failed; an eval of built-in parts has none."""
    tasks = list(first.config.get("tasks", {}).values()) if first is not None else []
    return not tasks or any(task.get("use") or task.get("solver") or _own_scorers(task) for task in tasks)


def _own_scorers(task: dict[str, Any]) -> bool:
    given = task.get("scorers")
    names = [next(iter(one), "") if isinstance(one, dict) else one for one in given] if isinstance(given, list) else []
    return any(isinstance(name, str) and is_code_reference(name) for name in names)


def _last_key(setting: str) -> str:
    return setting.partition("=")[0].rpartition(".")[2]


def _may_change_on_resume(key: str) -> bool:
    """Whether a key of a model says where it is reached, and not what is asked."""
    # Only where a server has refused something.
    from holdfast.spec import ModelSpec  # noqa: PLC0415
    from holdfast.spec.schema.drift import Drift  # noqa: PLC0415
    from holdfast.spec.schema.introspect import schema_fields  # noqa: PLC0415

    field = schema_fields(ModelSpec).get(_last_key(key))
    return field is not None and field.drift is Drift.LOCATION


def retry_failed_lines(counts: StateCounts, commands: RunCommands) -> Iterator[str]:
    """A resume leaves trials that failed in the task's own code as they are: they have used up their attempts."""
    failed = counts.remaining_by_reason.get(TASK_ERROR, 0)
    if failed:
        which = "the failed trial" if failed == 1 else f"the {failed} failed trials"
        yield f"Retry {which}: {commands.redo}"


def stop_lines(stops: Iterable[TaskStop]) -> Iterator[str]:
    """Which tasks were stopped, and why."""
    for stop in stops:
        first = (
            "the trial failed:" if stop.trials == 1 else f"the first {stop.trials} trials failed with the same error:"
        )
        yield printable(f"{stop.task}: stopped; {first} {stop.error}")


def retry_scorers_lines(counts: StateCounts, commands: RunCommands) -> Iterator[str]:
    """A resume leaves trials that failed in scorers as they are: their scorers have used up their attempts."""
    trials = quantity(counts.failed_in_slots, "trial")
    has = "has its answer" if counts.failed_in_slots == 1 else "have their answers"
    yield f"{trials} {has} and failed in a scorer. Retry with unchanged code: {commands.redo}"
    yield f"After fixing the scorer: {commands.rescore}"
