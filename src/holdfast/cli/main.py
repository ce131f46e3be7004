"""The program `holdfast`: finds the verb, loads it, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import importlib
import io
import re
import sys
from typing import Any

import click

from holdfast.cli.ui.early_signals import early
from holdfast.cli.ui.streams import is_of_output, mute_if_broken, open_closed, say
from holdfast.errors import HoldfastError, StorageFailure, UsageError
from holdfast.version import __version__

_ACTING = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_OUTPUT = "No run has suffered by it; see to the place that the output goes to."
_LOOK = "Check that it can be read and written here, then try again."
VERBS = {
    "init": "Write an eval file, a task and a dataset to start from.",
    "run": "Begin a run of an eval file or a Python task.",
    "resume": "Go on with a run, from the run alone.",
    "diff": "Show what a resume with an edited eval would change.",
    "fork": "Begin a run with another eval, and keep what it does not touch.",
    "status": "Show how far runs are, and what their sessions did.",
    "show": "List the trials of a run, or show one transcript.",
    "report": "Print what was measured, and on how much of it.",
    "models": "Say which model providers are ready here.",
    "recover": "Bring a run home from an object store.",
    "verify": "Check every frame, digest and count of a run.",
    "repair": "Rebuild what lies outside the journal, or from result files.",
    "clean": "Delete what a run does not need any more.",
    "cat": "Print the records of a run as JSON lines.",
}


class Verbs(click.Group):
    """A group whose commands are loaded by name; listing them loads none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"holdfast.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has gone; there is nobody to tell, now or at exit.
            mute_if_broken(sys.stdout)
            return 141

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def program() -> None:
    """Run evaluations of language models; never lose a finished result."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and ends the process with its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that knows few characters shows the others as escapes; nothing fails because of it.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = _carry_out(words, as_json="--json" in words)
    mute_if_broken(sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _carry_out(words: list[str], *, as_json: bool) -> Any:
    """Carries the command out; whatever goes wrong is told, and its exit code given."""
    try:
        with early.listening():
            return program.main(words, prog_name="holdfast", standalone_mode=False)
    except HoldfastError as error:
        return _tell(error, as_json=as_json)
    except click.ClickException as error:
        return _tell_refusal(error, as_json=as_json)
    except click.Abort:
        code = early.exit_code or 130
        say("holdfast: stopped.")
        return code
    except UnicodeEncodeError as error:
        return _tell(_unsayable(error), as_json=as_json)
    except OSError as error:
        return _tell_failure(error, as_json=as_json)


def _tell_refusal(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        return _tell(UsageError(error.format_message()), as_json=True)
    error.show()
    return error.exit_code


def _unsayable(error: UnicodeEncodeError) -> UsageError:
    text = error.object.encode(errors="backslashreplace").decode()
    return UsageError(
        f"{text[:200]} cannot be written in the encoding of this locale ({error.encoding}).",
        hint="Set PYTHONUTF8=1, or LC_ALL to a locale with UTF-8.",
    )


def _tell_failure(error: OSError, *, as_json: bool) -> int:
    mute_if_broken(sys.stdout)
    if is_of_output(error):
        failure = StorageFailure(f"Standard output cannot be written: {error.strerror}.", hint=_OUTPUT)
        return _tell(failure, as_json=False)
    return _tell(StorageFailure(f"{error.filename or 'The storage'}: {error.strerror}.", hint=_LOOK), as_json=as_json)


def _tell(error: HoldfastError, *, as_json: bool) -> int:
    if as_json:
        print_json({"error": error.message, "kind": error.kind, "hint": error.hint})
    else:
        from holdfast.cli.ui.printable import printable  # noqa: PLC0415 - not needed for --help

        say(printable(f"holdfast: {error}"))
    return error.exit_code


def print_json(value: Any) -> None:
    """Prints one JSON document to standard output."""
    import msgspec  # noqa: PLC0415 - not needed for --help

    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        from holdfast.models.message import encodable  # noqa: PLC0415 - as above, and hardly ever

        encoded = msgspec.json.encode(encodable(msgspec.to_builtins(value)))
    click.echo(msgspec.json.format(escaped(encoded.decode()).encode(), indent=2))


def escaped(text: str) -> str:
    """JSON in which characters that act on a terminal are written as escapes; its readers take them for the same."""
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
