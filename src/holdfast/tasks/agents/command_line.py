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
    command: Sequence[str], names: Sequence[str], directory: TrialDirectory, fresh: FreshWorkspace, depth: int
) -> str:
    """A script that runs the same command once more; it names the variables that it needs, and has no values.

    It finds the run by its own place, `depth` directories below it: a run may be moved, copied or forked.
    """
    run, key = fresh.run, fresh.key
    work, ready, made = (_in_run(str(path), run) for path in (directory.workspace, directory.marker, directory.replay))
    env = _replay_environment(names, directory, run)
    making = _joined([sys.executable, "-m", fresh_workspace.__name__, str(run), key, *fresh.templates], run)
    setup = f"    (cd {work} && {env} /bin/sh -c {_in_run(fresh.setup, run)}) || exit 1\n" if fresh.setup else ""
    return (
        "#!/bin/sh\n"
        "# Runs the agent of this trial once more, with the environment that it had: in its workspace or, if that was\n"
        "# removed, in a new one from the template in the run.\n"
        f'run=$(cd "$(dirname "$0")/{"/".join([".."] * depth)}" && pwd) || exit 1\n'
        f"if [ ! -e {ready} ] && [ ! -e {made} ]; then\n    {making} || exit 1\n{setup}    : > {made}\nfi\n"
        f"cd {work} || exit 1\n"
        f"exec {env} {_joined(command, run)}\n"
    )


def _joined(command: Sequence[str], run: Path) -> str:
    return " ".join(_in_run(argument, run) for argument in command)


def _in_run(text: str, run: Path) -> str:
    """A text as one word for the shell, with the place where the run is then."""
    return '"$run"'.join(shlex.quote(part) if part else "" for part in text.split(str(run))) or "''"


def _replay_environment(names: Sequence[str], directory: TrialDirectory, run: Path) -> str:
    kept = "".join(f' "{name}=${{{name}:?set {name}}}"' for name in names)
    home, temporary = _in_run(str(directory.home), run), _in_run(str(directory.temporary), run)
    return f'env -i "PATH=$PATH" HOME={home} TMPDIR={temporary} LANG=C.UTF-8{kept}'
