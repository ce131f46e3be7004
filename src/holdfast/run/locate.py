"""Finding the run that a user names: a path, a URL, `@latest`, or an unambiguous part of a run's name.

Names and `@latest` look at the runs below `runs/` and at those directly in the current directory, which `--run-dir`
may have put there. The newest run is the one that was started last; resuming an older one does not change that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import NotARun, UsageError
from holdfast.journal.segment import parse_name
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import RUNS, Layout, all_runs, spool_root
from holdfast.run.core.start_time import start_time
from holdfast.storage.store_url import is_url
from holdfast.suggestions import nearest_name

LATEST = "@latest"
_NEW_RUN = "Start one with: holdfast run EVAL"


def find_run(text: str, runs: Path = RUNS) -> Path:
    """The directory of the run that `text` names.

    Raises:
        UsageError: more than one run matches; they are listed. Or the name is empty.
        NotARun: no run matches.
    """
    refuse_blank(text, "the run")
    if is_url(text):
        from holdfast.run.remote.merged_view import open_merged_view  # noqa: PLC0415 - for runs in a store only

        return open_merged_view(text)[0]
    if text == LATEST:
        return find_newest_run(runs)
    path = Path(text)
    # Too long a text is not a path either.
    with contextlib.suppress(OSError):
        if path.exists():
            return path
    return _find_by_name(text, runs)


def refuse_blank(place: str, what: str) -> None:
    """Refuses what a shell makes of a variable that is not set, before it means the current directory.

    Raises:
        UsageError: the name of the place is empty or blank; `what` says what it was to be.
    """
    if not place.strip():
        raise UsageError(f"The name of {what} is empty: {place!r}.", hint="A shell variable may not be set.")


def find_newest_run(runs: Path = RUNS) -> Path:
    """The run that was started last, whatever state it is in.

    Raises:
        NotARun: there is no run.
    """
    found = known_runs(runs)
    if not found:
        raise NotARun(f"There is no run, neither below {runs}/ nor in this directory.", hint=_NEW_RUN)
    return max(found, key=start_time)


def known_runs(runs: Path = RUNS) -> list[Path]:
    """Every run below `runs` and every run directly in the current directory."""
    return [*all_runs(runs), *sorted(item for item in _current_directory() if _holds_run(item))]


def _current_directory() -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from (item for item in Path().iterdir() if not item.name.startswith("."))


def _holds_run(directory: Path) -> bool:
    """Whether it has segments of a journal; other things may be in it, or it may not be ours to read."""
    try:
        return any(parse_name(path.name) for path in Layout(directory).journal.iterdir())
    except OSError:
        return False


def _find_by_name(text: str, runs: Path) -> Path:
    known = known_runs(runs)
    found = [item for item in known if text in item.name]
    exact = [item for item in found if item.name == text]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise UsageError(
            f"{text!r} matches {len(found)} runs: {', '.join(str(item) for item in found)}.",
            hint="Give more of the name.",
        )
    hint = f"Newest runs: {_newest_names(known)}." if known else _NEW_RUN
    if (near := nearest_name(Path(text).name, [item.name for item in known], cutoff=0.6)) is not None:
        hint = f"Did you mean {next(item for item in known if item.name == near)}?"
    raise NotARun(f"There is no run {text!r}: not a path, and not part of a name below {runs}/ or here.", hint=hint)


def _newest_names(known: list[Path]) -> str:
    return ", ".join(str(item) for item in sorted(known, key=start_time)[-5:])


def find_local_run(text: str, what: str) -> Path:
    """As `find_run`, for what is done to a run in a directory only; `what` says what that is.

    Raises:
        UsageError: the run is in an object store, or the directory is the spool of such a run.
    """
    root = Path() if is_url(text) else find_run(text)
    if url := text if is_url(text) else Layout(root).read_url():
        raise UsageError(
            f"{url} is in an object store, and only a run in a directory can be {what}.",
            hint=f"Download it first: `holdfast recover {shell_word(url)} --to DIR`.",
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
            f"{root} is a local run: it has no spool, and no other copy exists.",
            hint="--local is for runs in an object store.",
        )
    return url, root
