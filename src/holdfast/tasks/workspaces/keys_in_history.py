"""Keys in a repository that a run would keep: every object of a commit and of its history is searched before it does.

The objects are compressed in the run's copy, where no search of bytes would find one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from holdfast.models.environment_keys import know_environment_keys
from holdfast.models.redaction import known_secrets
from holdfast.run.core.keys.key_refusals import key_refusal
from holdfast.tasks.workspaces.git_command import GitFailed, git_command, safe_environment

_BLOCK_BYTES = 1 << 20


def refuse_keys_in_history(repository: Path, commit: str, shown: str) -> None:
    """Refuses a commit in which, or in whose history, a key is.

    Raises:
        ConfigurationError: an object holds the value of a variable that is secret by its name.
    """
    know_environment_keys()
    if not known_secrets.longest:
        return
    before = ""
    for block in _objects(repository, commit):
        # A key may begin in one block and end in the next.
        text = before + block.decode("utf-8", "replace")
        for name in known_secrets.names_in(text):
            raise key_refusal(f"The repository {shown}, or its history,", name)
        before = text[-known_secrets.longest :]


def _objects(repository: Path, commit: str) -> Iterator[bytes]:
    """All that git would pack of a commit and its history, one object after the other, as a stream."""
    listed = _started(repository, subprocess.DEVNULL, "rev-list", "--objects", "--no-object-names", commit)
    with listed, _started(repository, listed.stdout, "cat-file", "--batch", "--buffer") as printed:
        # Only the reader may hold the pipe, or the writer would never learn that it has gone.
        if listed.stdout is not None:
            listed.stdout.close()
        while printed.stdout is not None and (block := printed.stdout.read(_BLOCK_BYTES)):
            yield block
    if code := listed.returncode or printed.returncode:
        raise GitFailed(f"git could not list the objects of {repository}: exit code {code}")


def _started(repository: Path, stdin: int | IO[bytes] | None, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        git_command(*arguments),
        cwd=repository,
        env=safe_environment(repository),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
