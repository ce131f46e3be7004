"""Object stores for the tests: a real S3 server, one that ignores conditions, and a proxy that makes trouble.

All of them listen on 127.0.0.1 only, and are ended by the process that started them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

from bench.object_store import BUCKET, KEYS, PATIENCE_SECONDS, StoreServer, free_ports, tool

__all__ = ["BUCKET", "KEYS", "Proxy", "StoreServer", "forgetful_store"]


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
        self.refused = self.slowed = self.passed_bytes = 0
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
                self.passed_bytes += len(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
