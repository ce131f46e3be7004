"""`holdfast run`: start a run of an eval file or of a Python task."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.analysis.fail_under import ScoreBound, check_bounds
from holdfast.api.dry_run import check_session
from holdfast.api.offered_eval import COMMAND_LINE
from holdfast.api.start import RunRequest, start_session
from holdfast.cli.session.dry_run import print_dry_run
from holdfast.cli.session.execute import run_in_foreground
from holdfast.cli.session.output_options import SessionOutput, output_options
from holdfast.cli.ui.options.fail_under_option import fail_under_option
from holdfast.cli.ui.options.stage_options import until_option
from holdfast.engine.planning.selection import SelectionRequest
from holdfast.errors import ConfigurationError, UsageError
from holdfast.models.env_file import read_env_file
from holdfast.run.core.display_text import unlike_option
from holdfast.spec import EvalSpec, eval_from_flags, load_eval, parse_arguments, resolve
from holdfast.spec.loading.error_messages import key_path, leaving_out_keys, naming_source
from holdfast.spec.override import override
from holdfast.tasks.task_reference import task_names


def _refuse_fresh(_context: click.Context, _option: click.Parameter, is_given: bool) -> None:  # noqa: FBT001 - click's
    """Other tools have this option."""
    if is_given:
        raise UsageError(
            "There is no --fresh: a run is never overwritten.",
            hint="Start a new run in another --run-dir; --reuse OLD_RUN keeps what was paid for.",
        )


_COUNT = click.IntRange(1, 10**9)
"""Checked here: it is set in every task, and an error in each of them would be the same."""


@click.command("run")
@click.argument("eval_file", metavar="EVAL")
@click.option("--model", "models", multiple=True, help="A model for a Python file, as provider/name; may be repeated.")
@click.option("--epochs", type=_COUNT, metavar="INTEGER", help="Repetitions of every sample.")
@click.option("--limit", type=_COUNT, metavar="INTEGER", help="Only the first N samples of every task.")
@click.option("--sample-id", "sample_ids", multiple=True, help="Only the sample with this id; may be repeated.")
@click.option(
    "-T", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument of a Python task; may be repeated."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the eval file, by its path; may be repeated.",
)
@click.option("--run-dir", metavar="PATH|URL", help="Directory for this run, or a URL in an object store.")
@click.option("--or-resume", "--resume", is_flag=True, help="Resume if --run-dir already holds the run.")
@click.option("--fresh", is_flag=True, hidden=True, expose_value=False, callback=_refuse_fresh)
@click.option(
    "--reuse", multiple=True, metavar="RUN", help="Take replies to identical requests from this run; may be repeated."
)
@until_option
@fail_under_option
@click.option("--dry-run", is_flag=True, help="Check everything and show the plan; call and write nothing.")
@output_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(  # noqa: PLR0913 - each is an option
    eval_file: str,
    run_dir: str | None,
    reuse: tuple[str, ...],
    bounds: list[ScoreBound],
    until: str | None,
    *,
    or_resume: bool,
    dry_run: bool,
    as_json: bool,
    output: SessionOutput,
    **flags: Any,
) -> int:
    """Start a run of EVAL: an eval file (.yaml), or a Python file with tasks (file.py or file.py:name)."""
    # Before anything of the eval is loaded: its code may look for a variable.
    warnings = read_env_file(_directory(eval_file))
    spec = _eval_from_options(eval_file, **flags)
    if or_resume and run_dir is None:
        raise UsageError("--or-resume needs --run-dir.", hint="Name the directory that a restart will find again.")
    fork_words, run_words = _same_words(eval_file, **flags)
    request = RunRequest(
        spec,
        run_dir,
        or_resume,
        reuse=reuse,
        source=eval_file,
        warnings=warnings,
        check_plan=partial(check_bounds, bounds),
        selection=SelectionRequest(until=until or ""),
        fork_words=fork_words,
        run_words=run_words,
    )
    made_up = [f"{key_path('tasks', name)}.use" for name in spec.tasks] if _is_python(eval_file) else []
    with naming_source(eval_file), leaving_out_keys(made_up):
        if dry_run:
            return print_dry_run(check_session(request), as_json=as_json)
        started = start_session(request)
    return run_in_foreground(started, as_json=as_json, bounds=bounds, output=output)


def _eval_from_options(
    eval_file: str,
    models: tuple[str, ...],
    epochs: int | None,
    limit: int | None,
    sample_ids: tuple[str, ...],
    arguments: tuple[str, ...],
    settings: tuple[str, ...],
) -> EvalSpec:
    tasks = {"epochs": epochs, "limit": limit, "sample_ids": list(sample_ids) or None}
    args = dict(parse_arguments(arguments))
    if _is_python(eval_file):
        spec = eval_from_flags(task_names(eval_file, Path.cwd()), models, args=args)
    else:
        spec = load_eval(Path(eval_file))
        if models or args:
            flag = "--model" if models else "-T"
            raise UsageError(f"{flag} is for a Python file; {eval_file} is an eval file.", hint="Set it there.")
    changes: dict[str | tuple[str, ...], Any] = {
        ("tasks", name, key): value for name in spec.tasks for key, value in tasks.items() if value is not None
    }
    changes |= dict(parse_arguments(settings))
    return _resolved(spec, changes, eval_file)


def _resolved(spec: EvalSpec, changes: Mapping[str | tuple[str, ...], Any], eval_file: str) -> EvalSpec:
    """The eval with its changes; an error is blamed on the file only if the file alone has it."""
    try:
        return resolve(override(spec, changes), COMMAND_LINE, leaves_models_open=True)
    except ConfigurationError:
        resolve(spec, eval_file)
        raise


def _same_words(
    eval_file: str,
    models: tuple[str, ...],
    epochs: int | None,
    limit: int | None,
    sample_ids: tuple[str, ...],
    arguments: tuple[str, ...],
    settings: tuple[str, ...],
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The words that offer the same to a new run: the options of `fork`, for an eval file, and those of `run`."""
    sizes = [("--epochs", str(epochs))] * (epochs is not None) + [("--limit", str(limit))] * (limit is not None)
    named = [("--model", model) for model in models] + [("--sample-id", sample) for sample in sample_ids]
    others = [("-T", argument) for argument in arguments] + [("--set", setting) for setting in settings]
    run_words = (unlike_option(eval_file), *(word for pair in [*named, *sizes, *others] for word in pair))
    if _is_python(eval_file):
        return None, run_words
    changes = [f"{option.removeprefix('--')}={value}" for option, value in sizes] + list(settings)
    if sample_ids:
        changes.append(f"sample_ids={msgspec.json.encode(sample_ids).decode()}")
    fork_words = ("--config", unlike_option(eval_file), *(word for change in changes for word in ("--set", change)))
    return fork_words, run_words


def _is_python(eval_file: str) -> bool:
    return eval_file.partition(":")[0].endswith(".py") or (":" in eval_file and not Path(eval_file).exists())


def _directory(eval_file: str) -> Path:
    """The directory of an eval file or a Python file; for a module, that from which it is imported."""
    return Path(eval_file.partition(":")[0] if _is_python(eval_file) else eval_file).parent
