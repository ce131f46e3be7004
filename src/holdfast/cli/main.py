"""The program `holdfast`: finds the command, loads it, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import re
import sys
from typing import Any

import click

from holdfast.cli.ui.standard_streams import is_output_error, reopen_closed_streams, reserving_output, say
from holdfast.cli.ui.startup_signals import startup_signals
from holdfast.errors import HoldfastError, StorageFailure, UsageError
from holdfast.terminal.broken_stream import mute_if_broken
from holdfast.terminal.plain_signs import use_plain_signs
from holdfast.version import __version__

_COMPLETION = "_HOLDFAST_COMPLETE"
"""The variable with which a shell asks for completions; see docs/cli.md."""
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What newer versions of click raise where a command without arguments prints its help."""
_OUTPUT_HINT = "No run is affected; check where the output goes."
_STORAGE_HINT = "Check the disk, its limits and the permissions here, then try again."
GROUPS = {
    "run": {
        "init": "Write an eval file, a task and a dataset to start from.",
        "run": "Start a run of an eval file or a Python task.",
        "resume": "Resume a run; no other arguments needed.",
        "rescore": "Score the answers of a run again, with other scorers.",
        "diff": "Show what a resume with an edited eval would change.",
        "fork": "Start a run with an edited eval, and keep unaffected trials.",
    },
    "look": {
        "status": "Show the progress of runs and what their sessions did.",
        "show": "List the trials of a run, or show one in full.",
        "report": "Print scores and coverage.",
        "list": "List model providers, scorers or dataset formats.",
        "schema": "Print the JSON Schema of eval files.",
    },
    "trust": {
        "verify": "Check every frame, digest and count of a run.",
        "repair": "Rebuild derived files, or recover results from artifacts.",
        "clean": "Delete what a run no longer needs.",
    },
    "move": {
        "recover": "Download a run, or recover a crashed Inspect log.",
        "import": "Make a run of the results of another tool.",
        "export": "Write a run in the format of another tool.",
        "cat": "Print the records of a run as JSON lines.",
    },
}
"""The commands with their one-line help, by the folder that holds their modules."""
COMMANDS = {name: (group, text) for group, commands in GROUPS.items() for name, text in commands.items()}
_RUN_CODE = {"run", "resume", "rescore", "fork", "diff", "verify"}
"""The commands that load or run code of tasks, which may print."""
_MODULES = {"import": "import_results"}
"""The modules of commands whose names Python keeps for itself."""
_NAME_WIDTH = max(map(len, COMMANDS))
_TITLES = {"run": "Run evals", "look": "Look at results", "trust": "Check and repair", "move": "Move data"}


_USUAL_NAMES = {"eval": "run", "evaluate": "run", "retry": "resume", "view": "show", "log": "show", "compare": "diff"}
"""Names of commands in other tools."""
_USUAL_OPTIONS = {
    "--max-samples": "--limit",
    "--num-samples": "--limit",
    "--max-examples": "--limit",
    "--log-dir": "--run-dir",
    "--output-dir": "--run-dir",
    "--output": "--run-dir",
    "--repeat": "--epochs",
    "--filter": "--where",
}
"""Names of options in other tools."""


class CommandGroup(click.Group):
    """A group whose commands are loaded by name; listing them loads none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"holdfast.cli.{COMMANDS[cmd_name][0]}.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        if _COMPLETION in os.environ:
            from holdfast.cli.ui.options.argument_completion import complete_references  # noqa: PLC0415 - only a shell needs it

            complete_references(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        given = args[0]
        if given not in COMMANDS and not given.startswith("-") and not ctx.resilient_parsing:
            from holdfast.suggestions import did_you_mean  # noqa: PLC0415 - for an error only

            near = f"Did you mean {_USUAL_NAMES[given]!r}?" if given in _USUAL_NAMES else did_you_mean(given, COMMANDS)
            raise click.UsageError(f"No such command {given!r}. {near}".rstrip(), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with startup_signals:
                return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has gone; there is nobody to tell, now or at exit.
            mute_if_broken(sys.stdout)
            return 141

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        for group, commands in GROUPS.items():
            with formatter.section(_TITLES[group]):
                # One width for all groups, so that the columns are aligned.
                formatter.write_dl([(name.ljust(_NAME_WIDTH), text) for name, text in commands.items()])


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def program() -> None:
    """Run evaluations of language models; never lose a finished result."""


def main(arguments: list[str] | None = None) -> None:
    """Runs a command and ends the process with its exit code; without `arguments`, those of the process."""
    words = sys.argv[1:] if arguments is None else arguments
    reopen_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that knows few characters shows the others as escapes; nothing fails because of it.
        sys.stdout.reconfigure(errors="backslashreplace")
    use_plain_signs(sys.stderr)
    with startup_signals.listening(is_program=arguments is None):
        as_json = "--json" in words
        with reserving_output() if as_json and words[0] in _RUN_CODE else contextlib.nullcontext():
            code = _run_program(words, as_json=as_json)
    code = code if isinstance(code, int) else 0
    mute_if_broken(sys.stderr)
    if arguments is None and startup_signals.number:
        # Python may still take a KeyboardInterrupt for unhandled, and would end by the signal.
        from holdfast.tasks.source.unpacked_copies import remove_directories  # noqa: PLC0415 - for an interrupt only

        mute_if_broken(sys.stdout)
        remove_directories()
        os._exit(code)
    if arguments is None:
        # The process ends here; without this the interpreter searches everything that was loaded for cycles first.
        gc.freeze()
    sys.exit(code)


def _run_program(words: list[str], *, as_json: bool) -> Any:
    """The exit code of the command; every error is printed here."""
    try:
        return program.main(words, prog_name="holdfast", standalone_mode=False)
    except HoldfastError as error:
        return _print_error(error, as_json=as_json)
    except click.ClickException as error:
        return _print_usage_error(error, as_json=as_json)
    except click.Abort as error:
        return _print_stopped(words, getattr(error.__cause__, "place", ""))
    except UnicodeEncodeError as error:
        return _print_error(_encoding_error(error), as_json=as_json)
    except OSError as error:
        return _print_storage_error(error, as_json=as_json)


def _print_stopped(words: list[str], place: str) -> int:
    """Says what Ctrl-C has left, and how to resume it; the exit code. `place` names the run, if there is one."""
    group, _ = COMMANDS.get(words[0], ("", "")) if words else ("", "")
    if place:
        from holdfast.run.core.display_text import shell_word  # noqa: PLC0415 - as below: --help does not pay for it

        say(f"Stopped. Resume with: holdfast resume {shell_word(place)}")
    else:
        say("Nothing was started." if group == "run" else "Stopped.")
    return startup_signals.exit_code or 130


def _print_usage_error(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        return _print_error(UsageError(error.format_message()), as_json=True)
    if isinstance(error, _HELP) or not isinstance(error, click.UsageError):
        error.show()
        return error.exit_code
    message = re.sub(r"\((Did you mean .*)\)$", r"\1", error.format_message())
    if isinstance(error, click.NoSuchOption) and (meant := _meant_option(error)):
        message = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
    path = error.ctx.command_path if error.ctx is not None else "holdfast"
    return _print_error(UsageError(message, hint=f"See: {path} --help"), as_json=False)


def _meant_option(error: click.NoSuchOption) -> str:
    """The option of the command that other tools call by the name that was given; empty if there is none."""
    meant = _USUAL_OPTIONS.get(error.option_name, "")
    known = {name for option in error.ctx.command.params for name in option.opts} if error.ctx is not None else set()
    return meant if meant in known else ""


def _encoding_error(error: UnicodeEncodeError) -> UsageError:
    text = error.object.encode(errors="backslashreplace").decode()
    return UsageError(
        f"{text[:200]} cannot be written in the encoding of this locale ({error.encoding}).",
        hint="Set PYTHONUTF8=1, or LC_ALL to a locale with UTF-8.",
    )


def _print_storage_error(error: OSError, *, as_json: bool) -> int:
    mute_if_broken(sys.stdout)
    if is_output_error(error):
        failure = StorageFailure(f"Standard output cannot be written: {error.strerror}.", hint=_OUTPUT_HINT)
        return _print_error(failure, as_json=False)
    reason = error.strerror or str(error) or type(error).__name__
    said = f"{error.filename}: {reason}." if error.filename else f"A file could not be read or written: {reason}."
    failure = StorageFailure(said, hint=_STORAGE_HINT)
    return _print_error(failure, as_json=as_json)


def _print_error(error: HoldfastError, *, as_json: bool) -> int:
    """Prints an error for people or programs; its exit code."""
    # What printing needs is loaded here, so that --help does not pay for it.
    if as_json:
        from holdfast.cli.ui.json_output import print_json  # noqa: PLC0415

        print_json({"error": error.message, "kind": error.kind, "hint": error.hint})
    else:
        from holdfast.terminal.text import printable  # noqa: PLC0415

        say(printable(f"holdfast: {error}"))
    return error.exit_code
