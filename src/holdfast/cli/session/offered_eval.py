"""The eval that is offered to a run: an edited file, the run's own eval, or either with settings changed."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.ui.standard_streams import say
from holdfast.errors import ConfigurationError, UsageError
from holdfast.models.env_file import read_env_file
from holdfast.spec import EvalSpec, load_eval, parse_arguments, resolve
from holdfast.spec.loading.error_messages import naming_source
from holdfast.spec.override import override

if TYPE_CHECKING:
    from holdfast.api.start import OfferEval


def offer_eval(settings: tuple[str, ...], eval_file: Path | None) -> OfferEval | None:
    """What makes the eval that --config and --set offer to a run; None if neither is given."""
    if eval_file is None and not settings:
        return None

    def offered(saved: EvalSpec) -> EvalSpec:
        return _with_settings(saved if eval_file is None else edited_eval(eval_file), settings)

    return offered


def naming_offer(eval_file: Path | None) -> AbstractContextManager[None]:
    """Names the eval file in an error about something in it; of a run's own eval there is no file to name."""
    return contextlib.nullcontext() if eval_file is None else naming_source(str(eval_file))


def _with_settings(spec: EvalSpec, settings: tuple[str, ...]) -> EvalSpec:
    try:
        return resolve(override(spec, dict(parse_arguments(settings))), "the command line")
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
    for warning in read_env_file(eval_file.parent):
        say(f"warning: {warning}")
    return resolve(load_eval(eval_file), str(eval_file))
