"""A workspace from its template: the files of a directory, or a repository of its own at the commit.

The repository of a workspace has its own references and its own configuration, and reads the objects of the template
from a copy that all workspaces of the run share: what one agent commits, no other one sees.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.digests import file_digest
from holdfast.errors import RunDamaged
from holdfast.tasks.workspaces.git_command import run_git
from holdfast.tasks.workspaces.storage_errors import storage_errors
from holdfast.tasks.workspaces.tree_state import raise_shortage
from holdfast.tasks.workspaces.trial_directory import REPOSITORIES, UNPACKED, WORKSPACES, TrialDirectory, remove_tree
from holdfast.tasks.workspaces.workspace_template import (
    COMMIT,
    FILES,
    SHALLOW,
    TREE,
    PackedTemplate,
    copy_objects,
    read_small_members,
)

_lock = threading.Lock()
_checked: dict[Path, tuple[int, int, int]] = {}
"""Files of templates that have the content they are named by, as far as their time and size tell."""


class TemplateFile(NamedTuple):
    """The file of a template in a run."""

    run: Path
    digest: str

    @property
    def path(self) -> Path:
        """The file, whose content is what it is named by.

        Raises:
            RunDamaged: it is missing, or was changed.
        """
        place = self.run / "inputs" / self.digest
        try:
            found = place.stat()
            stamp = (found.st_ino, found.st_size, found.st_ctime_ns)
            if _checked.get(place) != stamp:
                if file_digest(place) != self.digest:
                    raise RunDamaged(f"The template of a workspace ({place}) was changed.", hint="Restore it.")
                _checked[place] = stamp
        except OSError as error:
            with storage_errors(place):
                raise_shortage(error)
            raise RunDamaged(
                f"The template of a workspace ({place}) cannot be read: {error.strerror}.", hint="Restore it."
            ) from None
        return place


def check_out(template: TemplateFile, directory: TrialDirectory, overlays: Iterable[TemplateFile] = ()) -> None:
    """Fills the workspace of a trial, which is empty; `overlays` are laid over the template, one after another.

    Raises:
        ConfigurationError: git failed, or a file would be laid over a link.
        RunDamaged: the template in the run is not what it was.
    """
    archive, workspace = template.path, directory.workspace
    members = read_small_members(archive)
    if COMMIT in members:
        shared = shared_repository(template)
        _check_out_commit(shared, members[COMMIT].decode().strip(), members.get(SHALLOW, b""), workspace)
    extract(archive, workspace, (TREE, FILES))
    for overlay in overlays:
        extract(overlay.path, workspace, (FILES,))


def unpacked_file(run: Path, packed: PackedTemplate, path: str) -> Path:
    """Where a file or directory is that a template of nothing else lays over a workspace at `path`.

    Raises:
        RunDamaged: the copy in the run is not what it was.
    """
    place = run.absolute() / WORKSPACES / UNPACKED / packed.digest
    with _lock:
        if not place.is_dir():
            new = place.with_name(f"{place.name}.new")
            if new.exists():
                remove_tree(new)
            new.mkdir(parents=True)
            extract(TemplateFile(run, packed.digest).path, new, (FILES,))
            new.rename(place)
    return place / path


def shared_repository(template: TemplateFile) -> Path:
    """A repository in the run that has the objects of the template; made when it is first needed."""
    place = template.run.absolute() / WORKSPACES / REPOSITORIES / template.digest
    with _lock:
        if place.is_dir():
            return place
        new = place.with_name(f"{place.name}.new")
        if new.exists():
            remove_tree(new)
        new.mkdir(parents=True)
        run_git(["init", "--quiet", "--bare", "--template=", "."], cwd=new)
        with (new / "objects.pack").open("w+b") as stream:
            copy_objects(template.path, stream)
            stream.seek(0)
            run_git(["index-pack", "--stdin"], cwd=new, stdin=stream, environment={"GIT_DIR": str(new)})
        (new / "objects.pack").unlink()
        if shallow := read_small_members(template.path).get(SHALLOW):
            (new / SHALLOW).write_bytes(shallow)
        new.rename(place)
    return place


def _check_out_commit(shared: Path, commit: str, shallow: bytes, workspace: Path) -> None:
    run_git(["init", "--quiet", "--template=", "."], cwd=workspace)
    git = workspace / ".git"
    (git / "objects" / "info").mkdir(parents=True, exist_ok=True)
    (git / "objects" / "info" / "alternates").write_text(f"{shared / 'objects'}\n", encoding="utf-8")
    if shallow:
        (git / SHALLOW).write_bytes(shallow)
    for name, value in (("user.name", "agent"), ("user.email", "agent@localhost")):
        run_git(["config", name, value], cwd=workspace)
    run_git(["checkout", "--quiet", "--force", "--detach", commit], cwd=workspace)


def extract(archive: Path, target: Path, prefixes: tuple[str, ...], only: set[bytes] | None = None) -> None:
    """Writes the members with these prefixes below a directory; with `only`, no others than those of that name.

    Raises:
        OSError: one cannot be written, or would be written through a link.
    """
    with tarfile.open(archive, "r:", errors="surrogateescape") as tar:
        for info in tar:
            prefix = next((prefix for prefix in prefixes if info.name.startswith(prefix)), "")
            name = os.fsencode(info.name[len(prefix) :])
            if prefix and name and (only is None or name in only):
                _extract_member(tar, info, target, name)


def _extract_member(tar: tarfile.TarFile, info: tarfile.TarInfo, target: Path, name: bytes) -> None:
    place = os.path.join(os.fsencode(target), name)  # noqa: PTH118 - bytes
    make_parents(target, name)
    if info.isdir():
        if os.path.islink(place) or not os.path.isdir(place):  # noqa: PTH112, PTH114 - bytes
            os.mkdir(place, info.mode)  # noqa: PTH102
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)  # noqa: PTH108
    if info.issym():
        os.symlink(os.fsencode(info.linkname), place)  # noqa: PTH211
        return
    member = tar.extractfile(info)
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, info.mode)
    with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor
        if member is not None:
            shutil.copyfileobj(member, file, 1 << 20)


def make_parents(target: Path, name: bytes) -> None:
    """Makes the directories above a place below `target`.

    Raises:
        NotADirectoryError: one of them is a link or a file.
    """
    place = os.fsencode(target)
    for part in name.split(b"/")[:-1]:
        place = os.path.join(place, part)  # noqa: PTH118 - bytes
        if os.path.islink(place):  # noqa: PTH114
            raise NotADirectoryError(f"{os.fsdecode(place)} is a link, so nothing is written below it")
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)  # noqa: PTH102
