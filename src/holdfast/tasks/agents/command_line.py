"""The command line of an agent: placeholders filled in, its environment, and a script that runs it once more."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.models.environment_keys import know_environment_keys
from holdfast.tasks.workspaces.trial_directory import TrialDirectory

PLACEHOLDERS = ("prompt", "prompt_file", "workspace", "model", "session", "output")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


def filled(command: Sequence[str] | str, values: Mapping[str, str]) -> list[str]:
    """The arguments of a command; in a text for the shell, each value is one word, whatever it holds."""
    if isinstance(command, str):
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        return ["/bin/sh", "-c", _fill(command, quoted)]
    return [_fill(argument, values) for argument in command]


def _fill(text: str, values: Mapping[str, str]) -> str:
    # In one pass: what a value holds is not filled in again.
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def agent_environment(names: Sequence[str], directory: TrialDirectory) -> dict[str, str]:
    """The environment of an agent: the variables that are named, and nothing else of ours.

    The keys of the environment are redacted from now on, also those that were set since the session started.
    """
    given = {name: os.environ[name] for name in names if name in os.environ}
    know_environment_keys()
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(directory.home),
        "TMPDIR": str(directory.temporary),
        "LANG": "C.UTF-8",
        **given,
    }


def replay_script(command: Sequence[str], cwd: Path, names: Sequence[str], directory: TrialDirectory) -> str:
    """A script that runs the same command once more; it names the variables that it needs, and has no values."""
    kept = " ".join(f'"{name}=${{{name}:?set {name}}}"' for name in names)
    line = " ".join(map(shlex.quote, command))
    return (
        "#!/bin/sh\n"
        "# Runs the agent of this trial once more, in its workspace, with the environment that it had.\n"
        f"cd {shlex.quote(str(cwd))} || exit 1\n"
        f'exec env -i "PATH=$PATH" HOME={shlex.quote(str(directory.home))} '
        f"TMPDIR={shlex.quote(str(directory.temporary))} LANG=C.UTF-8 {kept}{' ' if kept else ''}{line}\n"
    )
