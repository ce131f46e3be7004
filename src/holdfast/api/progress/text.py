"""Progress in one line of plain text: for files, logs and narrow places."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.analysis.money import money_text
from holdfast.analysis.score_table import score_text
from holdfast.engine.group_progress import GroupProgress
from holdfast.engine.progress import Progress
from holdfast.engine.scheduling.admission import DRAIN, FIRST_REPLY, LEASE
from holdfast.terminal.text import duration_text, quantity
from holdfast.terminal.width import one_line

_MOST_GROUPS = 3
_MOST_CHARACTERS = 200


def progress_text(progress: Progress) -> str:
    """The progress of a session, in one line."""
    return " · ".join([*progress_parts(progress), *score_parts(progress)])


def end_text(progress: Progress) -> str:
    """The same once the session is over; how it ended, and the scores, are printed elsewhere."""
    return " · ".join([_done_text(progress), f"took {duration_text(progress.seconds)}", *_spent_parts(progress)])


def progress_parts(progress: Progress) -> Iterator[str]:
    """What the line says of the run as a whole, the most important first; what is 0 is left out."""
    yield _done_text(progress)
    if rate := progress.rate():
        yield f"{rate:.1f}/s"
    holds = progress.holds()
    is_stopping = any(hold.reason == DRAIN for hold in holds)
    if (eta := progress.eta_seconds()) and not is_stopping:
        yield f"{duration_text(eta)} left"
    yield f"{progress.active} running"
    if reasons := [hold.reason for hold in holds if hold.reason != FIRST_REPLY]:
        paused = progress.lease_text() if LEASE in reasons else ""
        yield "stopping" if is_stopping else paused or f"paused: {', '.join(reasons)}"
    elif waited := [hold.model for hold in holds]:
        yield one_line(f"waiting for the first reply of {', '.join(waited)}", _MOST_CHARACTERS)
    yield from _spent_parts(progress)


def _done_text(progress: Progress) -> str:
    percent = 100 * progress.done // progress.planned if progress.planned else 100
    return f"{progress.done:,}/{progress.planned:,} trials ({percent}%)"


def _spent_parts(progress: Progress) -> Iterator[str]:
    if tokens := progress.tokens:
        yield f"{tokens:,} tokens"
    if cost := progress.cost:
        yield f"cost {money_text(cost, progress.prices.currency)}"
    if progress.failed:
        yield f"{progress.failed} failed{_errors_text(progress)}"
    if progress.unfinished:
        yield f"{progress.unfinished} unfinished"
    if progress.retries:
        yield f"{progress.retries} {'retry' if progress.retries == 1 else 'retries'}"
    if lag := progress.lag():
        yield lag


def _errors_text(progress: Progress) -> str:
    """How many different errors the failed trials have, where some have the same."""
    return f" ({quantity(progress.failed - progress.same_errors, 'error')})" if progress.same_errors else ""


def score_parts(progress: Progress) -> Iterator[str]:
    """The running scores: of each task and model by its first scorer, or of all scorers where there is only one."""
    groups = [group for group in progress.groups.values() if group.scores()]
    for group in groups[:_MOST_GROUPS]:
        names = list(group.scores()) if len(progress.groups) == 1 else list(group.scores())[:1]
        where = "" if len(progress.groups) == 1 else f"{group.task}/{group.model} "
        yield one_line(where + ", ".join(f"{name} {running_score(group, name)}" for name in names), _MOST_CHARACTERS)
    if len(groups) > _MOST_GROUPS:
        yield quantity(len(groups) - _MOST_GROUPS, "more score")


def running_score(group: GroupProgress, scorer: str) -> str:
    """The mean of a scorer's scores so far; empty if absent."""
    mean, count = group.scores().get(scorer, (0.0, 0))
    if not count:
        return ""
    return score_text(mean)


def count_text(count: int) -> str:
    """A large count in few characters: "950", "12.3k", "4.56M"."""
    # Each unit begins where the one below it would be rounded up to 1,000.
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= limit * (1 if unit == "k" else 0.9995):
            return f"{count / limit:.3g}{unit}"
    return str(count)
