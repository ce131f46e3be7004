"""Object stores for the tests: a real S3 server, and one that ignores conditions.

All of them listen on 127.0.0.1 only, and are ended by the process that started them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path

from bench.object_store import BUCKET, KEYS, PATIENCE_SECONDS, StoreServer, free_ports, tool

__all__ = ["BUCKET", "KEYS", "StoreServer", "forgetful_store"]


@contextlib.contextmanager
def forgetful_store(directory: Path):
    """A server that takes every write, whatever its conditions; gives its endpoint."""
    (port,) = free_ports(1)
    (directory / BUCKET).mkdir(parents=True)
    command = [tool("rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", "test,testsecret"]
    with (directory / "log").open("ab") as log:
        environment = {**os.environ, "RCLONE_CONFIG": str(directory / "none.conf")}
        process = subprocess.Popen([*command, str(directory)], stdout=log, stderr=log, env=environment)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > deadline:
                raise AssertionError((directory / "log").read_text())
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
