"""A new workspace in the place of one that was removed, from the copies in the run: for the replay script of a trial.

It is started as a program with the run, the key of the trial, and the digests of its template and of what is laid over
that. It makes what is missing and nothing else; the next session of the run removes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.tasks.workspaces.checkout import TemplateFile, check_out
from holdfast.tasks.workspaces.trial_directory import TrialDirectory


def make_fresh(run: Path, key: str, template: str, overlays: list[str]) -> None:
    """Makes the directories of a trial, and fills its workspace.

    Raises:
        HoldfastError: a copy is missing in the run or damaged, or git failed.
        OSError: the disk failed.
    """
    directory = TrialDirectory(run, key)
    files = [TemplateFile(run, digest) for digest in (template, *overlays)]
    for file in files:
        # Before anything is made.
        _ = file.path
    directory.make()
    check_out(files[0], directory, files[1:])


def main(arguments: list[str]) -> int:
    """Makes the workspace; the exit code."""
    run, key, template, *overlays = arguments
    try:
        make_fresh(Path(run), key, template, overlays)
    except (HoldfastError, OSError) as error:
        sys.stderr.write(f"holdfast: no new workspace can be made for the trial {key}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
