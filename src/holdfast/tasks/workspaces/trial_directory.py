"""The directory of one trial: its workspace, and beside it what the session knows about it.

It is at a fixed place in the run (`workspaces/<trial>`), and never moves. A workspace counts as prepared once its
marker is written; what a killed session has left of an unfinished preparation is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import msgspec

from holdfast.digests import content_digest
from holdfast.errors import UsageError
from holdfast.processes.left_processes import end_left_processes
from holdfast.processes.supervisor_main import tree_digest
from holdfast.storage.operating_system import boot_id, sync_filesystem
from holdfast.tasks.workspaces.left_files import WorkspaceChange, change_of, changed_files, list_files

WORKSPACES = "workspaces"
REPOSITORIES = ".repositories"
"""In `workspaces`: the objects of repositories, which the workspaces of all trials read."""
UNPACKED = ".files"
"""In `workspaces`: the files of axis values, for solvers that read them by themselves."""
_READY = "ready.json"


class Ready(msgspec.Struct, frozen=True):
    """A prepared workspace, as it was when it was ready."""

    identity: str
    attempt: int
    place: str
    inode: int
    used: bool = False
    """Whether an agent was started in it since."""


class UsedWorkspace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workspace as an agent has left it: by this, what was captured is known to be that agent's work."""

    attempt: int
    place: str
    tree: str = ""
    """A digest of names, types, sizes and times of all files in it; empty if there are too many."""
    base: str = ""
    """The digest of what is noted of it as it was before."""
    boot: str = ""
    """The start of the machine on which the agent has worked."""


class TrialDirectory:
    """The places of one trial."""

    def __init__(self, run: Path, key: str) -> None:
        """`key` names the trial.

        Raises:
            UsageError: the key cannot name a directory.
        """
        if not key or key.startswith(".") or "/" in key or "\0" in key:
            raise UsageError(f"The trial key {key!r} cannot name a directory.")
        self.root = run.absolute() / WORKSPACES / key

    @property
    def workspace(self) -> Path:
        return self.root / "work"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def prompt(self) -> Path:
        """The prompt, for as long as an agent works on it: it may hold keys."""
        return self.root / "prompt.txt"

    @property
    def base(self) -> Path:
        """What the workspace held when it was ready."""
        return self.state / "base.json"

    @property
    def marker(self) -> Path:
        """By this a session knows that the workspace is prepared."""
        return self.state / _READY

    @property
    def replay(self) -> Path:
        """By this a replay script knows that the workspace which it has made is complete."""
        return self.state / "replay"

    @property
    def left(self) -> Path:
        """What the workspace held when the agent had ended."""
        return self.state / "left"

    def make(self) -> None:
        """Makes its directories anew; what was there is removed."""
        self.remove()
        for place in (self.workspace, self.home, self.temporary, self.state):
            place.mkdir(parents=True)

    def remove(self) -> None:
        """Removes everything of it, after the processes that were left in it."""
        if not os.path.lexists(self.root):
            return
        end_left_processes(self.state)
        remove_tree(self.root)

    def set_ready(self, identity: str, attempt: int) -> None:
        """The workspace is prepared."""
        self._write(Ready(identity, attempt, str(self.workspace), self.workspace.lstat().st_ino))

    def set_used(self) -> None:
        """An agent is about to be started in it."""
        if (ready := self.ready()) is not None:
            self._write(msgspec.structs.replace(ready, used=True))

    def ready(self) -> Ready | None:
        """The workspace that is prepared here; None if there is none, or its preparation did not end."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.state / _READY).read_bytes(), type=Ready)
        return None

    def used(self) -> UsedWorkspace | None:
        """The workspace that an agent has left here, on disk when this returns; None if there is none.

        Raises:
            OSError: it could not be written to disk, or what is noted of it cannot be read.
        """
        ready = self.ready()
        if ready is None:
            return None
        tree = list_files(self.workspace, self.left)
        sync_filesystem(self.root)
        base = content_digest(self.base.read_bytes())
        return UsedWorkspace(ready.attempt, ready.place, tree, base, boot_id())

    def change_since(self, used: UsedWorkspace) -> WorkspaceChange | None:
        """What has become of a workspace that an agent has left here; None if it is the same."""
        is_restarted = bool(used.boot) and used.boot != boot_id()
        if state := self._base_state(used):
            text = f"what was noted of it before the agent's work is {state}"
            return WorkspaceChange(text, is_restarted, can_be_captured=False)
        if not used.tree or tree_digest(str(self.workspace)) == used.tree:
            return None
        if not os.path.lexists(self.workspace):
            return WorkspaceChange("it is gone", is_lost=True)
        return change_of(changed_files(self.workspace, self.left, used.tree), is_restarted=is_restarted)

    def _base_state(self, used: UsedWorkspace) -> str:
        """What is wrong with what was noted before the agent's work; empty if nothing is."""
        try:
            is_same = not used.base or content_digest(self.base.read_bytes()) == used.base
        except OSError:
            return "missing"
        return "" if is_same else "damaged"

    def is_fresh(self, identity: str, attempt: int) -> bool:
        """Whether the workspace is as it was prepared, for this attempt, in this place."""
        ready = self.ready()
        if ready is None or ready.used or (ready.identity, ready.attempt) != (identity, attempt):
            return False
        with contextlib.suppress(OSError):
            found = self.workspace.lstat()
            return ready.place == str(self.workspace) and found.st_ino == ready.inode
        return False

    def _write(self, ready: Ready) -> None:
        path = self.state / _READY
        path.with_suffix(".new").write_bytes(msgspec.json.encode(ready))
        path.with_suffix(".new").replace(path)


def remove_tree(root: Path) -> None:
    """Removes a directory, whatever an agent has made of it; links in it are removed, not followed.

    Raises:
        OSError: something of it is left.
    """
    for repair in (False, True):
        if repair:
            _run("chmod", "-R", "u+rwx", "--", str(root))
        # A tree may be deeper than a path can be long: this program copes with that, and the library does not.
        _run("rm", "-rf", "--", str(root))
        if not os.path.lexists(root):
            return
    shutil.rmtree(root)


def _run(*command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def remove_unfinished(run: Path) -> int:
    """Removes what killed sessions have left of preparations, and ends what runs there; how many directories."""
    removed = 0
    with contextlib.suppress(FileNotFoundError):
        for path in list((run / WORKSPACES).iterdir()):
            if path.name.startswith("."):
                continue
            directory = TrialDirectory(run, path.name)
            end_left_processes(directory.state)
            if directory.ready() is None:
                directory.remove()
                removed += 1
    return removed
