"""The eval that is offered to a run: an edited file, the run's own eval, or either with settings changed."""

from __future__ import annotations

from pathlib import Path

from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.errors import ConfigurationError, UsageError
from holdfast.run.core.reader import RunReader
from holdfast.spec import EvalSpec, load_eval, parse_arguments, resolve
from holdfast.spec.override import override


def offered_eval(root: Path, settings: tuple[str, ...], eval_file: Path | None) -> EvalSpec | None:
    """The eval that --config and --set offer; None if neither is given."""
    if eval_file is None and not settings:
        return None
    spec = eval_in_run(root) if eval_file is None else edited_eval(eval_file)
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
    return resolve(load_eval(eval_file), str(eval_file))


def eval_in_run(root: Path) -> EvalSpec:
    """The eval that is saved in a run."""
    reader = RunReader(root)
    try:
        return saved_eval(last_session(reader))
    finally:
        reader.close()
