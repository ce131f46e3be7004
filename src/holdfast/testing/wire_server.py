"""A real HTTP server on 127.0.0.1 that answers every request alike, and notes what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import msgspec
from aiohttp import web


class WireAnswer(msgspec.Struct, frozen=True):
    """What the server sends; with `is_held`, it never does."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    content_type: str = "application/json"
    is_held: bool = False


class WireServer:
    """A running server; made by `wire_server`."""

    def __init__(self, answer: WireAnswer) -> None:
        self.answer, self.base_url = answer, ""
        self.bodies: list[bytes] = []
        """The bodies of all requests."""
        self.headers: list[dict[str, str]] = []
        """Their headers, with names in small letters."""
        self.targets: list[str] = []
        """Their methods and paths."""
        self.arrived, self.left = asyncio.Event(), asyncio.Event()
        """Whether a request has come, and whether a client has gone before it was answered."""

    async def handle(self, request: web.Request) -> web.Response:
        """Answers one request."""
        self.bodies.append(await request.read())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.targets.append(f"{request.method} {request.path}")
        self.arrived.set()
        if self.answer.is_held:
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
        answer = self.answer
        return web.Response(
            body=answer.body, status=answer.status, headers=answer.headers, content_type=answer.content_type
        )


@contextlib.asynccontextmanager
async def wire_server(answer: WireAnswer) -> AsyncIterator[WireServer]:
    """A server that is there for the length of the block; `base_url` is its address."""
    server = WireServer(answer)
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()
