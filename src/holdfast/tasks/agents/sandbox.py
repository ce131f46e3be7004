"""What keeps an agent from writing outside of its workspace: bubblewrap or sandlock, behind one interface.

A sandbox that is not installed is an error before anything starts: an agent that is to be kept in never runs without.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.tasks.agents import sandlock_main

NONE, BUBBLEWRAP, SANDLOCK = "none", "bubblewrap", "sandlock"
_TRY_SECONDS = 20.0
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm")  # noqa: S108 - a device


class Confinement(NamedTuple):
    """What a sandboxed command may do."""

    writable: Sequence[Path]
    cwd: Path
    network: bool
    hidden: Path | None = None
    """The run: nothing of it can be seen but what is writable and `readable`, where the sandbox can hide files."""
    readable: Sequence[Path] = ()


class Sandbox(Protocol):
    """Puts a command into confinement."""

    def check(self) -> None:
        """Raises ConfigurationError where it cannot be used on this machine."""

    def wrap(self, command: Sequence[str], confinement: Confinement) -> list[str]:
        """The command line that runs the command in it."""


class NoSandbox:
    """Nothing is kept from anything."""

    def check(self) -> None:
        """There is nothing to miss."""

    def wrap(self, command: Sequence[str], confinement: Confinement) -> list[str]:  # noqa: ARG002 - as every sandbox
        return list(command)


class Bubblewrap:
    """Namespaces: only the workspace, the home and the temporary directory can be written.

    Everything else can be read, but for the run: other trials' work, and the targets.
    """

    def check(self) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise ConfigurationError("The sandbox bubblewrap is not installed.", hint="Install the package bubblewrap.")
        _try_out("bubblewrap", [program, *_NAMESPACES, "--unshare-net", "true"])

    def wrap(self, command: Sequence[str], confinement: Confinement) -> list[str]:
        places = [part for path in confinement.writable for part in ("--bind", str(path), str(path))]
        if confinement.hidden is not None:
            run = str(confinement.hidden)
            read = [part for path in confinement.readable for part in ("--ro-bind-try", str(path), str(path))]
            places = ["--tmpfs", run, *places, *read, "--remount-ro", run]
        net = [] if confinement.network else ["--unshare-net"]
        return ["bwrap", *_NAMESPACES, *places, *net, "--chdir", str(confinement.cwd), "--", *command]


_NAMESPACES = (
    *("--ro-bind", "/", "/"),
    *("--dev", "/dev"),
    *("--proc", "/proc"),
    *("--tmpfs", "/dev/shm"),  # noqa: S108 - a device
    "--unshare-pid",
    "--unshare-ipc",
    "--die-with-parent",
)


class Sandlock:
    """Landlock and seccomp, without namespaces: as bubblewrap, but the run can be read as well."""

    def check(self) -> None:
        if importlib.util.find_spec("sandlock") is None:
            raise ConfigurationError(
                "The sandbox sandlock is not installed.", hint="Install it: pip install 'holdfast[sandbox]'."
            )
        _try_out("sandlock", self.wrap(["true"], Confinement((), Path("/"), network=True)))

    def wrap(self, command: Sequence[str], confinement: Confinement) -> list[str]:
        writable = [*map(str, confinement.writable), *_DEVICES]
        policy = msgspec.json.encode({"writable": writable, "network": confinement.network}).decode()
        return [sys.executable, "-I", sandlock_main.__file__, policy, *command]


def _try_out(name: str, command: list[str]) -> None:
    """Raises ConfigurationError where a sandbox is installed and this machine does not let it work."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"The sandbox {name} cannot be used: {error}.") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ConfigurationError(
            f"The sandbox {name} does not work on this machine: {said[-1] if said else done.returncode}.",
            hint="Use another sandbox, or wrap: with the command of a container engine.",
        )


_SANDBOXES: dict[str, type[Sandbox]] = {NONE: NoSandbox, BUBBLEWRAP: Bubblewrap, SANDLOCK: Sandlock}


def sandbox_named(name: str) -> Sandbox:
    """The sandbox of that name."""
    return _SANDBOXES[name]()
