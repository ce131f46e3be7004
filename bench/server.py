"""`python -m bench.server [SECONDS]`: a chat endpoint that costs next to nothing, in a process of its own.

It speaks just enough HTTP for a client that keeps its connections, reads no more of a request than where it ends, and
gives every one the same reply, after the given number of seconds. It prints its port, serves until its standard input
closes, and then prints how many requests it has received.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_BODY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"canned","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"The capital of that country is, as far as anybody can tell, the city'
    b' that you have in mind."},"finish_reason":"stop"}],"usage":{"prompt_tokens":31,"completion_tokens":22,'
    b'"total_tokens":53}}'
)
_REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


class _Connection(asyncio.Protocol):
    """One client connection; a request is answered as soon as its last byte is there."""

    requests = 0
    """Of all connections."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._left, self._head = seconds, 0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._left:
            head, mark, body = (self._head + data).partition(b"\r\n\r\n")
            if not mark:
                self._head += data
                return
            self._head, data = b"", body
            self._left = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        self._left -= len(data)
        if not self._left:
            self._answer()

    def _answer(self) -> None:
        _Connection.requests += 1
        if self._seconds:
            asyncio.get_running_loop().call_later(self._seconds, self._transport.write, _REPLY)
        else:
            self._transport.write(_REPLY)


async def _serve(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(seconds), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    print(_Connection.requests, flush=True)


class CannedServer:
    """A server process: its base URL, and the number of requests once it has stopped."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the server has no pipes")
        self._stdin, self._stdout = process.stdin, process.stdout
        self.url = f"http://127.0.0.1:{int(self._stdout.readline())}/v1"

    def stop(self) -> int:
        """Stops the server; the requests that it has received."""
        self._stdin.close()
        return int(self._stdout.readline())


@contextlib.contextmanager
def canned_server(seconds: float = 0.0) -> Iterator[CannedServer]:
    """Such a server, which runs as long as the block does, or until it is stopped."""
    command = [sys.executable, "-m", "bench.server", str(seconds)]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        yield CannedServer(process)


@contextlib.contextmanager
def serving(seconds: float = 0.0) -> Iterator[str]:
    """The base URL of such a server, which runs as long as the block does."""
    with canned_server(seconds) as server:
        yield server.url
        server.stop()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
