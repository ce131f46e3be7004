"""The files of a workspace as an agent has left them: listed beside it, so that later changes can be named.

A line is a type, a mode, a size, a time and a path, as the supervisor lists them. What is in a `.git` is not listed:
looking at a workspace with git changes it, and it is not captured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.processes.supervisor_main import tree_digest, tree_lines
from holdfast.tasks.workspaces.tree_state import shown_path

MISSING, SHORTER = "missing", "shorter"
_CRASHES_LEAVE = {MISSING, SHORTER}
_MOST_NAMED = 10


class WorkspaceChange(NamedTuple):
    """What has become of a workspace that an agent has left."""

    text: str
    is_lost: bool
    """Whether it is what a crash of the machine does: nobody has changed it, and nothing can be put right."""
    can_be_captured: bool = True
    """Whether it could be captured as it is now."""


class ChangedEntry(NamedTuple):
    """A file or directory that is not as it was left."""

    path: str
    how: str

    def __str__(self) -> str:
        return f"{self.path} ({self.how})"


def list_files(workspace: Path, listing: Path) -> str:
    """Writes what is in a workspace to `listing`; the digest of that, empty if there is too much in it.

    Raises:
        OSError: the disk failed.
    """
    with listing.open("wb") as file:
        return tree_digest(str(workspace), listing=file)


def changed_files(workspace: Path, listing: Path, digest: str) -> list[ChangedEntry]:
    """What has changed since `listing` was written, by name; nothing if that no longer has its digest."""
    try:
        data = listing.read_bytes()
    except OSError:
        return []
    if hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
        return []
    before = dict(_entries(data.split(b"\0")[:-1]))
    found = list(_differences(before, dict(_entries(line[:-1] for line in tree_lines(str(workspace))))))
    root = len(str(workspace).encode("utf-8", "surrogateescape")) + 1
    return [ChangedEntry(shown_path(path[root:]), how) for path, how in sorted(found)]


def _entries(lines: Iterator[bytes] | list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    for line in lines:
        *facts, path = line.split(b" ", 4)
        yield path, facts


def _differences(before: dict[bytes, list[bytes]], now: dict[bytes, list[bytes]]) -> Iterator[tuple[bytes, str]]:
    yield from ((path, MISSING) for path in before.keys() - now.keys())
    yield from ((path, "new") for path in now.keys() - before.keys())
    for path in before.keys() & now.keys():
        if before[path] != now[path]:
            is_shorter = int(now[path][2]) < int(before[path][2])
            yield path, SHORTER if is_shorter else "changed"


def change_of(changed: list[ChangedEntry], *, is_restarted: bool) -> WorkspaceChange:
    """What changed files say of a workspace; `is_restarted` is whether the machine was started again meanwhile."""
    is_lost = is_restarted and any(one.how in _CRASHES_LEAVE for one in changed)
    named = ", ".join(map(str, changed[:_MOST_NAMED]))
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    return WorkspaceChange(f"its files are not as the agent has left them: {named or 'unknown which'}{more}", is_lost)
