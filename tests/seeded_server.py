"""A chat server that draws its reply from the seed of the request, and keeps what it was sent."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JUDGED = "It must be lucky."
"""The criterion of a judge; a request that has it gets a verdict."""


class SeededServer:
    """What the server was asked. A request without a seed gets a reply that is never drawn again."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._unseeded = 0
        self.base_url = ""

    @property
    def seeds(self) -> list[int | None]:
        """The seed of every request, in the order in which they came."""
        return [body.get("seed") for body in self.bodies]

    def answer(self, body: dict[str, Any]) -> str:
        """The text of a reply; what comes later may be answered sooner."""
        with self._lock:
            self.bodies.append(body)
            position = len(self.bodies)
            self._unseeded += "seed" not in body
            drawn_from = f"{body.get('seed', f'none {self._unseeded}')} {json.dumps(body['messages'])}"
        time.sleep(0.012 if position % 3 == 1 else 0.0)
        drawn = random.Random(drawn_from).randrange(10**9)
        if JUDGED in json.dumps(body["messages"]):
            return json.dumps({"explanation": f"draw {drawn}", "met": drawn % 2 == 0})
        return f"draw {drawn}"


@contextlib.contextmanager
def seeded_server() -> Iterator[SeededServer]:
    """A running server."""
    state = SeededServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = state.answer(body)
            message = {"role": "assistant", "content": text}
            usage = {"prompt_tokens": 3, "completion_tokens": 2}
            whole = {"model": "drawn", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
            data = json.dumps(whole).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
