"""Starting a session: the one place where it is put together, for the command line and for `evaluate`.

A new run is made, or one that exists is resumed, in a directory or in an object store. A run that exists is opened
once before its lease is taken, to decide whether anything remains and whether the gate accepts the offer, and once
under the lease. Until the lease is taken nothing is written, so a refusal leaves no trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from holdfast.api.observers import find_observers
from holdfast.engine.events import Observer
from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.complete_run import CompleteRun, plan_unless_complete
from holdfast.engine.opening.new_run import CheckPlan, StartedSession, accept_plan, default_root, start_run
from holdfast.engine.opening.noted_runs import noted_runs, reuse_note, unusable_text
from holdfast.engine.opening.remote_run import (
    open_readable_copy,
    remote_exists,
    resume_remote_run,
    start_remote_run,
    upload_rest,
)
from holdfast.engine.opening.resume import ALL_TRIALS, SelectionFinished, resume_run
from holdfast.engine.opening.resume_plan import ResumePlan
from holdfast.engine.planning.saved_eval import eval_directory, last_session, saved_eval
from holdfast.engine.planning.selection import SelectionRequest
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.errors import HoldfastError, ResumeAborted, UsageError
from holdfast.models.env_file import read_env_file
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.core.records import PlanEntry
from holdfast.run.core.run_id import refuse_older
from holdfast.run.fold.reader import RunReader
from holdfast.run.import_origin import has_answers, import_origin, what_is_possible
from holdfast.run.locate import find_run, refuse_blank
from holdfast.run.session.free_space import check_free_space
from holdfast.spec import EvalSpec
from holdfast.spec.grid import asked_models
from holdfast.storage.store_url import SCHEMES, is_url
from holdfast.tasks.judges.panels import binary_scorers, panels_of
from holdfast.tasks.task import Task

OfferEval = Callable[[EvalSpec], Offer]
"""Makes the offer to a run, from the eval that is saved in it."""


class StartInterrupted(KeyboardInterrupt):
    """Ctrl-C before the first call; `place` names the run if it exists by then, and is empty if nothing was started."""

    def __init__(self, place: str = "") -> None:
        super().__init__(place)
        self.place = place


@contextlib.contextmanager
def naming_run_at(place: str) -> Iterator[None]:
    """Lets Ctrl-C in the block say whether the run at a place exists: it is created whole or not at all."""
    try:
        yield
    except KeyboardInterrupt:
        root = spool_root(place) if is_url(place) else Path(place)
        raise StartInterrupted(place if Layout(root).journal.is_dir() else "") from None


@dataclass(frozen=True)
class RunRequest:
    """A run that is to be started, or to be resumed if it exists."""

    spec: EvalSpec
    """A resolved eval."""
    place: str | None = None
    """A path or the URL of an object store; None for a directory of its own below `runs`."""
    or_resume: bool = False
    """Whether a run that is already there is resumed; otherwise it is refused."""
    tasks: Mapping[str, Task] | None = None
    """Tasks that exist in this process."""
    reuse: Sequence[str] = ()
    """The runs whose replies are used again: paths, URLs or parts of names."""
    source: str = ""
    """Where the eval comes from; saved in the run."""
    observers: Sequence[Observer] = ()
    """Who gets the events, beside the observers of installed packages."""
    check_plan: CheckPlan = accept_plan
    """Called before anything is written."""
    warnings: Sequence[str] = ()
    """What was noticed before: lines of `.env` that were skipped."""
    selection: SelectionRequest = ALL_TRIALS
    """Which trials of a run that exists are run once more."""
    fork_words: tuple[str, ...] | None = None
    """The options with which `holdfast fork` offers the same to a new run."""
    run_words: tuple[str, ...] | None = None
    """The words with which `holdfast run` starts a new run of the same."""

    @property
    def offer(self) -> Offer:
        """The eval as it is offered to a run that exists."""
        return Offer(self.spec, fork_words=self.fork_words, run_words=self.run_words)

    def run_exists(self) -> bool:
        """Whether there is a run at the place, as far as can be seen without opening it."""
        if self.place is None:
            return False
        return remote_exists(self.place) if is_url(self.place) else Layout(Path(self.place)).journal.is_dir()


def start_session(request: RunRequest) -> StartedSession | CompleteRun:
    """Starts a run with its first session, or resumes it with the next one, unless no trial remains.

    Raises:
        UsageError: the place holds a run or something else, or is a URL of an unknown kind.
        ConfigurationError: a task, dataset, model or observer is wrong, or a run to reuse does not exist.
        ResumeAborted: the run that is there cannot be resumed with this eval.
        RunHeld: another session executes it.
        StorageFailure: the disk or the store failed.
        StartInterrupted: Ctrl-C.
    """
    place = request.place if request.place is not None else str(default_root(request.spec))
    with naming_run_at(place):
        return _start(replace(request, place=place))


def _start(request: RunRequest) -> StartedSession | CompleteRun:
    replies, observers = check_surroundings(request)
    started = _create_or_resume(request)
    if isinstance(started, CompleteRun):
        return started
    started = replace(
        started, observers=observers, warnings=list(dict.fromkeys([*request.warnings, *started.warnings]))
    )
    return _attach_replies(started, [find_run(run) for run in request.reuse], replies)


def check_surroundings(request: RunRequest) -> tuple[ReusableReplies | None, list[Observer]]:
    """What a session needs beside its eval: a place, the replies of other runs, observers."""
    _refuse_bad_place(request.place)
    replies = ReusableReplies([find_run(run) for run in request.reuse]) if request.reuse else None
    return replies, find_observers(request.observers)


def resume_session(
    run: str,
    offer: OfferEval | None = None,
    selection: SelectionRequest = ALL_TRIALS,
    check_plan: CheckPlan = accept_plan,
) -> StartedSession | CompleteRun:
    """Resumes the run with this path, URL or part of a name, unless no trial remains.

    Without an offer everything comes from the run; with a selection only some trials are run, or some once more.

    Raises:
        NotARun: there is no such run.
        UsageError: more than one run fits the name, the offer is wrong, or the selection matches no trial.
        ConfigurationError: an observer cannot be loaded.
        ResumeAborted: it cannot be resumed with what is offered.
        RunHeld: another session executes it.
        StorageFailure: the disk or the store failed.
        StartInterrupted: Ctrl-C.
    """
    place = run if is_url(run) else str(find_run(run))
    with naming_run_at(place):
        observers = find_observers()
        started = _resume(place, offer, selection=selection, check_plan=check_plan)
        return started if isinstance(started, CompleteRun) else _attach_replies(replace(started, observers=observers))


def rescore_session(
    run: str,
    offer: OfferEval | None = None,
    where: str | None = None,
    check_plan: CheckPlan = accept_plan,
    *,
    tasks: Mapping[str, Task] | None = None,
    option_prefix: str = "--",
) -> StartedSession | CompleteRun:
    """Has the answers of a run scored by the scorers that it has now, or that are offered; no solver runs.

    With `where`, only the score slots that it matches. Where nothing is missing, no session is opened.

    Raises:
        NotARun: there is no such run.
        UsageError: more than one run fits the name, the offer is wrong, or the expression matches nothing.
        ConfigurationError: an observer cannot be loaded.
        ResumeAborted: the offer changes more than how answers are judged.
        RunHeld: another session executes it.
        StorageFailure: the disk or the store failed.
        StartInterrupted: Ctrl-C.
    """
    place = run if is_url(run) else str(find_run(run))
    selection = SelectionRequest(where, option_prefix=option_prefix, rescoring=True)
    with naming_run_at(place):
        observers = find_observers()
        started = _resume(place, _rescoring(offer), tasks, selection, check_plan)
        return started if isinstance(started, CompleteRun) else _attach_replies(replace(started, observers=observers))


def _rescoring(offer: OfferEval | None) -> OfferEval:
    """The offer, or else the run's own eval, with leave to judge answers differently."""

    def make(saved: EvalSpec) -> Offer:
        return msgspec.structs.replace(Offer(saved) if offer is None else offer(saved), rescoring=True)

    return make


def _refuse_bad_place(place: str | None) -> None:
    """Raises UsageError for what was meant as a URL or a name, and would otherwise become another directory."""
    if place is None or is_url(place):
        return
    refuse_blank(place, "the run's directory")
    if "://" in place:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise UsageError(f"{place} is not a URL of a supported object store.", hint=f"Supported: {known}.")
    if place.partition(":")[0] in SCHEMES and ":" in place:
        raise UsageError(
            f"{place} is not a valid URL.", hint="Write it as text, as in 's3://bucket/run': a Path drops a slash."
        )


def _create_or_resume(request: RunRequest) -> StartedSession | CompleteRun:
    if request.or_resume and request.run_exists():
        return _resume_requested(request)
    if request.selection:
        raise UsageError(
            f"There is no run at {request.place} of which trials could be run again.",
            hint="Leave redo out to start it.",
        )
    try:
        return _create(request)
    except UsageError:
        # Another process may have created the run meanwhile.
        if not (request.or_resume and request.run_exists()):
            raise
    return _resume_requested(request)


def _create(request: RunRequest) -> StartedSession:
    spec, place, until = request.spec, str(request.place), request.selection.until
    if is_url(place):
        started = start_remote_run(
            spec, place, tasks=request.tasks, source=request.source, check_plan=request.check_plan, until=until
        )
    else:
        started = start_run(
            spec,
            Path(place),
            tasks=request.tasks,
            source=request.source,
            check_plan=request.check_plan,
            until=until,
        )
    return started


def local_root(spec: EvalSpec, place: str | None) -> Path:
    """The directory on this machine: that of the run, or the spool of a run in an object store."""
    if place is None:
        return default_root(spec)
    return spool_root(place) if is_url(place) else Path(place)


def _resume_requested(request: RunRequest) -> StartedSession | CompleteRun:
    return _resume(
        str(request.place),
        lambda _saved: request.offer,
        request.tasks,
        request.selection,
        check_plan=request.check_plan,
    )


def _resume(
    place: str,
    offer: OfferEval | None,
    tasks: Mapping[str, Task] | None = None,
    selection: SelectionRequest = ALL_TRIALS,
    check_plan: CheckPlan = accept_plan,
) -> StartedSession | CompleteRun:
    root = open_readable_copy(place) if is_url(place) else Path(place)
    with contextlib.closing(RunReader(root)) as reader:
        refuse_older(reader.format, place)
        last = last_session(reader)
        _refuse_imported(reader, place, selection)
        # Before the code of any task is loaded: it may look for a variable.
        warnings = read_env_file(eval_directory(last))
        offered = None if offer is None else offer(saved_eval(last))
        plan = plan_unless_complete(reader, offered, tasks, is_selected=bool(selection))
        check_plan(reader.fold.plan if isinstance(plan, CompleteRun) else _planned_scores(plan))
        if not isinstance(plan, CompleteRun):
            check_free_space(reader)
    if isinstance(plan, CompleteRun):
        return _finish_upload(plan._replace(place=place))
    try:
        if is_url(place):
            started = resume_remote_run(place, plan.decision.spec, offer=offered, tasks=tasks, selection=selection)
        else:
            started = resume_run(root, offer=offered, tasks=tasks, selection=selection)
        return replace(started, warnings=[*warnings, *started.warnings])
    except SelectionFinished as found:
        selected = found.selection
        matched = selected.matched, selected.blocked, selected.failed
        complete = CompleteRun(found.counts, [], "", place, rescoring=selection.rescoring, left_out=selected.left_out)
        if selected.until and len(selected.passed):
            return complete._replace(until=selected.until, paused=len(selected.passed))
        return complete._replace(selected=matched[0], blocked=matched[1], failed=matched[2])


def _refuse_imported(reader: RunReader, place: str, selection: SelectionRequest) -> None:
    """Raises ResumeAborted where trials of another tool would have to be run, or scored without an answer."""
    origin = import_origin(reader)
    if origin is None or (selection.rescoring and has_answers(reader)):
        return
    if selection.rescoring:
        raise ResumeAborted(
            f"{place} was imported from {origin.tool}, without the answers: there is nothing to score.",
            hint=what_is_possible(reader, place),
        )
    raise ResumeAborted(
        f"Resume aborted: {place} was imported from {origin.tool}, and its trials cannot be run here.",
        hint=what_is_possible(reader, place),
    )


def _planned_scores(plan: ResumePlan) -> list[PlanEntry]:
    """Who will score which task and model; how many trials there are is worked out under the lease."""
    return [
        PlanEntry(
            name,
            model,
            0,
            [scorer.name for scorer in task.scorers],
            binary_scorers(task.scorers),
            panels_of(task.scorers),
        )
        for name, task in plan.tasks.items()
        for model in asked_models(plan.decision.spec.tasks[name], plan.decision.spec.models)
    ]


def _finish_upload(complete: CompleteRun) -> CompleteRun:
    """What an earlier session has left on this machine belongs into the store, also when no trial remains."""
    if is_url(complete.place):
        upload_rest(complete.place, complete.counts)
    return complete


def _add_noted(replies: ReusableReplies, root: Path) -> str:
    """Adds the replies of a run that is noted; why it could not be done, if it could not: that stops no session."""
    try:
        replies.add_run(root)
    except (HoldfastError, OSError) as error:
        return unusable_text(root, str(error).rstrip("."))
    return ""


def _attach_replies(
    started: StartedSession, given: Sequence[Path] = (), replies: ReusableReplies | None = None
) -> StartedSession:
    """The session with the replies of the runs that are given, and of those that the run has noted."""
    session, warnings = started.session, list(started.warnings)
    with contextlib.ExitStack() as undo:
        undo.callback(session.abandon)
        noted, gone = noted_runs(session.reader) if started.is_resumed else ([], [])
        if new := [root for root in given if root.absolute() not in noted]:
            session.sink.put(reuse_note(new))
        if others := [root for root in noted if root not in {one.absolute() for one in given}]:
            replies = replies or ReusableReplies([])
            gone += [text for root in others if (text := _add_noted(replies, root))]
        if started.is_resumed and replies is not None:
            # A recorded reply is used once: what earlier sessions of the run have taken is left out.
            replies.leave_out(session.reader)
        undo.pop_all()
    return replace(started, reuse=replies, warnings=[*warnings, *gone])
