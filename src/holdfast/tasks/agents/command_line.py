"""The command line of an agent: placeholders filled in, its environment, and a script that runs it once more."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.models.environment_keys import know_environment_keys
from holdfast.tasks.workspaces import fresh_workspace
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


class FreshWorkspace(NamedTuple):
    """What a removed workspace is made from again."""

    run: Path
    key: str
    templates: Sequence[str]
    """The digests of the template and of what is laid over it."""
    setup: str | None


def replay_script(
    command: Sequence[str], names: Sequence[str], directory: TrialDirectory, fresh: FreshWorkspace
) -> str:
    """A script that runs the same command once more; it names the variables that it needs, and has no values."""
    work, line = shlex.quote(str(directory.workspace)), shlex.join(command)
    env = _replay_environment(names, directory)
    making = [sys.executable, "-m", fresh_workspace.__name__, str(fresh.run), fresh.key, *fresh.templates]
    setup = f"    (cd {work} && {env} /bin/sh -c {shlex.quote(fresh.setup)}) || exit 1\n" if fresh.setup else ""
    return (
        "#!/bin/sh\n"
        "# Runs the agent of this trial once more, with the environment that it had: in its workspace or, if that was\n"
        "# removed, in a new one from the template in the run.\n"
        f"if [ ! -d {work} ]; then\n    {shlex.join(making)} || exit 1\n{setup}fi\n"
        f"cd {work} || exit 1\n"
        f"exec {env} {line}\n"
    )


def _replay_environment(names: Sequence[str], directory: TrialDirectory) -> str:
    kept = "".join(f' "{name}=${{{name}:?set {name}}}"' for name in names)
    home, temporary = shlex.quote(str(directory.home)), shlex.quote(str(directory.temporary))
    return f'env -i "PATH=$PATH" HOME={home} TMPDIR={temporary} LANG=C.UTF-8{kept}'
