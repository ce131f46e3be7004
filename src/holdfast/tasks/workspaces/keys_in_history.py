"""Keys in a repository that a run would keep: every object of a commit and of its history is searched before it does.

The objects are compressed in the run's copy, where no search of bytes would find one. A commit never changes: what was
searched for the same keys in this process is not searched again.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

from holdfast.models.environment_keys import know_environment_keys
from holdfast.models.redaction import known_secrets
from holdfast.run.core.keys.key_refusals import key_refusal
from holdfast.tasks.workspaces.git_command import GIT_SECONDS, GitFailed, git_command, safe_environment

_BLOCK_BYTES = 1 << 20
_searched: set[tuple[str, str, int]] = set()
"""The repositories and commits in which none of the keys is, with a number that stands for the keys."""


def refuse_keys_in_history(repository: Path, commit: str, shown: str) -> None:
    """Refuses a commit in which, or in whose history, a key is.

    Raises:
        ConfigurationError: an object holds the value of a variable that is secret by its name.
        GitFailed: git could not print the objects, or took longer than it may.
    """
    know_environment_keys()
    # A clone lies elsewhere each time; the place that it was made of is the same.
    searched = (shown, commit, hash(tuple(known_secrets.pairs)))
    if not known_secrets.longest or searched in _searched:
        return
    before = ""
    # After a find, nothing may keep the processes alive, such as the traceback of the refusal.
    with contextlib.closing(_objects(repository, commit)) as blocks:
        for block in blocks:
            # A key may begin in one block and end in the next.
            text = before + block.decode("utf-8", "replace")
            for name in known_secrets.names_in(text):
                raise key_refusal(f"The repository {shown}, or its history,", name)
            before = text[-known_secrets.longest :]
    _searched.add(searched)


def _objects(repository: Path, commit: str) -> Generator[bytes]:
    """All that git would pack of a commit and its history, one object after the other, as a stream."""
    with tempfile.TemporaryFile() as said, _processes(repository, commit, said) as (listed, printed, is_late):
        while printed.stdout is not None and (block := printed.stdout.read(_BLOCK_BYTES)):
            yield block
        code = printed.wait() or listed.wait()
        if is_late.is_set():
            raise GitFailed(f"git did not list the objects of {repository} within {GIT_SECONDS:g} seconds")
        if code:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            raise GitFailed(f"git could not list the objects of {repository}: {[f'exit code {code}', *lines][-1]}")


@contextlib.contextmanager
def _processes(
    repository: Path, commit: str, said: IO[bytes]
) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes], threading.Event]]:
    """The process that lists objects, the one that prints them, and whether they were ended for taking too long."""
    listed = _started(repository, None, said, "rev-list", "--objects", "--no-object-names", commit)
    with listed, _started(repository, listed.stdout, said, "cat-file", "--batch", "--buffer") as printed:
        # Only the reader may hold the pipe, or the writer would never learn that it has gone.
        if listed.stdout is not None:
            listed.stdout.close()
        is_late, both = threading.Event(), (listed, printed)
        timer = threading.Timer(GIT_SECONDS, _end_late, (both, is_late))
        timer.daemon = True
        timer.start()
        try:
            yield (*both, is_late)
        finally:
            timer.cancel()
            for process in both:
                process.kill()


def _end_late(processes: tuple[subprocess.Popen[bytes], ...], is_late: threading.Event) -> None:
    is_late.set()
    for process in processes:
        process.kill()


def _started(repository: Path, stdin: IO[bytes] | None, said: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        git_command(*arguments),
        cwd=repository,
        env=safe_environment(repository),
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=said,
    )
