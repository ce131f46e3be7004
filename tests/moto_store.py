"""A second S3 server, moto, for the same tests: `make moto` has them run against it.

It is written in Python, keeps everything in memory, and is installed in an environment of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import time
from pathlib import Path

from obstore.store import S3Store

from bench.object_store import BUCKET, PATIENCE_SECONDS, free_ports

PROGRAM = "HOLDFAST_TEST_MOTO"
"""The path of moto_server; if it is set, tests use it instead of the usual server."""


class MotoServer:
    """A server of moto in a process of its own; what it holds ends with it."""

    def __init__(self, directory: Path) -> None:
        (self._port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self._port}"
        command = [os.environ[PROGRAM], "-H", "127.0.0.1", "-p", str(self._port)]
        with (directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._has_bucket():
            if time.monotonic() > deadline:
                raise RuntimeError((directory / "log").read_text(encoding="utf-8")[-2000:])
            time.sleep(0.1)

    def _has_bucket(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            server.request("PUT", f"/{BUCKET}")
            return server.getresponse().status in {200, 409}
        return False

    def bucket(self, prefix: str | None = None) -> S3Store:
        """The bucket as its own library sees it, for looking and for doing damage."""
        return S3Store(
            BUCKET,
            prefix=prefix,
            endpoint=self.endpoint,
            access_key_id="test",
            secret_access_key="testsecret",
            region="us-east-1",
            client_options={"allow_http": True, "timeout": "5s"},
            retry_config={"max_retries": 0},
        )

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
