"""The eval that is offered to a run: an edited file, the run's own eval, or either with settings changed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine.opening.comparing.offer import Offer
from holdfast.errors import ConfigurationError, UsageError
from holdfast.run.core.display_text import unlike_option
from holdfast.spec import EvalSpec, load_eval, resolve
from holdfast.spec.loading.error_messages import naming_source
from holdfast.spec.override import override
from holdfast.spec.schema.runner import TaskRunner

COMMAND_LINE = "the command line"
TITLES = frozenset({"name", "description", "tags"})
_INHERITED = ("max_retries", "fail_fast", "retry_deadline")


def offer_eval(
    changes: Mapping[Any, Any], eval_file: Path | None, source: str = COMMAND_LINE, settings: Sequence[str] = ()
) -> EvalOffer | None:
    """What makes the offer of a file and changed settings to a run; None if neither is given.

    `source` is what an error calls the settings, and `settings` are the same as they were typed.
    """
    return EvalOffer(changes, eval_file, source, settings) if eval_file is not None or changes else None


class EvalOffer:
    """An edited file or changed settings, or both; called with the eval that is saved in a run, it makes the offer."""

    def __init__(
        self, changes: Mapping[Any, Any], eval_file: Path | None, source: str, settings: Sequence[str] = ()
    ) -> None:
        self._changes, self._file, self._source, self._settings = changes, eval_file, source, settings
        self.idle: list[str] = []
        """The settings that change nothing, once the offer was made."""

    def __call__(self, saved: EvalSpec) -> Offer:
        base = _without_inherited(saved) if self._file is None else edited_eval(self._file)
        self.idle = [str(path) for path, value in self._changes.items() if self._is_idle(base, saved, path, value)]
        fork_words, run_words = self._words()
        titles = TITLES & self._changes.keys()
        return Offer(self._with(base, self._changes), titles=titles, fork_words=fork_words, run_words=run_words)

    def _words(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """The options of `fork` that offer the same, and the words of `run`; None for changes that were not typed."""
        if self._changes and not self._settings:
            return None, None
        words = [word for setting in self._settings for word in ("--set", setting)]
        file = [] if self._file is None else [unlike_option(str(self._file))]
        return (*(["--config", *file] if file else []), *words), (*file, *words) if file else None

    def _is_idle(self, base: EvalSpec, saved: EvalSpec, path: Any, value: Any) -> bool:
        """Whether one of the changes by itself leaves the eval as it is."""
        unchanged = saved if self._file is None else resolve(base, self._source, leaves_models_open=True)
        return self._with(base, {path: value}) == unchanged

    def _with(self, spec: EvalSpec, changes: Mapping[Any, Any]) -> EvalSpec:
        try:
            return resolve(override(spec, changes, self._source), self._source, leaves_models_open=True)
        except ConfigurationError as error:
            raise UsageError(error.message, hint=error.hint) from None


def _without_inherited(saved: EvalSpec) -> EvalSpec:
    """The saved eval without what its tasks only have from the run: they have it again once the run's is changed."""
    tasks = {
        name: msgspec.structs.replace(task, runner=_own_settings(task.runner, saved))
        for name, task in saved.tasks.items()
    }
    return msgspec.structs.replace(saved, tasks=tasks)


def _own_settings(runner: TaskRunner, saved: EvalSpec) -> TaskRunner:
    same = {name: None for name in _INHERITED if getattr(runner, name) == getattr(saved.runner, name)}
    return msgspec.structs.replace(runner, **same)


def naming_offer(eval_file: Path | None) -> AbstractContextManager[None]:
    """Names the eval file in an error about something in it; of a run's own eval there is no file to name."""
    return contextlib.nullcontext() if eval_file is None else naming_source(str(eval_file))


def edited_eval(eval_file: Path) -> EvalSpec:
    """The eval in a file that is offered to a run.

    Raises:
        UsageError: it is Python; a run knows itself where the code of its tasks is.
    """
    if eval_file.suffix == ".py":
        raise UsageError(
            f"{eval_file} is a Python file, and not an eval file.",
            hint="A run takes the code of its tasks as it is now; settings are changed with --set.",
        )
    return resolve(load_eval(eval_file), str(eval_file), leaves_models_open=True)
