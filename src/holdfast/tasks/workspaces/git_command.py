"""Git, run so that nothing of the machine's or of a repository's configuration is executed.

No hook, filter, file-system monitor, external diff or text conversion runs; the user's and the system's configuration
are not read; no terminal is asked for anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.errors import ConfigurationError
from holdfast.tasks.workspaces.storage_errors import check_disk

GIT_SECONDS = 3600.0
"""How long git may take."""
_SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "safe.directory=*"),
    *("-c", "gc.auto=0"),
    *("-c", "advice.detachedHead=false"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "core.excludesFile=/dev/null"),
    *("-c", "core.autocrlf=false"),
)


class GitFailed(ConfigurationError):  # noqa: N818 - reads as a sentence where it is raised
    """Git could not do what was asked."""


def safe_environment(ceiling: Path | None = None) -> dict[str, str]:
    """The environment of git; no repository above `ceiling` is found, where it works or below."""
    own = {name: os.environ[name] for name in ("PATH", "TMPDIR", "SSH_AUTH_SOCK") if name in os.environ}
    return {
        **own,
        "HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C.UTF-8",
        **({"GIT_CEILING_DIRECTORIES": str(ceiling.resolve().parent)} if ceiling else {}),
    }


def git_command(*arguments: str) -> list[str]:
    """The command line of git with these arguments.

    Raises:
        ConfigurationError: there is no git.
    """
    program = shutil.which("git")
    if program is None:
        raise ConfigurationError("Workspaces need git, which is not installed.", hint="Install git.")
    return [program, *_SAFE, *arguments]


def run_git(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    stdin: bytes | BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """What git printed, where that does not go to a file.

    Raises:
        GitFailed: it ended with an error.
        StorageFailure: it ended with an error because the disk is full, or fails.
    """
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin or subprocess.DEVNULL}
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            git_command(*arguments),
            cwd=cwd,
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**safe_environment(cwd), **(environment or {})},
            timeout=GIT_SECONDS,
            check=False,
            **given,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _check_disk(cwd)
        raise GitFailed(f"git {arguments[0]} failed: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        _check_disk(cwd, "\n".join(said))
        raise GitFailed(f"git {arguments[0]} failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout or b""


def _check_disk(place: Path | None, said: str = "") -> None:
    if place is not None:
        check_disk(place, said)
