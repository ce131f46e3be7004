"""What a person can do about a refused resume: commands that work when they are typed, the cheapest first.

The cheapest is to leave the change out: the saved configuration is used. A fork keeps every trial that the change does
not affect, and answers identical requests from the run. Where it would keep none, a new run that reuses the replies
costs the same in one step.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.engine.opening.comparing.offer import Offer
from holdfast.errors import HoldfastError
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import SessionRecord
from holdfast.run.drift.gate import Decision
from holdfast.run.drift.rerun_command import evaluate_line, rerun_command, rerun_words
from holdfast.run.fold.reader import RunReader
from holdfast.spec import Drift, EvalSpec
from holdfast.spec.code_reference import IN_MEMORY
from holdfast.spec.compare import Difference
from holdfast.tasks.task import Task
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.engine.opening.fork import ForkForecast

_RESCORED = "the recorded answers scored again, beside the scores that they have"
_NEW_RUN = "a new run, in which identical requests are answered from this one"


class WaysOut:
    """The ways out for one run and one offer; without an offer the data or the code has changed by itself."""

    def __init__(self, reader: RunReader, saved: EvalSpec, offer: Offer | None, given: Mapping[str, Task]) -> None:
        self._reader, self._saved, self._offer, self._given = reader, saved, offer, given
        self._run = shell_word(reader.place)

    def lines(
        self, decision: Decision, unchanged: Sequence[Difference] | None, *, is_rescorable: Callable[[], bool]
    ) -> Iterator[str]:
        """One line each; `unchanged` is what would be refused without the offer (None: that cannot be compared), and
        `is_rescorable` says whether a rescoring with the offer would be accepted.
        """
        undoable = unchanged is None or all(item.undoable for item in unchanged)
        if any((task.use or "").startswith(IN_MEMORY) for task in self._saved.tasks.values()):
            yield from self._in_python(undoable=undoable, is_rescorable=_is_scoring(decision) and is_rescorable())
            return
        if unchanged is not None and not unchanged:
            yield f"without the change, the saved configuration is used: holdfast resume {self._run}"
        elif undoable:
            yield f"undo the changes of data or code, then: holdfast resume {self._run}"
        if _is_scoring(decision) and is_rescorable():
            yield from filter(None, [self._rescore()])
        # Another version is a way out only if nothing else has changed.
        if unchanged and all(item.by_holdfast for item in unchanged):
            yield from self._with_earlier_version()
        forecast = self._forecast()
        again = [self._rerun()] if any(item.drift is Drift.IDENTITY for item in decision.refused) else []
        forked = [self._fork(decision, forecast)]
        keeps_none = forecast is not None and not forecast.kept
        yield from filter(None, [*again, *forked] if keeps_none else [*forked, *again])

    def _with_earlier_version(self) -> Iterator[str]:
        """The version that wrote the run last, where Holdfast itself has changed since."""
        version = self._reader.sessions[-1].version
        if version != __version__:
            yield f"with the Holdfast that recorded it, {version}: holdfast resume {self._run}"

    def _in_python(self, *, undoable: bool, is_rescorable: bool) -> Iterator[str]:
        """Tasks that exist in a process only are resumed from there."""
        place = self._reader.place
        if self._offer is not None and undoable:
            yield f"with the tasks and settings as they were: {evaluate_line(place, 'run')}"
        if is_rescorable:
            yield f"{_RESCORED}: rescore({place!r}, tasks=tasks)  # in Python"
        yield f"{_NEW_RUN}: {evaluate_line(place, 'reuse')}"
        yield f"a run of its own beside this one: {evaluate_line('NEW', 'run')}"

    def _forecast(self) -> ForkForecast | None:
        """What a fork would keep; None where that is not known."""
        # Slow to load, and needed only where a resume is refused.
        from holdfast.engine.opening.fork import forecast_fork  # noqa: PLC0415

        spec = self._saved if self._offer is None else self._offer.spec
        with contextlib.suppress(HoldfastError, OSError):
            return forecast_fork(self._reader, spec, self._given)
        return None

    def _fork(self, decision: Decision, forecast: ForkForecast | None) -> str:
        words = () if self._offer is None else self._offer.fork_words
        if words is None:
            return ""
        command = " ".join(filter(None, ["holdfast fork", self._run, shlex.join(words)]))
        return f"{_fork_effect(decision, forecast)}: {command}"

    def _rescore(self) -> str:
        words = () if self._offer is None else self._offer.fork_words
        if words is None:
            return ""
        command = " ".join(filter(None, ["holdfast rescore", self._run, shlex.join(words)]))
        return f"{_RESCORED}: {command}"

    def _rerun(self) -> str:
        first = self._reader.sessions[0]
        words = rerun_words(first) if self._offer is None else self._offered_words(first, self._offer)
        command = rerun_command(first, self._reader.place, words) if words else ""
        return f"{_NEW_RUN}: {command}" if command else ""

    def _offered_words(self, first: SessionRecord, offer: Offer) -> Sequence[str] | None:
        """What starts a new run of the offer: settings without a file belong to the eval of the run."""
        if offer.run_words is not None:
            return offer.run_words
        words = rerun_words(first)
        return [*words, *offer.fork_words] if words and offer.fork_words is not None else None


def _is_scoring(decision: Decision) -> bool:
    """Whether everything that is refused is about how answers are judged."""
    return all(item.drift is Drift.SCORING for item in decision.refused)


def _fork_effect(decision: Decision, forecast: ForkForecast | None) -> str:
    kept = "what the change does not affect" if forecast is None else f"{forecast.kept} of {forecast.planned} trials"
    if _is_scoring(decision):
        return f"a new run that keeps the answers of {kept} and scores them again"
    return f"a new run that keeps {kept} and answers identical requests of the others from this one"
