"""Finding the run that a user names: a path, a URL, or an unambiguous part of a run's name below `runs`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from holdfast.errors import NotARun, UsageError
from holdfast.run.core.layout import RUNS, Layout, all_runs, spool_root
from holdfast.storage.object_store import is_url


def find_run(text: str, runs: Path = RUNS) -> Path:
    """The directory of the run that `text` names.

    Raises:
        UsageError: more than one run matches; they are listed.
        NotARun: none does.
    """
    if is_url(text):
        from holdfast.run.remote.merged_view import open_merged_view  # noqa: PLC0415 - for runs in a store only

        return open_merged_view(text)[0]
    path = Path(text)
    # Too long a text is not a path either.
    with contextlib.suppress(OSError):
        if path.exists():
            return path
    found = [item for item in all_runs(runs) if text in item.name]
    exact = [item for item in found if item.name == text]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise UsageError(
            f"{text!r} matches {len(found)} runs: {', '.join(str(item) for item in found)}.",
            hint="Give more of the name.",
        )
    raise NotARun(f"There is no run {text!r}, neither as a path nor below {runs}/.", hint=_runs_hint(runs))


def find_local_run(text: str, what: str) -> Path:
    """As `find_run`, for what is done to a run in a directory only; `what` says what that is.

    Raises:
        UsageError: the run is in an object store, or the directory is the spool of such a run.
    """
    root = Path() if is_url(text) else find_run(text)
    if url := text if is_url(text) else Layout(root).read_url():
        raise UsageError(
            f"{url} is in an object store, and only a run in a directory can be {what}.",
            hint=f"Download it first: `holdfast recover {url} --to DIR`.",
        )
    return root


def find_spool(text: str) -> tuple[str, Path]:
    """The URL of a run in an object store, and its spool on this machine; either may be given.

    Raises:
        UsageError: the run is in a directory only.
    """
    if is_url(text):
        return text.rstrip("/"), spool_root(text)
    root = find_run(text)
    if not (url := Layout(root).read_url()):
        raise UsageError(
            f"{root} is a local run: it has no spool, and there is no other copy of it.",
            hint="--spool is for runs in an object store.",
        )
    return url, root


def _runs_hint(runs: Path) -> str:
    names = [item.name for item in all_runs(runs)]
    return f"Runs in this directory: {', '.join(names[-5:])}." if names else "Give the directory of a run."
