"""What an agent has made of its workspace: the changed files, and their differences as a patch.

Git never runs in the workspace, which holds whatever the agent has put there: the changed files are copied, without
following a link, to a place of our own beside what they were, and the two are compared byte by byte: in an empty
repository of our own, so that neither the attributes that an agent has written nor a repository around the run have an
effect. Size, number and time are bounded; what is left out is counted.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.tasks.workspaces.checkout import TemplateFile, extract, make_parents, shared_repository
from holdfast.tasks.workspaces.git_command import git_command, run_git, safe_environment
from holdfast.tasks.workspaces.storage_errors import check_disk
from holdfast.tasks.workspaces.tree_state import (
    FILE,
    LINK,
    TreeEntry,
    TreeReplaced,
    TreeState,
    file_content,
    open_parent,
    open_tree,
    raise_shortage,
    read_tree,
    shown_path,
)
from holdfast.tasks.workspaces.trial_directory import TrialDirectory, remove_tree
from holdfast.tasks.workspaces.workspace_template import COMMIT, FILES, TREE, read_small_members

ADDED, CHANGED, DELETED = "added", "changed", "deleted"
MOST_LISTED = 1000
_MOST_DIFFED = 2000
_LARGEST_DIFFED = 1 << 20
_MOST_COPIED = 64 << 20
_DIFF_SECONDS = 120.0


class ChangedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that is not as it was."""

    path: str
    change: str
    kind: str = FILE
    size: int = 0
    digest: str = ""
    target: str = ""
    """Of a link, where it points to; it is not followed."""


class Capture(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was taken from a workspace."""

    files: list[ChangedFile] = []
    """The first ones, by name."""
    changed: int = 0
    """How many there are in all."""
    patch: bytes = b""
    patch_cut: bool = False
    """Whether the patch is not whole: longer than its cap, files too large or too many for it, or git failed."""
    patch_error: str = ""
    """Why git could not compare everything, if it could not."""
    left_out: int = 0
    """How many entries of the workspace were too many or too deep, or could not be opened."""
    replaced: str = ""
    """What has become of the workspace itself, if it is gone."""


def write_base(directory: TrialDirectory) -> TreeState:
    """Takes note of what a workspace holds that is ready; outside of it."""
    state = read_tree(directory.workspace)
    listed = {path.decode("latin-1"): entry for path, entry in state.entries.items()}
    directory.base.write_bytes(msgspec.json.encode(listed))
    return state


def read_base(directory: TrialDirectory) -> TreeState:
    """What the workspace held when it was ready.

    Raises:
        OSError: nothing was noted.
    """
    listed = msgspec.json.decode(directory.base.read_bytes(), type=dict[str, TreeEntry])
    return TreeState({path.encode("latin-1"): entry for path, entry in listed.items()})


def capture_workspace(
    directory: TrialDirectory, template: TemplateFile, overlays: Sequence[TemplateFile], cap: int
) -> Capture:
    """What has changed in the workspace since it was ready; the patch has at most `cap` bytes.

    `overlays` were laid over the template.

    Raises:
        OSError: nothing was noted of the workspace, or the disk failed.
    """
    base, replaced = read_base(directory), ""
    try:
        after = read_tree(directory.workspace, base)
    except TreeReplaced as error:
        after, replaced = TreeState({}), str(error)
    changes = _changes(base, after)
    listed = [_changed_file(directory, path, change, after) for path, change in changes[:MOST_LISTED]]
    patch = _patch(directory, [template, *overlays], [path for path, _ in changes], base, after, cap)
    return Capture(listed, len(changes), patch.text, patch.is_cut, patch.error, after.left_out, replaced)


def _changes(base: TreeState, after: TreeState) -> list[tuple[bytes, str]]:
    found = [
        (path, ADDED if path not in base.entries else CHANGED)
        for path, entry in after.entries.items()
        if path not in base.entries or not entry.is_same(base.entries[path])
    ]
    # What was not looked at may be there.
    if not after.left_out:
        found += [(path, DELETED) for path in base.entries if path not in after.entries]
    return sorted(found)


def _changed_file(directory: TrialDirectory, path: bytes, change: str, after: TreeState) -> ChangedFile:
    if change == DELETED:
        return ChangedFile(shown_path(path), change)
    entry = after.entries[path]
    target = shown_path(_link_target(directory, path)) if entry.kind == LINK else ""
    return ChangedFile(shown_path(path), change, entry.kind, entry.size, entry.digest, target)


def _link_target(directory: TrialDirectory, path: bytes) -> bytes:
    with contextlib.suppress(OSError, TreeReplaced):
        root = open_tree(directory.workspace)
        try:
            fd, name = open_parent(root, path)
            try:
                return os.readlink(name, dir_fd=fd)
            finally:
                os.close(fd)
        finally:
            os.close(root)
    return b""


# The patch.


class _Patch(NamedTuple):
    text: bytes
    is_cut: bool
    """Whether something is missing in it."""
    error: str = ""


def _patch(
    directory: TrialDirectory,
    layers: Sequence[TemplateFile],
    paths: list[bytes],
    base: TreeState,
    after: TreeState,
    cap: int,
) -> _Patch:
    chosen = [path for path in paths if _is_diffable(path, base) and _is_diffable(path, after)][:_MOST_DIFFED]
    place = directory.state / "diff"
    if os.path.lexists(place):
        remove_tree(place)
    before, now = place / "a", place / "b"
    for side in (before, now):
        side.mkdir(parents=True)
    _copy_before([path for path in chosen if path in base.entries], layers, before)
    is_whole = _copy_after([path for path in chosen if path in after.entries], directory, after, now)
    patch = _diff(place, cap)
    remove_tree(place)
    return patch._replace(is_cut=patch.is_cut or not is_whole or len(chosen) < len(paths))


def _is_diffable(path: bytes, state: TreeState) -> bool:
    entry = state.entries.get(path)
    return entry is None or entry.kind == LINK or (entry.kind == FILE and entry.size <= _LARGEST_DIFFED)


def _copy_before(paths: Iterable[bytes], layers: Sequence[TemplateFile], target: Path) -> None:
    """Writes files as the template and what was laid over it have them; not those that the setup command made."""
    template, *overlays = layers
    wanted, archive = set(paths), template.path
    if not wanted:
        return
    if COMMIT in (members := read_small_members(archive)):
        _copy_from_commit(wanted, template, members[COMMIT].decode().strip(), target)
    extract(archive, target, (TREE, FILES), wanted)
    for overlay in overlays:
        extract(overlay.path, target, (FILES,), wanted)


def _copy_from_commit(wanted: set[bytes], template: TemplateFile, commit: str, target: Path) -> None:
    shared, index = shared_repository(template), target.with_name("index")
    own = {"GIT_DIR": str(shared), "GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(target)}
    run_git(["read-tree", commit], cwd=target, environment=own)
    tracked = run_git(["ls-files", "-z"], cwd=target, environment=own)
    known = set(tracked.split(b"\0"))
    names = b"".join(path + b"\0" for path in sorted(wanted & known))
    if names:
        run_git(["checkout-index", "-z", "--stdin", "--force"], cwd=target, stdin=names, environment=own)


def _copy_after(paths: Iterable[bytes], directory: TrialDirectory, after: TreeState, target: Path) -> bool:
    """Copies files of the workspace; whether all of them were."""
    try:
        root = open_tree(directory.workspace)
    except TreeReplaced:
        return True
    left, is_whole = _MOST_COPIED, True
    try:
        for path in paths:
            entry = after.entries[path]
            left -= entry.size
            if left < 0:
                return False
            try:
                _copy_one(root, path, entry, target)
            except OSError as error:
                raise_shortage(error)
                is_whole = False
    finally:
        os.close(root)
    return is_whole


def _copy_one(root: int, path: bytes, entry: TreeEntry, target: Path) -> None:
    fd, name = open_parent(root, path)
    try:
        make_parents(target, path)
        place = os.path.join(os.fsencode(target), path)  # noqa: PTH118 - bytes
        if entry.kind == LINK:
            os.symlink(os.readlink(name, dir_fd=fd), place)  # noqa: PTH211
            return
        out = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, entry.mode)
        with open(out, "wb") as file:  # noqa: PTH123 - a descriptor
            file.writelines(file_content(fd, name, _LARGEST_DIFFED))
    finally:
        os.close(fd)


_DIFF = (
    "diff",
    "--no-index",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-prefix",
    "--no-renames",
    "--binary",
    "--full-index",
    "a",
    "b",
)


_ATTRIBUTES = "* -text !eol !crlf !filter -ident !working-tree-encoding !diff !whitespace\n"
"""Those of every file: its bytes are compared as they are."""


def _diff(place: Path, cap: int) -> _Patch:
    """The differences between the two sides; the output is read no further than the cap, and for no longer."""
    process = subprocess.Popen(
        git_command(*_DIFF),
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**safe_environment(place), "GIT_DIR": str(_empty_repository(place / "git"))},
    )
    timer = threading.Timer(_DIFF_SECONDS, process.kill)
    timer.start()
    with process:
        data = process.stdout.read(cap + 1) if process.stdout is not None else b""
        if is_longer := len(data) > cap:
            process.kill()
    timer.cancel()
    # One is the exit code where there are differences.
    error = "" if is_longer or process.returncode in {0, 1} else _diff_error(process.returncode)
    if error:
        check_disk(place)
    return _Patch(data[:cap], is_longer or bool(error), error)


def _diff_error(status: int) -> str:
    how = f"ended with exit code {status}" if status > 0 else f"was ended by signal {-status}"
    return f"git diff {how}; it has {_DIFF_SECONDS:.0f} seconds"


def _empty_repository(place: Path) -> Path:
    run_git(["init", "--quiet", "--bare", "--template=", str(place)], cwd=place.parent)
    (place / "info").mkdir(exist_ok=True)
    (place / "info" / "attributes").write_text(_ATTRIBUTES, encoding="ascii")
    return place


def capture_value(capture: Capture) -> dict[str, Any]:
    """What is recorded of it, without the patch."""
    value: dict[str, Any] = msgspec.to_builtins(capture)
    value.pop("patch", None)
    value["changed_files"] = value.pop("files", [])
    value.setdefault("changed", 0)
    return value
