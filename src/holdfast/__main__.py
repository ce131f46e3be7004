"""The program `holdfast`, also as `python -m holdfast`.

Next to nothing is loaded before it listens to Ctrl-C. Until this file is reached, Python itself is starting, and prints
a traceback; from then on nothing is started and the exit code is 130.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    signal.signal(signal.SIGINT, _exit_before_start)
    from holdfast.cli import main as run_command_line  # noqa: PLC0415 - takes a while to load

    run_command_line()


def _exit_before_start(*_: object) -> None:
    """Ends the process at once: no command runs yet, and no stream holds anything."""
    os.write(2, b"Nothing was started.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
