"""The eval that is offered to a run: an edited file, the run's own eval, or either with settings changed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError, UsageError
from holdfast.spec import EvalSpec, load_eval, resolve
from holdfast.spec.loading.error_messages import naming_source
from holdfast.spec.override import override

if TYPE_CHECKING:
    from holdfast.api.start import OfferEval

COMMAND_LINE = "the command line"


def offer_eval(changes: Mapping[Any, Any], eval_file: Path | None, source: str = COMMAND_LINE) -> OfferEval | None:
    """What makes the eval that a file and changed settings offer to a run; None if neither is given.

    `source` is what an error calls the settings.
    """
    if eval_file is None and not changes:
        return None

    def offered(saved: EvalSpec) -> EvalSpec:
        return _with_changes(saved if eval_file is None else edited_eval(eval_file), changes, source)

    return offered


def naming_offer(eval_file: Path | None) -> AbstractContextManager[None]:
    """Names the eval file in an error about something in it; of a run's own eval there is no file to name."""
    return contextlib.nullcontext() if eval_file is None else naming_source(str(eval_file))


def _with_changes(spec: EvalSpec, changes: Mapping[Any, Any], source: str) -> EvalSpec:
    try:
        return resolve(override(spec, changes, source), source)
    except ConfigurationError as error:
        raise UsageError(error.message, hint=error.hint) from None


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
    return resolve(load_eval(eval_file), str(eval_file))
