"""A proxy between the program and an S3 server that makes trouble, request by request.

It understands HTTP, so that a connection which was kept open gets round nothing. It listens on 127.0.0.1 only.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRITES = ("PUT", "POST", "DELETE")
FAULTS = ("404", "403", "503", "dead", "slow", "flapping", "read-only")
"""The kinds of trouble that a campaign draws from."""
_ERRORS = {
    "404": (404, "NoSuchKey", ""),
    "no-bucket": (404, "NoSuchBucket", ""),
    "403": (403, "AccessDenied", ""),
    "503": (503, "SlowDown", ""),
    "skewed": (
        403,
        "RequestTimeTooSkewed",
        "<RequestTime>20261118T120000Z</RequestTime><ServerTime>2026-11-18T14:00:00Z</ServerTime>",
    ),
}
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Proxy:
    """Stands in front of a server: passes every request on, or does to it what `mode` says.

    404, no-bucket, 403, 503 and skewed answer with that error; dead closes the connection; slow waits a while;
    flapping fails about half of the requests; read-only refuses writes.
    """

    def __init__(self, target: str) -> None:
        self.target = int(target.rpartition(":")[2])
        self.mode = "pass"
        self.refuse_writes_of = ""
        """The end of an object's name."""
        self.only = ""
        """If set, the mode is for requests whose path ends in this."""
        self.refused = self.slowed = self.passed_bytes = 0
        self.requests: list[tuple[float, str, str]] = []
        """When each came, its method and its path."""
        self.chance = random.Random(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def fault(self, method: str, path: str) -> str:
        """What is done to a request; empty where it is passed on."""
        if self.refuse_writes_of and method == "PUT" and path.endswith(self.refuse_writes_of):
            return "503"
        if self.mode == "pass" or (self.only and not path.endswith(self.only)):
            return ""
        if self.mode == "read-only":
            return "403" if method in WRITES else ""
        if self.mode == "flapping":
            return self.chance.choice(("", "", "404", "403", "503", "dead"))
        return self.mode

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    proxy: Proxy

    def handle(self) -> None:
        # Who asks may be killed at any moment.
        with contextlib.suppress(OSError, http.client.HTTPException):
            super().handle()

    def _serve(self) -> None:
        proxy, path = self.proxy, self.path.split("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy.requests.append((time.monotonic(), self.command, path))
        fault = proxy.fault(self.command, path)
        if fault == "slow":
            proxy.slowed += 1
            time.sleep(0.2)
        elif fault:
            proxy.refused += 1
            self._refuse(fault)
            return
        self._pass_on(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - names of the library

    def _refuse(self, fault: str) -> None:
        if fault == "dead":
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, code, more = _ERRORS[fault]
        text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message>{more}</Error>'
        self._answer(status, {"Content-Type": "application/xml"}, text.encode())

    def _pass_on(self, body: bytes) -> None:
        server = http.client.HTTPConnection("127.0.0.1", self.proxy.target, timeout=60)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                server.putheader(name, value)
            server.endheaders(body or None)
            answer = server.getresponse()
            found = answer.read()
        except OSError:
            self.close_connection = True
            return
        finally:
            server.close()
        self.proxy.passed_bytes += len(body) + len(found)
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
        size = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, headers, found, size)

    def _answer(self, status: int, headers: dict[str, str], body: bytes, size: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", size or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Says nothing."""
