"""What a session ran with, for whoever asks later: the interpreter, the packages installed, the commit of the eval.

It stands in the session's record and is never compared. What cannot be found out is left out; nothing here can fail a
session.
"""

from __future__ import annotations

import contextlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.journal import SegmentPin
from holdfast.run.core.records import SessionRecord
from holdfast.version import __version__

_SUFFIX = ".dist-info"
_LINKS = 5
"""So many references may lead on to others."""


def session_record(
    run: str, number: int, pins: list[SegmentPin], *, name: str, config: dict[str, Any], **fields: Any
) -> SessionRecord:
    """The record of a session of this process, now."""
    return SessionRecord(
        number=number,
        run=run,
        name=name,
        at=now(),
        version=__version__,
        config=config,
        environment=environment(str(config.get("directory", "."))),
        # Only told to people, so bytes that are no text are told as escapes.
        invocation=[word.encode(errors="backslashreplace").decode() for word in sys.argv],
        pins=pins,
        **fields,
    )


def now() -> str:
    """This moment, for people to read; never compared."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment(directory: str) -> dict[str, str]:
    """The interpreter, the platform and, if the eval lies in a git repository, the commit that is checked out."""
    found = {"python": sys.version.split()[0], "platform": sys.platform}
    if commit := _commit(Path(directory)):
        found["commit"] = commit
    return found


def packages() -> dict[str, str]:
    """The version of every package that could be imported, from the names of their directories."""
    found: dict[str, str] = {}
    for place in sys.path:
        with contextlib.suppress(OSError):
            for entry in sorted(Path(place).glob(f"*{_SUFFIX}")):
                name, _, version = entry.name.removesuffix(_SUFFIX).partition("-")
                if version.isprintable() and name.isprintable():
                    found.setdefault(name, version)
    return found


def _commit(directory: Path) -> str:
    # Read here: starting git would cost every session more than this does.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for place in (directory, *directory.parents):
            if (place / ".git").exists():
                return _resolved(_git_directory(place / ".git"), "HEAD")
    return ""


def _git_directory(git: Path) -> Path:
    """The repository's own directory; a worktree has a file that names it."""
    return git.parent / git.read_text().partition("gitdir:")[2].strip() if git.is_file() else git


def _resolved(git: Path, name: str) -> str:
    shared = git / (git / "commondir").read_text().strip() if (git / "commondir").is_file() else git
    for _ in range(_LINKS):
        path = next((home / name for home in (git, shared) if (home / name).is_file()), None)
        text = path.read_text().strip() if path else _packed(shared, name)
        if not text.startswith("ref:"):
            return text if text.isalnum() else ""
        name = text.removeprefix("ref:").strip()
    return ""


def _packed(git: Path, name: str) -> str:
    lines = (git / "packed-refs").read_text().splitlines()
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), "")
