"""The program on a filesystem without locks: `flock` fails there, as it does on some network filesystems.

Started as a program it forks processes of the program, as `observed` does with `--zygote`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import observed


class LocklessZygote(observed.Zygote):
    """Forks processes of the program that have no locks."""

    def __init__(self) -> None:
        self.running = set()
        command = [sys.executable, "-W", "default", __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def no_flock(fd: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


if __name__ == "__main__":
    fcntl.flock = no_flock
    observed._serve()
