"""Object stores for the tests: a real S3 server, one that ignores conditions, and a proxy that makes trouble.

All of them listen on 127.0.0.1 only, and are ended by the process that started them.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
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


class ObjectStore:
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
                raise AssertionError((self._directory / "log").read_text()[-2000:])
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


class Proxy:
    """Stands in front of a server: passes everything on, slowly, or answers 503 to all or to writes of one object."""

    def __init__(self, target: str) -> None:
        self._target = int(target.rpartition(":")[2])
        self.mode = "pass"
        self.refuse_writes_of = ""
        """The end of an object's name."""
        self.refused = self.slowed = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if self.mode == "503":
                self._refuse(client)
                return
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
                back.start()
                self._pump(client, server)
                back.join(5)

    def _refuse(self, client: socket.socket) -> None:
        client.settimeout(2)
        client.recv(65536)
        self._answer_503(client)

    def _answer_503(self, client: socket.socket) -> None:
        self.refused += 1
        client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def _is_refused(self, data: bytes) -> bool:
        """Whether these are the first bytes of a request that is to be refused."""
        words = data.split(b"\r\n", 1)[0].split()
        name = self.refuse_writes_of.encode()
        return bool(name) and words[:1] == [b"PUT"] and words[1].split(b"?")[0].endswith(name)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.mode == "503":
                    # A connection that was kept open must not get round the refusal.
                    break
                if self._is_refused(data):
                    self._answer_503(source)
                    break
                if self.mode == "slow":
                    self.slowed += 1
                    time.sleep(0.2)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
