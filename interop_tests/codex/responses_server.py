"""A server of the Responses API for one purpose: it asks for one command, then says that the work is done.

It notes what it was asked and what it has delivered, so that an agent's report of its tokens can be compared.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

USAGE = {"input_tokens": 11, "output_tokens": 7}


class Delivered(NamedTuple):
    """A reply that its client has got."""

    thread: str
    word: str
    is_last: bool


class ResponsesServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.seconds = 0.0
        """How long it takes over the last reply of a thread."""
        self.threads: dict[str, str] = {}
        """By the id of a thread, the word that it is about."""
        self.resumed: set[str] = set()
        self.waiting: set[str] = set()
        """The threads that wait for their last reply."""
        self.delivered: list[Delivered] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def conversations(self) -> Counter[str]:
        """How many threads were started about each word."""
        return Counter(self.threads.values())

    def tokens(self) -> tuple[int, int]:
        """The tokens of all threads that came to their end."""
        ended = {one.thread for one in self.delivered if one.is_last}
        replies = sum(one.thread in ended for one in self.delivered)
        return replies * USAGE["input_tokens"], replies * USAGE["output_tokens"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ResponsesServer

    def log_message(self, *words: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        texts, thread = json.dumps(body["input"]), body["prompt_cache_key"]
        (word, *_) = re.findall(r"the word (w\d+)", texts)
        is_last = any(item.get("type") == "function_call_output" for item in body["input"])
        with self.server.lock:
            self.server.threads.setdefault(thread, word)
            if '"Continue."' in texts:
                self.server.resumed.add(thread)
        if is_last:
            self._wait(thread)
        if is_closed(self.connection):
            self.close_connection = True
            return
        self._send(events(word, is_last, [tool.get("name") for tool in body["tools"]]), "text/event-stream")
        with self.server.lock:
            self.server.delivered.append(Delivered(thread, word, is_last))

    def _wait(self, thread: str) -> None:
        with self.server.lock:
            self.server.waiting.add(thread)
        end = time.monotonic() + self.server.seconds
        while time.monotonic() < end and not is_closed(self.connection):
            time.sleep(0.02)
        with self.server.lock:
            self.server.waiting.discard(thread)

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def is_closed(connection: socket.socket) -> bool:
    """Whether the client has gone."""
    readable, _, _ = select.select([connection], [], [], 0)
    if not readable:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def events(word: str, is_last: bool, tools: list[str | None]) -> bytes:  # noqa: FBT001 - which of two replies
    """A reply as a stream of events: a command to run, or the final message."""
    item: dict[str, Any]
    if is_last:
        said = [{"type": "output_text", "text": f"I wrote {word}."}]
        item = {"type": "message", "id": "m1", "role": "assistant", "content": said}
    else:
        command = f"echo {word} > made.txt"
        old = "shell" in tools
        given = {"command": ["bash", "-lc", command]} if old else {"cmd": command}
        name = "shell" if old else "exec_command"
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name, "arguments": json.dumps(given)}
    usage = {**USAGE, "total_tokens": sum(USAGE.values())}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    told = [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "item": item, "output_index": 0},
        {"type": "response.completed", "response": {"id": "r1", "usage": {**usage, **details}}},
    ]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in told).encode()
