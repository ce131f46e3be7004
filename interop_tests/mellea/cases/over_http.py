"""With Mellea's own backend for OpenAI's interface, over HTTP: what a server sees of a sampling."""

import asyncio
import json
from contextlib import asynccontextmanager

from mellea.backends.openai import OpenAIBackend
from mellea.stdlib.context import SimpleContext
from rig import error_of, need, sample, shows, unmet
from sides import sampling

HANGS_UP_AFTER = 10.0
"""Longer than any side needs; a server waits so long for a client to hang up."""


class Server:
    """Answers the first request, and holds the others until their client hangs up."""

    def __init__(self, held_from):
        self.held_from, self.requests, self.hung_up = held_from, 0, 0
        self.is_held = asyncio.Event()

    async def serve(self, reader, writer):
        try:
            if not await _read_request(reader):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return
            self.requests += 1
            if self.requests >= self.held_from:
                await self._hold(reader)
            else:
                await self.is_held.wait()
                writer.write(_reply("yes"))
                await writer.drain()
        finally:
            writer.close()

    async def _hold(self, reader):
        self.is_held.set()
        async with asyncio.timeout(HANGS_UP_AFTER):
            await reader.read()
        self.hung_up += 1


async def _read_request(reader):
    """Whether it was a question to a model; the backend also asks what kind of server this is."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
    return bool(lengths)


def _reply(text):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
    return f"{head}\r\n\r\n{body}".encode()


@asynccontextmanager
async def serving(held_from):
    """A server on this machine, and a backend that asks it."""
    server = Server(held_from)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    backend = OpenAIBackend("m", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    try:
        yield server, backend
    finally:
        await backend.aclose()
        listening.close()


async def hung_up(server, count):
    """How many requests the client has given up, a moment after it could have."""
    for _ in range(50):
        if server.hung_up == count:
            break
        await asyncio.sleep(0.01)
    return server.hung_up


@shows(["yes", 3, 2])
async def server_sees_the_losers_hang_up():
    """After a success, the requests of the other lanes are closed; the server sees it."""
    async with serving(held_from=2) as (server, backend):
        strategy = sampling.RejectionSamplingStrategy(concurrency_budget=3)
        result = await sample(strategy, backend, [need("yes")], context=SimpleContext())
        return [result.value, server.requests, await hung_up(server, 2)]


@shows(["CancelledError", 2, 2])
async def server_sees_a_cancellation():
    """After a cancellation, so are all of them."""
    async with serving(held_from=1) as (server, backend):
        strategy = sampling.RejectionSamplingStrategy(concurrency_budget=2)
        task = asyncio.ensure_future(sample(strategy, backend, [unmet()], context=SimpleContext()))
        while server.requests < 2:  # noqa: ASYNC110 - the server has no other way to tell
            await asyncio.sleep(0.005)
        task.cancel()
        return [type(await error_of(task)).__name__, server.requests, await hung_up(server, 2)]
