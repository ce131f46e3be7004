"""The environment of a session: the interpreter, the installed packages, the commit of the eval.

It is in the session's record and is never compared. Unknown values are left out; nothing here can fail a session.
"""

from __future__ import annotations

import contextlib
import sys
from datetime import UTC, datetime
from pathlib import Path

_SUFFIX = ".dist-info"
_MAX_REFERENCES = 5
"""How many references may be followed from one to the next."""


def utc_timestamp() -> str:
    """This moment, for people to read; never compared."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment(directory: str) -> dict[str, str]:
    """The interpreter, the platform and, if the eval lies in a git repository, the commit that is checked out."""
    found = {"python": sys.version.split()[0], "platform": sys.platform}
    if commit := _checked_out_commit(Path(directory)):
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


def _checked_out_commit(directory: Path) -> str:
    # Read here: starting git would cost every session more than this does.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for place in (directory, *directory.parents):
            if (place / ".git").exists():
                return _resolve_ref(_git_directory(place / ".git"), "HEAD")
    return ""


def _git_directory(git: Path) -> Path:
    """The repository's own directory; a worktree has a file that names it."""
    return git.parent / git.read_text().partition("gitdir:")[2].strip() if git.is_file() else git


def _resolve_ref(git: Path, name: str) -> str:
    shared = git / (git / "commondir").read_text().strip() if (git / "commondir").is_file() else git
    for _ in range(_MAX_REFERENCES):
        path = next((home / name for home in (git, shared) if (home / name).is_file()), None)
        text = path.read_text().strip() if path else _packed_ref(shared, name)
        if not text.startswith("ref:"):
            return text if text.isalnum() else ""
        name = text.removeprefix("ref:").strip()
    return ""


def _packed_ref(git: Path, name: str) -> str:
    lines = (git / "packed-refs").read_text().splitlines()
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), "")
