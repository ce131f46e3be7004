"""Runs a command under sandlock: a script, with the policy as JSON in its first argument and the command after it."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Confines this process and becomes the command; without a network, the command is a child."""
    from sandlock import Sandbox, confine  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415

    policy, command = json.loads(sys.argv[1]), sys.argv[2:]
    places = {"fs_readable": ["/"], "fs_writable": [path for path in policy["writable"] if os.path.exists(path)]}  # noqa: PTH110
    if not policy["network"]:
        sys.exit(Sandbox(**places).run_interactive(command))
    confine(Sandbox(**places))
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command of the task
    except OSError as error:
        sys.stderr.write(f"holdfast: {command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
